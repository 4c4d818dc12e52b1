"""The transport that runs commands on this machine."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from runners.errors import TryAgain
from runners.transports.base import STDERR_LIMIT, Completed, Transport, open_sink, read_sink

CHUNK = 1 << 16  # bytes
# Commands get a user's environment, not that of the web site, which holds secrets.
VARIABLES = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER")


class Local(Transport):
    """This machine. Each command has a session of its own, so that a time-out ends all of it."""

    label = "this machine"

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30,
        stdin: bytes | BinaryIO = b"",
        stdout: BinaryIO | None = None,
    ) -> Completed:
        expired = threading.Event()
        # Files for two of the three streams: then one loop reads the third, and nothing can
        # wait for anything else.
        with TemporaryFile() as source, TemporaryFile() as errors:
            shutil.copyfileobj(io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin, source)
            source.seek(0)
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={name: os.environ[name] for name in VARIABLES if name in os.environ},
                    cwd=Path.home(),
                    start_new_session=True,
                )
            except OSError as error:
                return Completed(127, b"", f"{argv[0]}: {error.strerror}".encode())

            def give_up() -> None:
                expired.set()
                _end_session(process)

            timer = threading.Timer(timeout, give_up)
            timer.start()
            sink = open_sink(stdout)
            with process:  # closes the pipe and waits
                try:
                    assert process.stdout
                    while chunk := os.read(process.stdout.fileno(), CHUNK):
                        sink.write(chunk)
                    process.wait()
                except BaseException:
                    _end_session(process)
                    raise
                finally:
                    timer.cancel()
            if expired.is_set():
                raise TryAgain(f"{argv[0]} did not end in {timeout:g} s.", kind="time-out")
            errors.seek(0)
            error_output = errors.read(STDERR_LIMIT)
        return Completed(process.returncode, read_sink(sink, stdout), error_output)


def _end_session(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
