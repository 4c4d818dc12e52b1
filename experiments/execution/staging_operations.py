"""The operations that put an image's forms on a cluster, verify them, and remove them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from experiments.execution.operations import (
    KINDS,
    NotPossible,
    OperationKind,
    Work,
    name_operation_directory,
    parse_result,
)
from experiments.execution.specs import split_lines
from experiments.images.inventory import find_interpreter, make_columns
from experiments.models import Image, Operation, Runtime, StagedImage
from experiments.models.images import ARCHIVE
from runners.errors import Refused
from runners.images.formats import FORMATS
from runners.images.staging_steps import Source
from runners.interpreters import NO_PYTHON
from runners.jobs import EnvironmentSpec, Step
from runners.records import Record
from runners.runtimes import RUNTIMES, Inside
from runners.shapes import FORM

State = StagedImage.State
RESULT = "result.json"


class Stage(OperationKind):
    """Make a form from the image's archive, once, and prove that it has the same files."""

    def waits_for(self, operation: Operation) -> StagedImage | None:
        row = get_staged_image(operation)
        return row.image.archive_on(operation.cluster)

    def work(self, operation: Operation) -> Work:
        row = get_staged_image(operation)
        archive = row.image.archive_on(operation.cluster)
        if archive is None or archive.state != State.READY:
            why = archive.message if archive else "it is gone"
            raise NotPossible(f"The image's archive is not on {operation.cluster}: {why}")
        source = Source(row.image.kind, archive.path, row.image.digest)
        cluster = operation.cluster
        try:
            staging = FORMATS[row.format].stage(
                source, cluster.images_folder, cluster.executables, row.mode
            )
        except Refused as refusal:
            raise NotPossible(str(refusal)) from None
        lines = split_lines(find_runtime(row).setup_lines)
        changes = FORMATS[row.format].list_change_steps(RESULT)
        steps = (*staging.steps, *plan_inspection(operation, row), *changes)
        return Work(steps, setup_lines=lines)

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row, inventory = get_staged_image(operation), parse_result(record, FORM)
        problem = problem or describe_difference(row.image, inventory)
        if problem:
            _update_row(row, state=State.FAILED, message=problem)
            return problem
        store_inventory(row.image, inventory)
        _update_row(
            row,
            state=State.READY,
            message="",
            tree=inventory["tree"],
            changed_tree=inventory.get("changed_tree", ""),
            driver_files=inventory.get("driver_files", []),
            size_bytes=inventory.get("bytes"),
            verified_at=timezone.now(),
        )
        return ""


class Verify(OperationKind):
    """Check again that the files of a form are those of the image."""

    def work(self, operation: Operation) -> Work:
        row = get_staged_image(operation)
        if row.format == ARCHIVE:
            command = ("sh", "-c", CHECK, "check", row.path, row.sha256, RESULT)
            return Work((Step("Reading the archive", command),))
        return Work(
            plan_inspection(operation, row), setup_lines=split_lines(find_runtime(row).setup_lines)
        )

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row, inventory = get_staged_image(operation), parse_result(record, FORM)
        if is_changed := bool(row.changed_tree) or changes_programs(row):
            # The row's tree is that of the files before the change.
            inventory["changed_tree"] = inventory.pop("tree", "")
            problem = problem or describe_later_change(row, inventory["changed_tree"])
        elif row.format != ARCHIVE and not problem:
            problem = describe_difference(row.image, inventory)
        if problem and record.exit_code is None:
            return problem  # nothing was checked: the earlier state stays
        if row.format != ARCHIVE and not problem and not is_changed:
            store_inventory(row.image, inventory)
        names = ("tree", "sha256", "changed_tree")
        checked = {name: inventory.get(name) or getattr(row, name) for name in names}
        state = State.FAILED if problem else State.READY
        _update_row(row, state=state, message=problem, verified_at=timezone.now(), **checked)
        return problem


class Unstage(OperationKind):
    """Remove a form from its cluster."""

    def work(self, operation: Operation) -> Work:
        row = get_staged_image(operation)
        if row.format == ARCHIVE:
            return Work((Step("Removing the archive", ("rm", "-f", "--", row.path)),))
        try:
            steps = FORMATS[row.format].unstage(row.path, operation.cluster.executables)
        except Refused as refusal:
            raise NotPossible(str(refusal)) from None
        return Work(steps, setup_lines=split_lines(find_runtime(row).setup_lines))

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row = get_staged_image(operation)
        if problem:
            _update_row(row, state=State.FAILED, message=f"Not removed. {problem}")
        else:
            _update_row(row, state=State.REMOVED, message="", verified_at=None, sent_bytes=None)
        return problem


