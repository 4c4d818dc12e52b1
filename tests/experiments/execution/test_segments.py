"""Runs that take several jobs, by a stand-in that stops, hangs or ends as it is told to.

The real training goes over several jobs in `tests/lab/test_long_training.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.comparisons import compare_experiment
from experiments.comparisons.run_rows import list_run_rows
from experiments.comparisons.run_tables import make_runs_table
from experiments.execution import lifecycle, run_ends
from experiments.execution.further_attempts import find_further_attempts
from experiments.execution.record_documents import describe_record
from experiments.execution.retention import list_removable
from experiments.execution.run_measures import Measures
from experiments.execution.segment_facts import CONTINUED, read_segment_facts
from experiments.execution.segments import add_up
from experiments.execution.specs import make_job_spec
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Job,
    Measurement,
    MeasureNotes,
    Run,
    Segment,
    Series,
    Workload,
)
from experiments.statistics import Stamp
from runners.node_rules import Judgement
from runners.records import RunRecord
from runners.run_measures import Measure
from tests.conftest import finish
from tests.factories import EnvironmentFactory, ExperimentFactory, RunFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

STAND_IN = """#!{python}
import json, os, sys, time
spec = json.load(open(sys.argv[2]))
segment, plan = spec["segment"], {plan!r}
number = segment["number"]
doing = plan[number - 1]
os.chdir(os.path.dirname(sys.argv[2]))
assert all(os.path.isdir(path) for path in segment["earlier"])
facts = dict(schema=1, number=number, first_step=10 * (number - 1), steps=10 * number)
facts.update(of_steps=10 * len(plan), training_seconds=2.5, saving_seconds=0.25, ended="")
facts.update(restoring_seconds=0.5 * (number > 1))
if doing == "hang early":
    facts["steps"] = facts["first_step"]
if doing != "crash without a word":
    json.dump(facts, open("segment.json", "w"))
series = {{name: {{"unit": unit, "values": [1.0] * (10 * number + 3 * ("hang" in doing))}}
          for name, unit in (("step_time", "s"), ("loss", "1"))}}
result = dict(schema=1, metrics={{}}, series=series, phases={{"steady state": 1.0}}, facts={{}})
with open("result.jsonl", "w") as file:
    for name, entry in series.items():
        print(json.dumps({{"series": name, "from": 0, **entry}}), file=file)
json.dump(dict(memory=dict(own_bytes=1000 * number, child_bytes=0), segments=number),
          open("inside.json", "w"))
if doing.startswith("hang"):
    time.sleep(60)
if doing.startswith("crash"):
    sys.exit(1)
facts["ended"] = "unfinished" if doing == "stop" else "finished"
json.dump(facts, open("segment.json", "w"))
if doing == "stop":
    sys.exit(75)
noise = os.getpid() % 97 / 1e5
metrics = dict(step_time=(1.0 + {slow} + noise, "s"), loss=(1.0, "1"),
               training_time=(10.0 * number, "s"))
result["metrics"] = {{name: dict(value=value, unit=unit)
                     for name, (value, unit) in metrics.items()}}
