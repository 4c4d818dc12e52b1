"""The catalogue's images: found, filtered, and what is on its way there."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from experiments.models import Image, ImageImport, StagedImage
from tests.dashboard.conftest import People, Site
from tests.factories import ImageFactory, ImageImportFactory, StagedImageFactory

pytestmark = pytest.mark.django_db

PACKAGES = {f"package-{number}": f"1.{number}" for number in range(400)}


def page(client: Client, query: str = "", **headers: str) -> str:
    answer = client.get(f"/catalogue/?{query}", headers=headers)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


@pytest.fixture
def three(people: People, site: Site) -> list[Image]:
    """One of them is staged on the site's cluster, as its container's image is."""
    one = ImageFactory(
        reference="one/tensorflow:2.21",
        kind="oci",
        operating_system="Debian 12",
        python_version="3.11.2",
        framework="keras 3.12.0, tensorflow 2.21.0",
        packages={"numpy": "2.4.6"},
        owner=people.owner,
    )
    two = ImageFactory(reference="two.sif", kind="sif", python_version="3.9.1", cuda_version="12.4")
    three = ImageFactory(reference="three.tar", kind="rootfs", python_version="3.11.2")
    StagedImageFactory(image=one, cluster=site.cluster, path="/images/one.sif")
    StagedImageFactory(
        image=two, cluster=site.cluster, path="/two.sif", state=StagedImage.State.REMOVED
    )
    return [one, two, three]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", {"one", "two", "three"}),
        ("q=numpy+2.4", {"one"}),
        ("q=numpy+2.5", set()),
        ("kind=sif", {"two"}),
        ("system=Debian+12", {"one"}),
        ("python=3.11.2", {"one", "three"}),
        ("framework=tensorflow+2.21.0", {"one"}),
        ("framework=keras+3.12.0", {"one"}),
        ("framework=tensorflow+2.21", {"one", "two", "three"}),  # there is no such
        ("cuda=12.4", {"two"}),
        ("staged=nowhere", {"two", "three"}),
        ("staged=CLUSTER", {"one"}),
        ("mine=me", {"one"}),
        ("python=3.11.2&mine=me", {"one"}),
        ("python=9&kind=nonsense&staged=x", {"one", "two", "three"}),
    ],
)
def test_filters_are_in_the_address(
    query: str, shown: set[str], three: list[Image], as_owner: Client, site: Site
) -> None:
    found = page(as_owner, query.replace("CLUSTER", str(site.cluster.pk)))
    names = {"one": "one/tensorflow:2.21", "two": "two.sif", "three": "three.tar"}
    assert {short for short, name in names.items() if f">{name}</a>" in found} == shown


def test_choices_are_what_the_catalogue_has_in_their_own_order(
    three: list[Image], as_owner: Client
) -> None:
    found = page(as_owner)
    assert found.index('<option value="3.9.1">') < found.index('<option value="3.11.2">')
    assert "1.3" not in found.partition('name="cuda"')[2].partition("</select>")[0]


def test_what_a_search_found_is_told_with_its_version(three: list[Image], as_owner: Client) -> None:
    assert "<code>numpy 2.4.6</code>" in page(as_owner, "q=num")


def test_a_hundred_images_cost_as_many_queries_as_three_and_no_package_list_is_fetched(
    three: list[Image], as_owner: Client, site: Site
) -> None:
    def queries(query: str) -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            page(as_owner, query)
        return [query["sql"] for query in captured]

    ImageImportFactory()
    for query in ("", "q=package&sort=-size"):
        few = len(queries(query))
        for _ in range(20):
            StagedImageFactory(image=ImageFactory(packages=PACKAGES), cluster=site.cluster)
        many = queries(query)
        assert len(many) == few <= 14
        listed = [sql for sql in many if 'FROM "experiments_image"' in sql and "LIMIT" in sql]
        columns = listed[0].partition(" FROM ")[0]
        assert '"packages"' not in columns
        assert '"facts"' not in columns


def test_an_empty_catalogue_teaches(as_owner: Client) -> None:
    assert "known by its digest" in page(as_owner)
    assert "No image fits" in page(as_owner, "q=nothing")


def test_what_is_under_way_is_shown_with_its_progress_and_asked_for_again(
    people: People, as_owner: Client
) -> None:
    ImageImportFactory(
        owner=people.owner,
        reference="docker://example.org/a:1",
        doing="layer 2 of 7",
        done_bytes=250_000_000,
        total_bytes=1_000_000_000,
    )
    found = page(as_owner, **{"HX-Request": "true"})
    assert found.startswith('<div id="image_imports" hx-get="/catalogue/?tab=images"')
    assert 'aria-valuenow="25"' in found
    assert "layer 2 of 7" in found
    assert "250 MB of 1.00 GB" in found
    assert "docker://example.org/a:1" not in page(people.client("other"))
    assert "for owner" in page(people.client("admin"))
    ImageImport.objects.update(
        state=ImageImport.State.DONE, image=ImageFactory(), ended_at=timezone.now()
    )
    found = page(as_owner, **{"HX-Request": "true"})
    assert "hx-trigger" not in found
    assert Image.objects.get().get_absolute_url() in found


def test_what_failed_says_why_until_it_is_put_away(people: People, as_owner: Client) -> None:
    row = ImageImportFactory(
        owner=people.owner,
        state=ImageImport.State.FAILED,
        problem="example.org does not know <b>tag 9</b>.",
    )
    assert "does not know &lt;b&gt;tag 9" in page(as_owner)
    address = reverse("image_import_dismiss", args=[row.pk])
    assert people.client("other").post(address).status_code == 404
    assert as_owner.post(address)["Location"] == "/catalogue/"
    assert "tag 9" not in page(as_owner)
    assert ImageImport.objects.filter(pk=row.pk).exists()


def test_what_is_under_way_cannot_be_put_away(people: People, as_owner: Client) -> None:
    row = ImageImportFactory(owner=people.owner)
    as_owner.post(reverse("image_import_dismiss", args=[row.pk]))
    assert ImageImport.objects.get(pk=row.pk).dismissed_at is None
