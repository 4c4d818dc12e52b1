"""The jobs of a machine that Tare cannot reach, as visits see them: they wait until people act."""

import secrets
from collections.abc import Collection, Mapping, Sequence

from runners.directories import Fetched
from runners.errors import NotNow, Refused
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.schedulers import JobEnding, Scheduler, Status
from runners.submissions import Outcome
from runners.transports import ByHand, Transport
from runners.transports.by_hand import NO_OPERATIONS

BEGINS = "by-hand-"
"""How the tokens begin that stand for jobs whose results have not been brought back."""
CARRIED = Status("queued", "", "to be carried by hand")


class CarriedRunner(Runner):
    """The queue of a machine without a connection: what was handed out, until it is cancelled.

    Its ids are random tokens. They travel with the jobs, and results are known by them.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(ByHand(), scheduler)
        self._cancelled: set[str] = set()

    def with_transport(self, transport: Transport, *, has_older_gate: bool) -> Runner:
        """Return this runner: it has no transport to be guarded."""
        return self

    def submit_all(self, jobs: Sequence[JobSpec]) -> list[Outcome]:
        """Give each job a token. Operations are refused."""
        return [
            f"{BEGINS}{secrets.token_hex(16)}" if job.runs else Refused(NO_OPERATIONS)
            for job in jobs
        ]

    def find(self, job: JobSpec) -> str | None:
        """Return None: nothing is known of the machine."""
        return None

    def find_all(self, jobs: Sequence[JobSpec]) -> dict[str, str]:
        """Return nothing, as `find`."""
        return {}

    def find_started(self, jobs: Sequence[JobSpec]) -> dict[str, str]:
        """Return nothing, as `find`."""
        return {}

    def claim(self, directories: Sequence[str]) -> set[str]:
        """Return nothing: no directory there can be claimed from here."""
        return set()

    def poll(self, ids: Sequence[str]) -> dict[str, Status]:
        """Return that jobs wait, but for those that were cancelled in this visit."""
        return {job_id: CARRIED for job_id in ids if job_id not in self._cancelled}

    def read_journals(self, offsets: Mapping[str, int]) -> dict[str, bytes]:
        """Return nothing: journals come with the results."""
        return {}

    def read_tail(self, path: str) -> str:
        """Return nothing: output comes with the results."""
        return ""

    def collect(self, directory: str, *, extra_files: Collection[str] = ()) -> Fetched:
        """Raise FileNotFoundError: results come in an archive or not at all."""
        raise FileNotFoundError(directory)

    def collect_all(self, directories: Mapping[str, Collection[str]]) -> dict[str, Fetched]:
        """Return nothing, as `collect`."""
        return {}

    def why_not_written(self, directory: str) -> NotNow | None:
        """Return None: whether there is room is not known."""
        return None

    def read_endings(self, ids: Sequence[str]) -> dict[str, JobEnding]:
        """Return nothing: no scheduler can be asked."""
        return {}

    def cancel(self, ids: Sequence[str]) -> None:
        """Take jobs out of the queue. What runs on the machine goes on there, unheard of."""
        self._cancelled |= set(ids)
