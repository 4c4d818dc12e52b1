"""`verify.py` computes the stamps of second jobs, rejections and training, as Tare does."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import fdtrc

from experiments.bundles import verify as program
from experiments.comparisons import compare_experiment
from experiments.comparisons.step_summaries import add_step_summary, digest
from experiments.execution import lifecycle
from experiments.models import Experiment, Job, Run, Series
from experiments.statistics.training.equivalence import compare_trainings
from experiments.statistics.training.outcomes import Ending
from experiments.statistics.unequal_rejections import Judged, compute_fisher_p, is_unequal
from tests.experiments.bundles.studies import end_runs, launch, make_bundle, verify
from tests.factories import ExperimentFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


def check(experiment: Experiment, folder: Path, stamp: str) -> None:
    """Check that the page has the stamp, and that the bundle's program finds it too."""
    row = Experiment.objects.get(pk=experiment.pk)
    assert any(stamp in pair.stamps for pair in compare_experiment(row).pairs)
    status, text = verify(make_bundle(row), folder, "--all")
    assert status == 0, text
    assert stamp in text


def train(experiment: Experiment, *, worse: float = 0.0, spread: float = 0.01) -> None:
    """Give all runs losses that fall; those of containers end higher by a share."""
    for run in experiment.runs.all():
        numbers = random.Random(f"{run.environment_id} {run.repeat}")
        is_bare = run.environment_id == experiment.baseline_id
        last = 0.5 * numbers.lognormvariate(0, spread) * (1 + (0 if is_bare else worse))
        series = Series(run=run, metric="loss", unit="1", values=[2.0, 1.0, last])
        add_step_summary(series).save()


@pytest.mark.parametrize(
    ("seeds", "worse"), [("another in each repeat", 0.3), ("same in all repeats", 2.0)]
)
def test_an_environment_that_trained_worse(tmp_path: Path, seeds: str, worse: float) -> None:
    workload = WorkloadFactory(kind="cnn", parameters={"seed": 7, "seeds": seeds})
    draft = ExperimentFactory(workloads=[workload], repeats=6, margin=0.02)
    lifecycle.launch(draft, draft.owner)
    experiment = Experiment.objects.get(pk=draft.pk)
    end_runs(experiment)
    train(experiment, worse=worse)
    check(experiment, tmp_path, "TRAINED DIFFERENTLY")


def test_rejections_of_one_side(tmp_path: Path) -> None:
    experiment = launch(repeats=12, reject_swap=True)
    end_runs(experiment)
    of_containers = experiment.runs.exclude(environment=experiment.baseline_id).order_by("repeat")
    keys = list(of_containers.values_list("pk", flat=True)[:6])
    message = "By a rule of the plan it does not count. swap: 3 pages went to swap"
    Run.objects.filter(pk__in=keys).update(state="failed", reason="rejected", message=message)
    check(experiment, tmp_path, "REJECTIONS DIFFER")


def test_a_block_of_two_jobs(tmp_path: Path) -> None:
    experiment = launch(repeats=6)
    end_runs(experiment)
    first = experiment.jobs.order_by("block")[0]
    second = Job.objects.create(
        experiment=experiment,
        cluster=first.cluster,
        repairs=first,
        block=first.block,
        repeat=first.repeat,
        scale=first.scale,
        workload=first.workload,
        state="done",
        scheduler_id="2",
        script="#!/bin/sh\ntrue\n",
        ended_at=timezone.now(),
    )
    first.runs.exclude(environment=experiment.baseline_id).update(job=second)
    check(experiment, tmp_path, "PAIRED ACROSS JOBS")


SHARES = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda two: (two[0], sum(two)))


@given(SHARES, SHARES)
def test_rejections_are_tested_as_tare_does(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    judged = Judged(*first), Judged(*second)
    assert program.is_unequal(first, second) == is_unequal(*judged)
    if first[1] and second[1]:
        assert math.isclose(
            program.compute_fisher_p(first, second), compute_fisher_p(*judged), rel_tol=1e-12
        )


@given(st.integers(1, 200), st.integers(1, 200), st.floats(1e-6, 1e4))
def test_the_tail_of_f_is_that_of_scipy(first: int, second: int, f: float) -> None:
    exact = float(fdtrc(first, second, f))
    assert math.isclose(program.find_f_tail(first, second, f), exact, rel_tol=1e-9, abs_tol=1e-15)


class FakeStudy:
    """What the comparison of trainings asks a study for."""

    baseline = "bare"
    environments = {"1": "bare", "2": "a", "3": "b"}


ENDS = st.lists(
    st.tuples(
        st.sampled_from(["bare", "a", "b"]),
        st.integers(1, 5),
        st.one_of(st.floats(0.1, 3), st.sampled_from([0.5, 0.51, 0.25])),
        st.floats(1, 5),
    ),
    max_size=20,
)


@given(ENDS, st.booleans(), st.sampled_from(["loss", "accuracy"]))
def test_trainings_are_compared_as_tare_does(
    ends: list[tuple[str, int, float, float]], seeds_known: bool, what: str
) -> None:
    is_loss = what == "loss"
    tares = compare_trainings(
        [
            Ending(
                str(number),
                name,
                f"seed {seed}",
                last,
                first if is_loss else None,
                digest([first, last]) if is_loss else "",
            )
            for number, (name, seed, last, first) in enumerate(ends)
        ],
        baseline="bare",
        environments=["bare", "a", "b"],
        what=what,
        better="lower" if is_loss else "higher",
        seeds_known=seeds_known,
    )[1:]
    verified = program.compare_trainings(
        FakeStudy(),  # type: ignore[arg-type]
        what,
        [
            program.End(
                name,
                f"seed {seed}",
                last,
                first if is_loss else None,
                digest([first, last]) if is_loss else "",
            )
            for name, seed, last, first in ends
        ],
        seeds_known,
    )
    program.adjust_trainings(verified)
    assert [training.name for training in verified] == [row.environment for row in tares]
    for training, row in zip(verified, tares, strict=True):
        expected = {
            "trained": str(row.outcome),
            "runs_compared": row.runs,
            "runs_equal": row.equal,
            "difference_rms": row.rms,
            "difference_mean": row.shift,
            "seeds": row.baseline_seeds,
            "sd_between_seeds": row.seed_sd,
            "apart": row.apart,
            "p": row.p,
            "p_holm": row.p_holm,
        }
        for name, value in expected.items():
            assert program.is_same(value, training.values.get(name)), (name, value, training.values)
