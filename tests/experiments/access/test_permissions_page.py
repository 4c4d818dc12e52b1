"""docs/permissions.md says what the rules do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import models

from experiments.access import permissions
from experiments.access.permissions import MAKERS
from experiments.models import Cluster, Role, User
from tests import factories
from tests.factories import ClusterFactory, UserFactory

pytestmark = pytest.mark.django_db

PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"


def said() -> dict[str, list[str]]:
    """The first table: kind to what stands in the column of each role."""
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ")
    ]
    table = [row for row in rows if len(row) == 1 + len(Role)]
    assert table[0][1:] == [role.label for role in Role]
    return {row[0]: row[1:] for row in table[2:]}


def row_of(model: type[models.Model], **columns: Any) -> Any:
    return getattr(factories, f"{model.__name__}Factory")(**columns)


def own(model: type[models.Model], user: User) -> Any:
    names = {field.name for field in model._meta.get_fields()}
    if model is Cluster:
        return row_of(model, owner=user, transport="ssh")
    if "owner" in names:
        return row_of(model, owner=user)
    if model.__name__ == "StagedImage":
        return row_of(model, image__owner=user)
    return row_of(model, cluster__owner=user, cluster__transport="ssh")


def cell(role: Role, model: type[models.Model]) -> str:
    """What the table is to say, by asking the rules about rows."""
    user = UserFactory(role=role)
    if not permissions.may_add(user, model):
        return "–"
    if model in (User, Group):
        strange = UserFactory() if model is User else Group.objects.create(name=f"{role}")
        return "all" if permissions.may_change(user, strange) else "?"
    if permissions.may_change(user, row_of(model)):
        return "all"
    words = ["own"] if permissions.may_change(user, own(model, user)) else []
    names = {field.name for field in model._meta.get_fields()}
    if "groups" in names:
        group = Group.objects.create(name=f"{role} {model.__name__}")
        user.groups.add(group)
        shared = row_of(model, **({"transport": "ssh"} if model is Cluster else {}))
        shared.groups.add(group)
        words += ["their groups’"] if permissions.may_change(user, shared) else []
    if "cluster" in names and role == Role.CLUSTER_ADMINISTRATOR:
        there = ClusterFactory(owner=user, transport="ssh")
        columns = {"staged_image__cluster": there} if model.__name__ == "Operation" else {}
        on = row_of(model, **(columns or {"cluster": there}))
        words += ["on their clusters"] if permissions.may_change(user, on) else []
    return ", ".join(words)


@pytest.mark.parametrize("role", Role)
def test_the_page_says_who_changes_what(role: Role) -> None:
    table = said()
    column = list(Role).index(role)
    found = {str(model._meta.verbose_name_plural): cell(role, model) for model in MAKERS}
    assert {kind: cells[column] for kind, cells in table.items()} == found
