"""The pages of recipes and of matched environments."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from experiments.models import Image, ImageImport, Operation, StagedImage
from experiments.software import recipes
from tests.dashboard.conftest import People, Site
from tests.factories import EnvironmentFactory, ImageFactory, RuntimeFactory

pytestmark = pytest.mark.django_db

NEW = "/catalogue/images/recipes/new/"
LOCK = f"numpy==2.3.1 --hash=sha256:{'ab' * 32}\n"


@pytest.fixture
def base(site: Site, people: People) -> Image:
    made: Image = ImageFactory(reference="debian 13", owner=people.owner)
    path = "/scratch/images/base.archive"
    StagedImage.objects.create(image=made, cluster=site.cluster, format="archive", path=path)
    RuntimeFactory(cluster=site.cluster, kind="charliecloud", executable="ch-run")
    return made


def filled(base: Image, site: Site, **more: Any) -> dict[str, Any]:
    known = {"title": "numpy 2.3", "base": base.pk, "lock": LOCK, "cluster": site.cluster.pk}
    return {**known, **more}


def page(answer: Any) -> str:
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_pasted_lock_is_built_and_told_in_the_catalogue(
    base: Image, site: Site, as_owner: Client
) -> None:
    assert NEW in page(as_owner.get(reverse("image_new")))
    said = page(as_owner.post(NEW, filled(base, site), follow=True))
    assert "was asked to build numpy 2.3" in said
    assert "Output" in said, "the log of the build"
    said = page(as_owner.get(reverse("catalogue")))
    assert "On the way into the catalogue" in said
    assert reverse("operation", args=[Operation.objects.get().pk]) in said
    assert ImageImport.objects.get().lock == LOCK


def test_a_lock_as_a_file_is_taken_too(base: Image, site: Site, as_owner: Client) -> None:
    file = SimpleUploadedFile("requirements.lock", LOCK.encode())
    as_owner.post(NEW, filled(base, site, lock="", file=file))
    assert ImageImport.objects.get().lock == LOCK


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"lock": "numpy==2.3.1"}, "Line 1 has no hash"),
        ({"lock": ""}, "The lock names no package."),
        ({"file": SimpleUploadedFile("x", LOCK.encode())}, "not both"),
        ({"lock": "", "file": SimpleUploadedFile("x", b"\xff\xfe\x00")}, "x is no text."),
        ({"title": ""}, "This field is required."),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_begins(
    base: Image, site: Site, as_owner: Client, more: dict[str, Any], told: str
) -> None:
    assert told in page(as_owner.post(NEW, filled(base, site, **more)))
    assert not ImageImport.objects.exists()


def test_an_image_of_a_lock_offers_its_bare_metal_side(
    base: Image, site: Site, people: People, as_owner: Client
) -> None:
    image = ImageFactory(
        recipe=recipes.write_recipe(base, LOCK), python_version="3.13.5", owner=people.owner
    )
    button = "Make the matching bare-metal environment"
    said = page(as_owner.get(image.get_absolute_url()))
    assert button in said
    assert LOCK.strip() in said, "the recipe in full"
    address = reverse("image_match", args=[image.pk])
    said = page(as_owner.post(address, {"cluster": site.cluster.pk}, follow=True))
    assert "was asked for the matching bare-metal environment" in said
    assert button not in said
    Operation.objects.update(state="failed", message="node1 has no Python 3.13.5.")
    said = page(as_owner.get(image.get_absolute_url()))
    assert "node1 has no Python 3.13.5." in said
    assert button in said
    assert as_owner.post(address, {"cluster": "999999"}).status_code == 404
    assert button not in page(as_owner.get(base.get_absolute_url())), "no lock is known"


def test_debian_packages_need_no_lock(base: Image, site: Site, as_owner: Client) -> None:
    RuntimeFactory(cluster=site.cluster, kind="podman", executable="podman")
    as_owner.post(NEW, filled(base, site, lock="", packages="hello\ng++ # a compiler"))
    row = ImageImport.objects.get()
    assert (row.packages, row.lock) == ("hello\ng++", "")
    assert row.reference == "debian 13 and 2 Debian packages"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"packages": "-y"}, "-y is no Debian package"),
        ({"packages": "hello", "lock": ""}, "has no Podman"),
    ],
)
def test_what_is_wrong_with_debian_packages_is_said(
    base: Image, site: Site, as_owner: Client, more: dict[str, Any], told: str
) -> None:
    assert told in page(as_owner.post(NEW, filled(base, site, **more)))
    assert not ImageImport.objects.exists()


def test_an_images_own_tree_is_offered_and_shown_for_what_it_is(
    base: Image, site: Site, people: People, as_owner: Client
) -> None:
    button = "Make an environment of its files"
    said = page(as_owner.get(base.get_absolute_url()))
    assert button in said
    assert "Its own tree, outside a container" in said
    address = reverse("image_tree", args=[base.pk])
    said = page(as_owner.post(address, {"cluster": site.cluster.pk}, follow=True))
    assert "was asked to unpack debian 13" in said
    assert button not in said
    tree = EnvironmentFactory(cluster=site.cluster, tree_of=base, owner=people.owner)
    said = page(as_owner.get(base.get_absolute_url()))
    assert tree.name in said
    said = page(as_owner.get(reverse("environment", args=[tree.pk])))
    assert "the own files of image debian 13, outside of a container" in said
    assert as_owner.post(address, {"cluster": "999999"}).status_code == 404


CONDA_FILE = "channels: [conda-forge]\ndependencies: [python, numpy]\n"


def test_an_environment_file_of_conda_is_pasted_or_uploaded(
    base: Image, site: Site, as_owner: Client
) -> None:
    as_owner.post(NEW, filled(base, site, lock="", conda_file=CONDA_FILE))
    assert ImageImport.objects.get().conda_file == CONDA_FILE
    file = SimpleUploadedFile("environment.yml", CONDA_FILE.encode())
    as_owner.post(NEW, filled(base, site, lock="", conda_upload=file))
    assert ImageImport.objects.latest("pk").conda_file == CONDA_FILE
    assert ImageImport.objects.count() == 2


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"conda_file": CONDA_FILE}, "Give a lock file or an environment file of conda, not both"),
        ({"lock": "", "conda_file": "dependencies: [x]"}, "channels: has to name where"),
        (
            {
                "lock": "",
                "conda_file": CONDA_FILE,
                "conda_upload": SimpleUploadedFile("environment.yml", CONDA_FILE.encode()),
            },
            "Paste an environment file or choose a file, not both.",
        ),
        (
            {"lock": "", "conda_upload": SimpleUploadedFile("environment.yml", b"\xff\xfe")},
            "environment.yml is no text.",
        ),
    ],
)
def test_a_file_of_conda_that_cannot_be_built_is_refused_at_its_field(
    more: dict[str, Any], why: str, base: Image, site: Site, as_owner: Client
) -> None:
    assert why in page(as_owner.post(NEW, filled(base, site, **more)))
    assert not ImageImport.objects.exists()
