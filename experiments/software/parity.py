"""Whether two environments hold the same software. Pure: what was read in each, compared by rows.

What is read is what `runners/payload/software.py` writes, which runs inside each environment with
the interpreter that the runs will have. A run's snapshot has most of it too, under the same names.

The operating system and its packages are not compared: they are what an image is made of. Libraries
are compared where something is installed that uses them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Facts = Mapping[str, Any]


class Grade(StrEnum):
    """How much a difference can do to the numbers."""

    BLOCKING = "blocking"
    LIKELY = "likely"
    COSMETIC = "cosmetic"


GRADES = {
    Grade.BLOCKING: "it computes: the comparison would measure it together with the container",
    Grade.LIKELY: "it may be loaded by the program, or compiled otherwise",
    Grade.COSMETIC: "no run loads it",
}
NONE = "none"
"""What a side has that lacks something."""

# What computes, and what makes it compute: names of packages, PEP 503.
FRAMEWORKS = re.compile(
    r"tensorflow(-.*)?|tf-.*|keras|torch(-.*|vision|audio)?|pytorch.*|triton|jax(lib)?|jax-.*"
    r"|mxnet.*|horovod|cupy.*|numpy|scipy|numba|llvmlite|mkl(-.*)?|intel-openmp|scipy-openblas.*"
    r"|nvidia-.*|cuda-.*|cudatoolkit|cudnn|nccl|xla.*|onnxruntime.*|deepspeed|mpi4py|ml-dtypes"
)
TOOLS = re.compile(
    r"pip|setuptools|wheel|uv|virtualenv|distlib|platformdirs|filelock|build|pyproject-hooks"
    r"|pip-tools|certifi|pytest.*|pluggy|iniconfig|coverage|ruff|mypy.*|black|flake8|ipython.*"
    r"|jupyter.*|notebook|tensorboard.*|python-apt|distro-info|unattended-upgrades|ssh-import-id"
)
# A library -> the packages that use it.
USERS = {
    "CUDA": re.compile(
        r"tensorflow(-gpu|-rocm)?|tf-nightly|torch|pytorch|jaxlib|jax-cuda.*|cupy.*|mxnet.*"
    ),
    "MPI": re.compile(r"mpi4py|horovod|deepspeed"),
    "BLAS": re.compile(r"numpy|scipy"),
}
LIBRARIES = {"CUDA": "CUDA", "cuDNN": "CUDA", "NCCL": "CUDA", "MPI": "MPI", "BLAS": "BLAS"}
# Of Python's `configure`: folders and names, which change no number.
PLACES = re.compile(
    r"--?(prefix|exec[-_]prefix|.*dir|build|host|target|with-ensurepip|with-wheel-pkg-dir"
    r"|program-suffix|cache-file|srcdir|with-openssl)(=.*)?"
)
FOLDERS = re.compile(r"-f(file|debug|macro)-prefix-map=\S+|(-[LI]|-Wl,-rpath[,=]|-isystem ?)/\S*")


@dataclass(frozen=True)
class Difference:
    """One row of the passport: what each side has of one thing."""

    what: str
    here: str
    """On the baseline."""
    there: str
    grade: Grade

    @property
    def effect(self) -> str:
        return GRADES[self.grade]

    @property
    def words(self) -> str:
        return f"{self.what}: {self.here} on the baseline, {self.there} here"


def differences(baseline: Facts, environment: Facts) -> list[Difference]:
    """Return where two environments differ, the gravest first; empty if they hold the same."""
    return sorted(
        (
            *_python(baseline, environment),
            *_packages(baseline, environment),
            *_libraries(baseline, environment),
            *_builds(baseline, environment),
        ),
        key=lambda row: (list(Grade).index(row.grade), row.what),
    )


def counts(rows: Iterable[Difference]) -> dict[Grade, int]:
    """Return how many there are of each grade, of those that there are."""
    found = [row.grade for row in rows]
    return {grade: found.count(grade) for grade in Grade if grade in found}


def packages(facts: Facts) -> dict[str, str]:
    """Return version by name, spelled as PEP 503 has it."""
    listed = facts.get("packages") or {}
    return {re.sub(r"[-_.]+", "-", name).lower(): str(version) for name, version in listed.items()}


def libraries(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the libraries that were found, and what frameworks were built with, by their names."""
    for library in LIBRARIES:
        yield library, _text(facts.get(library.lower()))
    for name, build in sorted((facts.get("builds") or {}).items()):
        yield f"{name}’s build", _text(build)


def grade_of_package(name: str) -> Grade:
    if FRAMEWORKS.fullmatch(name):
        return Grade.BLOCKING
    return Grade.COSMETIC if TOOLS.fullmatch(name) else Grade.LIKELY


def _python(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    ours, theirs = baseline.get("python") or {}, environment.get("python") or {}
    for key, what in (("version", "Python"), ("implementation", "Python’s implementation")):
        yield from _row(what, ours.get(key), theirs.get(key), Grade.BLOCKING)
    yield from _row(
        "architecture", baseline.get("machine"), environment.get("machine"), Grade.BLOCKING
    )
    yield from _row("Python’s compiler", ours.get("compiler"), theirs.get("compiler"), Grade.LIKELY)
    if "build_flags" in ours and "build_flags" in theirs:
        here, there = _flags(ours["build_flags"]), _flags(theirs["build_flags"])
        only_here, only_there = " ".join(sorted(here - there)), " ".join(sorted(there - here))
        yield from _row("Python’s build flags", only_here, only_there, Grade.LIKELY)


def _packages(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    ours, theirs = packages(baseline), packages(environment)
    for name in ours.keys() | theirs.keys():
        yield from _row(name, ours.get(name), theirs.get(name), grade_of_package(name))


def _libraries(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    installed = packages(baseline).keys() | packages(environment).keys()
    for library, kind in LIBRARIES.items():
        if any(USERS[kind].fullmatch(name) for name in installed):
            key = library.lower()
            yield from _row(library, baseline.get(key), environment.get(key), Grade.BLOCKING)


def _builds(baseline: Facts, environment: Facts) -> Iterator[Difference]:
    """Where both have a framework: what each was built with, as far as its files tell it."""
    ours, theirs = baseline.get("builds") or {}, environment.get("builds") or {}
    for name in ours.keys() & theirs.keys():
        for key in ours[name].keys() | theirs[name].keys():
            here, there = ours[name].get(key), theirs[name].get(key)
            yield from _row(f"{name}’s build: {key}", here, there, Grade.LIKELY)


def _row(what: str, here: Any, there: Any, grade: Grade) -> Iterator[Difference]:
    ours, theirs = _text(here), _text(there)
    if ours != theirs:
        yield Difference(what, ours or NONE, theirs or NONE, grade)


def _flags(text: str) -> set[str]:
    """The options of `configure` that can change what Python computes, or how fast."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    kept = [" ".join(FOLDERS.sub("", word).split()) for word in words]
    return {word for word in kept if word and not word.endswith("=") and not PLACES.fullmatch(word)}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}".strip() for key, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else str(value)
