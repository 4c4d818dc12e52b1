"""The way to a cluster over its jump hosts: in order, once each, by one statement."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.clusters.cluster_drafts import require_usable_keys
from experiments.execution.connections import make_ssh_address
from experiments.models import Cluster, ClusterDraft, Role, User
from tests.factories import ClusterFactory, CredentialFactory, PartitionFactory, UserFactory

pytestmark = pytest.mark.django_db
COUNT = 30


@pytest.fixture
def person() -> User:
    made: User = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    return made


@pytest.fixture
def way(person: User) -> list[Cluster]:
    """Thirty jump hosts with a key each, and the cluster behind them."""
    made: list[Cluster] = []
    for number in range(COUNT + 1):
        made.append(
            ClusterFactory(
                owner=person,
                name=f"hop {number}",
                transport="ssh",
                host=f"h{number}.example",
                host_key="ssh-ed25519 A",
                credential=CredentialFactory(owner=person),
                jump_host=made[-1] if made else None,
            )
        )
    return made


def test_a_long_way_is_read_by_one_statement(
    way: list[Cluster], django_assert_num_queries: Any
) -> None:
    last = Cluster.objects.select_related("credential").get(pk=way[-1].pk)
    with django_assert_num_queries(1):
        hops = last.list_hops()
        assert hops == way
        assert hops[-1] is last
        assert [hop.credential for hop in hops] == [row.credential for row in way]
        assert [hop.jump_host for hop in hops] == [None, *way[:-1]]


def test_without_a_jump_host_nothing_is_read(django_assert_num_queries: Any) -> None:
    alone = ClusterFactory()
    with django_assert_num_queries(0):
        assert alone.list_hops() == [alone]


def test_a_circle_ends_where_it_began(way: list[Cluster], django_assert_num_queries: Any) -> None:
    Cluster.objects.filter(pk=way[0].pk).update(jump_host=way[4])
    for first, expected in (
        (way[4], [*way[:5]]),
        (way[6], [*way[:7]]),
    ):
        at = Cluster.objects.get(pk=first.pk)
        with django_assert_num_queries(1):
            assert at.list_hops() == expected
    Cluster.objects.filter(pk=way[0].pk).update(jump_host=way[0])
    assert Cluster.objects.get(pk=way[1].pk).list_hops() == way[:2]
    assert Cluster.objects.get(pk=way[0].pk).list_hops() == way[:1]


def test_a_cluster_that_is_not_stored_has_a_way(way: list[Cluster]) -> None:
    new = Cluster(name="new", jump_host=way[2])
    assert new.list_hops() == [*way[:3], new]


def count(act: Any) -> int:
    with CaptureQueriesContext(connection) as captured:
        act()
    return len(captured)


def test_pages_keys_and_connections_ask_as_often_for_thirty_jump_hosts_as_for_one(
    way: list[Cluster], person: User, client: Client
) -> None:
    client.force_login(person)
    for row in way:
        PartitionFactory(cluster=row)
    near, far = way[1], way[-1]
    drafts = [
        ClusterDraft.objects.create(
            owner=person,
            name=f"draft {row.pk}",
            host="new.example",
            jump_host=row,
            host_key="ssh-ed25519 A",
            credential=row.credential,
        )
        for row in (near, far)
    ]

    def connect(row: Cluster) -> None:
        make_ssh_address(Cluster.objects.select_related("credential").get(pk=row.pk))

    def open_page(name: str, pk: int) -> None:
        assert client.get(reverse(name, args=[pk])).status_code == 200

    for act, values in (
        (connect, (near, far)),
        (lambda row: require_usable_keys(person, row), (near, far)),
        (lambda row: open_page("cluster", row.pk), (near, far)),
        (lambda row: open_page("cluster_draft_test", row.pk), drafts),
        (lambda row: open_page("cluster_draft_credential", row.pk), drafts),
    ):
        act(values[0])  # what is asked once a process is not counted
        first, second = (count(partial(act, row)) for row in values)
        assert second == first
