"""What is kept of runs beside their numbers: real jobs that print and leave whatever they like."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.serializers.json import DjangoJSONEncoder

from experiments.execution import lifecycle
from experiments.execution.record_documents import describe_record, write_patches
from experiments.models import Cluster, Environment, Experiment, Job, Run, StoredRecord
from runners.kept_output import DEFAULT_MIB
from tests.conftest import finish
from tests.experiments.execution.test_command_runs import launched
from tests.experiments.execution.test_files_left import run_program
from tests.runners.test_payload_checkouts import git

pytestmark = pytest.mark.django_db
MIB = 2**20


def read_document(run: Run) -> Any:
    """Return the record as whoever reads its JSON has it."""
    row = Run.objects.select_related("stored_record", "job", "snapshot", "experiment").get(
        pk=run.pk
    )
    return json.loads(json.dumps(describe_record(row), cls=DjangoJSONEncoder, allow_nan=False))


def test_the_record_of_a_run_says_what_ran_and_what_it_left(
    here: Cluster, bare: Environment
) -> None:
    program = """
import ctypes, sys, time
sys.stdout.buffer.write(b"caf\\xe9 \\0 \\x1b[1m\\r\\n")
open("model.bin", "wb").write(b"w" * 3000)
time.sleep(0.3)
"""
    _, run = run_program(here, bare, program, read="nothing")
    assert (run.state, run.message) == ("succeeded", "")
    folder = Path(run.job.directory, run.folder)
    printed = (folder / "output.txt").read_bytes()
    stored = run.stored_record
    assert stored.read_output() == printed
    assert printed.startswith(b"caf\xe9 \0")
    assert (stored.output_bytes, stored.output_left_out) == (len(printed), 0)
    assert stored.output_sha256 == hashlib.sha256(printed).hexdigest()

    document = read_document(run)
    files = {row["path"]: row for row in document["files"]}
    assert files["model.bin"] == {
        "path": "model.bin",
        "bytes": 3000,
        "sha256": hashlib.sha256(b"w" * 3000).hexdigest(),
    }
    for name in ("spec.json", "inside.json", "result.json", "output.txt", "command", "exit_code"):
        content = (folder / name).read_bytes()
        assert files[name]["bytes"] == len(content)
        assert files[name]["sha256"] == hashlib.sha256(content).hexdigest()
    assert len(files) == run.files_count

    script = Path(run.job.directory, "job.sh").read_bytes()
    assert document["job"]["script"].encode() == script
    assert document["job"]["script_sha256"] == hashlib.sha256(script).hexdigest()
    assert document["command"]["outside"].strip() == (folder / "command").read_text().strip()
    inside = document["command"]["inside"]
    assert inside[-1] == f"{run.job.directory}/files/train.py"
    program_file = document["snapshot"]["inside"]["program"]["files"][-1]
    assert program_file["sha256"] == hashlib.sha256(program.encode()).hexdigest()
    loaded = document["snapshot"]["inside"]["loaded"]["files"]
    assert any(Path(path).name.startswith("libc.") for path in loaded)
    assert document["loaded_was_read"]["readings"] >= 1
    assert document["not_recorded"] == [
        "No environment modules are known, outside or inside: none were loaded."
    ]


def test_runs_of_one_environment_share_a_snapshot_though_each_was_read_apart(
    here: Cluster, bare: Environment
) -> None:
    """How often a run was read, and its own folder, are no facts about its software."""
    program = "import time; time.sleep(0.3)"
    _, run = run_program(here, bare, program, read="nothing")
    own = run.snapshot
    assert own
    text = json.dumps(own.content)
    assert run.uid not in text
    assert "readings" not in text
    assert run.job.directory not in text


def test_much_output_is_kept_at_both_ends(here: Cluster, bare: Environment) -> None:
    program = "for number in range(1_000_000): print('line', number)"
    _, run = run_program(here, bare, program, read="nothing")
    stored = run.stored_record
    kept = stored.read_output()
    assert kept.startswith(b"line 0\n")
    assert kept.endswith(b"line 999999\n")
    assert stored.output_bytes - stored.output_left_out == DEFAULT_MIB * MIB
    assert len(stored.output) < MIB, "compressed"
    (sentence, _) = read_document(run)["not_recorded"]
    assert f"Of {stored.output_bytes:,} bytes of output" in sentence


def test_of_very_many_files_those_that_numbers_come_from_are_listed(
    here: Cluster, bare: Environment
) -> None:
    program = """
for number in range(6000):
    open("a%05d" % number, "w").close()
