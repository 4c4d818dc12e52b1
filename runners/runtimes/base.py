"""The seam to whatever starts a container. Pure: argument lists only, quoted by others."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from runners.jobs import EnvironmentSpec


class Runtime(ABC):
    """How one kind of runtime puts a program behind its wall.

    The program's argument list is the same in every environment: the job's directory is bound at
    its own path, and variables are set by /usr/bin/env inside the wall.
    """

    label: ClassVar[str]
    formats: ClassVar[tuple[str, ...]]  # of staged images that it can start

    @abstractmethod
    def wrap(
        self,
        argv: Sequence[str],
        environment: EnvironmentSpec,
        *,
        directory: str,
        binds: Sequence[str],
        gpus: bool,
    ) -> list[str]:
        """The command that runs `argv` inside, in `directory`. Always something followed by argv.

        `binds` ("path" or "outside:inside") are visible inside besides the environment's own.
        """

    @abstractmethod
    def present(self, environment: EnvironmentSpec) -> list[str]:
        """A command that succeeds, on the node, if the image is where it should be."""

    @abstractmethod
    def version(self, executable: str) -> list[str]:
        """A command that prints the version; `executable` may be empty."""

    def parse_version(self, text: str) -> str:
        """The version in what that command printed, empty if there is none."""
        found = re.search(r"\d+(\.\d+)+[\w.+~-]*", text)
        return found[0] if found else ""
