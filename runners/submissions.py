"""Submits several jobs by two commands: one transfer of all their files, and one that submits all.

The program that jobs run, the payload, is the same for all: it lies once on the cluster's disk, in
a folder named by its hash, and each job's directory holds hard links to its files.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath

from runners.errors import Refused, TryAgain
from runners.jobs import JobSpec
from runners.payload import hash_payload, read_payload_files
from runners.schedulers import Scheduler
from runners.schedulers.submit_loop import LOOP_SECONDS, split_answer
from runners.scripts import render_own_files
from runners.transports import Completed, Transport
from runners.transports.base import build_archive, require_sent

SEND_SECONDS = 300
SUBMIT_SECONDS = LOOP_SECONDS + 60  # the last job of the loop may take as long
NO_PAYLOAD = 69  # sysexits.h EX_UNAVAILABLE: exit code of SEND_JOBS where the payload is not there

# Arguments: WORK DIRECTORY, FOLDER, TOKEN, HASH OF THE PAYLOAD, NAME OF A JOB'S DIRECTORY...
# Everything arrives in a new folder, from which each job's directory gets its name at once. One
# that is there already is what an earlier attempt to send the job has left, which may be waiting
# there: its files are replaced. If it has started, they are its own. No link is followed: with one,
# files could be written outside the work directory.
SEND_JOBS = f"""export LC_ALL=C
jobs=$1/$2 incoming=$1/.incoming-$3 payload=$1/payload/$4
shift 4
fail() {{
    echo "$1" >&2
    exit 1
}}
is_whole() {{
    (cd "$payload" && sha256sum --check --status .sha256sums) 2>/dev/null
}}
trap 'rm -rf "$incoming"' EXIT
trap 'exit 1' HUP INT TERM
find "${{incoming%/*}}" -maxdepth 1 -name '.incoming-*' -mtime +0 -exec rm -rf {{}} + 2>/dev/null
mkdir -p "$jobs" "${{payload%/*}}" && mkdir "$incoming" || exit
for path in "$jobs" "${{payload%/*}}" "$payload"; do
    [ ! -L "$path" ] || fail "$path is a link"
done
tar -xf - --no-same-owner -C "$incoming" || exit
[ -z "$(find "$incoming" ! -type f ! -type d | head -n 1)" ] || fail "what was sent holds links"
if ! is_whole; then
    [ -d "$incoming/.payload" ] || exit {NO_PAYLOAD}
    [ ! -e "$payload" ] || mv -T "$payload" "$incoming/.changed"
    mv -T "$incoming/.payload" "$payload"
    is_whole || fail "the files in $payload do not have their check sums, by sha256sum"
fi
for name; do
    shift
    [ ! -L "$jobs/$name" ] || fail "$jobs/$name is a link"
    [ ! -e "$jobs/$name/started" ] || continue
    cp -rl "$payload" "$incoming/$name/payload" 2>/dev/null || {{
        rm -rf "$incoming/$name/payload"
        cp -r "$payload" "$incoming/$name/payload" || exit
    }}
    set -- "$@" "$incoming/$name"
done
mv -t "$jobs" "$@" 2>/dev/null # those of which nothing is there yet
for path; do
    [ ! -d "$path" ] || cp -r --remove-destination "$path/." "$jobs/${{path##*/}}" || exit
done
"""


class NotReached(Exception):
    """The job was not submitted: one before it was refused, or those before it took long."""


Outcome = str | TryAgain | Refused | NotReached
"""The scheduler's id of a job, or why there is none."""


def submit_jobs(
    transport: Transport, scheduler: Scheduler, jobs: Sequence[JobSpec]
) -> list[Outcome]:
    """Send jobs of one folder and submit them in this order, up to the first that is refused.

    Raises Refused if their files can be sent to no site, and NotNow if this one cannot keep them:
    then none was submitted. Raises TryAgain if the answer is lost: then any of them may exist. An
    outcome that is TryAgain, but not NotNow, says so of one job.
    """
    send_jobs(transport, scheduler, jobs)
    command = scheduler.build_submit_command(jobs)
    try:
        done = transport.run(command, timeout=SUBMIT_SECONDS)
    except Refused as too_much:  # what was printed, which says of no job that it was refused
        raise TryAgain(f"No answer about jobs can be read: {too_much}", kind="busy") from None
    outcomes = [_read_outcome(scheduler, answer) for answer in split_answer(done)]
    return outcomes + [NotReached()] * (len(jobs) - len(outcomes))


def _read_outcome(scheduler: Scheduler, answer: Completed | TryAgain) -> Outcome:
    if isinstance(answer, TryAgain):
        return answer
    try:
        return scheduler.parse_submit(answer)
    except (TryAgain, Refused) as error:
        return error


def send_jobs(transport: Transport, scheduler: Scheduler, jobs: Sequence[JobSpec]) -> None:
    """Write the directories of jobs of one folder, in one transfer. Raises NotNow.

    The payload travels with them only where the cluster does not have it, or has a changed one.
    """
    directories = [PurePosixPath(job.directory) for job in jobs]
    folder = directories[0].parent
    if any(directory.parent != folder for directory in directories):
        raise ValueError("jobs that are sent together lie in one folder")
    names = [directory.name for directory in directories]
    files = {
        f"{name}/{path}": content
        for name, job in zip(names, jobs, strict=True)
        for path, content in render_own_files(job, scheduler).items()
    }
    script = ["sh", "-c", SEND_JOBS, "send", str(folder.parent), folder.name]
    payload = {f".payload/{name}": content for name, content in list_payload_files().items()}
    for sent in (files, files | payload):
        argv = [*script, secrets.token_hex(16), hash_payload(), *names]
        done = transport.run(argv, stdin=build_archive(sent), timeout=SEND_SECONDS)
        if done.returncode != NO_PAYLOAD:
            break
    require_sent(done, f"sending to {folder}")


@cache
def list_payload_files() -> dict[str, bytes]:
    """Return the payload's files as they travel, with a list of their check sums."""
    files = read_payload_files()
    sums = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()
    )
    return {**files, ".sha256sums": sums.encode()}