open("z", "w").write("large")
"""
    _, run = run_program(here, bare, program, read="nothing")
    assert run.state == "succeeded", run.message
    listed = {row["path"] for row in run.stored_record.list_files()}
    assert len(listed) == 5000
    assert {"z", "result.json", "output.txt", "spec.json"} <= listed
    assert run.stored_record.files_left_out == (run.files_count or 0) - 5000


def test_a_run_that_failed_keeps_its_output_too(here: Cluster, bare: Environment) -> None:
    _, run = run_program(here, bare, "import sys; print('half'); sys.exit(3)", read="nothing")
    assert run.state == "failed"
    assert run.stored_record.read_output() == b"half\n"


def test_of_a_run_that_failed_it_is_known_what_it_had_loaded(
    here: Cluster, bare: Environment
) -> None:
    program = "import ctypes, sys, time; time.sleep(0.3); sys.exit(3)"
    _, run = run_program(here, bare, program, read="nothing")
    assert (run.state, run.exit_code) == ("failed", 3)
    document = read_document(run)
    loaded = document["snapshot"]["inside"]["loaded"]["files"]
    assert any(Path(path).name.startswith("_ctypes") for path in loaded)
    assert document["loaded_was_read"]["readings"] >= 1
    assert document["command"]["inside"][-1] == f"{run.job.directory}/files/train.py"
    assert not [text for text in document["not_recorded"] if "librar" in text]


def test_of_a_run_that_was_ended_it_is_said_that_libraries_are_not_known(
    here: Cluster, bare: Environment
) -> None:
    """Its payload is gone with it."""
    program = "import os; os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)"
    _, run = run_program(here, bare, program, read="nothing")
    assert run.state == "failed"
    assert (
        "Which libraries its processes had loaded was not seen: it was ended before that could be "
        "written down."
    ) in read_document(run)["not_recorded"]


def test_modules_outside_are_those_of_all_set_up_lines_of_the_run(
    here: Cluster, bare: Environment
) -> None:
    here.setup_lines = "export LOADEDMODULES=shared _LMFILES_=/opt/shared.lua"
    here.save()
    bare.setup_lines = "LOADEDMODULES+=:gcc/13.2 _LMFILES_+=:/opt/gcc/13.2.lua"
    bare.save()
    made, _ = run_program(here, bare, "import time; time.sleep(0.2)", read="nothing")
    own = made.runs.get(environment=bare)
    other = made.runs.exclude(environment=bare).get()
    document = read_document(own)
    assert document["modules_outside"] == ["shared", "gcc/13.2"]
    assert document["snapshot"]["modules"]["files"] == ["/opt/shared.lua", "/opt/gcc/13.2.lua"]
    assert "loaded_modules" in {row["path"] for row in document["files"]}
    assert read_document(other)["modules_outside"] == ["shared"]
    assert own.snapshot
    assert own.snapshot.facts["module outside gcc"] == "13.2"
    assert document["not_recorded"] == []


def test_the_text_of_changes_is_recorded_once_for_all_runs_of_an_environment(
    here: Cluster, bare: Environment, tmp_path: Path
) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    script = folder / "net.py"
    script.write_text("import time; time.sleep(0.1)\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    script.write_text("import time; time.sleep(0.15)\n")
    made = launched(here, bare, {"argv": ["{python}", str(script)], "read": "nothing"})
    finish(made)
    runs = list(made.runs.filter(environment=bare))
    assert all(run.state == "succeeded" for run in runs)
    assert len({run.snapshot_id for run in runs}) == 1
    assert write_patches(runs[0]) == (
        f"# {folder} at commit {git(folder, 'rev-parse', 'HEAD')}\n"
        "diff --git a/net.py b/net.py\n--- a/net.py\n+++ b/net.py\n@@ -1,1 +1,1 @@\n"
        "-import time; time.sleep(0.1)\n+import time; time.sleep(0.15)\n"
    )
    assert "+import time" in json.dumps(read_document(runs[0]))


def test_what_is_tried_again_has_no_record_of_before(here: Cluster, bare: Environment) -> None:
    made, run = run_program(here, bare, "raise SystemExit(3)", read="nothing")
    assert StoredRecord.objects.filter(run__experiment=made).count() == 2
    Job.objects.filter(pk=run.job_id).update(state="failed")
    assert lifecycle.plan_next_attempt(Job.objects.get(pk=run.job_id), why="", avoided_nodes="")
    assert not StoredRecord.objects.filter(run__experiment=made).exists()


def test_a_plan_may_keep_nothing_of_the_output(experiment: Callable[..., Experiment]) -> None:
    made = experiment(repeats=1, output_mib=0)
    finish(made)
    for run in made.runs.select_related("stored_record"):
        assert run.state == "succeeded", run.message
        stored = run.stored_record
        assert stored.output_left_out == stored.output_bytes > 0
        assert b"left out here by Tare" in stored.read_output()
        assert "record" in run.phases


def test_modules_are_known_and_values_of_other_variables_are_not(
    here: Cluster, bare: Environment
) -> None:
    bare.variables = {"LOADEDMODULES": "gcc/13.2:cuda/12.4", "MY_TOKEN": "s3cret"}
    bare.save()
    made, _ = run_program(here, bare, "import time; time.sleep(0.2)", read="nothing")
    document = read_document(made.runs.get(environment=bare))
    assert document["modules"] == ["gcc/13.2", "cuda/12.4"]
    inside = document["snapshot"]["inside"]
    assert "MY_TOKEN" in inside["other_variables"]
    assert "s3cret" not in json.dumps(inside)
    assert document["not_recorded"] == []
