"""Runs that a rule of the plan rejects for what their node did."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.comparisons.methods import describe_methods
from experiments.comparisons import compare_experiment
from experiments.comparisons.rejections import REJECTED, REJECTED_AGAIN, JudgedRuns
from experiments.comparisons.repaired import count_repaired_blocks
from experiments.execution import lifecycle, run_ends
from experiments.execution.attempts_by_rule import NOT_TRIED
from experiments.execution.rejected_again import plan_rejected_again
from experiments.execution.sending_rights import REPAIRED
from experiments.models import Experiment, Job, Measurement, Run
from experiments.planning.freeze import freeze_definition
from experiments.statistics.unequal_rejections import Judged
from runners.node_rules import Judgement
from runners.node_samples import PAGED, Samples
from tests.conftest import finish, tick_until

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]


def swapping(_: object) -> Samples:
    """Return samples of a node that swaps all the time, in every century."""
    return Samples(tracks={(PAGED, None): [(number / 10, number) for number in range(20)]})


def test_a_run_is_rejected_for_what_its_node_did_and_keeps_no_number(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True)
    assert made.plan
    assert made.plan["reject"] == {"swap": True}
    judged: list[Any] = []

    def judge_all(*arguments: object) -> object:
        judged.append(arguments)
        rules, samples, *_ = arguments
        return real(rules, samples, 0, 2)

    real = run_ends.judge
    with (
        mock.patch("runners.records.read_samples", swapping),
        mock.patch.object(run_ends, "judge", judge_all),
    ):
        finish(made)
    runs = list(made.runs.all())
    assert {(run.state, run.reason) for run in runs} == {(Run.State.FAILED, "rejected")}
    assert {run.message for run in runs} == {
        "By the plan's rules: 19 pages went to swap or came from it."
    }
    assert not Measurement.objects.exists()
    assert len(judged) == len(runs)
    for _, _, began, ended, cpus in judged:  # no number of the run is among them
        assert isinstance(began, float)
        assert isinstance(ended, float)
        assert cpus is None or isinstance(cpus, int)


def test_a_run_too_short_for_samples_counts_and_says_so(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True, reject_throttled=True)
    with mock.patch("runners.records.read_samples", return_value=Samples()):
        finish(made)
    for run in made.runs.all():
        assert run.state == Run.State.SUCCEEDED
        assert run.message.endswith("The plan's rules on swap were not applied: no samples.")


@contextmanager
def rejecting(count: int, *names: str) -> Iterator[None]:
    """Have the first `count` runs of each of these environments rejected."""
    judged: Counter[str] = Counter()

    def judge(run: Run, *_: object) -> Judgement:
        judged[run.environment.name] += 1
        is_bad = run.environment.name in names and judged[run.environment.name] <= count
        return Judgement(("the node swapped",) if is_bad else ())

    with mock.patch.object(run_ends, "judge_node", judge):
        yield


def test_a_rejected_run_is_tried_again_in_its_block_on_its_node(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True, rejected_again=2)
    with rejecting(1, "other"):
        finish(made)
    first, second = made.jobs.order_by("pk")
    kept, again = first.runs.get(), second.runs.get()
    assert (kept.environment.name, again.environment.name) == ("bare metal", "other")
    assert {kept.state, again.state} == {Run.State.SUCCEEDED}
    assert (second.repairs, second.block, second.node) == (first, first.block, kept.node)
    assert kept.node
    assert kept.ended_at
    assert again.began_at
    assert kept.ended_at < again.began_at
    assert Measurement.objects.filter(run=kept).exists()
    assert Measurement.objects.filter(run=again).exists()
    (event,) = made.events.filter(what=REJECTED_AGAIN)
    assert (event.run, event.job) == (again, second)
    assert event.why == "By the plan's rules: the node swapped."
    assert "will be run on" in made.events.get(job=second, run=None, what=REPAIRED).why
    place = (again.workload_id, again.scale)
    counted = [JudgedRuns(made).count(place, name) for name in ("bare metal", "other")]
    assert counted == [Judged(0, 1), Judged(1, 2)], "the warning hears of what was run again"
    assert not made.events.filter(what=NOT_TRIED).exists()


def test_a_block_is_tried_again_as_often_as_its_plan_allows(experiment: Make) -> None:
    made = experiment(repeats=2, reject_swap=True, rejected_again=2)
    with rejecting(99, "other"):
        finish(made)
    assert made.events.filter(what=REJECTED_AGAIN).count() == 4
    assert made.jobs.count() == 6
    runs = made.runs.filter(environment__name="other")
    assert set(runs.values_list("state", "reason")) == {("failed", "rejected")}
    assert made.runs.filter(state=Run.State.SUCCEEDED).count() == 2
    for event in made.events.filter(what=NOT_TRIED):
        assert event.why == "rejected, and tried again 2 times, the most that the plan allows"
    assert made.events.filter(what=NOT_TRIED).count() == 2
    for kept in made.runs.filter(environment__name="bare metal"):
        again = made.jobs.filter(block=kept.job.block).exclude(pk=kept.job_id)
        assert set(again.values_list("node", flat=True)) == {kept.node}, "a pair is of one node"


def reject_runs(environment: str, jobs: Sequence[Job], *, again: int) -> None:
    """End these jobs with a run of each rejected."""
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(state=Job.State.DONE, node="node1")
    for job in jobs:
        job.state = Job.State.DONE
        runs = job.runs.all()
        runs.update(state=Run.State.SUCCEEDED)
        runs.filter(environment__name=environment).update(
            state=Run.State.FAILED, reason=REJECTED, spec={"reject": {"again": again}}
        )


@pytest.mark.parametrize("again", [0, 1])
def test_more_jobs_with_rejected_runs_take_no_more_statements(experiment: Make, again: int) -> None:
    made = experiment(repeats=8, reject_swap=True, rejected_again=1)
    jobs = list(made.jobs.select_related("experiment").order_by("pk"))
    reject_runs("other", jobs, again=again)
    counts = []
    for portion in (jobs[:1], jobs[1:]):
        with CaptureQueriesContext(connection) as queries:
            plan_rejected_again(portion)
        counts.append(len(queries))
    planned = made.runs.filter(state=Run.State.PLANNED, job__node="node1")
    assert planned.count() == again * len(jobs)
    assert made.events.filter(what=NOT_TRIED if not again else REJECTED_AGAIN).count() == len(jobs)
    assert counts[0] == counts[1]


def test_the_event_of_a_run_that_is_planned_again_is_of_its_first_job(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True, rejected_again=1)
    (first,) = made.jobs.select_related("experiment")
    reject_runs("other", [first], again=1)
    plan_rejected_again([first])
    event = made.events.get(what="failed → planned", run__environment__name="other")
    assert (event.job, event.why) == (first, f"in {made.jobs.get(repairs=first)}")


def test_only_blocks_with_runs_of_two_jobs_count_as_completed_by_a_second_one(
    experiment: Make,
) -> None:
    made = experiment(repeats=2, reject_swap=True, rejected_again=1)
    with rejecting(1, "other"):
        finish(made)
    made.refresh_from_db()
    assert count_repaired_blocks(made) == (1, 0)
    text = " ".join(describe_methods(compare_experiment(made)))
    assert "1 block was completed by a second job" in text
    assert "what they reject of a block is run again once, on the node of the others" in text
    made.jobs.exclude(repairs=None).update(node="")
    assert count_repaired_blocks(made) == (1, 1)


def test_a_block_of_which_nothing_is_left_may_run_anywhere(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True, rejected_again=1)
    with rejecting(1, "bare metal", "other"):
        finish(made)
    assert count_repaired_blocks(made) == (0, 0), "all its runs are of one job"
    first, second = made.jobs.order_by("pk")
    assert (first.runs.count(), second.runs.count(), second.node) == (0, 2, "")
    assert list(second.runs.order_by("position").values_list("state", flat=True)) == [
        *("succeeded", "succeeded")
    ]


def test_rejected_runs_stay_failed_where_the_plan_says_nothing(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True)
    with rejecting(1, "other"):
        finish(made)
    assert made.jobs.count() == 1
    assert made.runs.get(environment__name="other").reason == "rejected"


def test_nothing_is_tried_again_of_a_cancelled_experiment(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True, rejected_again=1)
    with rejecting(1, "other"):
        tick_until(made.cluster, lambda: made.runs.filter(ended_at__isnull=False).exists())
        lifecycle.cancel(made, made.owner)
        finish(made)
    assert made.jobs.count() == 1


def test_the_load_of_others_is_told_by_the_cpus_that_a_run_may_use(experiment: Make) -> None:
    """The runs are real ones, and so is what they say of their CPUs; the load is not."""
    own = len(os.sched_getaffinity(0))
    made = experiment(repeats=1, reject_others_cpus=5)
    assert made.plan
    assert made.plan["reject"] == {"others_cpus": 5}
    judged: list[Any] = []

    def judge_in_time(rules: Any, samples: Samples, *rest: Any) -> Judgement:
        judged.append(rest[2:])
        return real(rules, samples, 0, 10, *rest[2:])

    def loaded(_: object) -> Samples:
        node = 100 * (own + 6)
        return Samples(ticks=[(0, 0, 0), (10, 10 * (node - 50), 10 * (node + 200))])

    real = run_ends.judge
    with (
        mock.patch("runners.records.read_samples", loaded),
        mock.patch.object(run_ends, "judge", judge_in_time),
    ):
        finish(made)
    assert set(judged) == {(own,)}
    assert {run.message for run in made.runs.all()} == {
        f"By the plan's rules: others kept at least 5.5 CPUs busy beside the {own} of the run."
    }
    methods = " ".join(describe_methods(compare_experiment(made)))
    assert (
        "at least 5 CPUs of the node were busy, on the mean, beyond all that the run may use"
        in methods
    )


@pytest.mark.parametrize("cpus", [None, [], "0", [True, -1, "2"], {"0": 1}])
def test_cpus_that_a_run_does_not_tell_are_not_known(cpus: object) -> None:
    run, record = Run(scale="1x1"), mock.Mock(snapshot={"cpus": cpus})
    assert run_ends.count_cpus(run, record) is None
    record.snapshot["cpus"] = [0, 1, 1, 5]
    assert run_ends.count_cpus(run, record) == 3
    for scale in ("2x1", "1x2 srun", "1x4x4"):
        run.scale = scale
        assert run_ends.count_cpus(run, record) is None, "each process may have CPUs of its own"


def test_trying_again_is_frozen_with_the_rules_alone(experiment: Make) -> None:
    made = experiment(repeats=1, rejected_again=3)
    assert "reject" not in freeze_definition(made, 1), "there is nothing to try again"
    made.reject_swap = True
    assert freeze_definition(made, 1)["reject"] == {"swap": True, "again": 3}
    assert made.rejection_texts == ["pages went to swap or came from it"]


def test_without_rules_plans_are_what_they_were(experiment: Make) -> None:
    made = experiment(repeats=1)
    assert "reject" not in freeze_definition(made, 1)
    assert all("reject" not in run.spec for run in made.runs.all())


def test_each_rule_changes_the_plan(experiment: Make) -> None:
    made = experiment(repeats=1)
    made.reject_below_mhz, made.reject_throttled, made.reject_others = 1500, True, True
    rules = {"throttled": True, "least_mhz": 1500, "others": True}
    assert freeze_definition(made, 1)["reject"] == rules
    assert made.rejection_texts == [
        "heat or the hardware slowed a GPU down",
        "a GPU in use had a mean clock below 1,500 MHz",
        "others had a process on the job's GPUs",
    ]
