"""Names that a scheduler does not know are found among many, and the others are left alone."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from runners.errors import TryAgain
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.schedulers.direct import Direct
from runners.schedulers.slurm import Slurm
from runners.transports import Local
from runners.unknown_nodes import MOST_TRIALS
from tests.runners.test_scheduler_commands import JOB, RESOURCES

SBATCH = """#!/bin/bash
# As Slurm does: one unknown name refuses the whole list, and the message does not say which.
echo . >>"{log}"
script=$(cat)
names=$(sed -n 's/^#SBATCH --exclude=//p' <<<"$script")
case ,$names, in *,gone*) echo "allocation failure: {message}" >&2; exit 1 ;; esac
echo "sbatch: Job 7 to start at noon" >&2
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a `sbatch` that knows no node whose name begins with "gone", and notes its calls."""
    return install_sbatch(tmp_path, monkeypatch, "Invalid node name specified")


def install_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str) -> Path:
    log = tmp_path / "log"
    log.touch()
    program = tmp_path / "sbatch"
    program.write_text(SBATCH.format(log=log, message=message))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return log


def find(*names: str) -> list[str]:
    return Runner(Local(), Slurm()).find_unknown_nodes(avoid(*names))


def avoid(*names: str) -> JobSpec:
    return replace(JOB, resources=replace(RESOURCES, avoided_nodes=",".join(names)))


def test_unknown_names_are_found_wherever_they_stand(log: Path) -> None:
    assert find("n1", "gone1", "n2", "n3", "gone2") == ["gone1", "gone2"]
    assert find("gone") == ["gone"]
    assert find("n1", "n2") == []
    assert find() == []


def test_one_among_a_thousand_takes_few_commands(log: Path) -> None:
    names = [f"n{number}" for number in range(1000)]
    names[700] = "gone"
    assert find(*names) == ["gone"]
    assert len(log.read_text().split()) <= 21


def test_of_hundreds_that_are_gone_a_bounded_number_is_asked_for(log: Path) -> None:
    names = [f"gone{number}" for number in range(500)]
    assert find(*names) == names
    assert len(log.read_text().split()) <= MOST_TRIALS


def test_another_refusal_says_nothing_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_sbatch(tmp_path, monkeypatch, "Requested node configuration is not available")
    assert find("n1", "gone") == []


def test_without_trials_nothing_is_known() -> None:
    assert Runner(Local(), Direct()).find_unknown_nodes(avoid("n1")) == []


def test_a_scheduler_that_does_not_answer_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(TryAgain):
        find("n1")
