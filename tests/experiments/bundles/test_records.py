"""A bundle has all that was kept of what runs printed and left, and `verify.py` checks it."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.models import (
    Cluster,
    Credential,
    Environment,
    Experiment,
    Image,
    Run,
    Snapshot,
    StoredRecord,
)
from tests.conftest import finish
from tests.experiments.bundles.studies import (
    end_runs,
    keep_records,
    launch,
    make_bundle,
    unpack,
    verify,
)
from tests.experiments.bundles.test_forgeries import edit, pack, sum_up
from tests.experiments.execution.test_files_left import run_program
from tests.factories import CredentialFactory
from tests.secrets_search import places_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def study() -> Experiment:
    experiment = launch(repeats=3)
    end_runs(experiment)
    keep_records(experiment)
    return experiment


def test_real_rows_give_the_bytes_that_lie_on_the_cluster(
    here: Cluster, bare: Environment, tmp_path: Path
) -> None:
    program = """
import ctypes, sys, time
sys.stdout.buffer.write(b"caf\\xe9 \\0 \\x1b[1m\\r\\n")
open("model.bin", "wb").write(b"w" * 3000)
time.sleep(0.3)
"""
    made, run = run_program(here, bare, program, read="nothing")
    assert run.state == "succeeded", run.message
    bundle = make_bundle(made)
    files = unpack(bundle)
    folder, kept = Path(run.job.directory, run.folder), f"data/runs/{run.uid}"
    assert files[f"{kept}/output.txt"] == (folder / "output.txt").read_bytes()
    record = json.loads(files[f"{kept}/record.json"])
    listed = {row["path"]: row for row in record["files"]}
    for name in ("model.bin", "result.json", "spec.json", "inside.json", "output.txt", "command"):
        content = (folder / name).read_bytes()
        assert listed[name]["bytes"] == len(content)
        assert listed[name]["sha256"] == hashlib.sha256(content).hexdigest()
    assert record["command_inside"][-1] == f"{run.job.directory}/files/train.py"
    assert record["loaded_was_read"]["readings"] >= 1
    document = json.loads(files[f"{kept}/run.json"])
    snapshot = json.loads(files[f"data/snapshots/{document['snapshot']}.json"])
    loaded = snapshot["inside"]["loaded"]["files"]
    (libc,) = (file for path, file in loaded.items() if Path(path).name.startswith("libc."))
    assert len(libc["sha256"]) == 64
    assert files[f"data/jobs/{run.job.uid}/job.sh"] == (
        Path(run.job.directory, "job.sh").read_bytes()
    )
    status, text = verify(bundle, tmp_path, "--all")
    assert status == 0, text
    assert text.count("  output  ") == text.count("  output as listed  ") == 2


def test_nothing_secret_is_in_what_really_ran(experiment: Callable[..., Experiment]) -> None:
    """In scripts, output, records and snapshots: of whoever owns the cluster's key and of Tare."""
    study = experiment(repeats=1)
    finish(study)
    key = CredentialFactory(user_name="account-on-the-cluster", passphrase="a passphrase, too")
    Cluster.objects.filter(pk=study.cluster_id).update(credential=key)
    study.owner.set_password("a secret of mine")
    study.owner.email = "me@example.org"
    study.owner.save()
    row = Credential.objects.get(pk=key.pk)
    files = unpack(make_bundle(study))
    for ending in ("record.json", "output.txt", "job.sh", "run.json"):
        assert any(name.endswith(ending) for name in files), ending
    secrets = places_of(str(row.private_key), str(row.passphrase), study.owner.password)
    secrets |= {"e-mail address": study.owner.email, "account": row.user_name}
    for name, content in files.items():
        for what, secret in secrets.items():
            assert secret.encode() not in content, (name, what)


