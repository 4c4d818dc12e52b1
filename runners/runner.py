"""One cluster, as the rest of Tare sees it: jobs go there, their records come back."""

import io
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from runners.directories import Fetched, fetch_record
from runners.errors import NotNow, TryAgain
from runners.jobs import JobSpec
from runners.schedulers import LastWord, Scheduler, Status
from runners.scripts import job_files
from runners.transports import Transport
from runners.transports.base import MIB
from runners.untrusted import clean_text

# What SSH carries is one word for the shell over there, which takes 128 KiB.
COMMAND_BYTES = 64 * 1024
NEWS_LIMIT = MIB  # of one journal, at a time
ALL_NEWS_LIMIT = 32 * MIB  # of all journals of one command

# For each journal that has grown: which one, how many bytes are new, and those bytes.
JOURNALS = f"""room={ALL_NEWS_LIMIT}
while [ $# -gt 0 ]; do
    if [ -f "$1/journal.ndjson" ]; then
        size=$(2>/dev/null wc -c <"$1/journal.ndjson") || size=0
        new=$((size - $2))
        if [ "$new" -gt {NEWS_LIMIT} ]; then new={NEWS_LIMIT}; fi
        if [ "$new" -gt "$room" ]; then new=$room; fi
        if [ "$new" -gt 0 ]; then
            echo "$# $new"
            tail -c "+$(($2 + 1))" "$1/journal.ndjson" | head -c "$new"
            room=$((room - new))
        fi
    fi
    shift 2
done
"""


# The end of a file, as much as a page shows of it.
TAIL = """[ ! -e "$1" ] || exec tail -c "$2" "$1"
"""
TAIL_BYTES = 8000
ROOM = ".tare-room"
"""What is written into the directory of a job that left nothing, to see whether there is room."""


class Runner:
    """Every method is one remote command, or two; all raise TryAgain when nobody answers.

    What is asked about more jobs than one command can name is asked in portions.
    """

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
        """The live ones among these jobs, in one call to the scheduler for thousands of them."""
        found: dict[str, Status] = {}
        for some in portions(ids):
            command = self.scheduler.status([one for (one,) in some])
            done = self.transport.run(command, timeout=_seconds(some))
            found |= self.scheduler.parse_status(done)
        return found

    def journals(self, offsets: Mapping[str, int]) -> dict[str, bytes]:
        """What journals have grown by, for those that have: offsets in bytes, by job directory.

        At most NEWS_LIMIT of each; the rest comes next time.
        """
        found: dict[str, bytes] = {}
        for some in portions(offsets, (str(offset) for offset in offsets.values())):
            found |= self._journals(some)
        return found

    def _journals(self, offsets: Sequence[tuple[str, ...]]) -> dict[str, bytes]:
        pairs = [text for pair in offsets for text in pair]
        argv = ["sh", "-c", JOURNALS, "journals", *pairs]
        done = self.transport.run(argv, timeout=_seconds(offsets))
        if done.returncode != 0:
            words = clean_text(done.stderr).strip()
            raise TryAgain(f"The journals cannot be read: {words}", kind="busy")
        grown, answer = {}, io.BytesIO(done.stdout)
        while line := answer.readline():
            left, size = (int(number) for number in line.split())
            content = answer.read(size)
            if len(content) < size:
                raise TryAgain("The answer about the journals was cut short.", kind="unreachable")
            grown[offsets[len(offsets) - left // 2][0]] = content
        return grown

    def tail(self, path: str) -> str:
        """The end of a text file that is being written; empty if there is none."""
        done = self.transport.run(["sh", "-c", TAIL, "tail", path, str(TAIL_BYTES)])
        return clean_text(done.stdout)

    def collect(self, directory: str, *, extra_files: Collection[str] = ()) -> Fetched:
        """Fetch what a job left; see `fetch_record`. FileNotFoundError if its directory is gone."""
        return fetch_record(self.transport, directory, extra_files=extra_files)

    def why_not_written(self, directory: str) -> NotNow | None:
        """Return the site's no to writing into a job's directory; None where that can be done.

        What is written there, and stays, is a hidden file of 4 KiB.
        """
        try:
            self.transport.write(f"{directory}/{ROOM}", b" " * 4096)
        except NotNow as no:
            return no
        return None

    def last_words(self, ids: Sequence[str]) -> dict[str, LastWord]:
        """How jobs ended, as far as the scheduler remembers."""
        found: dict[str, LastWord] = {}
        for some in portions(ids, ids):  # they are named twice
            command = self.scheduler.last_word([one for one, _ in some])
            if command is None:
                return {}
            done = self.transport.run(command, timeout=_seconds(some))
            found |= self.scheduler.parse_last_word(done)
        return found

    def cancel(self, ids: Sequence[str]) -> None:
        """End jobs; those that have ended already do not matter."""
        for some in portions(ids):
            command = self.scheduler.cancel([one for (one,) in some])
            self.scheduler.parse_cancel(self.transport.run(command, timeout=_seconds(some)))


def _seconds(some: Sequence[object]) -> float:
    """How long a command about so many jobs may take."""
    return 30 + len(some) / 50


def portions(*columns: Iterable[str]) -> Iterator[list[tuple[str, ...]]]:
    """Yield rows of words, as many at a time as one command takes. None for none."""
    some: list[tuple[str, ...]] = []
    size = 0
    for row in zip(*columns, strict=True):
        length = len(shlex.join(row).encode(errors="surrogateescape")) + 1
        if some and size + length > COMMAND_BYTES:
            yield some
            some, size = [], 0
        some.append(row)
        size += length
    if some:
        yield some
