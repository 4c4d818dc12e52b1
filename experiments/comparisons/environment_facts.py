"""The facts that the snapshots of an experiment's runs hold, by environment."""

from __future__ import annotations

from experiments.models import Experiment, Run, Snapshot


def read_environment_facts(experiment: Experiment) -> dict[str, dict[str, set[str]]]:
    """Return environment -> fact -> its values, over the runs that succeeded; two queries.

    Most runs of an environment share a snapshot, so that each is read once.
    """
    pairs = (
        experiment.runs.filter(state=Run.State.SUCCEEDED, snapshot__isnull=False)
        .order_by()
        .values_list("environment__name", "snapshot_id")
        .distinct()
    )
    environments: dict[int, list[str]] = {}
    for name, snapshot in pairs:
        environments.setdefault(snapshot, []).append(name)
    rows = Snapshot.objects.filter(pk__in=environments.keys()).values_list("pk", "facts")
    values: dict[str, dict[str, set[str]]] = {}
    for pk, facts in rows.iterator():
        for name in environments[pk]:
            known = values.setdefault(name, {})
            for fact, value in facts.items():
                known.setdefault(fact, set()).add(str(value))
    return values
