"""Comparisons that were computed are kept, until something that they rest on changes.

`read_comparison` gives the kept one, or computes: both are equal. What makes a kept one stale is
in its key (`comparison_keys`), so nobody has to remember to delete it. Pages read it by `latest`:
where computing takes long, they have the last one, with its time.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from experiments.comparisons.aa_verdicts import describe_aa_verdicts
from experiments.comparisons.compared_runs import list_baseline_first
from experiments.comparisons.comparison import Group
from experiments.comparisons.comparison_keys import Inputs, identify_inputs
from experiments.comparisons.exclusions import Exclusion, list_exclusions
from experiments.comparisons.experiment_comparison import ExperimentComparison, compare_experiment
from experiments.comparisons.kept_companions import keep_companions
from experiments.comparisons.packed_json import pack_summed, unpack_summed
from experiments.comparisons.plain_values import read_plain, write_plain
from experiments.comparisons.rejections import Rejections
from experiments.models import Experiment, KeptComparison
from experiments.models.database_locks import try_lock
from experiments.models.database_time import database_now
from experiments.notify import enqueue_keep
from experiments.planning.interim import Stage, read_stage
from experiments.statistics import Verdict

logger = logging.getLogger(__name__)

SHARE = 50
"""While runs live, a comparison is computed to be kept after this many times what it takes."""
SHORTEST = timedelta(seconds=30)
"""And no sooner than after this."""
RETRY = timedelta(minutes=10)
"""What has failed is computed again for the same data no sooner than after this."""
MANY_RUNS = 2_000
"""Of how many runs nobody knows how long it takes: it is not tried for a page. These take seconds,
and 1,000 about one."""
MOST_OF_PROBLEM = 500


@dataclass(frozen=True)
class Content:
    """What of a comparison is kept. The rest stands with the experiment itself."""

    environments: list[str]
    groups: list[Group]
    stage: Stage
    exclusions: list[Exclusion]
    rejections: list[Rejections]
    repaired: tuple[int, int]
    left_out: list[str]
    further: list[list[Group]]
    same_as_baseline: list[str]
    measured: list[str]


def read_comparison(experiment: Experiment) -> ExperimentComparison:
    """Return the comparison of an experiment: the kept one, or one that is computed now.

    If it had to be computed, it is asked for that a worker keeps it.
    """
    inputs = identify_inputs([experiment])[experiment.pk]
    row = KeptComparison.objects.filter(pk=experiment.pk).read_in_pieces().get(experiment.pk)
    return read_or_compute(experiment, row, inputs)


def ask_for_computing(pk: int) -> None:
    """Ask for a worker to compute an experiment's comparison; of many who ask, one is heard."""
    enqueue_keep(pk)


def _are_counts(counts: Any) -> bool:
    """Return whether these are numbers of pairs by their verdict."""
    return isinstance(counts, dict) and all(
        name in list(Verdict) and type(count) is int and count > 0 for name, count in counts.items()
    )


def read_or_compute(
    experiment: Experiment, row: KeptComparison | None, inputs: Inputs
) -> ExperimentComparison:
    """Return the kept comparison if it is the one of these inputs, else one that is computed."""
    kept = _read_row(row, experiment, inputs) if row else None
    if kept is not None:
        return kept
    comparison = compare_experiment(experiment)
    if comparison.has_numbers and (row is None or not _waits(row, inputs)):
        enqueue_keep(experiment.pk)
    return comparison


def read_kept_verdicts(experiments: Sequence[Experiment]) -> dict[int, dict[str, int]]:
    """Return how many pairs have each verdict, the most frequent first, by the experiments' keys.

    Only of experiments that have ended and whose kept comparison is not stale. Computes nothing.
    """
    stored = KeptComparison.objects.filter(pk__in=[row.pk for row in experiments])
    kept = {
        pk: (key, verdicts)
        for pk, key, verdicts in stored.values_list("pk", "key", "verdicts")
        if _are_counts(verdicts)
    }
    inputs = identify_inputs([row for row in experiments if row.pk in kept]) if kept else {}
    return {
        pk: dict(sorted(kept[pk][1].items(), key=lambda item: (-item[1], item[0])))
        for pk, of_now in inputs.items()
        if kept[pk][0] == of_now.key and not of_now.is_alive
    }


