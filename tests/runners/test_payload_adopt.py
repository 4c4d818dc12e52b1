"""What another program has built becomes an image of Tare, on the base's own blobs."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from runners.images.archives import describe_image
from runners.payload import adopt, image_archive, pack
from tests.runners.test_payload_extend import ARCHITECTURE, base

__all__ = ["base"]  # a fixture


def write_built(path: Path, layers: list[bytes], labels: dict[str, str]) -> None:
    """Write an archive as another program does: with its own manifest, and layers by gzip."""
    with path.open("w+b") as file:
        writer = pack.Writer(file)
        rows, ids = [], []
        for layer in layers:
            ids.append(f"sha256:{hashlib.sha256(layer).hexdigest()}")
            rows.append(writer.add_bytes(f"{pack.LAYER}+gzip", gzip.compress(layer, mtime=7)))
        config = pack.encode_json(
            {
                "architecture": ARCHITECTURE,
                "os": "linux",
                "created": "2026-11-27T03:00:00Z",
                "config": {"Env": ["A=1"], "Labels": labels},
                "rootfs": {"type": "layers", "diff_ids": ids},
            }
        )
        about = pack.make_descriptor(pack.CONFIG, hashlib.sha256(config).hexdigest(), len(config))
        manifest = {"schemaVersion": 2, "mediaType": pack.MANIFEST, "config": about}
        writer.finish(pack.encode_json({**manifest, "layers": rows}), config)


def read_layers(archive: Path) -> list[bytes]:
    """Return the layers of an archive as they are in it."""
    with archive.open("rb") as file:
        image = image_archive.Archive(file).read_manifest(ARCHITECTURE)
        layers = []
        for layer in image.layers:
            file.seek(layer.blob.offset)
            layers.append(file.read(layer.blob.size))
        return layers


def make_layer(tmp_path: Path, text: str) -> bytes:
    folder = tmp_path / f"layer-{text}"
    (folder / "opt").mkdir(parents=True)
    (folder / "opt" / "word").write_text(text)
    archive = tmp_path / f"{text}.tar"
    with archive.open("w+b") as file:
        pack.write(file, [pack.Source(str(folder))], {}, {})
    return read_layers(archive)[0]


def test_the_bases_own_blobs_stay_and_new_layers_follow(tmp_path: Path, base: Path) -> None:
    (own,) = read_layers(base)
    new = make_layer(tmp_path, "new")
    built, packed = tmp_path / "built.tar", tmp_path / "packed.tar"
    write_built(built, [own, new, new], {"by": "another"})
    arguments = ["pack", str(built), str(packed), "--base", str(base), "--label", "tare.base=x"]
    assert adopt.main(arguments) == 0
    layers = read_layers(packed)
    assert layers[0] == own, "the base is not compressed anew"
    assert [gzip.decompress(layer) for layer in layers[1:]] == [new, new]
    read = describe_image(packed, architecture=ARCHITECTURE)
    with packed.open("rb") as file:
        config = image_archive.Archive(file).read_manifest(ARCHITECTURE).config
    assert config["config"] == {"Env": ["A=1"], "Labels": {"by": "another", "tare.base": "x"}}

    result, survey = tmp_path / "result.json", tmp_path / "survey.json"
    survey.write_text("{}")
    arguments = ["--folder", str(tmp_path), "--result", str(result), "--survey", str(survey)]
    assert adopt.main(["keep", str(packed), *arguments]) == 0
    kept = json.loads(result.read_text())
    assert kept["digest"] == read.digest
    assert Path(kept["path"]).name == f"{read.digest.removeprefix('sha256:')}.archive"
    assert hashlib.sha256(Path(kept["path"]).read_bytes()).hexdigest() == kept["sha256"]


def test_what_is_not_built_on_the_base_is_taken_as_it_is(tmp_path: Path, base: Path) -> None:
    new = make_layer(tmp_path, "other")
    built, packed = tmp_path / "built.tar", tmp_path / "packed.tar"
    write_built(built, [new], {})
    assert adopt.main(["pack", str(built), str(packed), "--base", str(base)]) == 0
    assert [gzip.decompress(layer) for layer in read_layers(packed)] == [new]


def test_a_sif_file_is_known_by_its_own_sha256(tmp_path: Path) -> None:
    sif, result, survey = tmp_path / "made.sif", tmp_path / "result.json", tmp_path / "survey.json"
    sif.write_bytes(b"a SIF file")
    survey.write_text("{}")
    arguments = ["--folder", str(tmp_path), "--result", str(result), "--survey", str(survey)]
    assert adopt.main(["keep", str(sif), "--sif", *arguments]) == 0
    digest = hashlib.sha256(b"a SIF file").hexdigest()
    assert json.loads(result.read_text()) == {
        "digest": f"sha256:{digest}",
        "sha256": digest,
        "bytes": 10,
        "path": str(tmp_path / f"{digest}.archive"),
        "survey": {},
    }


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"x" * 5000])
def test_what_is_no_archive_is_refused_in_words(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    built = tmp_path / "built.tar"
    built.write_bytes(content)
    assert adopt.main(["pack", str(built), str(tmp_path / "packed.tar")]) == 1
    assert "What was built cannot be read" in capsys.readouterr().out
