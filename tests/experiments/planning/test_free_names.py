"""Names that are taken get a number, also where somebody else takes them in the meantime."""

from __future__ import annotations

from threading import Thread

import pytest
from django.db import connection

from experiments.models import Workload
from experiments.planning.free_names import add_number, find_free_name, save_under_free_name
from tests.factories import ClusterFactory, EnvironmentFactory, UserFactory, WorkloadFactory


def test_a_number_never_makes_a_name_too_long() -> None:
    assert add_number("cnn", {"cnn", "cnn (2)"}) == "cnn (3)"
    assert add_number("x" * 130, set()) == "x" * 100
    taken = {"x" * 100, *("x" * 96 + f" ({number})" for number in range(2, 10))}
    assert add_number("x" * 130, taken) == "x" * 95 + " (10)"


@pytest.mark.django_db
def test_only_rows_that_are_named_count() -> None:
    here, there = ClusterFactory(), ClusterFactory()
    EnvironmentFactory(cluster=here, name="bare")
    assert find_free_name("bare", among=here.environments.all()) == "bare (2)"
    assert find_free_name("bare", among=there.environments.all()) == "bare"
    assert find_free_name("bare", ["bare"], among=there.environments.all()) == "bare (2)"


@pytest.mark.django_db(transaction=True)
def test_a_name_that_is_taken_meanwhile_gets_a_number() -> None:
    owner = UserFactory()
    row = WorkloadFactory.build(name="cnn", owner=owner)
    others = [WorkloadFactory.build(name=name, owner=owner) for name in ("cnn (2)", "cnn")]

    def take(other: Workload) -> None:
        other.save()
        connection.close()

    def save() -> None:
        if others:
            thread = Thread(target=take, args=(others.pop(),))
            thread.start()
            thread.join()
        row.save()

    save_under_free_name(row, save, among=Workload.objects.all())
    assert row.name == "cnn (3)"
    assert set(Workload.objects.values_list("name", flat=True)) == {"cnn", "cnn (2)", "cnn (3)"}
