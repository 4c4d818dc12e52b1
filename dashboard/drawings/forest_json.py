"""A forest plot's description as JSON, in which it travels to the process that draws it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from dashboard.drawings.forest import Forest, ForestRow


def write_forest(forest: Forest) -> str:
    """Return the description as JSON with its keys in order: equal figures are equal texts."""
    return json.dumps(asdict(forest), sort_keys=True, ensure_ascii=False, allow_nan=False)


def read_forest(text: str) -> Forest:
    """Return the description that `write_forest` has written."""
    known: dict[str, Any] = json.loads(text)
    pairs = ("thick", "thin", "notes", "prediction", "block_ratios", "margin")
    rows = [ForestRow(**row | {name: _pair(row[name]) for name in pairs}) for row in known["rows"]]
    lists = ("ticks", "few_ticks", "notes")
    return Forest(
        **{
            **known,
            **{name: tuple(_pair(pair) for pair in known[name]) for name in lists},
            "sides": _pair(known["sides"]),
            "detected": _pair(known["detected"]),
            "band": _pair(known["band"]),
            "rows": tuple(rows),
        }
    )


def _pair(values: list[Any] | None) -> Any:
    return None if values is None else tuple(values)
