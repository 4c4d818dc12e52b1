"""What cluster administrators do in the administration: only what is theirs, and it is told."""

from __future__ import annotations

from typing import Any

import paramiko
import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from experiments.models import AuditEntry, Cluster, Environment, Image, Partition, Role, User
from tests.dashboard.access.test_admin import cluster, environment, partition
from tests.dashboard.conftest import People, Site
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    PartitionFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def keeper(people: People) -> User:
    user: User = UserFactory(username="keeper", role=Role.CLUSTER_ADMINISTRATOR)
    return user


@pytest.fixture
def as_keeper(keeper: User) -> Client:
    client = Client()
    client.force_login(keeper)
    return client


def told() -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.order_by("pk")
    return [(entry.kind, entry.name, entry.what) for entry in entries]


def page(what: str, row: Any) -> str:
    meta = row._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{what}", args=[row.pk])


def test_a_cluster_with_its_parts_is_told_from_its_first_day_to_its_last(
    as_keeper: Client, keeper: User
) -> None:
    assert as_keeper.post(reverse("admin:experiments_cluster_add"), partition()).status_code == 302
    made = Cluster.objects.get()
    part = Partition.objects.get()
    sent = partition(gpu_model="A100") | {
        "host": "new.example.org",
        "partitions-INITIAL_FORMS": "1",
        "partitions-0-id": part.pk,
        "partitions-0-cluster": made.pk,
    }
    assert as_keeper.post(page("change", made), sent).status_code == 302
    assert as_keeper.post(page("change", made), sent | {"partitions-0-DELETE": "on"})
    assert not Partition.objects.exists()
    PartitionFactory(cluster=made, name="debug")
    assert as_keeper.post(page("delete", made), {"post": "yes"}).status_code == 302
    assert not Cluster.objects.exists()
    assert told() == [
        ("cluster", "forhlr2", "added"),
        ("partition", "gpu on forhlr2", "added"),
        ("cluster", "forhlr2", "changed"),
        ("partition", "gpu on forhlr2", "changed"),
        ("partition", "gpu on forhlr2", "deleted"),
        ("partition", "debug on forhlr2", "deleted"),
        ("cluster", "forhlr2", "deleted"),
    ]
    changed = AuditEntry.objects.filter(what="changed").order_by("pk")
    assert [entry.changes for entry in changed] == [
        {"host": ["login.example.org", "new.example.org"]},
        {"gpu_model": ["", "A100"]},
    ]
    assert {entry.cluster_pk for entry in AuditEntry.objects.all()} == {made.pk}
    assert {entry.actor for entry in AuditEntry.objects.all()} == {keeper}


def test_the_history_of_a_row_is_what_the_log_says(as_keeper: Client, keeper: User) -> None:
    as_keeper.post(reverse("admin:experiments_cluster_add"), cluster())
    answer = as_keeper.get(page("history", Cluster.objects.get()), follow=True)
    assert answer.redirect_chain[0][0].startswith(reverse("audit"))
    assert "forhlr2" in answer.content.decode()
    assert as_keeper.get(page("history", ClusterFactory())).status_code == 403


def test_saving_without_a_change_tells_nothing(as_keeper: Client, keeper: User) -> None:
    as_keeper.post(reverse("admin:experiments_cluster_add"), cluster())
    as_keeper.post(page("change", Cluster.objects.get()), cluster())
    assert [entry.what for entry in AuditEntry.objects.all()] == ["added"]


def test_a_host_key_that_is_pasted_is_told_by_its_fingerprint(as_keeper: Client) -> None:
    key = paramiko.ECDSAKey.generate()
    line = f"{key.get_name()} {key.get_base64()}"
    as_keeper.post(reverse("admin:experiments_cluster_add"), cluster(host_key=line))
    (entry,) = AuditEntry.objects.all()
    assert entry.changes["host_key"] == [None, key.fingerprint]


def test_nobody_furnishes_or_unlocks_what_is_not_theirs(
    as_keeper: Client, keeper: User, site: Site
) -> None:
    foreign = CredentialFactory()
    gateway = ClusterFactory(
        name="gateway", credential=foreign, transport="ssh", host="gate.example"
    )
    for changes in ({"credential": foreign.pk}, {"jump_host": gateway.pk}):
        sent = cluster(**changes)
        answer = as_keeper.post(reverse("admin:experiments_cluster_add"), sent)
        assert "not one of the available choices" in answer.content.decode()
    Cluster.objects.filter(pk=site.cluster.pk).update(credential=foreign, transport="ssh")
    add = reverse("admin:experiments_environment_add")
    answer = as_keeper.post(add, environment(site))
    assert "not one of the available choices" in answer.content.decode()
    assert told() == []
    foreign.users.add(keeper)
    answer = as_keeper.post(add, environment(site, setup_lines="rm -r ~"))
    assert "an administrator of the cluster writes them" in answer.content.decode()
    assert as_keeper.post(add, environment(site)).status_code == 302
    assert Environment.objects.get(name="new").owner == keeper
    sent = cluster(credential=foreign.pk, jump_host=gateway.pk)
    assert as_keeper.post(reverse("admin:experiments_cluster_add"), sent).status_code == 302


def test_this_machine_is_no_cluster_of_a_cluster_administrator(as_keeper: Client) -> None:
    sent = cluster(transport="local")
    answer = as_keeper.post(reverse("admin:experiments_cluster_add"), sent)
    assert "Jobs there run as Tare itself" in answer.content.decode()
    assert not Cluster.objects.exists()


def test_an_administrator_of_the_group_keeps_the_key_that_is_there(
    as_keeper: Client, keeper: User
) -> None:
    group = Group.objects.create(name="neurophysics")
    keeper.groups.add(group)
    foreign = CredentialFactory()
    shared = ClusterFactory(
        name="forhlr2", transport="ssh", host="login.example.org", credential=foreign
    )
    shared.groups.add(group)
    sent = cluster(host="moved.example.org", credential=foreign.pk, groups=[group.pk])
    assert as_keeper.post(page("change", shared), sent).status_code == 302
    shared.refresh_from_db()
    assert shared.credential == foreign
    assert shared.host == "login.example.org", "what the key does is not theirs to change"
    assert shared.owner != keeper


def test_an_image_and_its_staged_forms_are_told(as_keeper: Client, site: Site) -> None:
    image = {
        "reference": "docker://tensorflow",
        "digest": "sha256:" + "0" * 64,
        "kind": "oci",
        "packages": "{}",
        "labels": "{}",
        "facts": "{}",
        "staged-TOTAL_FORMS": "1",
        "staged-INITIAL_FORMS": "0",
        "staged-0-cluster": site.cluster.pk,
        "staged-0-format": "sif",
        "staged-0-path": "/images/tensorflow.sif",
        "staged-0-state": "ready",
    }
    assert as_keeper.post(reverse("admin:experiments_image_add"), image).status_code == 302
    made = Image.objects.get(reference="docker://tensorflow")
    assert told() == [
        ("image", "docker://tensorflow", "added"),
        ("stagedimage", "docker://tensorflow as sif on lab", "added"),
    ]
    as_keeper.post(
        page("change", made), image | {"reference": "renamed", "staged-TOTAL_FORMS": "0"}
    )
    assert AuditEntry.objects.first().changes == {  # type: ignore[union-attr]
        "reference": ["docker://tensorflow", "renamed"]
    }
