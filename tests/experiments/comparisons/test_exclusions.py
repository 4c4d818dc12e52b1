"""A run that is excluded after its verdict could be read changes it in everybody's sight."""

from __future__ import annotations

import math
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from experiments.comparisons import (
    EXCLUDED_AFTER,
    EXCLUDED_AFTER_INTERIM,
    list_comparison_rows,
    list_run_rows,
)
from experiments.execution import excluded_runs, lifecycle
from experiments.models import Event, Experiment, Measurement, Run, Series
from experiments.statistics import Pair, Stamp, Verdict
from tests.experiments.planning.test_stages import SLOW, WILD, end, end_all, fail, launched, read
from tests.factories import ContainerFactory, ExperimentFactory, UserFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

ODD = (1.000, 1.100, 1.001, 1.120, 0.999, 1.110, 1.0005, 1.0015, 0.9995)
"""Equivalent, but for three blocks."""


def container_runs(experiment: Experiment, *repeats: int) -> list[Run]:
    runs = experiment.runs.exclude(environment=experiment.baseline_id)
    return [runs.get(repeat=repeat) for repeat in repeats]


def reason(pair: Pair) -> str:
    """The reason of its stamp for exclusions, of which it has one."""
    (why,) = (
        reason
        for stamp, reason in zip(pair.stamps, pair.reasons, strict=True)
        if stamp in (Stamp.EXCLUDED, Stamp.EXCLUDED_AFTER)
    )
    return why


def exclude(runs: list[Run], why: str = "the fan was broken", by: Any = None) -> None:
    for run in runs:
        assert excluded_runs.exclude(run, by or run.experiment.owner, why)


class TestAfterTheVerdict:
    @pytest.fixture
    def experiment(self) -> Experiment:
        experiment = launched(repeats=9, looks=1)
        end_all(experiment, ODD)
        return experiment

    def test_three_exclusions_make_it_equivalent_and_both_verdicts_stand_there(
        self, experiment: Experiment
    ) -> None:
        (before,) = read(experiment).pairs
        assert (before.verdict, before.before) == (Verdict.INCONCLUSIVE, None)
        person = UserFactory(username="ada")
        exclude(container_runs(experiment, 2, 4, 6), by=person)
        (pair,) = read(experiment).pairs
        assert pair.verdict is Verdict.EQUIVALENT
        assert pair.before
        assert pair.before.verdict is Verdict.INCONCLUSIVE
        assert (pair.before.runs, pair.before.size) == (3, "9 blocks")
        assert (pair.before.ratio, pair.before.ci_difference) == (before.ratio, before.ci95)
        said = reason(pair)
        assert said.startswith(
            "3 runs were excluded by hand, after the final analysis. With them: INCONCLUSIVE (ratio"
        )
        assert "Without them: EQUIVALENT (ratio 1.000" in said
        assert "A block that lacks a run of either side is left out: 3 blocks fewer." in said
        assert said.count("by ada on ") == 3
        assert said.count("“the fan was broken”") == 3
        assert Stamp.EXCLUDED_AFTER in pair.stamps
        assert (
            "With the 3 runs that were excluded by hand (after the final analysis) it is INCON"
            in pair.sentence
        )

    def test_the_files_have_both_verdicts(self, experiment: Experiment) -> None:
        exclude(container_runs(experiment, 2, 4, 6))
        (row,) = list_comparison_rows(read(experiment))
        assert row["verdict"] == "EQUIVALENT"
        assert row["before_exclusion_verdict"] == "INCONCLUSIVE"
        assert row["before_exclusion_runs"] == 3
        assert row["before_exclusion_ci_difference_low"] < 1 < row["ratio"] + 0.02
        assert "EXCLUDED AFTER A VERDICT" in row["stamps"]
        columns = list(row.items())
        first = columns.index(("excluded_by_hand", 3))
        assert first > columns.index(("verdict", "EQUIVALENT"))
        assert columns[first : first + 6] == [
            ("excluded_by_hand", 3),
            ("excluded_before_any_verdict", 0),
            ("excluded_after_an_interim_analysis", 0),
            ("excluded_after_the_final_analysis", 3),
            ("excluded_blocks", 3),
            ("before_exclusion_problem", ""),
        ]
        rows = [row for row in list_run_rows(experiment) if row["state"] == "excluded"]
        assert [row["excluded_after_a_verdict"] for row in rows] == [True] * 3
        assert {list(row.items())[-1] for row in rows} == {
            ("excluded_when", "after the final analysis")
        }
        assert {row["excluded_because"] for row in rows} == {"the fan was broken"}
        assert {row["excluded_by"] for row in rows} == {str(experiment.owner)}

    def test_the_events_tell_which_verdict_could_be_read(self, experiment: Experiment) -> None:
        (run,) = container_runs(experiment, 2)
        exclude([run])
        event = experiment.events.get(what=EXCLUDED_AFTER)
        assert (event.run, event.actor) == (run, experiment.owner)
        assert event.why == f"{run.environment.name}: INCONCLUSIVE"

    def test_the_run_of_the_baseline_counts_too(self, experiment: Experiment) -> None:
        exclude(list(experiment.runs.filter(environment=experiment.baseline_id, repeat=2)))
        (pair,) = read(experiment).pairs
        assert (pair.n_blocks, pair.before and pair.before.size) == (8, "9 blocks")

    def test_both_runs_of_one_block_are_two_runs_and_one_block(
        self, experiment: Experiment
    ) -> None:
        exclude(list(experiment.runs.filter(repeat=2)))
        (pair,) = read(experiment).pairs
        assert (pair.n_blocks, pair.before and pair.before.runs) == (8, 2)

    def test_nothing_left_is_told_as_well(self, experiment: Experiment) -> None:
        exclude(list(experiment.runs.all()))
        (pair,) = read(experiment).pairs
        assert pair.verdict is Verdict.NO_INFERENCE
        assert "With them: INCONCLUSIVE" in reason(pair)
        assert "Without them: NO INFERENCE (0 blocks)" in reason(pair)
        assert "; and 13 more." in reason(pair)
        assert read(experiment).has_numbers

    def test_what_stood_beside_the_verdict_is_not_forgotten(self, experiment: Experiment) -> None:
        """Without the run in which it trained wrongly the stamp for that is gone, not its trace."""
        for run in experiment.runs.all():
            is_worse = run.repeat == 2 and run.environment_id != experiment.baseline_id
            Series.objects.create(
                run=run,
                metric="loss",
                unit="1",
                values=[5.0, 1.0],
                digest=f"{run.pk}",
                first_value=5.0,
                last_value=1.0 + run.repeat / 1000 + 50 * is_worse,
            )
        (pair,) = read(experiment).pairs
        assert Stamp.TRAINED_DIFFERENTLY in pair.stamps
        exclude(container_runs(experiment, 2))
        (pair,) = read(experiment).pairs
        assert Stamp.TRAINED_DIFFERENTLY not in pair.stamps
        assert "TRAINED DIFFERENTLY" in reason(pair)
        assert pair.before
        assert Stamp.TRAINED_DIFFERENTLY in pair.before.stamps


