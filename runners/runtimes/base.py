"""The interface of all runtimes: commands that start a program in a container. No I/O."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from runners.jobs import EnvironmentSpec

# The shell's $0 and $@ are a command: started with none of its caller's variables but PATH, HOME,
# USER and the GPUs that the scheduler gave.
CLEAN = (
    'exec env -i PATH="$PATH" HOME="$HOME" USER="$USER" '
    '${CUDA_VISIBLE_DEVICES+"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"} "$0" "$@"'
)

# A shell inside that waits for the program and returns how it ended, 128 + the signal if it was
# killed. PRoot returns what the last process inside returned that was not killed: 0 for a program
# that was killed after a child of its had ended well. So do udocker's R modes; F and S make 247 of
# a kill, and Charliecloud 1 where it mounts a squashfs file itself.
# Signals for the whole group are the program's to answer; remarks of shells are not its output.
WAIT = 'trap : HUP INT QUIT TERM USR1 USR2; exec 9>&2 2>/dev/null; (exec "$@" 2>&9 9>&-); exit "$?"'
WAITING = ("/bin/sh", "-c", WAIT, "wait")

# Shared memory as on bare metal: by default a container has 64 MB.
SHARED_MEMORY = "/dev/shm:/dev/shm"  # noqa: S108


@dataclass(frozen=True)
class Inside:
    """The surroundings of a program in a container, the same in all runtimes."""

    environment: EnvironmentSpec
    directory: str  # where it starts: absolute, and the same path inside and outside
    binds: tuple[str, ...] = ()  # "path" or "outside:inside", besides the environment's own
    gpus: bool = False  # all that the job may use; CUDA_VISIBLE_DEVICES chooses among them
    read_only: tuple[str, ...] = ()  # a data set and code, to be read at the same paths inside

    @property
    def mounts(self) -> list[str]:
        """Return all folders to bind, as "outside:inside", but for data and code."""
        binds = (*self.binds, *self.environment.binds)
        return [bind if ":" in bind else f"{bind}:{bind}" for bind in binds]

    def list_mounts(self, read_only: str = "") -> list[str]:
        """Return all mounts; data and code end in `read_only`, as the runtime spells it."""
        return [*self.mounts, *(f"{path}:{path}{read_only}" for path in self.read_only)]


class Runtime(ABC):
    """One kind of runtime, with the commands that start a program in its containers.

    The program's argument list is the same in every environment: the job's directory is bound at
    its own path, and variables are set by /usr/bin/env inside the container.
    """

    label: ClassVar[str]
    command: ClassVar[str]  # its usual name on PATH; empty: there is nothing to start
    formats: ClassVar[tuple[str, ...]]  # of staged images that it can start
    formats_of_files: ClassVar[frozenset[str]] = frozenset({"sif", "sandbox", "squashfs"})
    """Those of which a user of the node can read the files, by a path or by asking the runtime."""
    modes: ClassVar[Mapping[str, str]] = {}  # ways to work that an environment may choose
    under_launchers: ClassVar[bool] = True  # srun or mpirun can start it, once for each process
    numbers_gpus: ClassVar[bool] = False  # inside, the job's GPUs are numbered anew from 0
    data_read_only: ClassVar[bool] = True  # programs inside cannot write to a data set

    @abstractmethod
    def wrap(self, inside: Inside) -> list[str]:
        """Return the arguments to put before the program's, which run it in the container."""

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        """Return a command that succeeds, on the node, if the image is there."""
        return ["test", "-e", environment.image_path]

    def build_place_command(self, environment: EnvironmentSpec) -> list[str]:
        """Return a command that prints, on the node, where the image's files lie, a line each."""
        return ["printf", "%s\\n", environment.image_path]

    def build_reading_command(self, environment: EnvironmentSpec) -> list[str]:
        """Return the arguments to put before a command of the node that reads those files.

        Empty: the user can read them.
        """
        return []

    def build_preparation_command(self, inside: Inside) -> list[str]:
        """Return a command for each node, to run before several programs start from one image.

        It prints the folders that it made, to be removed afterwards. Empty: nothing has to be done.
        """
        return []

    def build_version_command(self, executable: str) -> list[str]:
        """Return a command that prints the version; `executable` may be empty."""
        return [executable or self.command, "--version"]

    def build_modes_command(self, executable: str) -> list[str]:
        """Return a command that tries each mode and prints "MODE ok" or "MODE WORDS", a line each.

        Empty where modes need no trial: nothing about an image depends on them.
        """
        return []

    def parse_version(self, text: str) -> str:
        """Return the version in that command's output, or ""."""
        match = re.search(r"\d+(\.\d+)+[\w.+~-]*", text)
        return match[0] if match else ""

    def choose_executable(self, environment: EnvironmentSpec) -> str:
        return environment.executable or self.command

    def find_refusals(self, mode: str, binds: Sequence[str]) -> dict[str, str]:
        """Return why this mode and these binds are not possible, by the field to mend."""
        refusals = {}
        if mode and mode not in self.modes:
            known = ", ".join(self.modes) or "none to choose from"
            refusals["mode"] = f"{self.label} has no mode {mode!r}; its modes: {known}."
        for bind in binds:
            # Runtimes separate the parts by colons and commas, without any quoting.
            if not re.fullmatch(r"/[^:,\0]*(:/[^:,\0]*)?", bind):
                refusals["binds"] = (
                    f"A bind is /path or /outside:/inside, without any comma, not {bind!r}."
                )
        return refusals
