"""Comparisons that were computed are kept, until something that they rest on changes.

`read_comparison` gives the kept one, or computes: both are equal. What makes a kept one stale is
in its key (`comparison_keys`), so nobody has to remember to delete it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from experiments.comparisons.comparison import Group
from experiments.comparisons.comparison_keys import Inputs, identify_inputs
from experiments.comparisons.exclusions import Exclusion, list_exclusions
from experiments.comparisons.experiment_comparison import ExperimentComparison, compare_experiment
from experiments.comparisons.plain_values import read_plain, write_plain
from experiments.comparisons.rejections import Rejections
from experiments.models import Experiment, KeptComparison
from experiments.models.database_time import database_now
from experiments.notify import enqueue_keep
from experiments.planning.interim import Stage
from experiments.statistics import Verdict

logger = logging.getLogger(__name__)

SHARE = 50
"""While runs live, a comparison is computed to be kept after this many times what it takes."""
SHORTEST = timedelta(seconds=30)
"""And no sooner than after this."""
MOST_BYTES = 2**28
"""What a kept comparison may unpack to; one of 20,000 runs has some megabytes."""
DIGEST_BYTES = 32


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


def read_comparison(experiment: Experiment) -> ExperimentComparison:
    """Return the comparison of an experiment: the kept one, or one that is computed now.

    If it had to be computed, it is asked for that a worker keeps it.
    """
    return read_comparisons([experiment])[0]


def read_comparisons(experiments: Sequence[Experiment]) -> list[ExperimentComparison]:
    """Return the comparison of each experiment, in their order, as `read_comparison` does.

    Those that are kept take five statements together.
    """
    all_inputs = identify_inputs(experiments)
    rows = KeptComparison.objects.in_bulk(all_inputs.keys())
    return [
        _read_or_compute(experiment, rows.get(experiment.pk), all_inputs[experiment.pk])
        for experiment in experiments
    ]


def _are_counts(counts: Any) -> bool:
    """Return whether these are numbers of pairs by their verdict."""
    return isinstance(counts, dict) and all(
        name in list(Verdict) and type(count) is int and count > 0 for name, count in counts.items()
    )


def _read_or_compute(
    experiment: Experiment, row: KeptComparison | None, inputs: Inputs
) -> ExperimentComparison:
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

    Safe to repeat, at any time. What changes meanwhile is noticed: then nothing is kept.
    """
    experiment = _find_experiment(pk)
    if experiment is None:
        return "gone"
    inputs = identify_inputs([experiment])[pk]
    row = KeptComparison.objects.filter(pk=pk).first()
    if row and _read_row(row, experiment, inputs):
        return "kept before"
    if row and _waits(row, inputs):
        return "put off"
    began = time.perf_counter()
    comparison = compare_experiment(experiment)
    seconds = time.perf_counter() - began
    if not comparison.has_numbers:
        return "nothing to keep"
    content = _pack(comparison, inputs.key)
    now = _find_experiment(pk)
    if now is None or identify_inputs([now])[pk].key != inputs.key:
        return "changed meanwhile"
    KeptComparison.objects.update_or_create(
        pk=pk,
        defaults={
            "key": inputs.key,
            "content": content,
            "verdicts": comparison.verdicts,
            "seconds": seconds,
            "kept_at": Now(),
        },
    )
    return "kept"


def _find_experiment(pk: int) -> Experiment | None:
    return Experiment.objects.select_related("baseline").without_plan().filter(pk=pk).first()


def _waits(row: KeptComparison, inputs: Inputs) -> bool:
    """Return whether it is too soon to compute again what a live experiment is going to change."""
    wait = max(SHORTEST, SHARE * timedelta(seconds=row.seconds))
    return inputs.is_alive and database_now() - row.kept_at < wait


def _read_row(
    row: KeptComparison, experiment: Experiment, inputs: Inputs
) -> ExperimentComparison | None:
    """Return the comparison that a row holds; None where it is stale or cannot be read."""
    if row.key != inputs.key:
        return None
    try:
        content = _unpack(bytes(row.content), row.key)
    except (ValueError, zlib.error, RecursionError) as error:
        logger.warning("The kept comparison of experiment %s is damaged: %.200s", row.pk, error)
        return None
    # Names of people stand in exclusions: they may have been renamed since.
    if content.exclusions and content.exclusions != list_exclusions(experiment):
        return None
    return _restore(experiment, content)


def _restore(experiment: Experiment, content: Content) -> ExperimentComparison:
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
    )
    plain = json.dumps(write_plain(content), separators=(",", ":"))
    packed = zlib.compress(plain.encode(), 1)
    return _sum_up(packed, key) + packed


def _unpack(content: bytes, key: str) -> Content:
    """Return what `_pack` has packed. ValueError or zlib.error for anything else."""
    digest, packed = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if digest != _sum_up(packed, key):
        raise ValueError("its check sum is another one")
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(packed, MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("it is too large")
    with _pause_garbage_collection():
        known: Content = read_plain(Content, json.loads(plain))
    return known


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Look for no garbage within the block.

    Of 20,000 runs, looking at each of so many new rows again and again takes longer than to make
    them, and none of them is garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _sum_up(packed: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + packed).digest()
