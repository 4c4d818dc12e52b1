"""What a bundle may not be: refused in plain words, and nothing of it is kept."""

from __future__ import annotations

import hashlib
import io
import json
import resource
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from experiments.execution import excluded_runs
from experiments.imports import ImportProblem
from experiments.imports import bundle_door as door
from experiments.imports.imported_bundles import import_bundle
from experiments.models import AuditEntry, Cluster, Event, Experiment, Job, Run, Snapshot
from tests.experiments.bundles import test_forgeries as forgeries
from tests.experiments.bundles.studies import NAME, end_runs, launch, make_bundle, unpack
from tests.experiments.bundles.test_forgeries import Files, edit, find_run, pack, sum_up
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def files() -> Files:
    """Return the files of a bundle of another site: its experiment is not on this one."""
    experiment = launch(containers=2, repeats=5)
    end_runs(experiment, spread=0.01, steps=60)
    content = unpack(make_bundle(experiment))
    Experiment.objects.get(pk=experiment.pk).delete()
    return content


def count_rows() -> list[int]:
    models = (Experiment, Job, Run, Cluster, Event, Snapshot, AuditEntry)
    return [model.objects.count() for model in models]


def refuse(content: bytes, folder: Path) -> str:
    """Return why a bundle is refused, after which there are as many rows as before."""
    path = folder / "bundle.zip"
    path.write_bytes(content)
    owner = UserFactory()
    before = count_rows()
    with pytest.raises(ImportProblem) as refusal:
        import_bundle(path, owner, file_name="bundle.zip")
    assert count_rows() == before
    return str(refusal.value)


