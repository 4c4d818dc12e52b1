"""What programs read: the state of experiments, their verdicts, runs, and what they are made of."""

from __future__ import annotations

import json
import math

import pytest
from django.test import Client

from dashboard.api import result_routes
from experiments.comparisons import kept
from experiments.models import Experiment, Measurement, Run, Series, StoredRecord
from experiments.statistics.exit_words import choose_exit_word
from tests.dashboard.api.requests_by_token import get, log_in
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import (
    DataSetFactory,
    ExperimentFactory,
    ImageFactory,
    MeasurementFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def study() -> Experiment:
    """An experiment of five blocks that has ended."""
    experiment = launch(repeats=5)
    end_runs(experiment)
    return Experiment.objects.get(pk=experiment.pk)


def test_an_experiment_with_its_verdict(client: Client, study: Experiment) -> None:
    headers = log_in(study.owner)
    row = get(client, f"experiments/{study.pk}", headers)
    assert (row["state"], row["is_alive"], row["runs"]) == ("finished", False, {"succeeded": 10})
    progress = get(client, f"experiments/{study.pk}/progress", headers)
    assert (progress["exit_word"], progress["running"]) == ("equivalent", [])
    assert "equivalent" in progress["sentence"]
    comparison = get(client, f"experiments/{study.pk}/comparison", headers)
    assert comparison["exit_word"] == "equivalent"
    assert comparison["comparison"][0]["verdict"] == "EQUIVALENT"
    assert comparison["experiment"]["plan_hash"] == study.plan_hash


def test_a_draft_is_unfinished_and_has_no_verdict(client: Client) -> None:
    draft = ExperimentFactory()
    progress = get(client, f"experiments/{draft.pk}/progress", log_in(draft.owner))
    assert (progress["exit_word"], progress["is_alive"]) == ("unfinished", False)


def test_what_has_not_changed_is_not_sent_again(client: Client, study: Experiment) -> None:
    headers = log_in(study.owner)
    for path in (f"experiments/{study.pk}", f"experiments/{study.pk}/comparison"):
        etag = client.get(f"/api/v1/{path}", headers=headers)["ETag"]
        again = client.get(f"/api/v1/{path}", headers=headers | {"If-None-Match": etag})
        assert (again.status_code, again.content) == (304, b"")


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is no number of JSON")


def test_numbers_that_json_does_not_have_are_null(client: Client, study: Experiment) -> None:
    """A training that has come to nothing reports NaN: no list of runs may break of one."""
    run = study.runs.latest("pk")
    odd = [math.nan, math.inf, -math.inf]
    Series.objects.create(run=run, metric="loss", unit="", values=[1.5, *odd])
    for number, value in enumerate(odd):
        MeasurementFactory(run=run, metric=f"odd{number}", value=value)
    Measurement.objects.filter(run=run, metric="step_time").update(value=math.nan)
    headers = log_in(study.owner)
    for path, places in (
        (f"experiments/{study.pk}/runs?limit=1", ("items", 0, "metrics")),
        ("runs?limit=1", ("items", 0, "metrics")),
        (f"runs/{run.uid}", ("metrics",)),
    ):
        answer = client.get(f"/api/v1/{path}", headers=headers)
        content = json.loads(answer.content, parse_constant=refuse_constant)
        for place in places:
            content = content[place]
        assert {content[name] for name in ("odd0", "odd1", "odd2", "step_time")} == {None}
    series = get(client, f"runs/{run.uid}/series?metric=loss", headers)
    assert series["items"][0]["values"] == [1.5, None, None, None]
    for name in ("comparison", "progress", "bencher.json", "pytest-benchmark.json"):
        answer = client.get(f"/api/v1/experiments/{study.pk}/{name}", headers=headers)
        json.loads(answer.content, parse_constant=refuse_constant)


def test_runs_with_their_metrics_steps_and_output(client: Client, study: Experiment) -> None:
    run = study.runs.earliest("pk")
    Series.objects.filter(run=run).delete()
    Series.objects.create(run=run, metric="step_time", unit="s", values=[0.1, 0.2], burn_in=1)
    StoredRecord.objects.filter(run=run).delete()
    Run.objects.filter(pk=run.pk).update(output_tail="done \N{SNOWMAN}\n")
    headers = log_in(study.owner)
    found = get(client, f"experiments/{study.pk}/runs?metrics=step_time&fields=metrics", headers)
    assert len(found["items"]) == 10
    assert all(item["metrics"].keys() == {"step_time"} for item in found["items"])
    assert get(client, f"runs/{run.uid}", headers)["phases"] == run.phases
    series = get(client, f"runs/{run.uid}/series?metric=step_time", headers)["items"]
    assert [(row["values"], row["warm_up"]) for row in series] == [([0.1, 0.2], 1)]
    output = client.get(f"/api/v1/runs/{run.uid}/output", headers=headers)
    assert output.content.decode() == "done \N{SNOWMAN}\n"
    events = get(client, f"experiments/{study.pk}/events", headers)["items"]
    assert any("launched" in event["what"] for event in events)


@pytest.mark.parametrize("word", ["clusters", "environments", "workloads", "images", "data-sets"])
def test_what_experiments_are_made_of(client: Client, study: Experiment, word: str) -> None:
    DataSetFactory(owner=study.owner)
    ImageFactory(owner=study.owner)
    headers = log_in(study.owner)
    items = get(client, word, headers)["items"]
    assert items
    for item in items:
        assert get(client, f"{word}/{item['id']}", headers) == item
    assert get(client, f"{word}/999999", headers, 404)["title"] == "Not Found"


def test_of_others_nothing_is_seen(client: Client, study: Experiment) -> None:
    Experiment.objects.filter(pk=study.pk).update(visibility="private")
    headers, run = log_in(UserFactory()), study.runs.earliest("pk")
    assert get(client, "runs", headers)["items"] == []
    for path in (
        *(f"experiments/{study.pk}{end}" for end in ("", "/progress", "/comparison", "/runs")),
        *(f"runs/{run.uid}{end}" for end in ("", "/series", "/output")),
    ):
        get(client, path, headers, 404)


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        ({"EQUIVALENT": 3}, "equivalent"),
        ({"FASTER": 1, "EQUIVALENT": 1}, "equivalent"),
        ({"FASTER": 2}, "faster"),
        ({"NOT SLOWER": 1}, "not_slower"),
        ({"SLOWER": 1, "EQUIVALENT": 9, "INCONCLUSIVE": 1}, "slower"),
        ({"INCONCLUSIVE": 1, "NO INFERENCE": 1}, "inconclusive"),
        ({"NOT SHOWN": 1}, "inconclusive"),
        ({"NOT ATTRIBUTABLE": 1, "EQUIVALENT": 1}, "failed"),
        ({}, "failed"),
    ],
)
def test_one_word_for_programs(verdicts: dict[str, int], word: str) -> None:
    assert choose_exit_word(verdicts, is_alive=False) == word
    assert choose_exit_word({}, is_alive=True) == "unfinished"


def test_progress_asks_no_more_of_a_comparison_that_it_knows(
    client: Client, study: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers, path = log_in(study.owner), f"experiments/{study.pk}/progress"
    first = get(client, path, headers)
    monkeypatch.setattr(result_routes, "read_latest", pytest.fail)
    assert get(client, path, headers) == first


def test_a_comparison_that_a_worker_has_to_compute_is_unfinished(
    client: Client, study: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MANY_RUNS", 1)
    progress = get(client, f"experiments/{study.pk}/progress", log_in(study.owner))
    assert (progress["exit_word"], progress["verdicts"]) == ("unfinished", {})
    assert "being computed" in progress["sentence"]
    kept.keep_comparison(study.pk)
    progress = get(client, f"experiments/{study.pk}/progress", log_in(study.owner))
    assert progress["exit_word"] == "equivalent"
