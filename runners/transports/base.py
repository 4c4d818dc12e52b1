"""The interface of all transports: run a command on a machine, and copy files by such commands."""

import hashlib
import io
import re
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, ClassVar, Self, cast

from runners.errors import Kind, NotNow, Refused, TryAgain
from runners.untrusted import clean_text

MIB = 1024 * 1024
MEMORY_LIMIT = 64 * MIB  # of one answer that no stream takes
STDERR_LIMIT = MIB  # of a command's error messages

MISSING = 66  # sysexits.h EX_NOINPUT: exit code of our own commands for a missing path
MEANWHILE = 75  # EX_TEMPFAIL: exit code for a file that another upload has changed
ALREADY = 67  # exit code for a file that exists already with the right content

# One command each: a connection may break at any byte, so no file gets its final name before its
# length is right. Messages are in English because `require_success` reads them.
WRITE = """export LC_ALL=C
rm -f "$1.part" && cat >"$1.part" || exit
[ "$(wc -c <"$1.part")" -eq "$2" ] || exit
mv -f "$1.part" "$1"
"""
READ = f"""[ -f "$1" ] || exit {MISSING}
exec tail -c "+$2" "$1"
"""
# OpenSSL hashes four times as fast on processors with SHA instructions; most login nodes have it.
SUM = """sum() {
    if command -v openssl >/dev/null; then openssl dgst -sha256 -r; else sha256sum; fi
}
"""
# Prints the size of PATH.part; exits with ALREADY if PATH itself has the right content.
SENT = f"""{SUM}if [ -f "$1" ] && [ "$(wc -c <"$1")" -eq "$2" ]; then
    case $(sum <"$1") in "$3"*) exit {ALREADY} ;; esac
fi
if [ -f "$1.part" ]; then wc -c <"$1.part"; else echo 0; fi
"""
# Arguments: PATH FROM SIZE. The check sum is computed from the file on the disk.
APPEND = f"""{SUM}export LC_ALL=C
: >>"$1.part" || exit
[ "$(wc -c <"$1.part")" -eq "$2" ] || exit {MEANWHILE}
cat >>"$1.part" || exit
[ "$(wc -c <"$1.part")" -eq "$3" ] || exit {MEANWHILE}
sum <"$1.part"
"""
FINISH = """mv -f "$1.part" "$1"
"""


@dataclass(frozen=True)
class Completed:
    """The exit code and output of a command that has ended."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Transport(ABC):
    """A machine that runs commands. Commands are argument lists: no shell reads them.

    Every call ends: with the command, with its time-out, or with the connection (TryAgain).
    Paths are absolute.
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

        With `stdout`, output is streamed there and `Completed.stdout` is empty. A program that
        cannot be started is return code 127, as in a shell. Raises TryAgain; Refused if the
        output exceeds MEMORY_LIMIT bytes and no stream takes it; ValueError for a NUL in argv.
        """

    @property
    def is_open(self) -> bool:
        """Return whether a connection is open that the next command will use."""
        return False

    def close(self) -> None:  # noqa: B027 - some have nothing to close
        """End the connection; the next command opens a new one."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file, completely or not at all."""
        script = ["sh", "-c", WRITE, "write", path, str(len(content))]
        _require_written(self.run(script, stdin=content), f"writing {path}")

    def read(self, path: str, *, offset: int = 0) -> bytes:
        """Return the file's content from byte `offset` on. FileNotFoundError if there is none."""
        done = self.run(["sh", "-c", READ, "read", path, str(offset + 1)])
        if done.returncode == MISSING:
            raise FileNotFoundError(path)
        return require_success(done, f"reading {path}").stdout

    def upload(
        self,
        path: str,
        source: BinaryIO,
        size: int,
        sha256: str,
        *,
        progress: Callable[[int], None] | None = None,
        timeout: float = 86400,
    ) -> None:
        """Stream a file of `size` bytes there; it gets its name when its sha256 (hex) is right.

        An upload that was interrupted is continued. `progress` is called with the bytes that have
        arrived. The folder must exist. Refused if the content is wrong, and then nothing is kept.
        """
        done = self.run(["sh", "-c", SENT, "sent", path, str(size), sha256], timeout=timeout)
        if done.returncode == ALREADY:
            return
        printed = require_success(done, f"looking at {path}").stdout
        if not re.fullmatch(rb"\s*[0-9]{1,20}\s*", printed):
            odd = clean_text(printed[:200]).strip()
            raise TryAgain(f"This is no number of bytes: {odd}", kind="busy")
        received = int(printed)
        if received > size:
            self.run(["rm", "-f", f"{path}.part"])
            received = 0
        source.seek(received)
        counted = _Counted(source, received, size, progress)
        script = ["sh", "-c", APPEND, "append", path, str(received), str(size)]
        done = self.run(script, stdin=cast(BinaryIO, counted), timeout=timeout)
        if counted.error:
            raise counted.error
        if done.returncode == MEANWHILE:
            raise TryAgain(
                f"Only a part of {path} arrived, or another upload of it is under way.",
                kind="unreachable",
            )
        actual_sha256 = clean_text(_require_written(done, f"sending {path}").stdout)[:64]
        if actual_sha256 != sha256:
            self.run(["rm", "-f", f"{path}.part"])
            message = (
                f"{path} did not arrive as it was: its sha256 is {actual_sha256} over there, not "
                f"{sha256}. Nothing of it was kept."
            )
            if received:  # the part that was left may have been the wrong one
                raise TryAgain(message, kind="unreachable")
            raise Refused(message)
        _require_written(
            self.run(["sh", "-c", FINISH, "finish", path]), f"moving {path} into its place"
        )

    def download(
        self,
        path: str,
        target: BinaryIO,
        *,
        progress: Callable[[int], None] | None = None,
        timeout: float = 86400,
    ) -> str:
        """Stream a file from there into `target` and return the sha256 (hex) of what arrived.

        FileNotFoundError if there is none. The caller has to compare the sha256.
        """
        sink = Hashed(target, progress)
        script = ["sh", "-c", READ, "read", path, "1"]
        done = self.run(script, stdout=cast(BinaryIO, sink), timeout=timeout)
        if done.returncode == MISSING:
            raise FileNotFoundError(path)
        require_success(done, f"reading {path}")
        return sink.hash.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def build_archive(files: Mapping[str, bytes]) -> BinaryIO:
    """Return a tar archive of these files, by name; `*.sh` as executables."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755 if name.endswith(".sh") else 0o644
            tar.addfile(member, io.BytesIO(content))
    archive.seek(0)
    return archive


class _Counted:
    """The rest of a stream, up to a size, which reports how far it was read."""

    def __init__(
        self, source: BinaryIO, at: int, size: int, progress: Callable[[int], None] | None
    ) -> None:
        self.source, self.at, self.size, self.progress = source, at, size, progress
        self.error: Exception | None = None

    def read(self, length: int = -1) -> bytes:
        left = self.size - self.at
        try:
            chunk = self.source.read(left if length < 0 else min(length, left))
        except Exception as error:  # noqa: BLE001 - in the transport's thread; raised in ours
            self.error = error
            return b""
        self.at += len(chunk)
        if self.progress:
            self.progress(self.at)
        return chunk


class Hashed:
    """A stream that hashes and counts what it passes on to another."""

    def __init__(self, target: BinaryIO, progress: Callable[[int], None] | None) -> None:
        self.target, self.progress = target, progress
        self.hash, self.at = hashlib.sha256(), 0

    def write(self, content: bytes) -> int:
        self.hash.update(content)
        self.at += len(content)
        if self.progress:
            self.progress(self.at)
        return self.target.write(content)


class Bounded(io.BytesIO):
    """Bytes in memory, up to a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def write(self, content: bytes) -> int:  # type: ignore[override]
        if self.tell() + len(content) > self.limit:
            raise Refused(f"The answer is larger than {self.limit // MIB} MiB.")
        return super().write(content)


