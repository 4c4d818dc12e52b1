"""What was true where a recurrence ran, and what of it differs from the one before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q

from experiments.comparisons.environment_facts import read_facts_of_all
from experiments.models import Recurrence, Run, Snapshot
from experiments.natural_order import make_natural_key, sort_naturally

MOST_SHOWN = 12
FIRST = ("GPU driver", "runtime", "kernel", "image", "node")
"""Facts that are named before all others."""

Facts = dict[str, dict[str, list[str]]]
"""Environment -> fact -> its values, in order."""


def list_changes(recurrence: Recurrence) -> list[str]:
    """Return a line for each fact that differs from the recurrence before, the weighty ones first.

    The one before is the last with runs that succeeded.
    """
    earlier = (
        Recurrence.objects.filter(recurring=recurrence.recurring_id, number__lt=recurrence.number)
        .filter(Q(points__isnull=False) & ~Q(points=[]))
        .order_by("-number")
        .first()
    )
    if earlier is None:
        return []
    facts = read_facts([earlier.experiment_id, recurrence.experiment_id])
    before, now = facts[earlier.experiment_id], facts[recurrence.experiment_id]
    return compare_facts(before, now)


def compare_facts(before: Facts, now: Facts) -> list[str]:
    """Return what differs, with the environments in which it does: "kernel: 5.14 → 6.1 (all)"."""
    lines: dict[tuple[str, str], list[str]] = {}
    shared = sort_naturally(before.keys() & now.keys())
    for environment in shared:
        old, new = before[environment], now[environment]
        for name in old.keys() & new.keys():
            if old[name] != new[name]:
                change = f"{', '.join(old[name])} → {', '.join(new[name])}"
                lines.setdefault((name, change), []).append(environment)
    order = sorted(lines, key=lambda key: (_rank(key[0]), *map(make_natural_key, key)))
    described = [
        f"{name}: {change}"
        + ("" if lines[name, change] == shared else f" ({_join(lines[name, change])})")
        for name, change in order
    ]
    more = len(described) - MOST_SHOWN
    return described if more <= 0 else [*described[:MOST_SHOWN], f"and {more} more facts"]


def read_facts(experiments: Iterable[int]) -> dict[int, Facts]:
    """Return the facts of experiments by their keys; four statements for all of them."""
    keys = list(experiments)
    known = read_facts_of_all(keys)
    facts: dict[int, Facts] = {
        key: {
            environment: {name: sorted(values) for name, values in values_by_name.items()}
            for environment, values_by_name in known.get(key, {}).items()
        }
        for key in keys
    }
    for key, environment, values in _list_outer_facts(keys):
        for name, value in values.items():
            if value:
                row = facts[key].setdefault(environment, {}).setdefault(name, [])
                if value not in row:
                    row.append(value)
                    row.sort()
    return facts


def _list_outer_facts(keys: list[int]) -> Iterable[tuple[int, str, Mapping[str, str]]]:
    """Yield the runtime's version and the image of each environment, from its snapshots."""
    places: dict[int, list[tuple[int, str]]] = {}
    runs = Run.objects.filter(
        experiment__in=keys, state=Run.State.SUCCEEDED, snapshot__isnull=False
    )
    for key, environment, snapshot in (
        runs.order_by().values_list("experiment_id", "environment__name", "snapshot_id").distinct()
    ):
        places.setdefault(snapshot, []).append((key, environment))
    columns = ("pk", "content__runtime", "content__image")
    for pk, runtime, image in Snapshot.objects.filter(pk__in=places).values_list(*columns):
        for key, environment in places[pk]:
            yield key, environment, {"runtime": _text(runtime), "image": _text(image)}


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _rank(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _join(names: list[str]) -> str:
    return ", ".join(names)