class TestBeforeTheVerdict:
    def test_both_verdicts_stand_there_with_the_milder_stamp(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW[:4])
        exclude(container_runs(experiment, 2))
        end(experiment, 5, SLOW[4])
        found = read(experiment)
        (pair,) = found.pairs
        assert (pair.n_blocks, pair.before and pair.before.size) == (4, "5 blocks")
        assert Stamp.EXCLUDED in pair.stamps
        assert Stamp.EXCLUDED_AFTER not in pair.stamps
        assert reason(pair).startswith("1 run was excluded by hand, before any verdict could be")
        (one,) = found.exclusions
        assert (one.repeat, one.why, one.after_verdict) == (2, "the fan was broken", False)
        assert one.by == str(experiment.owner)

    def test_the_other_verdict_has_all_of_them_and_says_how_many_came_when(self) -> None:
        experiment = launched(repeats=9, looks=1)
        end_all(experiment, ODD[:8])
        exclude(container_runs(experiment, 2, 4))
        end(experiment, 9, ODD[8])
        exclude(container_runs(experiment, 6))
        (pair,) = read(experiment).pairs
        assert pair.before
        assert (pair.before.runs, pair.before.size, pair.size) == (3, "9 blocks", "6 blocks")
        assert (
            pair.before.moments == "1 after the final analysis, 2 before any verdict could be read"
        )
        assert (pair.before.before_verdict, pair.before.after_final) == (2, 1)
        assert Stamp.EXCLUDED_AFTER in pair.stamps

    def test_a_value_that_stopped_the_comparison_hid_its_verdict(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW)
        (run,) = container_runs(experiment, 3)
        Measurement.objects.filter(run=run).update(value=0)
        assert read(experiment).pairs == []
        exclude([run], "it measured nothing")
        (pair,) = read(experiment).pairs
        assert pair.before
        assert (pair.before.verdict, pair.before.is_late) == (Verdict.NO_INFERENCE, False)
        assert "With them: NO INFERENCE (" in reason(pair)
        assert pair.before.problem
        assert pair.before.problem in reason(pair)


