"""The programs and libraries that a run's processes had loaded, as pages and comparisons read them.

`runners/payload/loaded.py` records them inside the environment. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN = 12
"""Letters of a check sum that are shown."""
MOST_LISTED = 100
NOTABLE = re.compile(
    r"blas|lapack|mkl|cuda|cudnn|cublas|nccl|nvidia|nvml|libmpi|tensorflow|torch|xla|libc\.|libm\."
)
"""In the names of libraries that are listed first."""
HOME = "under a home folder"


@dataclass(frozen=True)
class LoadedFile:
    """One file that a process of the run had mapped to be executed."""

    path: str
    soname: str = ""
    build_id: str = ""
    size_bytes: int | None = None
    sha256: str = ""
    ends_sha256: str = ""
    """In place of `sha256`: of its size and both ends, because it was not read whole."""
    mount: str = ""
    is_under_home: bool = False
    problem: str = ""

    @property
    def identity(self) -> str:
        """Return the check sum, or what else tells it from others; a file not read equals none."""
        if self.sha256:
            return f"sha256 {self.sha256[:SHOWN]}"
        if self.ends_sha256:
            return f"sha256 of its ends {self.ends_sha256[:SHOWN]}"
        return f"not read: {self.problem or 'no reason'}"

    @property
    def is_outside_image(self) -> bool:
        """Return whether it lies on a mount of its own: in a container, not in the image."""
        return bool(self.mount)


@dataclass(frozen=True)
class LoadedFiles:
    """All loaded files of a run, and what is to be noticed about them."""

    files: tuple[LoadedFile, ...]
    unlisted: int
    in_container: bool

    @property
    def under_home(self) -> list[LoadedFile]:
        return [file for file in self.files if file.is_under_home]

    @property
    def outside_image(self) -> list[LoadedFile]:
        """Return those that a container had from elsewhere than its image; none on bare metal."""
        return [file for file in self.files if self.in_container and file.is_outside_image]

    @property
    def not_whole(self) -> int:
        return sum(1 for file in self.files if file.ends_sha256)

    @property
    def listed(self) -> list[LoadedFile]:
        """Return at most MOST_LISTED: those to be noticed or not read, then those that matter."""
        unread = [file for file in self.files if file.problem]
        noticed = {file.path for file in (*self.under_home, *self.outside_image, *unread)}

        def order(file: LoadedFile) -> tuple[bool, bool, str]:
            name = file.soname or file.path.rpartition("/")[2]
            return file.path not in noticed, not NOTABLE.search(name), file.path

        return sorted(self.files, key=order)[:MOST_LISTED]

    def list_marks(self, file: LoadedFile) -> list[str]:
        """Return what is to be noticed of one of them, in words."""
        marks = [HOME] if file.is_under_home else []
        if self.in_container and file.is_outside_image:
            marks.append(f"outside the image, from {file.mount}")
        return marks


def read_loaded(inside: Mapping[str, Any], *, in_container: bool) -> LoadedFiles | None:
    """Return the loaded files of a snapshot from inside; None of one that does not know them."""
    content = inside.get("loaded")
    files = content.get("files") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(files, Mapping) or not files:
        return None
    unlisted = content.get("unlisted")
    return LoadedFiles(
        tuple(_read_file(path, facts) for path, facts in sorted(files.items())),
        unlisted if isinstance(unlisted, int) else 0,
        in_container,
    )


def _read_file(path: str, facts: Any) -> LoadedFile:
    facts = facts if isinstance(facts, Mapping) else {}
    texts = {
        name: str(facts.get(name) or "")
        for name in ("soname", "build_id", "sha256", "ends_sha256", "mount", "problem")
    }
    size = facts.get("bytes")
    return LoadedFile(
        path,
        size_bytes=size if isinstance(size, int) else None,
        is_under_home=bool(facts.get("home")),
        **texts,
    )


def shorten_loaded(inside: Mapping[str, Any]) -> dict[str, Any]:
    """Return a snapshot from inside with one text for each loaded file, for tables of facts."""
    loaded = read_loaded(inside, in_container=False)
    if loaded is None:
        return dict(inside)
    return {**inside, "loaded": {file.path: file.identity for file in loaded.files}}


def count_words(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 file", "3 files"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def describe_in_a_sentence(loaded: LoadedFiles) -> str:
    """Return how many files were loaded, and from where they are that one would not expect."""
    parts = [f"{count_words(len(loaded.files), 'program or library', 'programs and libraries')}"]
    places: Sequence[tuple[int, str]] = (
        (len(loaded.under_home), HOME),
        (len(loaded.outside_image), "from outside the image"),
        (loaded.not_whole, "with a check sum of size and both ends alone"),
        (loaded.unlisted, "more that are not listed"),
    )
    parts += [f"{count:,} {place}" for count, place in places if count]
    return ", ".join(parts) + "."
