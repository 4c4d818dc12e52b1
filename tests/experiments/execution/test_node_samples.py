"""The samples of a job's node are stored with the run in whose time they were taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest

from experiments.execution import keeping
from experiments.execution.node_samples import keep_samples
from experiments.models import Experiment, NodeSamples, Run
from runners.node_samples import Samples
from tests.conftest import finish

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]


def test_runs_that_are_collected_keep_the_samples_of_their_time(experiment: Make) -> None:
    read = mock.Mock(side_effect=lambda files: files and every_tenth_of_a_second())
    with mock.patch("runners.records.read_samples", read):
        made = experiment(repeats=1)
        finish(made)
    runs = made.runs.filter(state=Run.State.SUCCEEDED)
    assert {row.run_id for row in NodeSamples.objects.all()} == {run.pk for run in runs}
    for row in NodeSamples.objects.select_related("run"):
        run = row.run
        assert run.began_at
        assert run.ended_at
        took = (run.ended_at - run.began_at).total_seconds()
        assert row.content["seconds"] == pytest.approx(took, abs=0.01)
    jobs = made.jobs.count()
    assert read.call_count == jobs, "once a job, however many runs it has"


def every_tenth_of_a_second() -> Samples:
    import time

    now = time.time()
    times = [now - 60 + number / 100 for number in range(6000)]
    return Samples(tracks={("memory", None): [(moment, 5.0) for moment in times]}, times=times)


def test_samples_of_an_earlier_attempt_are_replaced(experiment: Make) -> None:
    made = experiment(repeats=1)
    kept: list[keeping.RunEnd] = []
    with mock.patch.object(keeping, "keep_samples", lambda ends: kept.extend(ends)):
        finish(made)
    (first, *_) = (end for end in kept if end.run_record)
    assert first.record
    assert first.run_record
    NodeSamples.objects.create(run=first.run, content={"old": True})
    keep_samples([replace(first, record=replace(first.record, samples={}))])
    assert NodeSamples.objects.get().content == {"old": True}, "late files without samples"
    first.run.job.attempt = 2
    keep_samples([replace(first, record=replace(first.record, samples={}))])
    assert not NodeSamples.objects.exists()
    line = f"{first.run_record.began:.6f} 1 2 3 4 5 6 7\n".encode()
    samples = {"samples/node.txt": line + b"\xff\n"}
    for _ in range(2):
        keep_samples([replace(first, record=replace(first.record, samples=samples))])
    assert NodeSamples.objects.get().content["odd_lines"] == 1