json.dump(result, open("result.json", "w"))
"""


@pytest.fixture
def launch(here: Cluster, tmp_path: Path) -> Callable[..., Experiment]:
    """Launch runs of a workload that may take three jobs; a plan says what each of them does."""

    def make_environment(name: str, plan: tuple[str, ...], *, slow: float) -> Environment:
        path = tmp_path / f"{name.replace(' ', '-')}.py"
        path.write_text(STAND_IN.format(python=sys.executable, plan=plan, slow=slow))
        path.chmod(0o755)
        made: Environment = EnvironmentFactory(name=name, cluster=here, python=str(path))
        return made

    def make(
        bare: tuple[str, ...],
        other: tuple[str, ...],
        *,
        segments: int = 3,
        seconds: int = 60,
        **columns: Any,
    ) -> Experiment:
        workload: Workload = WorkloadFactory(
            name="long",
            kind="cnn",
            parameters={"segments": segments},
            time_limit_seconds=seconds,
        )
        environments = [
            make_environment("bare metal", bare, slow=0.0),
            make_environment("other", other, slow=0.5),
        ]
        made: Experiment = ExperimentFactory(
            cluster=here,
            partition=None,
            baseline=environments[0],
            environments=environments,
            workloads=[workload],
            scales=["1x0"],
            **{"repeats": 1, **columns},
        )
        lifecycle.launch(made, made.owner)
        finish(made)
        return made

    return make


Launch = Callable[..., Experiment]


def find_run(made: Experiment, name: str) -> Run:
    run: Run = made.runs.get(environment__name=name)
    return run


def outcomes(made: Experiment, name: str) -> list[str]:
    return [segment.reason for segment in find_run(made, name).segments.order_by("number")]


def test_a_run_goes_on_in_further_jobs_until_its_end(launch: Launch) -> None:
    made = launch(("stop", "stop", "end"), ("stop", "end"))
    assert {run.state for run in made.runs.all()} == {Run.State.SUCCEEDED}
    first, second, third = made.jobs.order_by("pk")
    assert [job.state for job in (first, second, third)] == [Job.State.DONE] * 3
    assert (second.repairs, third.repairs) == (first, second)
    assert {second.node, third.node} == {find_run(made, "bare metal").node}, "pairs are of one node"
    assert find_run(made, "other").job == second
    assert find_run(made, "bare metal").job == third
    assert outcomes(made, "bare metal") == [CONTINUED, CONTINUED, ""]
    assert outcomes(made, "other") == [CONTINUED, ""]
    assert made.runs.count() == 2, "the run stays the unit"
    events = made.events.filter(job=second, run=None)
    assert any("stopped before the end" in event.why for event in events)
    for job in (first, second, third):
        assert not find_further_attempts(job), "nothing is left to do about any of them"


def test_segments_say_what_each_did_and_run_time_is_their_sum(launch: Launch) -> None:
    made = launch(("stop", "stop", "end"), ("stop", "stop", "end"))
    run = find_run(made, "other")
    segments = list(run.segments.order_by("number"))
    assert [(s.first_step, s.steps, s.steps_lost) for s in segments] == [
        *[(0, 10, 0), (10, 20, 0), (20, 30, 0)]
    ]
    assert [s.get_number("restoring_seconds") for s in segments] == [0, 0.5, 0.5]
    times = [s.measures["values"]["run_time"]["value"] for s in segments]
    measured = {row.metric: row for row in Measurement.objects.filter(run=run)}
    assert measured["run_time"].value == pytest.approx(sum(times))
    assert measured["peak_host_memory"].value == 3000, "the largest, not the sum"
    notes = MeasureNotes.objects.get(run=run)
    assert "the sum of 3 segments" in notes.details["run_time"]
    (losses,) = Series.objects.filter(run=run, metric="loss")
    assert len(losses.values) == 30, "those of the last job, which hold all before"
    assert measured["step_time"].value == pytest.approx(1.5, rel=0.01)


def test_a_killed_segment_is_gone_on_with_and_what_it_did_twice_does_not_count(
    launch: Launch,
) -> None:
    made = launch(("stop", "end"), ("hang", "end"), seconds=3)
    run = find_run(made, "other")
    assert run.state == Run.State.SUCCEEDED
    killed, last = run.segments.order_by("number")
    assert killed.reason == "time limit reached"
    assert (killed.steps, killed.reported_steps, killed.steps_lost) == (10, 13, 3)
    assert last.steps_lost == 0
    metrics = set(Measurement.objects.filter(run=run).values_list("metric", flat=True))
    assert "run_time" not in metrics, "part of it was for nothing"
    assert "training_time" in metrics
    missing = MeasureNotes.objects.get(run=run).missing["run_time"]
    assert missing.startswith("of segment 1: it ended as time limit reached, after its last check")


def test_a_run_that_takes_more_jobs_than_it_may_fails_as_it_says(launch: Launch) -> None:
    made = launch(("stop", "end"), ("hang", "hang"), segments=2, seconds=3)
    assert find_run(made, "bare metal").state == Run.State.SUCCEEDED
    run = find_run(made, "other")
    assert (run.state, run.reason) == (Run.State.FAILED, "time limit reached")
    assert len(outcomes(made, "other")) == 2


def test_a_run_without_any_checkpoint_does_not_go_on_by_itself(launch: Launch) -> None:
    made = launch(("end",), ("hang early",), seconds=3)
    run = find_run(made, "other")
    assert (run.state, run.reason) == (Run.State.FAILED, "time limit reached")
    assert made.jobs.count() == 1


def test_a_program_that_crashes_does_not_go_on(launch: Launch) -> None:
    made = launch(("stop", "end"), ("stop", "crash"))
    run = find_run(made, "other")
    assert (run.state, run.reason) == (Run.State.FAILED, "crashed")
    assert outcomes(made, "other") == [CONTINUED, "crashed"]


def test_the_exit_code_alone_is_no_checkpoint(launch: Launch) -> None:
    made = launch(("end",), ("crash without a word",))
    run = find_run(made, "other")
    assert (run.state, run.reason) == (Run.State.FAILED, "crashed")
    assert made.jobs.count() == 1


def test_another_attempt_by_a_person_begins_with_the_first_step(launch: Launch) -> None:
    made = launch(("crash",), ("crash",))
    made.jobs.update(state=Job.State.FAILED, reason="failed")
    (job,) = made.jobs.all()
    assert Segment.objects.count() == 2
    lifecycle.retry(job, made.owner)
    assert not Segment.objects.exists()


def test_a_rejected_segment_is_run_again_from_the_first_step(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did on a bad node is in its checkpoint, too."""
    judged: list[Run] = []

    def judge(run: Run, *_: object) -> Judgement:
        judged.append(run)
        is_bad = run.environment.name == "other" and sum(r == run for r in judged) == 2
        return Judgement(("the node swapped",) if is_bad else ())

    monkeypatch.setattr(run_ends, "judge_node", judge)
    made = launch(("stop", "end"), ("stop", "end"), reject_swap=True, rejected_again=1)
    run = find_run(made, "other")
    assert run.state == Run.State.SUCCEEDED
    assert outcomes(made, "other") == [CONTINUED, ""]
    assert made.jobs.count() == 4, "two segments, and two again"


