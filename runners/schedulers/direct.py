"""No scheduler: one job at a time on the machine that we log in to."""

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from runners.errors import Refused, TryAgain
from runners.jobs import JobSpec
from runners.schedulers.base import Scheduler, Status
from runners.transports.base import Completed

# A job's id is its process id and the kernel's start time of that process (field 22 of
# /proc/PID/stat, counted here after the name in parentheses): process ids come round again.
# Processes in state Z have ended.
STARTED = """started() {
    sed 's/.*) //; /^Z/d' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}
alive() { [ -n "${1#*-}" ] && [ "$(started "${1%-*}")" = "${1#*-}" ]; }
"""

# A session of its own outlives this connection and the web site; nothing of the site's or the
# login shell's environment goes with it.
SUBMIT = (
    STARTED
    + """cd "$1" || exit
setsid env -i HOME="$HOME" LOGNAME="$LOGNAME" PATH="$PATH" USER="$USER" \\
    bash -l ./job.sh </dev/null >>scheduler.out 2>&1 &
id=$!-$(started $!)
echo "$id" >scheduler.id.part && mv scheduler.id.part scheduler.id
echo "$id"
"""
)

FIND = STARTED + """id=$(cat "$1/scheduler.id" 2>/dev/null) && alive "$id" && echo "$id"; :"""

# The job's working directory is its own: `started` is there once it has the machine.
STATUS = (
    STARTED
    + """for id; do
    alive "$id" || continue
    if [ -e "/proc/${id%-*}/cwd/started" ]; then echo "$id running"; else echo "$id queued"; fi
done
"""
)

# The script and its helpers are one process group. The job script has ten seconds to end
# its program, and as many to complete the record.
CANCEL = (
    STARTED
    + """for id; do
    alive "$id" || continue
    kill -s TERM -- "-${id%-*}"
    setsid sh -c 'sleep 20; kill -s KILL -- "-$1"' sh "${id%-*}" </dev/null >/dev/null 2>&1 &
done
"""
)

# The pipe is open as long as any process of the job lives, so reading it to its end is waiting
# for the job; 124 is what `timeout` says when that takes too long.
TIME_LIMIT = """exec 8> >(
    exec 9>&-
    trap '' TERM
    timeout --foreground --signal=ALRM {seconds} cat
    [ $? = 124 ] || exit
    : >time-limit
    kill -TERM -- -$$
    timeout --foreground --signal=ALRM 20 cat
    [ $? = 124 ] || exit
    kill -KILL -- -$$
)"""


class Direct(Scheduler):
    """Starts jobs itself; a lock in the work directory makes them wait for each other."""

    label = "none (one job at a time)"
    has_partitions = False
    job_id = "$$-$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)"
    facts = "ps -eo pid,user,pcpu,comm --sort=-pcpu"  # nobody keeps others away from the machine

    def header(self, job: JobSpec) -> list[str]:
        work_directory = PurePosixPath(job.directory).parent.parent
        lines = [
            "# No scheduler: whoever holds this machine's lock runs; the others are queued.",
            f'exec 9>>{shlex.quote(str(work_directory))}/"machine-$(hostname).lock" || exit 73',
            "flock 9 || exit 73",
        ]
        if count := job.resources.gpus_per_node:
            devices = ",".join(str(number) for number in range(count))
            lines.append(f'export CUDA_VISIBLE_DEVICES="${{CUDA_VISIBLE_DEVICES-{devices}}}"')
        limit = TIME_LIMIT.format(seconds=job.resources.time_limit_seconds)
        return [*lines, "# Nor does anybody else keep the time limit.", *limit.splitlines()]

    def submit(self, job: JobSpec) -> list[str]:
        return ["sh", "-c", SUBMIT, "submit", job.directory]

    def parse_submit(self, done: Completed) -> str:
        if done.returncode != 0:
            raise Refused(_words(done))
        return done.stdout.decode().strip()

    def find(self, job: JobSpec) -> list[str]:
        return ["sh", "-c", FIND, "find", job.directory]

    def parse_find(self, done: Completed) -> str | None:
        return _printed(done).strip() or None

    def status(self, ids: Sequence[str]) -> list[str]:
        return ["sh", "-c", STATUS, "status", *ids]

    def parse_status(self, done: Completed) -> dict[str, Status]:
        rows = (line.split() for line in _printed(done).splitlines())
        return {
            job_id: Status("queued", "the machine is taken", state)
            if state == "queued"
            else Status("running", "", state)
            for job_id, state in rows
        }

    def cancel(self, ids: Sequence[str]) -> list[str]:
        return ["sh", "-c", CANCEL, "cancel", *ids]

    def parse_cancel(self, done: Completed) -> None:
        _printed(done)


def _printed(done: Completed) -> str:
    if done.returncode != 0:
        raise TryAgain(f"The machine does not answer: {_words(done)}", kind="busy")
    return done.stdout.decode()


def _words(done: Completed) -> str:
    return done.stderr.decode(errors="replace").strip() or f"return code {done.returncode}"
