"""The operations that install software: an image from a recipe, and its bare-metal counterpart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.execution.operations import (
    KINDS,
    LONGEST_SECONDS,
    NotPossible,
    OperationKind,
    Work,
    name_operation_directory,
    parse_result,
)
from experiments.execution.specs import split_lines
from experiments.images.image_imports import end_image_import
from experiments.images.inventory import find_interpreter
from experiments.models import (
    Cluster,
    Image,
    ImageImport,
    Operation,
    Runtime,
    SentFile,
    StagedImage,
)
from experiments.software import build_files, conda_files, inspections, own_trees, recipes
from runners import conda_builds
from runners.file_builds import (
    BUILD_FILE,
    LOCAL_BASE,
    SENT,
    add_debian_packages,
    build_definition,
    build_dockerfile,
    choose_definition_source,
    convert_sif,
    keep_archive,
    write_debian_file,
)
from runners.images import definition_files, dockerfiles
from runners.images.staging_steps import Source
from runners.jobs import EnvironmentSpec, Step
from runners.own_trees import MARK, lay_out_tree
from runners.recipes import LOCK, Place, build, match
from runners.records import Record
from runners.runtimes import RUNTIMES
from runners.shapes import BUILD, SOFTWARE

State = StagedImage.State
Kind = ImageImport.Kind
RESERVE_SECONDS = 120
"""What a job needs besides its build, to read and to move what was built."""


class Build(OperationKind):
    """Build an image: by a recipe, a Dockerfile or a definition file."""

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
        base = Source(row.base.kind, archive.path, row.base.digest)
        if row.kind == Kind.RECIPE:
            return _work_by_recipe(operation, row, base, row.base)
        return _work_by_file(operation, row, base)

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


def _make_place(operation: Operation, row: ImageImport) -> Place:
    """Return where a build works: of the same base and files it is the same folder."""
    of = [row.kind, row.base.digest if row.base else "", row.lock, row.packages, row.build_file]
    of += [row.conda_file] if row.conda_file else []
    name = recipes.compute_sha256(json.dumps([*of, row.sent_files], sort_keys=True))[:16]
    directory = operation.directory or name_operation_directory(operation)
    return Place(directory, operation.cluster.images_folder, f"build-{name}")


def _work_by_recipe(operation: Operation, row: ImageImport, base: Source, image: Image) -> Work:
    place, files = _make_place(operation, row), []
    labels = [f"tare.base={image.digest}"]
    if row.lock:
        labels.insert(0, f"tare.lock.sha256={recipes.compute_sha256(row.lock)}")
        files.append((LOCK, row.lock.encode()))
    base, before = _open_base(operation.cluster, base, place)
    setup_lines: tuple[str, ...] = ()
    if packages := row.packages.split():
        podman = _find_builder(operation.cluster, Kind.DOCKERFILE)
        seconds = _choose_seconds(operation)
        base, adding = add_debian_packages(base, place, _name_program(podman), seconds, labels)
        before = (*before, *adding)
        files.append((BUILD_FILE, write_debian_file(packages).encode()))
        setup_lines = split_lines(podman.setup_lines)
    if row.conda_file:
        wanted = conda_files.read_environment(row.conda_file)
        files += _make_conda_files({"pip": wanted.pip}, wanted.channels, wanted.specs)
    if not row.lock and not row.conda_file:
        return Work(keep_archive(base, place, before), tuple(files), setup_lines)
    runtime = recipes.find_starter(operation.cluster)
    if runtime is None:
        raise NotPossible(f"{operation.cluster} has nothing any more that starts a folder.")
    starter = EnvironmentSpec(
        label="the base",
        runtime=runtime.kind,
        executable=runtime.executable,
        options=tuple(runtime.options),
        python=recipes.find_python(image, has_packages=bool(packages)),
    )
    make_steps = conda_builds.build_conda if row.conda_file else build
    steps = make_steps(base, starter, place, labels, before)
    return Work(steps, tuple(files), (*setup_lines, *split_lines(runtime.setup_lines)))


def _make_conda_files(
    more: Mapping[str, Any], channels: Sequence[str], specs: Sequence[str]
) -> list[tuple[str, bytes]]:
    """Return the files by which a node installs packages of conda."""
    wanted = {"channels": channels, "specs": specs, **more}
    return [
        (conda_builds.ENVIRONMENT, json.dumps(wanted).encode()),
        (conda_builds.TOOL_LOCK, conda_builds.write_tool_lock().encode()),
    ]


def _work_by_file(operation: Operation, row: ImageImport, base: Source) -> Work:
    place, kind = _make_place(operation, row), Kind(row.kind)
    builder = _find_builder(operation.cluster, kind)
    program, seconds = _name_program(builder), _choose_seconds(operation)
    if kind == Kind.DOCKERFILE:
        labels = [f"tare.base={base.digest}"]
        base, before = _open_base(operation.cluster, base, place)
        steps = build_dockerfile(base, place, program, seconds, labels, before)
        text = dockerfiles.point_to(row.build_file, LOCAL_BASE)
    else:
        steps = build_definition(base, place, program, seconds)
        text = definition_files.point_to(row.build_file, *choose_definition_source(base, place))
    sent = SentFile.objects.contents(row.sent_files)
    files = [(f"{SENT}{name}", content) for name, content in sent.items()]
    return Work(steps, ((BUILD_FILE, text.encode()), *files), split_lines(builder.setup_lines))


def _open_base(cluster: Cluster, base: Source, place: Place) -> tuple[Source, tuple[Step, ...]]:
    """Return a base that is no SIF file, and the steps that make it. Raises NotPossible."""
    if base.kind != Image.Kind.SIF:
        return base, ()
    return convert_sif(base, place, _name_program(_find_builder(cluster, Kind.DEFINITION)))


def _find_builder(cluster: Cluster, kind: str) -> Runtime:
    builder = build_files.find_builder(cluster, kind)
    if builder is None:
        raise NotPossible(build_files.NO_BUILDER[Kind(kind)].format(cluster=cluster))
    return builder


def _name_program(runtime: Runtime) -> str:
    return runtime.executable or RUNTIMES[runtime.kind].command


def _choose_seconds(operation: Operation) -> int:
    """Return after how long the build is ended, so that its job can still say so."""
    row, partition = operation.image_import, operation.asked_partition()
    minutes = (row.limit_minutes if row else None) or build_files.DEFAULT_MINUTES
    seconds = min(minutes * 60, LONGEST_SECONDS - RESERVE_SECONDS)
    if partition is None:
        return seconds
    return max(30, min(seconds, partition.time_limit_minutes * 60 - RESERVE_SECONDS))


class Match(OperationKind):
    """Install an image's lock file on bare metal, and inspect the environment."""

    def work(self, operation: Operation) -> Work:
        image = operation.image
        if image is None:
            raise NotPossible("The image is gone.")
        folder = recipes.name_twin_folder(image, operation.cluster)
        directory = operation.directory or name_operation_directory(operation)
        if conda_lock := recipes.conda_lock_of(image):
            exact = conda_files.read_lock(conda_lock)
            more = {"exact": True, "pip_lock": exact.pip}
            files = _make_conda_files(more, exact.channels, exact.specs)
            return Work(conda_builds.match_conda(directory, folder), tuple(files))
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


