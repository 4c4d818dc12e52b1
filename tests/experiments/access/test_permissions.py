"""Who may do what: every role, asked about everything."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.db import IntegrityError, transaction

from experiments.access import permissions
from experiments.clusters import preflights
from experiments.execution import lifecycle
from experiments.images import image_imports, staging
from experiments.images.staging import NotDone
from experiments.models import (
    Cluster,
    Credential,
    Environment,
    Event,
    Experiment,
    Image,
    PublishedTable,
    Role,
    StagedImage,
    User,
    Workload,
)
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    PartitionFactory,
    StagedImageFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

FOR_RESEARCHERS = (Experiment, PublishedTable, Workload, Environment, Image, StagedImage)
FOR_CLUSTER_ADMINISTRATORS = (Cluster, Credential)
FOR_SITE_ADMINISTRATORS = (User, Group)


@pytest.mark.parametrize(
    ("role", "models"),
    [
        (Role.VIEWER, ()),
        (Role.RESEARCHER, FOR_RESEARCHERS),
        (Role.CLUSTER_ADMINISTRATOR, FOR_RESEARCHERS + FOR_CLUSTER_ADMINISTRATORS),
        (
            Role.SITE_ADMINISTRATOR,
            FOR_RESEARCHERS + FOR_CLUSTER_ADMINISTRATORS + FOR_SITE_ADMINISTRATORS,
        ),
    ],
)
def test_a_role_adds_what_it_may(role: Role, models: tuple[Any, ...]) -> None:
    user = UserFactory(role=role)
    everything = {*FOR_RESEARCHERS, *FOR_CLUSTER_ADMINISTRATORS, *FOR_SITE_ADMINISTRATORS, Event}
    assert {model for model in everything if permissions.may_add(user, model)} == set(models)


def test_a_refusal_says_which_role_is_needed() -> None:
    words = permissions.why_not_add(UserFactory(role=Role.VIEWER), Experiment)
    assert words == (
        "To add an experiment you must be a researcher; you are a viewer. "
        "A site administrator sets roles."
    )
    assert "log in as a cluster administrator" in permissions.why_not_add(AnonymousUser(), Cluster)
    assert permissions.why_not_add(UserFactory(), Event) == "Events are written by Tare alone."


def test_what_is_mine_is_mine_while_my_role_makes_such_things() -> None:
    owner = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    cluster = ClusterFactory(owner=owner, transport="ssh")
    partition = PartitionFactory(cluster=cluster)
    assert permissions.may_change(owner, cluster)
    assert permissions.may_change(owner, partition)
    stranger = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    assert not permissions.may_change(stranger, cluster)
    assert not permissions.may_change(stranger, partition)
    assert str(owner) in permissions.why_not_change(stranger, cluster)
    assert permissions.may_change(UserFactory(role=Role.SITE_ADMINISTRATOR), cluster)
    owner.role = Role.RESEARCHER
    owner.save()
    assert not permissions.may_change(owner, cluster)


def test_this_machine_is_changed_by_site_administrators_alone() -> None:
    owner = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    here = ClusterFactory(owner=owner, transport="local")
    assert not permissions.may_change(owner, here)
    assert "It runs as Tare itself" in permissions.why_not_change(owner, here)
    assert permissions.may_change(UserFactory(role=Role.SITE_ADMINISTRATOR), here)


def test_who_administers_a_cluster_administers_what_lies_there() -> None:
    owner = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    cluster = ClusterFactory(owner=owner, transport="ssh")
    for row in (EnvironmentFactory(cluster=cluster), StagedImageFactory(cluster=cluster)):
        assert permissions.may_change(owner, row)
        maker = row.owner if isinstance(row, Environment) else row.image.owner
        assert permissions.may_change(maker, row)
        assert not permissions.may_change(UserFactory(), row)


@pytest.mark.parametrize("role", Role)
def test_one_row_has_the_answer_of_a_list(role: Role) -> None:
    owner, other = UserFactory(role=role), UserFactory(role=role)
    cluster = ClusterFactory(owner=owner, transport="ssh")
    rows = (
        cluster,
        ClusterFactory(owner=owner, transport="local"),
        PartitionFactory(cluster=cluster),
        CredentialFactory(owner=owner),
        EnvironmentFactory(cluster=cluster, owner=owner),
        ExperimentFactory(owner=owner),
        ImageFactory(owner=owner),
        StagedImageFactory(image=ImageFactory(owner=owner), cluster=cluster),
        WorkloadFactory(owner=owner),
        other,
    )
    for row in rows:
        for user in (owner, other, AnonymousUser()):
            of_a_list = permissions.list_changeable_keys(user, [row])
            assert permissions.may_change(user, row) == bool(of_a_list), (user, row)


def everything_sent(by: User, cluster: Cluster) -> dict[str, str]:
    """What stands against each thing by which somebody has `cluster` run something; "" if none."""
    image = ImageFactory(owner=by)
    environment = EnvironmentFactory(cluster=cluster, owner=by)
    draft = ExperimentFactory(
        owner=by, cluster=cluster, baseline=environment, environments=[environment], scales=["1x0"]
    )
    lifecycle_words = []
    try:
        lifecycle.launch(draft, by)
    except lifecycle.NotLaunchable as problem:
        lifecycle_words = [str(problem)]
    asked = {"launch": " ".join(lifecycle_words)}
    for name, verb in {
        "stage": lambda: staging.stage(image, cluster, "sif", by),
        "verify": lambda: staging.verify(StagedImageFactory(image=image, cluster=cluster), by),
        "fetch": lambda: image_imports.request_from_cluster(cluster, "/etc/passwd", by),
    }.items():
        try:
            verb()
        except NotDone as problem:
            asked[name] = str(problem)
    asked["check"] = preflights.why_not_check(cluster, by)
    asked["furnish"] = "" if cluster in permissions.list_clusters_to_furnish(by) else "not offered"
    asked["use"] = permissions.why_not_use(by, cluster)
    return asked


@pytest.mark.parametrize("role", [Role.RESEARCHER, Role.CLUSTER_ADMINISTRATOR])
@pytest.mark.parametrize("cluster", [{"transport": "local"}, {"transport": "ssh", "host": "x"}])
def test_no_credential_does_not_mean_open(role: Role, cluster: dict[str, str]) -> None:
    by = UserFactory(role=role)
    made = ClusterFactory(users=[], **cluster)
    words = "runs as Tare itself" if cluster["transport"] == "local" else "no credential yet"
    for name, why_not in everything_sent(by, made).items():
        assert words in why_not or why_not == "not offered", name
    assert permissions.may_use(UserFactory(role=Role.SITE_ADMINISTRATOR), made)


def test_a_credential_that_is_not_needed_opens_nothing() -> None:
    by = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    key = CredentialFactory(owner=by)
    made = ClusterFactory(users=[], credential=key, transport="local")
    assert "runs as Tare itself" in permissions.why_not_use(by, made)


def test_whoever_is_named_sends_jobs_to_this_machine() -> None:
    named, other = UserFactory(), UserFactory(role=Role.VIEWER)
    made = ClusterFactory(users=[named, other])
    assert permissions.may_use(named, made)
    assert "you must be a researcher" in permissions.why_not_use(other, made)
    assert not permissions.may_change(named, made)
    away = ClusterFactory(transport="ssh", host="x", users=[named], credential=CredentialFactory())
    assert "is not yours to use" in permissions.why_not_use(named, away)


def test_a_viewer_uses_nothing() -> None:
    viewer = UserFactory(role=Role.VIEWER)
    credential = CredentialFactory()
    credential.users.add(viewer)
    cluster = ClusterFactory(credential=credential)
    for row in (credential, cluster):
        assert "you must be a researcher" in permissions.why_not_use(viewer, row)
        viewer.role = Role.RESEARCHER
        assert permissions.may_use(viewer, row)
        viewer.role = Role.VIEWER


def test_whoever_is_out_of_service_may_nothing() -> None:
    user = UserFactory(role=Role.SITE_ADMINISTRATOR, is_active=False)
    assert not permissions.may_add(user, Experiment)
    assert not permissions.may_change(user, ClusterFactory())
    assert not permissions.may_administer(user)


@pytest.mark.parametrize("role", Role)
def test_django_flags_follow_from_the_role(role: Role) -> None:
    user = UserFactory()
    user.role = role
    user.save(update_fields=["role"])
    stored = User.objects.get(pk=user.pk)
    assert stored.is_superuser == (role == Role.SITE_ADMINISTRATOR)
    assert stored.is_staff == permissions.may_administer(stored)
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.filter(pk=user.pk).update(is_superuser=not stored.is_superuser)


def test_new_people_are_researchers_and_superusers_administer_the_site() -> None:
    assert User.objects.create_user("ada").role == Role.RESEARCHER
    assert User.objects.create_superuser("root").role == Role.SITE_ADMINISTRATOR
