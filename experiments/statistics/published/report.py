"""The comparisons of a published table as text, and as values for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.across_configurations import summarise_environments
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


def format_text(compared: Sequence[Compared], left_out: Sequence[str] = ()) -> str:
    """Return a table, the sentence and stamps of each comparison, and the summary of all.

    `left_out` has a sentence for rows that are not compared; they come last.
    """
    labels = list(compared[0].configuration)
    lines = [
        [*labels, *HEADINGS],
        *([*comparison.configuration.values(), *_fields(comparison)] for comparison in compared),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(field.ljust(width) for field, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    for comparison in compared:
        where = ", ".join(f"{name} {value}" for name, value in comparison.configuration.items())
        text += ["", f"{where}: {comparison.pair.sentence}" if where else comparison.pair.sentence]
        text += [
            f"  {stamp.label}: {reason}"
            for stamp, reason in zip(comparison.pair.stamps, comparison.pair.reasons, strict=True)
        ]
    for summary in summarise_environments([comparison.pair for comparison in compared]):
        text += ["", summary.sentence]
    if left_out:
        text += ["", *left_out]
    return "\n".join(text)


def make_json(compared: Sequence[Compared], left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Return every number, unrounded. Whatever cannot be inferred is None."""
    return {
        "comparisons": [_values(comparison) for comparison in compared],
        "all_cells": [
            summary.columns
            for summary in summarise_environments([comparison.pair for comparison in compared])
        ],
        "left_out": list(left_out),
    }


def _fields(comparison: Compared) -> list[str]:
    pair = comparison.pair
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


def _values(comparison: Compared) -> dict[str, Any]:
    pair = asdict(comparison.pair)
    del pair["claim"], pair["evidence"], pair["reasons"], pair["software"], pair["before"]
    del pair["extension"]
    pair["look"] = pair.pop("interim_analysis")  # its name in files that others have stored
    return {
        "cell": comparison.configuration,
        "rows": comparison.rows,
        **pair,
        "log_ratio": None if comparison.pair.ratio is None else math.log(comparison.pair.ratio),
        "sentence": comparison.pair.sentence,
        "stamps": [
            {"stamp": stamp, "reason": reason}
            for stamp, reason in zip(comparison.pair.stamps, comparison.pair.reasons, strict=True)
        ],
    }
