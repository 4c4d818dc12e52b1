"""A queryset whose SQL is made once gives the rows that it would give otherwise."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

from experiments.models import Cluster, Experiment, Operation, Role, User
from experiments.models.compiled_rows import (
    KEY,
    OTHER_KEY,
    TEXT,
    CompiledReaderRows,
    CompiledRows,
    select_json,
)
from tests.factories import ExperimentFactory, OperationFactory, UserFactory

pytestmark = pytest.mark.django_db


def select_operation(pk: int, state: str) -> models.QuerySet[Operation]:
    rows = Operation.objects.filter(pk=pk, state=state).select_related("cluster", "owner", "image")
    return rows.defer("script").annotate(pair=select_json("'[1, 2]'::jsonb"))


def test_rows_are_those_of_the_queryset_for_these_values() -> None:
    compiled = CompiledRows(select_operation, KEY, TEXT)
    first, second = OperationFactory(state="running"), OperationFactory(state="queued")
    for row, state in ((first, "running"), (second, "queued"), (first, "running")):
        with CaptureQueriesContext(connection) as queries:
            found: Any = compiled.find(row.pk, state)
            assert (found, found.cluster, found.owner) == (row, row.cluster, row.owner)
            assert (found.image, found.pair, found.partition) == (row.image, [1, 2], None)
        assert len(queries) == 1
        assert found.get_deferred_fields() == {"script"}
    assert compiled.find(first.pk, "queued") is None
    assert compiled.read(first.pk, "' OR true --") == []


def test_the_queryset_is_made_once() -> None:
    calls = []

    def select(pk: int) -> models.QuerySet[User]:
        calls.append(pk)
        return User.objects.filter(pk=pk)

    compiled, people = CompiledRows(select, KEY), [UserFactory() for _ in range(3)]
    assert [compiled.find(person.pk) for person in people] == people
    assert len(calls) == 1


def test_rows_of_one_question_are_not_those_of_the_next() -> None:
    compiled = CompiledRows(lambda pk: User.objects.filter(pk=pk), KEY)
    person = UserFactory(username="before")
    before = compiled.find(person.pk)
    User.objects.filter(pk=person.pk).update(username="after")
    after = compiled.find(person.pk)
    assert before
    assert after
    assert (before.username, after.username) == ("before", "after")


def test_several_rows_come_with_what_is_prefetched() -> None:
    operation = OperationFactory()
    compiled = CompiledRows(
        lambda one, other: (
            Cluster.objects.filter(pk__in=[one, other])
            .order_by("pk")
            .prefetch_related(models.Prefetch("operations", Operation.objects.only("cluster")))
        ),
        KEY,
        OTHER_KEY,
    )
    cluster, other = operation.cluster, ExperimentFactory().cluster
    rows = compiled.read(cluster.pk, other.pk)
    assert rows == sorted([cluster, other], key=lambda row: row.pk)
    with CaptureQueriesContext(connection) as queries:
        assert [list(row.operations.all()) for row in rows if row == cluster] == [[operation]]
    assert not queries.captured_queries
    further = OperationFactory(staged_image=operation.staged_image, state="done")
    again = {row: {*row.operations.all()} for row in compiled.read(cluster.pk, other.pk)}
    assert again == {cluster: {operation, further}, other: set()}, "nothing is remembered"


def test_a_sign_without_a_place_is_refused() -> None:
    compiled = CompiledRows(lambda pk: User.objects.all(), KEY)
    with pytest.raises(ValueError, match="has no place"):
        compiled.read(1)


@pytest.mark.django_db(transaction=True)
def test_another_thread_asks_by_its_own_connection() -> None:
    compiled = CompiledRows(lambda pk: User.objects.filter(pk=pk), KEY)
    person, found = UserFactory(), list[Any]()
    assert compiled.find(person.pk) == person

    def ask() -> None:
        found.append(compiled.find(person.pk))
        connection.close()

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [person]


@pytest.mark.parametrize("role", Role)
def test_readers_get_what_they_may_view(role: Role) -> None:
    compiled = CompiledReaderRows(
        lambda reader: Experiment.objects.visible_to(reader).select_related("cluster")
    )
    for visibility in ("private", "members", "public"):
        ExperimentFactory(visibility=visibility)
    reader = UserFactory(role=role)
    ExperimentFactory(visibility="private", owner=reader)
    for person in (reader, UserFactory(), UserFactory(role=role)):
        assert {*compiled.read(person)} == {*Experiment.objects.visible_to(person)}
    clusters = CompiledReaderRows(lambda reader: Cluster.objects.visible_to(reader))
    assert {*clusters.read(reader)} == {*Cluster.objects.visible_to(reader)}
