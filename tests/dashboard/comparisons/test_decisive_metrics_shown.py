"""Pages, report, methods, LaTeX and files of an experiment with several decisive metrics."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.comparisons.diagnosis import diagnose
from dashboard.comparisons.latex import results_table
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.verdict_matrix import make_verdict_matrix
from experiments.comparisons import compare_experiment
from experiments.comparisons.compared_pairs import TRIED_AGAIN
from experiments.comparisons.judged_together import judge_groups
from experiments.comparisons.run_tables import describe_source
from experiments.execution import excluded_runs
from experiments.execution.moves import record_event
from experiments.models import Experiment
from experiments.notifications.posted_events import _describe_verdicts
from experiments.statistics.values import Stamp
from tests.dashboard.access.test_links import body
from tests.dashboard.conftest import fetch, read_report
from tests.factories import MeasurementFactory

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
FURTHER = [{"metric": "gflops", "margin": 0.05}, {"metric": "matmul_time", "margin": 0.03}]


@pytest.fixture
def several(results: Experiment) -> Experiment:
    """Five blocks in which the container costs a tenth more time, within a margin of 20 %.

    It computes 40 % less, and takes the same time for a product of matrices.
    """
    for run in results.runs.all():
        bare = run.environment_id == results.baseline_id
        wobble = 1 + run.repeat / 1000
        gflops = 1 if bare else 0.6 * wobble
        MeasurementFactory(run=run, metric="gflops", value=gflops, unit="Gflop/s")
        MeasurementFactory(run=run, metric="matmul_time", value=1 if bare else wobble)
    Experiment.objects.filter(pk=results.pk).update(further_metrics=FURTHER, margin=0.2)
    results.refresh_from_db()
    return results


@pytest.fixture
def in_order(several: Experiment) -> Experiment:
    several.metrics_rule = "in order"
    several.save()
    return several


def text_of(page: str) -> str:
    return " ".join(page.replace("\N{NO-BREAK SPACE}", " ").split())


def test_the_matrix_shows_each_metric_and_all_together(several: Experiment) -> None:
    comparison = compare_experiment(several)
    ((cell,),) = [row.cells for row in make_verdict_matrix(comparison).rows]
    assert cell.overall
    assert cell.pair is comparison.pairs[0]
    assert cell.overall.verdict == "NOT SHOWN"
    assert [part.verdict for part in cell.overall.parts] == ["EQUIVALENT", "SLOWER", "EQUIVALENT"]


def test_head_matrix_and_sentences_say_what_stood_in_the_way(
    several: Experiment, as_owner: Client
) -> None:
    diagnosis = diagnose(compare_experiment(several))
    assert diagnosis
    assert diagnosis.sentence == (
        "Apptainer is not shown to be equivalent to bare metal in all 3 decisive metrics: "
        "gflops (SLOWER) stood in the way; shown for step_time and matmul_time."
    )
    page = text_of(read_report(as_owner, several))
    assert "verdict-not-shown" in page
    assert "in the way: gflops" in page
    assert "1 comparison of 3 decisive metrics" in page
    for name in ("step_time", "Matrix product (gflops)", "Matrix product (matmul_time)"):
        assert f"{name}:" in page
    assert page.count("shown for step_time and matmul_time") >= 2  # the head, and in words
    printed = text_of(as_owner.get(reverse("report", args=[several.pk])).content.decode())
    assert ">NOT SHOWN</span>" in printed
    assert "gflops (SLOWER) stood in the way" in printed


def test_what_the_plan_does_not_judge_is_an_estimate_everywhere(
    in_order: Experiment, as_owner: Client
) -> None:
    page = text_of(read_report(as_owner, in_order))
    assert "NOT JUDGED BY THE PLAN" in page
    assert "matmul_time was not judged by the plan" in page
    assert "a metric before it in the fixed order was not shown. Ratio 1.003" in page
    printed = text_of(as_owner.get(reverse("report", args=[in_order.pk])).content.decode())
    assert "NOT JUDGED BY THE PLAN" in printed
    rows = list(csv.DictReader(io.StringIO(read(as_owner, "comparison_csv", in_order))))
    assert [row["verdict"] for row in rows] == ["EQUIVALENT", "SLOWER", "NOT JUDGED BY THE PLAN"]
    assert [row["judged_by_plan"] for row in rows] == ["True", "True", "False"]
    assert (rows[2]["p_equivalence"], rows[2]["p_difference"]) == ("", "")
    assert float(rows[2]["ratio"]) == pytest.approx(1.003, abs=1e-4)


def read(client: Client, name: str, experiment: Experiment) -> str:
    return str(body(client.get(reverse(name, args=[experiment.pk])))).lstrip("\ufeff")


def test_lists_show_the_verdict_on_all(several: Experiment, as_owner: Client) -> None:
    address = reverse("comparison", args=[several.pk])
    brief = text_of(as_owner.get(address, headers=HTMX).content.decode())
    assert "NOT SHOWN" in brief
    assert "gflops (SLOWER) stood in the way" in brief
    assert "verdict-equivalent" not in brief
    overview = text_of(as_owner.get("/").content.decode())
    assert "NOT SHOWN" in overview
    assert "in all 3 decisive metrics" in overview


def test_methods_and_paper_say_the_rule_and_every_metric(
    several: Experiment, as_owner: Client
) -> None:
    comparison = compare_experiment(several)
    methods = " ".join(describe_methods(comparison))
    assert "gflops within 5 % and matmul_time within 3 %" in methods
    assert "an intersection-union test, each metric at the full level" in methods
    several.metrics_rule = "in order"
    assert "fixed order" in " ".join(describe_methods(compare_experiment(several)))
    text = "\n".join(results_table(comparison))
    assert text.count(r"\midrule") == 4
    assert "All decisive metrics together" in text
    assert r"NOT SHOWN: gflops (SLOWER) stood in the way" in text


def test_methods_count_the_comparisons_of_every_decisive_metric(several: Experiment) -> None:
    """They counted those of the main metric, and named the source of that one alone."""
    methods = " ".join(describe_methods(compare_experiment(several)))
    assert "1 comparison of 3 decisive metrics was made; p after Holm’s correction" in methods
    assert "its values are the" in methods
    assert all(f"({name})" in methods for name in ("step_time", "gflops", "matmul_time"))


def test_runs_excluded_by_hand_count_wherever_a_metric_decides(several: Experiment) -> None:
    """One verdict on all metrics has one beside it, of whichever metric a run was lost."""
    run = several.runs.exclude(environment=several.baseline).earliest("repeat")
    assert excluded_runs.exclude(run, several.owner, "fan broken")
    comparison = compare_experiment(several)
    assert comparison.pairs_with_excluded_runs == len(comparison.decisive) == 1
    # The main metric has no pair of which to count any.
    without_main = replace(comparison, groups=[replace(comparison.groups[0], pairs=[])])
    assert without_main.pairs_with_excluded_runs == 1
    methods = " ".join(describe_methods(comparison))
    assert "gflops, Apptainer: SLOWER without them." in methods
    assert "all decisive metrics: NOT SHOWN without them." in methods


def test_files_have_every_metric_and_the_plan(several: Experiment, as_owner: Client) -> None:
    found = json.loads(read(as_owner, "comparison_json", several))
    assert found["experiment"]["further_metrics"] == FURTHER
    assert found["experiment"]["metrics_rule"] == "all"
    rows = found["comparison"]
    assert [row["metric"] for row in rows] == ["step_time", "gflops", "matmul_time"]
    assert {row["overall_verdict"] for row in rows} == {"NOT SHOWN"}
    assert [row["margin"] for row in rows] == [0.2, 0.05, 0.03]
    assert fetch(as_owner, reverse("comparison_parquet", args=[several.pk]))


def test_one_metric_has_pages_and_files_without_a_word_of_several(
    results: Experiment, as_owner: Client
) -> None:
    found = json.loads(read(as_owner, "comparison_json", results))
    assert not {"further_metrics", "metrics_rule"} & found["experiment"].keys()
    assert not any(name.startswith("overall") for name in found["comparison"][0])
    assert "decisive" not in read(as_owner, "comparison_csv", results)
    assert "decisive metrics" not in read_report(as_owner, results)
    assert "decisive" not in " ".join(describe_methods(compare_experiment(results)))


def test_the_report_has_the_stamps_of_every_metric(several: Experiment, as_owner: Client) -> None:
    record_event(several, TRIED_AGAIN, job=several.jobs.first())
    printed = text_of(as_owner.get(reverse("report", args=[several.pk])).content.decode())
    words = printed.partition("Verdicts in words")[2].partition("Full results")[0]
    assert words.count(Stamp.TRIED_AGAIN.label) == 3


def test_each_of_several_configurations_has_its_name_beside_the_verdict_on_all(
    several: Experiment, as_owner: Client
) -> None:
    """Else the same sentence stood there twice."""
    comparison = compare_experiment(several)
    assert [overall.configuration for overall in comparison.decisive.values()] == [""]
    group = comparison.groups[0]
    again = replace(group, configuration={**group.configuration, "scale": "1x2"})
    by_metric = [[group, again], *([one[0], one[0]] for one in comparison.further)]
    overalls = judge_groups(several, by_metric, ["bare metal", "Apptainer"])
    names = [overall.configuration for overall in overalls.values()]
    assert names == ["blas small, 1x1", "blas small, 1x2"]


def test_webhooks_tell_of_every_metric_and_of_all_together(several: Experiment) -> None:
    verdicts = _describe_verdicts(several)["verdicts"]
    shown = [(row["metric"], row["verdict"], row["overall_verdict"]) for row in verdicts]
    assert shown == [
        ("step_time", "EQUIVALENT", "NOT SHOWN"),
        ("gflops", "SLOWER", "NOT SHOWN"),
        ("matmul_time", "EQUIVALENT", "NOT SHOWN"),
    ]


def test_parquet_files_say_which_metrics_decide(several: Experiment) -> None:
    about = describe_source(several)
    assert json.loads(about["further_metrics"]) == FURTHER
    assert json.loads(about["metrics_rule"]) == "all"
