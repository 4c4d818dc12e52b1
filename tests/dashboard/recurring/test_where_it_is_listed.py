"""Recurring experiments are found by the search, on the overview, and in the administration."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from dashboard.search.site_search import search_site
from experiments.models import RecurringExperiment
from experiments.recurring.attention import list_latest
from tests.dashboard.conftest import People, fetch
from tests.factories import NOON, RecurringExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def row(people: People) -> RecurringExperiment:
    made: RecurringExperiment = RecurringExperimentFactory(
        owner=people.owner, question="Does the zebra drift?", visibility="private"
    )
    return made


def test_the_search_finds_it_for_those_who_may_view_it(
    row: RecurringExperiment, people: People
) -> None:
    (group,) = [each for each in search_site(people.owner, "zebra", 5) if each.key == "recurring"]
    assert group.heading == "Recurring experiments"
    (result,) = group.results
    assert (result.title, result.address) == (row.question, row.get_absolute_url())
    assert result.detail == f"{people.owner} on {row.source.cluster}"
    assert not [each for each in search_site(people.other, "zebra", 5) if each.key == "recurring"]


def test_the_overview_lists_what_needs_a_look_first(
    row: RecurringExperiment, people: People
) -> None:
    calm: RecurringExperiment = RecurringExperimentFactory(
        owner=people.owner, due_at=timezone.now() + timedelta(hours=1)
    )
    calm.recurrences.update(points=[], reported=[])
    row.recurrences.update(points=[], reported=["blas 1x1: Apptainer / bare metal", "another"])
    page = fetch(people.client("owner"), "/").decode()
    assert "recurrence 1 is outside of the limits of 2 charts" in page
    assert page.index(row.question) < page.index("recurrence 1: nothing outside of limits")
    assert f'href="{reverse("recurring_list")}"' in page
    assert "zebra" not in fetch(people.client("other"), "/").decode()
    RecurringExperiment.objects.filter(pk=calm.pk).update(problem="The cluster is away.")
    latest = list_latest(people.owner, timezone.now(), 5)
    assert [each.text for each in latest if each.recurring == calm] == ["not launched"]


@pytest.mark.parametrize(
    "columns", [{"stopped_at": NOON}, {"most_recurrences": 1}, {"ends_at": NOON}]
)
def test_what_is_over_is_not_on_the_overview(
    row: RecurringExperiment, people: People, columns: dict[str, object]
) -> None:
    assert list_latest(people.owner, timezone.now(), 5)
    past = {n: timezone.now() - timedelta(days=1) if v == NOON else v for n, v in columns.items()}
    RecurringExperiment.objects.filter(pk=row.pk).update(**past)
    assert list_latest(people.owner, timezone.now(), 5) == []


def test_the_administration_lists_them_and_changes_none(
    row: RecurringExperiment, people: People
) -> None:
    RecurringExperiment.objects.filter(pk=row.pk).update(token_hash="f" * 64)
    admin = people.client("admin")
    for model, pk in (("recurringexperiment", row.pk), ("recurrence", row.recurrences.get().pk)):
        listed = fetch(admin, reverse(f"admin:experiments_{model}_changelist")).decode()
        assert row.question in listed
        page = fetch(admin, reverse(f"admin:experiments_{model}_change", args=[pk])).decode()
        assert row.question in page
        assert "f" * 64 not in page, "not even the hash of a token"
        assert '<input type="submit"' not in page
        assert admin.get(reverse(f"admin:experiments_{model}_add")).status_code == 403
