"""The overview says what has ended since the last visit; reloads and second tabs lose nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.comparisons import keep_comparison
from experiments.models import Event, Experiment, LastVisit, Run, User
from tests.dashboard.conftest import People, Site, measured

pytestmark = pytest.mark.django_db


def end(experiment: Experiment, *, at: datetime) -> Experiment:
    """Write the event of the end of an experiment's last job."""
    job = experiment.jobs.order_by("-pk")[0]
    event = Event.objects.create(experiment=experiment, job=job, what="collecting → done")
    Event.objects.filter(pk=event.pk).update(at=at)
    return experiment


def visited(user: User, *, hours: float) -> None:
    """Let the person's last visit have been so long ago."""
    LastVisit.objects.update_or_create(
        user=user, defaults={"seen_at": timezone.now() - timedelta(hours=hours)}
    )


def read(client: Client) -> str:
    """Return the part of the overview about what has ended."""
    page = client.get("/").content.decode()
    _, found, rest = page.partition('id="ended"')
    return rest.partition("</section>")[0] if found else ""


def test_who_comes_first_is_told_nothing(as_owner: Client, results: Experiment) -> None:
    end(results, at=timezone.now())
    assert read(as_owner) == ""
    assert read(as_owner) == ""


def test_what_has_ended_since_is_listed_with_state_and_verdict(
    as_owner: Client, people: People, site: Site, results: Experiment
) -> None:
    before = measured(site, people.owner, question="Ended before?")
    end(before, at=timezone.now() - timedelta(hours=30))
    end(results, at=timezone.now() - timedelta(hours=3))
    keep_comparison(results.pk)
    visited(people.owner, hours=20)
    part = read(as_owner)
    assert results.question in part
    assert "finished" in part
    assert "SLOWER" in part
    assert "Ended before?" not in part


def test_a_reload_and_a_second_tab_show_the_same(
    as_owner: Client, people: People, results: Experiment
) -> None:
    end(results, at=timezone.now() - timedelta(hours=3))
    visited(people.owner, hours=20)
    first = read(as_owner)
    assert results.question in first
    assert read(as_owner) == first
    assert read(people.client("owner")) == first
    row = LastVisit.objects.get(user=people.owner)
    LastVisit.objects.filter(pk=row.pk).update(seen_at=row.seen_at - timedelta(minutes=30))
    assert read(as_owner) == first
    assert LastVisit.objects.get(pk=row.pk).seen_at > timezone.now() - timedelta(minutes=1)


def test_of_two_tabs_opened_at_once_the_second_keeps_what_the_first_began(people: People) -> None:
    visited(people.owner, hours=20)
    seen_at = LastVisit.objects.get().seen_at
    assert LastVisit.objects.note_visit(people.owner) == seen_at
    assert LastVisit.objects.note_visit(people.owner) == seen_at


def test_the_next_visit_begins_where_the_last_one_ended(
    as_owner: Client, people: People, results: Experiment
) -> None:
    end(results, at=timezone.now() - timedelta(hours=30))
    visited(people.owner, hours=20)
    assert "No experiment has ended since" in read(as_owner)


def test_live_parts_are_no_visits(as_owner: Client, people: People) -> None:
    as_owner.get("/", headers={"HX-Request": "true"})
    assert not LastVisit.objects.exists()


def test_nobody_is_told_of_what_they_may_not_view_or_what_still_runs(
    people: People, site: Site
) -> None:
    now = timezone.now() - timedelta(hours=1)
    end(measured(site, people.owner, question="My secret?", visibility="private"), at=now)
    alive = end(measured(site, people.owner, question="Still running?"), at=now)
    Run.objects.filter(pk=alive.runs.all()[0].pk).update(state="running")
    archived = end(measured(site, people.owner, question="Put away?"), at=now)
    Experiment.objects.filter(pk=archived.pk).update(archived_at=now)
    visited(people.other, hours=20)
    assert "No experiment has ended since" in read(people.client("other"))
    visited(people.owner, hours=20)
    part = read(people.client("owner"))
    assert "My secret?" in part
    assert "Still running?" not in part
    assert "Put away?" not in part


def test_ones_own_come_first_and_long_lists_lead_on(people: People, site: Site) -> None:
    now = timezone.now()
    mine = end(measured(site, people.owner, question="Mine?"), at=now - timedelta(hours=5))
    for number in range(9):
        other = measured(site, people.other, question=f"Of others {number}?", blocks=1)
        end(other, at=now - timedelta(hours=1))
    visited(people.owner, hours=20)
    part = read(people.client("owner"))
    assert part.index(mine.question) < part.index("Of others")
    assert "All that have ended" in part


def test_more_of_it_costs_no_more_statements(people: People, site: Site) -> None:
    client = people.client("owner")

    def count() -> int:
        client.get("/")
        with CaptureQueriesContext(connection) as queries:
            client.get("/")
        return len(queries)

    now = timezone.now() - timedelta(hours=1)
    # The comparisons below are of the last three: they are there from the beginning.
    for number in range(4):
        kept = end(measured(site, people.owner, question=f"Question {number}?"), at=now)
        keep_comparison(kept.pk)
    visited(people.owner, hours=20)
    few = count()
    for number in range(4):
        kept = end(measured(site, people.owner, question=f"More {number}?"), at=now)
        keep_comparison(kept.pk)
    assert count() == few
