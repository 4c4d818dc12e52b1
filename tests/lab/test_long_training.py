"""The seeds' long training, scaled down, with a time limit that is shorter than the training."""

from __future__ import annotations

import pytest
from django_webtest import DjangoTestApp

from experiments import notify
from experiments.execution.segment_facts import CONTINUED
from experiments.models import Cluster, Job, Measurement, Run, Series
from tests.conftest import tick_until
from tests.lab.by_forms import Person, Workers
from tests.lab.test_presets import Smoke, drafted

pytestmark = [
    pytest.mark.lab,
    pytest.mark.thorough,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3000),
]
LIMIT_SECONDS = 40
EPOCHS, EPOCH_STEPS = 16, 100
SMOKE = Smoke(
    "Weak scaling",
    typed={"epochs": str(EPOCHS), "segments": "40", "time_limit_seconds": str(LIMIT_SECONDS)},
    scales="1x1",
)


def test_it_goes_over_several_jobs_in_each_environment_and_reaches_its_accuracy(
    registered: Cluster, django_app: DjangoTestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers()
    monkeypatch.setattr(notify, "enqueue", workers.take)
    person = Person(django_app, workers, "demo")
    launched = drafted(person, registered, "long-training", SMOKE)
    assert launched.workloads.get().time_limit_seconds == LIMIT_SECONDS

    def is_over() -> bool:
        return not launched.jobs.exclude(state__in=Job.FINAL).exists()

    tick_until(registered, is_over, 2400)
    runs = list(launched.runs.all())
    assert len(runs) == 2
    for run in runs:
        assert run.state == Run.State.SUCCEEDED, f"{run.reason}: {run.message}"
        segments = list(run.segments.order_by("number"))
        assert len(segments) > 1, "the time limit is shorter than the training"
        assert {segment.reason for segment in segments[:-1]} <= {CONTINUED, "time limit reached"}
        assert [segment.first_step for segment in segments[1:]] == [
            segment.steps for segment in segments[:-1]
        ], "each begins at the checkpoint of the one before"
        assert segments[-1].steps == EPOCHS * EPOCH_STEPS
        assert len({segment.node for segment in segments}) == 1
        assert all(segment.get_number("restoring_seconds") for segment in segments[1:])

        values = dict(Measurement.objects.filter(run=run).values_list("metric", "value"))
        assert values["accuracy"] >= 0.9
        assert values["top_5_accuracy"] >= values["accuracy"]
        assert values["time_to_accuracy"] <= values["training_time"]
        trained = sum(segment.get_number("training_seconds") or 0 for segment in segments)
        assert values["training_time"] == pytest.approx(trained, rel=0.05)
        if all(segment.reason in ("", CONTINUED) for segment in segments):
            assert values["run_time"] > values["training_time"]

        series = {row.metric: row.values for row in Series.objects.filter(run=run)}
        assert len(series["loss"]) == EPOCHS * EPOCH_STEPS, "no step is counted twice"
        assert len(series["learning_rate"]) == EPOCHS * EPOCH_STEPS
        assert len(series["top_5_accuracy"]) == len(series["accuracy"]) == EPOCHS
        assert len(series["epoch_time"]) == EPOCHS
    losses = [
        tuple(Series.objects.get(run=run, metric="loss").values[: 3 * EPOCH_STEPS]) for run in runs
    ]
    assert losses[0] == losses[1], "the same order and the same numbers, wherever jobs ended"
    page = person.get("run", runs[0].uid)
    assert "Segments" in page.text
