"""Experiments by forms and admin pages alone; then no secret is anywhere, and no link is dead."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import execution
from experiments.comparisons import compare_experiment
from lab.client import Lab
from tests.lab.by_forms import Person, measure, with_slurm, without_scheduler
from tests.secrets_search import pages_of, places_of, rows_of_all_tables

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def test_seven_environments_on_slurm(
    lab: Lab, person: Person, caplog: pytest.LogCaptureFixture
) -> None:
    made = measure(person, with_slurm(lab))
    assert made.environments.count() == 7
    for job in made.jobs.all():
        runs = list(job.runs.order_by("position"))
        assert len({run.node for run in runs}) == 1, "a block stays on one node"
        began = [run.began_at for run in runs]
        assert began == sorted(began, key=str), "in the order that was planned"
        versions = {run.snapshot.content["inside"]["python"]["version"] for run in runs}  # type: ignore[union-attr]
        assert len(versions) == 1, "bare metal and container differ in the container only"
    pairs = compare_experiment(made).pairs
    assert len(pairs) == 6
    assert all(pair.ratio for pair in pairs)

    secrets = places_of(Path(lab.private_key).read_text())
    shown = dict(pages_of(person.app, person.name))
    assert len(shown) > 40
    for where, text in [*shown.items(), *rows_of_all_tables(), ("the log", caplog.text)]:
        for what, secret in secrets.items():
            assert secret not in text, f"{what} is in {where}"
    with execution.connect(made.cluster) as runner:
        search = ["grep", "-rlF", "-f", "-", made.cluster.work_directory]
        found = runner.transport.run(search, stdin="\n".join(secrets.values()).encode())
    assert (found.stdout, found.stderr, found.returncode) == (b"", b"", 1)


def test_three_environments_without_a_scheduler(lab: Lab, person: Person) -> None:
    assert measure(person, without_scheduler(lab)).environments.count() == 3
