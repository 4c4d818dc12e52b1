"""The software inventory of an image, in the order of its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.images.architectures import read_architecture
from experiments.models import Image, StagedImage
from experiments.natural_order import sort_items_naturally
from experiments.statistics import numbers

SOURCES = {"python": "Python", "conda": "conda", "spack": "Spack", "system": "system"}


@dataclass(frozen=True)
class Package:
    """A package of the image's software inventory."""

    name: str
    version: str
    source: str
    """Whose package it is: Python's, conda's, Spack's, the system's."""


@dataclass(frozen=True)
class Same:
    """The result of comparing a staged form's files with the image's."""

    state: str
    words: str


def search_packages(image: Image, search_text: str = "") -> list[Package]:
    """Return the packages whose names, versions and sources hold all words of `search_text`."""
    kept = image.facts.get("packages")
    by_source = kept if isinstance(kept, dict) else {"python": image.packages}
    search_words = search_text.lower().split()
    return [
        Package(name, version, SOURCES.get(source, source))
        for source, versions in sorted(by_source.items())
        for name, version in sort_items_naturally(versions)
        if all(word in f"{name} {version} {source}".lower() for word in search_words)
    ]


def describe_image(image: Image) -> Iterator[tuple[str, str]]:
    """Yield the names and values of an image's software, from inspection and catalogue."""
    facts = image.facts
    system = facts.get("system") or {}
    yield "Operating system", image.operating_system
    yield "Architecture", _words(read_architecture(image), system.get("libc"))
    yield "Python", image.python_version
    for python in facts.get("pythons") or []:
        count = len(python.get("packages") or ())
        path = f"/{python.get('path', '').lstrip('/')}"
        yield "", f"{path}: {python.get('version')}, {count} package{'s' * (count != 1)}"
    yield "Frameworks", image.framework
    yield "CUDA", image.cuda_version
    yield "cuDNN", image.cudnn_version
    yield "NCCL", facts.get("nccl") or ""
    yield "MPI", image.mpi
    yield "BLAS", _versions(facts.get("blas") or {})
    if "files" in facts:
        size = numbers.quantity(float(facts.get("bytes") or 0), "B", significant=3)
        yield "Files", f"{facts['files']:,}, together {size}"
    for problem in facts.get("not_read") or []:
        yield "Not read", problem


def compare_trees(image: Image, staged: StagedImage) -> Same:
    """Say whether the tree of a staged form is the image's own."""
    if not staged.tree:
        return Same("planned", "not inspected")
    if not image.tree:
        return Same("planned", "nothing to compare with")
    if staged.changed_tree and staged.tree == image.tree:
        return Same("yes", f"the same before {staged.format} changed some")
    return Same("yes", "the same") if staged.tree == image.tree else Same("no", "different")


def _words(*texts: str | None) -> str:
    return ", ".join(text for text in texts if text)


def _versions(versions: Mapping[str, Any]) -> str:
    rows = sort_items_naturally(versions)
    return ", ".join(f"{name} {version}".strip() for name, version in rows)
