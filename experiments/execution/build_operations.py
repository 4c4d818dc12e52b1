"""The operations that install software: an image from a recipe, and its bare-metal counterpart."""

from __future__ import annotations

from experiments.execution.operations import (
    KINDS,
    ChoreKind,
    NotPossible,
    Work,
    chore_directory,
    parse_result,
)
from experiments.execution.specs import lines_of
from experiments.images.image_imports import end_arrival
from experiments.models import Chore, StagedImage
from experiments.software import parity_reports, recipes
from runners.images.formats import Source
from runners.jobs import EnvironmentSpec
from runners.recipes import LOCK, build, match
from runners.records import Record
from runners.shapes import BUILD, SOFTWARE

State = StagedImage.State


class Build(ChoreKind):
    """Unpack a base, install the packages of a lock file into it, and pack an image."""

    def waits_for(self, chore: Chore) -> StagedImage | None:
        base = chore.arrival.base if chore.arrival else None
        return base.archive_on(chore.cluster) if base else None

    def work(self, chore: Chore) -> Work:
        row = chore.arrival
        if row is None or row.base is None:
            raise NotPossible("The recipe is gone.")
        archive = row.base.archive_on(chore.cluster)
        if archive is None or archive.state != State.READY:
            why = archive.message if archive else "it is gone"
            raise NotPossible(f"The base’s archive is not on {chore.cluster}: {why}")
        runtime = recipes.find_starter(chore.cluster)
        if runtime is None:
            raise NotPossible(f"{chore.cluster} has nothing any more that starts a folder.")
        starter = EnvironmentSpec(
            label="the base",
            runtime=runtime.kind,
            executable=runtime.executable,
            options=tuple(runtime.options),
            python=recipes.python_of(row.base),
        )
        lock = recipes.sha256(row.lock)
        steps = build(
            Source(row.base.kind, archive.path, row.base.digest),
            starter,
            chore.directory or chore_directory(chore),
            chore.cluster.images_folder,
            f"build-{recipes.sha256(row.base.digest + lock)[:16]}",
            [f"tare.lock.sha256={lock}", f"tare.base={row.base.digest}"],
        )
        return Work(steps, ((LOCK, row.lock.encode()),), lines_of(runtime.setup_lines))

    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        if chore.arrival is None:
            return problem
        built = parse_result(record, BUILD)
        if not problem and not built:
            problem = "The build ended well, but left nothing that can be read."
        if problem:
            end_arrival(chore.arrival, problem=problem)
        else:
            recipes.keep_image(chore, built)
        return problem


class Match(ChoreKind):
    """Install an image's lock file on bare metal, and inspect the environment."""

    def work(self, chore: Chore) -> Work:
        image = chore.image
        if image is None:
            raise NotPossible("The image is gone.")
        folder = recipes.twin_folder(image, chore.cluster)
        directory = chore.directory or chore_directory(chore)
        lock = recipes.lock_of(image).encode()
        return Work(match(image.python_version, directory, folder), ((LOCK, lock),))

    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        if problem or chore.image is None:
            return problem
        facts = parse_result(record, SOFTWARE)
        if facts.get("mark") != "match":
            return "The environment was made, but nothing could be read in it."
        twin = recipes.keep_twin(chore.image, chore)
        parity_reports.keep_survey(twin, facts, parity_reports.fingerprint(twin), chore)
        return ""


KINDS[Chore.Kind.BUILD] = Build()
KINDS[Chore.Kind.MATCH] = Match()
