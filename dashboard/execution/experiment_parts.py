"""The two parts of an experiment's page, which are fetched anew while its runs live.

The first has its state, what it waits for, verdicts and progress: small, and asked for every few
seconds. The second has its table of configurations, failed runs and one tab with a page of rows.
It is fetched when the first part says that it is behind: at once for few runs, for many every
REFRESH_SECONDS, so that a page of 20,000 runs costs the site little while it is watched.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import TypeVar

from django.core.cache import cache
from django.http import HttpResponse
from django_htmx.http import trigger_client_event

from dashboard.execution.matrix import MANY_VALUES, Pace, read_paces, remember_after_the_end
from dashboard.live_parts import keep_read
from dashboard.typed_requests import OpenRequest
from experiments.comparisons.comparison_keys import Inputs
from experiments.execution.marked_experiments import find_experiment
from experiments.execution.progress import Progress
from experiments.models import Experiment, Job
from experiments.planning.interim import Stage, read_stage

LIVE, DETAILS = "live", "experiment-details"
"""The ids of the two parts."""
CHANGED = "details-changed"
"""The event by which the first part has the second one fetched."""
SEEN = "X-Seen"
"""The header with what the second part showed when it was fetched (static/js/page.js)."""
REFRESH_SECONDS = 15
Remembered = TypeVar("Remembered", Stage, list[Pace])


def choose_part(request: OpenRequest) -> str:
    """Return the part that is asked for; "" for the whole page."""
    if not request.htmx:
        return ""
    return DETAILS if request.htmx.target == DETAILS else LIVE


def mark_live_part(request: OpenRequest, pk: int) -> str | None:
    """Return the mark of the first part; None where it may have to say that the other is behind."""
    if choose_part(request) != LIVE:
        return None
    row = find_experiment(request.user, pk)
    keep_read(request, row)
    seen = request.headers.get(SEEN, "")
    is_due = bool(seen) and not 0 <= _measure_age(seen) < REFRESH_SECONDS
    return None if row is None or is_due else str(row.mark)


def _measure_age(seen: str) -> float:
    """Return how many seconds ago the second part was made; -1 where that is not said."""
    made_at = seen.partition(".")[2]
    is_time = made_at.isdecimal() and len(made_at) < 12
    return time.time() - int(made_at) if is_time else -1.0


def has_many_runs(progress: Progress) -> bool:
    return progress.tally.total > MANY_VALUES


def read_stage_for_part(
    experiment: Experiment, progress: Progress, part: str, inputs: Inputs | None
) -> Stage:
    """Return how far the experiment is; for the first part of many runs as it was lately."""
    if part != LIVE or not has_many_runs(progress):
        return remember_after_the_end("stage", experiment, inputs, lambda: read_stage(experiment))
    return _remember("stage", experiment, progress, lambda: read_stage(experiment))


def read_paces_for_part(experiment: Experiment, progress: Progress) -> list[Pace]:
    """Return how long runs take and how many are left; of many runs as it was lately."""
    if not has_many_runs(progress):
        return read_paces(experiment)
    return _remember("paces", experiment, progress, lambda: read_paces(experiment))


def _remember(
    what: str, experiment: Experiment, progress: Progress, read: Callable[[], Remembered]
) -> Remembered:
    """Return what was read for the same numbers of runs and jobs a moment ago, or read it."""
    name = f"{what}-of-{experiment.pk}-{_hash_counts(experiment, progress)}"
    remembered: Remembered | None = cache.get(name)
    if remembered is None:
        remembered = read()
        cache.set(name, remembered, REFRESH_SECONDS)
    return remembered


def _hash_counts(experiment: Experiment, progress: Progress) -> str:
    """Return a hash of how many runs and jobs are in which state, and of how it was ended.

    Of jobs that have ended the runs tell; the first part does not count them.
    """
    ends = [str(experiment.cancelled_at), experiment.stopped_at_look]
    jobs = {state: count for state, count in progress.jobs.items() if state not in Job.FINAL}
    counts = [dict(progress.tally.states), jobs, ends]
    return hashlib.sha256(json.dumps(counts, sort_keys=True).encode()).hexdigest()[:16]


def mark_seen(experiment: Experiment, progress: Progress) -> str:
    """Return what the second part shows now, to be sent back by the first one."""
    return f"{_hash_counts(experiment, progress)}.{int(time.time())}"


def is_behind(seen: str, experiment: Experiment, progress: Progress) -> bool:
    """Return whether the second part is to be fetched anew, by what it showed when it was made.

    What is no such mark, or one from the future, is behind. A page that sends none has no such
    part.
    """
    if not seen:
        return False
    age = _measure_age(seen)
    if age < 0:
        return True
    if seen.partition(".")[0] != _hash_counts(experiment, progress):
        return age >= REFRESH_SECONDS or not (progress.tally.alive and has_many_runs(progress))
    return progress.tally.alive and age >= REFRESH_SECONDS


def finish_answer(
    response: HttpResponse, part: str, *, seen: str, details_behind: bool
) -> HttpResponse:
    """Add to an answer what lets the two parts follow each other."""
    if part == DETAILS:
        response[SEEN] = seen
    elif details_behind:
        trigger_client_event(response, CHANGED)
    return response
