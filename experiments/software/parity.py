"""Software parity: where the software of two environments differs. Pure functions.

The facts come from `runners/payload/software.py`, which runs inside each environment with the
interpreter that the runs will have. A run's snapshot has most of them too, under the same names.

The operating system and its packages are not compared: they are what an image is made of. Libraries
are compared only where a package is installed that uses them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.confounder_table import Grade, read_table
from experiments.natural_order import make_natural_key

Facts = Mapping[str, Any]


GRADES = {
    Grade.BLOCKING: "it computes: the comparison would measure it together with the container",
    Grade.LIKELY: "it may be loaded by the program, or compiled otherwise",
    Grade.COSMETIC: "no run loads it",
}
NONE = "none"
"""Stands for the version of something that is not installed."""

# Library -> the packages that use it.
USED_BY = {
    "CUDA": re.compile(
        r"tensorflow(-gpu|-rocm)?|tf-nightly|torch|pytorch|jaxlib|jax-cuda.*|cupy.*|mxnet.*"
    ),
    "MPI": re.compile(r"mpi4py|horovod|deepspeed"),
    "BLAS": re.compile(r"numpy|scipy"),
}
LIBRARIES = {"CUDA": "CUDA", "cuDNN": "CUDA", "NCCL": "CUDA", "MPI": "MPI", "BLAS": "BLAS"}
# Options of Python's `configure` that name folders or files: they change no number.
FOLDER_OPTIONS = re.compile(
    r"--?(prefix|exec[-_]prefix|.*dir|build|host|target|with-ensurepip|with-wheel-pkg-dir"
    r"|program-suffix|cache-file|srcdir|with-openssl)(=.*)?"
)
FOLDERS_IN_FLAGS = re.compile(
    r"-f(file|debug|macro)-prefix-map=\S+|(-[LI]|-Wl,-rpath[,=]|-isystem ?)/\S*"
)


@dataclass(frozen=True)
class Difference:
    """One row of a parity report: what the baseline has of one thing, and what the environment."""

    what: str
    on_baseline: str
    in_environment: str
    grade: Grade

    @property
    def effect(self) -> str:
        return GRADES[self.grade]

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.on_baseline} on the baseline, {self.in_environment} here"


def list_differences(baseline: Facts, environment: Facts) -> list[Difference]:
    """Return the differences between two environments' software, the gravest first."""
    return sorted(
        (
            *_compare_python(baseline, environment),
            *_compare_packages(baseline, environment),
            *_compare_libraries(baseline, environment),
            *_compare_builds(baseline, environment),
        ),
        key=lambda row: (list(Grade).index(row.grade), make_natural_key(row.what)),
    )


def count_by_grade(rows: Iterable[Difference]) -> dict[Grade, int]:
    """Return the number of differences by grade, without grades that do not occur."""
    grades = [row.grade for row in rows]
    return {grade: grades.count(grade) for grade in Grade if grade in grades}


def list_packages(facts: Facts) -> dict[str, str]:
    """Return the version of each Python package by its name as PEP 503 spells it."""
    listed = facts.get("packages") or {}
    return {re.sub(r"[-_.]+", "-", name).lower(): str(version) for name, version in listed.items()}


def list_libraries(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each library, and of what each framework was built with."""
    for library in LIBRARIES:
        yield library, _text(facts.get(library.lower()))
    for name, build in sorted((facts.get("builds") or {}).items()):
        yield f"{name}’s build", _describe_build(build)


def grade_package(name: str) -> Grade:
    """Return how grave a difference in this package is, by docs/confounders.md."""
    row = read_table().find_in_group("packages", name)
    return row.grade if row and row.grade else Grade.LIKELY


def _compare_python(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    baseline_python, environment_python = (
        baseline.get("python") or {},
        environment.get("python") or {},
    )
    for key, what in (("version", "Python"), ("implementation", "Python’s implementation")):
        yield from _compare_value(
            what, baseline_python.get(key), environment_python.get(key), Grade.BLOCKING
        )
    yield from _compare_value(
        "architecture", baseline.get("machine"), environment.get("machine"), Grade.BLOCKING
    )
    yield from _compare_value(
        "Python’s compiler",
        baseline_python.get("compiler"),
        environment_python.get("compiler"),
        Grade.LIKELY,
    )
    if "build_flags" in baseline_python and "build_flags" in environment_python:
        baseline_flags, environment_flags = (
            _flags(baseline_python["build_flags"]),
            _flags(environment_python["build_flags"]),
        )
        only_here, only_there = (
            " ".join(sorted(baseline_flags - environment_flags)),
            " ".join(sorted(environment_flags - baseline_flags)),
        )
        yield from _compare_value("Python’s build flags", only_here, only_there, Grade.LIKELY)


def _compare_packages(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    baseline_versions, environment_versions = list_packages(baseline), list_packages(environment)
    for name in baseline_versions.keys() | environment_versions.keys():
        yield from _compare_value(
            name,
            baseline_versions.get(name),
            environment_versions.get(name),
            grade_package(name),
        )


def _compare_libraries(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    installed = list_packages(baseline).keys() | list_packages(environment).keys()
    for library, kind in LIBRARIES.items():
        if any(USED_BY[kind].fullmatch(name) for name in installed):
            key = library.lower()
            yield from _compare_value(
                library, baseline.get(key), environment.get(key), Grade.BLOCKING
            )


def _compare_builds(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    """Compare what frameworks were built with, where both environments have the framework."""
    baseline_builds, environment_builds = (
        baseline.get("builds") or {},
        environment.get("builds") or {},
    )
    for name in baseline_builds.keys() & environment_builds.keys():
        for key in baseline_builds[name].keys() | environment_builds[name].keys():
            baseline_value, environment_value = (
                baseline_builds[name].get(key),
                environment_builds[name].get(key),
            )
            yield from _compare_value(
                f"{name}’s build: {key}", baseline_value, environment_value, Grade.LIKELY
            )


def _compare_value(
    what: str, baseline_value: Any, environment_value: Any, grade: Grade
) -> Iterator[Difference]:
    baseline_text, environment_text = _text(baseline_value), _text(environment_value)
    if baseline_text != environment_text:
        yield Difference(what, baseline_text or NONE, environment_text or NONE, grade)


def _flags(text: str) -> set[str]:
    """Return the options of `configure` that can change what Python computes, or how fast."""
    try:
        options = shlex.split(text)
    except ValueError:
        options = text.split()
    cleaned = [" ".join(FOLDERS_IN_FLAGS.sub("", option).split()) for option in options]
    return {
        option
        for option in cleaned
        if option and not option.endswith("=") and not FOLDER_OPTIONS.fullmatch(option)
    }


def _describe_build(build: Mapping[str, Any]) -> str:
    """Return what a framework was built with; a value that begins with its own key once."""
    parts = []
    for key, value in sorted(build.items()):
        text = _text(value)
        is_named = text.casefold().split()[:1] == [key.casefold()]
        parts.append(text if is_named else f"{key} {text}".strip())
    return ", ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}".strip() for key, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else str(value)
