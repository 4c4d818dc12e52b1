"""Sends jobs to a cluster, follows them, and fetches their records."""

import io
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from runners.claims import CLAIM, read_claims
from runners.directories import Fetched, fetch_record, fetch_records, unpack
from runners.errors import NotNow, TryAgain
from runners.jobs import JobSpec
from runners.schedulers import JobEnding, Scheduler, Status
from runners.submissions import Outcome, submit_jobs
from runners.transports import Transport
from runners.transports.base import MIB
from runners.unknown_nodes import find_unknown_nodes
from runners.untrusted import clean_text

# SSH sends a command as one argument for the remote shell, which takes 128 KiB.
COMMAND_BYTES = 64 * 1024
NEWS_LIMIT = MIB  # of one journal, at a time
ALL_NEWS_LIMIT = 32 * MIB  # of all journals of one command
SHORT = 64 * 1024  # bytes of a journal that is read whole

# Reads lines "OFFSET NAME" of journals in folders below $1. One process asks for all sizes: of
# thousands of journals few have grown. Short ones come as one archive, whole, after a line
# "archive"; before it, of each other, its line's number, how many bytes are new, and those bytes.
JOURNALS = f"""cd "$1" 2>/dev/null || exit 0
unset TAR_OPTIONS
known=$(cat)
sizes=$(printf '%s\\n' "$known" | sed 's/^[0-9]* //; s|$|/journal.ndjson|' | tr '\\n' '\\0' |
    LC_ALL=C xargs -0 stat -c '%F:%s %n' -- 2>/dev/null | sed -n 's/^regular[a-z ]*file://p')
grown=$({{ printf '%s\\n' "$known"; echo; printf '%s\\n' "$sizes"; }} | awk '
    !listed && $0 == "" {{ listed = 1; next }}
    {{ bytes = $1; sub(/^[0-9]+ /, "") }}
    !listed {{ offset[$0] = bytes; number[$0] = NR; next }}
    {{ sub(/[/]journal[.]ndjson$/, "") }}
    $0 == "" || /[/]/ || /^[.]/ || !($0 in offset) || bytes <= offset[$0] {{ next }}
    bytes <= {SHORT} && total + bytes <= {ALL_NEWS_LIMIT // 2} {{
        total += bytes; print "short", $0; next
    }}
    {{ printf "%d %.0f %.0f %s\\n", number[$0], offset[$0], bytes - offset[$0], $0 }}
')
printf '%s\\n' "$grown" | grep -v '^short' | {{
    room={ALL_NEWS_LIMIT // 2}
    while read -r number offset new name; do
        [ -n "$name" ] && [ -r "./$name/journal.ndjson" ] || continue
        if [ "$new" -gt {NEWS_LIMIT} ]; then new={NEWS_LIMIT}; fi
        if [ "$new" -gt "$room" ]; then new=$room; fi
        if [ "$new" -gt 0 ]; then
            echo "$number $new"
            {{
                tail -c "+$((offset + 1))" "./$name/journal.ndjson" 2>/dev/null | head -c "$new"
                head -c "$new" /dev/zero # in place of what cannot be read, or is gone meanwhile
            }} | head -c "$new"
            room=$((room - new))
        fi
    done
}}
echo archive
printf '%s\\n' "$grown" | sed -n 's|^short \\(.*\\)$|./\\1/journal.ndjson|p' | tr '\\n' '\\0' |
    tar -cf - --null --no-recursion --hard-dereference --ignore-failed-read \\
        --verbatim-files-from -T - 2>/dev/null
exit 0
"""


# Prints the end of a file, as much as a page shows of it. To read from a pipe would take for ever,
# and a link may lead to what its program could not read itself.
TAIL = """[ -f "$1" ] && [ ! -L "$1" ] || exit 0
exec tail -c "$2" "$1"
"""
# Prints, for each directory whose job has started, its number and what its file `started` says.
# No process is started for any of them: hundreds may be asked for.
STARTED = """number=0
for directory; do
    number=$((number + 1)) line=
    if [ -f "$directory/started" ]; then
        IFS= read -r line <"$directory/started"
        printf '%s %.100s\\n' "$number" "$line"
    fi
done
exit 0
"""
TAIL_BYTES = 8000
ROOM = ".tare-room"
"""What is written into the directory of a job that left nothing, to see whether there is room."""


