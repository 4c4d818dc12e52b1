"""Programs that nobody here wrote, recorded inside and outside: each ends as a clear sentence."""

from __future__ import annotations

import html
import sys
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, Run, SentFile
from runners.workloads import WORKLOADS
from tests.conftest import finish
from tests.factories import EnvironmentFactory, ExperimentFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

ENDS: dict[str, tuple[list[str], bytes | None, str, str]] = {
    # name: the command, the file odd that is sent, the state, a part of the message
    "output of any bytes": (
        ["sh", "-c", "printf '\\377\\376 \\000caf\\351'"],
        None,
        "succeeded",
        "",
    ),
    "closes its output": (["sh", "-c", "exec >&- 2>&-; sleep 0.1"], None, "succeeded", ""),
    "leaves a child behind": (["sh", "-c", "sleep 600 & exit 0"], None, "succeeded", ""),
    "killed": (["sh", "-c", "kill -9 $$"], None, "failed", "SIGKILL"),
    "crashed": (["sh", "-c", "kill -11 $$"], None, "failed", "SIGSEGV"),
    "fails with odd bytes": (
        ["sh", "-c", "printf 'caf\\351 \\033[31mred\\n' >&2; exit 9"],
        None,
        "failed",
        "exit code 9: caf\ufffd",
    ),
    "no such interpreter": (
        ["odd"],
        b"#!/bin/nonexistent\n",
        "failed",
        "odd begins with #!/bin/nonexistent, and this environment has no such file",
    ),
    "no right to execute": (
        ["/etc/passwd"],
        None,
        "failed",
        "/etc/passwd is there, but is not executable",
    ),
    "not there": (["no-such-program"], None, "failed", "this environment has no no-such-program"),
}
GIB_OF_OUTPUT = ["sh", "-c", "head -c 1073741824 /dev/zero; echo; echo the end; exit 4"]


def run_programs(
    here: Cluster,
    bare: Environment,
    recorded: str,
    programs: dict[str, tuple[list[str], bytes | None]],
) -> dict[str, list[Run]]:
    """Run each program in two environments of this machine; return the runs by program."""
    workloads = []
    for name, (argv, content) in programs.items():
        files = {} if content is None else {"odd": SentFile.objects.keep(content).sha256}
        given: dict[str, Any] = {"argv": argv, "read": "nothing", "recorded": recorded}
        parameters = WORKLOADS["command"].clean({**given, "files": files})
        workloads.append(WorkloadFactory(name=name, kind="command", parameters=parameters))
    other = EnvironmentFactory(name="other", cluster=here, python=sys.executable)
    made: Experiment = ExperimentFactory(
        cluster=here,
        partition=None,
        baseline=bare,
        environments=[bare, other],
        workloads=workloads,
        scales=["1x0"],
        repeats=1,
    )
    lifecycle.launch(made, made.owner)
    finish(made)
    return {row.name: list(made.runs.filter(workload=row)) for row in workloads}


@pytest.mark.parametrize("recorded", ["inside", "outside"])
def test_each_ends_as_a_clear_sentence(
    here: Cluster, bare: Environment, client: Client, recorded: str
) -> None:
    programs = {name: (argv, content) for name, (argv, content, _, _) in ENDS.items()}
    ended = run_programs(here, bare, recorded, programs)
    for name, (_, _, state, sentence) in ENDS.items():
        for run in ended[name]:
            assert run.state == state, (name, run.message)
            assert sentence in run.message, name
            assert bool(run.message) == (state == "failed"), name
            client.force_login(run.job.experiment.owner)
            answer = client.get(reverse("run", args=[run.uid]))
            assert answer.status_code == 200
            assert sentence in " ".join(html.unescape(answer.content.decode()).split()), name


@pytest.mark.parametrize("recorded", ["inside", "outside"])
def test_a_folder_with_spaces_and_quotes(here: Cluster, bare: Environment, recorded: str) -> None:
    folder = f'{here.work_directory}/it\'s "two" $words ü'
    Cluster.objects.filter(pk=here.pk).update(work_directory=folder)
    here.refresh_from_db()
    printed = run_programs(here, bare, recorded, {"pwd": (["sh", "-c", "pwd"], None)})["pwd"]
    assert {(run.state, run.message) for run in printed} == {("succeeded", "")}
    assert all(run.output_tail.startswith(folder) for run in printed)


@pytest.mark.thorough
@pytest.mark.parametrize("recorded", ["inside", "outside"])
def test_a_gibibyte_of_output(here: Cluster, bare: Environment, recorded: str) -> None:
    for run in run_programs(here, bare, recorded, {"loud": (GIB_OF_OUTPUT, None)})["loud"]:
        assert run.state == "failed"
        assert "exit code 4" in run.message
        assert "the end" in run.message
