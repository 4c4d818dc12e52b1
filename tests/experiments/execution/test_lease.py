"""The lease: kept while its visit lives, soon gone when it does not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError
from django.db.models import QuerySet
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from experiments import execution
from experiments.execution import holder
from experiments.execution import lease as leases
from experiments.execution.lease import LEASE, hold_lease
from experiments.models import Cluster, Event, Experiment, Job, Run
from runners.transports import Local
from tests.conftest import finish
from tests.experiments.execution.test_execution import script

Make = Callable[..., Experiment]

TOKEN = f"import runpy; print(runpy.run_path({holder.__file__!r})['make_token'](), flush=True); "


@pytest.fixture(autouse=True)
def _every_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each renewal ask the database: here leases are lost that were good for seconds."""
    monkeypatch.setattr(leases, "RENEWED_SECONDS", 0)


@pytest.fixture
def neighbour() -> Iterator[subprocess.Popen[str]]:
    """Another process of this machine, which prints its token and lives on."""
    argv = [sys.executable, "-c", f"{TOKEN}input()"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def token_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def hold(cluster: Cluster, token: str) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(
        lease_token=token, lease_until=timezone.now() + LEASE
    )


@pytest.mark.django_db
class TestTaking:
    def test_a_second_worker_does_nothing(self, here: Cluster) -> None:
        with hold_lease(here) as held:
            assert held
            assert execution.tick(here.pk) == "busy"

    def test_it_is_free_again_after_the_visit(self, here: Cluster) -> None:
        assert execution.tick(here.pk) == "done"
        here.refresh_from_db()
        assert (here.lease_token, here.lease_until) == ("", None)

    def test_a_dead_workers_lease_expires(self, here: Cluster) -> None:
        hold(here, "of another machine")
        assert execution.tick(here.pk) == "busy"
        Cluster.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert execution.tick(here.pk) == "done"

    def test_that_of_a_process_that_has_died_here_is_taken_over_at_once(
        self, here: Cluster, neighbour: subprocess.Popen[str]
    ) -> None:
        hold(here, token_of(neighbour))
        assert execution.tick(here.pk) == "busy", "it lives"
        neighbour.kill()
        neighbour.wait()
        assert execution.tick(here.pk) == "done"

    @pytest.mark.parametrize("hours", [1, -1])
    def test_the_clocks_of_hosts_need_not_agree(
        self, here: Cluster, monkeypatch: pytest.MonkeyPatch, hours: int
    ) -> None:
        """Whoever's clock is ahead takes no lease that is held, and holds none for longer.

        One whose clock is behind holds what it has taken.
        """
        now = timezone.now
        hold(here, "of another machine")
        monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(hours=hours))
        assert execution.tick(here.pk) == "busy"
        Cluster.objects.update(lease_until=None)
        with hold_lease(here):
            for renew in (None, leases.extend):
                if renew:
                    renew(here.pk, Cluster.objects.get().lease_token)
                until = Cluster.objects.get().lease_until
                assert until
                assert abs(until - now()) < timedelta(minutes=30)

    def test_a_zombie_is_dead(self, neighbour: subprocess.Popen[str]) -> None:
        token = token_of(neighbour)
        neighbour.kill()
        os.waitid(os.P_PID, neighbour.pid, os.WEXITED | os.WNOWAIT)  # it stays one
        assert holder.is_dead(token)


def test_seconds_after_a_death_it_is_free_and_some_lost_beats_do_not_matter() -> None:
    assert 4 * leases.BEAT_SECONDS <= LEASE.total_seconds() <= 20


