"""Recipes and matched environments: what is refused, what is asked for, what comes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.execution.operations import KINDS, NotPossible, make_operation_spec
from experiments.images.staging import NotDone
from experiments.models import (
    Cluster,
    Environment,
    Image,
    ImageImport,
    Operation,
    Role,
    StagedImage,
)
from experiments.software import building, inspections, recipes
from runners.records import read_record
from runners.schedulers import Direct
from runners.scripts import render
from tests.factories import ClusterFactory, ImageFactory, RuntimeFactory, UserFactory

pytestmark = pytest.mark.django_db

LOCK = f"numpy==2.3.1 --hash=sha256:{'ab' * 32}\n"


@pytest.fixture
def cluster() -> Cluster:
    made: Cluster = ClusterFactory(work_directory="/scratch")
    RuntimeFactory(cluster=made, kind="udocker", executable="udocker")
    RuntimeFactory(cluster=made, kind="apptainer", executable="/opt/apptainer")
    return made


@pytest.fixture
def base(cluster: Cluster) -> Image:
    made: Image = ImageFactory(reference="debian 13")
    StagedImage.objects.create(
        image=made, cluster=cluster, format="archive", path="/scratch/images/base.archive"
    )
    return made


def asked(base: Image, cluster: Cluster, lock: str = LOCK) -> ImageImport:
    return building.request_build(base, lock, cluster, cluster.owner, title="numpy 2.3")


def built(operation: Operation, **more: Any) -> Image:
    """What a cluster says of a build, written down."""
    result = {
        "digest": "sha256:" + "cd" * 32,
        "sha256": "ef" * 32,
        "bytes": 1234,
        "path": "/scratch/images/cd.archive",
        "survey": {
            "tree": "sha256:" + "12" * 32,
            "pythons": [{"path": "opt/tare/bin/python3.13", "version": "3.13.5", "packages": {}}],
            "packages": {"python": {"numpy": "2.3.1"}},
        },
    }
    record = read_record({"exit_code": b"0", "result.json": json.dumps(result | more).encode()})
    assert KINDS["build"].finish(operation, "", record) == ""
    return Image.objects.get(digest=result["digest"])


def test_a_recipe_becomes_an_operation_whose_script_says_all(base: Image, cluster: Cluster) -> None:
    image_import = asked(base, cluster)
    operation = image_import.operations.get()
    assert (operation.kind, image_import.state) == ("build", "under way")
    spec = make_operation_spec(operation)
    assert dict(spec.files) == {"requirements.lock": LOCK.encode()}
    script = render(spec, Direct())
    assert "/opt/apptainer --silent exec" in script
    assert "/scratch/images/base.archive" in script
    doing = [step.doing for step in spec.steps]
    assert doing[1:5] == [
        "Unpacking the base",
        "Reading how pip reaches its index",
        "Making room",
        "Installing what the lock names",
    ]
    assert doing[-1] == "Clearing up"


def test_what_was_built_is_in_the_catalogue_with_its_recipe_in_full(
    base: Image, cluster: Cluster
) -> None:
    image_import = asked(base, cluster)
    image = built(image_import.operations.get())
    image_import.refresh_from_db()
    assert (image_import.state, image_import.image, image.reference) == ("done", image, "numpy 2.3")
    assert base.digest in image.recipe
    assert recipes.lock_of(image) == LOCK
    assert image.python_version == "3.13.5"
    archive = image.staged.get()
    assert (archive.format, archive.state, archive.made_here) == ("archive", "ready", True)
    again = asked(base, cluster)
    assert built(again.operations.get()) == image, "the same files are the same image"
    again.refresh_from_db()
    assert again.image == image


def test_a_build_that_fails_says_why_and_adds_nothing(base: Image, cluster: Cluster) -> None:
    image_import = asked(base, cluster)
    why = "Installing what the lock names: exit code 1: The index has no wheel of numpy."
    assert KINDS["build"].finish(image_import.operations.get(), why, read_record({})) == why
    image_import.refresh_from_db()
    assert (image_import.state, image_import.problem, image_import.image) == ("failed", why, None)
    assert Image.objects.count() == 1


@pytest.mark.parametrize(
    "result", [b"<html>", b"{}", b'{"digest": "sha256:1", "path": "relative"}']
)
def test_a_build_without_a_result_is_no_image(result: bytes, base: Image, cluster: Cluster) -> None:
    image_import = asked(base, cluster)
    record = read_record({"exit_code": b"0", "result.json": result})
    assert "nothing that can be read" in KINDS["build"].finish(
        image_import.operations.get(), "", record
    )
    image_import.refresh_from_db()
    assert image_import.state == "failed"


def test_a_base_whose_archive_went_away_is_said(base: Image, cluster: Cluster) -> None:
    image_import = asked(base, cluster)
    base.staged.update(state=StagedImage.State.FAILED, message="the disk is full")
    with pytest.raises(NotPossible, match="the disk is full"):
        make_operation_spec(image_import.operations.get())


@pytest.mark.parametrize(
    ("lock", "told"),
    [("numpy==2.3.1", "no hash"), ("", "names no package"), ("--index-url x", "is an option")],
)
def test_a_lock_that_is_none_is_refused(
    base: Image, cluster: Cluster, lock: str, told: str
) -> None:
    with pytest.raises(NotDone, match=told):
        asked(base, cluster, lock)
    assert not ImageImport.objects.exists()


def test_what_cannot_be_built_on_is_refused_in_words(base: Image, cluster: Cluster) -> None:
    base.kind = Image.Kind.SIF
    opener = cluster.runtimes.get(kind="apptainer")
    opener.kind = "charliecloud"
    opener.save()
    with pytest.raises(NotDone, match="a SIF file, which only Apptainer or Singularity opens"):
        asked(base, cluster)
    opener.kind = "apptainer"
    opener.save()
    base.kind, base.facts = Image.Kind.OCI, {"tree": "x", "pythons": []}
    with pytest.raises(NotDone, match="no Python in"):
        asked(base, cluster)
    base.facts, base.recipe = {}, recipes.write_recipe(base, LOCK)
    with pytest.raises(NotDone, match="itself built by a recipe"):
        asked(base, cluster)
    cluster.runtimes.filter(kind="apptainer").delete()
    base.recipe = ""
    with pytest.raises(NotDone, match="needs Apptainer, Singularity or Charliecloud"):
        asked(base, cluster)
    with pytest.raises(NotDone, match="viewer"):
        building.request_build(base, LOCK, cluster, UserFactory(role=Role.VIEWER), title="x")


def test_the_same_lock_makes_the_bare_metal_side_which_can_be_chosen(
    base: Image, cluster: Cluster
) -> None:
    image = built(asked(base, cluster).operations.get())
    (offered,) = building.list_twins(image, Cluster.objects.usable_by(cluster.owner))
    assert offered.may_ask
    operation = building.request_match(image, cluster, cluster.owner)
    assert building.request_match(image, cluster, cluster.owner) == operation, "one at a time"
    assert not building.list_twins(image, Cluster.objects.usable_by(cluster.owner))[0].may_ask
    spec = make_operation_spec(operation)
    assert dict(spec.files) == {"requirements.lock": LOCK.encode()}
    place = recipes.name_twin_folder(image, cluster)
    assert place.startswith("/scratch/environments/")
    assert f"{place}/bin/python" in render(spec, Direct())
    facts = {"schema": 1, "mark": "match", "python": {"version": "3.13.5"}, "packages": {}}
    record = read_record({"exit_code": b"0", "result.json": json.dumps(facts).encode()})
    assert KINDS["match"].finish(operation, "", record) == ""
    twin = recipes.find_twin(image, cluster)
    assert twin
    assert (twin.is_bare_metal, twin.python) == (True, f"{place}/bin/python")
    assert inspections.find_known_software([twin])[twin.pk].is_known
    assert twin.inspections.get().operation == operation, "the page of the operation leads to it"
    with pytest.raises(NotDone, match="is there already"):
        building.request_match(image, cluster, cluster.owner)


def test_a_match_that_fails_leaves_no_environment(base: Image, cluster: Cluster) -> None:
    image = built(asked(base, cluster).operations.get())
    operation = building.request_match(image, cluster, cluster.owner)
    why = "node1 has no Python 3.13.5, which the image has. Found: /usr/bin/python3 (3.11.2)."
    assert KINDS["match"].finish(operation, why, read_record({})) == why
    assert not Environment.objects.exists()


def test_an_image_without_a_lock_has_no_twin(base: Image, cluster: Cluster) -> None:
    base.recipe = "lab/image, numpy.lock"
    assert recipes.lock_of(base) == ""
    assert building.list_twins(base, Cluster.objects.usable_by(cluster.owner)) == []
    with pytest.raises(NotDone, match="not built from a lock"):
        building.request_match(base, cluster, cluster.owner)