def test_the_bundle_itself_is_imported(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(pack(sum_up(files)))
    imported = import_bundle(path, UserFactory(), file_name="bundle.zip")
    assert imported.experiment.runs.count() == 15


def test_each_byte_counts(files: Files, tmp_path: Path) -> None:
    """The last byte of one file of each kind is another one."""
    kinds = {name.rpartition("/")[2]: name for name in sorted(files)}
    for name in kinds.values():
        if name == "tagmanifest-sha256.txt":
            continue
        changed = files | {name: files[name][:-1] + bytes([files[name][-1] ^ 1])}
        assert door.clean_text(name) in refuse(pack(changed), tmp_path) or "line" in refuse(
            pack(changed), tmp_path
        )


def test_a_byte_of_the_zip_itself_is_noticed(files: Files, tmp_path: Path) -> None:
    content = bytearray(pack(files))
    content[len(content) // 3] ^= 0x40
    assert refuse(bytes(content), tmp_path)


@pytest.mark.parametrize(
    "name",
    ["data/plan.json", "bagit.txt", "manifest-sha256.txt", "data/events.jsonl", "bag-info.txt"],
)
def test_a_missing_file_is_named(files: Files, name: str, tmp_path: Path) -> None:
    rest = {other: content for other, content in files.items() if other != name}
    assert f"{name} is missing" in refuse(pack(rest), tmp_path)


def test_a_missing_run_is_named_though_all_sums_hold(files: Files, tmp_path: Path) -> None:
    run = find_run(files, state="succeeded").rpartition("/")[0]
    rest = {name: content for name, content in files.items() if not name.startswith(run)}
    assert "a planned run is missing" in refuse(pack(sum_up(rest)), tmp_path)


def test_half_a_block_is_named(files: Files, tmp_path: Path) -> None:
    kept = dict(files)
    for name in [name for name in files if name.endswith("/run.json")]:
        run = json.loads(files[name])
        if run["block"] == 2 and run["position"] > 0:
            kept = {
                other: content
                for other, content in kept.items()
                if not other.startswith(f"data/runs/{run['run']}/")
            }
    assert "a planned run is missing" in refuse(pack(sum_up(kept)), tmp_path)


def test_the_same_block_twice_is_named(files: Files, tmp_path: Path) -> None:
    more = dict(files)
    for name, content in files.items():
        parts = name.split("/")
        if (
            parts[1:2] == ["runs"]
            and json.loads(files["/".join([*parts[:3], "run.json"])])["block"] == 1
        ):
            uid = parts[2][::-1]
            more["/".join([*parts[:2], uid, *parts[3:]])] = content.replace(
                parts[2].encode(), uid.encode()
            )
    assert "runs, each planned once: 18 is stated, 15 computed" in refuse(
        pack(sum_up(more)), tmp_path
    )


def test_a_run_in_another_ones_folder_is_refused(files: Files, tmp_path: Path) -> None:
    first, second = sorted(name for name in files if name.endswith("/run.json"))[:2]
    forged = files | {first: files[second]}
    assert "not those of their folders" in refuse(pack(sum_up(forged)), tmp_path)


def test_results_of_another_plan_are_refused(files: Files, tmp_path: Path) -> None:
    other = launch(containers=2, repeats=5)
    end_runs(other, spread=0.01)
    theirs = unpack(make_bundle(other))
    Experiment.objects.get(pk=other.pk).delete()
    mixed = {name: content for name, content in files.items() if "/runs/" not in name}
    mixed |= {name: content for name, content in theirs.items() if "/runs/" in name}
    mixed |= {"data/events.jsonl": theirs["data/events.jsonl"]}
    mixed |= {name: content for name, content in theirs.items() if "/snapshots/" in name}
    why = refuse(pack(sum_up(mixed)), tmp_path)
    assert "a planned run is missing" in why


def change_the_rules(files: Files) -> None:
    edit(files, "data/experiment.json", lambda about: about.update(rules=2))


def change_the_format(files: Files) -> None:
    edit(files, "data/experiment.json", lambda about: about.update(format="tare-bundle 9"))


@pytest.mark.parametrize("change", [change_the_rules, change_the_format])
def test_another_version_of_the_method_is_named(
    files: Files, change: Callable[[Files], None], tmp_path: Path
) -> None:
    change(files)
    assert "another version of the method" in refuse(pack(sum_up(files)), tmp_path)


@pytest.mark.parametrize("forge", forgeries.SUMMED_UP, ids=lambda forge: str(forge.__name__))
def test_what_a_forger_changes_with_all_sums_made_anew_is_refused(
    forge: Callable[[Files], None], tmp_path: Path
) -> None:
    experiment = launch(containers=2, repeats=6)
    end_runs(experiment, spread=0.01, steps=120)
    run = experiment.runs.exclude(environment=experiment.baseline_id).order_by("pk")[3]
    assert excluded_runs.exclude(run, experiment.owner, "the fan was broken")
    content = unpack(make_bundle(Experiment.objects.get(pk=experiment.pk)))
    Experiment.objects.get(pk=experiment.pk).delete()
    forge(content)
    assert refuse(pack(sum_up(content)), tmp_path)


def write_zip(*entries: tuple[str, bytes], mode: int = 0) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            bundle.writestr(info, content)
    return file.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "../outside.txt",
        "bag/../../outside.txt",
        "/etc/passwd",
        "bag\\..\\x",
        "bag/data/C:/x",
        "bag",
    ],
)
def test_a_path_that_climbs_out_is_refused(name: str, tmp_path: Path) -> None:
    content = write_zip(("bag/bagit.txt", b"BagIt-Version: 1.0\n"), (name, b"x"))
    why = refuse(content, tmp_path)
    assert "outside of" in why or "no name of a file" in why or "no file of a bundle" in why
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.zip"]


@pytest.mark.parametrize("base", ["..", ".", ""])
def test_a_folder_that_is_no_folder_is_refused(files: Files, base: str, tmp_path: Path) -> None:
    assert refuse(pack(files, base=base), tmp_path)


