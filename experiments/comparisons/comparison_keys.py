"""The key of a comparison: a hash of all that it rests on, found by one small statement.

Runs, measurements and steps are not read: whoever changes one of them writes an event. The list of
all inputs, and of what says that each has changed, is in docs/decisions/0120-kept-comparisons.md.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.db import connection

from experiments.models import Experiment, Run

BASE = Path(__file__).resolve().parents[2]
METHOD = (
    *("experiments", "runners/workloads", "runners/ends.py", "runners/node_rules.py"),
    "runners/node_samples.py",
    "docs/confounders.md",  # the grades of facts
)
"""The folders and files whose code a comparison may depend on."""
LIBRARIES = ("numpy", "scipy")
COLUMNS = (
    "accuracy_margin",
    "baseline_id",
    "cancelled_at",
    "design",
    "estimand",
    "further_metrics",
    "extended_repeats",
    "extension_level",
    "goal",
    "import_hash",
    "imported_at",
    "looks",
    "loss_margin",
    "margin",
    "margin_faster",
    "metrics_rule",
    "plan_hash",
    "primary_metric",
    "repeats",
    "scales",
    "stopped_at_look",
    "warm_up",
)
"""What a comparison reads of its experiment. The hash stands for the plan, the question is shown
from the experiment itself."""
PROGRESS = {"cancelled_at", "extended_repeats", "extension_level", "stopped_at_look"}
"""Those of them that change while runs live."""
ENVIRONMENT, WORKLOAD, EVENTS, RUNS = "environment", "workload", "events", "runs"
Part = tuple[str, int, str]
"""A row, or a number of rows: its name, the primary key or the count, and what it says."""
PARTS = """
SELECT member.experiment_id, 'environment', environment.id, environment.name::text
FROM experiments_experiment_environments AS member
JOIN experiments_environment AS environment ON environment.id = member.environment_id
WHERE member.experiment_id = ANY(%(pks)s)
UNION ALL
SELECT
    member.experiment_id, 'workload', workload.id,
    jsonb_build_array(workload.name, workload.kind, workload.parameters)::text
FROM experiments_experiment_workloads AS member
JOIN experiments_workload AS workload ON workload.id = member.workload_id
WHERE member.experiment_id = ANY(%(pks)s)
UNION ALL
SELECT experiment_id, 'events', count(*), max(id)::text
FROM experiments_event WHERE experiment_id = ANY(%(pks)s) GROUP BY experiment_id
"""
PARTS_OF_RUNS = """
SELECT experiment_id, 'runs', count(*), state::text
FROM experiments_run WHERE experiment_id = ANY(%(pks)s) GROUP BY experiment_id, state
"""
"""As `Part`, behind the key of the experiment; PARTS_OF_RUNS counts runs, which takes longest."""


@dataclass(frozen=True)
class Inputs:
    """What the comparison of one experiment rests on."""

    key: str
    frame: str
    """Two hashes of what does not change while runs live: of the method, and of the plan with its
    names. Where both are the same, only runs, events and what persons did with them are newer."""
    is_alive: bool
    """Whether runs have not ended yet."""
    ended_runs: int
    """How many runs have."""


HALF = 32
"""Characters of each of the two hashes in a frame."""


def has_same_plan(frame: str, other: str) -> bool:
    """Return whether two comparisons are of the same plan with the same names, by their frames."""
    return len(frame) == 2 * HALF and frame[HALF:] == other[HALF:]


def identify_inputs(
    experiments: Sequence[Experiment], runs: Mapping[int, Mapping[str, int]] | None = None
) -> dict[int, Inputs]:
    """Return the key of the comparison of each experiment, by its primary key; one statement.

    Where `runs` are given, their numbers by state, they are not counted once more.
    """
    all_parts = _read_parts([experiment.pk for experiment in experiments], runs)
    inputs = {}
    for experiment in experiments:
        parts = all_parts.get(experiment.pk, [])
        plan = [
            [getattr(experiment, name) for name in COLUMNS if name not in PROGRESS],
            [part for part in parts if part[0] in (ENVIRONMENT, WORKLOAD)],
        ]
        changing = [
            [getattr(experiment, name) for name in sorted(PROGRESS)],
            [part for part in parts if part[0] in (EVENTS, RUNS)],
        ]
        counts = [(number, state) for name, number, state in parts if name == RUNS]
        inputs[experiment.pk] = Inputs(
            key=_hash([identify_method(), plan, changing]),
            frame=identify_method()[:HALF] + _hash(plan)[:HALF],
            is_alive=any(state not in Run.FINAL for _, state in counts),
            ended_runs=sum(number for number, state in counts if state in Run.FINAL),
        )
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


def _read_parts(
    pks: Sequence[int], runs: Mapping[int, Mapping[str, int]] | None
) -> dict[int, list[Part]]:
    """Return what the keys of these experiments are made of, by the experiments' primary keys.

    The number of events tells of one that was written earlier and committed later than the last.
    """
    if not pks:
        return {}
    statement = PARTS if runs is not None else " UNION ALL ".join((PARTS, PARTS_OF_RUNS))
    parts: dict[int, list[Part]] = {}
    with connection.cursor() as cursor:
        # Not by the ORM: pages that follow experiments ask it every few seconds.
        cursor.execute(statement, {"pks": list(pks)})
        for experiment, *part in cursor.fetchall():
            parts.setdefault(experiment, []).append(tuple(part))
    for experiment, counts in (runs or {}).items():
        rows = [(RUNS, number, state) for state, number in counts.items()]
        parts.setdefault(experiment, []).extend(rows)
    return {experiment: sorted(rows) for experiment, rows in parts.items()}