class Runner:
    """The jobs of one cluster. All methods raise TryAgain if it does not answer.

    Each method runs one or two remote commands; more for more jobs than one command can name.
    """

    def __init__(
        self, transport: Transport, scheduler: Scheduler, *, has_older_gate: bool = False
    ) -> None:
        self.transport = transport
        self.scheduler = scheduler
        self.has_older_gate = has_older_gate
        """Whether the forced command's script is known not to let today's status command through;
        `poll` finds that out."""

    def with_transport(self, transport: Transport, *, has_older_gate: bool) -> "Runner":
        """Return a runner of the same scheduler over another transport."""
        return Runner(transport, self.scheduler, has_older_gate=has_older_gate)

    def submit(self, job: JobSpec) -> str:
        """Submit one job and return its id. Raises what `submit_all` returns."""
        (outcome,) = self.submit_all([job])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def submit_all(self, jobs: Sequence[JobSpec]) -> list[Outcome]:
        """Send the files of jobs that lie in one folder, and submit them up to the first refusal.

        If an answer is lost, the job may exist all the same: call `find` before trying again.
        """
        return submit_jobs(self.transport, self.scheduler, jobs)

    def find_unknown_nodes(self, job: JobSpec) -> list[str]:
        """Return which of the nodes that a job avoids its scheduler does not know, by trials.

        A scheduler refuses a list with one unknown name and does not say which it is. Empty where
        it has no trials, or refuses none of the names alone.
        """
        return find_unknown_nodes(self.transport, self.scheduler, job)

    def find(self, job: JobSpec) -> str | None:
        """Return the id of a job that may have been submitted; None if there is no trace of it.

        The file that it writes when it starts is read first: schedulers forget jobs.
        """
        with suppress(FileNotFoundError):
            known = clean_text(self.transport.read(f"{job.directory}/started")).strip()
            if self.scheduler.is_id(known):  # else it was not the job's script that wrote this
                return known
        return self.scheduler.parse_find(self.transport.run(self.scheduler.build_find_command(job)))

    def find_all(self, jobs: Sequence[JobSpec]) -> dict[str, str]:
        """Return by directory the ids of those of these jobs of which there is a trace, as `find`.

        They are asked for together, where the scheduler can be asked so.
        """
        known = self.find_started(jobs)
        others = {job.name: job for job in jobs if job.directory not in known}
        for portion in split_into_portions(others):
            names = [name for (name,) in portion]
            command = self.scheduler.build_find_all_command(names)
            if command is None:
                alone = {others[name].directory: self.find(others[name]) for name in names}
                known |= {directory: job_id for directory, job_id in alone.items() if job_id}
            else:
                done = self.transport.run(command, timeout=_compute_timeout(portion))
                ids = self.scheduler.parse_find_all(done)
                known |= {others[name].directory: ids[name] for name in names if name in ids}
        return known

    def find_started(self, jobs: Sequence[JobSpec]) -> dict[str, str]:
        """Return the ids of the jobs that started in these jobs' directories, by directory.

        Others are left out: they may be known to the scheduler all the same, see `find`.
        """
        started = {}
        for portion in split_into_portions([job.directory for job in jobs]):
            directories = [directory for (directory,) in portion]
            argv = ["sh", "-c", STARTED, "started", *directories]
            done = self.transport.run(argv, timeout=_compute_timeout(portion))
            if done.returncode != 0:
                message = clean_text(done.stderr).strip()
                raise TryAgain(f"Nobody knows which jobs have started: {message}", kind="busy")
            for line in clean_text(done.stdout).split("\n"):
                match = re.fullmatch(r"(\d{1,6}) (.*)", line.strip())
                if not match or not 1 <= int(match[1]) <= len(directories):
                    continue
                if self.scheduler.is_id(match[2]):  # else no job script wrote it
                    started[directories[int(match[1]) - 1]] = match[2]
        return started

    def claim(self, directories: Sequence[str]) -> set[str]:
        """Claim directories of jobs that have not begun; return those that are Tare's now.

        In these nothing is ever executed, whoever starts the job later. To claim one again is
        harmless: it stays Tare's, or that of the job that has begun in it.
        """
        claimed: set[str] = set()
        for portion in split_into_portions(directories):
            names = [directory for (directory,) in portion]
            argv = ["sh", "-c", CLAIM, "claim", *names]
            done = self.transport.run(argv, timeout=_compute_timeout(portion))
            claimed |= read_claims(done, names)
        return claimed

    def poll(self, ids: Sequence[str]) -> dict[str, Status]:
        """Return the status of the live jobs among these, with one call for thousands of jobs."""
        statuses: dict[str, Status] = {}
        for portion in split_into_portions(self._keep_possible(ids)):
            statuses |= self._ask_for_statuses([job_id for (job_id,) in portion])
        return statuses

    def _ask_for_statuses(self, ids: Sequence[str]) -> dict[str, Status]:
        """Return the statuses by today's command, or by the former one if a forced command refuses.

        Jobs are followed all the same until somebody installs the newer script.
        """
        timeout = _compute_timeout(ids)
        former = self.scheduler.build_former_status_command(ids)
        if former is None or not self.has_older_gate:
            try:
                done = self.transport.run(self.scheduler.build_status_command(ids), timeout=timeout)
            except TryAgain as refusal:
                if former is None or refusal.kind != "forced command":
                    raise
            else:
                return self.scheduler.parse_status(done)
        done = self.transport.run(former, timeout=timeout)
        self.has_older_gate = True
        return self.scheduler.parse_former_status(done)

    def read_journals(self, offsets: Mapping[str, int]) -> dict[str, bytes]:
        """Return what was appended to journals after these offsets in bytes, by job directory.

        At most NEWS_LIMIT of each; the rest comes with the next call. Others are left out. This
        takes one command for each folder in which there are such directories.
        """
        by_folder: dict[str, list[str]] = {}
        for directory in offsets:
            by_folder.setdefault(str(PurePosixPath(directory).parent), []).append(directory)
        new_content: dict[str, bytes] = {}
        for folder, directories in by_folder.items():
            asked = {directory: offsets[directory] for directory in directories}
            new_content |= self._read_journals(folder, asked)
        return new_content

    def _read_journals(self, folder: str, offsets: Mapping[str, int]) -> dict[str, bytes]:
        directories = [name for name in offsets if "\n" not in name]
        lines = [f"{offsets[name]} {PurePosixPath(name).name}\n" for name in directories]
        done = self.transport.run(
            ["sh", "-c", JOURNALS, "journals", folder],
            stdin="".join(lines).encode(errors="surrogateescape"),
            timeout=_compute_timeout(directories),
        )
        if done.returncode != 0:
            message = clean_text(done.stderr).strip()
            raise TryAgain(f"The journals cannot be read: {message}", kind="busy")
        grown, answer = {}, io.BytesIO(done.stdout)
        while (line := answer.readline()) != b"archive\n":
            if not done.stdout:  # there is no such folder
                return {}
            heading = re.fullmatch(rb"(\d{1,6}) (\d{1,9})\n", line)
            if line and not (heading and 1 <= int(heading[1]) <= len(directories)):
                odd = clean_text(line[:200]).strip()
                raise TryAgain(f"This is no answer about journals: {odd}", kind="busy")
            content = answer.read(int(heading[2])) if heading else b""
            if not heading or len(content) < int(heading[2]):
                raise TryAgain("The answer about the journals was cut short.", kind="unreachable")
            grown[directories[int(heading[1]) - 1]] = content
        archive = answer.read()
        for path, content in unpack(io.BytesIO(archive)).items() if archive else ():
            directory = f"{folder}/{PurePosixPath(path).parent}"
            if news := content[offsets.get(directory, len(content)) :]:
                grown[directory] = news
        return grown

    def read_tail(self, path: str) -> str:
        """Return the end of a text file that is being written; empty if there is none."""
        done = self.transport.run(["sh", "-c", TAIL, "tail", path, str(TAIL_BYTES)])
        return clean_text(done.stdout)

    def collect(self, directory: str, *, extra_files: Collection[str] = ()) -> Fetched:
        """Fetch what a job left; see `fetch_record`. FileNotFoundError if its directory is gone."""
        return fetch_record(self.transport, directory, extra_files=extra_files)

    def collect_all(self, directories: Mapping[str, Collection[str]]) -> dict[str, Fetched]:
        """Fetch what several jobs left, by directory, with the extra files of each.

        See `fetch_records`: what is large or missing is left out.
        """
        records: dict[str, Fetched] = {}
        for portion in split_into_portions(directories):
            records |= fetch_records(
                self.transport, {name: directories[name] for (name,) in portion}
            )
        return records

    def why_not_written(self, directory: str) -> NotNow | None:
        """Return the site's no to writing into a job's directory; None where that can be done.

        What is written there, and stays, is a hidden file of 4 KiB.
        """
        try:
            self.transport.write(f"{directory}/{ROOM}", b" " * 4096)
        except NotNow as no:
            return no
        return None

    def read_endings(self, ids: Sequence[str]) -> dict[str, JobEnding]:
        """Return how jobs ended, as far as the scheduler remembers."""
        endings: dict[str, JobEnding] = {}
        known = self._keep_possible(ids)
        for portion in split_into_portions(known, known):  # they are named twice
            command = self.scheduler.build_accounting_command([job_id for job_id, _ in portion])
            if command is None:
                return {}
            done = self.transport.run(command, timeout=_compute_timeout(portion))
            endings |= self.scheduler.parse_accounting(done)
        return endings

    def cancel(self, ids: Sequence[str]) -> None:
        """End jobs; those that have ended already are no error."""
        for portion in split_into_portions(self._keep_possible(ids)):
            command = self.scheduler.build_cancel_command([job_id for (job_id,) in portion])
            self.scheduler.parse_cancel(
                self.transport.run(command, timeout=_compute_timeout(portion))
            )

    def _keep_possible(self, ids: Sequence[str]) -> list[str]:
        """Return the ids that are none of another scheduler's: one makes a whole command fail."""
        return [job_id for job_id in ids if self.scheduler.is_id(job_id)]


def _compute_timeout(portion: Sequence[object]) -> float:
    """Return how many seconds a command about so many jobs may take."""
    return 30 + len(portion) / 50


def split_into_portions(*columns: Iterable[str]) -> Iterator[list[tuple[str, ...]]]:
    """Yield the rows of these columns, as many at a time as fit into one command."""
    portion: list[tuple[str, ...]] = []
    size = 0
    for row in zip(*columns, strict=True):
        length = len(shlex.join(row).encode(errors="surrogateescape")) + 1
        if portion and size + length > COMMAND_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += length
    if portion:
        yield portion