class TestToken:
    def test_is_of_this_process_and_fits_the_column(self) -> None:
        tokens = {holder.make_token() for _ in range(100)}
        assert len(tokens) == 100
        assert {len(token) for token in tokens} == {
            Cluster._meta.get_field("lease_token").max_length
        }
        assert not any(map(holder.is_dead, tokens))

    def test_a_process_id_that_came_round_again_is_another_process(self) -> None:
        token = holder.make_token()
        earlier = f"{int(token[14:23], 16) - 1:09x}"
        assert holder.is_dead(token[:14] + earlier + token[23:])

    def test_nobody_here_can_tell_of_other_machines(self) -> None:
        token = holder.make_token()
        other = "0" * 8 if token[:8] != "0" * 8 else "1" * 8
        assert not holder.is_dead(other + token[8:14] + "0" * 9 + token[23:])

    @given(st.text(max_size=40))
    def test_odd_ones_are_nobodys(self, token: str) -> None:
        assert not holder.is_dead(token)

    def test_without_proc_chance_alone_decides(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        monkeypatch.setattr(holder, "PROC", tmp_path)
        token = holder.make_token()
        assert len(token) == 32
        assert not holder.is_dead(token)


@pytest.mark.django_db(transaction=True)
def test_the_heartbeat_keeps_it_for_as_long_as_the_visit_takes(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.01)
    extend, beaten = leases.extend, threading.Semaphore(0)

    def beat(cluster_pk: int, token: str) -> None:
        extend(cluster_pk, token)
        beaten.release()

    monkeypatch.setattr(leases, "extend", beat)
    with hold_lease(here) as held:
        assert held
        Cluster.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        for _ in range(2):  # the first one may have begun before
            assert beaten.acquire(timeout=60)
        here.refresh_from_db()
        assert here.lease_until
        assert here.lease_until > timezone.now()
        assert execution.tick(here.pk) == "busy"


@pytest.mark.django_db(transaction=True)
def test_the_heartbeat_does_not_take_back_what_was_lost(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold_lease(here) as held:
        assert held
        hold(here, "somebody else")
        before = Cluster.objects.get(pk=here.pk).lease_until
        leases.extend(here.pk, held.token)
        assert Cluster.objects.get(pk=here.pk).lease_until == before
        with pytest.raises(execution.LeaseLost):
            held.renew()
    assert Cluster.objects.get(pk=here.pk).lease_token == "somebody else"


@pytest.mark.django_db
def test_a_release_that_the_database_does_not_take_is_tried_again(here: Cluster) -> None:
    update, refused = QuerySet.update, 0

    def away(self: Any, **columns: Any) -> int:
        nonlocal refused
        if columns.get("lease_token") == "" and refused < 3:
            refused += 1
            raise OperationalError("the database system is starting up")
        return update(self, **columns)

    with (
        mock.patch.object(QuerySet, "update", away),
        mock.patch.object(leases, "RELEASE_AGAIN_SECONDS", 0),
        mock.patch.object(leases, "close_old_connections"),  # that of the test stays open
    ):
        assert execution.tick(here.pk) == "done"
    here.refresh_from_db()
    assert (here.lease_token, refused) == ("", 3)


def state_of_all() -> list[Any]:
    """All that a visit could have changed."""
    jobs = Job.objects.order_by("pk").values_list("state", "scheduler_id", "journal_offset")
    runs = Run.objects.order_by("pk").values_list("state", "ended_at")
    return [*jobs, *runs, Event.objects.count()]


@pytest.mark.django_db
@pytest.mark.parametrize("answers", range(1, 14))
def test_a_visit_that_has_lost_its_lease_changes_nothing_more(
    experiment: Make, tmp_path: Path, answers: int
) -> None:
    """Somebody takes over while the `answers`th command is under way, wherever that is."""
    gate = tmp_path / "gate"
    waits = f'until [ -e {gate} ]; do sleep 0.1; done; exec {sys.executable} "$@"'
    made = experiment(python=script(tmp_path, waits))
    job = made.jobs.get()
    run, asked, then = Local.run, 0, []

    def and_lose(self: Local, argv: Any, **options: Any) -> Any:
        nonlocal asked
        done = run(self, argv, **options)
        held = Cluster.objects.exclude(lease_token="").exists()
        asked += held and argv != ["true"]  # which is asked before any state moves
        if asked == answers and not then:
            hold(made.cluster, "somebody else")
            then.extend(state_of_all())
        assert asked <= answers, "nothing is asked any more"
        return done

    with mock.patch.object(Local, "run", and_lose):
        outcome = "done"
        while outcome == "done" and made.jobs.exclude(state__in=Job.FINAL).exists():
            outcome = execution.tick(made.cluster.pk)
            job.refresh_from_db()
            if job.state == Job.State.RUNNING:  # seen before it ends, however busy the machine is
                gate.touch()
    gate.touch()
    assert outcome == "lease lost"
    assert state_of_all() == then
    Cluster.objects.update(lease_token="", lease_until=None)
    finish(made)
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


@pytest.mark.django_db
def test_an_answer_of_the_cluster_is_a_contact(here: Cluster) -> None:
    with hold_lease(here) as held:
        assert held
        held.guard(Local()).run(["true"])
        here.refresh_from_db()
        assert here.last_seen_at
