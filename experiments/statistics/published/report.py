"""What a published table's comparisons say, as text and as JSON's values."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.everywhere import everywhere
from experiments.statistics.published.compare import Compared

HEADINGS = (
    "environment",
    "ratio [95 % CI]",
    "90 % CI",
    "p",
    "p (Holm)",
    "TOST p",
    "(Holm)",
    "proves",
    "verdict",
)


def as_text(compared: Sequence[Compared], left_out: Sequence[str] = ()) -> str:
    """A table, the sentence and reservations of each comparison, and what all cells say.

    `left_out` says which rows have no part in it, and why.
    """
    labels = list(compared[0].cell)
    lines = [[*labels, *HEADINGS], *([*one.cell.values(), *_fields(one)] for one in compared)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(field.ljust(width) for field, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    for one in compared:
        where = ", ".join(f"{name} {value}" for name, value in one.cell.items())
        text += ["", f"{where}: {one.pair.sentence}" if where else one.pair.sentence]
        text += [
            f"  {stamp}: {reason}"
            for stamp, reason in zip(one.pair.stamps, one.pair.reasons, strict=True)
        ]
    for summary in everywhere([one.pair for one in compared]):
        text += ["", summary.sentence]
    if left_out:
        text += ["", *left_out]
    return "\n".join(text)


def as_json(compared: Sequence[Compared], left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Every number, unrounded. Whatever cannot be inferred is None."""
    return {
        "comparisons": [_values(one) for one in compared],
        "all_cells": [asdict(summary) for summary in everywhere([one.pair for one in compared])],
        "left_out": list(left_out),
    }


def _fields(one: Compared) -> list[str]:
    pair = one.pair
    return [
        pair.environment,
        numbers.ratio(pair.ratio, pair.ci95),
        _interval(pair.ci90),
        numbers.p_value(pair.p_difference),
        numbers.p_value(pair.p_difference_holm),
        numbers.p_value(pair.p_equivalence),
        numbers.p_value(pair.p_equivalence_holm),
        numbers.provable(pair.smallest_margin, decimals=2),
        pair.verdict,
    ]


def _interval(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return numbers.MISSING
    low, high = (numbers.fixed(end, numbers.ratio_decimals(interval)) for end in interval)
    return f"[{low}, {high}]"


def _values(one: Compared) -> dict[str, Any]:
    pair = asdict(one.pair)
    del pair["claim"], pair["evidence"], pair["reasons"], pair["software"], pair["before"]
    return {
        "cell": one.cell,
        "rows": one.rows,
        **pair,
        "log_ratio": None if one.pair.ratio is None else math.log(one.pair.ratio),
        "sentence": one.pair.sentence,
        "stamps": [
            {"stamp": stamp, "reason": reason}
            for stamp, reason in zip(one.pair.stamps, one.pair.reasons, strict=True)
        ],
    }
