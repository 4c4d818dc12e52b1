"""Which workers and clocks run, and what is said where one does not."""

from __future__ import annotations

import os
import socket
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from experiments.execution import holder, task_worker
from experiments.execution.holder import make_token
from experiments.execution.lease import LEASE
from experiments.health.cluster_visits import list_leased
from experiments.health.processes import (
    NEEDED,
    TASKS,
    find_missing,
    list_missing,
    list_processes,
    read_processes,
)
from experiments.health.service_problems import tell_how_to_start
from experiments.health.valkey import RQWorker
from experiments.models import ServiceSign
from tests.experiments.health.conftest import MakeSign
from tests.factories import ClusterFactory

pytestmark = pytest.mark.django_db


def read(**columns: object) -> list[str]:
    processes = list_processes(list(ServiceSign.objects.all()), timezone.now())
    return [process.state for process in processes]


def read_texts() -> list[str]:
    processes = list_processes(list(ServiceSign.objects.all()), timezone.now())
    return [process.state_text for process in processes]


def test_one_that_was_seen_lately_runs(sign: MakeSign) -> None:
    sign()
    assert read() == ["running"]


def test_one_that_ended_in_order_does_not_and_is_not_held_for_dead(sign: MakeSign) -> None:
    sign(ended_at=timezone.now())
    assert read() == ["ended"]


def test_one_that_fell_silent_is_late(sign: MakeSign) -> None:
    sign(seen_at=timezone.now() - timedelta(minutes=1))
    assert read() == ["late"]


def test_one_that_another_has_replaced_is_told_from_one_that_is_missing(sign: MakeSign) -> None:
    now = timezone.now()
    sign(seen_at=now - timedelta(minutes=9), started_at=now - timedelta(hours=2))
    assert read_texts() == ["silent"]
    sign(queue="bulk", started_at=now - timedelta(minutes=1))
    assert read_texts() == ["running", "silent"], "of another queue"
    sign(started_at=now - timedelta(hours=1))
    assert read_texts() == ["running", "running", "silent"], "it ran beside it"
    sign(started_at=now - timedelta(minutes=8))
    assert read_texts()[-1] == "silent, replaced"


def test_one_of_this_machine_that_died_is_known_at_once(
    sign: MakeSign, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen(["sleep", "99"])
    monkeypatch.setattr(os, "getpid", lambda: child.pid)
    token = make_token()  # as the child makes it
    monkeypatch.undo()
    child.kill()
    child.wait()
    assert holder.is_dead(token)
    sign(token=token)
    assert read() == ["lost"]


@pytest.mark.parametrize(
    ("ahead", "state"), [(timedelta(seconds=3), "running"), (timedelta(hours=3), "late")]
)
def test_a_sign_of_the_future_is_as_old_as_it_is_far(
    ahead: timedelta, state: str, sign: MakeSign
) -> None:
    """A clock was set back: whoever lives writes the new time within seconds."""
    sign(seen_at=timezone.now() + ahead)
    assert read() == [state]


def test_says_which_clusters_a_process_visits(sign: MakeSign) -> None:
    mine, other = sign(), sign(token="0" * 32)
    held = timezone.now() + LEASE
    cluster = ClusterFactory(name="near", lease_token=make_token(), lease_until=held)
    ClusterFactory(lease_token=make_token(), lease_until=timezone.now() - LEASE)  # has expired
    record = RQWorker(mine.host, mine.pid, task="tick", key=cluster.pk)
    now = timezone.now()
    processes = list_processes(
        [mine, other], now, leased=list_leased(), workers={(mine.host, mine.pid): record}
    )
    by_token = {process.sign.token: process for process in processes}
    assert by_token[mine.token].visiting == (cluster,)
    assert by_token[mine.token].doing == "", "it is said already"
    assert by_token[other.token].visiting == ()


def test_every_task_has_words() -> None:
    assert {name.rpartition(".")[2] for name in task_worker.TASKS} == set(TASKS)


def test_nothing_is_missing_where_all_runs(all_run: None) -> None:
    processes = list_processes(list(ServiceSign.objects.all()), timezone.now())
    assert list_missing(processes) == []


def test_what_is_missing_is_said_with_what_follows_and_how_to_start_it(sign: MakeSign) -> None:
    seen = timezone.now() - timedelta(hours=2)
    sign("worker", "default", seen_at=seen, host="far", pid=77)
    sign("worker", "default", seen_at=seen - timedelta(days=1), ended_at=seen)
    processes = list_processes(list(ServiceSign.objects.all()), timezone.now())
    worker, bulk, clock = list_missing(processes)
    assert (worker.title, worker.since) == ("No worker runs", seen)
    assert "Nothing is submitted, followed or collected" in worker.consequence
    assert "manage.py worker" in worker.advice
    assert worker.details == "Process 77 on far has fallen silent."
    assert (bulk.since, bulk.details) == (None, ""), "it was never seen"
    assert (clock.title, clock.is_essential) == ("No clock runs", True)


def test_each_advice_names_a_service_of_compose_and_the_command_that_it_runs() -> None:
    compose = Path("docker-compose.yml").read_text()
    for needed in NEEDED.values():
        _, _, section = compose.partition(f"\n  {needed.compose_service}:\n")
        words = ", ".join(f'"{word}"' for word in ("python", "manage.py", *needed.command.split()))
        assert f"command: [{words}]" in section.partition("\n\n")[0]


def test_under_a_supervisor_nobody_is_told_to_start_anything(settings: Settings) -> None:
    assert tell_how_to_start("clock", "clock") == (
        "Start it: docker compose up -d clock, or manage.py clock."
    )
    settings.SUPERVISOR_FILE = "/var/services.json"
    assert tell_how_to_start("clock", "clock") == (
        "make demo starts it again: within seconds if it has ended, after a minute if it does "
        "nothing any more. Its terminal says which."
    )


def test_a_container_asks_about_its_own_processes_only(sign: MakeSign) -> None:
    sign("worker", "default", host="elsewhere")
    processes = list_processes(list(ServiceSign.objects.all()), timezone.now())
    what = {"service": "worker", "queue": "default"}
    assert find_missing(processes, **what) is None
    assert find_missing(processes, **what, host=socket.gethostname()) is not None


def test_a_lease_of_chance_belongs_to_nobody() -> None:
    """Where the system does not tell which process made a token, none is taken for it."""
    assert not holder.is_same_process("", "")
    assert not holder.is_same_process("abc", "abc")


def test_those_that_run_keep_their_places_and_the_others_come_last_newest_first(
    sign: MakeSign,
) -> None:
    now = timezone.now()
    for seconds, host in ((3, "a"), (1, "c"), (2, "b")):
        sign(host=host, seen_at=now - timedelta(seconds=seconds))
    for hours in (2, 1, 3):
        sign(host=f"{hours} h ago", seen_at=now - timedelta(hours=hours))
    hosts = [process.sign.host for process in read_processes()]
    assert hosts == ["a", "b", "c", "1 h ago", "2 h ago", "3 h ago"]
