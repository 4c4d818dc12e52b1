"""The key of a comparison: a hash of all that it rests on, found by a few small statements.

Runs, measurements and steps are not read: whoever changes one of them writes an event. The list of
all inputs, and of what says that each has changed, is in docs/decisions/0120-kept-comparisons.md.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.db.models import Count, Max

from experiments.models import Environment, Event, Experiment, Run, Workload

BASE = Path(__file__).resolve().parents[2]
METHOD = ("experiments", "runners/workloads", "runners/ends.py", "runners/node_rules.py")
"""The folders and files whose code a comparison may depend on."""
LIBRARIES = ("numpy", "scipy")
COLUMNS = (
    "baseline_id",
    "cancelled_at",
    "design",
    "import_hash",
    "imported_at",
    "looks",
    "margin",
    "plan_hash",
    "primary_metric",
    "repeats",
    "scales",
    "stopped_at_look",
    "warm_up",
)
"""What a comparison reads of its experiment. The hash stands for the plan, the question is shown
from the experiment itself."""
PROGRESS = {"cancelled_at", "stopped_at_look"}
"""Those of them that change while runs live."""
Rows = dict[int, list[Any]]


@dataclass(frozen=True)
class Inputs:
    """What the comparison of one experiment rests on."""

    key: str
    frame: str
    """A hash of what does not change while runs live: where it is the same, only runs, events and
    what persons did with them may be newer."""
    is_alive: bool
    """Whether runs have not ended yet."""


def identify_inputs(experiments: Sequence[Experiment]) -> dict[int, Inputs]:
    """Return the key of the comparison of each experiment, by its primary key; four statements."""
    pks = [experiment.pk for experiment in experiments]
    environments, workloads = _list_environments(pks), _list_workloads(pks)
    events, states = _count_events(pks), _count_states(pks)
    inputs = {}
    for experiment in experiments:
        pk = experiment.pk
        fixed = [
            identify_method(),
            [getattr(experiment, name) for name in COLUMNS if name not in PROGRESS],
            environments.get(pk),
            workloads.get(pk),
        ]
        changing = [
            [getattr(experiment, name) for name in sorted(PROGRESS)],
            events.get(pk),
            states.get(pk),
        ]
        is_alive = any(state not in Run.FINAL for state, _ in states.get(pk, []))
        inputs[pk] = Inputs(_hash([fixed, changing]), _hash(fixed), is_alive)
    return inputs


@cache
def identify_method() -> str:
    """Return a hash of the code that computes comparisons, and of what computes for it.

    It is of all code that may matter, and of some that does not: computing once more after an
    upgrade is cheaper than a result of two versions.
    """
    digest = hashlib.sha256(platform.python_version().encode())
    for name in LIBRARIES:
        digest.update(f"{name} {version(name)}".encode())
    for path in list_method_files():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(BASE)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def list_method_files() -> list[Path]:
    """Return the files with the code that a comparison may depend on, in a fixed order."""
    files = []
    for name in METHOD:
        path = BASE / name
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return files


def _hash(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _list_environments(pks: Sequence[int]) -> Rows:
    rows = Environment.objects.filter(experiments__in=pks).order_by("experiments", "pk")
    return _group(rows.values_list("experiments", "pk", "name"))


def _list_workloads(pks: Sequence[int]) -> Rows:
    rows = Workload.objects.filter(experiments__in=pks).order_by("experiments", "pk")
    return _group(rows.values_list("experiments", "pk", "name", "kind", "parameters"))


def _count_events(pks: Sequence[int]) -> Rows:
    """Return how many events each experiment has, and the last one.

    The number tells of an event that was written earlier and committed later than the last.
    """
    rows = Event.objects.filter(experiment__in=pks).order_by().values("experiment")
    counted = rows.annotate(count=Count("pk"), last=Max("pk"))
    return _group(counted.values_list("experiment", "count", "last"))


def _count_states(pks: Sequence[int]) -> Rows:
    rows = Run.objects.filter(experiment__in=pks).order_by("experiment", "state")
    counted = rows.values("experiment", "state").annotate(count=Count("pk"))
    return _group(counted.values_list("experiment", "state", "count"))


def _group(rows: Any) -> Rows:
    groups: Rows = {}
    for experiment, *columns in rows:
        groups.setdefault(experiment, []).append(columns)
    return groups
