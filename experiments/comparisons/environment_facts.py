"""The facts that the snapshots of an experiment's runs hold, by environment."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.models import Experiment, Run, Snapshot

Facts = dict[str, dict[str, set[str]]]
"""Environment -> fact -> its values."""


def read_environment_facts(experiment: Experiment) -> Facts:
    """Return environment -> fact -> its values, over the runs that succeeded; two queries.

    Most runs of an environment share a snapshot, so that each is read once.
    """
    return read_facts_of_all([experiment.pk]).get(experiment.pk, {})


def read_facts_of_all(experiments: Sequence[int]) -> dict[int, Facts]:
    """Return what `read_environment_facts` does, by experiment's key; two queries for all.

    Experiments without any facts are left out.
    """
    places: dict[int, list[tuple[int, str]]] = {}
    for experiment, name, snapshot in (
        Run.objects.filter(
            experiment__in=experiments, state=Run.State.SUCCEEDED, snapshot__isnull=False
        )
        .order_by()
        .values_list("experiment_id", "environment__name", "snapshot_id")
        .distinct()
    ):
        places.setdefault(snapshot, []).append((experiment, name))
    rows = Snapshot.objects.filter(pk__in=places.keys()).values_list("pk", "facts")
    values: dict[int, Facts] = {}
    for pk, facts in rows.iterator():
        for experiment, name in places[pk]:
            known = values.setdefault(experiment, {}).setdefault(name, {})
            for fact, value in facts.items():
                known.setdefault(fact, set()).add(str(value))
    return values
