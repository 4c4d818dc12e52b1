"""Extending after an inconclusive verdict: which blocks are added, once, and what they decide."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from scipy import stats

from experiments.comparisons import compare_experiment, list_comparison_rows
from experiments.comparisons.extension_offers import make_offer
from experiments.design import Scale, compute_hash, plan_blocks
from experiments.execution import excluded_runs, extending, labels, lifecycle
from experiments.execution.further_attempts import NotDone, find_further_attempts
from experiments.execution.sending_rights import find_senders
from experiments.models import Experiment, Extension, Job, Run, Snapshot, User
from experiments.statistics import Pair, Stamp, Verdict
from experiments.statistics.extension_levels import compute_error_rates, compute_extension_level
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
from tests.factories import (
    AdminFactory,
    ContainerFactory,
    ExperimentFactory,
    MeasurementFactory,
    PartitionFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db
LEVEL = compute_extension_level(5, 5)


def inconclusive(**columns: Any) -> Experiment:
    """An experiment of five blocks that have ended, and decide nothing."""
    experiment = launched(repeats=5, looks=1, **columns)
    end_all(experiment, WILD)
    return experiment


def extend(experiment: Experiment, added: int = 5, by: User | None = None) -> Extension:
    row = Experiment.objects.get(pk=experiment.pk)
    return extending.extend(row, added, by or experiment.owner)


def refusal(experiment: Experiment, added: int = 5, by: User | None = None) -> str:
    runs = experiment.runs.count()
    with pytest.raises(NotDone) as refused:
        extend(experiment, added, by)
    assert experiment.runs.count() == runs
    return str(refused.value)


def two_workloads() -> Experiment:
    """The first workload is plainly slower, the second one is inconclusive."""
    slow, wild = WorkloadFactory(name="slow"), WorkloadFactory(name="wild")
    experiment: Experiment = ExperimentFactory(repeats=5, margin=0.02, workloads=[slow, wild])
    lifecycle.launch(experiment, experiment.owner)
    for repeat in range(5):
        end(experiment, repeat + 1, SLOW[repeat], workload=slow)
        end(experiment, repeat + 1, WILD[repeat], workload=wild)
    return experiment


def ratios_with_p(p: float) -> list[float]:
    """Five further ratios with which the ten differ from 1 with this p."""
    spread = (0.004, -0.004, 0.002, -0.002, 0.0)

    def further(shift: float) -> list[float]:
        return [math.exp(shift + each) for each in spread]

    def compute_p(shift: float) -> float:
        logs = [math.log(ratio) for ratio in (*WILD, *further(shift))]
        return float(stats.ttest_1samp(logs, 0).pvalue)

    low, high = 0.0, 0.5
    assert compute_p(low) > p > compute_p(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if compute_p(middle) < p else (middle, high)
    return further(high)


def only(experiment: Experiment) -> Pair:
    (pair,) = read(experiment).pairs
    return pair


class TestAddedBlocks:
    def test_the_blocks_and_only_those_are_added(self) -> None:
        experiment = two_workloads()
        before = Experiment.objects.get(pk=experiment.pk)
        extension = extend(experiment, 3)
        after = Experiment.objects.get(pk=experiment.pk)
        assert (after.plan, after.plan_hash) == (before.plan, before.plan_hash)
        assert (after.repeats, after.extended_repeats, after.all_repeats) == (5, 3, 8)
        added = experiment.jobs.filter(repeat__gt=5).order_by("block")
        assert [job.workload.name for job in added] == ["wild"] * 3
        assert [job.block for job in added] == [10, 11, 12]
        assert [job.repeat for job in added] == [6, 7, 8]
        assert {job.state for job in added} == {Job.State.PLANNED}
        environments = sorted(experiment.environments.values_list("pk", flat=True))
        first = experiment.runs.filter(repeat=1, workload__name="wild")
        specs = {run.environment_id: run.spec for run in first}
        for job, block in zip(added, extension.plan["blocks"], strict=True):
            runs = list(job.runs.order_by("position"))
            assert sorted(run.environment_id for run in runs) == environments
            assert [str(run.environment_id) for run in runs] == block["environments"]
            assert all(run.spec == specs[run.environment_id] for run in runs)
            assert job.gpu_seconds == first[0].job.gpu_seconds
        assert experiment.runs.count() == 2 * 2 * 5 + 2 * 3

    def test_anybody_can_draw_its_order_again(self) -> None:
        experiment = two_workloads()
        extension = extend(experiment, 4)
        plan, frozen = extension.plan, Experiment.objects.get(pk=experiment.pk).plan
        assert frozen is not None
        drawn = plan_blocks(
            sorted(frozen["workloads"], key=int),
            sorted(frozen["environments"], key=int),
            [Scale.parse(scale) for scale in frozen["scales"]],
            plan["repeats"],
            plan["order_seed"],
        )
        wild = str(experiment.workloads.get(name="wild").pk)
        assert [block["environments"] for block in plan["blocks"]] == [
            list(block.environments) for block in drawn if block.workload == wild
        ]
        assert extension.plan_hash == compute_hash(plan)

    def test_it_is_kept_who_added_what_when_and_after_which_verdict(self) -> None:
        experiment, admin = inconclusive(), AdminFactory()
        extension = extend(experiment, 5, admin)
        assert extension.extended_by == admin
        assert extension.plan["extends_plan"] == experiment.plan_hash
        assert extension.plan["after_repeats"] == [5, 10]
        assert extension.plan["levels"] == [0.05, LEVEL]
        (known,) = extension.plan["verdicts_before"]
        assert known["verdict"] == "INCONCLUSIVE"
        assert known["sentence"].startswith("Inconclusive: ")
        event = experiment.events.get(what=extending.EXTENDED)
        assert (event.actor, event.job) == (admin, None)
        assert event.why.startswith("by 5 repeats, 5 jobs, after 1 INCONCLUSIVE; plan ")
        job = experiment.jobs.filter(repeat=6)[0]
        assert find_senders([job]) == {job.pk: admin}
        earlier = experiment.jobs.filter(repeat=1)[0]
        assert find_senders([earlier]) == {earlier.pk: experiment.owner}

    def test_runs_of_the_independent_design_are_jobs_of_their_own(self) -> None:
        experiment = inconclusive(design=Experiment.Design.INDEPENDENT)
        extend(experiment, 2)
        added = experiment.jobs.filter(repeat__gt=5)
        assert [job.runs.count() for job in added] == [1] * 4
        assert read(experiment).stage.planned == 14


class TestVerdict:
    @pytest.mark.parametrize(
        ("p", "verdict"), [(0.04, Verdict.INCONCLUSIVE), (0.02, Verdict.SLOWER)]
    )
    def test_the_second_one_is_at_the_stricter_level(self, p: float, verdict: Verdict) -> None:
        experiment = inconclusive()
        extend(experiment)
        end_all(experiment, tuple(ratios_with_p(p)), first=6)
        pair = only(experiment)
        assert pair.p_difference == pytest.approx(p, rel=1e-3)
        assert (pair.verdict, pair.n_blocks, pair.alpha) == (verdict, 10, LEVEL)
        rates = compute_error_rates(5, 5, LEVEL, paired=True)
        assert pair.extension
        assert pair.extension.error_difference == rates.difference
        assert pair.extension.error_goal == rates.goal
        reason = dict(zip(pair.stamps, pair.reasons, strict=True))[Stamp.EXTENDED]
        assert f"slower or faster in {100 * rates.difference:.1f} % of experiments" in reason
        assert f"equivalent in {100 * rates.goal:.1f} %." in reason
        assert "an extension by 5 repeats that was not planned" in pair.sentence
        (row,) = list_comparison_rows(read(experiment))
        assert row["extension_added"] == 5
        assert row["extension_level"] == LEVEL
        assert "EXTENDED" in row["stamps"]

    def test_until_then_the_first_one_stands(self) -> None:
        experiment = inconclusive()
        extend(experiment)
        end_all(experiment, SLOW[:4], first=6)
        comparison = read(experiment)
        (pair,) = comparison.pairs
        assert (pair.verdict, pair.n_blocks, pair.alpha) == (Verdict.INCONCLUSIVE, 5, 0.05)
        assert Stamp.EXTENDED not in pair.stamps
        assert "It was extended by 5 repeats" in comparison.stage.waiting
        assert "when all 10 blocks have ended; 9 have." in comparison.stage.waiting
        assert not comparison.may_stop

    def test_what_was_decided_stays_so_at_its_own_level(self) -> None:
        experiment = two_workloads()
        extend(experiment)
        wild = experiment.workloads.get(name="wild")
        for repeat, ratio in enumerate(SAME, start=6):
            end(experiment, repeat, ratio, workload=wild)
        decided, extended = read(experiment).pairs
        assert (decided.verdict, decided.alpha, decided.n_blocks) == (Verdict.SLOWER, 0.05, 5)
        assert (decided.extension, decided.interim_analysis) == (None, None)
        assert Stamp.EXTENDED not in decided.stamps
        assert (extended.alpha, extended.n_blocks) == (LEVEL, 10)
        assert Stamp.EXTENDED in extended.stamps

    def test_of_an_extended_configuration_too(self) -> None:
        """Its runs come along, because a block has every environment."""
        experiment: Experiment = ExperimentFactory(repeats=5, margin=0.02)
        other = ContainerFactory(cluster=experiment.cluster)
        experiment.environments.add(other)
        lifecycle.launch(experiment, experiment.owner)
        box = experiment.environments.exclude(pk__in=[other.pk, experiment.baseline_id]).get()

        def finish(repeat: int, slow: float, wild: float) -> None:
            for run in experiment.runs.filter(repeat=repeat):
                ratios = {box.pk: slow, other.pk: wild}
                MeasurementFactory(run=run, value=ratios.get(run.environment_id, 1.0))
                Run.objects.filter(pk=run.pk).update(state=Run.State.SUCCEEDED)
            jobs = experiment.jobs.filter(repeat=repeat)
            jobs.update(state=Job.State.DONE, scheduler_id="1", ended_at=experiment.launched_at)

        for repeat in range(5):
            finish(repeat + 1, SLOW[repeat], WILD[repeat])
        extend(experiment)
        for repeat in range(5):
            finish(repeat + 6, SAME[repeat], WILD[repeat])
        snapshots = [Snapshot.objects.keep({"inside": {"cpu": cpu}}) for cpu in "xy"]
        experiment.runs.update(snapshot=snapshots[0])
        added = experiment.runs.filter(repeat=7).exclude(environment=experiment.baseline)
        added.update(snapshot=snapshots[1])
        by_name = {pair.environment: pair for pair in read(experiment).pairs}
        slow, wild = by_name[box.name], by_name[other.name]
        assert (slow.verdict, slow.n_blocks, slow.alpha) == (Verdict.SLOWER, 5, 0.05)
        assert Stamp.EXTENDED not in slow.stamps
        assert slow.interim_analysis
        assert slow.interim_analysis.later_size == "10 blocks"
        assert "Decided after 5 planned repeats, before its extension." in slow.sentence
        assert (wild.n_blocks, wild.alpha) == (10, LEVEL)
        assert wild.verdict is Verdict.NOT_ATTRIBUTABLE, "one of its blocks is not like others"

    def test_blocks_that_fail_are_missing_and_the_rates_know_it(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, WILD[:4])
        fail(experiment, 5)
        extend(experiment)
        end_all(experiment, SAME[:3], first=6)
        fail(experiment, 9)
        fail(experiment, 10)
        pair = only(experiment)
        rates = compute_error_rates(4, 3, LEVEL, paired=True)
        assert pair.extension
        assert (pair.n_blocks, pair.extension.error_goal) == (7, rates.goal)

    def test_a_failed_job_of_the_first_verdict_is_not_tried_again(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, WILD[:4])
        job = fail(experiment, 5)
        assert find_further_attempts(job).can_retry
        extend(experiment)
        assert not find_further_attempts(Job.objects.get(pk=job.pk)).can_retry

    def test_cancelled_it_is_judged_by_what_there_is(self) -> None:
        experiment = inconclusive()
        extend(experiment)
        end_all(experiment, SLOW[:3], first=6)
        lifecycle.cancel(experiment, experiment.owner)
        pair = only(experiment)
        assert (pair.n_blocks, pair.alpha) == (8, LEVEL)
        assert {Stamp.EXTENDED, Stamp.STOPPED_EARLY} <= set(pair.stamps)

    def test_not_slower_and_single_runs_are_judged_alike(self) -> None:
        for columns in ({"goal": "not slower"}, {"design": Experiment.Design.INDEPENDENT}):
            experiment = inconclusive(**columns)
            extend(experiment)
            end_all(experiment, WILD, first=6)
            pair = only(experiment)
            assert (pair.alpha, pair.count_to_infer) == (LEVEL, 10)
            assert Stamp.EXTENDED in pair.stamps


class TestExcludedRuns:
    def test_an_experiment_with_excluded_runs_can_be_extended(self) -> None:
        experiment = inconclusive()
        run = experiment.runs.filter(repeat=2).first()
        assert run
        excluded_runs.exclude(run, by=experiment.owner, why="a fan")
        extend(experiment)
        end_all(experiment, SAME, first=6)
        pair = only(experiment)
        assert {Stamp.EXTENDED, Stamp.EXCLUDED_AFTER} <= set(pair.stamps)
        assert pair.n_blocks == 9
        assert pair.before
        assert pair.before.size == "10 blocks"

    def test_the_verdict_with_all_runs_stands_beside_it(self) -> None:
        """Whoever excludes runs until a verdict is open, and extends, has the first one shown."""
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, (1.02, 1.05, 1.045, 1.04, 1.05))
        for run in experiment.runs.filter(repeat__gt=2):
            excluded_runs.exclude(run, by=experiment.owner, why="to try")
        assert only(experiment).verdict is Verdict.INCONCLUSIVE
        extend(experiment)
        end_all(experiment, SAME, first=6)
        pair = only(experiment)
        assert pair.before
        assert (pair.before.verdict, pair.before.size) == (Verdict.SLOWER, "5 blocks")
        assert Stamp.EXTENDED not in pair.before.stamps
        assert {Stamp.EXTENDED, Stamp.EXCLUDED_AFTER} <= set(pair.stamps)


class TestRefusals:
    def test_once_and_no_second_time(self) -> None:
        experiment = inconclusive()
        extend(experiment)
        end_all(experiment, WILD, first=6)
        assert "It was extended by 5 repeats already." in refusal(experiment)

    def test_not_before_its_runs_have_ended(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, WILD[:4])
        assert "have not all ended" in refusal(experiment)

    def test_not_where_it_was_cancelled(self) -> None:
        experiment = launched(repeats=10, looks=1)
        end_all(experiment, WILD)
        lifecycle.cancel(experiment, experiment.owner)
        assert only(experiment).verdict is Verdict.INCONCLUSIVE
        assert "It was cancelled" in refusal(experiment)

    def test_not_where_interim_analyses_were_planned(self) -> None:
        experiment = launched(repeats=10, looks=2)
        end_all(experiment, (*WILD, *WILD))
        assert "Its plan has interim analyses" in refusal(experiment)

    def test_not_where_several_metrics_decide(self) -> None:
        experiment = inconclusive()
        further = [{"metric": "import_time", "margin": 0.1}]
        Experiment.objects.filter(pk=experiment.pk).update(further_metrics=further)
        assert "several decisive metrics" in refusal(experiment)

    def test_not_where_a_margin_of_training_was_planned(self) -> None:
        """It was judged at 5 % after the planned runs, and would be once more."""
        experiment = inconclusive()
        Experiment.objects.filter(pk=experiment.pk).update(loss_margin=0.1)
        assert "margin of training" in refusal(experiment)

    def test_not_where_the_plan_does_not_say_what_the_workloads_are(self) -> None:
        experiment = inconclusive()
        Experiment.objects.filter(pk=experiment.pk).update(plan={})
        assert make_offer(read(experiment)) is None
        assert "does not say what its workloads are" in refusal(experiment)

    def test_not_where_the_warm_up_was_detected(self) -> None:
        experiment = inconclusive()
        Experiment.objects.filter(pk=experiment.pk).update(warm_up=Experiment.WarmUp.FOUND)
        assert "Its warm-up was detected" in refusal(experiment)

    def test_not_for_the_partition_on_the_same_nodes_again(self) -> None:
        experiment = inconclusive(estimand=Experiment.Estimand.PARTITION)
        experiment.runs.update(node="n1")
        for repeat in range(1, 6):
            experiment.runs.filter(repeat=repeat).update(node=f"n{repeat}")
        assert only(experiment).by_node
        assert "blocks may come to the same nodes again" in refusal(experiment)

    def test_for_the_partition_each_added_block_needs_a_further_node(self) -> None:
        experiment = launched(repeats=5, looks=1)
        partition = PartitionFactory(cluster=experiment.cluster, nodes=8)
        Experiment.objects.filter(pk=experiment.pk).update(
            estimand=Experiment.Estimand.PARTITION, spreads_nodes=True, partition=partition
        )
        end_all(experiment, WILD)
        for repeat in range(1, 6):
            experiment.runs.filter(repeat=repeat).update(node=f"n{repeat}")
        assert make_offer(read(experiment)).most == 3
        assert "1 to 3 repeats can be added" in refusal(experiment, 4)
        extend(experiment, 3)
        end_all(experiment, WILD[:3], first=6)
        for repeat in range(6, 9):
            experiment.runs.filter(repeat=repeat).update(node=f"n{repeat}")
        pair = only(experiment)
        rates = compute_error_rates(5, 3, compute_extension_level(5, 3), paired=True)
        assert pair.extension
        assert (pair.n_nodes, pair.extension.error_goal) == (8, rates.goal)

    def test_not_for_the_partition_where_all_its_nodes_were_planned_for(self) -> None:
        experiment = inconclusive()
        partition = PartitionFactory(cluster=experiment.cluster, nodes=5)
        Experiment.objects.filter(pk=experiment.pk).update(
            estimand=Experiment.Estimand.PARTITION, spreads_nodes=True, partition=partition
        )
        for repeat in range(1, 6):
            experiment.runs.filter(repeat=repeat).update(node=f"n{repeat}")
        assert "all of its 5 nodes were planned for" in refusal(experiment)

    def test_not_where_everything_is_decided(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, SLOW)
        assert "No comparison of it is inconclusive." in refusal(experiment)

    def test_not_from_the_archive(self) -> None:
        experiment = inconclusive()
        labels.archive(Experiment.objects.filter(pk=experiment.pk), experiment.owner)
        assert "It is archived." in refusal(experiment)

    def test_not_on_a_cluster_out_of_service(self) -> None:
        experiment = inconclusive()
        cluster = experiment.cluster
        type(cluster).objects.filter(pk=cluster.pk).update(enabled=False)
        assert f"{cluster} is not in service." in refusal(experiment)

    def test_not_by_who_may_not_launch_there(self) -> None:
        experiment, stranger = inconclusive(), UserFactory()
        experiment.cluster.users.remove(stranger)
        assert "Not extended." in refusal(experiment, by=stranger)

    @pytest.mark.parametrize("added", [0, -1, 996])
    def test_not_by_nothing_nor_by_more_than_a_plan_has(self, added: int) -> None:
        assert "1 to 995 repeats can be added" in refusal(inconclusive(), added)

    def test_not_a_draft_nor_what_was_deleted(self) -> None:
        draft = ExperimentFactory()
        assert "Only an experiment that was launched" in refusal(draft)
        lifecycle.discard(draft)
        with pytest.raises(NotDone, match="deleted"):
            extending.extend(draft, 5, draft.owner)

    def test_the_database_keeps_it_too(self) -> None:
        experiment = inconclusive()
        for columns in ({"extended_repeats": 3}, {"extension_level": 0.03}):
            with pytest.raises(IntegrityError), transaction.atomic():
                Experiment.objects.filter(pk=experiment.pk).update(**columns)


class TestOffer:
    def test_it_has_the_price_of_the_open_configurations_alone(self) -> None:
        experiment = two_workloads()
        offer = make_offer(read(experiment))
        wild = experiment.workloads.get(name="wild")
        gpu_hours = wild.time_limit_seconds * 2 / 3600
        assert (offer.configurations, offer.most) == (1, 995)
        assert offer.gpu_hours == pytest.approx(gpu_hours)
        assert offer.gpu_hours_in_all == pytest.approx(gpu_hours * offer.repeats)

    def test_it_proposes_a_number_and_says_how_often_both_verdicts_err(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, (1.03, 0.98, 1.02, 0.985, 1.0))
        offer = make_offer(read(experiment))
        assert offer.proposed
        assert offer.level == compute_extension_level(5, offer.proposed)
        rates = compute_error_rates(5, offer.proposed, offer.level, paired=True)
        assert (offer.error_difference, offer.error_goal) == (rates.difference, rates.goal)

    def test_without_any_that_would_decide_it_says_so(self) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, (1.9, 0.5, 1.7, 0.6, 1.02))
        offer = make_offer(read(experiment))
        assert (offer.proposed, offer.repeats) == (None, 5)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_press_at_once_one_extends() -> None:
    experiment = inconclusive()
    barrier, outcomes = threading.Barrier(2), []

    def press() -> None:
        barrier.wait()
        try:
            extending.extend(Experiment.objects.get(pk=experiment.pk), 5, experiment.owner)
        except NotDone as refused:
            outcomes.append(str(refused))
        else:
            outcomes.append("extended")
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes)[1] == "extended"
    assert "already" in sorted(outcomes)[0]
    assert experiment.jobs.count() == 10
    assert compare_experiment(Experiment.objects.get(pk=experiment.pk)).stage.planned == 10
