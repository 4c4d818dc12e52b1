"""The base classes of formats: files of the work directory, and names in a runtime's own store."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from runners.errors import Refused
from runners.images import scripts
from runners.images.staging_steps import UNPACK, Source, parse_hex_digest
from runners.jobs import Step
from runners.runtimes import RUNTIMES


@dataclass(frozen=True)
class Staging:
    """The steps that make one form. `location` becomes EnvironmentSpec.image_path."""

    location: str
    needs: tuple[str, ...]  # programs that the node must have
    steps: tuple[Step, ...]


class Format(ABC):
    """One form of images on a cluster.

    `tools` are the cluster's runtimes: kind -> executable, empty for the usual name on PATH. The
    format chooses the one that makes the form, so a new runtime needs nothing here.
    """

    label: ClassVar[str]
    made_by: ClassVar[tuple[str, ...]] = ()  # kinds of runtimes that can make it, the best first
    by_mode: ClassVar[bool] = False  # each mode of the runtime changes it and needs its own form
    on_node: ClassVar[bool] = False  # each node stores it for itself
    read_outside: ClassVar[str] = ""
    """The script by which the node's Python reads its files; empty: only the image's own can."""
    by_site: ClassVar[str] = ""  # why Tare does not make it; then making and removing it is refused

    def changes_programs(self, mode: str) -> bool:
        """Return whether the runtime changes the image's programs for this mode."""
        return False

    def list_change_steps(self, result: str) -> list[Step]:
        """Return the steps that add to the survey what making the form changed, if anything."""
        return []

    @abstractmethod
    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        """Return the path of an image's form below `folder`, or its name in a store."""

    @abstractmethod
    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        """Return the steps; `executable` is that of the first in `made_by` that the cluster has."""

    @abstractmethod
    def is_made_by_tare(self, location: str) -> bool:
        """Return whether Tare has made the form at this place, by its path or name."""

    @abstractmethod
    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        """Return the steps that remove it, and do nothing if it is gone."""

    def stage(
        self, source: Source, folder: str, tools: Mapping[str, str], mode: str = ""
    ) -> Staging:
        """Return how to make an image's form below `folder`, an absolute path. Raises Refused."""
        executable = self.find_maker(tools, source)
        location = self.choose_location(source.digest, folder, mode)
        steps = tuple(self.list_making_steps(source, location, executable, mode))
        needs = {"python3" for step in steps if UNPACK in step.argv}
        needs |= {"mksquashfs" for step in steps if "mksquashfs" in step.argv}
        return Staging(location, tuple(sorted({*needs, executable} - {""})), steps)

    def unstage(self, location: str, tools: Mapping[str, str]) -> tuple[Step, ...]:
        """Return the steps that remove a form. Raises Refused if Tare has not made it."""
        if not self.is_made_by_tare(location):
            raise Refused(f"{location} was not staged by Tare, which removes nothing else.")
        return tuple(self.list_removal_steps(location, self.find_maker(tools)))

    def find_maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        """Return the program that makes this form. Raises Refused if the cluster has none."""
        if self.by_site:
            raise Refused(self.by_site)
        for kind in self.made_by:
            if kind in tools:
                return tools[kind] or RUNTIMES[kind].command
        if self.made_by:
            names = " or ".join(RUNTIMES[kind].label for kind in self.made_by)
            raise Refused(f"{self.label} is made by {names}, which this cluster does not have.")
        return ""


class File(Format):
    """A file or folder below the work directory."""

    suffix: ClassVar[str]

    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        return f"{folder.rstrip('/')}/{parse_hex_digest(source_digest)}{self.suffix}"

    def is_made_by_tare(self, location: str) -> bool:
        return bool(re.fullmatch(rf"/.*/[0-9a-f]{{64}}{re.escape(self.suffix)}", location))

    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        return [Step("Removing it", ("sh", "-c", scripts.REMOVE, "remove", location))]


class Named(Format):
    """A form in the runtime's own store, identified by a name."""

    pattern: ClassVar[str] = r"tare-[0-9a-f]{16}(-[a-z0-9]+)?"

    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        return "-".join(filter(None, ["tare", parse_hex_digest(source_digest)[:16], mode.lower()]))

    def is_made_by_tare(self, location: str) -> bool:
        return bool(re.fullmatch(self.pattern, location))