class TestPlannedLooks:
    def test_the_verdict_of_a_look_is_one_that_could_be_read(self) -> None:
        experiment = launched()
        end_all(experiment, (1.0, 1.1, 1.001, 0.999, 1.0))
        assert read(experiment).pairs[0].verdict is Verdict.INCONCLUSIVE
        exclude(container_runs(experiment, 2))
        found = read(experiment)
        (pair,) = found.pairs
        assert (pair.verdict, pair.interim_analysis and pair.interim_analysis.number) == (
            Verdict.EQUIVALENT,
            1,
        )
        assert pair.before
        assert (pair.before.verdict, pair.before.level) == (Verdict.INCONCLUSIVE, "97.06 %")
        assert experiment.events.filter(what=EXCLUDED_AFTER_INTERIM).count() == 1
        assert pair.before.moments == "after an interim analysis"
        assert Stamp.EXCLUDED_AFTER in pair.stamps

    def test_a_run_of_the_next_look_is_stamped_where_it_would_have_counted(self) -> None:
        experiment = launched()
        end_all(experiment, WILD)
        end_all(experiment, WILD[:4], first=6)
        exclude(container_runs(experiment, 7))
        end(experiment, 10, WILD[4])
        (pair,) = read(experiment).pairs
        assert pair.before
        assert (pair.size, pair.before.size) == ("9 blocks", "10 blocks")

    def test_a_verdict_that_was_read_before_a_job_was_tried_again_was_read(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW[:4])
        lifecycle.retry(fail(experiment, 5), experiment.owner)
        assert read(experiment).pairs == []
        exclude(container_runs(experiment, 2))
        event = experiment.events.get(what=EXCLUDED_AFTER)
        assert event.why == "a verdict that could be read before a job was tried again"
        end(experiment, 5, SLOW[4])
        (pair,) = read(experiment).pairs
        assert pair.before
        assert (pair.before.size, pair.size) == ("5 blocks", "4 blocks")


class TestOtherPairs:
    def test_another_environment_is_not_stamped(self) -> None:
        experiment = ExperimentFactory(repeats=5, looks=1, margin=0.02)
        third = ContainerFactory(cluster=experiment.cluster, name="third")
        experiment.environments.add(third)
        lifecycle.launch(experiment, experiment.owner)
        end_all(experiment, SLOW)
        exclude(list(experiment.runs.filter(environment=third, repeat=1)))
        stamped = {pair.environment: pair.before is not None for pair in read(experiment).pairs}
        assert stamped.pop("third")
        assert list(stamped.values()) == [False]
        exclude(list(experiment.runs.filter(environment=experiment.baseline, repeat=2)))
        assert all(pair.before for pair in read(experiment).pairs)

    def test_a_smaller_family_is_no_way_past_holm(self) -> None:
        """Without the comparisons that found nothing, another one would survive the correction."""
        close, open_one = WorkloadFactory(), WorkloadFactory()
        experiment = launched(repeats=5, looks=1, workloads=[close, open_one])
        for repeat, z in enumerate((-1.4, -0.7, 0.0, 0.7, 1.4), start=1):
            end(experiment, repeat, math.exp(0.06 + 0.0404 * z), workload=close)
            end(experiment, repeat, WILD[repeat - 1], workload=open_one)
        pair = self.of(experiment, close.name)
        assert (pair.verdict, Stamp.NOT_AFTER_HOLM in pair.stamps) == (Verdict.SLOWER, True)
        exclude(list(experiment.runs.filter(workload=open_one)))
        pair = self.of(experiment, close.name)
        assert Stamp.NOT_AFTER_HOLM not in pair.stamps
        assert pair.before
        assert pair.before.runs == 0
        assert Stamp.NOT_AFTER_HOLM in pair.before.stamps
        assert "They are runs of other comparisons." in reason(pair)
        assert "With the runs of other comparisons that were excluded by hand" in pair.sentence

    def test_what_holm_says_alike_is_not_stamped(self) -> None:
        first, second = WorkloadFactory(), WorkloadFactory()
        experiment = launched(repeats=5, looks=1, workloads=[first, second])
        end_all(experiment, SLOW)
        exclude(list(experiment.runs.filter(workload=second, repeat=1)))
        assert self.of(experiment, first.name).before is None
        assert self.of(experiment, second.name).before

    @staticmethod
    def of(experiment: Experiment, workload: str) -> Pair:
        (found,) = (g for g in read(experiment).groups if g.configuration["workload"] == workload)
        (pair,) = found.pairs
        return pair


@pytest.mark.parametrize("looks", [1, 2])
def test_exclusions_of_an_older_tare_are_known_by_their_times(looks: int) -> None:
    """Whoever excluded after the (first) verdict before Tare kept that, gets the event."""
    experiment = launched(looks=looks)
    end_all(experiment, WILD)
    early, late = container_runs(experiment, 1, 2)
    exclude([early])
    end_all(experiment, WILD, first=6)
    ended = experiment.launched_at + timedelta(hours=1)
    experiment.jobs.update(ended_at=ended)
    exclude([late])
    Event.objects.filter(what__in=(EXCLUDED_AFTER, EXCLUDED_AFTER_INTERIM)).delete()
    Event.objects.filter(run=early).update(at=ended - timedelta(minutes=1))
    Event.objects.filter(run=late).update(at=ended + timedelta(minutes=1))
    migration = import_module("experiments.migrations.0021_late_exclusions")
    migration.find_late_exclusions(apps, None)
    (event,) = Event.objects.filter(what=EXCLUDED_AFTER)
    assert (event.run, event.actor) == (late, experiment.owner)
    assert event.at == ended + timedelta(minutes=1)
    (one,) = (one for one in read(experiment).exclusions if one.after_verdict)
    assert one.pk == late.pk
