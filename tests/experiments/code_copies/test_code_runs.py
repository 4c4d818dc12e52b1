"""Code from an archive or a commit to the runs that execute it, on this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.code_copies import archives, code_requests
from experiments.execution import lifecycle
from experiments.models import (
    Cluster,
    CodeCopy,
    Environment,
    Experiment,
    Operation,
    Workload,
)
from runners.payload import code_tree
from runners.workloads import WORKLOADS
from tests.conftest import finish, tick_until
from tests.factories import EnvironmentFactory, ExperimentFactory, WorkloadFactory
from tests.runners.code_archives import make_tar, name_member

pytestmark = pytest.mark.django_db

State = CodeCopy.State
PROGRAM = b"""\
import json, os, sys
import helper.part

here = os.environ["TARE_CODE"]
assert sys.argv[0].startswith(here + "/"), sys.argv[0]
json.dump({"answer": helper.part.ANSWER}, open("numbers.json", "w"))
"""
PARAMETERS = {
    "argv": ["{python}", "{code}/project/scripts/run.py"],
    "read": "json",
    "file": "numbers.json",
    "metrics": [
        {"name": "answer", "unit": "1", "better": "higher", "find": "answer", "take": "last"}
    ],
}
FILES = {
    "project/scripts/run.py": PROGRAM,
    "project/scripts/helper/__init__.py": b"",
    "project/scripts/helper/part.py": b"ANSWER = 42\n",
}
ARCHIVE = make_tar(*((name_member(name), text) for name, text in FILES.items()), mode="w:gz")


@pytest.fixture
def store_folder(settings: Any, tmp_path: Path) -> Path:
    settings.IMAGE_STORE = str(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def cluster(here: Cluster, store_folder: Path) -> Iterator[Cluster]:
    yield here
    code_tree.remove(f"{here.work_directory}/code".encode())  # nobody may write there


def make_workload(owner: Any, **parameters: Any) -> Workload:
    made: Workload = WorkloadFactory(
        kind="command", parameters=WORKLOADS["command"].clean({**PARAMETERS, **parameters})
    )
    made.owner = owner
    made.save()
    return made


def wait_for_end(cluster: Cluster) -> Operation:
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not alive.exists())
    return Operation.objects.latest("pk")


def drafted(workload: Workload, bare: Environment) -> Experiment:
    other = EnvironmentFactory(name="other", cluster=bare.cluster, python=sys.executable)
    made: Experiment = ExperimentFactory(
        cluster=bare.cluster,
        partition=None,
        baseline=bare,
        environments=[bare, other],
        workloads=[workload],
        scales=["1x0"],
        repeats=1,
        owner=workload.owner,
    )
    return made


def require_good_runs(made: Experiment, digest: str) -> None:
    lifecycle.launch(made, made.owner)
    (frozen,) = made.plan["workloads"].values()
    assert frozen["code"]["digest"] == digest
    finish(made)
    runs = list(made.runs.all())
    assert len(runs) == 2
    for run in runs:
        assert (run.state, run.message) == ("succeeded", "")
        assert run.measurements.get(metric="answer").value == 42
        assert run.snapshot.content["inside"]["code"]["digest"] == digest


def test_an_archive_is_sent_once_and_its_program_runs(cluster: Cluster, bare: Environment) -> None:
    archive = archives.keep_archive([ARCHIVE[:100], ARCHIVE[100:]], "project.tar.gz")
    workload = make_workload(cluster.owner, code_archive=archive.sha256)
    made = drafted(workload, bare)
    with pytest.raises(lifecycle.NotLaunchable, match=r"is not on .* yet: put it there"):
        lifecycle.launch(made, made.owner)
    row = code_requests.put(workload, cluster, cluster.owner)
    with pytest.raises(lifecycle.NotLaunchable, match="is being put on"):
        lifecycle.launch(made, made.owner)
    operation = wait_for_end(cluster)
    assert (operation.state, operation.message) == ("done", "")
    row.refresh_from_db()
    assert (row.state, row.files, row.digest) == (State.READY, 3, archive.digest)
    require_good_runs(made, archive.digest)
    # Neither run could leave anything in it, such as bytecode, and it is still there for the next.
    assert code_requests.check(row, cluster.owner)
    assert wait_for_end(cluster).message == ""
    with pytest.raises(code_requests.NotDone, match="is ready already"):
        code_requests.put(workload, cluster, cluster.owner)


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str]:
    """Return the address of a repository and a commit of it that is not its last one."""
    folder = tmp_path / "repository"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    git(folder, "init", "--quiet", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "project/scripts/helper/part.py").write_text("ANSWER = 43\n")
    git(folder, "commit", "--quiet", "-a", "-m", "two")
    return f"file://{folder}", commit


def test_a_commit_is_fetched_once_and_its_program_runs(
    cluster: Cluster, bare: Environment, repository: tuple[str, str]
) -> None:
    address, commit = repository
    workload = make_workload(cluster.owner, code_repository=address, code_commit=commit)
    row = code_requests.put(workload, cluster, cluster.owner)
    operation = wait_for_end(cluster)
    assert (operation.state, operation.message) == ("done", "")
    row.refresh_from_db()
    assert (row.state, row.files, row.repository) == (State.READY, 3, address)
    require_good_runs(drafted(workload, bare), row.digest)


def test_a_script_that_the_commit_does_not_have_is_refused_before_the_launch(
    cluster: Cluster, bare: Environment, repository: tuple[str, str]
) -> None:
    address, commit = repository
    argv = ["{python}", "{code}/scripts/run.py"]
    workload = make_workload(cluster.owner, argv=argv, code_repository=address, code_commit=commit)
    code_requests.put(workload, cluster, cluster.owner)
    wait_for_end(cluster)
    made = drafted(workload, bare)
    with pytest.raises(lifecycle.NotLaunchable, match=r"does not have; there is project/scripts/r"):
        lifecycle.launch(made, made.owner)
    CodeCopy.objects.update(paths=None)  # of so many files that they are not kept
    lifecycle.launch(made, made.owner)


def test_code_that_changed_ends_runs_and_is_put_there_again(
    cluster: Cluster, bare: Environment
) -> None:
    archive = archives.keep_archive([ARCHIVE], "project.tar.gz")
    workload = make_workload(cluster.owner, code_archive=archive.sha256)
    row = code_requests.put(workload, cluster, cluster.owner)
    wait_for_end(cluster)
    row.refresh_from_db()
    part = Path(row.path) / "project/scripts/helper/part.py"
    part.chmod(0o644)
    part.write_text("ANSWER = 41\n")
    made = drafted(workload, bare)
    lifecycle.launch(made, made.owner)
    finish(made)
    assert {(run.state, run.reason) for run in made.runs.all()} == {("failed", "code unusable")}
    assert made.runs.first().message.startswith("code unusable: its digest is sha256:")
    code_requests.check(row, cluster.owner)
    assert wait_for_end(cluster).state == "failed"
    row.refresh_from_db()
    assert row.state == State.CHANGED
    code_requests.put(workload, cluster, cluster.owner)
    wait_for_end(cluster)
    row.refresh_from_db()
    assert (row.state, row.message) == (State.READY, "")
    assert part.read_text() == "ANSWER = 42\n"


def test_code_is_removed_and_forgotten_when_nothing_runs_it(
    cluster: Cluster, bare: Environment
) -> None:
    archive = archives.keep_archive([ARCHIVE], "project.tar.gz")
    workload = make_workload(cluster.owner, code_archive=archive.sha256)
    row = code_requests.put(workload, cluster, cluster.owner)
    with pytest.raises(code_requests.NotDone, match="is being worked on already"):
        code_requests.remove(row, cluster.owner)
    wait_for_end(cluster)
    made = drafted(workload, bare)
    lifecycle.launch(made, made.owner)
    with pytest.raises(code_requests.NotDone, match="An experiment that has not ended reads"):
        code_requests.remove(row, cluster.owner)
    finish(made)
    path = Path(row.path)
    assert path.is_dir()
    code_requests.remove(row, cluster.owner)
    operation = wait_for_end(cluster)
    assert (operation.state, operation.message) == ("done", "")
    assert not path.exists()
    assert not CodeCopy.objects.exists()
    assert str(operation) == "remove code that is gone"