def test_changed_output_is_noticed_with_new_check_sums_too(
    study: Experiment, tmp_path: Path
) -> None:
    files = unpack(make_bundle(study))
    name = min(name for name in files if name.endswith("/output.txt"))
    assert files[name] == b"step 1 \xff\0\r\nstep 2\n"
    record = name.replace("output.txt", "record.json")
    cases = [
        files | {name: files[name].replace(b"2", b"3")},
        {other: content for other, content in files.items() if other != name},
    ]
    forged = dict(files)
    edit(forged, record, lambda document: document["files"][0].update(sha256="0" * 64))
    for case in (*cases, forged):
        status, text = verify(pack(sum_up(case)), tmp_path)
        assert status == 1
        assert "output" in text
        assert "DISAGREES" in text
    assert verify(pack(sum_up(files)), tmp_path)[0] == 0


def test_what_was_not_kept_is_counted_and_not_wrong(study: Experiment, tmp_path: Path) -> None:
    runs = list(study.runs.order_by("pk"))
    StoredRecord.objects.filter(run=runs[0]).delete()
    StoredRecord.objects.filter(run=runs[1]).update(
        output=zlib.compress(b"step 1\n--- 90 bytes were left out here by Tare ---\n"),
        output_bytes=100,
        output_left_out=90,
    )
    of_two = [["output.txt", 7, "ab" * 32], ["rank-1/output.txt", 7, "cd" * 32]]
    StoredRecord.objects.filter(run=runs[2]).update(
        output=zlib.compress(b"step 1\n\n--- rank 1 ---\nstep 1\n"),
        output_sha256="ab" * 32,
        files=zlib.compress(json.dumps(of_two).encode()),
    )
    StoredRecord.objects.filter(run=runs[3]).update(
        output=b"", output_bytes=0, output_sha256="", files=b""
    )
    bundle = make_bundle(study)
    files = unpack(bundle)
    assert files[f"data/runs/{runs[0].uid}/output.txt"].decode() == "step 1\nstep 2 – done\n"
    assert f"data/runs/{runs[0].uid}/record.json" not in files
    assert f"data/runs/{runs[3].uid}/output.txt" not in files
    status, text = verify(bundle, tmp_path)
    assert status == 0, text
    assert "not checked: output and files of 1 runs without a record" in text
    assert "not checked: output of 2 runs, of which parts were not kept" in text


def test_names_of_files_may_be_any(study: Experiment, tmp_path: Path) -> None:
    run = study.runs.order_by("pk")[0]
    names = ["a\nb", "../up", "C:\\x", "\\udcff.bin", "é" * 200]
    files = [[name, 2**62, ""] for name in names]
    StoredRecord.objects.filter(run=run).update(
        files=zlib.compress(json.dumps(files).encode()), files_left_out=7
    )
    bundle = make_bundle(study)
    record = json.loads(unpack(bundle)[f"data/runs/{run.uid}/record.json"])
    assert [row["path"] for row in record["files"]] == names
    assert record["files_left_out"] == 7
    assert verify(bundle, tmp_path)[0] == 0


def test_loaded_libraries_and_records_are_those_of_each_run(study: Experiment) -> None:
    assert StoredRecord.objects.filter(run__experiment=study).count() == study.runs.count()
    loaded = {"files": {"/opt/libcudnn.so.9.1.0": {"soname": "libcudnn.so.9", "sha256": "ab" * 32}}}
    snapshot = Snapshot.objects.keep({"inside": {"loaded": loaded}})
    Run.objects.filter(experiment=study).update(snapshot=snapshot)
    files = unpack(make_bundle(study))
    assert json.loads(files[f"data/snapshots/{snapshot.content_hash}.json"]) == {
        "inside": {"loaded": loaded}
    }
    assert sum(name.endswith("/record.json") for name in files) == study.runs.count()


def test_the_software_of_images_is_in_the_bundle_unless_an_image_is_not_shared(
    study: Experiment, tmp_path: Path
) -> None:
    image = Image.objects.get()
    Image.objects.update(facts={"packages": {"system": {"libc6": "2.36"}, "python": {}}})
    names = [f"data/images/{image.digest[7:]}.{kind}.json" for kind in ("spdx", "cdx")]
    bundle = make_bundle(study)
    files = unpack(bundle)
    for name in names:
        assert b"libc6" in files[name]
    assert names[0].encode() in files["manifest-sha256.txt"]
    code, printed = verify(bundle, tmp_path)
    assert code == 0, printed
    Image.objects.update(visibility="private")
    assert not set(names) & set(unpack(make_bundle(study)))
