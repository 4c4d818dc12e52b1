"""What a row says itself of who may view it is what the rule of its model says."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.access.visitors import Visitor
from experiments.access.permissions import filter_changeable, may_change
from experiments.access.viewing import is_plainly_visible, list_shown, may_view
from experiments.models import Cluster, Credential, Operation, Role
from experiments.models.visibility import Visibility
from tests.factories import (
    ClusterFactory,
    CodeCopyFactory,
    CredentialFactory,
    DataCopyFactory,
    DataSetFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    ImageImportFactory,
    OperationFactory,
    PublishedTableFactory,
    StagedImageFactory,
    StudyFactory,
    UserFactory,
    WorkloadFactory,
    link_to,
)

pytestmark = pytest.mark.django_db

INSIDE = [value for value in Visibility.values if value != Visibility.PUBLIC]
SUBJECTS = ("image", "staged", "import", "empty import", "environment", "both", "data", "code", "")
DRAWS = 12


class World:
    """People in all roles and ways to have rights, and rows that one of them owns."""

    def __init__(self) -> None:
        self.draw = random.Random(13)
        self.owner = UserFactory()
        self.group = Group.objects.create(name="neurophysics")
        member = UserFactory()
        member.groups.add(self.group)
        self.people = [self.owner, member, *(UserFactory(role=role) for role in Role)]

    def make(self, factory: Any, choices: list[str], **columns: Any) -> Any:
        """Make a row of one's own, with any visibility, for the group or not."""
        row = factory(
            owner=self.draw.choice(self.people[:3]),
            visibility=self.draw.choice(choices),
            **columns,
        )
        if self.draw.random() < 0.5:
            row.groups.add(self.group)
        return row

    def make_cluster(self) -> Cluster:
        is_recorded = self.draw.random() < 0.3
        columns = {"recorded": True, "enabled": False} if is_recorded else {}
        cluster: Cluster = self.make(ClusterFactory, INSIDE, **columns)
        if is_recorded and self.draw.random() < 0.5:  # somebody's experiment came with its logs
            self.make(ExperimentFactory, INSIDE, cluster=cluster)
        return cluster

    def make_environment(self, cluster: Cluster) -> Any:
        row = self.make(EnvironmentFactory, INSIDE, cluster=cluster)
        if self.draw.random() < 0.3:
            return EnvironmentFactory(
                cluster=cluster, copy_of=row, owner=row.owner, name=f"{row.name} again"
            )
        return row

    def make_operation(self) -> Operation:
        cluster, subject = self.make_cluster(), self.draw.choice(SUBJECTS)
        image = self.make(ImageFactory, INSIDE)
        named: dict[str, Any] = {"staged_image": None, "image": None}
        match subject:
            case "image":
                named["image"] = image
            case "staged":
                named["staged_image"] = StagedImageFactory(image=image, cluster=cluster)
            case "import":
                named["image_import"] = ImageImportFactory(image=image)
            case "empty import":
                named["image_import"] = ImageImportFactory()
            case "environment":
                named["environment"] = self.make_environment(cluster)
            case "both":
                named |= {"environment": self.make_environment(cluster), "image": image}
            case "data":
                data_set = self.make(DataSetFactory, INSIDE)
                named["data_copy"] = DataCopyFactory(cluster=cluster, data_set=data_set)
            case "code":
                named["code_copy"] = CodeCopyFactory(cluster=cluster)
        kind = self.draw.choice([kind for kind in Operation.Kind if subject or kind == "clean_up"])
        owner = self.draw.choice(self.people[:3])
        row: Operation = OperationFactory(cluster=cluster, owner=owner, kind=kind, **named)
        return row

    def make_rows(self) -> list[Any]:
        cluster = self.make_cluster()
        return [
            cluster,
            self.make_environment(cluster),
            *(self.make_operation() for _ in range(3)),
            self.make(ExperimentFactory, Visibility.values, cluster=cluster),
            *(self.make(factory, INSIDE) for factory in (ImageFactory, StudyFactory)),
            *(self.make(factory, INSIDE) for factory in (DataSetFactory, WorkloadFactory)),
            self.make(PublishedTableFactory, Visibility.values),
        ]


def test_a_row_says_of_itself_what_its_rule_says() -> None:
    answers = set()
    world = World()
    for _ in range(DRAWS):
        for row in world.make_rows():
            fresh = type(row)._default_manager.get(pk=row.pk)
            visitors = () if isinstance(row, Operation) else (AnonymousUser(),)
            for reader in (*world.people, *visitors):
                rule = type(row)._default_manager.visible_to(reader)
                is_shown = rule.filter(pk=row.pk).exists()
                assert may_view(reader, fresh) == is_shown, (row, reader)
                assert is_shown or not is_plainly_visible(reader, fresh), (row, reader)
                answers.add((type(row), is_shown, is_plainly_visible(reader, fresh)))
    of_operations = {answer[1:] for answer in answers if answer[0] is Operation}
    assert of_operations == {(True, True), (True, False), (False, False)}, "all cases were met"


def test_a_list_is_left_with_what_each_row_would_be_left_with() -> None:
    world = World()
    rows = [world.make_cluster() for _ in range(12)]
    for reader in (*world.people, AnonymousUser()):
        shown = [row for row in rows if may_view(reader, row)]
        with CaptureQueriesContext(connection) as queries:
            assert list_shown(reader, rows) == shown
        assert len(queries) <= 1
    assert list_shown(world.owner, []) == []


def test_a_link_opens_its_experiment_and_no_other() -> None:
    shared, other = (ExperimentFactory(visibility="public") for _ in range(2))
    link_to(shared)
    visitor = Visitor([shared.links.get().pk])
    assert may_view(visitor, shared)
    assert not may_view(visitor, other)
    assert not is_plainly_visible(visitor, shared), "links end: they are looked up each time"
    shared.links.update(withdrawn_at="2026-01-01T00:00Z")
    assert not may_view(visitor, shared)


def test_what_is_open_to_members_takes_no_statement() -> None:
    reader = UserFactory()
    rows = [ExperimentFactory(), ImageFactory(), OperationFactory()]
    for row in rows:
        assert row.owner_id != reader.pk
        with CaptureQueriesContext(connection) as queries:
            assert may_view(reader, row)
        assert not queries.captured_queries


@pytest.mark.parametrize(
    "factory", [CredentialFactory, DataCopyFactory, EnvironmentFactory, OperationFactory]
)
@pytest.mark.parametrize("role", Role)
def test_who_may_change_a_row_is_the_same_for_one_and_for_a_list(factory: Any, role: Role) -> None:
    row = factory()
    for person in (UserFactory(role=role), row.owner):
        type(person).objects.filter(pk=person.pk).update(
            role=role,
            is_superuser=role == Role.SITE_ADMINISTRATOR,
            is_staff=role in ("cluster_administrator", "site_administrator"),
        )
        person.refresh_from_db()
        changeable = filter_changeable(person, type(row)._default_manager.filter(pk=row.pk))
        assert may_change(person, row) == changeable.exists(), person


def test_the_owner_of_a_credential_needs_the_role() -> None:
    owner = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    row: Credential = CredentialFactory(owner=owner)
    with CaptureQueriesContext(connection) as queries:
        assert may_change(owner, row)
    assert not queries.captured_queries
    owner.role = Role.RESEARCHER
    assert not may_change(owner, row)
