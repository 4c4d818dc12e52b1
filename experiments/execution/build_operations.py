"""The operations that install software: an image from a recipe, and its bare-metal counterpart."""

from __future__ import annotations

from experiments.execution.operations import (
    KINDS,
    NotPossible,
    OperationKind,
    Work,
    name_operation_directory,
    parse_result,
)
from experiments.execution.specs import split_lines
from experiments.images.image_imports import end_image_import
from experiments.models import Operation, StagedImage
from experiments.software import inspections, recipes
from runners.images.staging_steps import Source
from runners.jobs import EnvironmentSpec
from runners.recipes import LOCK, build, match
from runners.records import Record
from runners.shapes import BUILD, SOFTWARE

State = StagedImage.State


class Build(OperationKind):
    """Unpack a base, install the packages of a lock file into it, and pack an image."""

    def waits_for(self, operation: Operation) -> StagedImage | None:
        base = operation.image_import.base if operation.image_import else None
        return base.archive_on(operation.cluster) if base else None

    def work(self, operation: Operation) -> Work:
        row = operation.image_import
        if row is None or row.base is None:
            raise NotPossible("The recipe is gone.")
        archive = row.base.archive_on(operation.cluster)
        if archive is None or archive.state != State.READY:
            why = archive.message if archive else "it is gone"
            raise NotPossible(f"The base’s archive is not on {operation.cluster}: {why}")
        runtime = recipes.find_starter(operation.cluster)
        if runtime is None:
            raise NotPossible(f"{operation.cluster} has nothing any more that starts a folder.")
        starter = EnvironmentSpec(
            label="the base",
            runtime=runtime.kind,
            executable=runtime.executable,
            options=tuple(runtime.options),
            python=recipes.find_python(row.base),
        )
        lock = recipes.compute_sha256(row.lock)
        steps = build(
            Source(row.base.kind, archive.path, row.base.digest),
            starter,
            operation.directory or name_operation_directory(operation),
            operation.cluster.images_folder,
            f"build-{recipes.compute_sha256(row.base.digest + lock)[:16]}",
            [f"tare.lock.sha256={lock}", f"tare.base={row.base.digest}"],
        )
        return Work(steps, ((LOCK, row.lock.encode()),), split_lines(runtime.setup_lines))

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        if operation.image_import is None:
            return problem
        built = parse_result(record, BUILD)
        if not problem and not built:
            problem = "The build ended well, but left nothing that can be read."
        if problem:
            end_image_import(operation.image_import, problem=problem)
        else:
            recipes.keep_image(operation, built)
        return problem


class Match(OperationKind):
    """Install an image's lock file on bare metal, and inspect the environment."""

    def work(self, operation: Operation) -> Work:
        image = operation.image
        if image is None:
            raise NotPossible("The image is gone.")
        folder = recipes.name_twin_folder(image, operation.cluster)
        directory = operation.directory or name_operation_directory(operation)
        lock = recipes.lock_of(image).encode()
        return Work(match(image.python_version, directory, folder), ((LOCK, lock),))

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        if problem or operation.image is None:
            return problem
        facts = parse_result(record, SOFTWARE)
        if facts.get("mark") != "match":
            return "The environment was made, but nothing could be read in it."
        twin = recipes.keep_twin(operation.image, operation)
        inspections.keep_inspection(twin, facts, inspections.compute_fingerprint(twin), operation)
        return ""


KINDS[Operation.Kind.BUILD] = Build()
KINDS[Operation.Kind.MATCH] = Match()
