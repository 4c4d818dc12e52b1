"""Recurring experiments: what their owner is told, and launches after a change of the cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.execution import launch_recurrence
from experiments.management.commands import clock
from experiments.models import (
    Cluster,
    Experiment,
    KeptComparison,
    Notification,
    Recurrence,
    RecurringExperiment,
    Run,
    Snapshot,
)
from experiments.notifications import describe_notification
from experiments.recurring import (
    list_due,
    list_unnoted,
    note_points,
    read_history,
    request_after_changes,
    tell_of_limits,
)
from experiments.recurring.chart_history import OTHER_METHOD
from experiments.recurring.recurrence_facts import MOST_SHOWN, compare_facts
from experiments.statistics.control_charts import FEWEST
from tests.experiments.recurring.ended_recurrences import add_recurrence, keep
from tests.factories import (
    NOON,
    CheckReportFactory,
    ExperimentFactory,
    LaunchedFactory,
    RecurringExperimentFactory,
    block,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def row() -> RecurringExperiment:
    made: RecurringExperiment = RecurringExperimentFactory()
    return made


def give_facts(
    experiment: Experiment, facts: dict[str, str], *, runtime: str = "apptainer version 1.3.4"
) -> None:
    """Give all runs of an experiment one snapshot with these facts."""
    snapshot, _ = Snapshot.objects.get_or_create(
        content_hash=f"{experiment.pk} {facts} {runtime}"[:64],
        content={"inside": {}, "runtime": runtime, "image": "sha256:1"},
        facts=facts,
    )
    experiment.runs.update(snapshot=snapshot)


def leave_limits(row: RecurringExperiment) -> Recurrence:
    """Add recurrences that stay within the limits, and one that leaves them."""
    for number in range(2, 2 + FEWEST):
        add_recurrence(row, number)
    give_facts(row.recurrences.get(number=1 + FEWEST).experiment, {"kernel": "5.14"})
    last = add_recurrence(row, 2 + FEWEST, cost=1.5)
    give_facts(last.experiment, {"kernel": "6.1"}, runtime="apptainer version 1.4.0")
    return last


class TestAlarms:
    """The owner is told once of each chart that a recurrence has left, with what differs."""

    def test_names_the_charts_and_what_differs(self, row: RecurringExperiment) -> None:
        last = leave_limits(row)
        keep(last.experiment)
        notification = Notification.objects.select_related("experiment").get(kind="recurring")
        assert notification.recipient == row.owner
        text = describe_notification(notification)
        assert text.address == row.get_absolute_url()
        assert text.what == "Outside of limits"
        assert text.sentence.startswith(f"Recurrence {2 + FEWEST} has left the limits of ")
        assert "runtime: apptainer version 1.3.4 → apptainer version 1.4.0" in text.sentence
        assert "kernel: 5.14 → 6.1" in text.sentence
        last.refresh_from_db()
        assert last.changes == [
            "runtime: apptainer version 1.3.4 → apptainer version 1.4.0",
            "kernel: 5.14 → 6.1",
        ]

    def test_is_told_once_and_again_of_another_chart(self, row: RecurringExperiment) -> None:
        last = leave_limits(row)
        for _ in range(3):
            keep(last.experiment)
        last.refresh_from_db()
        assert len(last.reported) == 2
        Notification.objects.all().delete()
        assert tell_of_limits(last.experiment_id) == []
        assert not Notification.objects.exists()
        for point in last.points:
            point["value"] *= 3  # now the baseline's level leaves its limits too
        last.save()
        (news,) = tell_of_limits(last.experiment_id)
        assert "level of bare metal" in news
        assert Notification.objects.get().facts["count"] == 3

    def test_within_the_limits_nothing_is_told(self, row: RecurringExperiment) -> None:
        for number in range(2, 3 + FEWEST):
            recurrence = add_recurrence(row, number)
            assert tell_of_limits(recurrence.experiment_id) == []
        assert not Notification.objects.exists()

    def test_an_older_one_whose_values_move_is_not_told(self, row: RecurringExperiment) -> None:
        last = leave_limits(row)
        newest = add_recurrence(row, 3 + FEWEST)
        keep(last.experiment)  # as a visit to its page has it done
        assert not Notification.objects.exists()
        keep(newest.experiment)
        assert not Notification.objects.exists()
        assert 2 + FEWEST in read_history(row).outside  # the page shows it all the same

    def test_after_an_upgrade_values_are_computed_anew_and_then_the_newest_is_told(
        self, row: RecurringExperiment
    ) -> None:
        note_points(row.source_id)
        last = leave_limits(row)
        row.recurrences.exclude(pk=last.pk).update(method="an earlier one")
        history = read_history(row)
        assert len(history.of_another_method) == FEWEST
        assert history.outside == {}
        problems = {point.problem for point in history.charts[0].points if point.value}
        assert problems == {OTHER_METHOD, ""}
        assert tell_of_limits(last.experiment_id) == []
        waiting = list_unnoted()
        earlier = row.recurrences.exclude(pk=last.pk).order_by("experiment")
        assert waiting == list(earlier.values_list("experiment", flat=True))
        for experiment in Experiment.objects.filter(pk__in=waiting).order_by("pk"):
            assert not Notification.objects.exists()
            keep(experiment)
        assert list_unnoted() == []
        assert read_history(row).of_another_method == []
        notification = Notification.objects.get(kind="recurring")
        assert notification.facts["number"] == 2 + FEWEST

    def test_one_that_cannot_be_computed_anew_holds_up_no_other(
        self, row: RecurringExperiment
    ) -> None:
        for number in range(2, 3 + FEWEST):
            add_recurrence(row, number)
        old = row.recurrences.get(number=2)
        row.recurrences.filter(pk=old.pk).update(method="an earlier one")
        newest = add_recurrence(row, 3 + FEWEST, cost=1.5)
        assert list_unnoted() == [row.source_id, old.experiment_id]
        assert tell_of_limits(newest.experiment_id) == []
        KeptComparison.objects.filter(pk=old.experiment_id).update(failed_at=NOON)
        assert list_unnoted() == [row.source_id]
        assert len(tell_of_limits(newest.experiment_id)) == 2

    def test_an_upgrade_tells_nobody_again_of_what_was_judged_before(
        self, row: RecurringExperiment
    ) -> None:
        note_points(row.source_id)
        last = leave_limits(row)
        row.recurrences.update(method="an earlier one")
        row.recurrences.filter(pk=last.pk).update(reported=[])  # by that one nothing was outside
        for pk in list_unnoted():
            keep(Experiment.objects.get(pk=pk))
        assert 2 + FEWEST in read_history(row).outside
        assert not Notification.objects.exists()

    def test_a_refusal_is_told_once_for_each_reason(self, row: RecurringExperiment) -> None:
        RecurringExperiment.objects.filter(pk=row.pk).update(due_at=timezone.now())
        Cluster.objects.update(enabled=False)
        for _ in range(3):
            assert launch_recurrence(row.pk) == "refused"
            Notification.objects.filter(read_at=None).update(read_at=timezone.now())
        notification = Notification.objects.select_related("experiment").get()
        text = describe_notification(notification)
        assert text.what == "Recurrence not launched"
        assert "is not in service" in text.sentence


class TestFactsThatDiffer:
    """By fact, with the environments in which it differs; weighty ones first."""

    def test_are_ordered_and_name_the_environments(self) -> None:
        before: Any = {
            "bare": {"kernel": ["5"], "package numpy": ["1"], "GPU driver": ["535"]},
            "box": {"kernel": ["5"], "package numpy": ["1"], "GPU driver": ["535"]},
        }
        now: Any = {
            "bare": {"kernel": ["6"], "package numpy": ["1"], "GPU driver": ["550"]},
            "box": {"kernel": ["6"], "package numpy": ["2"], "GPU driver": ["550"]},
        }
        assert compare_facts(before, now) == [
            "GPU driver: 535 → 550",
            "kernel: 5 → 6",
            "package numpy: 1 → 2 (box)",
        ]

    def test_what_only_one_knows_is_no_difference(self) -> None:
        assert (
            compare_facts({"bare": {"kernel": ["5"]}}, {"bare": {}, "new": {"kernel": ["6"]}}) == []
        )

    def test_of_thousands_some_are_named(self) -> None:
        before: Any = {"bare": {f"package {n}": ["1"] for n in range(5000)}}
        now: Any = {"bare": {f"package {n}": ["2"] for n in range(5000)}}
        lines = compare_facts(before, now)
        assert len(lines) == MOST_SHOWN + 1
        assert lines[-1] == f"and {5000 - MOST_SHOWN} more facts"


class TestChangesOfTheCluster:
    """A later run on the same node, or a check, that has seen something else asks for the next."""

    @pytest.fixture
    def watching(self, row: RecurringExperiment) -> RecurringExperiment:
        """One that recurs after changes; its last recurrence ran on node1 with one driver."""
        RecurringExperiment.objects.filter(pk=row.pk).update(on_changes=True)
        last = add_recurrence(row, 2)
        give_facts(last.experiment, {"GPU driver": "535", "kernel": "5.14"})
        row.refresh_from_db()
        return row

    def run_later(
        self, watching: RecurringExperiment, facts: dict[str, str], node: str = "node1"
    ) -> None:
        """Have another experiment run there, later."""
        source = watching.source
        other = LaunchedFactory(
            cluster=source.cluster, partition=source.partition, baseline=source.baseline
        )
        block(other, 1, {source.baseline: 0.02})
        other.runs.update(ended_at=NOON + timedelta(days=1), node=node)
        give_facts(other, facts)

    def test_another_driver_on_the_same_node(self, watching: RecurringExperiment) -> None:
        self.run_later(watching, {"GPU driver": "550", "kernel": "5.14"})
        assert request_after_changes(watching.source.cluster_id) == [watching.pk]
        watching.refresh_from_db()
        assert watching.requested_reason == "change"
        assert watching.requested_detail == "GPU driver of node1: 535 → 550"
        assert list_due(timezone.now()) == [watching.pk]
        assert request_after_changes(watching.source.cluster_id) == []  # it is asked for already

    @pytest.mark.parametrize(
        ("facts", "node"),
        [
            ({"GPU driver": "535", "kernel": "5.14"}, "node1"),
            ({"GPU driver": "550", "kernel": "6.1"}, "node2"),
            ({"hostname": "node1"}, "node1"),
        ],
    )
    def test_the_same_another_node_and_what_is_not_known_ask_for_nothing(
        self, watching: RecurringExperiment, facts: dict[str, str], node: str
    ) -> None:
        self.run_later(watching, facts, node)
        assert request_after_changes(watching.source.cluster_id) == []

    @pytest.mark.parametrize(
        "columns",
        [
            {"on_changes": False},
            {"stopped_at": NOON},
            {"ends_at": NOON},
            {"most_recurrences": 2},
        ],
    )
    def test_what_does_not_recur_any_more_is_left_alone(
        self, watching: RecurringExperiment, columns: dict[str, Any]
    ) -> None:
        self.run_later(watching, {"GPU driver": "550"})
        past = {
            n: timezone.now() - timedelta(days=1) if v == NOON else v for n, v in columns.items()
        }
        RecurringExperiment.objects.filter(pk=watching.pk).update(**past)
        assert request_after_changes(watching.source.cluster_id) == []

    def test_while_the_last_one_lives_nothing_is_asked_for(
        self, watching: RecurringExperiment
    ) -> None:
        self.run_later(watching, {"GPU driver": "550"})
        last = watching.recurrences.get(number=2).experiment
        last.runs.filter(repeat=1).update(state=Run.State.RUNNING)
        assert request_after_changes(watching.source.cluster_id) == []

    def test_a_check_that_finds_another_version_of_a_runtime(
        self, watching: RecurringExperiment
    ) -> None:
        cluster = watching.source.cluster
        (container,) = watching.source.environments.exclude(runtime=None)
        name = f"Apptainer at {container.runtime.executable}"
        for days, version in ((-1, "1.3.4"), (1, "1.4.0")):
            check = {"area": "Runtimes", "name": name, "outcome": "ok", "value": version}
            CheckReportFactory(cluster=cluster, ended_at=NOON + timedelta(days=days), rows=[check])
        assert request_after_changes(cluster.pk) == [watching.pk]
        watching.refresh_from_db()
        assert watching.requested_detail == f"version of {name} (Runtimes): 1.3.4 → 1.4.0"

    def test_the_clock_leaves_that_to_a_worker_however_many_watch(
        self, watching: RecurringExperiment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.run_later(watching, {"GPU driver": "550", "kernel": "5.14"})
        source = watching.source
        copies = RecurringExperiment.objects.bulk_create(
            RecurringExperiment(
                source=source,
                question="q",
                owner=source.owner,
                on_changes=True,
                last_number=1,
                due_at=timezone.now() + timedelta(days=1),
            )
            for _ in range(300)
        )
        last = watching.recurrences.get(number=2).experiment
        Recurrence.objects.bulk_create(
            Recurrence(
                recurring=each,
                number=1,
                experiment=last,
                reason="first",
                launched_at=NOON,
                points=[],
            )
            for each in copies
        )
        asked: list[int] = []
        monkeypatch.setattr(clock, "enqueue_find_changes", asked.append)
        monkeypatch.setattr(clock, "list_unnoted", list)
        with CaptureQueriesContext(connection) as captured:
            clock.enqueue_recurrences({}, 0.0)
        assert len(captured) == 3  # the time, what is due, and clusters to be looked at
        assert asked == [source.cluster_id]

    def test_a_dozen_statements_find_the_changes_of_three_hundred(
        self, watching: RecurringExperiment
    ) -> None:
        self.run_later(watching, {"GPU driver": "550", "kernel": "5.14"})
        cluster = watching.source.cluster
        (container,) = watching.source.environments.exclude(runtime=None)
        name = f"Apptainer at {container.runtime.executable}"
        for days in (-1, 1):
            check = {"area": "Runtimes", "name": name, "outcome": "ok", "value": "1"}
            CheckReportFactory(cluster=cluster, ended_at=NOON + timedelta(days=days), rows=[check])
        with CaptureQueriesContext(connection) as alone:
            assert request_after_changes(cluster.pk) == [watching.pk]
        RecurringExperiment.objects.filter(pk=watching.pk).update(requested_at=None)
        last = watching.recurrences.get(number=2).experiment
        copies = RecurringExperiment.objects.bulk_create(
            RecurringExperiment(
                source=watching.source,
                question="q",
                owner=watching.owner,
                on_changes=True,
                last_number=1,
            )
            for _ in range(300)
        )
        Recurrence.objects.bulk_create(
            Recurrence(recurring=each, number=1, experiment=last, reason="first", launched_at=NOON)
            for each in copies
        )
        with CaptureQueriesContext(connection) as captured:
            asked = request_after_changes(cluster.pk)
        assert asked == [watching.pk, *(each.pk for each in copies)]
        details = set(RecurringExperiment.objects.values_list("requested_detail", flat=True))
        assert details == {"GPU driver of node1: 535 → 550"}
        assert len(captured) == len(alone) <= 12

    def test_each_is_compared_with_what_its_own_last_recurrence_has_seen(
        self, watching: RecurringExperiment
    ) -> None:
        newer = add_recurrence(
            RecurringExperimentFactory(
                source=LaunchedFactory(
                    cluster=watching.source.cluster,
                    partition=watching.source.partition,
                    baseline=watching.source.baseline,
                    environments=list(watching.source.environments.all()),
                    workloads=list(watching.source.workloads.all()),
                ),
                on_changes=True,
            ),
            2,
        )
        newer.experiment.runs.update(ended_at=NOON + timedelta(hours=12))
        give_facts(newer.experiment, {"GPU driver": "550", "kernel": "5.14"})
        self.run_later(watching, {"GPU driver": "550", "kernel": "6.1"})
        asked = request_after_changes(watching.source.cluster_id)
        assert asked == sorted([watching.pk, newer.recurring_id])
        details = dict(RecurringExperiment.objects.values_list("pk", "requested_detail"))
        assert details[watching.pk] == "GPU driver of node1: 535 → 550; kernel of node1: 5.14 → 6.1"
        assert details[newer.recurring_id] == "kernel of node1: 5.14 → 6.1"

    def test_without_any_it_is_one_statement(self) -> None:
        cluster = ExperimentFactory().cluster
        with CaptureQueriesContext(connection) as captured:
            assert request_after_changes(cluster.pk) == []
        assert len(captured) == 1
