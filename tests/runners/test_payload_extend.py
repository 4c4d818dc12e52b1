"""A base and one more folder are an image, with the same digest for the same files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from runners.images.archives import describe_image
from runners.payload import extend, image_archive, pack, survey

ARCHITECTURE = pack.ARCHITECTURES.get(os.uname().machine, os.uname().machine)


def base_folder(at: Path) -> Path:
    (at / "etc").mkdir(parents=True)
    (at / "etc" / "os-release").write_text('PRETTY_NAME="Small 1"\n')
    (at / "usr" / "bin").mkdir(parents=True)
    (at / "usr" / "bin" / "true").write_bytes(b"\x7fELF")
    return at


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = base_folder(tmp_path / "base")
    archive = tmp_path / "base.tar"
    with archive.open("w+b") as file:
        config = {"Env": ["PATH=/usr/bin", "LANG=C"], "Cmd": ["/bin/sh"]}
        pack.write(file, [pack.Source(str(folder))], config, {"kept": "yes"})
    return archive


def made(tmp_path: Path, name: str, base: Path | None, text: str = "1\n") -> dict[str, object]:
    """What comes of the base with /opt/tare/probe.py in it."""
    root = base_folder(tmp_path / name)
    (root / "opt" / "tare").mkdir(parents=True)
    (root / "opt" / "tare" / "probe.py").write_text(text)
    result, seen = tmp_path / f"{name}.json", tmp_path / f"{name}.survey"
    seen.write_text(json.dumps(survey.survey_folder(str(root))))
    arguments = [str(root), "opt/tare", "--folder", str(tmp_path), "--result", str(result)]
    arguments += ["--survey", str(seen), "--label", "tare.lock=abc"]
    assert extend.main([*arguments, *(["--base", str(base)] if base else [])]) == 0
    result_facts: dict[str, object] = json.loads(result.read_text())
    return result_facts


@pytest.mark.parametrize("of_layers", [True, False])
def test_the_image_is_known_by_what_it_says_of_itself(
    tmp_path: Path, base: Path, of_layers: bool
) -> None:
    result_facts = made(tmp_path, "one", base if of_layers else None)
    path = Path(str(result_facts["path"]))
    assert path.name == str(result_facts["digest"]).removeprefix("sha256:") + ".archive"
    read = describe_image(path, architecture=ARCHITECTURE)
    assert read.digest == result_facts["digest"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == result_facts["sha256"]
    assert read.survey["tree"] == result_facts["survey"]["tree"]  # type: ignore[index]


def test_the_same_files_have_the_same_digest_and_others_another(tmp_path: Path, base: Path) -> None:
    digests = [made(tmp_path, name, base)["digest"] for name in ("one", "two")]
    assert digests[0] == digests[1]
    assert made(tmp_path, "three", base, text="2\n")["digest"] != digests[0]


def test_the_base_keeps_its_layers_variables_and_labels(tmp_path: Path, base: Path) -> None:
    result_facts = made(tmp_path, "one", base)
    with base.open("rb") as before, Path(str(result_facts["path"])).open("rb") as after:
        base_image = image_archive.Archive(before).read_manifest(ARCHITECTURE)
        extended_image = image_archive.Archive(after).read_manifest(ARCHITECTURE)
    assert extended_image.content["layers"][:-1] == base_image.content["layers"]
    assert len(extended_image.layers) == len(base_image.layers) + 1
    config = extended_image.config["config"]
    assert config["Env"] == ["PATH=/opt/tare/bin:/usr/bin", "LANG=C"]
    assert config["Labels"] == {"kept": "yes", "tare.lock": "abc"}


def test_a_base_that_is_cut_off_is_refused_in_words(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base.write_bytes(base.read_bytes()[:3000])
    root = base_folder(tmp_path / "root")
    (root / "opt" / "tare").mkdir(parents=True)
    arguments = [str(root), "opt/tare", "--base", str(base), "--folder", str(tmp_path)]
    assert extend.main([*arguments, "--result", str(tmp_path / "result")]) == 1
    assert "The base cannot be read: " in capsys.readouterr().out
    assert not (tmp_path / "result").exists()
