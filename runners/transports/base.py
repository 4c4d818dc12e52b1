"""The seam to a machine: run a command there. Everything else is made of that."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, ClassVar, Self


@dataclass(frozen=True)
class Completed:
    """A command that has ended."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Transport(ABC):
    """A machine that runs commands. Commands are argument lists: no shell reads them.

    Every call ends: with the command, with its time-out, or with the connection (TryAgain).
    """

    label: ClassVar[str]

    @abstractmethod
    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30,
        stdin: bytes | BinaryIO = b"",
        stdout: BinaryIO | None = None,
    ) -> Completed:
        """Run a command and wait for its end, at most `timeout` seconds.

        With `stdout`, output is streamed there and `Completed.stdout` is empty. Raises TryAgain;
        Refused if the output is larger than MEMORY_LIMIT and there is no stream to take it.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """End the connection; the next command opens a new one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
