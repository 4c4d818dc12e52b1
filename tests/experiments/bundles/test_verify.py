"""`verify.py` computes what Tare prints, from the bundle alone, and says where it does not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from experiments.bundles import verify as program
from experiments.bundles.study_documents import RULES
from experiments.comparisons import compare_experiment
from experiments.execution import excluded_runs, extending
from experiments.models import Experiment, Job, Run
from experiments.statistics.extension_levels import compute_extension_level
from experiments.statistics.interim_analyses import POCOCK
from tests.experiments.bundles.studies import end_runs, launch, make_bundle, verify
from tests.source_tree import BASE

pytestmark = pytest.mark.django_db

FURTHER = [{"metric": "gflops", "margin": 0.05}, {"metric": "matmul_time", "margin": 0.01}]
SEVERAL = ("step_time", "gflops", "matmul_time")
STUDIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "equivalent": ({}, {}),
    "slower, in two workloads": ({"workloads": 2, "containers": 3}, {"cost": 1.05}),
    "inconclusive": ({"containers": 2}, {"spread": 0.05}),
    "few blocks": ({"repeats": 3}, {}),
    "one block": ({"repeats": 1}, {}),
    "no spread": ({}, {"spread": 0.0}),
    "independent": ({"design": "independent", "repeats": 6}, {"spread": 0.02}),
    "not slower": ({"goal": "not slower"}, {"cost": 0.97}),
    "uneven margins": ({"margin_faster": 0.1}, {"cost": 0.95}),
    "nodes": ({"estimand": "nodes", "repeats": 8}, {"nodes": 3}),
    "partition": ({"estimand": "partition", "repeats": 8}, {"nodes": 4}),
    "partition, independent": (
        {"estimand": "partition", "design": "independent", "repeats": 8},
        {"nodes": 3},
    ),
    "interim": ({"looks": 2, "repeats": 10, "containers": 3}, {"spread": 0.02, "cost": 1.01}),
    "interim, decided early": ({"looks": 2, "repeats": 10}, {"cost": 1.1}),
    "many": ({"workloads": 3, "containers": 4}, {"spread": 0.01, "cost": 1.012}),
    "rates": ({"primary_metric": "gflops"}, {"metrics": SEVERAL, "cost": 1.1}),
    "all metrics": ({"further_metrics": FURTHER, "containers": 3}, {"metrics": SEVERAL}),
    "metrics in order": (
        {"further_metrics": FURTHER, "metrics_rule": "in order", "workloads": 2, "containers": 3},
        {"metrics": SEVERAL, "spread": 0.01},
    ),
    "steps": ({}, {"steps": 400}),
    "steps, detected": ({"warm_up": "found"}, {"steps": 400}),
    "rates, detected": (
        {"warm_up": "found", "primary_metric": "gflops"},
        {"steps": 400, "metrics": ("step_time", "gflops")},
    ),
    "steps, detected, interim": ({"warm_up": "found", "looks": 2, "repeats": 10}, {"steps": 400}),
}


def make_study(name: str) -> Experiment:
    columns, numbers = STUDIES[name]
    experiment = launch(**columns)
    end_runs(experiment, **numbers)
    return experiment


@pytest.mark.parametrize("name", STUDIES)
def test_all_that_is_printed_is_computed_anew_and_agrees(name: str, tmp_path: Path) -> None:
    experiment = make_study(name)
    status, text = verify(make_bundle(experiment), tmp_path, "--all")
    assert status == 0, text
    comparison = compare_experiment(Experiment.objects.get(pk=experiment.pk))
    assert comparison.pairs
    assert text.count("  verdict  ") == sum(
        len(group.pairs) for groups in comparison.by_metric for group in groups
    )
    assert "Not recomputed: " in text
    assert "numbers agree." in text


def test_excluded_runs_have_both_verdicts(tmp_path: Path) -> None:
    experiment = launch(containers=2, repeats=6)
    end_runs(experiment, spread=0.01)
    run = experiment.runs.exclude(environment=experiment.baseline_id).order_by("pk")[2]
    assert excluded_runs.exclude(run, experiment.owner, "the fan was broken")
    status, text = verify(make_bundle(experiment), tmp_path, "--all")
    assert status == 0, text
    assert "EXCLUDED AFTER A VERDICT" in text
    assert "before_exclusion_ratio" in text


def test_failed_and_cancelled_runs_are_part_of_it(tmp_path: Path) -> None:
    experiment = launch(containers=2, repeats=6)
    end_runs(experiment, spread=0.01)
    failed = experiment.jobs.order_by("block")[1]
    failed.runs.update(state=Run.State.FAILED, reason="crashed")
    Job.objects.filter(pk=failed.pk).update(state=Job.State.FAILED)
    Experiment.objects.filter(pk=experiment.pk).update(cancelled_at=experiment.launched_at)
    cut = experiment.jobs.order_by("block")[4]
    cut.runs.update(state=Run.State.CANCELLED)
    status, text = verify(make_bundle(experiment), tmp_path, "--all")
    assert status == 0, text
    assert "STOPPED EARLY" in text


def test_an_extension_has_its_plan_and_its_level(tmp_path: Path) -> None:
    experiment = launch(repeats=5)
    end_runs(experiment, spread=0.05)
    extending.extend(Experiment.objects.get(pk=experiment.pk), 4, experiment.owner)
    experiment.runs.update(state=Run.State.PLANNED)
    for run in experiment.runs.all():
        run.measurements.all().delete()
    end_runs(Experiment.objects.get(pk=experiment.pk), spread=0.05, seed=2)
    status, text = verify(make_bundle(experiment), tmp_path, "--all")
    assert status == 0, text
    assert "hash of the extension" in text
    assert "level of the extension" in text


def test_the_program_has_the_rules_of_this_version() -> None:
    assert program.RULES == RULES
    assert program.POCOCK == POCOCK


@given(df=st.floats(1, 1e6), t=st.floats(1e-4, 1e4))
def test_students_t_is_that_of_scipy(df: float, t: float) -> None:
    expected = float(stdtr(df, -t))
    if expected > 1e-290:
        assert math.isclose(program.find_tail(t, df), expected, rel_tol=1e-12)
        assert math.isclose(program.find_tail(-t, df), 1 - expected, rel_tol=1e-12)


@given(df=st.floats(1, 1e6), tail=st.floats(1e-12, 0.499))
def test_its_quantiles_are_those_of_scipy(df: float, tail: float) -> None:
    assert math.isclose(program.find_quantile(tail, df), -float(stdtrit(df, tail)), rel_tol=1e-12)


@pytest.mark.parametrize(("first", "added"), [(5, 5), (5, 1), (10, 3), (3, 40), (100, 900)])
def test_the_level_of_an_extension_is_that_of_tare(first: int, added: int) -> None:
    assert program.find_extension_level(first, added) == compute_extension_level(first, added)


PUBLISHED = {
    "resnet50-on-one-and-two-h200": (2, 253),
    "resnet50-on-four-h200": (1, 128),
    "resnet50-deterministic-on-one-two-and-four-h200": (3, 468),
    "resnet50-ddp-on-two-h200": (1, 118),
}
"""The bundles of the docs: how many verdicts and how many numbers each has."""


def test_the_docs_show_no_other_bundles() -> None:
    assert {path.stem for path in (BASE / "docs" / "bundles").glob("*.zip")} == PUBLISHED.keys()


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_bundles_that_the_docs_show_verify(name: str, tmp_path: Path) -> None:
    verdicts, numbers = PUBLISHED[name]
    bundle = BASE / "docs" / "bundles" / f"{name}.zip"
    code, said = verify(bundle.read_bytes(), tmp_path)
    assert code == 0, said
    assert said.count("EQUIVALENT                 EQUIVALENT                 agrees") == verdicts
    assert f"All check sums and all {numbers} numbers agree." in said
