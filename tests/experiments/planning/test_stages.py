"""What may be judged when: nothing outside the interim analyses, and what one has said stands."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from experiments.comparisons import ExperimentComparison, compare_experiment, list_comparison_rows
from experiments.design import compute_hash
from experiments.execution import lifecycle
from experiments.execution.further_attempts import NotDone
from experiments.models import Experiment, Job, Run
from experiments.planning.freeze import freeze_definition
from experiments.planning.interim import read_stage
from experiments.statistics import Stamp, Verdict
from tests.factories import (
    ContainerFactory,
    ExperimentFactory,
    LaunchedFactory,
    MeasurementFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

SAME = (1.000, 1.002, 0.999, 1.001, 0.998)
SLOW = (1.060, 1.062, 1.059, 1.061, 1.058)
WILD = (1.060, 0.930, 1.090, 0.950, 1.010)


def launched(*, repeats: int = 10, looks: int = 2, **columns: object) -> Experiment:
    """An experiment whose runs are all still to come, with a margin of 2 %."""
    experiment: Experiment = ExperimentFactory(repeats=repeats, looks=looks, margin=0.02, **columns)
    lifecycle.launch(experiment, experiment.owner)
    return experiment


def end(experiment: Experiment, repeat: int, ratio: float, **where: object) -> None:
    """All runs of a repeat succeed; the containers take `ratio` times as long as the baseline."""
    for run in experiment.runs.filter(repeat=repeat, **where):
        bare = run.environment_id == experiment.baseline_id
        MeasurementFactory(run=run, value=1.0 if bare else ratio)
        Run.objects.filter(pk=run.pk).update(state=Run.State.SUCCEEDED)
    jobs = experiment.jobs.filter(repeat=repeat)
    jobs.update(state=Job.State.DONE, scheduler_id="1", ended_at=experiment.launched_at)


def end_all(experiment: Experiment, ratios: tuple[float, ...], first: int = 1) -> None:
    for repeat, ratio in enumerate(ratios, start=first):
        end(experiment, repeat, ratio)


def fail(experiment: Experiment, repeat: int) -> Job:
    experiment.runs.filter(repeat=repeat).update(state=Run.State.FAILED)
    experiment.jobs.filter(repeat=repeat).update(
        state=Job.State.FAILED, ended_at=experiment.launched_at
    )
    return experiment.jobs.get(repeat=repeat)


def read(experiment: Experiment) -> ExperimentComparison:
    return compare_experiment(Experiment.objects.get(pk=experiment.pk))


class TestOneAnalysis:
    def test_nothing_is_judged_before_the_last_planned_run_has_ended(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW[:4])
        found = read(experiment)
        assert (found.pairs, list_comparison_rows(found)) == ([], [])
        assert len(found.groups[0].samples) == 8
        assert "appears when all 5 blocks have ended; 4 have." in found.stage.waiting
        assert found.stage.brief == "verdict after 5 blocks; 4 so far"
        end(experiment, 5, SLOW[4])
        found = read(experiment)
        assert [pair.verdict for pair in found.pairs] == [Verdict.SLOWER]
        assert (found.stage.waiting, found.stage.brief) == ("", "")

    def test_a_failed_block_has_ended_too(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW[:4])
        fail(experiment, 5)
        (pair,) = read(experiment).pairs
        assert (pair.verdict, pair.n_blocks, pair.interim_analysis) == (Verdict.SLOWER, 4, None)
        assert Stamp.STOPPED_EARLY not in pair.stamps

    def test_runs_are_counted_where_each_is_a_job(self) -> None:
        experiment = launched(repeats=2, looks=1, design=Experiment.Design.INDEPENDENT)
        end(experiment, 1, 1.0)
        assert "appears when all 4 runs have ended; 2 have." in read(experiment).stage.waiting


class TestCancelledEarly:
    def test_the_verdict_comes_from_what_there_is_and_says_so(self) -> None:
        experiment = launched(repeats=10, looks=1)
        end_all(experiment, SLOW[:4])
        lifecycle.cancel(experiment, experiment.owner)
        (pair,) = read(experiment).pairs
        assert (pair.verdict, pair.n_blocks) == (Verdict.SLOWER, 4)
        reason = dict(zip(pair.stamps, pair.reasons, strict=True))[Stamp.STOPPED_EARLY]
        assert reason.startswith(
            "Stopped after 4 of 10 blocks, outside the planned interim analyses."
        )

    def test_it_waits_for_what_is_under_way(self) -> None:
        experiment = launched(repeats=10, looks=1)
        end_all(experiment, SLOW[:4])
        under_way = experiment.jobs.get(repeat=5)
        Job.objects.filter(pk=under_way.pk).update(state=Job.State.RUNNING, scheduler_id="2")
        lifecycle.cancel(experiment, experiment.owner)
        found = read(experiment)
        assert found.pairs == []
        assert "when the runs under way have ended" in found.stage.waiting

    def test_after_the_last_run_it_is_no_early_stop(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW)
        lifecycle.cancel(experiment, experiment.owner)
        (pair,) = read(experiment).pairs
        assert Stamp.STOPPED_EARLY not in pair.stamps

    def test_a_look_that_was_taken_keeps_its_verdict_without_the_stamp(self) -> None:
        experiment = launched()
        end_all(experiment, SLOW)
        end_all(experiment, WILD[:3], first=6)
        lifecycle.cancel(experiment, experiment.owner)
        (pair,) = read(experiment).pairs
        assert (pair.verdict, pair.n_blocks) == (Verdict.SLOWER, 5)
        assert Stamp.STOPPED_EARLY not in pair.stamps
        assert "With all 8 blocks" in pair.sentence

    def test_an_open_look_is_judged_again_and_stamped(self) -> None:
        experiment = launched()
        end_all(experiment, WILD)
        end_all(experiment, WILD[:3], first=6)
        lifecycle.cancel(experiment, experiment.owner)
        (pair,) = read(experiment).pairs
        assert (pair.n_blocks, Stamp.STOPPED_EARLY in pair.stamps) == (8, True)
        assert " of 2." not in pair.sentence


class TestLooks:
    def test_exactly_the_first_repeats_of_the_plan_enter(self) -> None:
        """Repeat 7 has ended before repeat 3: it waits for its own analysis."""
        experiment = launched()
        for repeat in (1, 2, 4, 5):
            end(experiment, repeat, SAME[repeat - 1])
        end(experiment, 7, 9.9)
        found = read(experiment)
        assert found.pairs == []
        assert found.stage.waiting.startswith(
            "Interim analysis 1 of 2 comes when the first 5 repeats of every configuration have "
            "ended; "
            "4 of their 5 blocks have."
        )
        end(experiment, 3, SAME[2])
        (pair,) = read(experiment).pairs
        assert (pair.verdict, pair.n_blocks) == (Verdict.EQUIVALENT, 5)
        assert pair.interim_analysis
        assert (pair.interim_analysis.number, pair.interim_analysis.of, pair.alpha) == (
            1,
            2,
            0.0294,
        )

    def test_a_failed_block_of_the_first_repeats_is_missing_not_replaced(self) -> None:
        experiment = launched()
        end_all(experiment, SAME[:4])
        end(experiment, 6, 9.9)
        assert read(experiment).pairs == []
        fail(experiment, 5)
        (pair,) = read(experiment).pairs
        assert pair.n_blocks == 4

    def test_later_data_do_not_overturn_a_look_and_stand_beside_it(self) -> None:
        experiment = launched()
        end_all(experiment, SAME)
        end_all(experiment, SLOW, first=6)
        (pair,) = read(experiment).pairs
        assert (pair.verdict, pair.n_blocks) == (Verdict.EQUIVALENT, 5)
        assert pair.interim_analysis
        assert pair.interim_analysis.later_ratio == pytest.approx(1.03, abs=0.001)
        assert "With all 10 blocks that there are now the ratio is 1.030 [" in pair.sentence
        (row,) = list_comparison_rows(read(experiment))
        assert (row["look_number"], row["look_later_ratio"]) == (
            1,
            pair.interim_analysis.later_ratio,
        )
        assert (row["look_ci_difference_low"], row["look_ci_difference_high"]) == pair.ci_difference

    def test_an_open_look_goes_on_to_the_next(self) -> None:
        experiment = launched()
        end_all(experiment, WILD)
        found = read(experiment)
        assert [pair.verdict for pair in found.pairs] == [Verdict.INCONCLUSIVE]
        assert "Interim analysis 2 of 2 comes when all 10 blocks have ended; 5 of their 10" in (
            found.stage.waiting
        )
        end_all(experiment, WILD, first=6)
        (pair,) = read(experiment).pairs
        assert (pair.n_blocks, pair.interim_analysis and pair.interim_analysis.number) == (10, 2)

    def test_each_comparison_has_the_look_that_decided_it(self) -> None:
        experiment = ExperimentFactory(repeats=10, looks=2, margin=0.02)
        third = ContainerFactory(cluster=experiment.cluster, name="wild one")
        experiment.environments.add(third)
        lifecycle.launch(experiment, experiment.owner)
        for repeat in range(1, 6):
            end(experiment, repeat, SLOW[repeat - 1], environment__in=_but(experiment, third.pk))
            end(experiment, repeat, WILD[repeat - 1], environment=third)
        verdicts = {pair.environment: pair.verdict for pair in read(experiment).pairs}
        assert verdicts.pop("wild one") is Verdict.INCONCLUSIVE
        assert set(verdicts.values()) == {Verdict.SLOWER}
        for repeat in range(6, 11):
            end(experiment, repeat, 1.06 + repeat / 1e4)
        found = {pair.environment: pair for pair in read(experiment).pairs}
        numbers = [found["wild one"].interim_analysis, next(iter(found.values())).interim_analysis]
        assert {analysis.number for analysis in numbers if analysis} == {1, 2}

    def test_all_cells_are_waited_for(self) -> None:
        workloads = [WorkloadFactory(), WorkloadFactory()]
        experiment = launched(workloads=workloads)
        for repeat, ratio in enumerate(SAME, start=1):
            end(experiment, repeat, ratio, workload=workloads[0])
        assert read(experiment).pairs == []
        for repeat, ratio in enumerate(SAME, start=1):
            end(experiment, repeat, ratio, workload=workloads[1])
        assert len(read(experiment).pairs) == 2

    def test_the_plan_freezes_them(self) -> None:
        experiment = launched(repeats=15, looks=3)
        assert experiment.plan
        assert experiment.plan["looks"] == {"after_repeats": [5, 10, 15], "level": 0.0221}
        assert experiment.order_seed is not None
        other = freeze_definition(experiment, experiment.order_seed)
        other["looks"] = {"after_repeats": [15], "level": 0.05}
        assert compute_hash(other) != experiment.plan_hash

    def test_too_many_for_the_repeats_are_refused_in_words(self) -> None:
        experiment = ExperimentFactory(repeats=14, looks=3)
        with pytest.raises(lifecycle.NotLaunchable) as refusal:
            lifecycle.launch(experiment, experiment.owner)
        assert refusal.value.messages["looks"] == [
            "3 interim analyses need at least 15 repeats: between one and the next come 5, the "
            "fewest that a verdict needs. 14 repeats allow 2 interim analyses."
        ]

    @pytest.mark.parametrize("looks", [0, 6])
    def test_the_database_knows_how_many_there_can_be(self, looks: int) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            ExperimentFactory(looks=looks)


def _but(experiment: Experiment, pk: int) -> list[int]:
    return list(experiment.environments.exclude(pk=pk).values_list("pk", flat=True))


class TestStop:
    def test_keeps_the_verdict_of_the_look_whatever_trickles_in(self) -> None:
        experiment = launched()
        end_all(experiment, SLOW)
        under_way = experiment.jobs.get(repeat=6)
        Job.objects.filter(pk=under_way.pk).update(state=Job.State.RUNNING, scheduler_id="2")
        assert lifecycle.stop(experiment, 1, experiment.owner)
        assert experiment.jobs.filter(state=Job.State.CANCELLED).count() == 4
        under_way.refresh_from_db()
        assert under_way.cancel_requested_at
        found = read(experiment)
        (before,) = found.pairs
        assert (found.stage.waiting, found.may_stop) == ("", False)
        end(experiment, 6, 0.5)
        (after,) = read(experiment).pairs
        assert (after.verdict, after.n_blocks, after.ratio) == (Verdict.SLOWER, 5, before.ratio)
        assert Stamp.STOPPED_EARLY not in after.stamps
        assert "With all 6 blocks" in after.sentence

    def test_is_told_with_who_and_what_the_verdict_was(self) -> None:
        experiment, person = launched(), UserFactory()
        end_all(experiment, SLOW)
        lifecycle.stop(experiment, 1, person)
        event = experiment.events.get(what="stopped at interim analysis 1 of 2")
        assert event.actor == person
        assert "slower than" in event.why

    def test_an_open_look_cannot_be_kept(self) -> None:
        experiment = launched()
        end_all(experiment, WILD)
        assert not lifecycle.stop(experiment, 1, experiment.owner)
        assert experiment.jobs.filter(state=Job.State.PLANNED).count() == 5

    def test_a_look_that_is_not_the_last_one_taken_cannot_be_kept(self) -> None:
        experiment = launched(repeats=15, looks=3)
        end_all(experiment, SLOW)
        assert not lifecycle.stop(experiment, 2, experiment.owner)
        end_all(experiment, SLOW, first=6)
        assert not lifecycle.stop(experiment, 1, experiment.owner)
        assert lifecycle.stop(experiment, 2, experiment.owner)

    def test_with_one_look_there_is_nothing_to_stop_at(self) -> None:
        experiment = launched(looks=1)
        end_all(experiment, SLOW)
        assert not lifecycle.stop(experiment, 1, experiment.owner)

    def test_happens_once(self) -> None:
        experiment = launched()
        end_all(experiment, SLOW)
        assert lifecycle.stop(experiment, 1, experiment.owner)
        assert not lifecycle.stop(experiment, 1, experiment.owner)
        assert sum(lifecycle.cancel(experiment, experiment.owner)) == 0


class TestTryingAgain:
    def test_not_where_a_look_has_judged_without_it(self) -> None:
        experiment = launched()
        end_all(experiment, SAME[:4])
        early, late = fail(experiment, 5), fail(experiment, 6)
        with pytest.raises(NotDone, match="a planned analysis has judged without it"):
            lifecycle.retry(early, experiment.owner)
        lifecycle.retry(late, experiment.owner)
        assert [pair.n_blocks for pair in read(experiment).pairs] == [4]

    def test_before_the_look_it_waits_for_the_next_attempt(self) -> None:
        experiment = launched()
        end_all(experiment, SAME[:3])
        lifecycle.retry(fail(experiment, 4), experiment.owner)
        end(experiment, 5, SAME[4])
        assert read(experiment).pairs == []

    def test_after_the_verdict_it_is_stamped(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW[:4])
        job = fail(experiment, 5)
        assert Stamp.TRIED_AGAIN not in read(experiment).pairs[0].stamps
        lifecycle.retry(job, experiment.owner)
        assert read(experiment).pairs == []
        end(experiment, 5, SLOW[4])
        (pair,) = read(experiment).pairs
        assert (pair.n_blocks, Stamp.TRIED_AGAIN in pair.stamps) == (5, True)


def test_a_job_that_was_cancelled_before_the_experiment_does_not_undo_a_look() -> None:
    experiment = launched()
    end_all(experiment, SLOW[:4])
    experiment.runs.filter(repeat=5).update(state=Run.State.CANCELLED)
    experiment.jobs.filter(repeat=5).update(
        state=Job.State.CANCELLED, ended_at=experiment.launched_at
    )
    assert read_stage(experiment).taken == 1
    lifecycle.cancel(experiment, experiment.owner)
    experiment.refresh_from_db()
    assert experiment.cancelled_at
    assert experiment.launched_at
    assert experiment.cancelled_at - experiment.launched_at > timedelta(0)
    assert read_stage(experiment).taken == 1


def test_a_single_block_is_spoken_of_as_one() -> None:
    waiting = read_stage(launched(repeats=1, looks=1)).waiting
    assert waiting.startswith("The verdict appears when its one block has ended; 0 have.")


def test_an_experiment_without_runs_waits_for_nothing() -> None:
    stage = read_stage(LaunchedFactory())
    assert (stage.waiting, stage.alive) == ("", False)
