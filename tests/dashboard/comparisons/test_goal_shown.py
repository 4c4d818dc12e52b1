"""Page, report, LaTeX, methods, figures and files where the goal or the margin is not the usual."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.comparisons.diagnosis import diagnose
from dashboard.comparisons.figures import forest_plot
from dashboard.comparisons.forest_figure import describe_comparison, write_caption
from dashboard.comparisons.latex import results_table
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.verdict_matrix import make_verdict_matrix
from dashboard.drawings.forest_json import read_forest, write_forest
from experiments.comparisons import compare_experiment
from experiments.models import Experiment, Measurement
from experiments.statistics import Verdict
from tests.dashboard.access.test_links import body
from tests.dashboard.conftest import read_report

pytestmark = pytest.mark.django_db


@pytest.fixture
def not_slower(results: Experiment) -> Experiment:
    """Five blocks in which the container takes about a tenth less time."""
    container = Measurement.objects.filter(
        run__experiment=results, metric="step_time", run__environment__name="Apptainer"
    )
    for row in container:
        row.value *= 0.85
        row.save()
    Experiment.objects.filter(pk=results.pk).update(goal="not slower")
    results.refresh_from_db()
    return results


@pytest.fixture
def uneven(results: Experiment) -> Experiment:
    Experiment.objects.filter(pk=results.pk).update(margin=0.20, margin_faster=0.02)
    results.refresh_from_db()
    return results


def read(client: Client, name: str, experiment: Experiment) -> str:
    return str(body(client.get(reverse(name, args=[experiment.pk])))).lstrip("\ufeff")


def test_the_page_and_the_report_speak_of_not_slower(
    not_slower: Experiment, as_owner: Client
) -> None:
    comparison = compare_experiment(not_slower)
    (pair,) = comparison.pairs
    assert pair.verdict is Verdict.NOT_SLOWER
    assert pair.claim == "Apptainer is not slower than bare metal by more than 5 %"
    page = read_report(as_owner, not_slower).replace("\N{NO-BREAK SPACE}", " ")
    for text in ("verdict-not-slower", "p, “not slower”", "Smallest margin for “not slower”"):
        assert text in page
    assert "p, equivalence" not in page
    printed = as_owner.get(reverse("report", args=[not_slower.pk])).content.decode()
    assert "p, “not slower”" in printed
    assert pair.claim in printed.replace("\N{NO-BREAK SPACE}", " ")
    assert "What another margin would have said" not in page


def test_methods_and_paper_say_which_test_it_was(not_slower: Experiment) -> None:
    comparison = compare_experiment(not_slower)
    methods = " ".join(describe_methods(comparison))
    assert "one one-sided test at 5 % of the logarithm of the ratio" in methods
    assert "equivalent" not in methods.lower()
    text = "\n".join(results_table(comparison))
    assert "p, “not slower” &" in text
    assert "& NOT SLOWER" in text


def test_files_have_the_goal_and_its_p(not_slower: Experiment, as_owner: Client) -> None:
    (pair,) = compare_experiment(not_slower).pairs
    (row,) = csv.DictReader(io.StringIO(read(as_owner, "comparison_csv", not_slower)))
    assert (row["verdict"], row["goal"], row["p_equivalence"]) == ("NOT SLOWER", "not slower", "")
    assert float(row["p_not_slower"]) == float(row["p_upper_bound"]) == pair.p_not_slower
    assert (row["p_lower_bound"], row["margin_faster"]) == ("", "")
    about = json.loads(read(as_owner, "comparison_json", not_slower))["experiment"]
    assert (about["goal"], about["margin_faster"]) == ("not slower", None)
    answer: Any = as_owner.get(reverse("comparison_parquet", args=[not_slower.pk]))
    assert answer.status_code == 200


def test_the_band_of_the_figures_has_one_end(not_slower: Experiment) -> None:
    comparison = compare_experiment(not_slower)
    forest = describe_comparison(comparison)
    assert forest is not None
    assert forest.band == (forest.low, 1.05)
    assert forest.margin_text == "up to 1.05"
    assert forest.rows[0].decided_by == "thick"
    assert "Not slower: the 90\N{NO-BREAK SPACE}% interval" in write_caption(forest)
    assert read_forest(write_forest(forest)) == forest
    plot = forest_plot(comparison)
    assert plot is not None
    band = next(shape for shape in plot.figure["layout"]["shapes"] if shape["name"] == "band")
    assert band["x0"] < comparison.pairs[0].ratio < 1.05 == band["x1"]
    matrix = make_verdict_matrix(comparison)
    assert (matrix.scale.band, matrix.scale.bounds) == (0, (0, 1.05))
    diagnosis = diagnose(comparison)
    assert diagnosis is not None
    assert diagnosis.claim.endswith("is not slower than bare metal by more than 5 %")


def test_an_uneven_margin_is_shown_with_both_ends(uneven: Experiment, as_owner: Client) -> None:
    comparison = compare_experiment(uneven)
    (pair,) = comparison.pairs
    assert (pair.verdict, pair.margin_faster) == (Verdict.EQUIVALENT, 0.02)
    assert pair.claim.endswith("equivalent to bare metal within 2 % faster to 20 % slower")
    forest = describe_comparison(comparison)
    assert forest is not None
    assert forest.band == pytest.approx((1 / 1.02, 1.2))
    assert forest.margin_text == "1/1.02 to 1.2"
    assert "between 1/(1 + 2 %) and 1 + 20 %" in " ".join(describe_methods(comparison))
    page = " ".join(read_report(as_owner, uneven).replace("\N{NO-BREAK SPACE}", " ").split())
    assert "the margin of 2 % faster to 20 % slower" in page
    (row,) = csv.DictReader(io.StringIO(read(as_owner, "comparison_csv", uneven)))
    assert (row["goal"], row["margin"], row["margin_faster"]) == ("equivalence", "0.2", "0.02")
    assert float(row["p_upper_bound"]) == pair.p_upper_bound