def test_links_in_the_zip_are_refused(tmp_path: Path) -> None:
    content = write_zip(("bag/bagit.txt", b"/etc/passwd"), mode=0o120777)
    assert "is no plain file" in refuse(content, tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_name_that_is_there_twice_is_refused(files: Files, tmp_path: Path) -> None:
    entries = [(f"{NAME}/{name}", content) for name, content in files.items()]
    content = write_zip(*entries, (f"{NAME}/data/plan.json", b"{}"))
    assert "is in it twice" in refuse(content, tmp_path)


def test_a_file_of_another_kind_is_refused(files: Files, tmp_path: Path) -> None:
    forged = sum_up(files | {"data/runs/settings.py": b"import os"})
    assert "data/runs/settings.py is no file of a bundle" in refuse(pack(forged), tmp_path)


def test_a_bomb_by_what_it_declares_is_refused(tmp_path: Path) -> None:
    content = write_zip(("bag/data/runs/" + 32 * "a" + "/run.json", bytes(8 << 20)))
    assert "larger than 1 MiB" in refuse(content, tmp_path)


def test_a_bomb_that_lies_about_its_size_is_refused(files: Files, tmp_path: Path) -> None:
    large = dict(files)
    large["data/methods.txt"] = bytes(30 << 20)
    content = bytearray(pack(sum_up(large)))
    real, stated = struct.pack("<I", 30 << 20), struct.pack("<I", 1000)
    assert content.count(real) >= 2
    why = refuse(bytes(content.replace(real, stated)), tmp_path)
    assert "longer than it says" in why or "cannot be read" in why or "CRC" in why


def test_files_that_overlap_are_refused(files: Files, tmp_path: Path) -> None:
    """One packed file that many entries name: the bomb of David Fifield."""
    content = pack(sum_up(files))
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        start = bundle.start_dir
    listed, end = content[start:-22], bytearray(content[-22:])
    more = bytearray()
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        largest = max(bundle.infolist(), key=lambda info: info.compress_size)
    place = listed.index(largest.filename.encode()) - 46
    length = 46 + len(largest.filename)
    for number in range(200):
        entry = bytearray(listed[place : place + length])
        name = f"{NAME}/data/runs/{number:032x}/run.json".encode()
        entry[28:30] = struct.pack("<H", len(name))
        more += entry[:46] + name
    count = struct.unpack("<H", end[10:12])[0] + 200
    end[8:12] = struct.pack("<HH", count, count)
    end[12:16] = struct.pack("<I", len(listed) + len(more))
    forged = content[:start] + listed + bytes(more) + bytes(end)
    why = refuse(forged, tmp_path)
    assert "overlap" in why or "larger than" in why


def test_a_million_entries_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    entry = bytearray(46)
    entry[:4] = b"PK\x01\x02"
    entry[28:30] = struct.pack("<H", 6)
    listed = b"".join(bytes(entry) + b"%06d" % number for number in range(1_000_000))
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 65535, 65535, len(listed), 0, 0)
    content = listed + end
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "list of members is too long" in refuse(content, tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + bytes(100), b"no zip" * 100])
def test_what_is_no_zip_is_refused(content: bytes, tmp_path: Path) -> None:
    assert "no zip file" in refuse(content, tmp_path)


def test_a_folder_is_told_how_a_bundle_is_imported(tmp_path: Path) -> None:
    with pytest.raises((ImportProblem, IsADirectoryError)):
        import_bundle(tmp_path, UserFactory(), file_name="x")


