"""Pair the names of two experiments, and give each pair a label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Names = tuple[str, str]
"""The name of the same thing on both sides; empty where a side does not have it."""
EDGE = r"(?:[\s,;:()/–]+|\s-\s)"
"""What stands between a cluster's name and the rest of another."""


@dataclass(frozen=True)
class PairedName:
    """An environment of two experiments: its name on each side, and what the page calls it."""

    names: Names
    label: str


def pair_names(left: Sequence[str], right: Sequence[str]) -> list[Names]:
    """Pair equal names; what is left alone on each side pairs too, as it takes the same place."""
    left_alone = [name for name in left if name not in right]
    right_alone = [name for name in right if name not in left]
    if len(left_alone) == len(right_alone) == 1:
        successor = right_alone[0]
        return [(name, name if name in right else successor) for name in left]
    return [
        *((name, name if name in right else "") for name in left),
        *(("", name) for name in right_alone),
    ]


def join_names(names: Names) -> str:
    """Return both names of a pair, one of them where they are equal or the other is missing."""
    return " / ".join(dict.fromkeys(filter(None, names)))


def pair_by_short_names(left: Mapping[str, str], right: Mapping[str, str]) -> list[PairedName]:
    """Pair the names of both sides by their short forms, which are the values of the mappings."""
    full_left, full_right = (
        {short: name for name, short in side.items()} for side in (left, right)
    )
    return [
        PairedName((full_left.get(names[0], ""), full_right.get(names[1], "")), join_names(names))
        for names in pair_names([*left.values()], [*right.values()])
    ]


def shorten_names(names: Iterable[str], cluster: str) -> dict[str, str]:
    """Return each name without the name of its cluster; all as they are if two became equal.

    The environments of two clusters are often called alike but for that, and the page of two
    experiments names both clusters above all of them.
    """
    short = {name: _leave_out(name, cluster) for name in names}
    return short if len(set(short.values())) == len(short) else {name: name for name in short}


def _leave_out(name: str, cluster: str) -> str:
    """Return a name without a cluster's at its beginning or its end."""
    if not cluster:
        return name
    rest = re.sub(rf"^{re.escape(cluster)}{EDGE}", "", name)
    rest = re.sub(rf"{EDGE}(?:(?:on|at|of){EDGE})?{re.escape(cluster)}\)?$", "", rest)
    return rest.strip() or name
