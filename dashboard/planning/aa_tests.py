"""The draft of an A/A test of an environment, for its page and for the API."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.planning.power import propose_repeats
from experiments.models import Environment, Experiment, User
from experiments.presets.aa_drafts import (
    CannotBeTested,
    choose_workload,
    list_partitions_to_offer,
    make_aa_draft,
)

MARGIN = 0.02
GONE = "This partition is not in service any more: choose another."


@dataclass(frozen=True)
class AaDraft:
    """A draft that compares an environment with itself."""

    experiment: Experiment
    is_new: bool
    has_workload: bool


def draft_against_itself(
    environment: Environment, partition_pk: int | None, person: User
) -> AaDraft:
    """Make the draft of an A/A test, on the partition or on the one with most time.

    Its repeats are those that the cluster's history asks for. Raises CannotBeTested.
    """
    row = environment.copy_of or environment
    offered = list_partitions_to_offer(row.cluster)
    chosen = [each for each in offered if partition_pk in (None, each.pk)]
    if partition_pk is not None and not chosen:
        raise CannotBeTested(GONE)
    partition = chosen[0] if chosen else None
    workload = choose_workload(row, partition, person)
    repeats = propose_repeats(row.cluster, workload, margin=MARGIN, reader=person)
    draft, is_new = make_aa_draft(
        row, partition, person, workload=workload, repeats=repeats, margin=MARGIN
    )
    return AaDraft(draft, is_new, workload is not None)
