"""Run a command that builds an image, within bounds, and explain its failure in one line.

    python3 bounded.py SECONDS FOLDER COMMAND...     starts the command in FOLDER

Bounds: the time that it may take, the output that is passed on, and its processes, none of which
outlives it. The last line of the output explains a failure.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import List, NamedTuple, Optional

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import build_failures

MOST_OUTPUT = 1 << 20  # bytes that are passed on as they come
TAIL = 1 << 16  # bytes of the end that are passed on when the command has ended
CHUNK = 1 << 16
GRACE_SECONDS = 10.0  # between the request to end and the end
SUBREAPER = 36  # prctl's PR_SET_CHILD_SUBREAPER


class Outcome(NamedTuple):
    """How a command has ended."""

    code: int
    """Its exit code; -N after signal N."""
    output: bytes
    """The end of what it printed."""
    is_late: bool
    """Whether it was ended because its time was over."""


class Ended(Exception):
    """The job is being ended."""


def run(command: List[str], seconds: int, folder: str = ".") -> Outcome:
    """Run a command and pass its output on. Raises OSError if it cannot be started."""
    adopt_orphans()
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout
    output = Output()
    deadline = time.monotonic() + seconds
    before = signal.signal(signal.SIGTERM, raise_ended)
    grace = 0.0  # of a job that is being ended: the scheduler may wait for two seconds only
    try:
        is_late = not follow(process, output, deadline)
        grace = GRACE_SECONDS
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end(process, grace)
        signal.signal(signal.SIGTERM, before)
    output.finish()
    return Outcome(process.returncode, bytes(output.tail), is_late)


def follow(process: "subprocess.Popen[bytes]", output: "Output", deadline: float) -> bool:
    """Pass on what a process prints until it ends; return False if its time was over before."""
    assert process.stdout
    descriptor = process.stdout.fileno()
    is_open = True
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if is_open and selector.select(0.2):
                chunk = os.read(descriptor, CHUNK)
                output.take(chunk)
                is_open = bool(chunk)
            elif process.poll() is not None:
                return True
            elif not is_open:
                time.sleep(0.05)
    return False


def end(process: "subprocess.Popen[bytes]", grace: float) -> None:
    """End a process and all that it has started, whatever sessions they are in."""
    if process.poll() is None:
        signal_group(process.pid, signal.SIGTERM)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            signal_group(process.pid, signal.SIGKILL)
    process.wait()
    signal_group(process.pid, signal.SIGKILL)
    for _ in range(100):
        children = list_children(os.getpid())
        for child in children:
            kill(child)
        while reap():
            pass
        if not children:
            return
        time.sleep(0.05)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parents end, so that they can be found."""
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)


def list_children(parent: int) -> List[int]:
    """Return the numbers of a process's children that have not ended."""
    children = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = read_stat(name)
            if fields and fields[1] == str(parent) and fields[0] != "Z":
                children.append(int(name))
    return children


def read_stat(name: str) -> Optional[List[str]]:
    """Return the fields of a process after its name: its state, its parent and more."""
    try:
        with open("/proc/%s/stat" % name, "rb") as file:
            return file.read().rpartition(b")")[2].decode("ascii", "replace").split()
    except OSError:
        return None


def signal_group(group: int, number: int) -> None:
    with suppress(OSError):
        os.killpg(group, number)


def kill(process: int) -> None:
    with suppress(OSError):
        os.kill(process, signal.SIGKILL)


def reap() -> bool:
    """Take note of one child that has ended; return False if there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def raise_ended(number: int, frame: object) -> None:
    raise Ended


class Output:
    """What a command prints: passed on up to a limit, and the end of it kept."""

    def __init__(self) -> None:
        self.passed = 0
        self.total = 0
        self.tail = bytearray()

    def take(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self.tail += chunk
        del self.tail[:-TAIL]
        now = chunk[: MOST_OUTPUT - self.passed]
        if now:
            self.passed += len(now)
            write(now)

    def finish(self) -> None:
        """Pass on the end, if it has not been passed on, under a line that says what is missing."""
        left = self.total - self.passed
        if left > 0:
            shown = bytes(self.tail[-min(left, TAIL) :])
            text = "\n... %d bytes of the build's output are left out ...\n" % (left - len(shown))
            write(text.encode() + shown)
        if self.tail and not self.tail.endswith(b"\n"):
            write(b"\n")


def write(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def explain(outcome: Outcome, seconds: int) -> str:
    """Return the line that explains why a build has failed; "" if it has not."""
    if outcome.is_late:
        minutes = seconds / 60.0
        return "The build did not end within %g minutes, and was ended." % round(minutes, 1)
    if outcome.code == 0:
        return ""
    return build_failures.explain(outcome.output.decode("utf-8", "replace"), outcome.code)


def main(arguments: List[str]) -> int:
    seconds, folder, command = int(arguments[0]), arguments[1], arguments[2:]
    try:
        outcome = run(command, seconds, folder)
    except Ended:
        print("The build was ended with its job.")
        return 143
    except OSError as problem:
        print("%s cannot be started: %s" % (command[0], problem.strerror))
        return 1
    problem_line = explain(outcome, seconds)
    if problem_line:
        print(problem_line)
    return 1 if problem_line else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
