"""Where somebody else has just deleted what a form is about, a page says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import models

from dashboard.clusters.credential_forms import CredentialForm
from dashboard.clusters.new_cluster_forms import AddressForm
from dashboard.notifications.webhook_forms import WebhookForm
from experiments.access.audit import RowDeleted
from experiments.clusters import preflights
from experiments.execution.repairs import allow_any_node, repair
from experiments.models import Cluster, ClusterDraft, HostKey, Job
from experiments.notifications import webhooks
from tests.dashboard.conftest import People
from tests.factories import ClusterFactory, CredentialFactory, JobFactory

pytestmark = pytest.mark.django_db(transaction=True)


def make_webhook(people: People) -> tuple[models.Model, str, dict[str, Any]]:
    row, _ = webhooks.add_webhook(people.admin, "https://example.org/", ["ended"])
    return row, row.get_absolute_url(), {"address": "https://example.org/b", "kinds": ["ended"]}


def make_credential(people: People) -> tuple[models.Model, str, dict[str, Any]]:
    row = CredentialFactory(owner=people.admin)
    return row, f"{row.get_absolute_url()}edit/", {"name": "other", "user_name": "ada"}


def make_draft(people: People) -> tuple[models.Model, str, dict[str, Any]]:
    row = ClusterDraft.objects.create(owner=people.admin, name="new", host="a.example.org")
    typed = {"name": "new", "host": "b.example.org", "port": "22", "user_name": "ada"}
    return row, f"/clusters/new/{row.pk}/", typed


Make = Callable[[People], tuple[models.Model, str, dict[str, Any]]]


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (make_webhook, WebhookForm),
        (make_credential, CredentialForm),
        (make_draft, AddressForm),
    ],
)
def test_a_form_of_what_was_just_deleted_saves_nothing_and_says_so(
    people: People, make: Make, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, address, typed = make(people)
    original = form.is_valid

    def delete_and_validate(self: Any) -> bool:
        type(row)._base_manager.filter(pk=row.pk).delete()
        return bool(original(self))

    monkeypatch.setattr(form, "is_valid", delete_and_validate)
    answer = people.client("admin").post(address, typed)
    assert answer.status_code == 409
    assert "Deleted meanwhile" in answer.content.decode()
    assert not type(row)._base_manager.filter(pk=row.pk).exists(), "it came back"


@pytest.mark.parametrize("part", ["check", "connection"])
def test_what_is_asked_of_a_cluster_that_was_just_deleted_is_no_error(
    people: People, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ClusterFactory(
        owner=people.admin,
        transport="ssh",
        host="login.example.org",
        host_key="some",
        credential=CredentialFactory(owner=people.admin),
    )

    def delete_and_allow(cluster: Cluster, user: Any) -> str:
        Cluster.objects.filter(pk=row.pk).delete()
        return ""

    monkeypatch.setattr(preflights, "why_not_check", delete_and_allow)
    answer = people.client("admin").post(f"/clusters/{row.pk}/{part}/")
    assert answer.status_code == 409
    assert "Deleted meanwhile" in answer.content.decode()


@pytest.mark.parametrize("error", [KeyError, Job.DoesNotExist, Cluster.DoesNotExist])
def test_any_other_error_stays_one(
    people: People, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of a search which finds nothing, while what the address names is there."""

    def fail(*_: Any) -> str:
        raise error("a mistake")

    row = ClusterFactory(owner=people.admin)
    monkeypatch.setattr(preflights, "why_not_check", fail)
    with pytest.raises(error):
        people.client("admin").post(f"/clusters/{row.pk}/check/")


def test_what_saves_tells_that_its_row_was_deleted(people: People) -> None:
    webhook, _ = webhooks.add_webhook(people.admin, "https://example.org/", ["ended"])
    cluster = ClusterFactory(owner=people.admin)
    key = HostKey(cluster=cluster, owner=people.admin, host="a.example.org", port=22)
    job = JobFactory()
    savers: list[tuple[models.Model, Callable[[], Any]]] = [
        (webhook, lambda: webhooks.rotate_secret(webhook)),
        (cluster, lambda: preflights.pin(key, people.admin)),
        (job, lambda: repair(job, people.admin, same_node=False)),
        (job, lambda: allow_any_node(job, people.admin)),
    ]
    for row, save in savers:
        type(row)._base_manager.filter(pk=row.pk).delete()
        with pytest.raises(RowDeleted):
            save()