def open_sink(stdout: BinaryIO | None) -> BinaryIO:
    """Return the stream for a command's output: the caller's, or memory up to MEMORY_LIMIT."""
    return Bounded(MEMORY_LIMIT) if stdout is None else stdout


def read_sink(sink: BinaryIO, stdout: BinaryIO | None) -> bytes:
    """Return the value for `Completed.stdout`: empty if the caller has a stream."""
    return sink.getvalue() if stdout is None and isinstance(sink, io.BytesIO) else b""


# Messages of a file system that cannot be written to now; in English, as the scripts above ask.
UNWRITABLE = re.compile(
    r"permission denied|read-only file system|stale (nfs )?file handle|input/output error"
    r"|not a directory|no such file or directory|directory nonexistent|transport endpoint"
    r"|cannot allocate memory|resource temporarily unavailable|operation not permitted"
    r"|host is down|no such device",
    re.IGNORECASE,
)
TOO_LONG = "File name too long"  # of a name that somebody chose


def require_success(done: Completed, doing: str) -> Completed:
    """Return the result of one of our own commands. NotNow or Refused if it failed."""
    if done.returncode == 0:
        return done
    message = clean_text(done.stderr).strip()
    short_message = shorten_message(message)
    details = message if short_message != message else ""
    if classify_disk_error(message) == "disk full":
        raise NotNow(
            f"The cluster's disk is full ({doing}): {short_message}",
            kind="disk full",
            scope="site",
            details=details,
        )
    message = f"{doing[0].upper()}{doing[1:]} failed: {short_message or done.returncode}"
    raise Refused(message, details=details)


def shorten_message(message: str) -> str:
    """Return the first line of a command's errors, and how many more there were.

    Where `tar` may not write, it prints an error for each file, and the first tells the cause.
    """
    first, *others = message.splitlines() or [""]
    more = f" (and {len(others)} more lines like this)" if len(others) > 1 else ""
    return f"{first}{more}" if len(others) > 1 else message


def require_sent(done: Completed, doing: str) -> None:
    """Raise NotNow unless files were sent.

    Folders and files are Tare's own, so any failure is the site's, whatever the message.
    """
    _require_written(done, doing, whatever=True)


def _require_written(done: Completed, doing: str, *, whatever: bool = False) -> Completed:
    """Return the result of a command that writes. NotNow if the site's file system is to blame.

    With `whatever`, it is to blame for each failure except that of a too long name.
    """
    try:
        return require_success(done, doing)
    except Refused as refusal:
        message = str(refusal)
        if TOO_LONG not in message and (whatever or UNWRITABLE.search(message)):
            kind: Kind = "work directory"
            raise NotNow(message, kind=kind, scope="site", details=refusal.details) from None
        raise


def classify_disk_error(message: str) -> Kind:
    """Return what is wrong with a disk, by the message of the command that failed to write."""
    full = "No space left on device" in message or "Disk quota exceeded" in message
    return "disk full" if full else "work directory"
