"""The chores that put an image's forms on a cluster, look at them again, and remove them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from experiments.execution.operations import (
    KINDS,
    ChoreKind,
    NotPossible,
    Work,
    chore_directory,
    result_of,
)
from experiments.execution.specs import lines_of
from experiments.images.inventory import columns, interpreter
from experiments.models import Chore, Image, Runtime, StagedImage
from experiments.models.images import ARCHIVE
from runners.errors import Refused
from runners.images.formats import FORMATS, Source
from runners.jobs import EnvironmentSpec, Step
from runners.records import Record
from runners.runtimes import RUNTIMES, Inside
from runners.shapes import FORM

State = StagedImage.State
RESULT = "result.json"


class Stage(ChoreKind):
    """Make a form from the image's archive, once, and prove that it has the same files."""

    def waits_for(self, chore: Chore) -> StagedImage | None:
        row = form_of(chore)
        return row.image.archive_on(chore.cluster)

    def work(self, chore: Chore) -> Work:
        row = form_of(chore)
        archive = row.image.archive_on(chore.cluster)
        if archive is None or archive.state != State.READY:
            why = archive.message if archive else "it is gone"
            raise NotPossible(f"The image's archive is not on {chore.cluster}: {why}")
        source = Source(row.image.kind, archive.path, row.image.digest)
        cluster = chore.cluster
        try:
            made = FORMATS[row.format].stage(
                source, cluster.images_folder, cluster.executables, row.mode
            )
        except Refused as refusal:
            raise NotPossible(str(refusal)) from None
        lines = lines_of(starter(row).setup_lines)
        return Work((*made.steps, *survey(chore, row)), setup_lines=lines)

    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        row, found = form_of(chore), result_of(record, FORM)
        problem = problem or difference(row.image, found)
        if problem:
            _write(row, state=State.FAILED, message=problem)
            return problem
        learn(row.image, found)
        _write(
            row,
            state=State.READY,
            message="",
            tree=found["tree"],
            size_bytes=found.get("bytes"),
            verified_at=timezone.now(),
        )
        return ""


class Verify(ChoreKind):
    """Look again whether the files are those of the image."""

    def work(self, chore: Chore) -> Work:
        row = form_of(chore)
        if row.format == ARCHIVE:
            command = ("sh", "-c", CHECK, "check", row.path, row.sha256, RESULT)
            return Work((Step("Reading the archive", command),))
        return Work(survey(chore, row), setup_lines=lines_of(starter(row).setup_lines))

    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        row, found = form_of(chore), result_of(record, FORM)
        if row.format != ARCHIVE and not problem:
            problem = difference(row.image, found)
        if problem and record.exit_code is None:
            return problem  # nobody has looked: what was known before stays
        if row.format != ARCHIVE and not problem:
            learn(row.image, found)
        known = {name: found.get(name) or getattr(row, name) for name in ("tree", "sha256")}
        state = State.FAILED if problem else State.READY
        _write(row, state=state, message=problem, verified_at=timezone.now(), **known)
        return problem


class Unstage(ChoreKind):
    """Remove a form from its cluster."""

    def work(self, chore: Chore) -> Work:
        row = form_of(chore)
        if row.format == ARCHIVE:
            return Work((Step("Removing the archive", ("rm", "-f", "--", row.path)),))
        try:
            steps = FORMATS[row.format].unstage(row.path, chore.cluster.executables)
        except Refused as refusal:
            raise NotPossible(str(refusal)) from None
        return Work(steps, setup_lines=lines_of(starter(row).setup_lines))

    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        row = form_of(chore)
        if problem:
            _write(row, state=State.FAILED, message=f"Not removed. {problem}")
        else:
            _write(row, state=State.REMOVED, message="", verified_at=None, sent_bytes=None)
        return problem


# Say whether an archive is what was sent; of one that was registered by hand, what it is.
# PATH SHA256 RESULT
CHECK = """found=$(sha256sum <"$1") || exit
found=${found%% *}
[ -z "$2" ] || [ "$found" = "$2" ] || { echo "its sha256 is $found, it was $2"; exit 1; }
printf '{"sha256": "%s"}' "$found" >"$3"
"""


def form_of(chore: Chore) -> StagedImage:
    if chore.staged_image is None:
        raise NotPossible("What this was about is not in the catalogue any more.")
    return chore.staged_image


def starter(row: StagedImage) -> Runtime:
    """The first of the cluster's runtimes that starts this form. Raises NotPossible."""
    for runtime in row.cluster.runtimes.order_by("pk"):
        if row.format in RUNTIMES[runtime.kind].formats:
            return runtime
    raise NotPossible(f"{row.cluster} has no runtime any more that starts {row.format}.")


def survey(chore: Chore, row: StagedImage) -> tuple[Step, ...]:
    """Look at the files from the inside, where programs will see them."""
    runtime = starter(row)
    directory = chore_directory(chore)
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
        *("/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", interpreter(row.image.facts)),
        *(f"{directory}/payload/survey.py", "/", "--output", f"{directory}/{RESULT}"),
        *("--exclude", directory),
    )
    wall = RUNTIMES[runtime.kind]().wrap(inside)
    return (Step("Comparing its files with the image's", (*wall, *program)),)


def learn(image: Image, found: dict[str, object]) -> None:
    """Write down what is inside, where nobody knew: of a SIF file, or one registered by hand."""
    if not image.tree:
        Image.objects.filter(pk=image.pk, tree="").update(**columns(found))


def difference(image: Image, found: dict[str, Any]) -> str:
    """What differs between an image and what was found in one of its forms; empty if nothing."""
    if not found.get("tree"):
        return "Nothing could be read from its inside."
    if not image.tree or found["tree"] == image.tree:
        return ""
    mine, its = image.facts.get("parts") or {}, found.get("parts") or {}
    parts = sorted(name for name in mine.keys() | its.keys() if mine.get(name) != its.get(name))
    where = ", ".join(f"/{part}" for part in parts) or "somewhere"
    return f"Its files are not those of the image. What differs lies in {where}."


def _write(row: StagedImage, **columns: object) -> None:
    StagedImage.objects.filter(pk=row.pk).update(**columns)


KINDS[Chore.Kind.STAGE] = Stage()
KINDS[Chore.Kind.VERIFY] = Verify()
KINDS[Chore.Kind.UNSTAGE] = Unstage()
