"""What a forger may try with a bundle, with all check sums made anew: `verify.py` says no to it."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.execution import excluded_runs
from experiments.models import Experiment
from tests.experiments.bundles.studies import NAME, end_runs, launch, make_bundle, unpack, verify

pytestmark = pytest.mark.django_db
Files = dict[str, bytes]


@pytest.fixture
def files() -> Files:
    experiment = launch(containers=2, repeats=6)
    end_runs(experiment, spread=0.01, steps=120)
    run = experiment.runs.exclude(environment=experiment.baseline_id).order_by("pk")[3]
    assert excluded_runs.exclude(run, experiment.owner, "the fan was broken")
    return unpack(make_bundle(Experiment.objects.get(pk=experiment.pk)))


def pack(files: Files, *, base: str = NAME) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in files.items():
            bundle.writestr(f"{base}/{name}" if base else name, content)
    return file.getvalue()


def sum_up(files: Files) -> Files:
    """Return the files with manifests that hold for them: a forger can do that as well."""
    files = {name: content for name, content in files.items() if "manifest-" not in name}
    payload = {name: content for name, content in files.items() if name.startswith("data/")}
    oxum = f"Payload-Oxum: {sum(map(len, payload.values()))}.{len(payload)}"
    lines = files["bag-info.txt"].decode().splitlines()
    lines = [oxum if line.startswith("Payload-Oxum") else line for line in lines]
    files["bag-info.txt"] = ("\n".join(lines) + "\n").encode()
    files["manifest-sha256.txt"] = make_manifest(payload)
    tags = {name: content for name, content in files.items() if not name.startswith("data/")}
    return files | {"tagmanifest-sha256.txt": make_manifest(tags)}


def make_manifest(files: Files) -> bytes:
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    return "".join(lines).encode()


def edit(files: Files, name: str, change: Callable[[Any], None]) -> None:
    document = json.loads(files[name])
    change(document)
    files[name] = json.dumps(document).encode()


def find_run(files: Files, **wanted: Any) -> str:
    """Return the name of the document of the first run that is like that."""
    for name in sorted(files):
        if name.endswith("/run.json"):
            run = json.loads(files[name])
            if all(run[key] == value for key, value in wanted.items()):
                return name
    raise AssertionError(wanted)


def change_a_result(files: Files) -> None:
    def change(run: Any) -> None:
        run["measurements"]["step_time"]["value"] *= 1.0001

    edit(files, find_run(files, state="succeeded"), change)


def change_a_step(files: Files) -> None:
    def change(steps: Any) -> None:
        steps["step_time"]["values"][80] *= 1.001

    edit(files, find_run(files, state="succeeded").replace("run.json", "steps.json"), change)


def change_an_interval(files: Files) -> None:
    def change(printed: Any) -> None:
        printed["comparison"][0]["ci95_high"] *= 0.99999

    edit(files, "data/comparison.json", change)


def change_a_p(files: Files) -> None:
    def change(printed: Any) -> None:
        printed["comparison"][1]["p_upper_bound"] *= 0.999

    edit(files, "data/comparison.json", change)


def change_a_verdict(files: Files) -> None:
    def change(printed: Any) -> None:
        row = printed["comparison"][0]
        row["verdict"] = "FASTER" if row["verdict"] != "FASTER" else "EQUIVALENT"

    edit(files, "data/comparison.json", change)


def drop_a_stamp(files: Files) -> None:
    def change(printed: Any) -> None:
        for row in printed["comparison"]:
            row["stamps"] = row["stamps"].replace("EXCLUDED AFTER A VERDICT", "")

    edit(files, "data/comparison.json", change)


def drop_a_row(files: Files) -> None:
    edit(files, "data/comparison.json", lambda printed: printed["comparison"].pop())


def remove_a_run(files: Files) -> None:
    run = find_run(files, state="succeeded")
    for name in [name for name in files if name.startswith(run.rpartition("/")[0])]:
        del files[name]


def remove_an_exclusion(files: Files) -> None:
    def change(run: Any) -> None:
        run.update(state="succeeded", exclusion=None)

    edit(files, find_run(files, state="excluded"), change)


def forget_who_excluded(files: Files) -> None:
    edit(files, find_run(files, state="excluded"), lambda run: run.update(exclusion=None))


def change_the_margin(files: Files) -> None:
    edit(files, "data/plan.json", lambda plan: plan.update(margin=0.5))


def change_the_margin_everywhere(files: Files) -> None:
    """With the hash of the plan, but not with the numbers that follow from it."""
    plan = json.loads(files["data/plan.json"])
    plan["margin"] = 0.5
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    old, new = json.loads(files["data/experiment.json"])["plan_hash"], hashlib.sha256(text)
    for name, content in files.items():
        files[name] = content.replace(old.encode(), new.hexdigest().encode())
    files["data/plan.json"] = text

    def change(about: Any) -> None:
        about["definition"]["margins"][0]["margin"] = 0.5

    edit(files, "data/experiment.json", change)


def take_another_method(files: Files) -> None:
    edit(files, "data/comparison.json", lambda printed: printed.update(method="0" * 64))


def take_other_rules(files: Files) -> None:
    edit(files, "data/experiment.json", lambda about: about.update(rules=2))


def change_a_snapshot(files: Files) -> None:
    (name,) = (name for name in files if name.startswith("data/snapshots/"))
    files[name] = files[name].replace(b"550.1", b"550.2")


def add_a_run(files: Files) -> None:
    name = find_run(files, state="succeeded")
    run = json.loads(files[name])
    run.update(run="f" * 32, repeat=7, steps={})
    files[f"data/runs/{'f' * 32}/run.json"] = json.dumps(run).encode()


SUMMED_UP = (
    change_a_result,
    change_a_step,
    change_an_interval,
    change_a_p,
    change_a_verdict,
    drop_a_stamp,
    drop_a_row,
    remove_a_run,
    remove_an_exclusion,
    forget_who_excluded,
    change_the_margin,
    change_the_margin_everywhere,
    take_another_method,
    take_other_rules,
    change_a_snapshot,
    add_a_run,
)


def test_the_same_files_packed_by_others_are_as_good(files: Files, tmp_path: Path) -> None:
    status, text = verify(pack(sum_up(files)), tmp_path)
    assert status == 0, text
    assert "DISAGREES" not in text
    assert "WRONG" not in text


def test_no_forgery_passes_with_new_check_sums(files: Files, tmp_path: Path) -> None:
    passed = []
    for forge in SUMMED_UP:
        forged = dict(files)
        forge(forged)
        assert forged != files
        status, text = verify(pack(sum_up(forged)), tmp_path)
        if status != 1 or not ("DISAGREES" in text or "WRONG: " in text):
            passed.append((forge.__name__, text))
        assert "another check sum" not in text
    assert passed == []


def test_files_that_are_other_files_are_named(files: Files, tmp_path: Path) -> None:
    run = find_run(files, state="succeeded")
    cases: dict[str, tuple[Files, str]] = {
        "changed": (
            files | {run: files[run].replace(b"succeeded", b"Succeeded")},
            f"{run} has another check sum than its manifest says.",
        ),
        "missing": (
            {name: content for name, content in files.items() if name != run},
            f"{run} is missing.",
        ),
        "added": (
            files | {"data/runs/more.txt": b"more"},
            "data/runs/more.txt is in no manifest: somebody has added it.",
        ),
        "tag changed": (
            files | {"README.txt": b"Trust me.\n"},
            "README.txt has another check sum than its manifest says.",
        ),
        "manifest changed": (
            files | {"manifest-sha256.txt": files["manifest-sha256.txt"].replace(b"a", b"b")},
            "manifest-sha256.txt has another check sum than its manifest says.",
        ),
    }
    for forged, sentence in cases.values():
        status, text = verify(pack(forged), tmp_path)
        assert status == 1
        assert sentence in text


def test_names_that_lead_out_and_bombs_are_not_unpacked(files: Files, tmp_path: Path) -> None:
    names = ("data/../../evil", "data/..", "/etc/passwd", "data//x", "data\\..\\evil", "C:/evil")
    for name in names:
        status, text = verify(pack(files | {name: b"evil"}), tmp_path)
        assert (status, "no name of a file in a bundle" in text) == (1, True), text
    status, text = verify(pack({f"{NAME}/bagit.txt": b"", "evil": b""}, base=""), tmp_path)
    assert (status, "evil lies outside of" in text) == (1, True), text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.zip", "verify.py"]


def test_sizes_that_lie_are_refused_before_anything_is_read(files: Files, tmp_path: Path) -> None:
    bundle = bytearray(pack(sum_up(files | {"data/zeros": bytes(1 << 20)})))
    place = bundle.rindex(b"data/zeros") - len(NAME) - 1 - 46  # its entry in the directory
    assert bundle[place : place + 4] == b"PK\x01\x02"
    for size, sentence in (
        ((1 << 31) - 1, "would unpack to"),
        (100, "cannot be read"),
    ):
        bundle[place + 24 : place + 28] = size.to_bytes(4, "little")
        status, text = verify(bytes(bundle), tmp_path)
        assert (status, sentence in text) == (1, True), text


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"no zip at all" * 100, b"PK\x05\x06" + bytes(18), bytes(10_000)]
)
def test_what_is_no_bundle_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    status, text = verify(content, tmp_path)
    assert status == 1
    assert "WRONG: " in text


def test_documents_of_the_wrong_kind_are_wrong_and_no_traceback(
    files: Files, tmp_path: Path
) -> None:
    wrong = (
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"rules": 1}',
        b"[" * 5000,
        b"\xff\xfe",
        b"NaN",
        b"1e999",
    )
    documents = ("experiment.json", "plan.json", "comparison.json", "events.jsonl")
    for document in (*(f"data/{name}" for name in documents), find_run(files, state="succeeded")):
        for content in wrong if document != "data/events.jsonl" else (*wrong[1:3], *wrong[5:7]):
            status, text = verify(pack(sum_up(files | {document: content})), tmp_path)
            assert status == 1, (document, content)
            assert "WRONG" in text
