"""What a published table's comparisons say, as text and as JSON's values."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.estimates import Estimate
from experiments.statistics.published import Compared, geometric_mean
from experiments.statistics.values import Verdict

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


def as_text(compared: Sequence[Compared]) -> str:
    """A table, the sentence and reservations of each comparison, and what all cells say."""
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
    for everywhere in _everywhere(compared):
        text += ["", _in_words(everywhere)]
    return "\n".join(text)


def as_json(compared: Sequence[Compared]) -> dict[str, Any]:
    """Every number, unrounded. Whatever cannot be inferred is None."""
    return {
        "comparisons": [_values(one) for one in compared],
        "all_cells": list(_everywhere(compared)),
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
        numbers.percent(pair.smallest_margin, decimals=2),
        pair.verdict,
    ]


def _interval(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return numbers.MISSING
    low, high = (numbers.fixed(end, numbers.ratio_decimals(interval)) for end in interval)
    return f"[{low}, {high}]"


def _values(one: Compared) -> dict[str, Any]:
    pair = asdict(one.pair)
    del pair["claim"], pair["evidence"], pair["reasons"]
    inferred = one.pair.ci95 is not None
    return {
        "cell": one.cell,
        "rows": one.rows,
        **pair,
        **(_estimate(one.estimate) if inferred and one.estimate else {}),
        "better": one.better,
        "sentence": one.pair.sentence,
        "stamps": [
            {"stamp": stamp, "reason": reason}
            for stamp, reason in zip(one.pair.stamps, one.pair.reasons, strict=True)
        ],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"log_ratio": estimate.log_ratio, "log_se": estimate.se, "df": estimate.df}


def _everywhere(compared: Sequence[Compared]) -> Iterator[dict[str, Any]]:
    """What all cells together say about each environment that has an inference in all of them."""
    for name in dict.fromkeys(one.pair.environment for one in compared):
        cells = [one for one in compared if one.pair.environment == name]
        ps = [one.pair.p_equivalence for one in cells if one.pair.p_equivalence is not None]
        if len(cells) < 2 or len(ps) < len(cells):
            continue
        mean = geometric_mean([one.estimate for one in cells if one.estimate])
        margin = cells[0].pair.margin
        yield {
            "environment": name,
            "baseline": cells[0].pair.baseline,
            "margin": margin,
            "cells": len(cells),
            "equivalent_in_all": all(one.pair.verdict is Verdict.EQUIVALENT for one in cells),
            "largest_p_equivalence": max(ps),
            "geometric_mean_ratio": mean.ratio,
            **_estimate(mean),
            "ci95": mean.interval(0.95),
            "ci90": mean.interval(0.90),
            "p_difference": mean.p_difference,
            "p_equivalence": mean.p_equivalence(margin),
        }


def _in_words(values: dict[str, Any]) -> str:
    shown = "is shown" if values["equivalent_in_all"] else "is not shown"
    return (
        f"{values['environment']} in all {values['cells']} cells: equivalence within "
        f"{numbers.margin(values['margin'])} {shown} (largest TOST p "
        f"{numbers.p_value(values['largest_p_equivalence'])}). Geometric mean of the ratios "
        f"{numbers.ratio(values['geometric_mean_ratio'], values['ci95'])} (95 % CI), "
        f"TOST p {numbers.p_value(values['p_equivalence'])}."
    )
