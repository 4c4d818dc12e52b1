"""No scheduler: Tare's own queue on the machine that it logs in to."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from runners.errors import NotNow, TryAgain
from runners.jobs import JobSpec
from runners.schedulers.base import Scheduler, Status
from runners.schedulers.submit_loop import SUBMIT_EACH
from runners.transports.base import Completed, classify_disk_error
from runners.untrusted import clean_text

# A job's id is its process id and the kernel's start time of that process (field 22 of
# /proc/PID/stat, counted here after the name in parentheses): process ids are used again.
# Processes in state Z have ended.
STARTED = """started() {
    sed 's/.*) //; /^Z/d' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}
alive() { [ -n "${1#*-}" ] && [ "$(started "${1%-*}")" = "${1#*-}" ]; }
"""

# The queue's entries are files, named by their number and the job's id. Numbers are given under a
# lock that the kernel releases when its holder dies.
ARRIVE = """arrive() { # QUEUE ID
    mkdir -p "$1" && (
        flock 7 || exit
        last=000000000
        for entry in "$1"/[0-9]*-*; do
            if [ -e "$entry" ]; then last=${entry##*/}; fi
        done
        number=$((1${last%%-*} - 999999999))
        : >"$1/$(printf %09d "$number")-$2"
    ) 7>>"$1/lock"
}
"""

# The process that becomes the job: it enters the queue first, as the login profile may take a
# minute.
BEGIN = (
    STARTED
    + ARRIVE
    + """id=$$-$(started $$)
arrive "$1" "$id" || exit
echo "$id" >scheduler.id.part && mv scheduler.id.part scheduler.id || exit
echo "$id"
exec bash -l "$PWD/job.sh" </dev/null >>scheduler.out 2>&1
"""
)

# A session of its own outlives this connection and the web site; nothing of the site's or the
# login shell's environment goes with it. Its output is read until it becomes the job.
SUBMIT = (
    """queue=$1/machine-$(hostname) begin=$2
shift 2
submit() {
    cd "$1" || exit
    id=$(setsid env -i HOME="$HOME" LOGNAME="$LOGNAME" PATH="$PATH" USER="$USER" \\
        sh -c "$begin" begin "$queue" </dev/null &)
    [ -n "$id" ] && echo "$id"
}
"""
    + SUBMIT_EACH
)

# Nothing is read but files: a program may have put pipes in their places.
FIND = (
    STARTED
    + """[ -f "$1/scheduler.id" ] && id=$(cat "$1/scheduler.id") && alive "$id" && echo "$id"; :"""
)

# The job's working directory is its own: `started` is there once it has the machine, and a word
# about what it waits for once it has read its login profile and does.
STATUS = (
    STARTED
    + """for id; do
    alive "$id" || continue
    cd "/proc/${id%-*}/cwd" || continue
    if [ -e started ]; then
        echo "$id running"
    elif [ -f "scheduler.waits-$id" ]; then
        echo "$id queued $(cat "scheduler.waits-$id")"
    else
        echo "$id starting"
    fi
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

# A place is locked from here on, by the job and all that it starts: a program that outlives its
# script still has the machine. A place that nobody has locked belongs to a job that reads its
# login profile, or is dead. What is written in a place says that its job runs, and how.
#
# GPUs are directories. One whose job is dead is taken over; one without a job was made by a person,
# to keep Tare off that GPU. All of this happens under the queue's lock, one job at a time.
QUEUE = """# No scheduler: jobs get this machine in the order in which they were sent.
cd {directory} || exit 73
queue={work_directory}/"machine-$(hostname)"
gpus_wanted={gpus}
beside={beside} # whether this job may run while others do

{started}
{arrive}
held() {{ [ -e "$1" ] && ! flock --nonblock --shared "$1" true; }}

# Whether enough GPUs are free: they are in `free`.
find_gpus() {{
    local gpu all lock
    IFS=, read -r -a all <<<"${{CUDA_VISIBLE_DEVICES-$(seq -s, 0 {last_gpu})}}"
    free=()
    for gpu in "${{all[@]}}"; do
        lock="$queue/gpu-${{gpu//\\//_}}"
        if [ -e "$lock/job" ] && ! held "$queue/$(cat "$lock/job")"; then rm -r "$lock"; fi
        if [ ! -e "$lock" ]; then free+=("$gpu"); fi
    done
    [ "${{#free[@]}}" -ge "$gpus_wanted" ]
}}

# With its owner in it from the first moment.
take_gpus() {{
    local gpu
    free=("${{free[@]:0:gpus_wanted}}")
    for gpu in "${{free[@]}}"; do
        mkdir -p "$queue/.gpu" && echo "${{place##*/}}" >"$queue/.gpu/job" &&
            mv -T "$queue/.gpu" "$queue/gpu-${{gpu//\\//_}}" || exit 73
    done
}}

# Whether it is this job's turn. If not, `waits` says why, and `ahead` is whose end to wait for.
turn() {{
    local other jobs=0 others=0
    ahead='' waits=''
    for other in "$queue"/[0-9]*-*; do
        if [ "$other" = "$place" ]; then break; fi
        if held "$other"; then
            ahead=$other
            if [ ! -s "$other" ] || grep -q alone "$other"; then others=$((others + 1)); fi
        elif alive "$(basename "$other" | cut -d- -f2-)"; then
            others=$((others + 1))
        else
            rm -f "$other"
            continue
        fi
        jobs=$((jobs + 1))
    done
    if [ "$jobs" -gt 0 ] && {{ [ -z "$beside" ] || [ "$others" -gt 0 ]; }}; then
        waits="the machine is taken; jobs ahead of this one: $jobs"
    elif [ "$gpus_wanted" -gt 0 ] && ! find_gpus; then
        waits="too few GPUs are free: ${{#free[@]}}, wanted: $gpus_wanted"
    else
        take_gpus
        echo "${{beside:-alone}}" >&9
        return 0
    fi
    return 1
}}

id={job_id}
place=$(find "$queue" -name "[0-9]*-$id" 2>/dev/null)
if [ -z "$place" ]; then
    arrive "$queue" "$id" && place=$(find "$queue" -name "[0-9]*-$id") || exit 73
fi
exec 9>>"$place" || exit 73
flock 9 || exit 73
until {{ flock 7 && turn; }} 7>>"$queue/lock"; do
    echo "$waits" >"scheduler.waits-$id"
    if [ -z "$ahead" ]; then
        sleep 1 9>&-
    elif [ -z "$beside" ]; then
        flock --shared "$ahead" true 9>&- # takes nothing of the machine's time
    else
        flock --shared --timeout 2 "$ahead" true 9>&-
    fi
done
rm -f "scheduler.waits-$id"
if [ "$gpus_wanted" -gt 0 ]; then
    CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${{free[*]}}")
    export CUDA_VISIBLE_DEVICES
fi"""

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
    """Starts jobs itself; a queue in the work directory makes them wait for each other."""

    label = "none (one job at a time)"
    has_partitions = False
    absence = "its process is gone, as after a restart of the machine"
    job_id = "$$-$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)"
    facts = "ps -eo pid,user,pcpu,comm --sort=-pcpu"  # nobody keeps others away from the machine

    def is_id(self, text: str) -> bool:
        return bool(re.fullmatch(r"[0-9]{1,20}-[0-9]{1,20}", text))

    def render_header(self, job: JobSpec) -> list[str]:
        resources = job.resources
        gpus = resources.gpus_per_node
        queue = QUEUE.format(
            directory=shlex.quote(job.directory),
            work_directory=shlex.quote(_find_work_directory(job)),
            gpus=gpus,
            # Nobody knows what a job without GPUs takes of the machine.
            beside="beside" if resources.side_by_side and gpus else "",
            last_gpu=max(resources.gpus_on_node, gpus, 1) - 1,
            started=STARTED.strip(),
            arrive=ARRIVE.strip(),
            job_id=f'"{self.job_id}"',
        )
        limit = TIME_LIMIT.format(seconds=resources.time_limit_seconds)
        lines = [queue, "# Nor does anybody else keep the time limit.", limit]
        return "\n".join(lines).splitlines()

    def build_submit_command(self, jobs: Sequence[JobSpec]) -> list[str]:
        work_directory = _find_work_directory(jobs[0])
        directories = [job.directory for job in jobs]
        return ["sh", "-c", SUBMIT, "submit", work_directory, BEGIN, *directories]

    def parse_submit(self, done: Completed) -> str:
        if done.returncode != 0:  # the script is not read yet: what fails is the machine's
            message = _read_error_message(done)
            raise NotNow(message, kind=classify_disk_error(message), scope="site")
        if job_id := _parse_id(done):
            return job_id
        printed = clean_text(done.stdout).strip()[:500]
        raise TryAgain(f"no job id was printed: {printed}", kind="busy")

    def build_find_command(self, job: JobSpec) -> list[str]:
        return ["sh", "-c", FIND, "find", job.directory]

    def parse_find(self, done: Completed) -> str | None:
        _read_output(done)
        return _parse_id(done)

    def build_status_command(self, ids: Sequence[str]) -> list[str]:
        return ["sh", "-c", STATUS, "status", *ids]

    def parse_status(self, done: Completed) -> dict[str, Status]:
        statuses = {}
        for line in _read_output(done).splitlines():
            row = re.fullmatch(r"([0-9]{1,20}-[0-9]{1,20}) (running|starting|queued) ?(.*)", line)
            if not row:
                raise TryAgain(f"This is no answer of ours: {line[:200]}", kind="busy")
            job_id, state, reason = row.groups()
            if state == "running":
                statuses[job_id] = Status("running", "", state)
            elif state == "starting":
                statuses[job_id] = Status("queued", "its login profile is being read", state)
            else:
                statuses[job_id] = Status("queued", reason, state)
        return statuses

    def build_cancel_command(self, ids: Sequence[str]) -> list[str]:
        return ["sh", "-c", CANCEL, "cancel", *ids]

    def parse_cancel(self, done: Completed) -> None:
        _read_output(done)


def _find_work_directory(job: JobSpec) -> str:
    return str(PurePosixPath(job.directory).parent.parent)


def _parse_id(done: Completed) -> str | None:
    """Return the id in an answer, ignoring what the log-in prints before it."""
    ids = re.findall(rb"^[0-9]{1,20}-[0-9]{1,20}$", done.stdout, re.MULTILINE)
    return ids[-1].decode() if ids else None


def _read_output(done: Completed) -> str:
    if done.returncode != 0:
        raise TryAgain(f"The machine does not answer: {_read_error_message(done)}", kind="busy")
    return clean_text(done.stdout)


def _read_error_message(done: Completed) -> str:
    return clean_text(done.stderr).strip() or f"return code {done.returncode}"
