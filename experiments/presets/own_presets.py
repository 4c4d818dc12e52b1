"""Presets of one's own: the definition of an experiment, kept and made a draft again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import Model

from experiments.access.permissions import why_not_use
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    OwnPreset,
    User,
    Workload,
)
from experiments.planning.variants import CannotBeSwept, list_chosen, store_sweeps

SETTINGS = (
    *("question", "scales", "repeats", "looks", "design", "margin", "primary_metric"),
    *("further_metrics", "metrics_rule"),
    *("goal", "margin_faster", "estimand", "spreads_nodes", "warm_up", "cooldown_seconds"),
    *("accuracy_margin", "loss_margin"),
    *("reject_swap", "reject_throttled", "reject_others"),
    *("reject_below_mhz", "reject_others_cpus", "rejected_again", "sweeps"),
    "output_mib",
)
"""What a draft has of a definition beside rows of the catalogue."""


class CannotBeUsed(Exception):
    """No draft can be made of a preset, for the reason that its text gives."""


def describe_definition(experiment: Experiment) -> dict[str, Any]:
    """Return the definition of an experiment as JSON, with the names of the rows it needs."""
    return {
        "settings": {name: getattr(experiment, name) for name in SETTINGS},
        "cluster": _name(experiment.cluster),
        "partition": _name(experiment.partition) if experiment.partition else None,
        "baseline": _name(experiment.baseline),
        "workloads": [_name(row) for row in list_chosen(experiment)],
        "environments": [_name(row) for row in experiment.environments.all()],
    }


def _name(row: Model) -> dict[str, Any]:
    return {"pk": row.pk, "name": str(getattr(row, "name", row))}


def make_draft(preset: OwnPreset, person: User) -> tuple[Experiment, list[str]]:
    """Return a new draft of `person` and a sentence for each thing that is missing in it.

    CannotBeUsed says why there is none: the cluster or every environment is missing, or `person`
    may not send jobs to the cluster.
    """
    definition = preset.definition
    is_owner = preset.owner_id == person.pk
    cluster = Cluster.objects.visible_to(person).filter(pk=definition["cluster"]["pk"]).first()
    if cluster is None:
        name = f"The cluster {definition['cluster']['name']}" if is_owner else "Its cluster"
        raise CannotBeUsed(f"{name} is gone, or you may not view it.")
    if reason := why_not_use(person, cluster):
        raise CannotBeUsed(reason)
    rows = Environment.objects.visible_to(person).filter(cluster=cluster)
    environments = _find(rows, definition["environments"])
    baseline = rows.filter(pk=definition["baseline"]["pk"]).first()
    if not environments:
        raise CannotBeUsed("None of its environments is there any more, or you may view none.")
    usable = Workload.objects.visible_to(person).originals().launchable()
    workloads = _find(usable, definition["workloads"])
    problems = [
        *_tell_missing("workload", definition["workloads"], workloads, is_owner=is_owner),
        *_tell_missing("environment", definition["environments"], environments, is_owner=is_owner),
    ]
    if baseline is None:
        baseline = min(environments, key=lambda row: (not row.is_bare_metal, row.name))
        problems.append(f"Its baseline is missing: {baseline} stands in for it.")
    partition = None
    if definition["partition"]:
        offered = cluster.partitions.filter(enabled=True)
        partition = offered.filter(pk=definition["partition"]["pk"]).first()
        if partition is None:
            problems.append(f"The partition {definition['partition']['name']} is gone: choose one.")
    settings = {name: value for name, value in definition["settings"].items() if name in SETTINGS}
    with transaction.atomic():
        draft = Experiment.objects.create(
            owner=person, cluster=cluster, partition=partition, baseline=baseline, **settings
        )
        draft.environments.set(environments)
        texts = {row.pk: draft.sweeps.get(str(row.pk), "") for row in workloads}
        try:
            store_sweeps(draft, workloads, texts)
        except CannotBeSwept as problem:
            store_sweeps(draft, workloads, {})
            problems.append(f"Its sweeps are left out. {problem}")
    return draft, problems


def _find(rows: Any, named: Iterable[Mapping[str, Any]]) -> list[Any]:
    return list(rows.filter(pk__in=[entry["pk"] for entry in named]))


def _tell_missing(
    kind: str, named: list[Mapping[str, Any]], found: Iterable[Model], *, is_owner: bool
) -> list[str]:
    """Return a sentence on missing rows; their names are for the preset's owner alone.

    Others may be missing a row for the reason that they may not view it.
    """
    present = {row.pk for row in found}
    missing = [str(entry["name"]) for entry in named if entry["pk"] not in present]
    if not missing:
        return []
    plural = "s are" if len(missing) > 1 else " is"
    names = f": {', '.join(missing)}" if is_owner else ""
    return [
        f"{len(missing)} of {len(named)} {kind}s{plural.removeprefix('s')} gone, or you may not "
        f"view {'them' if len(missing) > 1 else 'it'}{names}."
    ]
