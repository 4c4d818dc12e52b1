"""The draft of a reproduction: the frozen plan once more, with rows of the chosen cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet

from experiments.access import audit
from experiments.models import Environment, Experiment, User, Waiver, Workload
from experiments.models.database_time import database_now
from experiments.models.visibility import Visibility
from experiments.planning.free_names import save_under_free_name
from experiments.reproductions.proposals import Proposal

LONGEST_QUESTION = 300
JUST_NOW = timedelta(seconds=10)
"""Within it the same reproduction once more is a button that was pressed twice."""


class NotMade(Exception):
    """No draft is made; `reasons` are sentences."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = reasons


def make_draft_once(proposal: Proposal, owner: User) -> tuple[Experiment, bool]:
    """Return a draft, and whether it is new: not where the same was made just now. Raises NotMade.

    Two requests at once wait for each other, and the second gets what the first one has made.
    """
    source = proposal.source
    with transaction.atomic():
        locked = Experiment.objects.select_for_update(of=("self",), no_key=True)
        list(locked.filter(pk=source.pk).values_list("pk"))
        made = Experiment.objects.filter(
            reproduces=source,
            owner=owner,
            cluster=proposal.cluster,
            created_at__gt=database_now() - JUST_NOW,
        ).first()
        return (made, False) if made else (make_draft(proposal, owner), True)


def make_draft(proposal: Proposal, owner: User) -> Experiment:
    """Return a draft of `owner` with the same plan, linked to what it reproduces. Raises NotMade.

    Environments and workloads that are missing are made, for the owner alone.
    """
    if not proposal.may_launch:
        raise NotMade([*proposal.refusals, *proposal.waits] or ["Prepare its images first."])
    source, plan = proposal.source, proposal.plan
    end = f" (reproduced on {proposal.cluster})"
    with transaction.atomic():
        environments = {
            place.spec.key: _store(place.chosen, owner) for place in proposal.places if place.chosen
        }
        for row in proposal.workloads:
            if row.pk is None:
                why = f"reproduces experiment {source.pk}"
                _save_under_free_name(row, owner, among=Workload.objects.all(), why=why)
        draft = Experiment(
            question=plan.question[: LONGEST_QUESTION - len(end)] + end,
            owner=owner,
            cluster=proposal.cluster,
            partition=proposal.partition,
            baseline=environments[plan.baseline],
            reproduces=source,
            reproduction={
                "plan_hash": source.plan_hash,
                "workloads": {
                    spec.key: str(row.pk)
                    for spec, row in zip(plan.workloads, proposal.workloads, strict=True)
                },
                "environments": {key: str(row.pk) for key, row in environments.items()},
                "differences": proposal.differences,
            },
            **plan.settings,
        )
        try:
            draft.full_clean()
        except ValidationError as error:
            raise NotMade(error.messages) from None
        draft.save()
        draft.workloads.set(proposal.workloads)
        draft.environments.set(environments.values())
        _copy_waivers(source, draft, environments)
    return draft


def _store(environment: Environment, owner: User) -> Environment:
    """Return an environment as it is stored; one that is new gets a name that is free."""
    if environment.pk is not None:
        return environment
    environment.owner, environment.visibility = owner, Visibility.PRIVATE
    _save_under_free_name(
        environment,
        owner,
        among=Environment.objects.filter(cluster=environment.cluster),
        why="for a reproduction",
    )
    return environment


def _save_under_free_name(row: Any, owner: User, *, among: QuerySet[Any], why: str) -> None:
    def save() -> None:
        with audit.log_change(owner, row, why=why):
            row.save()

    save_under_free_name(row, save, among=among)


def _copy_waivers(
    source: Experiment, draft: Experiment, environments: dict[str, Environment]
) -> None:
    """Let the differences pass that were waived for the source, with who did and why.

    A waiver holds for its two values alone: a difference with others stands against the launch.
    """
    own = {str(pk) for pk in source.environments.values_list("pk", flat=True)}
    if own != environments.keys():
        return  # the plan of another site, whose keys are not of rows here
    Waiver.objects.bulk_create(
        Waiver(
            experiment=draft,
            environment=environments[str(waiver.environment_id)],
            what=waiver.what,
            on_baseline=waiver.on_baseline,
            in_environment=waiver.in_environment,
            reason=waiver.reason,
            by=waiver.by,
        )
        for waiver in source.waivers.all()
    )
