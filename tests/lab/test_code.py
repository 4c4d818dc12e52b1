"""Code by forms on the lab, up to verdicts: an archive with subfolders, and a commit of a git
repository; on bare metal and in Apptainer.

The lab has no git, as compute nodes may have none: that is refused first, and then a set-up line of
the cluster brings this machine's.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from webtest import Upload

from experiments import execution
from experiments.models import Cluster, CodeCopy, Operation, Workload
from experiments.presets.commands import COMMANDS
from tests.conftest import tick_until
from tests.lab.by_forms import Person, choose_numpy, launch_experiment, wait_for_runs
from tests.lab.test_data_set import run_there
from tests.lab.test_presets import researcher
from tests.lab.test_without_python import VERDICTS
from tests.runners.code_archives import make_tf_cnn_tar

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

KEY = "tf-cnn-benchmarks-on-cpu"
SCRIPTS = "{code}/benchmarks/scripts/tf_cnn_benchmarks"


def make_repository(folder: Path) -> tuple[bytes, str]:
    """Return a tar of a bare repository with the stand-in for tf_cnn_benchmarks, and a commit."""
    work = folder / "work"
    with tarfile.open(fileobj=io.BytesIO(make_tf_cnn_tar())) as archive:
        archive.extractall(work, filter="data")

    def git(*words: str) -> str:
        settings = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        done = subprocess.run(["git", *settings, *words], cwd=work, capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    commit = git("rev-parse", "HEAD")
    git("commit", "--quiet", "--allow-empty", "-m", "two")
    git("clone", "--quiet", "--bare", ".", str(folder / "project.git"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder / "project.git", "project.git")
    return packed.getvalue(), commit


def bring(cluster: Cluster, path: str, content: bytes) -> None:
    with execution.connect(cluster) as runner:
        runner.transport.write(path, content)


def bring_repository(cluster: Cluster, place: str, repository: bytes) -> None:
    """Unpack the tar of a repository in a new folder of the cluster."""
    run_there(cluster, 'rm -rf "$1" && mkdir -p "$1/bin"', place)
    bring(cluster, f"{place}/project.tar", repository)
    run_there(cluster, 'cd "$1" && tar -xf project.tar', place)


def bring_git(cluster: Cluster, place: str) -> None:
    """Bring this machine's git into a folder of the cluster, and a set-up line that finds it."""
    found = shutil.which("git")
    assert found
    bring(cluster, f"{place}/bin/git", Path(found).read_bytes())
    script = 'cd "$1/bin" && chmod 755 git && ln -s git git-upload-pack && ./git --version'
    run_there(cluster, script, place)
    Cluster.objects.update(setup_lines=f"{cluster.setup_lines}\nPATH={place}/bin:$PATH")
    cluster.refresh_from_db()


def add_workload(person: Person, name: str, **code: object) -> Workload:
    """Make the known program with its code, by the form."""
    page = person.get("workload_new", ready=KEY, folder=SCRIPTS)
    assert f"{SCRIPTS}/tf_cnn_benchmarks.py" in page.forms["parameters"]["argv"].value
    person.send(page, "?kind=command", name=name, **code)
    return Workload.objects.get(name=name)


def put(person: Person, workload: Workload, cluster: Cluster) -> Operation:
    """Put the code of a workload on the cluster by the button of its page."""
    page = person.get("workload", workload.pk)
    person.send(page, f"/catalogue/workloads/{workload.pk}/code/", cluster=str(cluster.pk))
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not alive.exists(), seconds=200)
    return Operation.objects.latest("pk")


def test_code_of_an_archive_and_of_a_commit_is_measured_up_to_verdicts(
    researcher: Person, registered: Cluster, tmp_path: Path
) -> None:
    repository, commit = make_repository(tmp_path)
    place = f"{registered.work_directory}-code"
    bring_repository(registered, place, repository)
    archived = add_workload(
        researcher, "archive", code_file=Upload("benchmarks.tar.gz", make_tf_cnn_tar())
    )
    address = f"file://{place}/project.git"
    fetched = add_workload(researcher, "commit", code_repository=address, code_commit=commit)
    assert put(researcher, archived, registered).message == ""
    refused = put(researcher, fetched, registered)
    assert (refused.state, "there is no git on this node's PATH" in refused.message) == (
        "failed",
        True,
    )
    bring_git(registered, place)
    assert put(researcher, fetched, registered).message == ""
    copies = {row.archive_id or row.commit: row for row in CodeCopy.objects.all()}
    assert len({row.digest for row in copies.values()}) == 1, "they hold the same files"
    assert {row.state for row in copies.values()} == {"ready"}

    made = launch_experiment(
        researcher,
        registered,
        "What does a container cost code that Tare has put there?",
        workloads=[archived, fetched],
        environments=choose_numpy(registered),
        repeats=5,
    )
    wait_for_runs(registered, seconds=600)
    ended = {(run.workload.name, run.state, run.message) for run in made.runs.all()}
    assert ended == {("archive", "succeeded", ""), ("commit", "succeeded", "")}
    for run in made.runs.select_related("snapshot"):
        inside = run.snapshot.content["inside"]["code"]
        assert inside["digest"] == next(iter(copies.values())).digest
        for row in COMMANDS[KEY].piece.parameters["metrics"]:
            assert run.measurements.get(metric=row["name"]).value > 0
    page = researcher.get("comparison", made.pk, section="all")
    verdicts = {each.get_text(strip=True) for each in page.html.select(".verdict")}
    assert verdicts, "five repeats are enough for one"
    assert verdicts <= VERDICTS, verdicts

    paths = [row.path for row in copies.values()]
    run_there(registered, 'for path; do [ -d "$path" ] || exit; done', *paths)
    for row in copies.values():
        workload = archived if row.archive_id else fetched
        page = researcher.get("workload", workload.pk)
        researcher.send(page, f"/code-copies/{row.pk}/remove/")
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(registered, lambda: not alive.exists(), seconds=200)
    assert not CodeCopy.objects.exists()
    run_there(registered, 'for path; do [ ! -e "$path" ] || exit; done', *paths)
