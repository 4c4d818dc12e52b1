"""What a reproduction would be: its rows, what cannot be the same, and what forbids it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from experiments.access.permissions import list_clusters_to_furnish, why_not_add, why_not_use
from experiments.images.architectures import explain_mismatch
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Partition,
    User,
    Workload,
)
from experiments.planning.frozen_code import describe_unready_code
from experiments.planning.frozen_data import describe_unready_data
from experiments.recurring.recurrence_facts import Facts, read_facts
from experiments.reproductions.frozen_plans import FrozenPlan, WorkloadSpec, read_plan
from experiments.reproductions.places import Place, find_places
from experiments.reproductions.workload_rows import find_workloads, list_data_differences
from experiments.software import inspections, parity
from experiments.software.launch_refusals import list_broken_rules
from experiments.statistics import numbers
from runners.payload import hash_payload
from runners.schedulers import SCHEDULERS

OTHER_PROCESSORS = (
    "Choose another partition or cluster; an image for its processors is another image, and the "
    "experiment would be no reproduction."
)
HARDWARE = ("CPU", "GPU model", "GPU driver", "kernel")
"""Facts of snapshots that tell machines apart, by the names that pages print."""
MOST_VALUES = 3
MOST_SHOWN = 5
HOW_TO_GO_ON = {
    "scales": "Choose another partition or cluster, or clone the experiment and take out the scale:"
    " that is another plan then, and no reproduction.",
    "partition": "Choose another partition or cluster.",
}
"""Field of a draft -> what helps against what forbids it."""


@dataclass(frozen=True)
class Proposal:
    """A reproduction as it would be launched now."""

    source: Experiment
    plan: FrozenPlan
    cluster: Cluster
    partition: Partition | None
    places: list[Place]
    workloads: list[Workload]
    differences: list[str] = field(default_factory=list)
    """What cannot be the same, each as a sentence."""
    refusals: list[str] = field(default_factory=list)
    """What forbids a launch, each with how to go on."""

    @property
    def waits(self) -> list[str]:
        return [place.waits for place in self.places if place.waits]

    @property
    def to_prepare(self) -> list[Place]:
        """Return the environments whose image is to be fetched or staged first."""
        return [place for place in self.places if place.has_to_do and not place.problem]

    @property
    def may_launch(self) -> bool:
        return not self.refusals and all(place.is_ready for place in self.places)


def is_same_cluster(plan: FrozenPlan, cluster: Cluster) -> bool:
    """Return whether a cluster is the one that the plan names."""
    return (cluster.name, cluster.host) == (plan.cluster, plan.host)


def needs_partition(cluster: Cluster) -> bool:
    """Return whether the cluster runs no job without a partition."""
    return SCHEDULERS[cluster.scheduler].has_partitions


def propose(
    source: Experiment,
    person: User,
    cluster: Cluster,
    partition: Partition | None,
    choices: Mapping[str, str],
) -> Proposal:
    """Return what a reproduction of `source` would be there. Raises UnreadablePlan.

    `choices` are of environments, by their keys in the plan, as `find_places` takes them.
    """
    plan = read_plan(source.plan)
    is_same = is_same_cluster(plan, cluster)
    why_not_there = why_not_use(person, cluster)
    furnishable = list_clusters_to_furnish(person).filter(pk=cluster.pk)
    # Who may use it may furnish it: the second question is asked of others alone.
    may_furnish = not why_not_there or furnishable.exists()
    places = find_places(
        plan.environments,
        cluster,
        person,
        choices,
        is_same_cluster=is_same and not source.is_from_bundle,  # keys there are not of rows here
        may_furnish=not why_not_add(person, Environment) and may_furnish,
    )
    workloads, workload_problems = find_workloads(plan.workloads, source, person, cluster)
    proposal = Proposal(source, plan, cluster, partition, places, workloads)
    other_processors = _list_processor_mismatches(proposal)
    differences = [
        *_list_place_differences(proposal, is_same),
        *_list_machine_differences(proposal, person),
        *other_processors,
        *list_data_differences(plan.workloads, workloads, cluster),
        *(text for place in places for text in place.differences),
        *_list_software_differences(proposal),
        *_list_other_differences(proposal),
    ]
    refusals = [
        *([why_not_there] if why_not_there else []),
        *(place.problem for place in places if place.problem),
        *workload_problems,
        *describe_unready_data([row for row in workloads if row.data_set_id], cluster),
        *describe_unready_code(workloads, cluster),
        *(f"{text} {OTHER_PROCESSORS}" for text in other_processors),
        *_list_refusals(proposal),
    ]
    proposal.differences.extend(dict.fromkeys(differences))
    proposal.refusals.extend(dict.fromkeys(refusals))
    return proposal


def _list_processor_mismatches(proposal: Proposal) -> list[str]:
    """Return a sentence for each environment whose image is for processors that are not there."""
    sentences = []
    for place in proposal.places:
        staged = place.chosen.staged_image if place.chosen else None
        image = staged.image if staged else place.image
        if image and (why := explain_mismatch(image, proposal.cluster, proposal.partition)):
            sentences.append(f"{place.spec.label}: {why}")
    return sentences


def _list_refusals(proposal: Proposal) -> Iterator[str]:
    """Yield what the rules of every launch say against it."""
    settings = proposal.plan.settings
    draft = Experiment(
        question="?", cluster=proposal.cluster, partition=proposal.partition, **settings
    )
    chosen = {place.spec.key: place.chosen for place in proposal.places}
    environments = [row for row in chosen.values() if row]
    if len(environments) < len(chosen):
        return  # what is missing is said already
    messages = list_broken_rules(
        draft,
        workloads=proposal.workloads,
        environments=environments,
        baseline=environments[list(chosen).index(proposal.plan.baseline)],
    )
    for name, texts in messages.items():
        for text in dict.fromkeys(texts):
            yield " ".join(filter(None, (text, HOW_TO_GO_ON.get(name, ""))))


def _list_place_differences(proposal: Proposal, is_same: bool) -> Iterator[str]:
    plan, cluster, partition = proposal.plan, proposal.cluster, proposal.partition
    if not is_same:
        yield f"It runs on {cluster}, and not on {plan.cluster}."
    name = partition.name if partition else ""
    if name != plan.partition:
        yield (
            f"It runs in {name or 'no partition'}, and not in {plan.partition or 'no partition'}."
        )


def _list_machine_differences(proposal: Proposal, person: User) -> Iterator[str]:
    """Yield how the machines differ, as the newest runs on both have told that `person` sees."""
    source, cluster = proposal.source, proposal.cluster
    newest = (
        Experiment.objects.visible_to(person)
        .with_results()
        .filter(cluster=cluster)
        .exclude(pk=source.pk)
        .newest_first()
        .values_list("pk", flat=True)
        .first()
    )
    facts = read_facts([source.pk] if newest is None else [source.pk, newest])
    before = facts[source.pk]
    if newest is None:
        if cluster.pk != source.cluster_id:
            yield (
                f"Which processors, GPUs, drivers and kernels {cluster} has is not known yet: no "
                "run has ended there."
            )
    else:
        for name in HARDWARE:
            old, new = _collect(before, name), _collect(facts[newest], name)
            if old and new and old.isdisjoint(new):
                yield f"{name[:1].upper()}{name[1:]}: {_list(new)} there, {_list(old)} before."
    for place in proposal.places:
        runtime = place.chosen.runtime if place.chosen else None
        versions = _list(set(before.get(place.spec.label, {}).get("runtime", [])))
        if runtime and versions and runtime.version and runtime.version not in versions:
            yield (
                f"{place.spec.label}: {runtime.get_kind_display()} {runtime.version} there, "
                f"{versions} before."
            )


def _collect(facts: Facts, name: str) -> set[str]:
    return {value for values in facts.values() for value in values.get(name, ())}


def _list(values: set[str]) -> str:
    names = sorted(values)
    more = len(names) - MOST_VALUES
    text = ", ".join(names[:MOST_VALUES])
    return f"{text} and {more} more" if more > 0 else text


def _list_software_differences(proposal: Proposal) -> Iterator[str]:
    """Yield how the software of bare metal differs, as far as both were inspected."""
    own = {row.name: row for row in proposal.source.environments.all()}
    for place in proposal.places:
        now, before = place.chosen, own.get(place.spec.label)
        if not place.spec.is_bare_metal or now is None or now.pk is None or now == before:
            continue
        rows = [row for row in (before, now) if row]
        known = inspections.find_known_software(rows)
        seen = [known[row.pk].inspection for row in rows]
        facts = [each.facts for each in seen if each]
        if len(facts) < 2:
            yield (
                f"{place.spec.label} runs in {now} on {proposal.cluster}: how its software differs "
                "is not known, as not both were inspected."
            )
            continue
        differing = [
            f"{each.what} {each.in_environment} there, {each.on_baseline} before"
            for each in parity.list_differences(*facts)
        ]
        if differing:
            more = len(differing) - MOST_SHOWN
            text = "; ".join(differing[:MOST_SHOWN])
            yield (
                f"{place.spec.label} runs in {now}, whose software differs: {text}"
                f"{f'; and {more} more' if more > 0 else ''}."
            )


def _list_other_differences(proposal: Proposal) -> Iterator[str]:
    plan, source = proposal.plan, proposal.source
    if plan.payload and plan.payload != hash_payload():
        yield "The programs of Tare that measure are another version than they were."
    if source.extended_repeats:
        yield (
            f"It was extended by {numbers.count(source.extended_repeats, 'block')} after its first "
            f"verdict; the plan, and so this, has {plan.settings['repeats']}."
        )
    frozen = (source.plan or {}).get("workloads", {})
    for spec in plan.workloads:
        if _has_changed(spec, frozen):
            yield f"{spec.name} has parameters now that it did not have then, with usual values."


def _has_changed(spec: WorkloadSpec, frozen: Mapping[str, Mapping[str, object]]) -> bool:
    return frozen.get(spec.key, {}).get("parameters") != spec.parameters
