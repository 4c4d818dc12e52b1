"""The archive with the jobs for a machine that Tare cannot reach, job by job as it is sent."""

from __future__ import annotations

import gzip
import io
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from runners.by_hand.identities import PAYLOAD_HASH
from runners.by_hand.left_there import LEFT_THERE
from runners.directories import END_COUNT, END_LIMIT, NAMES_WITH_ENDS
from runners.jobs import JobSpec, Resources
from runners.payload import hash_payload
from runners.schedulers import Scheduler
from runners.schedulers.direct import BEGIN, Direct
from runners.submissions import list_payload_files

START = Path(__file__).with_name("start.sh.template")
PLACE = "/place/of/the/job"  # stands for a job's directory until the start script knows it

# The job is a session of its own: what ends the start script does not end it.
DIRECT = """# Run one job and wait for its end. JOB
start() {
    (
        cd "jobs/$1" || exit
        exec setsid env -i HOME="$HOME" LOGNAME="${LOGNAME-}" PATH="$PATH" USER="${USER-}" \\
            sh -c @begin@ begin "$work/machine-$(hostname)" </dev/null >/dev/null 3<&- 9>&-
    ) &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        wait "$child"
    done
    child=''
}"""
SUBMITTED = """# Submit one job, unless that was done before. JOB
start() {
    if [ -s "jobs/$1/.submitted" ]; then return; fi
    printed=$(@submit@ </dev/null 2>&1 3<&- 9>&-)
    case $printed in
        *"= 1 0") printf '%s\\n' "$printed" | sed '/^= /d; /^ *$/d' >"jobs/$1/.submitted" ;;
        *) printf '%s\\n' "$printed" | sed '/^= /d; /^ *$/d' >&2 ;;
    esac
}"""
RUNS = {
    "verb": "run what has not begun yet, then pack",
    "after": "after the job under way. Once more ends that one, too.",
    "end": "pack",
}
SUBMITS = {
    "verb": "submit what has not been submitted yet",
    "after": "here.",
    "end": 'echo "When they have ended: sh $here/run-all.sh pack"',
}
READ_ME = """Jobs of {name} of Tare, for a machine that Tare cannot reach.

1. Unpack this archive in {work}: the jobs' scripts name that folder.

       mkdir -p {quoted} && tar -xzf ARCHIVE -C {quoted}

2. Run the jobs, in tmux or screen if the session may end before they do.

       sh {quoted}/by-hand/{name}/run-all.sh

   Ctrl-C stops it after the job under way; a second time it ends that job too. Start it again, and
   it goes on with what has not begun. What has begun is never begun a second time.

3. Bring {work}/results-{name}.tar.gz back to the experiment's page. "run-all.sh pack" makes it at
   any time: it may be brought more than once, with more results each time.
"""


def stream_archive(
    name: str,
    work: str,
    scheduler: Scheduler,
    jobs: Iterable[tuple[str, Mapping[str, bytes]]],
    *,
    folders: Sequence[str],
    at: int,
) -> Iterator[bytes]:
    """Yield the bytes of a tar.gz with jobs and their start script, one job in memory at a time.

    `jobs` are the names of the jobs' folders with their files, `folders` those names in the planned
    order, `work` is the work directory on the machine, and `at` the time that all files get.
    """
    sink = _Sink()
    with gzip.GzipFile(fileobj=cast(BinaryIO, sink), mode="wb", mtime=at) as packed:
        with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, _render_frame(name, work, scheduler, folders), at)
            for folder, files in jobs:
                _add(tar, {f"jobs/{folder}/{path}": each for path, each in files.items()}, at)
                yield sink.take()
        yield sink.take()
    yield sink.take()


def _render_frame(
    name: str, work: str, scheduler: Scheduler, folders: Sequence[str]
) -> dict[str, bytes]:
    """Return the files beside the jobs: the start script, their list, and the payload."""
    payload = hash_payload()
    folder = f"by-hand/{name}"
    texts = {
        "run-all.sh": render_start_script(name, work, scheduler),
        "jobs.txt": "".join(f"{each}\n" for each in folders),
        "READ-ME.txt": READ_ME.format(name=name, work=work, quoted=shlex.quote(work)),
    }
    return {
        **{f"{folder}/{path}": text.encode() for path, text in texts.items()},
        **{f"payload/{payload}/{path}": each for path, each in list_payload_files().items()},
    }


def render_start_script(name: str, work: str, scheduler: Scheduler) -> str:
    """Return the text of `run-all.sh`, for POSIX shells."""
    is_direct = isinstance(scheduler, Direct)
    direct = DIRECT.replace("@begin@", shlex.quote(BEGIN))
    parts = {
        "name": name,
        "work": shlex.quote(work),
        "payload": hash_payload(),
        "start": direct if is_direct else _render_submit(scheduler),
        "names": " -o ".join(f"-name {each}" for each in NAMES_WITH_ENDS),
        "most": str(END_COUNT),
        "size": str(END_LIMIT),
        "list": LEFT_THERE,
        "hash": PAYLOAD_HASH,
        **(RUNS if is_direct else SUBMITS),
    }
    return re.sub(r"@(\w+)@", lambda match: parts[match[1]], START.read_text())


def _render_submit(scheduler: Scheduler) -> str:
    """Return the shell function that submits one job by the scheduler's own command."""
    job = JobSpec("x", "tare-x-1", PLACE, (), Resources(time_limit_seconds=60))
    argv = [shlex.quote(each) for each in scheduler.build_submit_command([job])]
    command = " ".join(argv).replace(PLACE, '"$work/jobs/$1"')
    return SUBMITTED.replace("@submit@", command)


def _add(tar: tarfile.TarFile, files: Mapping[str, bytes], at: int) -> None:
    for name, content in files.items():
        member = tarfile.TarInfo(name)
        member.size, member.mtime = len(content), at
        member.mode = 0o755 if name.endswith(".sh") else 0o644
        tar.addfile(member, io.BytesIO(content))


class _Sink:
    """What the archive has written since it was last taken."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def write(self, content: bytes) -> int:
        self._chunks.append(bytes(content))
        return len(content)

    def flush(self) -> None:
        """Do nothing: all of it is here."""

    def take(self) -> bytes:
        """Return what was written, and forget it."""
        content = b"".join(self._chunks)
        self._chunks.clear()
        return content