def replace_in_run(old: bytes, new: bytes) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        name = find_run(files, state="succeeded")
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def put_into_steps(value: bytes) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        name = find_run(files, state="succeeded").replace("run.json", "steps.json")
        files[name] = files[name].replace(b'"values": [', b'"values": [' + value + b", ", 1)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (put_into_steps(b"NaN"), "NaN is no number"),
        (put_into_steps(b"Infinity"), "Infinity is no number"),
        (put_into_steps(b"1e999"), ""),
        (put_into_steps(b"true"), ""),
        (put_into_steps(b"[1]"), ""),
        (replace_in_run(b'"value": 0.', b'"value": NaN, "x": 0.'), "NaN is no number"),
        (replace_in_run(b'"state": "succeeded"', b'"state": "\xff"'), "not text in UTF-8"),
        (replace_in_run(b'"node": "node0"', b'"node": {}'), ""),
        (replace_in_run(b'"repeat": ', b'"repeat": -'), ""),
        (replace_in_run(b'"block": ', b'"block": 99999999999'), ""),
        (replace_in_run(b'"began_at": "2', b'"began_at": "x'), ""),
        (replace_in_run(b'"phases": {}', b'"phases": ' + b"[" * 5000 + b"]" * 5000), ""),
        (replace_in_run(b'"phases": {}', b'"phases": []'), "phases is a list, not a table"),
    ],
)
def test_numbers_and_texts_that_are_none_are_refused(
    files: Files, change: Callable[[Files], None], why: str, tmp_path: Path
) -> None:
    change(files)
    assert why in refuse(pack(sum_up(files)), tmp_path)


@pytest.mark.parametrize("document", ["experiment.json", "plan.json", "comparison.json"])
@pytest.mark.parametrize("content", [b"[]", b"null", b"{}", b"7", b"\xff\xfe", b"{" * 9, b""])
def test_documents_that_are_something_else_are_refused(
    files: Files, document: str, content: bytes, tmp_path: Path
) -> None:
    files[f"data/{document}"] = content
    assert refuse(pack(sum_up(files)), tmp_path)


def test_every_value_of_the_description_may_be_anything(files: Files, tmp_path: Path) -> None:
    """One after the other is another kind of value: refused, or of no meaning. Never an error."""
    name = "data/experiment.json"
    about = json.loads(files[name])
    wrong: list[Any] = [None, -1, 1e300, "", "\0", [], {}, [[{}]], True]
    for number, key in enumerate(sorted(about)):
        value = wrong[number % len(wrong)]
        if about[key] == value:
            continue
        changed = files | {name: json.dumps(about | {key: value}).encode()}
        path = tmp_path / "bundle.zip"
        path.write_bytes(pack(sum_up(changed)))
        owner = UserFactory()
        with suppress(ImportProblem):
            import_bundle(path, owner, file_name="x").experiment.delete()


def test_events_of_runs_that_are_not_there_are_refused(files: Files, tmp_path: Path) -> None:
    line = {"at": "2026-11-26T12:00:00+00:00", "what": "x", "run": 32 * "0", "job": None}
    line |= {"why": "", "by": None, "workload_key": None, "scale": None}
    files["data/events.jsonl"] += json.dumps(line).encode() + b"\n"
    assert "An event is of a run or a job that is not there" in refuse(
        pack(sum_up(files)), tmp_path
    )


def test_too_many_tables_in_a_document_are_refused(files: Files, tmp_path: Path) -> None:
    files["data/waivers.json"] = b"[" + b"{}," * 1_100_000 + b"{}]"
    assert "more than 1,000,000 lists, tables and texts" in refuse(pack(sum_up(files)), tmp_path)


def test_a_workload_that_this_site_does_not_know_is_named(files: Files, tmp_path: Path) -> None:
    """Another site has a newer version: its plan is whole, and nothing here can compute it."""
    plan = json.loads(files["data/plan.json"])
    for workload in plan["workloads"].values():
        workload["kind"] = "quantum"
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    old, new = (hashlib.sha256(content).hexdigest() for content in (files["data/plan.json"], text))
    files["data/plan.json"] = text
    for name in ("data/experiment.json", "data/comparison.json"):
        files[name] = files[name].replace(old.encode(), new.encode())
    assert "knows no workload of the kind “quantum”" in refuse(pack(sum_up(files)), tmp_path)
