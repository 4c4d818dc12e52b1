"""The files: they parse, they are complete, and the comparison can be recomputed from them."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape
from pyarrow import parquet

from dashboard.comparisons.export_views import NO_RESULTS
from experiments.comparisons import compare_experiment
from experiments.models import Experiment, Run
from experiments.statistics import Sample, compare, numbers
from tests.factories import ExperimentFactory, MeasurementFactory

pytestmark = pytest.mark.django_db


def table(client: Client, name: str, experiment: Experiment) -> list[dict[str, str]]:
    answer: Any = client.get(reverse(name, args=[experiment.pk]))
    text = b"".join(answer.streaming_content).decode()
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(text)))


def document(client: Client, name: str, experiment: Experiment) -> dict[str, Any]:
    answer = client.get(reverse(name, args=[experiment.pk]))
    assert answer["Content-Type"] == "application/json"
    found: dict[str, Any] = json.loads(answer.content)
    return found


def test_every_run_is_in_the_export(results: Experiment, as_owner: Client) -> None:
    failed = results.runs.all()[3]
    Run.objects.filter(pk=failed.pk).update(state="failed", reason="crashed")
    failed.measurements.all().delete()
    rows = table(as_owner, "runs_csv", results)
    assert {row["run"] for row in rows} == set(results.runs.values_list("uid", flat=True))
    assert [row["reason"] for row in rows if row["state"] == "failed"] == ["crashed"]
    assert len(document(as_owner, "runs_json", results)["runs"]) == 10


def test_runs_with_numbers_that_json_does_not_have_are_in_the_export(
    results: Experiment, as_owner: Client
) -> None:
    for number, value in enumerate((math.nan, math.inf)):
        MeasurementFactory(run=results.runs.all()[number], metric="loss", value=value)
    runs = document(as_owner, "runs_json", results)["runs"]
    assert {row["loss (s)"] for row in runs if "loss (s)" in row} == {None}
    assert len(runs) == 10


def test_promise_2_the_comparison_is_recomputed_from_the_export(
    results: Experiment, as_owner: Client
) -> None:
    rows = table(as_owner, "runs_csv", results)
    samples = [
        Sample(row["run"], row["job"], row["environment"], float(row["step_time (s)"]))
        for row in rows
    ]
    about = document(as_owner, "comparison_json", results)["experiment"]
    (again,) = compare(
        samples,
        baseline="bare metal",
        environments=["Apptainer"],
        margin=about["margin"],
        better="lower",
        paired=True,
        unit="s",
    )
    (exported,) = table(as_owner, "comparison_csv", results)
    (shown,) = compare_experiment(results).pairs
    assert float(exported["ratio"]) == again.ratio == shown.ratio
    assert (float(exported["ci95_low"]), float(exported["ci95_high"])) == again.ci95
    assert exported["verdict"] == again.verdict
    bounds = ("p_lower_bound", "p_upper_bound")
    facts = ("facts_compared", "facts_of", "facts_blocking", "facts_likely", "facts_cosmetic")
    newer = (*facts, "facts_verdict_by_numbers")
    assert tuple(exported)[-6:] == newer, "what is newer stands at the end"
    assert tuple(exported)[-12:-10] == bounds
    assert tuple(float(exported[name]) for name in bounds) == (
        again.p_lower_bound,
        again.p_upper_bound,
    )
    assert max(float(exported[name]) for name in bounds) == again.p_equivalence
    assert (float(exported["log_se"]), float(exported["df"])) == (again.log_se, again.df)


def test_the_full_results_have_the_standard_error_and_both_one_sided_p(
    results: Experiment, as_owner: Client
) -> None:
    (pair,) = compare_experiment(results).pairs
    page = as_owner.get(reverse("comparison", args=[results.pk]), {"section": "full_results"})
    text = page.content.decode()
    assert numbers.standard_error(pair.log_se, pair.df).endswith("(df 4)")
    assert f">{numbers.standard_error(pair.log_se, pair.df)}</td>" in text
    shown = escape(numbers.p_of_bounds(pair.p_lower_bound, pair.p_upper_bound))
    assert "," in shown
    unbroken = shown.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ")
    assert f">{unbroken}</td>" in text
    report = as_owner.get(reverse("report", args=[results.pk])).content.decode()
    assert f">{unbroken}</td>" in report


def test_json_says_how_the_rows_are_to_be_read(results: Experiment, as_owner: Client) -> None:
    about = document(as_owner, "comparison_json", results)["experiment"]
    assert about["question"] == results.question
    assert about["plan_hash"] == results.plan_hash
    assert about["order_seed"] == results.order_seed


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_comparison_without_results_has_its_columns_and_says_so(
    results: Experiment, as_owner: Client, ending: str
) -> None:
    """An empty file looks as if it had been cut off."""
    draft = ExperimentFactory(owner=results.owner)
    draft.workloads.clear()
    answer: Any = as_owner.get(reverse(f"comparison_{ending}", args=[draft.pk]))
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    if ending == "csv":
        rows = list(csv.DictReader(io.StringIO(content.decode())))
    else:
        rows = parquet.read_table(io.BytesIO(content)).to_pylist()
    (row,) = rows
    assert row["waiting"] == NO_RESULTS
