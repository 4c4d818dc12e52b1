"""What is shared with a group shows to its people, and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import Count

from experiments.access import permissions
from experiments.execution import lifecycle
from experiments.models import Cluster, Credential, Environment, Experiment, Role, User
from experiments.models.visibility import MEMBER
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    PublishedTableFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

SHARED = (
    ClusterFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    PublishedTableFactory,
    WorkloadFactory,
)


@pytest.fixture
def group() -> Group:
    return Group.objects.create(name="neurophysics")


@pytest.fixture
def colleague(group: Group) -> User:
    user: User = UserFactory()
    user.groups.add(group, Group.objects.create(name="chess"))
    return user


def readers(row: Any, people: list[Any]) -> list[bool]:
    rows = type(row).objects
    return [rows.visible_to(one).filter(pk=row.pk).exists() for one in people]


@pytest.mark.parametrize("factory", SHARED)
def test_a_group_reads_what_is_shared_with_it(factory: Any, group: Group, colleague: User) -> None:
    row = factory(visibility="groups")
    viewer = UserFactory(role=Role.VIEWER)
    viewer.groups.add(group)
    administrator = UserFactory(role=Role.SITE_ADMINISTRATOR)
    people = [row.owner, colleague, viewer, UserFactory(), administrator]
    assert readers(row, people) == [True, False, False, False, True]
    row.groups.add(group)
    assert readers(row, people) == [True, True, True, False, True]
    assert row.visibility_text == "group neurophysics"
    for visibility, strangers in (("private", False), ("members", True)):
        type(row).objects.update(visibility=visibility)
        assert readers(row, people)[1:4] == [strangers] * 3
    assert readers(row, [AnonymousUser()]) == [False]


@pytest.mark.parametrize("factory", SHARED)
def test_a_row_shared_with_many_groups_is_counted_once(factory: Any, colleague: User) -> None:
    row = factory(visibility="groups")
    row.groups.set(colleague.groups.all())
    model = type(row)
    found = model.objects.visible_to(colleague).annotate(named=Count("groups"))
    assert [one.named for one in found if one.pk == row.pk] == [2]


def test_who_shares_a_cluster_as_an_administrator_changes_it(group: Group, colleague: User) -> None:
    cluster = ClusterFactory(transport="ssh", visibility="members")
    environment = EnvironmentFactory(cluster=cluster)
    cluster.groups.add(group)
    assert not permissions.may_change(colleague, cluster)
    colleague.role = Role.CLUSTER_ADMINISTRATOR
    colleague.save()
    assert permissions.may_change(colleague, cluster)
    assert permissions.may_change(colleague, environment)
    assert permissions.list_changeable_keys(colleague, [environment]) == {environment.pk}
    stranger = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    assert not permissions.may_change(stranger, cluster)
    Cluster.objects.update(visibility="private")
    assert not permissions.may_change(colleague, cluster)


def test_a_key_is_changed_by_administrators_of_its_groups(group: Group, colleague: User) -> None:
    credential = CredentialFactory()
    credential.groups.add(group)
    assert permissions.may_use(colleague, credential)
    assert not permissions.may_change(colleague, credential)
    colleague.role = Role.CLUSTER_ADMINISTRATOR
    colleague.save()
    assert permissions.may_change(colleague, credential)


def test_sharing_a_cluster_gives_its_key_to_nobody(group: Group, colleague: User) -> None:
    cluster = ClusterFactory(
        visibility="groups", transport="ssh", host="x", credential=CredentialFactory()
    )
    cluster.groups.add(group)
    assert readers(cluster, [colleague]) == [True]
    assert not permissions.may_use(colleague, cluster)
    Credential.objects.get().groups.add(group)
    assert permissions.may_use(colleague, cluster)
    Cluster.objects.update(visibility="private")
    assert not permissions.may_use(colleague, cluster)


def test_an_environment_hides_with_its_cluster(colleague: User) -> None:
    environment = EnvironmentFactory(visibility="members")
    assert readers(environment, [colleague]) == [True]
    Cluster.objects.filter(pk=environment.cluster_id).update(visibility="private")
    assert readers(environment, [colleague]) == [False]


def test_nobody_launches_with_what_is_not_theirs_to_use(colleague: User) -> None:
    draft = ExperimentFactory(owner=colleague)
    Environment.objects.exclude(pk=draft.baseline_id).update(visibility="private")
    workload = draft.workloads.get()
    type(workload).objects.update(visibility="private")
    with pytest.raises(lifecycle.NotLaunchable) as refusal:
        lifecycle.launch(draft, colleague)
    assert f"The workload {workload} is not yours to use." in str(refusal.value)
    assert set(refusal.value.messages) == {"workloads", "environments"}
    assert Experiment.objects.get().is_draft


def test_a_group_is_offered_by_those_who_are_in_it(group: Group, colleague: User) -> None:
    other = Group.objects.create(name="other")
    row = ExperimentFactory(owner=colleague)
    names = {one.name for one in permissions.list_groups_to_share_with(colleague, row)}
    assert names == {"neurophysics", "chess"}
    row.groups.add(other)  # by a site administrator
    names = {one.name for one in permissions.list_groups_to_share_with(colleague, row)}
    assert names == {"neurophysics", "chess", "other"}
    everybody = permissions.list_groups_to_share_with(
        UserFactory(role=Role.SITE_ADMINISTRATOR), row
    )
    assert len(everybody) == 3


@pytest.mark.parametrize("factory", SHARED)
def test_the_rule_that_one_person_asked_for_is_not_anothers(factory: Any) -> None:
    """Rules are compiled once a process: only the key of the one who asks may differ."""
    row, other = factory(visibility="private"), factory(visibility="private")
    model = type(row)
    for first, second in ((row, other), (other, row)):
        assert first in model.objects.visible_to(first.owner)
        assert second not in model.objects.visible_to(first.owner)


def test_a_rule_within_rules_is_compiled_once() -> None:
    cluster = ClusterFactory(visibility="members")
    person = UserFactory()
    rows = Environment.objects.filter(cluster=cluster)
    first = str(rows.visible_to(person).query)
    assert str(rows.visible_to(person).query) == first
    assert str(MEMBER) not in first
