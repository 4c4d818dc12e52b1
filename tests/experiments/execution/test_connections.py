"""Whose turn a cluster is, and what a visit makes of the first answer that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, BinaryIO

import pytest

from experiments.execution import connections
from experiments.execution.connections import connect, find_visitor
from experiments.execution.holder import make_token
from experiments.models import Cluster
from experiments.models.database_time import database_now
from runners.errors import Refused, TryAgain
from runners.transports import Completed, Transport
from tests.factories import ClusterFactory, JobFactory, OperationFactory

pytestmark = pytest.mark.django_db


class Scripted(Transport):
    """Gives one answer after the other to `true`."""

    label = "scripted"

    def __init__(self, *answers: bytes | Exception, is_open: bool = False) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[str]] = []
        self.opened = is_open
        self.closed = 0

    @property
    def is_open(self) -> bool:
        return self.opened

    def close(self) -> None:
        self.closed += 1
        self.opened = False

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30,
        stdin: bytes | BinaryIO = b"",
        stdout: BinaryIO | None = None,
    ) -> Completed:
        self.asked.append(argv)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Completed(0, answer, b"")


@pytest.fixture
def cluster() -> Cluster:
    made: Cluster = ClusterFactory(scheduler="slurm")
    return made


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> Any:
    """Visit the cluster over a transport; `inside` happens during the visit."""

    def run(transport: Transport, inside: Any = lambda runner: None) -> None:
        monkeypatch.setattr(connections, "_transport_to", lambda cluster: transport)
        with connect(cluster) as runner:
            inside(runner)

    return run


@pytest.mark.parametrize(
    ("poll_seconds", "seconds", "is_kept"),
    [
        (1, 14, True),
        (1, 16, False),
        (10, 29, True),
        (10, 31, False),
        (60, 59, True),
        (60, 61, False),
    ],
)
def test_a_cluster_is_left_to_who_visited_it_lately(
    poll_seconds: int, seconds: int, is_kept: bool
) -> None:
    other = make_token()
    last = database_now() - timedelta(seconds=seconds)
    row = ClusterFactory(visitor=other, last_tick_at=last, poll_seconds=poll_seconds)
    assert find_visitor(row.pk) == (other if is_kept else "")


def test_nobody_visits_what_was_never_visited_or_is_gone() -> None:
    assert find_visitor(ClusterFactory(visitor=make_token()).pk) == ""
    assert find_visitor(ClusterFactory(last_tick_at=database_now()).pk) == ""
    assert find_visitor(0) == ""
    ahead = database_now() + timedelta(hours=1)
    assert find_visitor(ClusterFactory(visitor=make_token(), last_tick_at=ahead).pk) == ""


def test_a_visit_has_the_clusters_scheduler_and_closes_what_nobody_needs(visit: Any) -> None:
    transport = Scripted(b" \n")
    seen: list[str] = []
    visit(transport, lambda runner: seen.append(type(runner.scheduler).__name__))
    assert seen == ["Slurm"]
    assert (transport.asked, transport.closed) == ([["true"]], 1)


@pytest.mark.parametrize("make", [JobFactory, OperationFactory])
def test_a_connection_is_kept_while_something_is_live_there(
    make: Any, visit: Any, cluster: Cluster
) -> None:
    if make is JobFactory:
        row = make(experiment__cluster=cluster, state="queued")
    else:
        row = make(staged_image__cluster=cluster, state="queued")
    for state, closed in (("queued", 0), ("collecting", 0), ("planned", 1), ("done", 1)):
        type(row).objects.update(state=state)
        transport = Scripted(b"")
        visit(transport)
        assert transport.closed == closed, state
    type(row).objects.update(state="running", cluster=ClusterFactory())
    transport = Scripted(b"")
    visit(transport)
    assert transport.closed == 1, "that is another cluster's"


def test_a_kept_connection_that_has_broken_is_opened_anew(visit: Any) -> None:
    transport = Scripted(TryAgain("broken pipe", kind="unreachable"), b"", is_open=True)
    visit(transport)
    assert transport.asked == [["true"]] * 2
    whole = Scripted(b"", is_open=True)
    visit(whole)
    assert whole.asked == [["true"]]


def test_only_the_word_of_a_new_connection_counts(visit: Any) -> None:
    away = Scripted(TryAgain("no route", kind="unreachable"), is_open=False)
    with pytest.raises(TryAgain, match="no route"):
        visit(away)
    assert away.closed == 2, "once for the failure, once as nothing is live"
    assert away.asked == [["true"]]


def test_a_login_that_prints_is_told_what_to_change(visit: Any) -> None:
    with pytest.raises(TryAgain) as caught:
        visit(Scripted(b"Welcome\x00 " + b"x" * 500))
    assert caught.value.kind == "busy"
    text = str(caught.value)
    assert text.startswith("The account's start-up files print something before every command")
    assert "They print: Welcome" in text
    assert text.endswith("x" * 50)
    assert len(text) == len(connections.NOISY) + 1 + 300
    with pytest.raises(TryAgain, match="They print: more than"):
        visit(Scripted(Refused("more than 1 MiB")))


def test_a_visit_that_breaks_off_closes_its_connection(visit: Any, cluster: Cluster) -> None:
    JobFactory(experiment__cluster=cluster, state="running")

    def fail(runner: object) -> None:
        raise TryAgain("gone", kind="unreachable")

    transport = Scripted(b"")
    with pytest.raises(TryAgain, match="gone"):
        visit(transport, fail)
    assert transport.closed == 1
