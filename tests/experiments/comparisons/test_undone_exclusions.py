"""An exclusion can be undone, and one that came after any verdict is known as such for good."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from experiments.comparisons import (
    EXCLUDED_AFTER,
    EXCLUDED_AFTER_INTERIM,
    keep_comparison,
    list_comparison_rows,
    list_run_rows,
    read_comparison,
)
from experiments.execution import excluded_runs, lifecycle
from experiments.models import Event, Experiment, KeptComparison, Measurement, Run
from experiments.statistics import Stamp, Verdict
from tests.experiments.comparisons.test_exclusions import ODD, container_runs, exclude
from tests.experiments.planning.test_stages import (
    SAME,
    SLOW,
    WILD,
    end,
    end_all,
    fail,
    launched,
    read,
)
from tests.factories import RunFactory, UserFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


def describe(experiment: Experiment) -> Any:
    """All that is said of an experiment: pairs, and the rows of both files."""
    comparison = read(experiment)
    return comparison.groups, list_comparison_rows(comparison), list(list_run_rows(experiment))


def undo(run: Run, why: str = "the fan was not broken") -> None:
    assert excluded_runs.include_again(run, run.experiment.owner, why)


class TestUndoing:
    def test_of_some_after_a_verdict_tells_of_the_others_that_they_were_chosen(self) -> None:
        experiment = launched(repeats=9, looks=1)
        end_all(experiment, ODD[:8])
        runs = container_runs(experiment, 2, 4)
        exclude(runs)
        end(experiment, 9, ODD[8])
        (pair,) = read(experiment).pairs
        assert Stamp.EXCLUDED in pair.stamps
        undo(runs[0])
        (pair,) = read(experiment).pairs
        assert pair.before
        assert (pair.before.before_verdict, pair.before.after_final) == (0, 1)
        assert Stamp.EXCLUDED_AFTER in pair.stamps
        undo(runs[1])
        assert read(experiment).exclusions == []

    def test_it_restores_everything(self) -> None:
        experiment = launched(repeats=9, looks=1)
        end_all(experiment, ODD)
        Run.objects.filter(experiment=experiment).update(message="Two rules were not applied.")
        before = describe(experiment)
        runs = container_runs(experiment, 2, 4)
        exclude(runs)
        assert describe(experiment) != before
        for run in runs:
            undo(run)
        assert describe(experiment) == before
        assert read(experiment).exclusions == []
        kept = [(event.what, event.why) for event in runs[0].events.order_by("pk")]
        assert kept == [
            ("succeeded → excluded", "the fan was broken"),
            (excluded_runs.NOTE, "Two rules were not applied."),
            (EXCLUDED_AFTER, f"{runs[0].environment.name}: INCONCLUSIVE"),
            ("excluded → succeeded", "the fan was not broken"),
        ]

    def test_one_undone_leaves_the_other_as_it_was(self) -> None:
        experiment = launched(repeats=9, looks=1)
        end_all(experiment, ODD)
        first, second = container_runs(experiment, 2, 4)
        exclude([first])
        (alone,) = read(experiment).pairs
        exclude([second], why="so was this")
        undo(second)
        assert read(experiment).pairs == [alone]

    def test_the_last_of_several_exclusions_counts(self) -> None:
        experiment = launched(repeats=9, looks=1)
        end_all(experiment, ODD)
        (run,) = container_runs(experiment, 2)
        exclude([run], by=UserFactory(username="ada"))
        undo(run)
        exclude([run], why="it was", by=UserFactory(username="bob"))
        (exclusion,) = read(experiment).exclusions
        assert (exclusion.by, exclusion.why) == ("bob", "it was")

    def test_a_note_is_that_of_the_last_exclusion(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW)
        (run,) = container_runs(experiment, 2)
        Run.objects.filter(pk=run.pk).update(message="first")
        run.refresh_from_db()
        exclude([run])
        undo(run)
        Run.objects.filter(pk=run.pk).update(message="")
        run.refresh_from_db()
        exclude([run])
        undo(run)
        run.refresh_from_db()
        assert (run.message, run.reason, run.state) == ("", "", Run.State.SUCCEEDED)

    def test_it_needs_an_excluded_run_and_a_cause(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW)
        (run,) = container_runs(experiment, 2)
        assert not excluded_runs.include_again(run, experiment.owner, "why not")
        assert not excluded_runs.include_again(RunFactory(), UserFactory(), "why not")
        exclude([run])
        assert not excluded_runs.include_again(run, experiment.owner, "  ")
        assert Run.objects.get(pk=run.pk).state == Run.State.EXCLUDED

    def test_the_kept_comparison_follows(self) -> None:
        experiment = launched(repeats=9, looks=1)
        end_all(experiment, ODD)
        runs = container_runs(experiment, 2, 4, 6)
        exclude(runs)
        assert keep_comparison(experiment.pk) == "kept"
        kept = read_comparison(experiment).pairs
        assert kept == read(experiment).pairs, "with all of the other verdict"
        for run in runs:
            undo(run)
        (pair,) = read_comparison(Experiment.objects.get(pk=experiment.pk)).pairs
        assert (pair.verdict, pair.before) == (Verdict.INCONCLUSIVE, None)


class TestAfterAnyVerdict:
    """In doubt a verdict could be read."""

    def test_a_job_of_another_configuration_that_is_tried_again_hides_what_was_read(self) -> None:
        first, second = WorkloadFactory(), WorkloadFactory()
        experiment = launched(repeats=5, looks=1, workloads=[first, second])
        end_all(experiment, SLOW[:4])
        for workload, ratio in ((first, SLOW[4]), (second, None)):
            if ratio:
                end(experiment, 5, ratio, workload=workload)
        job = experiment.jobs.get(repeat=5, workload=second)
        job.runs.update(state=Run.State.FAILED)
        experiment.jobs.filter(pk=job.pk).update(state="failed", ended_at=experiment.launched_at)
        assert read(experiment).pairs
        job.refresh_from_db()
        lifecycle.retry(job, experiment.owner)
        assert not read(experiment).pairs
        exclude(list(experiment.runs.filter(workload=first, repeat=2)))
        assert experiment.events.filter(what=EXCLUDED_AFTER).count() == 2

    def test_a_verdict_that_was_kept_could_be_read(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW[:4])
        KeptComparison.objects.create(
            experiment=experiment,
            key="",
            content=b"",
            seconds=1,
            verdicts={"SLOWER": 1},
            kept_at=experiment.launched_at,
        )
        exclude(container_runs(experiment, 2))
        assert experiment.events.get(what=EXCLUDED_AFTER).why == (
            "a verdict that could be read earlier"
        )

    def test_between_two_interim_analyses_of_a_live_experiment(self) -> None:
        experiment = launched(repeats=15, looks=3)
        end_all(experiment, WILD)
        end_all(experiment, SAME[:2], first=6)
        exclude(container_runs(experiment, 2, 6))
        now = read(experiment)
        assert now.stage.alive
        (pair,) = now.pairs
        assert pair.before
        assert (pair.before.after_interim, pair.before.after_final) == (1, 0), (
            "of run 6 no verdict speaks yet"
        )
        assert (pair.n_blocks, pair.before.size) == (4, "5 blocks"), "run 6 is not judged yet"
        end_all(experiment, SAME[2:], first=8)
        end_all(experiment, SAME, first=11)
        exclude(container_runs(experiment, 3))
        (pair,) = read(experiment).pairs
        assert pair.before
        assert pair.before.moments == "1 after the final analysis, 2 after an interim analysis"
        events = experiment.events.filter(what__in=(EXCLUDED_AFTER, EXCLUDED_AFTER_INTERIM))
        assert events.count() == 3

    def test_before_the_first_analysis_none_could(self) -> None:
        experiment = launched()
        end_all(experiment, WILD[:4])
        exclude(container_runs(experiment, 2))
        assert Event.objects.filter(what__in=(EXCLUDED_AFTER, EXCLUDED_AFTER_INTERIM)).count() == 0

    def test_where_a_job_failed_after_a_look_the_verdict_of_the_look_was_read(self) -> None:
        experiment = launched()
        end_all(experiment, WILD)
        fail(experiment, 6)
        exclude(container_runs(experiment, 2))
        assert experiment.events.filter(what=EXCLUDED_AFTER_INTERIM).exists()


class TestAllAndMany:
    def test_all_runs_of_a_side(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW)
        exclude(list(experiment.runs.filter(environment=experiment.baseline_id)))
        comparison = read(experiment)
        (pair,) = comparison.pairs
        assert (pair.verdict, pair.ratio, pair.n_blocks) == (Verdict.NO_INFERENCE, None, 0)
        assert pair.before
        assert (pair.before.verdict, pair.before.blocks) == (Verdict.SLOWER, 5)
        (row,) = list_comparison_rows(comparison)
        assert (row["before_exclusion_verdict"], row["excluded_blocks"]) == ("SLOWER", 5)

    def test_independent_runs_take_nothing_with_them(self) -> None:
        experiment = launched(repeats=5, looks=1, design=Experiment.Design.INDEPENDENT)
        end_all(experiment, SLOW)
        exclude(container_runs(experiment, 2))
        (pair,) = read(experiment).pairs
        assert pair.before
        assert (pair.n_baseline, pair.n_environment, pair.before.blocks) == (5, 4, 0)
        assert not any("A block that lacks" in reason for reason in pair.reasons)

    def test_five_thousand(self) -> None:
        experiment = launched(repeats=2600, looks=1)
        values = itertools.cycle(ODD)
        Measurement.objects.bulk_create(
            Measurement(
                run_id=pk,
                metric="step_time",
                unit="s",
                value=1.0 if environment == experiment.baseline_id else next(values),
            )
            for pk, environment in experiment.runs.values_list("pk", "environment")
        )
        experiment.runs.filter(repeat__lte=2500).update(
            state=Run.State.EXCLUDED, message="the fan was broken"
        )
        experiment.runs.filter(repeat__gt=2500).update(state=Run.State.SUCCEEDED)
        experiment.jobs.update(state="done", scheduler_id="1", ended_at=experiment.launched_at)
        comparison = read(experiment)
        (pair,) = comparison.pairs
        assert len(comparison.exclusions) == 5000
        assert pair.before
        assert (pair.n_blocks, pair.before.size, pair.before.runs) == (100, "2,600 blocks", 5000)
        assert "; and 4,995 more." in pair.reasons[pair.stamps.index(Stamp.EXCLUDED)]
        assert max(map(len, pair.reasons)) < 2000
