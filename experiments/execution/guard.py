"""The guard around each row of a visit: a failure ends or postpones that row, never the visit.

Clusters send unexpected data at times, and Tare has faults of its own. Neither may hold up other
people's jobs, so only errors that concern the whole visit pass through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError
from django.utils import timezone
from rq.exceptions import StopRequested
from rq.timeouts import BaseTimeoutException

from experiments.execution.lease import LeaseLost
from experiments.execution.own_failures import Failure, describe_failure
from experiments.models import Cluster, Job, Operation, Run
from runners.errors import TryAgain
from runners.preflight.checks import Check
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

RowT = TypeVar("RowT", bound=Job | Operation)

MOST_CHARACTERS = 2000  # of another machine's text
OWN_CURE = "Try again; if it says so again, tell who looks after Tare: its worker's log says more."
TOO_MUCH_FOR_A_ROW = "54"  # SQLSTATE class: program limit exceeded, such as too deep a document


@contextmanager
def contain_failure(
    row: Job | Operation | Run, cluster: Cluster, give_up: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Contain the failure of one row, so that the visit goes on with the others.

    Its message is written on the cluster's page and passed to `give_up`. Errors that concern the
    visit are raised: TryAgain, LeaseLost, the worker's end, a database that is away.
    """
    try:
        yield
    except Exception as error:
        if is_about_the_visit(error):
            raise
        problem = describe_failure(error)
        logger.error("%s on %s: %s", row, cluster, problem)
        note_failure(cluster, problem, of=row)
        if give_up is not None:
            with contain_failure(row, cluster):
                row.refresh_from_db(fields=["state"])  # what was rolled back is not what it says
                give_up(problem.message)


def handle_together(
    rows: Sequence[RowT],
    work: Callable[[Sequence[RowT]], object],
    give_up: Callable[[RowT, str], object] | None = None,
) -> None:
    """Do `work` for all rows at once; where one of them makes it fail, for each row alone.

    `work` must leave nothing half done if it fails. `give_up` gets a row that fails alone, and why.
    """
    try:
        if rows:
            work(rows)
    except Exception as error:
        if is_about_the_visit(error):
            raise
        for row in rows:
            with contain_failure(row, row.cluster, give_up and partial(give_up, row)):
                work([row])


@contextmanager
def end_on_failure(end: Callable[[Check], object]) -> Iterator[None]:
    """Pass a failure to `end` as a failed check: what a person requested never stays under way.

    The failure is raised all the same, so that the worker keeps its traceback.
    """
    try:
        yield
    except Exception as error:
        with suppress(DatabaseError, InterfaceError):  # it may be what failed
            end(Check("Connection", "Worker", "failed", describe_failure(error).message, OWN_CURE))
        raise


def is_about_the_visit(error: Exception) -> bool:
    """Return whether every other row would meet the same failure."""
    if isinstance(error, DataError | IntegrityError):
        return False  # the database answered: this row's values cannot be kept
    if isinstance(error, DatabaseError | InterfaceError):
        state = getattr(error.__cause__, "pgcode", None) or ""
        return not state.startswith(TOO_MUCH_FOR_A_ROW)
    # Those of the worker reach us wherever we are: its time is over, or it is to stop.
    return isinstance(error, TryAgain | LeaseLost | BaseTimeoutException | StopRequested)


def make_storable(text: str) -> str:
    """Return another machine's text without what the database cannot hold, and shortened."""
    return clean_text(text)[:MOST_CHARACTERS]


def note_failure(cluster: Cluster, problem: Failure, *, of: Job | Operation | Run) -> None:
    """Write a failure that did not end the visit on the cluster's page."""
    # An operation's own words name images and experiments that not every reader may see.
    row = f"operation {of.pk}" if isinstance(of, Operation) else str(of)
    Cluster.objects.filter(pk=cluster.pk).update(
        own_failure=f"{row}: {problem.message}",
        own_failure_details=problem.details,
        own_failed_at=timezone.now(),
    )
