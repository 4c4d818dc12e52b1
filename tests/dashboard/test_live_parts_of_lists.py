"""Live parts of the catalogue, images, credentials and Operations: without news they are not made.

Those of pages that follow an experiment are tested in `test_live_parts`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from experiments.models import (
    Cluster,
    ConnectionTest,
    Credential,
    Environment,
    Image,
    ImageImport,
    Job,
    Operation,
    Pause,
    ServiceSign,
    StagedImage,
    User,
)
from tests.dashboard.conftest import People, Site
from tests.dashboard.test_live_parts import fetch, is_news
from tests.factories import (
    AdminFactory,
    ContainerFactory,
    CredentialFactory,
    ImageFactory,
    ImageImportFactory,
    JobFactory,
    OperationFactory,
    StagedImageFactory,
)

pytestmark = pytest.mark.django_db

PARTS = ("catalogue", "image", "credential", "operations")


@pytest.fixture
def at_work(site: Site, people: People) -> None:
    """Something under way on each of the pages."""
    image = ImageFactory(owner=people.owner)
    staged = StagedImageFactory(image=image, cluster=site.cluster, state="staging")
    OperationFactory(staged_image=staged, owner=people.owner)
    building = ImageImportFactory(owner=people.owner, kind="recipe")
    OperationFactory(
        kind=Operation.Kind.BUILD,
        staged_image=None,
        cluster=site.cluster,
        image_import=building,
        owner=people.owner,
    )
    credential = CredentialFactory(owner=people.admin)
    ConnectionTest.objects.create(credential=credential, owner=people.admin)
    ServiceSign.objects.create(
        token="1 2 3", service="worker", queue="default", host="here", pid=1, **seen(0)
    )


def seen(seconds_ago: float) -> dict[str, Any]:
    """Return the times of a process that was started and last seen so many seconds ago."""
    at = Now() - timedelta(seconds=seconds_ago)
    return {"started_at": at, "seen_at": at}


def find_address(part: str) -> str:
    match part:
        case "image":
            return Image.objects.get(staged__state="staging").get_absolute_url()
        case "credential":
            return Credential.objects.get().get_absolute_url()
    return reverse(part)


def find_reader(part: str, people: People) -> Client:
    """Return somebody who may view the page; credentials and Operations are not for researchers."""
    return people.client("owner" if part in ("catalogue", "image") else "admin")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_without_news_is_not_made(part: str, at_work: None, people: People) -> None:
    address, reader = find_address(part), find_reader(part, people)
    mark = fetch(reader, address)["X-Mark"]
    assert not is_news(reader, address, mark)
    again = fetch(reader, address, mark)
    assert (again.status_code, again.content) == (204, b"")
    assert is_news(reader, address, ""), "whoever shows nothing gets it"
    another = Client()
    another.force_login(AdminFactory())
    assert is_news(another, address, mark), "another reader may see another part"


@pytest.mark.parametrize("part", PARTS)
def test_what_is_written_all_the_time_is_no_news(part: str, at_work: None, people: People) -> None:
    address, reader = find_address(part), find_reader(part, people)
    mark = fetch(reader, address)["X-Mark"]
    Cluster.objects.update(last_tick_at=Now(), last_seen_at=Now(), lease_until=Now())
    Credential.objects.update(last_used_at=Now())
    ServiceSign.objects.update(seen_at=Now())
    assert not is_news(reader, address, mark)


def use_credential() -> None:
    Cluster.objects.update(credential=Credential.objects.get())


def make_environment() -> None:
    staged = StagedImage.objects.get(state="staging")
    ContainerFactory(cluster=staged.cluster, staged_image=staged)


def pause_cluster() -> None:
    Pause.objects.create(
        cluster=Cluster.objects.get(name="lab"), kind="limit", since=Now(), retry_at=Now()
    )


CHANGES: dict[tuple[str, str], Callable[[], object]] = {
    ("catalogue", "more of it is there"): lambda: ImageImport.objects.update(done_bytes=1),
    ("catalogue", "a build goes on"): lambda: Operation.objects.filter(
        image_import__isnull=False
    ).update(doing="installs numpy"),
    ("catalogue", "it is put aside"): lambda: ImageImport.objects.update(dismissed_at=Now()),
    ("catalogue", "a cluster is set up"): lambda: Cluster.objects.filter(name="lab").update(
        preparing="Reading the modules"
    ),
    ("image", "its form is ready"): lambda: StagedImage.objects.update(state="ready"),
    ("image", "its operation goes on"): lambda: Operation.objects.update(doing="converts it"),
    ("image", "it is used"): make_environment,
    ("image", "that is renamed"): lambda: Environment.objects.filter(
        staged_image__state="staging"
    ).update(name="another"),
    ("image", "another form of it"): lambda: StagedImageFactory(
        image=Image.objects.get(staged__state="staging"),
        cluster=Cluster.objects.get(name="lab"),
        format="udocker",
        path="/images/another",
    ),
    ("credential", "the test begins"): lambda: ConnectionTest.objects.update(began_at=Now()),
    ("credential", "the test ends"): lambda: ConnectionTest.objects.update(ended_at=Now()),
    ("credential", "a cluster uses it"): use_credential,
    ("credential", "it is renamed"): lambda: Credential.objects.update(name="another"),
    ("operations", "a worker ends"): lambda: ServiceSign.objects.update(ended_at=Now()),
    ("operations", "a worker is silent"): lambda: ServiceSign.objects.update(
        seen_at=Now() - timedelta(seconds=21)
    ),
    ("operations", "a clock was set back"): lambda: ServiceSign.objects.update(
        seen_at=Now() + timedelta(seconds=21)
    ),
    ("operations", "a visit fails"): lambda: Cluster.objects.update(last_error="No route."),
    ("operations", "a pause"): pause_cluster,
    ("operations", "a job waits"): lambda: JobFactory(state=Job.State.QUEUED),
    ("operations", "an operation ends"): lambda: Operation.objects.update(state="done"),
}
"""What changes at a page, by the page and what it is."""


@pytest.mark.parametrize(("part", "what"), CHANGES)
def test_news_are_shown_at_once(part: str, what: str, at_work: None, people: People) -> None:
    if what == "that is renamed":
        make_environment()
    address, reader = find_address(part), find_reader(part, people)
    mark = fetch(reader, address)["X-Mark"]
    CHANGES[part, what]()
    assert is_news(reader, address, mark)


def test_that_valkey_is_away_is_news(at_work: None, people: People, settings: Settings) -> None:
    address, reader = find_address("operations"), find_reader("operations", people)
    mark = fetch(reader, address)["X-Mark"]
    assert not is_news(reader, address, mark)
    settings.REDIS_URL = "unix:///nowhere/socket?db=0"
    assert is_news(reader, address, mark)


def test_imports_of_others_are_news_for_site_administrators_only(
    at_work: None, people: People
) -> None:
    readers = {name: people.client(name) for name in ("other", "admin")}
    address = find_address("catalogue")
    marks = {name: fetch(reader, address)["X-Mark"] for name, reader in readers.items()}
    ImageImport.objects.update(done_bytes=1)
    assert not is_news(readers["other"], address, marks["other"])
    assert is_news(readers["admin"], address, marks["admin"])


def test_what_is_hidden_is_no_longer_without_news(at_work: None, people: People) -> None:
    address, reader = find_address("image"), people.client("other")
    mark = fetch(reader, address)["X-Mark"]
    assert not is_news(reader, address, mark)
    Image.objects.update(visibility=Image.Visibility.PRIVATE)
    assert fetch(reader, address, mark).status_code == 404


def test_a_credential_is_followed_by_whom_it_is_shared_with(at_work: None, people: People) -> None:
    User.objects.filter(pk=people.other.pk).update(role="cluster_administrator", is_staff=True)
    address, reader = find_address("credential"), people.client("other")
    assert fetch(reader, address).status_code == 404
    group = Group.objects.create(name="they")
    people.other.groups.add(group)
    Credential.objects.get().groups.add(group)
    mark = fetch(reader, address)["X-Mark"]
    assert not is_news(reader, address, mark)
    Credential.objects.get().groups.clear()
    assert fetch(reader, address, mark).status_code == 404


def test_pages_that_are_not_for_a_reader_have_no_mark(at_work: None, as_owner: Client) -> None:
    answer = as_owner.get(reverse("operations"), headers={"HX-Request": "true"})
    assert (answer.status_code, answer.get("X-Mark")) == (403, None)


def test_a_search_among_packages_has_no_mark(at_work: None, as_owner: Client) -> None:
    assert "X-Mark" not in fetch(as_owner, find_address("image") + "?packages=numpy")
