"""Where an experiment is done again, as a person chooses it, and what that would take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.design import compute_hash
from experiments.models import Cluster, Experiment, Partition, User
from experiments.planning.forecasts import Forecast, forecast
from experiments.reproductions.frozen_plans import FrozenPlan
from experiments.reproductions.proposals import Proposal, is_same_cluster, needs_partition

NO_PARTITION = "none"
"""The choice of no partition, where the cluster runs jobs without one."""


@dataclass(frozen=True)
class Selection:
    """What a person has chosen, or what stands for it at first."""

    cluster: Cluster | None
    clusters: list[Cluster]
    partition: Partition | None
    partitions: list[Partition]
    choices: Mapping[str, str]
    may_go_without: bool = False
    """Whether the cluster runs jobs without a partition too."""


def select_place(
    plan: FrozenPlan,
    source: Experiment,
    person: User,
    *,
    cluster: str = "",
    partition: str = "",
    choices: Mapping[str, str],
) -> Selection:
    """Return where a plan is done again; at first on its own cluster and partition, if they are.

    `cluster` and `partition` are keys of rows; what is none of those that the person may use
    is replaced by what stands there at first.
    """
    clusters = list(Cluster.objects.usable_by(person).order_by("name"))
    chosen = next((row for row in clusters if str(row.pk) == cluster), None)
    if chosen is None and clusters:
        own = [row for row in clusters if row.pk == source.cluster_id]
        same = [row for row in clusters if is_same_cluster(plan, row)]
        chosen = (own or same or clusters)[0]
    partitions: list[Partition] = []
    may_go_without = False
    if chosen:
        partitions = list(chosen.partitions.filter(enabled=True).order_by("name"))
        may_go_without = not needs_partition(chosen)
    row = next((row for row in partitions if str(row.pk) == partition), None)
    if row is None and partition != NO_PARTITION:
        same_name = [each for each in partitions if each.name == plan.partition]
        row = next(iter(same_name or partitions), None)
    known = {spec.key for spec in plan.environments}
    kept = {key: choice for key, choice in choices.items() if choice and key in known}
    return Selection(chosen, clusters, row, partitions, kept, may_go_without)


def identify_differences(proposal: Proposal) -> str:
    """Return the hash of what cannot be the same: it tells whether a person has seen that list."""
    return compute_hash({"differences": proposal.differences})


def forecast_proposal(proposal: Proposal) -> Forecast | None:
    """Return the most that a reproduction will use; None while an environment is missing."""
    environments = [place.chosen for place in proposal.places if place.chosen]
    if len(environments) < len(proposal.places):
        return None
    settings = proposal.plan.settings
    return forecast(
        workloads=proposal.workloads,
        environments=environments,
        scales=settings["scales"],
        repeats=settings["repeats"],
        paired=settings["design"] == Experiment.Design.PAIRED,
        cooldown_seconds=settings.get("cooldown_seconds", 0),
        rejected_again=settings.get("rejected_again", 0),
    )
