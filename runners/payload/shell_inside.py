"""The shell inside an environment, inside.sh, as the recorder on the node sees it: what starts it,
its marks, and its answers about files, which it reads as the environment shows them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

from .frameworks import StartError

LONGEST_SECONDS = 120.0  # until an order is answered: it may read a file of a GB
MOST_IN_MEMORY = 64 << 20  # bytes of a file's content
CHUNK = 1 << 16
OVER = "over"
PIPES = ("marks", "orders", "contents")


class ShellGone(Exception):
    """The shell inside has ended, or does not answer."""


class Shell:
    """The command that starts the shell inside, its marks, and its answers."""

    def __init__(self, folder: str) -> None:
        """Make its pipes in this folder. Raises StartError where the file system has none."""
        self.paths = {name: _make_pipe(os.path.join(folder, "." + name)) for name in PIPES}
        self._marks = os.open(self.paths["marks"], os.O_RDONLY | os.O_NONBLOCK)
        # Both ends of each, so that no end comes with the shell's, and nobody waits for the other.
        self._writing = os.open(self.paths["marks"], os.O_WRONLY)
        self._orders = os.open(self.paths["orders"], os.O_RDWR | os.O_NONBLOCK)
        self._contents = os.open(self.paths["contents"], os.O_RDWR | os.O_NONBLOCK)
        os.set_blocking(self._marks, True)
        self._process: Any = None
        self._rest = b""
        self._waiting: Deque[Tuple[str, str]] = deque()
        self.code = 0
        """The exit code of the whole command; -n if signal n ended it."""

    def start(self, argv: List[str]) -> None:
        """Start the command; SIGTERM and SIGINT are passed on to it."""
        early: List[int] = []

        def pass_on(number: int, frame: Any) -> None:
            if self._process:
                self._process.send_signal(number)
            else:
                early.append(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, pass_on)
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, close_fds=False)
        for early_signal in early:
            self._process.send_signal(early_signal)
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self.code = self._process.wait()
        os.write(self._writing, b"@over\0")

    def read_marks(self) -> Iterator[Tuple[str, str]]:
        """Yield name and text of each mark as it arrives, until the command has ended.

        A variable comes as "variable": its text has the name and the value.
        """
        while True:
            while not self._waiting:
                self._receive()
            name, text = self._waiting.popleft()
            if name == OVER:
                self._waiting.appendleft((OVER, ""))  # also for those who ask later
                return
            yield name, text

    def _receive(self) -> None:
        """Wait for marks and keep them."""
        *whole, self._rest = (self._rest + os.read(self._marks, CHUNK)).split(b"\0")
        for mark in (part.decode("utf-8", "surrogateescape") for part in whole):
            name, _, text = mark[1:].partition(" ")
            self._waiting.append((name, text) if mark.startswith("@") else ("variable", mark))

    def order(self, *lines: str) -> None:
        """Send lines to the shell."""
        os.write(self._orders, "".join(line + "\n" for line in lines).encode(*_CODEC))

    def ask(self, order: str, first: str = "", second: str = "", sink: Any = None) -> str:
        """Return the answer to an order of inside.sh; the content of a file goes to `sink`.

        Raises ShellGone if there is none. Names with line breaks cannot be asked for.
        """
        if {"\n", "\0"} & set(first + second):
            return ""
        self.order(order, first, second)
        while True:
            while self._waiting:
                name, text = self._waiting.popleft()
                if name == "answer":
                    self._drain(sink)
                    return text
                if name == OVER:
                    self._waiting.appendleft((OVER, ""))
                    raise ShellGone
            both = [self._marks, self._contents]
            ready, _, _ = select.select(both, [], [], LONGEST_SECONDS)
            if not ready:
                raise ShellGone
            self._drain(sink)
            if self._marks in ready:
                self._receive()

    def _drain(self, sink: Any) -> None:
        """Take what has arrived of a file's content."""
        with contextlib.suppress(BlockingIOError):
            while True:
                content = os.read(self._contents, CHUNK)
                if sink:
                    sink.write(content)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._process.terminate()

    def remove_pipes(self) -> None:
        for path in self.paths.values():
            with contextlib.suppress(OSError):
                os.unlink(path)


class FilesInside:
    """The files of an environment, as its own shell finds and reads them.

    The methods are those of `programs.OwnFiles`. What cannot be asked for is "" or None.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def find_executable(self, name: str) -> Optional[str]:
        return self._shell.ask("find", name) or None

    def is_file(self, path: str) -> bool:
        return bool(self._shell.ask("file", path))

    def exists(self, path: str) -> bool:
        return bool(self._shell.ask("exists", path))

    def find_real_path(self, path: str) -> str:
        """Return a path without links; the path itself where the environment has no `readlink`."""
        return self._shell.ask("real", path) or path

    def read_start(self, path: str, count: int) -> bytes:
        """Return the first bytes of a file, 256 at most."""
        with tempfile.SpooledTemporaryFile(MOST_IN_MEMORY) as file:
            self._shell.ask("start", path, sink=file)
            file.seek(0)
            return file.read(count)

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Any]:
        """Give the content of a file, as an open file. Raises OSError if it cannot be read."""
        with tempfile.SpooledTemporaryFile(MOST_IN_MEMORY) as file:
            code = self._shell.ask("read", path, sink=file)
            if code != "0":
                raise OSError("it cannot be read")
            file.seek(0)
            yield file

    def list_by_loader(self, loader: str, path: str) -> str:
        """Return what a loader prints of the libraries of a program."""
        with tempfile.SpooledTemporaryFile(MOST_IN_MEMORY) as file:
            self._shell.ask("list", loader, path, sink=file)
            file.seek(0)
            return file.read(1 << 20).decode("utf-8", "replace")


_CODEC = ("utf-8", "surrogateescape")


def write_start(path: str, variables: Dict[str, str], argv: List[str]) -> str:
    """Write what `inside.sh` is to start, as a script that it reads."""
    import shlex

    lines = ["tare_%s=%s" % (name, shlex.quote(value)) for name, value in variables.items()]
    lines.append("set -- " + " ".join(map(shlex.quote, argv)))
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(lines) + "\n")
    return path


def _make_pipe(path: str) -> str:
    """Make a named pipe. Raises StartError where the file system has none."""
    try:
        os.mkfifo(path)
    except OSError as error:
        raise StartError(
            "no named pipe can be made in the run's folder (%s): a run that is recorded outside "
            "needs one. Choose another work directory" % error
        ) from error
    return path
