"""In which state nodes were during runs, by their samples: read where values varied notably."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import F, Func, JSONField, Value

from experiments.models import NodeSamples
from experiments.statistics import Measured, Sample
from experiments.statistics.coincidences import (
    CLOCK,
    CPU,
    HEAT,
    MEMORY,
    OTHERS,
    SLOWDOWN,
    SWAPPED,
    Conditions,
    Sampled,
    find_coincidences,
)
from experiments.statistics.unsteadiness import center_samples
from runners.node_samples import REASONS, SLOWDOWNS

MOST_RUNS = 400
"""Of more runs so many are looked at: whole blocks, evenly chosen in their order."""
MEANS = (CPU, OTHERS, CLOCK, HEAT, MEMORY)
IS_TRACK = '@.name.type() == "string" && @.mean.type() == "number"'
SLOWDOWN_NAMES = {name for bit, name in REASONS.items() if bit & SLOWDOWNS}


def find_sampled_coincidences(samples: Sequence[Sample], metric: Measured) -> Sampled:
    """Return what the samples of nodes show of the slow runs among these; one statement."""
    chosen = _choose_blocks(samples)
    return find_coincidences(
        chosen,
        center_samples(chosen),
        read_conditions(sample.run for sample in chosen),
        metric.better,
    )


def read_conditions(runs: Iterable[str]) -> dict[str, Conditions]:
    """Return what was sampled during each run, by its uid; nothing of runs without samples.

    Tracks of several GPUs are averaged. PostgreSQL leaves their points out: they are long.
    """
    rows = NodeSamples.objects.filter(run__uid__in=list(runs)).values_list(
        "run__uid",
        _select(f"$.tracks[*] ? ({IS_TRACK}).name"),
        _select(f"$.tracks[*] ? ({IS_TRACK}).mean"),
        _select(f'$.tracks[*] ? (@.name == "{SWAPPED}" && @.high.type() == "number").high'),
        _select(f'$.tracks[*] ? (@.name == "{CLOCK}" && @.count.type() == "number").count'),
        _select("$.reasons"),
    )
    return {
        uid: _describe_conditions(names, means, pages, counts, reasons)
        for uid, names, means, pages, counts, reasons in rows
    }


def _select(path: str) -> Func:
    return Func(
        F("content"),
        Value(path),
        function="jsonb_path_query_array",
        template="%(function)s(%(expressions)s::jsonpath)",
        output_field=JSONField(),
    )


def _describe_conditions(
    names: Sequence[str],
    means: Sequence[float],
    pages: Sequence[float],
    counts: Sequence[int],
    reasons: Sequence[Any],
) -> dict[str, float]:
    tracks: dict[str, list[float]] = {}
    for name, mean in zip(names, means, strict=True):
        if name in MEANS:
            tracks.setdefault(name, []).append(float(mean))
    known = {name: math.fsum(values) / len(values) for name, values in tracks.items()}
    if pages:
        known[SWAPPED] = float(max(pages))
    if most := max(counts, default=0):
        of_gpus = [each for gpus in reasons if isinstance(gpus, dict) for each in gpus.values()]
        slowed = [_count_slowdowns(of_gpu) for of_gpu in of_gpus if isinstance(of_gpu, dict)]
        known[SLOWDOWN] = min(max(slowed, default=0) / most, 1.0)
    return known


def _count_slowdowns(reasons: Mapping[str, Any]) -> int:
    """Return in how many samples heat or the hardware slowed a GPU: its commonest reason."""
    return max((int(reasons[name]) for name in SLOWDOWN_NAMES & set(reasons)), default=0)


def _choose_blocks(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples, or of very many those of some blocks, evenly chosen in their order."""
    blocks = list(dict.fromkeys(sample.block for sample in samples))
    every = math.ceil(len(samples) / MOST_RUNS)
    if every <= 1:
        return list(samples)
    chosen = set(blocks[::every])
    return [sample for sample in samples if sample.block in chosen]
