"""The guard around each row of a visit: what fails there ends or parks that row, never the visit.

What a cluster sends is odd at times, and Tare has mistakes of its own. Neither may keep everybody
else's jobs waiting, so only what concerns the whole visit passes through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError
from django.utils import timezone
from rq.exceptions import StopRequested
from rq.timeouts import BaseTimeoutException

from experiments.execution.lease import LeaseLost
from experiments.execution.own_failures import Failure, describe
from experiments.models import Chore, Cluster, Job, Run
from runners.errors import TryAgain
from runners.preflight.checks import Check
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

MOST_WORDS = 2000  # characters of what another machine said
OWN_CURE = "Try again; if it says so again, tell who looks after Tare: its worker's log says more."
TOO_MUCH_FOR_A_ROW = "54"  # SQLSTATE class: program limit exceeded, such as too deep a document


@contextmanager
def guarded(
    row: Job | Chore | Run, cluster: Cluster, give_up: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Keep what goes wrong with one row from all others.

    Anything unexpected is written on the cluster's page and handed to `give_up` in words. What
    concerns the visit is raised: TryAgain, LeaseLost, a worker's end, a database that is away.
    """
    try:
        yield
    except Exception as error:
        if concerns_the_visit(error):
            raise
        problem = describe(error)
        logger.error("%s on %s: %s", row, cluster, problem)
        note_failure(cluster, problem, of=row)
        if give_up is not None:
            with guarded(row, cluster):
                row.refresh_from_db(fields=["state"])  # what was rolled back is not what it says
                give_up(problem.words)


@contextmanager
def ended_anyway(end: Callable[[Check], object]) -> Iterator[None]:
    """Hand whatever fails to `end`, as a red check: what a person asked for never stays under way.

    It is raised all the same: the worker keeps where it happened.
    """
    try:
        yield
    except Exception as error:
        with suppress(DatabaseError, InterfaceError):  # it may be what failed
            end(Check("Connection", "Worker", "failed", describe(error).words, OWN_CURE))
        raise


def concerns_the_visit(error: Exception) -> bool:
    """Return whether every other row would meet the same failure."""
    if isinstance(error, DataError | IntegrityError):
        return False  # the database answered: this row's values cannot be kept
    if isinstance(error, DatabaseError | InterfaceError):
        state = getattr(error.__cause__, "sqlstate", None) or ""
        return not state.startswith(TOO_MUCH_FOR_A_ROW)
    # Those of the worker reach us wherever we are: its time is over, or it is to stop.
    return isinstance(error, TryAgain | LeaseLost | BaseTimeoutException | StopRequested)


def storable(words: str) -> str:
    """Return what another machine said as the database takes it, and no novel."""
    return clean_text(words)[:MOST_WORDS]


def note_failure(cluster: Cluster, problem: Failure, *, of: Job | Chore | Run) -> None:
    """Write on the cluster's page what went wrong there without ending the visit."""
    # A chore's own words name images and experiments that not every reader may see.
    row = f"operation {of.pk}" if isinstance(of, Chore) else str(of)
    Cluster.objects.filter(pk=cluster.pk).update(
        own_failure=f"{row}: {problem.words}",
        own_failure_details=problem.details,
        own_failed_at=timezone.now(),
    )
