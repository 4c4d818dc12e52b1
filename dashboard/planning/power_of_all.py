"""Statistical power of several decisive metrics: of each, and of all of them at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dashboard.planning.power import (
    Asked,
    Outlook,
    describe_repeats,
    estimate_outlooks,
    expect_spread,
    list_asked,
)
from experiments.models import Workload
from experiments.planning.past_spread import History
from experiments.statistics import numbers
from experiments.statistics.margins import Margin
from experiments.statistics.planner import (
    FEWEST_TO_INFER,
    compute_equivalence_power,
    count_repeats_for_all,
    count_repeats_needed,
    expect_estimate,
)
from experiments.statistics.values import ALPHA

MetricMargin = tuple[str, Margin]
"""The name of a metric, and its margin."""


def estimate_all_outlooks(
    *, metric: str, margin: Margin, further: Sequence[MetricMargin], **asked: Any
) -> Iterator[Outlook]:
    """Yield the outlooks of each decisive metric, and of all at once where there are several.

    `asked` are the other arguments of `estimate_outlooks`.
    """
    if not further:
        yield from estimate_outlooks(metric=metric, margin=margin, **asked)
        return
    histories: dict[Asked, History] = {}
    decisive = [(metric, margin), *further]
    for name, its_margin in decisive:
        for outlook in estimate_outlooks(
            metric=name, margin=its_margin, histories=histories, **asked
        ):
            named = f"{name or 'Primary metric'}: {outlook.sentence}"
            yield replace(outlook, sentence=named, savings="")
    yield from _estimate_together(
        decisive,
        histories,
        asked["workloads"],
        repeats=asked["repeats"],
        nodes=asked.get("nodes"),
        paired=asked["paired"],
        comparisons=asked["comparisons"],
    )


def _estimate_together(
    decisive: Sequence[MetricMargin],
    histories: dict[Asked, History],
    workloads: Sequence[Workload],
    *,
    repeats: int,
    nodes: int | None,
    paired: bool,
    comparisons: int,
) -> Iterator[Outlook]:
    """Yield one for each kind of workload: how many repeats show all metrics at once."""
    by_kind: dict[tuple[str, Workload | None], list[MetricMargin]] = {}
    spreads: dict[tuple[str, Workload | None], list[float]] = {}
    for metric, margin in decisive:
        for kind, name, only in list_asked(workloads, metric):
            past = histories[kind, name, only]
            each = repeats / nodes if nodes else None
            cv, *_ = expect_spread(past, "", paired=paired, blocks_a_node=each)
            by_kind.setdefault((kind, only), []).append((name, margin))
            spreads.setdefault((kind, only), []).append(cv)
    count, pairs = (repeats, paired) if nodes is None else (nodes, True)
    unit = "node" if nodes is not None else "block" if paired else "run"
    for key, metrics in by_kind.items():
        parts = tuple((cv, margin) for cv, (_, margin) in zip(spreads[key], metrics, strict=True))
        alone = [count_repeats_needed(cv, margin, paired=pairs) for cv, margin in parts]
        hardest = max(range(len(parts)), key=lambda i: alone[i] or math.inf)
        together = count_repeats_for_all(parts, paired=pairs)
        whose = f" of {key[1].name if key[1] else key[0]}" if len(by_kind) > 1 else ""
        sentence = (
            f"{numbers.all_of(len(parts), 'decisive metric').capitalize()}{whose} at once need "
            f"{describe_repeats(together)}; {metrics[hardest][0]} alone needs most, "
            f"{describe_repeats(alone[hardest])}."
        )
        notes = (
            "The chances to miss any of them add up to 20 of 100 at most, so all are shown in 80 "
            "or more, however the metrics are correlated (Boole’s bound)."
        )
        if count >= FEWEST_TO_INFER:
            chance = 1 - math.fsum(
                1 - compute_equivalence_power(expect_estimate(cv, count, paired=pairs), margin)
                for cv, margin in parts
            )
            size = numbers.count(count, unit)
            notes += f" With {size} it is at least {max(math.floor(100 * chance), 0)} of 100."
        if comparisons > 1:
            corrected = count_repeats_for_all(parts, paired=pairs, alpha=ALPHA / comparisons)
            notes += (
                f" What survives Holm among {comparisons} comparisons takes "
                f"{describe_repeats(corrected)}."
            )
        yield Outlook(sentence, notes)
