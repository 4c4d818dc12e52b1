"""The samples of a job's node are stored with the run in whose time they were taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from experiments.execution import keeping
from experiments.execution.journals import read_nodes
from experiments.execution.node_samples import keep_samples
from experiments.models import Experiment, NodeSamples, Run
from runners.journals import read_lines
from runners.node_samples import Samples
from runners.records import Record, read_record
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


def test_the_nodes_of_a_job_are_those_of_its_journal(experiment: Make) -> None:
    made = experiment(repeats=1)
    finish(made)
    job = made.jobs.all()[0]
    assert job.nodes == [], "of a job on one node its runs say it"
    names = ["n1", "n2", "", "n2"]
    assert read_nodes(record_of({"nodes": names})) == ["n1", "n2"]
    assert read_nodes(record_of({"nodes": [f"n{k}" for k in range(500)]}))[-1] == "n499"
    assert read_nodes(record_of({"event": "job started"})) == []


def record_of(line: dict[str, Any]) -> Record:
    content = json.dumps({"time": 1.0, "event": "nodes", "node": "n1", **line})
    return read_record({"journal.ndjson": f"{content}\n".encode()})


@pytest.mark.parametrize(
    "nodes", ['"n1"', "[1]", '["n1", null]', '{"a": "n1"}', "7", '["\\u0000"]']
)
def test_an_odd_list_of_nodes_stops_no_other_line(nodes: str) -> None:
    content = (
        f'{{"time": 1, "event": "nodes", "nodes": {nodes}}}\n'
        '{"time": 2, "event": "run began", "run": "a"}\n'
    )
    lines, _ = read_lines(content.encode())
    assert lines[-1]["event"] == "run began"
    for line in lines[:-1]:
        assert all(isinstance(name, str) and "\0" not in name for name in line["nodes"])


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
