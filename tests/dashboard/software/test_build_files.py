"""The page on which images are built of a Dockerfile or a definition file."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from experiments.models import Image, ImageImport, Operation, StagedImage
from tests.dashboard.conftest import People, Site
from tests.factories import ImageFactory, RuntimeFactory

pytestmark = pytest.mark.django_db

NEW = "/catalogue/images/files/new/"


@pytest.fixture
def base(site: Site, people: People) -> Image:
    made: Image = ImageFactory(reference="debian 13", owner=people.owner)
    path = "/scratch/images/base.archive"
    StagedImage.objects.create(image=made, cluster=site.cluster, format="archive", path=path)
    RuntimeFactory(cluster=site.cluster, kind="podman", executable="podman")
    return made


def filled(base: Image, site: Site, **more: Any) -> dict[str, Any]:
    known = {"title": "tools", "kind": "dockerfile", "text": f"FROM a@{base.digest}\nRUN true\n"}
    return {**known, "cluster": site.cluster.pk, "minutes": 30, **more}


def page(answer: Any) -> str:
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_pasted_file_is_built_with_what_is_sent_along(
    base: Image, site: Site, as_owner: Client
) -> None:
    assert NEW in page(as_owner.get(reverse("image_new")))
    note = SimpleUploadedFile("note.txt", b"\xff\xfe a note")
    said = page(as_owner.post(NEW, filled(base, site, uploads=[note]), follow=True))
    assert "was asked to build tools" in said
    row = ImageImport.objects.get()
    assert (row.kind, row.base, row.limit_minutes) == ("dockerfile", base, 30)
    assert list(row.sent_files) == ["note.txt"]
    said = page(as_owner.get(reverse("catalogue")))
    assert reverse("operation", args=[Operation.objects.get().pk]) in said
    assert "a Dockerfile" in said


def test_a_file_can_be_chosen(base: Image, site: Site, as_owner: Client) -> None:
    file = SimpleUploadedFile("Dockerfile", f"FROM a@{base.digest}\n".encode())
    as_owner.post(NEW, filled(base, site, text="", file=file))
    assert ImageImport.objects.get().build_file == f"FROM a@{base.digest}\n"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"text": ""}, "The Dockerfile names no base."),
        ({"text": "FROM debian:13"}, "Line 1 names debian:13."),
        ({"text": f"FROM a@sha256:{'0' * 64}"}, "The catalogue has no image with the digest"),
        ({"file": SimpleUploadedFile("x", b"FROM y")}, "not both"),
        ({"text": "", "file": SimpleUploadedFile("x", b"\xff\xfe\x00")}, "x is no text."),
        ({"uploads": [SimpleUploadedFile("a b", b"x")]}, "has a plain name"),
        ({"uploads": [SimpleUploadedFile(f"f{n}", b"x") for n in range(21)]}, "at most 20"),
        ({"minutes": 111}, "less than or equal to 110"),
        ({"minutes": "nan"}, "Enter a whole number."),
        ({"kind": "recipe"}, "Select a valid choice."),
        ({"kind": "definition"}, "stands before the base"),
        ({"title": ""}, "This field is required."),
    ],
)
def test_what_is_wrong_is_said_and_nothing_begins(
    base: Image, site: Site, as_owner: Client, more: dict[str, Any], told: str
) -> None:
    assert told in page(as_owner.post(NEW, filled(base, site, **more)))
    assert not ImageImport.objects.exists()
