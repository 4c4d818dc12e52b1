"""A draft is written with its lists of workloads and environments, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db.models.signals import m2m_changed
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment
from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import NEW, asked
from tests.factories import WorkloadFactory

pytestmark = pytest.mark.django_db(transaction=True)


class Crash(Exception):
    """The process ends here."""


@contextmanager
def crash_before_workloads() -> Iterator[None]:
    """Fail whenever the workloads of an experiment are about to be written."""

    def fail(action: str, **_: Any) -> None:
        if action == "pre_add":
            raise Crash

    lists = Experiment.workloads.through
    m2m_changed.connect(fail, sender=lists)
    try:
        yield
    finally:
        m2m_changed.disconnect(fail, sender=lists)


def test_a_draft_is_saved_with_its_lists_or_not_at_all(as_owner: Client, site: Site) -> None:
    with crash_before_workloads(), pytest.raises(Crash):
        as_owner.post(NEW, asked(site) | {"action": "save"})
    assert not Experiment.objects.exists()
    as_owner.post(NEW, asked(site) | {"action": "save"})
    draft = Experiment.objects.get()
    workloads = [site.workload.pk, WorkloadFactory(owner=site.workload.owner).pk]
    edited = asked(site, question="And Podman?", workloads=workloads) | {"action": "save"}
    address = reverse("experiment_edit", args=[draft.pk])
    with crash_before_workloads(), pytest.raises(Crash):
        as_owner.post(address, edited)
    assert Experiment.objects.get().question == draft.question
    as_owner.post(address, edited)
    assert Experiment.objects.get().question == "And Podman?"


def test_a_clone_is_made_with_its_lists_or_not_at_all(as_owner: Client, site: Site) -> None:
    as_owner.post(NEW, asked(site) | {"action": "save"})
    source = Experiment.objects.get()
    address = reverse("experiment_clone", args=[source.pk])
    with crash_before_workloads(), pytest.raises(Crash):
        as_owner.post(address)
    assert Experiment.objects.get() == source
    as_owner.post(address)
    clone = Experiment.objects.exclude(pk=source.pk).get()
    assert set(clone.environments.all()) == set(source.environments.all())
