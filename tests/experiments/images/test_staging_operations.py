"""Forms of an image on a cluster: what making, verifying and removing them runs and writes down."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from experiments.execution.operations import KINDS, NotPossible, make_operation_spec
from experiments.models import Cluster, Image, Operation, StagedImage
from runners.images.formats import FORMATS
from runners.records import Record, read_record
from runners.schedulers import Direct
from runners.scripts import render
from tests.factories import (
    NOON,
    ClusterFactory,
    ImageFactory,
    OperationFactory,
    RuntimeFactory,
    StagedImageFactory,
)

pytestmark = pytest.mark.django_db

TREE, OTHER_TREE = "sha256:" + "12" * 32, "sha256:" + "34" * 32
PYTHON = {"path": "opt/tare/bin/python3.13", "version": "3.13.5", "packages": {}}


@pytest.fixture
def cluster() -> Cluster:
    made: Cluster = ClusterFactory(work_directory="/scratch")
    RuntimeFactory(cluster=made, kind="udocker", executable="udocker", setup_lines="module load u")
    RuntimeFactory(
        cluster=made,
        kind="apptainer",
        executable="/opt/apptainer",
        setup_lines="module load apptainer",
    )
    return made


@pytest.fixture
def image() -> Image:
    made: Image = ImageFactory(
        reference="debian 13",
        tree=TREE,
        facts={"parts": {"usr": "a", "etc": "b", "opt": "c"}, "pythons": [PYTHON]},
    )
    return made


@pytest.fixture
def archive(image: Image, cluster: Cluster) -> StagedImage:
    path = "/scratch/images/base.archive"
    made: StagedImage = StagedImageFactory(
        image=image, cluster=cluster, format="archive", path=path
    )
    return made


@pytest.fixture
def form(image: Image, cluster: Cluster) -> StagedImage:
    made: StagedImage = StagedImageFactory(
        image=image,
        cluster=cluster,
        format="sif",
        path=FORMATS["sif"].choose_location(image.digest, cluster.images_folder),
        state=StagedImage.State.STAGING,
        message="being made",
    )
    return made


def requested(kind: str, row: StagedImage) -> Operation:
    made: Operation = OperationFactory(kind=kind, staged_image=row)
    return Operation.objects.get(pk=made.pk)  # as the visit reads it


def written(operation: Operation) -> str:
    return render(make_operation_spec(operation), Direct())


def left(result: dict[str, Any] | None = None) -> Record:
    """Return the record of a job that ended well and left this result."""
    files = {"exit_code": b"0"}
    if result is not None:
        files["result.json"] = json.dumps(result).encode()
    return read_record(files)


def inventory(tree: str = TREE, **more: Any) -> dict[str, Any]:
    return {"tree": tree, "bytes": 1234, "pythons": [PYTHON], **more}


def finish(operation: Operation, problem: str = "", record: Record | None = None) -> str:
    return KINDS[operation.kind].finish(operation, problem, record or left())


def test_a_form_is_made_of_the_archive_and_compared_from_inside(
    archive: StagedImage, form: StagedImage
) -> None:
    operation = requested("stage", form)
    assert KINDS["stage"].waits_for(operation) == archive
    spec = make_operation_spec(operation)
    assert spec.setup_lines == ("module load apptainer",), "of the runtime that starts this form"
    assert spec.steps[-1].doing == "Comparing its files with the image's"
    command = list(spec.steps[-1].argv)
    assert command[0] == "/opt/apptainer"
    inside = command[command.index("/usr/bin/env") :]
    assert inside == [
        *("/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", "/opt/tare/bin/python3.13"),
        *(f"{spec.directory}/payload/survey.py", "/"),
        *("--output", f"{spec.directory}/result.json", "--exclude", spec.directory),
    ]
    outside = " ".join(command[: command.index("/usr/bin/env")])
    assert form.path in outside
    assert f"{spec.directory}:{spec.directory}" in outside, "where the result is written"
    assert f"--pwd={spec.directory}" in outside, "a folder that every container has"
    assert archive.path in written(operation)


@pytest.mark.parametrize(
    ("state", "message", "why"),
    [
        (StagedImage.State.FAILED, "no room", "is not on cluster.*: no room"),
        (StagedImage.State.STAGING, "being sent", "is not on cluster.*: being sent"),
    ],
)
def test_no_form_is_made_of_an_archive_that_is_not_there(
    archive: StagedImage, form: StagedImage, state: str, message: str, why: str
) -> None:
    StagedImage.objects.filter(pk=archive.pk).update(state=state, message=message)
    with pytest.raises(NotPossible, match=why):
        make_operation_spec(requested("stage", form))


def test_no_form_is_made_of_an_archive_that_is_gone(form: StagedImage) -> None:
    with pytest.raises(NotPossible, match="it is gone"):
        make_operation_spec(requested("stage", form))


@pytest.mark.parametrize("kind", ["stage", "verify", "unstage"])
def test_what_left_the_catalogue_meanwhile_is_not_touched(kind: str, cluster: Cluster) -> None:
    operation = OperationFactory(kind=kind, staged_image=None, cluster=cluster)
    with pytest.raises(NotPossible, match="not in the catalogue any more"):
        make_operation_spec(operation)


@pytest.mark.parametrize("kind", ["stage", "verify"])
def test_a_form_that_no_runtime_starts_any_more_is_not_read(
    kind: str, archive: StagedImage, form: StagedImage, cluster: Cluster
) -> None:
    cluster.runtimes.filter(kind="apptainer").delete()
    with pytest.raises(NotPossible):
        make_operation_spec(requested(kind, form))


@pytest.mark.parametrize("kind", ["stage", "verify"])
def test_a_form_with_the_files_of_the_image_is_ready(kind: str, form: StagedImage) -> None:
    assert finish(requested(kind, form), record=left(inventory())) == ""
    form.refresh_from_db()
    assert (form.state, form.message, form.tree) == ("ready", "", TREE)
    assert form.verified_at is not None
    assert form.size_bytes == (1234 if kind == "stage" else None), "only who makes it weighs it"


@pytest.mark.parametrize("kind", ["stage", "verify"])
@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (
            inventory(OTHER_TREE, parts={"usr": "A", "etc": "b", "var": "d"}),
            "Its files are not those of the image. What differs lies in /opt, /usr, /var.",
        ),
        (
            inventory(OTHER_TREE, parts={"usr": "a", "etc": "b", "opt": "c"}),
            "Its files are not those of the image. What differs lies in somewhere.",
        ),
        (None, "Nothing could be read from its inside."),
    ],
)
def test_a_form_with_other_files_has_failed_and_says_where(
    kind: str, form: StagedImage, result: dict[str, Any] | None, problem: str
) -> None:
    assert finish(requested(kind, form), record=left(result)) == problem
    form.refresh_from_db()
    assert (form.state, form.message) == ("failed", problem)


def test_a_form_that_could_not_be_made_says_why(form: StagedImage) -> None:
    assert finish(requested("stage", form), "Making room: none", left(inventory())) == (
        "Making room: none"
    )
    form.refresh_from_db()
    assert (form.state, form.message) == ("failed", "Making room: none")


@pytest.mark.parametrize("kind", ["stage", "verify"])
def test_the_first_form_tells_what_is_in_an_image_that_nobody_has_read(
    kind: str, form: StagedImage, image: Image
) -> None:
    Image.objects.filter(pk=image.pk).update(tree="", facts={}, python_version="")
    assert finish(requested(kind, form), record=left(inventory(OTHER_TREE))) == ""
    image.refresh_from_db()
    assert (image.tree, image.python_version) == (OTHER_TREE, "3.13.5")
    form.refresh_from_db()
    assert (form.state, form.tree) == ("ready", OTHER_TREE)


def test_what_is_known_of_an_image_is_not_overwritten(form: StagedImage, image: Image) -> None:
    other_python = {"pythons": [PYTHON | {"version": "2.7.18"}]}
    finish(requested("verify", form), record=left(inventory() | other_python))
    image.refresh_from_db()
    assert image.python_version == ""


def test_a_form_is_verified_from_inside_its_container(form: StagedImage) -> None:
    spec = make_operation_spec(requested("verify", form))
    assert [step.doing for step in spec.steps] == ["Comparing its files with the image's"]
    assert spec.setup_lines == ("module load apptainer",)


def test_an_archive_is_verified_by_its_check_sum(archive: StagedImage) -> None:
    archive.sha256 = "ab" * 32
    archive.save()
    spec = make_operation_spec(requested("verify", archive))
    (step,) = spec.steps
    assert step.doing == "Reading the archive"
    assert list(step.argv)[-3:] == [archive.path, archive.sha256, "result.json"]
    assert list(step.argv)[:2] == ["sh", "-c"]


def test_an_archive_registered_by_hand_learns_its_check_sum(archive: StagedImage) -> None:
    assert finish(requested("verify", archive), record=left({"sha256": "cd" * 32})) == ""
    archive.refresh_from_db()
    assert (archive.state, archive.sha256, archive.tree) == ("ready", "cd" * 32, "")
    assert archive.verified_at is not None


def test_an_archive_that_was_changed_has_failed_and_keeps_its_check_sum(
    archive: StagedImage,
) -> None:
    StagedImage.objects.filter(pk=archive.pk).update(sha256="ab" * 32)
    problem = "Reading the archive: its sha256 is cd, it was ab"
    assert finish(requested("verify", archive), problem, left()) == problem
    archive.refresh_from_db()
    assert (archive.state, archive.message, archive.sha256) == ("failed", problem, "ab" * 32)


def test_a_check_that_never_ran_changes_nothing(form: StagedImage) -> None:
    StagedImage.objects.filter(pk=form.pk).update(state="ready", message="", verified_at=NOON)
    assert finish(requested("verify", form), "cancelled", read_record({})) == "cancelled"
    form.refresh_from_db()
    assert (form.state, form.message, form.verified_at) == ("ready", "", NOON)


def test_a_form_is_removed_by_what_starts_it_and_an_archive_by_its_path(
    archive: StagedImage, form: StagedImage, image: Image, cluster: Cluster
) -> None:
    (step,) = make_operation_spec(requested("unstage", archive)).steps
    assert list(step.argv) == ["rm", "-f", "--", archive.path]
    name = FORMATS["udocker"].choose_location(image.digest, "")
    container = StagedImageFactory(image=image, cluster=cluster, format="udocker", path=name)
    operation = requested("unstage", container)
    assert make_operation_spec(operation).setup_lines == ("module load u",)
    assert re.search(f"udocker.*{name}", written(operation), re.DOTALL)
    assert form.path in written(requested("unstage", form))


def test_a_container_that_tare_has_not_made_is_not_removed(image: Image, cluster: Cluster) -> None:
    row = StagedImageFactory(image=image, cluster=cluster, format="udocker", path="somebody-s")
    with pytest.raises(NotPossible, match="somebody-s was not staged by Tare"):
        make_operation_spec(requested("unstage", row))


def test_what_was_removed_is_neither_verified_nor_being_sent(form: StagedImage) -> None:
    StagedImage.objects.filter(pk=form.pk).update(
        state="removing", message="x", verified_at=NOON, sent_bytes=5
    )
    assert finish(requested("unstage", form)) == ""
    form.refresh_from_db()
    assert (form.state, form.message) == ("removed", "")
    assert (form.verified_at, form.sent_bytes) == (None, None)


def test_what_could_not_be_removed_says_so(form: StagedImage) -> None:
    assert finish(requested("unstage", form), "It is in use.") == "It is in use."
    form.refresh_from_db()
    assert (form.state, form.message) == ("failed", "Not removed. It is in use.")


@pytest.fixture
def changed_form(image: Image, cluster: Cluster) -> StagedImage:
    path = FORMATS["udocker"].choose_location(image.digest, cluster.images_folder, "F3")
    made: StagedImage = StagedImageFactory(
        image=image, cluster=cluster, format="udocker", mode="F3", path=path, state="staging"
    )
    return made


def test_a_form_whose_programs_udocker_changes_is_compared_before_it_does(
    archive: StagedImage, changed_form: StagedImage
) -> None:
    operation = requested("stage", changed_form)
    script = written(operation)
    # Not from inside, where programs are those that udocker has changed.
    assert "/opt/tare/bin/python3.13" not in script
    assert "before.json" in script
    assert "Noting which files udocker has changed" in script
    driver_files = ["/usr/bin/nvidia-smi"]
    result = inventory(changed_tree=OTHER_TREE, driver_files=driver_files)
    assert finish(operation, record=left(result)) == ""
    changed_form.refresh_from_db()
    assert (changed_form.state, changed_form.tree) == ("ready", TREE)
    assert (changed_form.changed_tree, changed_form.driver_files) == (OTHER_TREE, driver_files)


def test_a_form_that_was_others_before_udocker_changed_it_has_failed(
    changed_form: StagedImage,
) -> None:
    result = inventory(OTHER_TREE, changed_tree=TREE)
    problem = finish(requested("stage", changed_form), record=left(result))
    assert problem.startswith("Its files are not those of the image.")


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (OTHER_TREE, ""),
        (TREE, "Its files are not those any more that udocker made of the image's."),
        ("", "Nothing could be read from its inside."),
    ],
)
def test_a_changed_form_is_verified_by_what_it_was_after_the_change(
    changed_form: StagedImage, seen: str, problem: str
) -> None:
    StagedImage.objects.update(tree=TREE, changed_tree=OTHER_TREE, state="ready")
    result = inventory(seen) if seen else None
    assert finish(requested("verify", changed_form), record=left(result)) == problem
    changed_form.refresh_from_db()
    assert changed_form.state == ("failed" if problem else "ready")
    assert changed_form.tree == TREE, "that of the image's files, which nobody sees any more"
