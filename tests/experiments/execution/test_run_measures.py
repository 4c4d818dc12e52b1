"""What Tare measures of every run is stored with its source, or with the reason why it is not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from experiments.comparisons import compare_experiment
from experiments.execution.run_measures import keep_measures, measure_run
from experiments.models import Experiment, Job, Measurement, MeasureNotes, Run
from experiments.planning import rules
from experiments.statistics import Verdict
from runners.node_samples import Samples
from runners.records import Record, read_record
from runners.run_measures import JOB_SCRIPT, MARKS, TWO_CLOCKS
from runners.workloads.run_metrics import RUN_METRICS
from tests.conftest import finish
from tests.factories import JobFactory, RunFactory

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]
BLAS = {"workload": {"kind": "blas", "parameters": {}}, "environment": {"image_digest": ""}}
NAMES = {metric.name for metric in RUN_METRICS}


def make_run(scale: str = "1x1", **columns: Any) -> Run:
    job: Job = JobFactory(
        state="collecting", scale=scale, submitted_at=datetime.fromtimestamp(90, tz=UTC)
    )
    made: Run = RunFactory(job=job, scale=scale, spec=BLAS, state="planned", **columns)
    return made


def record_of(run: Run, *lines: dict[str, Any], **files: bytes) -> Record:
    journal = "".join(json.dumps({"run": run.uid, **line}) + "\n" for line in lines)
    folder = f"runs/{run.position}-{run.uid}"
    content = {"journal.ndjson": journal.encode(), f"{folder}/command": b"x"}
    return read_record(
        content | {name.replace("FOLDER", folder): text for name, text in files.items()}
    )


WHOLE = (
    {"event": "job started", "time": 95.0},
    {"event": "run began", "time": 100.0, "uptime": 10.0},
    {"event": "program ended", "time": 120.0, "uptime": 30.0},
    {"event": "run ended", "time": 121.0},
)


def test_runs_that_are_collected_have_times_and_memory(experiment: Make) -> None:
    made = experiment(repeats=1)
    finish(made)
    for run in made.runs.filter(state=Run.State.SUCCEEDED).select_related("measure_notes"):
        rows = {row.metric: row for row in run.measurements.filter(metric__in=NAMES)}
        missing = run.measure_notes.missing
        assert rows.keys() | missing.keys() == NAMES
        assert not rows.keys() & missing.keys()
        assert run.began_at
        assert run.ended_at
        assert 0 < rows["run_time"].value < (run.ended_at - run.began_at).total_seconds()
        assert rows["run_time"].source == JOB_SCRIPT
        assert 10e6 < rows["peak_host_memory"].value < 1e9
        assert rows["peak_host_memory"].source == MARKS
        # Jobs here start while their submission is being noted: two clocks tell, or cannot tell.
        waited = rows.get("queue_time")
        assert waited.source == TWO_CLOCKS if waited else "noted its" in missing["queue_time"]
        assert missing["gpu_energy"] == missing["peak_gpu_memory"] == "the run has no GPU"
        own = run.measurements.exclude(metric__in=NAMES)
        assert own.filter(metric="step_time", source="").exists()


def test_a_whole_record_gives_every_measure() -> None:
    run = make_run()
    samples = Samples()
    for name, value in (("GPU memory", 5e9), ("GPU power", 400.0)):
        samples.tracks[name, 0] = [(102.0 + 5 * k, value) for k in range(4)]
    inside = b'{"memory": {"own_bytes": 2000, "child_bytes": 1000}}'
    record = record_of(run, *WHOLE, **{"FOLDER/inside.json": inside})
    record = dataclasses.replace(
        record, samples={"samples/rapl.txt": b"100.0 5/99999999999\n120.0 8000005/99999999999\n"}
    )
    record.__dict__["node_samples"] = samples
    measures = measure_run(run, record.runs[run.uid], record)
    assert measures.missing == {}
    assert {name: measure.value for name, measure in measures.values.items()} == {
        "run_time": 20.0,
        "queue_time": 5.0,
        "peak_host_memory": 3000,
        "peak_gpu_memory": 5e9,
        "gpu_energy": 8000.0,
        "host_energy": 8.0,
    }


@pytest.mark.parametrize(
    ("scale", "name", "words"),
    [
        ("1x0", "gpu_energy", "has no GPU"),
        ("1x0", "peak_gpu_memory", "has no GPU"),
        ("2x1 srun", "gpu_energy", "of the 2 nodes of the run the first alone"),
        ("2x1 srun", "host_energy", "of the 2 nodes of the run the first alone"),
        ("1x2", "gpu_energy", "1 GPUs were sampled, and the run has 2"),
        ("1x1", "host_energy", "does not let users read"),
        ("1x1", "peak_host_memory", "left no account"),
    ],
)
def test_what_is_missing_has_a_reason_and_no_value(scale: str, name: str, words: str) -> None:
    run = make_run(scale)
    record = record_of(run, *WHOLE)
    record.__dict__["node_samples"] = Samples(tracks={("GPU power", 0): [(101.0, 5.0)]})
    measures = measure_run(run, record.runs[run.uid], record)
    assert words in measures.missing[name]
    assert name not in measures.values
    assert measures.values.keys() | measures.missing.keys() == NAMES


def test_the_time_of_the_record_is_no_time_of_the_run() -> None:
    run = make_run()
    record = record_of(run, *WHOLE)
    measures = measure_run(run, record.runs[run.uid], record, 0.25)
    assert measures.values["run_time"].value == 19.75
    assert "without 0.250 s" in measures.values["run_time"].detail
    for odd in (0.0, -1.0, 20.0, 31.0, float("nan")):
        measures = measure_run(run, record.runs[run.uid], record, odd)
        assert measures.values["run_time"].value == 20.0, odd


def test_records_of_older_job_scripts_lack_what_these_did_not_write() -> None:
    run = make_run()
    old = [{name: value for name, value in line.items() if name != "uptime"} for line in WHOLE]
    record = record_of(run, *(line for line in old if line["event"] != "program ended"))
    measures = measure_run(run, record.runs[run.uid], record)
    assert measures.values.keys() == {"queue_time"}


def test_a_clock_that_went_back_while_a_run_ran_leaves_no_time() -> None:
    run = make_run()
    back = [line | ({"time": 80.0} if line["event"] == "program ended" else {}) for line in WHOLE]
    record = record_of(run, *back)
    measures = measure_run(run, record.runs[run.uid], record)
    assert measures.missing["run_time"] == ("the node's clock was set by −40.0 s while the run ran")


def test_notes_are_written_anew_for_the_same_run(experiment: Make) -> None:
    from unittest import mock

    from experiments.execution import keeping

    made = experiment(repeats=1)
    kept: list[keeping.RunEnd] = []
    with mock.patch.object(keeping, "keep_measures", lambda ends: kept.extend(ends)):
        finish(made)
    keep_measures(kept)
    assert MeasureNotes.objects.count() == 2
    Measurement.objects.filter(metric__in=NAMES).delete()
    keep_measures(kept)
    assert MeasureNotes.objects.count() == 2


# --- As the metric that decides


def decide_by(metric: str, sources: dict[str, str], experiment: Make) -> Any:
    made = experiment(repeats=5)
    finish(made)
    Experiment.objects.filter(pk=made.pk).update(primary_metric=metric)
    Measurement.objects.filter(metric=metric).delete()
    for number, run in enumerate(made.runs.order_by("pk").select_related("environment")):
        name = run.environment.name
        value = (1.4 if name == "other" else 1.0) * (1000 + number % 7)
        Measurement.objects.create(
            run=run, metric=metric, value=value, unit="J", source=sources[name]
        )
    ((pair,),) = [
        group.pairs for group in compare_experiment(Experiment.objects.get(pk=made.pk)).groups
    ]
    return pair


def test_a_plan_may_decide_by_energy_and_not_by_two_sources(experiment: Make) -> None:
    pair = decide_by("gpu_energy", {"bare metal": "counter", "other": "counter"}, experiment)
    assert pair.verdict is Verdict.SLOWER
    assert "more than bare metal" in pair.claim
    Measurement.objects.filter(metric="gpu_energy", run__environment__name="other").update(
        source="samples"
    )
    made = Experiment.objects.get()
    ((pair,),) = [group.pairs for group in compare_experiment(made).groups]
    assert pair.verdict is Verdict.NO_INFERENCE
    assert "bare metal by counter (5), other by samples (5)" in pair.sentence


def test_the_time_in_the_queue_decides_nothing_between_runs_of_one_job(experiment: Make) -> None:
    made = experiment(repeats=1)

    def refusals(metric: str, *, paired: bool) -> list[str]:
        messages = rules.list_refusals(
            cluster=made.cluster,
            partition=None,
            workloads=list(made.workloads.all()),
            environments=list(made.environments.all()),
            baseline=made.baseline,
            scales=["1x0"],
            repeats=5,
            paired=paired,
            primary_metric=metric,
        )
        return messages.get("primary_metric", [])

    assert refusals("queue_time", paired=False) == []
    assert "choose the independent design" in refusals("queue_time", paired=True)[0]
    assert refusals("run_time", paired=True) == []
    assert "does not report" in refusals("speed", paired=True)[0]
