"""Recognise studies that are of the same data: an experiment, and a table that was exported of it.

Tare's files name runs by their uids and a plan by its hash, which no two of them share. A table
that carries neither, such as one of means typed by hand, cannot be told from other data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from experiments.models import Experiment, PublishedTable, Run, User

UID = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9a-f])")
"""As `new_uid` makes them."""
PLAN = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
SHORT = 12
"""Letters of a plan's hash that methods name."""
MOST_NAMED = 3

Source = Experiment | PublishedTable


@dataclass(frozen=True)
class Marks:
    """What the text of a table and its source name that only Tare's files name."""

    runs: frozenset[str]
    plans: frozenset[str]
    text: str


def read_marks(table: PublishedTable) -> Marks:
    """Return the uids of runs and the hashes of plans that a table or its source names."""
    text = f"{table.source}\n{table.text}"
    return Marks(frozenset(UID.findall(text)), frozenset(PLAN.findall(text)), text)


def identify_data(sources: Mapping[str, Source]) -> dict[str, frozenset[str]]:
    """Return texts that two studies share if they are of the same data, by the studies' keys.

    One statement where tables name runs and there are experiments beside them, else none.
    """
    experiments = [row for row in sources.values() if isinstance(row, Experiment)]
    marks = {
        key: read_marks(row) for key, row in sources.items() if isinstance(row, PublishedTable)
    }
    experiments_of_runs = _find_runs(
        {uid for each in marks.values() for uid in each.runs}, [row.pk for row in experiments]
    )
    identities = {}
    for key, row in sources.items():
        if isinstance(row, Experiment):
            identities[key] = _identify_experiment(row)
            continue
        own = marks[key]
        named = {experiments_of_runs[uid] for uid in own.runs if uid in experiments_of_runs}
        named |= {row.pk for row in experiments if _names_plan(own, row)}
        identities[key] = frozenset(
            {
                f"table {hashlib.sha256(row.text.strip().encode()).hexdigest()}",
                *(f"run {uid}" for uid in own.runs),
                *(f"plan {digest}" for digest in own.plans),
                *(f"experiment {pk}" for pk in named),
            }
        )
    return identities


def find_exported_experiments(user: User, table: PublishedTable) -> list[Experiment]:
    """Return the experiments that a table was exported of, of those that `user` may view.

    No statement where the table names neither runs nor plans.
    """
    own = read_marks(table)
    if not own.runs and not own.plans:
        return []
    by_run = Run.objects.filter(uid__in=own.runs).values("experiment")
    named = Q(pk__in=by_run) | Q(plan_hash__in=own.plans)
    visible = Experiment.objects.visible_to(user).without_plan()
    return list(visible.filter(named).order_by("pk")[:MOST_NAMED])


def _identify_experiment(row: Experiment) -> frozenset[str]:
    """Return what is the same for the same logs, whoever has imported them."""
    logs = {f"logs {row.import_hash}"} if row.import_hash else set()
    return frozenset({f"experiment {row.pk}", *logs})


def _find_runs(uids: Collection[str], experiments: Sequence[int]) -> dict[str, int]:
    """Return the experiments of runs by the runs' uids."""
    if not uids or not experiments:
        return {}
    rows = Run.objects.filter(experiment__in=experiments, uid__in=uids)
    return dict(rows.values_list("uid", "experiment_id"))


def _names_plan(marks: Marks, row: Experiment) -> bool:
    return bool(row.plan_hash) and row.plan_hash[:SHORT] in marks.text
