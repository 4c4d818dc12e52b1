"""Recurring experiments: launched when they are due, once, by the rules of every launch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.comparisons import compare_experiment
from experiments.execution import launch_recurrence
from experiments.management.commands import clock
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Recurrence,
    RecurringExperiment,
    Role,
    Run,
    Waiver,
    Workload,
)
from experiments.recurring import (
    describe_state,
    list_due,
    list_unnoted,
    move_due_time,
    note_points,
    read_history,
)
from experiments.recurring.chart_history import EXTENDED, INTERIM, NOT_ENDED
from experiments.recurring.recurrence_points import CANCELLED, NO_RUN
from experiments.software import inspections
from experiments.statistics.control_charts import FEWEST
from tests.conftest import finish
from tests.experiments.recurring.ended_recurrences import add_recurrence, keep
from tests.factories import (
    NOON,
    ClusterFactory,
    EnvironmentFactory,
    LaunchedFactory,
    RecurringExperimentFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def make_due(row: RecurringExperiment, ago: timedelta = DAY) -> RecurringExperiment:
    """Make the next recurrence due since some time."""
    RecurringExperiment.objects.filter(pk=row.pk).update(due_at=timezone.now() - ago)
    row.refresh_from_db()
    return row


def end_all(experiment: Experiment) -> None:
    """End the runs of an experiment as if they had succeeded."""
    experiment.runs.update(state=Run.State.SUCCEEDED)


@pytest.fixture
def weekly(experiment: Callable[..., Experiment]) -> RecurringExperiment:
    """A launched experiment on this machine whose next recurrence is due since yesterday."""
    source = experiment()
    end_all(source)
    row: RecurringExperiment = RecurringExperimentFactory(source=source, owner=source.owner)
    return make_due(row)


class TestLaunching:
    """One launch when it is due, with the same plan and another order."""

    def test_a_due_one_is_launched_with_the_plan_of_the_first(
        self, weekly: RecurringExperiment
    ) -> None:
        assert list_due(timezone.now()) == [weekly.pk]
        assert launch_recurrence(weekly.pk) == "launched"
        first, second = weekly.recurrences.select_related("experiment")
        assert (second.number, second.reason) == (2, "time")
        made = second.experiment
        assert made.owner == weekly.owner
        assert made.question == f"{weekly.question} (recurrence 2)"
        assert made.copied_from == first.experiment
        assert made.order_seed != first.experiment.order_seed
        assert made.plan
        assert first.experiment.plan
        changing = {"question", "order_seed", "blocks", "parity"}
        assert {name: made.plan[name] for name in made.plan.keys() - changing} == {
            name: first.experiment.plan[name] for name in first.experiment.plan.keys() - changing
        }
        assert made.runs.count() == first.experiment.runs.count()

    def test_it_runs_to_the_end_and_is_charted(self, weekly: RecurringExperiment) -> None:
        launch_recurrence(weekly.pk)
        made = weekly.recurrences.get(number=2).experiment
        finish(made)
        keep(made)
        history = read_history(weekly)
        assert {chart.name for chart in history.charts} == {
            "other / bare metal",
            "level of bare metal",
            "level of other",
        }
        assert all(chart.points[1].value for chart in history.charts)

    def test_launched_twice_at_once_it_is_launched_once(self, weekly: RecurringExperiment) -> None:
        assert launch_recurrence(weekly.pk) == "launched"
        assert launch_recurrence(weekly.pk) == "not due"
        assert weekly.recurrences.count() == 2

    def test_never_two_at_once_though_it_is_due(self, weekly: RecurringExperiment) -> None:
        launch_recurrence(weekly.pk)
        make_due(weekly)
        assert list_due(timezone.now()) == []
        assert launch_recurrence(weekly.pk) == "waits"
        assert "It waits until all runs of recurrence 2" in describe_state(weekly, timezone.now())
        end_all(weekly.recurrences.get(number=2).experiment)
        assert launch_recurrence(weekly.pk) == "launched"

    @pytest.mark.parametrize("asleep", [DAY, 8 * DAY, 31 * DAY])
    def test_a_site_that_was_asleep_launches_one_and_keeps_the_weekday(
        self, weekly: RecurringExperiment, asleep: timedelta
    ) -> None:
        make_due(weekly, asleep)
        was_due, now = weekly.due_at, timezone.now()
        assert was_due
        assert launch_recurrence(weekly.pk) == "launched"
        end_all(weekly.recurrences.get(number=2).experiment)
        assert launch_recurrence(weekly.pk) == "not due"
        weekly.refresh_from_db()
        assert weekly.due_at
        assert now < weekly.due_at <= now + 7 * DAY + timedelta(minutes=1)
        assert (weekly.due_at - was_due) % (7 * DAY) == timedelta(0)

    def test_it_ends_with_the_number_of_recurrences(self, weekly: RecurringExperiment) -> None:
        RecurringExperiment.objects.filter(pk=weekly.pk).update(most_recurrences=2)
        launch_recurrence(weekly.pk)
        end_all(weekly.recurrences.get(number=2).experiment)
        make_due(weekly)
        assert list_due(timezone.now()) == []
        assert launch_recurrence(weekly.pk) == "over"
        assert describe_state(weekly, timezone.now()).startswith("Over: all 2 recurrences")

    @pytest.mark.parametrize("columns", [{"ends_at": NOON}, {"stopped_at": NOON}])
    def test_what_has_ended_launches_nothing(
        self, weekly: RecurringExperiment, columns: dict[str, datetime]
    ) -> None:
        columns = {name: timezone.now() - DAY for name in columns}
        RecurringExperiment.objects.filter(pk=weekly.pk).update(**columns)
        assert list_due(timezone.now()) == []
        assert launch_recurrence(weekly.pk) == "over"
        assert weekly.recurrences.count() == 1

    def test_what_was_asked_for_while_it_is_due_is_one_launch_with_its_commit(
        self, weekly: RecurringExperiment
    ) -> None:
        RecurringExperiment.objects.filter(pk=weekly.pk).update(
            requested_at=timezone.now(), requested_reason="commit", requested_commit="4f2a91c"
        )
        assert launch_recurrence(weekly.pk) == "launched"
        launched = weekly.recurrences.get(number=2)
        assert (launched.reason, launched.commit) == ("commit", "4f2a91c")
        end_all(launched.experiment)
        assert launch_recurrence(weekly.pk) == "not due"
        weekly.refresh_from_db()
        assert (weekly.requested_at, weekly.requested_commit) == (None, "")

    def test_one_that_is_gone_is_no_failure(self) -> None:
        assert launch_recurrence(4711) == "gone"


class TestRefusals:
    """What stands against a launch is noted, tried again later, and stops nobody else."""

    def refuse(self, row: RecurringExperiment) -> str:
        assert launch_recurrence(row.pk) == "refused"
        assert row.recurrences.count() == 1
        assert Experiment.objects.exclude(pk=row.source_id).count() == 0  # no draft is left
        row.refresh_from_db()
        assert "could not be launched" in describe_state(row, timezone.now())
        return row.problem

    def test_an_owner_who_lost_their_role(self, weekly: RecurringExperiment) -> None:
        weekly.owner.role = Role.VIEWER
        weekly.owner.save()
        assert "you must be a researcher" in self.refuse(weekly)

    def test_an_owner_who_left(self, weekly: RecurringExperiment) -> None:
        weekly.owner.is_active = False
        weekly.owner.save()
        assert "must be in service" in self.refuse(weekly)

    def test_a_cluster_out_of_service(self, weekly: RecurringExperiment, here: Cluster) -> None:
        Cluster.objects.update(enabled=False)
        assert "here is not in service" in self.refuse(weekly)

    def test_a_cluster_that_is_not_the_owners_to_use_any_more(
        self, weekly: RecurringExperiment, here: Cluster
    ) -> None:
        here.users.clear()
        assert "only site administrators send" in self.refuse(weekly)

    def test_a_workload_that_was_changed(self, weekly: RecurringExperiment) -> None:
        row = Workload.objects.get()
        row.parameters = {**row.parameters, "steps": 9}
        row.save()
        problem = self.refuse(weekly)
        assert "workload blas has another value of parameters" in problem

    def test_an_environment_that_was_changed(self, weekly: RecurringExperiment) -> None:
        row = Environment.objects.get(name="other")
        row.variables = {"OMP_NUM_THREADS": "1"}
        row.save()
        assert "environment other has another value of variables" in self.refuse(weekly)

    def test_new_set_up_lines_are_launched_and_named(self, weekly: RecurringExperiment) -> None:
        row = Environment.objects.get(name="other")
        row.setup_lines = "true"
        row.save()
        assert launch_recurrence(weekly.pk) == "launched"
        assert weekly.recurrences.get(number=2).differences == ["other: the set-up lines"]

    def test_a_new_name_is_no_other_plan(self, weekly: RecurringExperiment) -> None:
        for row in (*Environment.objects.all(), *Workload.objects.all()):
            row.name += " renamed"
            row.save()
        assert launch_recurrence(weekly.pk) == "launched"

    def test_a_plan_with_interim_analyses(self, weekly: RecurringExperiment) -> None:
        Experiment.objects.filter(pk=weekly.source_id).update(looks=2)
        assert "A plan with interim analyses does not recur" in self.refuse(weekly)

    def test_a_difference_in_software_that_was_waived_is_waived_again_with_its_reason(
        self, weekly: RecurringExperiment
    ) -> None:
        source, other = weekly.source, Environment.objects.get(name="other")
        python: dict[str, Any] = {"python": {"version": "3.11"}}
        for environment, facts in (
            (source.baseline, python),
            (other, {"python": {"version": "3.13"}}),
        ):
            fingerprint = inspections.compute_fingerprint(environment)
            inspections.keep_inspection(environment, facts, fingerprint)
        assert "differs from bare metal in Python" in self.refuse(weekly)
        given = Waiver.objects.create(
            experiment=source,
            environment=other,
            what="Python",
            on_baseline="3.11",
            in_environment="3.13",
            reason="meant so",
            by=source.owner,
        )
        Waiver.objects.update(at=NOON)
        assert launch_recurrence(weekly.pk) == "launched"
        made = weekly.recurrences.get(number=2).experiment
        copied = made.waivers.get()
        assert (copied.what, copied.on_baseline, copied.in_environment) == (
            "Python",
            "3.11",
            "3.13",
        )
        assert (copied.reason, copied.by, copied.at) == ("meant so", given.by, NOON)
        assert source.waivers.get() == given  # it stays where it was

    def test_a_difference_with_other_values_than_the_waived_ones(
        self, weekly: RecurringExperiment
    ) -> None:
        source, other = weekly.source, Environment.objects.get(name="other")
        for environment, version in ((source.baseline, "3.11"), (other, "3.14")):
            fingerprint = inspections.compute_fingerprint(environment)
            inspections.keep_inspection(environment, {"python": {"version": version}}, fingerprint)
        Waiver.objects.create(
            experiment=source,
            environment=other,
            what="Python",
            on_baseline="3.11",
            in_environment="3.13",
            reason="meant so",
            by=source.owner,
        )
        assert "differs from bare metal in Python" in self.refuse(weekly)

    def test_is_tried_again_after_an_hour_and_works_once_it_may(
        self, weekly: RecurringExperiment, here: Cluster
    ) -> None:
        Cluster.objects.update(enabled=False)
        self.refuse(weekly)
        now = timezone.now()
        assert list_due(now) == []
        assert list_due(now + timedelta(hours=1, minutes=1)) == [weekly.pk]
        Cluster.objects.update(enabled=True)
        assert launch_recurrence(weekly.pk) == "launched"
        weekly.refresh_from_db()
        assert weekly.problem == ""

    def test_a_mistake_in_tare_itself_stops_no_other(
        self, weekly: RecurringExperiment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise ZeroDivisionError

        other: RecurringExperiment = make_due(
            RecurringExperimentFactory(source=weekly.source, owner=weekly.owner)
        )
        with monkeypatch.context() as patch:
            patch.setattr("experiments.execution.recurrences.launch", fail)
            assert "Tare failed at it" in self.refuse(weekly)
        assert list_due(timezone.now()) == [other.pk]
        assert launch_recurrence(other.pk) == "launched"


class TestTheClock:
    """It asks for what is due, and for what nobody has noted yet."""

    def test_five_hundred_are_asked_for_in_rounds_by_one_statement(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = LaunchedFactory()
        rows = RecurringExperiment.objects.bulk_create(
            RecurringExperiment(
                source=source,
                question="q",
                owner=source.owner,
                due_at=timezone.now() - DAY,
                last_number=1,
            )
            for _ in range(500)
        )
        asked: list[int] = []
        monkeypatch.setattr(clock, "enqueue_recur", asked.append)
        monkeypatch.setattr(clock, "list_unnoted", list)
        with CaptureQueriesContext(connection) as captured:
            clock.enqueue_recurrences({}, 0.0)
        assert len(captured) == 3  # the time, what is due, and clusters to be looked at
        assert len(asked) == 200
        for _ in range(3):
            # Those that were refused come last.
            RecurringExperiment.objects.filter(pk__in=asked[-200:]).update(
                tried_at=timezone.now() - 2 * timedelta(hours=1), problem="refused"
            )
            clock.enqueue_recurrences({}, 0.0)
        assert set(asked) == {row.pk for row in rows}

    def test_what_was_tried_before_the_clock_was_turned_back_is_tried_again(self) -> None:
        row = make_due(RecurringFactory(last_number=1))
        for away, is_due in ((-10, False), (-70, True), (500_000, True)):
            tried_at = timezone.now() + timedelta(minutes=away)
            RecurringExperiment.objects.filter(pk=row.pk).update(problem="no", tried_at=tried_at)
            assert (list_due(timezone.now()) == [row.pk]) is is_due

    def test_asks_once_a_minute(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make_due(RecurringExperimentFactory())
        asked: list[int] = []
        monkeypatch.setattr(clock, "enqueue_recur", asked.append)
        monkeypatch.setattr(clock, "enqueue_keep", lambda pk: None)
        times: dict[str, float] = {}
        for now in (0.0, 30.0, 59.0, 61.0):
            clock.enqueue_recurrences(times, now)
        assert len(asked) == 2

    def test_has_noted_what_has_ended(self) -> None:
        row = RecurringExperimentFactory()
        assert list_unnoted() == [row.source_id]
        note_points(row.source_id)
        assert list_unnoted() == []

    @pytest.mark.parametrize(
        ("late", "expected"),
        [
            (timedelta(0), datetime(2026, 11, 27, 12, tzinfo=UTC)),
            (timedelta(days=6, hours=23), datetime(2026, 11, 27, 12, tzinfo=UTC)),
            (timedelta(days=7), datetime(2026, 12, 4, 12, tzinfo=UTC)),
            (timedelta(days=31), datetime(2026, 12, 25, 12, tzinfo=UTC)),
        ],
    )
    def test_the_next_time_is_whole_weeks_later(self, late: timedelta, expected: datetime) -> None:
        assert move_due_time(NOON, 7, NOON + late) == expected


class TestPoints:
    """Each recurrence leaves a level of each environment and a ratio of each to the baseline."""

    def test_are_levels_and_ratios(self) -> None:
        row = RecurringExperimentFactory()
        recurrence = add_recurrence(row, 2)
        by_kind = {(point["kind"], point["baseline"] is None): point for point in recurrence.points}
        assert by_kind["ratio", False]["value"] == pytest.approx(1.1, rel=1e-3)
        levels = [point for point in recurrence.points if point["kind"] == "level"]
        assert [level["unit"] for level in levels] == ["s", "s"]
        assert levels[0]["value"] == pytest.approx(0.02)
        assert {point["runs"] for point in recurrence.points} == {5}

    def test_follow_an_exclusion(self) -> None:
        row = RecurringExperimentFactory()
        recurrence = add_recurrence(row, 2)
        recurrence.experiment.runs.filter(repeat=1).update(state=Run.State.EXCLUDED)
        recurrence.experiment.events.create(what="excluded")
        keep(recurrence.experiment)
        recurrence.refresh_from_db()
        assert {point["runs"] for point in recurrence.points} == {4}

    def test_of_a_cancelled_one_and_of_one_without_runs_are_none_and_say_why(self) -> None:
        row = RecurringExperimentFactory()
        cancelled, empty = (add_recurrence(row, number) for number in (2, 3))
        Experiment.objects.filter(pk=cancelled.experiment_id).update(cancelled_at=NOON)
        empty.experiment.runs.update(state=Run.State.FAILED)
        for recurrence, why in ((cancelled, CANCELLED), (empty, NO_RUN)):
            keep(recurrence.experiment)
            recurrence.refresh_from_db()
            assert (recurrence.points, recurrence.problem) == ([], why)
        add_recurrence(row, 4)
        problems = [point.problem for point in read_history(row).charts[0].points]
        assert problems == [NOT_ENDED, CANCELLED, NO_RUN, ""]

    def test_values_without_a_logarithm_are_no_points(self) -> None:
        row = RecurringExperimentFactory()
        recurrence = add_recurrence(row, 2)
        for point in recurrence.points:
            point["value"] = None
        recurrence.save()
        for chart in read_history(row).charts:
            assert (chart.last, chart.outside) == (None, [])

    def test_few_runs_are_shown_and_not_judged(self) -> None:
        row = RecurringExperimentFactory()
        for number in range(2, 2 + FEWEST):
            add_recurrence(row, number)
        last = add_recurrence(row, 2 + FEWEST, cost=3.0)
        for point in last.points:
            point["runs"] = 2
        last.save()
        assert read_history(row).outside == {}

    def test_have_the_verdict_and_the_stamps_of_their_ratio(self) -> None:
        recurrence = add_recurrence(RecurringExperimentFactory(), 2)
        (ratio,) = [point for point in recurrence.points if point["kind"] == "ratio"]
        (pair,) = compare_experiment(recurrence.experiment).pairs
        assert ratio["verdict"] == pair.verdict.value
        assert ratio["stamps"] == [stamp.value for stamp in pair.stamps]
        assert {point["interim"] for point in recurrence.points} == {False}
        assert {point["extended"] for point in recurrence.points} == {False}

    @pytest.mark.parametrize(
        ("facts", "problem"),
        [
            ({"verdict": "NOT ATTRIBUTABLE"}, "NOT ATTRIBUTABLE: it is not judged."),
            ({"stamps": ["TAIL", "CONFOUNDED"]}, "CONFOUNDED: it is not judged."),
            ({"stamps": ["TRAINED DIFFERENTLY"]}, "TRAINED DIFFERENTLY: it is not judged."),
            ({"stamps": ["REJECTIONS DIFFER"]}, "REJECTIONS DIFFER: it is not judged."),
            ({"interim": True, "runs": 2}, INTERIM),
            ({"extended": True}, EXTENDED),
        ],
    )
    def test_of_another_thing_than_the_container_are_neither_judged_nor_counted(
        self, facts: dict[str, Any], problem: str
    ) -> None:
        row = RecurringExperimentFactory()
        odd = [2, 3 + FEWEST]  # one of those that limits come from, and one that would leave them
        for number in range(2, 3 + FEWEST):
            add_recurrence(row, number)
        add_recurrence(row, 3 + FEWEST, cost=3.0)
        assert 3 + FEWEST in read_history(row).outside
        for recurrence in row.recurrences.filter(number__in=odd):
            recurrence.points = [
                point | (facts if point["kind"] == "ratio" else {}) for point in recurrence.points
            ]
            recurrence.save()
        add_recurrence(row, 4 + FEWEST)
        ratio = next(chart for chart in read_history(row).charts if chart.is_ratio)
        points = {point.number: point for point in ratio.points}
        assert [points[number].problem for number in odd] == [problem, problem]
        assert all(points[number].value for number in odd)  # shown all the same
        assert ratio.outside == []
        assert (points[2 + FEWEST].limits, points[3 + FEWEST].limits) == (None, None)
        assert ratio.limits
        assert ratio.limits.values == FEWEST

    def test_other_stamps_are_judged(self) -> None:
        row = RecurringExperimentFactory()
        recurrence = add_recurrence(row, 2)
        recurrence.points = [
            point | {"verdict": "INCONCLUSIVE", "stamps": ["TAIL"]} for point in recurrence.points
        ]
        recurrence.save()
        ratio = next(chart for chart in read_history(row).charts if chart.is_ratio)
        assert (ratio.points[1].problem, ratio.points[1].stamps) == ("", ("TAIL",))

    def test_leaving_the_limits_is_found_and_names_the_charts(self) -> None:
        row = RecurringExperimentFactory()
        for number in range(2, 2 + FEWEST):
            add_recurrence(row, number)
        assert read_history(row).outside == {}
        add_recurrence(row, 2 + FEWEST, cost=1.5)
        history = read_history(row)
        (names,) = history.outside.values()
        assert list(history.outside) == [2 + FEWEST]
        container = row.source.environments.exclude(pk=row.source.baseline_id).get()
        assert [name.partition(": ")[2] for name in names] == [
            f"{container} / {row.source.baseline}",
            f"level of {container}",
        ]

    def test_keep_their_chart_when_rows_are_renamed(self) -> None:
        row = RecurringExperimentFactory()
        add_recurrence(row, 2)
        for each in (*Environment.objects.all(), *Workload.objects.all()):
            type(each).objects.filter(pk=each.pk).update(name=f"new {each.pk}")
        add_recurrence(row, 3)
        assert len(read_history(row).charts) == 3

    def test_three_hundred_take_three_statements(self) -> None:
        row = RecurringExperimentFactory()
        first = add_recurrence(row, 2)
        rows = [
            Recurrence(
                recurring=row,
                number=number,
                experiment=experiment,
                reason="time",
                launched_at=NOON,
                points=first.points,
            )
            for number, experiment in enumerate(
                Experiment.objects.bulk_create(
                    Experiment(
                        question="q",
                        cluster=row.source.cluster,
                        baseline=row.source.baseline,
                        owner=row.owner,
                    )
                    for _ in range(300)
                ),
                start=3,
            )
        ]
        Recurrence.objects.bulk_create(rows)
        row = RecurringExperiment.objects.select_related("source").get(pk=row.pk)
        with CaptureQueriesContext(connection) as captured:
            history = read_history(row)
        assert len(captured) == 3
        assert {len(chart.points) for chart in history.charts} == {302}


def test_of_two_experiments_that_recur_from_one_source_neither_waits_for_the_other() -> None:
    cluster = ClusterFactory()
    baseline = EnvironmentFactory(cluster=cluster)
    source = LaunchedFactory(cluster=cluster, baseline=baseline, workloads=[WorkloadFactory()])
    rows = [make_due(RecurringExperimentFactory(source=source)) for _ in range(2)]
    assert list_due(timezone.now()) == [row.pk for row in rows]
