"""Who may edit a shared cluster but not use its key decides nothing of what that key does."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments.access import permissions
from experiments.admin.base import list_offered_rows
from experiments.models import Cluster, Environment, HostKey, Role, Runtime, User
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    EnvironmentFactory,
    PartitionFactory,
    RuntimeFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    """A cluster behind a gateway, each with a key of its own, shared with a group."""
    there = {"transport": "ssh", "credential": CredentialFactory(), "visibility": "groups"}
    gateway = ClusterFactory(name="gateway", host="gateway.example", **there)
    there["credential"] = CredentialFactory()
    made: Cluster = ClusterFactory(name="far", host="login.example", jump_host=gateway, **there)
    group = Group.objects.create(name="neurophysics")
    made.groups.add(group)
    PartitionFactory(cluster=made, name="gpu")
    RuntimeFactory(cluster=made)
    return made


@pytest.fixture
def editor(cluster: Cluster) -> User:
    made: User = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    made.groups.add(*cluster.groups.all())
    return made


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def typed(cluster: Cluster, runtime: Runtime) -> dict[str, Any]:
    """What the administration page would send to have everything lead elsewhere."""
    partition = cluster.partitions.get()
    return {
        "name": cluster.name, "visibility": "groups", "groups": [cluster.groups.get().pk],
        "transport": "ssh", "host": "evil.example", "port": 2222, "host_key": "",
        "jump_host": "", "credential": cluster.credential_id, "scheduler": "slurm",
        "work_directory": "/evil", "setup_lines": "evil", "max_live_jobs": 9, "poll_seconds": 15,
        "enabled": "on",
        "partitions-TOTAL_FORMS": 1, "partitions-INITIAL_FORMS": 1, "partitions-0-id": partition.pk,
        "partitions-0-cluster": cluster.pk, "partitions-0-name": "evil", "partitions-0-nodes": 1,
        "partitions-0-gpus_per_node": 0, "partitions-0-gres": "gpu",
        "partitions-0-cpus_per_node": 1, "partitions-0-cpus_per_run": 1,
        "partitions-0-time_limit_minutes": 60, "partitions-0-directives": "--evil",
        "runtimes-TOTAL_FORMS": 1, "runtimes-INITIAL_FORMS": 1, "runtimes-0-id": runtime.pk,
        "runtimes-0-cluster": cluster.pk, "runtimes-0-kind": runtime.kind,
        "runtimes-0-executable": "/evil", "runtimes-0-options": "[]",
        "runtimes-0-setup_lines": "evil",
    }  # fmt: skip


def everything(cluster: Cluster) -> str:
    """All that decides where the key logs in and what it runs, as one text."""
    row = Cluster.objects.values("host", "port", "jump_host", "work_directory", "setup_lines")
    kept = [row.get(pk=cluster.pk), *cluster.partitions.values(), *cluster.runtimes.values()]
    return repr(kept)


def test_without_the_key_only_names_readers_and_limits_change(
    cluster: Cluster, editor: User
) -> None:
    before, address = everything(cluster), f"/admin/experiments/cluster/{cluster.pk}/change/"
    client, runtime = logged_in(editor), cluster.runtimes.get()
    page = client.get(address)
    assert page.status_code == 200
    assert "you must be able to use it" in page.content.decode()
    assert client.post(address, typed(cluster, runtime)).status_code == 302
    cluster.refresh_from_db()
    assert everything(cluster) == before
    assert cluster.max_live_jobs == 9
    # One of two keys is not enough: the way leads over the gateway.
    assert cluster.credential
    cluster.credential.users.add(editor)
    client.post(address, typed(cluster, runtime))
    assert everything(cluster) == before


def test_with_the_keys_everything_changes(cluster: Cluster, editor: User) -> None:
    for hop in cluster.list_hops():
        assert hop.credential
        hop.credential.users.add(editor)
    address = f"/admin/experiments/cluster/{cluster.pk}/change/"
    answer = logged_in(editor).post(address, typed(cluster, cluster.runtimes.get()))
    assert answer.status_code == 302
    assert everything(cluster).count("evil") == 7


def test_without_the_key_nobody_pins_a_host(cluster: Cluster, editor: User) -> None:
    shown = HostKey.objects.create(cluster=cluster, host=cluster.host, port=22, key="evil")
    answer = logged_in(editor).post(reverse("host_key_pin", args=[shown.pk]))
    assert answer.status_code == 403
    assert "you must be able to use it" in answer.content.decode()


def test_without_the_key_nobody_writes_what_environments_run(
    cluster: Cluster, editor: User
) -> None:
    row = EnvironmentFactory(cluster=cluster, owner=editor)
    kept = {"name": row.name, "cluster": cluster.pk, "python": "/evil", "setup_lines": "evil"}
    client = logged_in(editor)
    assert client.post(reverse("environment", args=[row.pk]), kept).status_code == 403
    inside = {**kept, "binds": "[]", "variables": "{}", "options": "[]", "visibility": "groups"}
    client.post(f"/admin/experiments/environment/{row.pk}/change/", inside)
    client.post("/admin/experiments/environment/add/", {**inside, "name": "another"})
    assert not Environment.objects.filter(python="/evil").exists()
    assert cluster not in permissions.list_clusters_to_furnish(editor)


def test_whoever_makes_an_environment_there_may_change_it(cluster: Cluster) -> None:
    """What runs beyond the gateway is no matter of the gateway's key."""
    owner = UserFactory(role=Role.RESEARCHER)
    owner.groups.add(*cluster.groups.all())
    assert cluster.credential
    cluster.credential.users.add(owner)
    assert cluster in permissions.list_clusters_to_furnish(owner)
    row = EnvironmentFactory(cluster=cluster, owner=owner, python="python3")
    kept = {"name": row.name, "python": "python3.12", "visibility": "private"}
    answer = logged_in(owner).post(reverse("environment", args=[row.pk]), kept)
    assert answer.status_code == 302, answer.content.decode()
    row.refresh_from_db()
    assert row.python == "python3.12"


def test_a_jump_host_without_a_key_is_no_way_round(editor: User) -> None:
    """Its key comes later, and would then open whatever it had been made a way to."""
    later = ClusterFactory(transport="ssh", host="x", credential=None)
    field = Cluster._meta.get_field("jump_host")
    assert later not in (list_offered_rows(editor, field) or [])


def test_an_older_forced_command_is_told_with_its_cure(cluster: Cluster, editor: User) -> None:
    key = cluster.credential
    assert key

    def read(user: User) -> str:
        client = Client()
        client.force_login(user)
        return client.get(reverse("cluster", args=[cluster.pk])).content.decode()

    assert "Older script" not in read(editor)
    Cluster.objects.filter(pk=cluster.pk).update(older_gate_at=timezone.now())
    assert "Older script of the forced command" in read(editor)
    assert "An administrator of this cluster can replace the script." in read(editor)
    boss = UserFactory(is_superuser=True)
    assert f'Save the script of <a href="{key.get_absolute_url()}">' in read(boss)