def test_the_next_job_knows_the_directories_before_it_and_binds_them(launch: Launch) -> None:
    made = launch(("stop", "stop", "end"), ("stop", "stop", "end"))
    third = made.jobs.order_by("pk").last()
    assert third
    Segment.objects.filter(number=3).delete()
    for run in make_job_spec(third).runs:
        assert run.segment
        assert (run.segment.number, run.segment.most) == (3, 3)
        rows = Segment.objects.filter(run__uid=run.uid).order_by("-number")
        assert list(run.segment.earlier) == [row.directory for row in rows]
    script = third.script
    first = made.jobs.order_by("pk").first()
    assert first
    assert first.directory not in script, "bare metal needs no binds: the spec names them"


def test_a_directory_stays_while_a_run_needs_its_checkpoint(launch: Launch) -> None:
    made = launch(("stop", "end"), ("stop", "end"))
    Cluster.objects.filter(pk=made.cluster_id).update(retention_days=1)
    Job.objects.update(verified_at="2020-01-01T00:00:00Z", collect_at=None)
    cluster = Cluster.objects.get(pk=made.cluster_id)
    first = made.jobs.order_by("pk").first()
    assert first in list_removable(cluster)
    Run.objects.update(state=Run.State.RUNNING)
    assert first not in list_removable(cluster)


def test_numbers_of_segments_that_differ_are_said(launch: Launch) -> None:
    made = launch(("end",), ("stop", "end"), repeats=3)
    comparison = compare_experiment(made)
    (pair,) = (pair for group in comparison.groups for pair in group.pairs)
    assert Stamp.CONFOUNDED in pair.stamps
    assert any("jobs that the run took" in str(row) for row in pair.facts.differences)


# --- What comes from the cluster

NOTHING = RunRecord(
    began=None,
    ended=None,
    exit_code=75,
    failure="",
    command="",
    output_tail="",
    runtime_version="",
    files={},
    snapshot={},
)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"number": 1}',
        b'{"number": NaN, "first_step": 0, "steps": 1, "of_steps": 2, "ended": ""}',
        b'{"number": 1, "first_step": -1, "steps": 1, "of_steps": 2, "ended": ""}',
        b'{"number": 1, "first_step": 0, "steps": 1e400, "of_steps": 2, "ended": ""}',
        b'{"number": 1, "first_step": 0, "steps": 1, "of_steps": 2, "ended": 7}',
        b'{"number": 1, "first_step": 0, "steps": 1, "of_steps": 2, "ended": "'
        + b"x" * 5000
        + b'"}',
        b"[" * 100_000,
    ],
)
def test_a_segment_that_cannot_be_read_says_nothing(content: bytes) -> None:
    assert read_segment_facts(replace(NOTHING, files={"segment.json": content})) == {}


def test_measures_of_other_sources_are_not_added() -> None:
    measures = {"values": {"run_time": {"value": 1.0, "unit": "s", "source": "a"}}, "missing": {}}
    first = Segment(number=1, reason=CONTINUED, measures=json.loads(json.dumps(measures)))
    same = add_up([first], Measures({"run_time": Measure(2.0, "s", "a")}, {}))
    assert same.values["run_time"].value == 3.0
    other = add_up([first], Measures({"run_time": Measure(2.0, "s", "b")}, {}))
    assert other.missing["run_time"] == "its segments have it from a and b"
    lacking = add_up([Segment(number=1)], Measures({"run_time": Measure(2.0, "s", "a")}, {}))
    assert lacking.missing["run_time"] == "of segment 1: it was not measured"


# --- Where people read it


def test_pages_and_files_say_what_the_jobs_of_a_run_did(launch: Launch, client: Client) -> None:
    made = launch(("stop", "end"), ("hang", "end"), seconds=3)
    client.force_login(made.owner)
    page = client.get(reverse("run", args=[find_run(made, "other").uid])).content.decode()
    assert "Segments" in page
    assert "2 of at most 3 jobs" in page
    assert "time limit reached" in page
    assert "3 steps" in page, "which were lost"

    rows = {row["environment"]: row for row in list_run_rows(made)}
    assert rows["other"]["segments"] == rows["bare metal"]["segments"] == 2
    assert rows["other"]["segments_steps_lost"] == 3
    assert rows["bare metal"]["segments_restoring_seconds"] == 0.5
    assert rows["bare metal"]["segments_saving_seconds"] == 0.5
    table = make_runs_table(made)
    assert "segments_steps_lost" in [column.name for column in table.columns]

    record = describe_record(find_run(made, "other"))
    assert [part["ended"] for part in record["segments"]] == [
        "time limit reached",
        "at the last step",
    ]
    json.dumps(record["segments"])


def test_a_run_of_one_job_has_no_segments_anywhere(launch: Launch, client: Client) -> None:
    run: Run = RunFactory(state="succeeded")
    client.force_login(run.experiment.owner)
    page = client.get(reverse("run", args=[run.uid])).content.decode()
    assert "Segments" not in page
    assert "segments" not in next(iter(list_run_rows(run.experiment)))