# Check that an archive is the one that was sent, or learn the sha256 of one registered by hand.
# PATH SHA256 RESULT
CHECK = """found=$(sha256sum <"$1") || exit
found=${found%% *}
[ -z "$2" ] || [ "$found" = "$2" ] || { echo "its sha256 is $found, it was $2"; exit 1; }
printf '{"sha256": "%s"}' "$found" >"$3"
"""


def get_staged_image(operation: Operation) -> StagedImage:
    """Return the staged image that an operation is about. Raises NotPossible."""
    if operation.staged_image is None:
        raise NotPossible("What this was about is not in the catalogue any more.")
    return operation.staged_image


def find_runtime(row: StagedImage) -> Runtime:
    """Return the first of the cluster's runtimes that starts this form. Raises NotPossible."""
    for runtime in row.cluster.runtimes.order_by("pk"):
        if row.format in RUNTIMES[runtime.kind].formats:
            return runtime
    raise NotPossible(f"{row.cluster} has no runtime any more that starts {row.format}.")


def changes_programs(row: StagedImage) -> bool:
    """Return whether the runtime has changed the image's programs for the mode of this form."""
    return row.format in FORMATS and FORMATS[row.format].changes_programs(row.mode)


def plan_inspection(operation: Operation, row: StagedImage) -> tuple[Step, ...]:
    """Return the step that reads the form's files from inside a container, as programs see them.

    Of an image without Python the node's own reads them, from outside.
    """
    runtime = find_runtime(row)
    directory = name_operation_directory(operation)
    doing, script = "Comparing its files with the image's", FORMATS[row.format].read_outside
    interpreter = find_interpreter(row.image.facts)
    from_outside = interpreter == NO_PYTHON or changes_programs(row)
    if from_outside and script:
        executable = runtime.executable or RUNTIMES[runtime.kind].command
        return (Step(doing, ("sh", "-c", script, executable, row.path, RESULT)),)
    environment = EnvironmentSpec(
        label=str(row),
        runtime=runtime.kind,
        executable=runtime.executable,
        options=tuple(runtime.options),
        mode=row.mode,
        image_format=row.format,
        image_path=row.path,
    )
    inside = Inside(environment, directory, binds=(directory,))
    program = (
        *("/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", interpreter),
        *(f"{directory}/payload/survey.py", "/", "--output", f"{directory}/{RESULT}"),
        *("--exclude", directory),
    )
    launcher = RUNTIMES[runtime.kind]().wrap(inside)
    return (Step(doing, (*launcher, *program)),)


def store_inventory(image: Image, inventory: dict[str, object]) -> None:
    """Store an image's inventory if it has none: a SIF file, or one registered by hand."""
    if not image.tree:
        Image.objects.filter(pk=image.pk, tree="").update(**make_columns(inventory))


def describe_difference(image: Image, inventory: dict[str, Any]) -> str:
    """Return a sentence on what differs between an image and one of its forms; "" if nothing."""
    if not inventory.get("tree"):
        return "Nothing could be read from its inside."
    if not image.tree or inventory["tree"] == image.tree:
        return ""
    image_parts, form_parts = image.facts.get("parts") or {}, inventory.get("parts") or {}
    differing = sorted(
        name
        for name in image_parts.keys() | form_parts.keys()
        if image_parts.get(name) != form_parts.get(name)
    )
    paths = ", ".join(f"/{part}" for part in differing) or "somewhere"
    return f"Its files are not those of the image. What differs lies in {paths}."


def describe_later_change(row: StagedImage, changed_tree: str) -> str:
    """Return what is wrong with a form whose files the runtime has changed; "" if nothing."""
    if not changed_tree:
        return "Nothing could be read from its inside."
    if row.changed_tree in ("", changed_tree):
        return ""
    return f"Its files are not those any more that {row.format} made of the image's."


def _update_row(row: StagedImage, **columns: object) -> None:
    StagedImage.objects.filter(pk=row.pk).update(**columns)


KINDS[Operation.Kind.STAGE] = Stage()
KINDS[Operation.Kind.VERIFY] = Verify()
KINDS[Operation.Kind.UNSTAGE] = Unstage()
