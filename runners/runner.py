"""One cluster, as the rest of Tare sees it: jobs go there, their records come back."""

import io
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from runners.directories import Fetched, fetch_record
from runners.errors import TryAgain
from runners.jobs import JobSpec
from runners.schedulers import LastWord, Scheduler, Status
from runners.scripts import job_files
from runners.transports import Transport
from runners.untrusted import clean_text

# For each journal that has grown: which one, how many bytes are new, and those bytes.
JOURNALS = """while [ $# -gt 0 ]; do
    size=$(2>/dev/null wc -c <"$1/journal.ndjson") || size=0
    if [ "$size" -gt "$2" ]; then
        echo "$# $((size - $2))"
        tail -c "+$(($2 + 1))" "$1/journal.ndjson" | head -c "$((size - $2))"
    fi
    shift 2
done
"""


# The end of a file, as much as a page shows of it.
TAIL = """[ ! -e "$1" ] || exec tail -c "$2" "$1"
"""
TAIL_BYTES = 8000


class Runner:
    """Every method is one remote command, or two; all raise TryAgain when nobody answers."""

    def __init__(self, transport: Transport, scheduler: Scheduler) -> None:
        self.transport = transport
        self.scheduler = scheduler

    def submit(self, job: JobSpec) -> str:
        """Send the job's files and submit it; the scheduler's id. Refused in its own words.

        If the answer is lost, the job may be there all the same: ask `find` before trying again.
        """
        self.transport.send(job.directory, job_files(job, self.scheduler))
        return self.scheduler.parse_submit(self.transport.run(self.scheduler.submit(job)))

    def find(self, job: JobSpec) -> str | None:
        """The id of a job that may have been submitted; None if there is no trace of it.

        The file that it leaves when it starts is asked first: schedulers forget.
        """
        with suppress(FileNotFoundError):
            known = clean_text(self.transport.read(f"{job.directory}/started")).strip()
            if self.scheduler.is_id(known):  # else whoever wrote there was not the job's script
                return known
        return self.scheduler.parse_find(self.transport.run(self.scheduler.find(job)))

    def poll(self, ids: Sequence[str]) -> dict[str, Status]:
        """The live ones among these jobs, in one call to the scheduler."""
        if not ids:
            return {}
        return self.scheduler.parse_status(self.transport.run(self.scheduler.status(ids)))

    def journals(self, offsets: Mapping[str, int]) -> dict[str, bytes]:
        """What journals have grown by, for those that have: offsets in bytes, by job directory."""
        if not offsets:
            return {}
        pairs = [text for directory, offset in offsets.items() for text in (directory, str(offset))]
        done = self.transport.run(["sh", "-c", JOURNALS, "journals", *pairs])
        if done.returncode != 0:
            words = clean_text(done.stderr).strip()
            raise TryAgain(f"The journals cannot be read: {words}", kind="busy")
        directories = list(offsets)
        grown, answer = {}, io.BytesIO(done.stdout)
        while line := answer.readline():
            left, size = (int(number) for number in line.split())
            content = answer.read(size)
            if len(content) < size:
                raise TryAgain("The answer about the journals was cut short.", kind="unreachable")
            grown[directories[len(directories) - left // 2]] = content
        return grown

    def tail(self, path: str) -> str:
        """The end of a text file that is being written; empty if there is none."""
        done = self.transport.run(["sh", "-c", TAIL, "tail", path, str(TAIL_BYTES)])
        return clean_text(done.stdout)

    def collect(self, directory: str, *, wanted: Collection[str] = ()) -> Fetched:
        """Fetch what a job left; see `fetch_record`. FileNotFoundError if its directory is gone."""
        return fetch_record(self.transport, directory, wanted=wanted)

    def last_words(self, ids: Sequence[str]) -> dict[str, LastWord]:
        """How jobs ended, as far as the scheduler remembers."""
        command = self.scheduler.last_word(ids) if ids else None
        if command is None:
            return {}
        return self.scheduler.parse_last_word(self.transport.run(command))

    def cancel(self, ids: Sequence[str]) -> None:
        """End jobs; those that have ended already do not matter."""
        if ids:
            self.scheduler.parse_cancel(self.transport.run(self.scheduler.cancel(ids)))
