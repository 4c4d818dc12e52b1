"""The seam to a machine: run a command there. Everything else is made of that."""

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
STDERR_LIMIT = MIB  # what is kept of what a command complains of

MISSING = 66  # sysexits.h EX_NOINPUT: what our own commands say of a missing path
MEANWHILE = 75  # EX_TEMPFAIL: what they say of a file that another upload has changed
ALREADY = 67  # what our own command says of a file that is there, and right

# One command each: a connection may break at any byte, so nothing takes its place before its
# length is right. Messages are in English because `checked` reads them.
WRITE = """export LC_ALL=C
cat >"$1.part" || exit
[ "$(wc -c <"$1.part")" -eq "$2" ] || exit
mv -f "$1.part" "$1"
"""
READ = f"""[ -e "$1" ] || exit {MISSING}
exec tail -c "+$2" "$1"
"""
SEND = """export LC_ALL=C
mkdir -p "$1" && exec tar -xf - --no-same-owner -C "$1"
"""
# OpenSSL hashes four times as fast where the processor helps it, and is on most login nodes.
SUM = """sum() {
    if command -v openssl >/dev/null; then openssl dgst -sha256 -r; else sha256sum; fi
}
"""
# How much of PATH.part is there; nothing more to do if PATH itself is what is to be sent.
SENT = f"""{SUM}if [ -f "$1" ] && [ "$(wc -c <"$1")" -eq "$2" ]; then
    case $(sum <"$1") in "$3"*) exit {ALREADY} ;; esac
fi
if [ -f "$1.part" ]; then wc -c <"$1.part"; else echo 0; fi
"""
# The check sum is of what the disk holds in the end. PATH FROM SIZE
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
    """A command that has ended."""

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
        """Whether a connection is held that the next command will use."""
        return False

    def close(self) -> None:  # noqa: B027 - some have nothing to close
        """End the connection; the next command opens a new one."""

    def write(self, path: str, content: bytes) -> None:
        """Put a file in its place, wholly or not at all."""
        script = ["sh", "-c", WRITE, "write", path, str(len(content))]
        _written(self.run(script, stdin=content), f"writing {path}")

    def read(self, path: str, *, offset: int = 0) -> bytes:
        """The file from byte `offset` on. FileNotFoundError if there is none."""
        done = self.run(["sh", "-c", READ, "read", path, str(offset + 1)])
        if done.returncode == MISSING:
            raise FileNotFoundError(path)
        return checked(done, f"reading {path}").stdout

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
        """Stream a file of `size` bytes there; it takes its place when its sha256 (hex) is right.

        What a broken connection left of an earlier call is gone on with. `progress` is told how
        many bytes are there. Its folder must exist. Refused if the content is not what it should
        be, and then nothing of it stays.
        """
        done = self.run(["sh", "-c", SENT, "sent", path, str(size), sha256], timeout=timeout)
        if done.returncode == ALREADY:
            return
        there = int(checked(done, f"looking at {path}").stdout)
        if there > size:
            self.run(["rm", "-f", f"{path}.part"])
            there = 0
        source.seek(there)
        counted = _Counted(source, there, size, progress)
        script = ["sh", "-c", APPEND, "append", path, str(there), str(size)]
        done = self.run(script, stdin=cast(BinaryIO, counted), timeout=timeout)
        if counted.error:
            raise counted.error
        if done.returncode == MEANWHILE:
            raise TryAgain(
                f"Only a part of {path} arrived, or another upload of it is under way.",
                kind="unreachable",
            )
        found = clean_text(_written(done, f"sending {path}").stdout)[:64]
        if found != sha256:
            self.run(["rm", "-f", f"{path}.part"])
            words = (
                f"{path} did not arrive as it was: its sha256 is {found} over there, not {sha256}. "
                "Nothing of it was kept."
            )
            if there:  # the part that was left may have been the wrong one
                raise TryAgain(words, kind="unreachable")
            raise Refused(words)
        _written(self.run(["sh", "-c", FINISH, "finish", path]), f"moving {path} into its place")

    def download(
        self,
        path: str,
        target: BinaryIO,
        *,
        progress: Callable[[int], None] | None = None,
        timeout: float = 86400,
    ) -> str:
        """Stream a file from there into `target`; the sha256 (hex) of what came.

        FileNotFoundError if there is none. Who knows what the sha256 should be has to compare.
        """
        sink = Hashed(target, progress)
        script = ["sh", "-c", READ, "read", path, "1"]
        done = self.run(script, stdout=cast(BinaryIO, sink), timeout=timeout)
        if done.returncode == MISSING:
            raise FileNotFoundError(path)
        checked(done, f"reading {path}")
        return sink.hash.hexdigest()

    def send(self, directory: str, files: Mapping[str, bytes], *, timeout: float = 300) -> None:
        """Write files, by their names below `directory`, in one transfer. `*.sh` may be run.

        Raises NotNow where the directory cannot be made or written to.
        """
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                member.mode = 0o755 if name.endswith(".sh") else 0o644
                tar.addfile(member, io.BytesIO(content))
        archive.seek(0)
        script = ["sh", "-c", SEND, "send", directory]
        done = self.run(script, stdin=archive, timeout=timeout)
        # Folder and files are ours, so a no is about the site, whatever its words are.
        _written(done, f"sending to {directory}", whatever=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Counted:
    """The rest of a stream, up to a size, telling how far it was read."""

    def __init__(
        self, source: BinaryIO, at: int, size: int, progress: Callable[[int], None] | None
    ) -> None:
        self.source, self.at, self.size, self.progress = source, at, size, progress
        self.error: Exception | None = None

    def read(self, length: int = -1) -> bytes:
        left = self.size - self.at
        try:
            chunk = self.source.read(left if length < 0 else min(length, left))
        except Exception as error:  # noqa: BLE001 - in a thread of the transport's; told by ours
            self.error = error
            return b""
        self.at += len(chunk)
        if self.progress:
            self.progress(self.at)
        return chunk


class Hashed:
    """Passes on what is written, hashed and counted."""

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


def collector(stdout: BinaryIO | None) -> BinaryIO:
    """Where a command's output goes: the caller's stream, or memory up to MEMORY_LIMIT."""
    return Bounded(MEMORY_LIMIT) if stdout is None else stdout


def collected(sink: BinaryIO, stdout: BinaryIO | None) -> bytes:
    """What `Completed.stdout` is to hold."""
    return sink.getvalue() if stdout is None and isinstance(sink, io.BytesIO) else b""


# What a file system says that cannot be written to now; in English, as the scripts above ask.
UNWRITABLE = re.compile(
    r"permission denied|read-only file system|stale (nfs )?file handle|input/output error"
    r"|not a directory|no such file or directory|directory nonexistent|transport endpoint"
    r"|cannot allocate memory|resource temporarily unavailable|operation not permitted"
    r"|host is down|no such device",
    re.IGNORECASE,
)
TOO_LONG = "File name too long"  # of a name that somebody chose


def checked(done: Completed, doing: str) -> Completed:
    """The result of one of our own commands, if it did what it should."""
    if done.returncode == 0:
        return done
    said = clean_text(done.stderr).strip()
    words = first_words(said)
    details = said if words != said else ""
    if kind_of_no(said) == "disk full":
        raise NotNow(
            f"The cluster's disk is full ({doing}): {words}",
            kind="disk full",
            scope="site",
            details=details,
        )
    message = f"{doing[0].upper()}{doing[1:]} failed: {words or done.returncode}"
    raise Refused(message, details=details)


def first_words(said: str) -> str:
    """Return the first line of what a command complained of, and how many more there were.

    Where `tar` may not write it says so of every file, and what is first is the cause.
    """
    first, *others = said.splitlines() or [""]
    more = f" (and {len(others)} more lines like this)" if len(others) > 1 else ""
    return f"{first}{more}" if len(others) > 1 else said


def _written(done: Completed, doing: str, *, whatever: bool = False) -> Completed:
    """The same of a command that writes: NotNow where the site's file system is to blame.

    With `whatever`, of each failure but that of a name.
    """
    try:
        return checked(done, doing)
    except Refused as refusal:
        words = str(refusal)
        if TOO_LONG not in words and (whatever or UNWRITABLE.search(words)):
            kind: Kind = "work directory"
            raise NotNow(words, kind=kind, scope="site", details=refusal.details) from None
        raise


def kind_of_no(words: str) -> Kind:
    """Return what is wrong with a disk, by the words of the command that was to write there."""
    full = "No space left on device" in words or "Disk quota exceeded" in words
    return "disk full" if full else "work directory"