class Tree(OperationKind):
    """Unpack an image, make its files an environment outside of a container, and inspect it."""

    def waits_for(self, operation: Operation) -> StagedImage | None:
        return operation.image.archive_on(operation.cluster) if operation.image else None

    def work(self, operation: Operation) -> Work:
        image, cluster = operation.image, operation.cluster
        if image is None:
            raise NotPossible("The image is gone.")
        archive = image.archive_on(cluster)
        if archive is None or archive.state != State.READY:
            why = archive.message if archive else "it is gone"
            raise NotPossible(f"The image’s archive is not on {cluster}: {why}")
        is_sif = image.kind == Image.Kind.SIF
        steps = lay_out_tree(
            Source(image.kind, archive.path, image.digest),
            operation.directory or name_operation_directory(operation),
            own_trees.name_tree_folder(image, cluster),
            find_interpreter(image.facts),
            interpreter=own_trees.name_interpreter(image, cluster),
            tree="" if is_sif else image.tree,
            apptainer=_name_program(_find_builder(cluster, Kind.DEFINITION)) if is_sif else "",
        )
        return Work(steps)

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        if problem or operation.image is None:
            return problem
        facts = parse_result(record, SOFTWARE)
        if facts.get("mark") != MARK:
            return "The tree was unpacked, but nothing could be read in it."
        tree = own_trees.keep_tree(operation.image, operation)
        inspections.keep_inspection(tree, facts, inspections.compute_fingerprint(tree), operation)
        return ""


KINDS[Operation.Kind.BUILD] = Build()
KINDS[Operation.Kind.MATCH] = Match()
KINDS[Operation.Kind.TREE] = Tree()