def keep_comparison(pk: int) -> str:
    """Compute the comparison of an experiment and keep it, for the pages; return what was done.

    Safe to repeat, at any time; of two at once one does nothing. What changes meanwhile makes what
    is kept stale. What fails is noted with the row, for the pages, and not tried at once again.
    """
    with try_lock(name_lock(pk)) as is_held:
        if not is_held:
            return "being computed"
        outcome = _keep(pk)
    if outcome == "kept" and _is_due(pk):
        enqueue_keep(pk)  # whoever asked meanwhile was told that it is being computed
    return outcome


def _keep(pk: int) -> str:
    experiment = _find_experiment(pk)
    if experiment is None:
        return "gone"
    inputs = identify_inputs([experiment])[pk]
    row = KeptComparison.objects.filter(pk=pk).read_in_pieces().get(pk)
    if row and _read_row(row, experiment, inputs):
        return "kept before"
    if row and _waits(row, inputs):
        return "put off"
    began = time.perf_counter()
    try:
        with _read_one_snapshot():
            experiment = Experiment.objects.select_related("baseline").without_plan().get(pk=pk)
            inputs = identify_inputs([experiment])[pk]
            comparison = compare_experiment(experiment)
            aa_verdicts = describe_aa_verdicts(comparison, is_over=not inputs.is_alive)
    except Experiment.DoesNotExist:
        return "gone"
    except Exception as error:
        logger.exception("The comparison of experiment %s could not be computed", pk)
        _note_failure(pk, inputs, error)
        return "failed"
    # One without numbers is kept where pages wait for it, or it takes the place of an older one.
    if not comparison.has_numbers and row is None and inputs.ended_runs <= MANY_RUNS:
        return "nothing to keep"
    seconds = time.perf_counter() - began
    if _find_experiment(pk) is None:
        return "gone"
    KeptComparison.objects.update_or_create(
        pk=pk,
        defaults={
            "key": inputs.key,
            "frame": inputs.frame,
            "content": _pack(comparison, inputs.key),
            "verdicts": comparison.verdicts,
            "ended_runs": comparison.ended,
            "aa_verdicts": aa_verdicts,
            "seconds": seconds,
            "kept_at": Now(),
            "failed_at": None,
            "failed_key": "",
            "problem": "",
        },
    )
    if not inputs.is_alive:
        _keep_other_tests(pk, comparison, inputs.key)
    return "kept"


def _keep_other_tests(pk: int, comparison: ExperimentComparison, key: str) -> None:
    """Keep the other tests of what has ended; where that fails, the page computes them."""
    try:
        keep_companions(pk, comparison, key)
    except Exception:
        logger.exception("The robustness of experiment %s could not be computed", pk)


def _is_due(pk: int) -> bool:
    """Return whether a kept comparison is stale, and it is time to compute it again."""
    experiment = _find_experiment(pk)
    row = KeptComparison.objects.defer("content").filter(pk=pk).first()
    if experiment is None or row is None:
        return False
    inputs = identify_inputs([experiment])[pk]
    return row.key != inputs.key and not _waits(row, inputs)


def _note_failure(pk: int, inputs: Inputs, error: Exception) -> None:
    """Note with the row that computing failed; an earlier comparison stays as it is."""
    problem = f"{type(error).__name__}: {error}".replace("\0", "")[:MOST_OF_PROBLEM]
    failure = {"failed_at": Now(), "failed_key": inputs.key, "problem": problem}
    first = {"key": "", "content": b"", "seconds": 0.0, "kept_at": Now(), **failure}
    KeptComparison.objects.update_or_create(pk=pk, defaults=failure, create_defaults=first)


@contextmanager
def _read_one_snapshot() -> Iterator[None]:
    """Have all statements of the block see the data of one moment, so that they fit together.

    Runs end while a large comparison is computed. Within a transaction it is as that has it.
    """
    if connection.in_atomic_block:
        with transaction.atomic():
            yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def name_lock(pk: int) -> str:
    """Return the name of the lock that is held while the comparison is computed."""
    return f"comparison {pk}"


def _find_experiment(pk: int) -> Experiment | None:
    return Experiment.objects.select_related("baseline").without_plan().filter(pk=pk).first()


def _waits(row: KeptComparison, inputs: Inputs) -> bool:
    """Return whether it is too soon to compute again."""
    due_at = find_due_time(row, inputs)
    return due_at is not None and database_now() < due_at


def find_due_time(row: KeptComparison, inputs: Inputs) -> datetime | None:
    """Return the time before which nobody computes again what a live experiment is going to change,
    and what has failed; None where there is no such time.
    """
    times = []
    if inputs.is_alive:
        tried_at = max(row.kept_at, row.failed_at or row.kept_at)
        times.append(tried_at + max(SHORTEST, SHARE * timedelta(seconds=row.seconds)))
    if row.failed_at and row.failed_key == inputs.key:
        times.append(row.failed_at + RETRY)
    return max(times, default=None)


def _read_row(
    row: KeptComparison, experiment: Experiment, inputs: Inputs
) -> ExperimentComparison | None:
    """Return the comparison that a row holds; None where it is stale or cannot be read."""
    if row.key != inputs.key:
        return None
    content = try_to_unpack(row)
    if content is None:
        return None
    # Names of people stand in exclusions: they may have been renamed since.
    if content.exclusions and content.exclusions != list_exclusions(experiment):
        return None
    return restore(experiment, content)


def try_to_unpack(row: KeptComparison) -> Content | None:
    """Return what a row holds; None, and a line in the log, where it is damaged."""
    try:
        return _unpack(bytes(row.content), row.key)
    except (ValueError, zlib.error, RecursionError) as error:
        logger.warning("The kept comparison of experiment %s is damaged: %.200s", row.pk, error)
        return None


def make_empty(experiment: Experiment) -> ExperimentComparison:
    """Return a comparison without numbers, for pages whose numbers a worker computes first."""
    return restore(
        experiment,
        Content(
            environments=list_baseline_first(experiment),
            groups=[],
            stage=read_stage(experiment),
            exclusions=[],
            rejections=[],
            repaired=(0, 0),
            left_out=[],
            further=[],
            same_as_baseline=[],
            measured=[],
        ),
    )


def restore(experiment: Experiment, content: Content) -> ExperimentComparison:
    """Return the comparison of an experiment whose content was kept."""
    return ExperimentComparison(
        key=experiment.key,
        question=experiment.question,
        margin=experiment.margin,
        paired=experiment.is_paired,
        environments=content.environments,
        groups=content.groups,
        experiment=experiment,
        stage=content.stage,
        exclusions=content.exclusions,
        rejections=content.rejections,
        repaired=content.repaired,
        left_out=content.left_out,
        further=content.further,
        same_as_baseline=content.same_as_baseline,
        measured=content.measured,
    )


def _pack(comparison: ExperimentComparison, key: str) -> bytes:
    """Return what is kept of a comparison, behind a check sum over it and its key."""
    content = Content(
        environments=comparison.environments,
        groups=comparison.groups,
        stage=comparison.stage,
        exclusions=comparison.exclusions,
        rejections=comparison.rejections,
        repaired=comparison.repaired,
        left_out=comparison.left_out,
        further=comparison.further,
        same_as_baseline=comparison.same_as_baseline,
        measured=comparison.measured,
    )
    return pack_summed(write_plain(content), key)


def _unpack(content: bytes, key: str) -> Content:
    """Return what `_pack` has packed. ValueError or zlib.error for anything else."""
    known: Content = read_plain(Content, unpack_summed(content, key))
    return known
