"""The draft of a recurrence: the definition of the source once more, held to its frozen plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from experiments.models import (
    Experiment,
    LaunchReason,
    Recurrence,
    RecurringExperiment,
    Waiver,
)
from experiments.models.visibility import Visibility
from experiments.planning.variants import copy_workloads
from experiments.presets.own_presets import SETTINGS

COPIED = ("cluster_id", "partition_id", "baseline_id", *SETTINGS)
NOT_OF_THE_PLAN = {
    *("question", "cluster", "partition"),  # their names
    *("order_seed", "blocks"),  # another order each time
    *("payload", "parity"),  # what Tare brings along, and what was known of the software
}
OF_THE_CLUSTER = {
    "executable": "the executable",
    "options": "the options of the runtime",
    "setup_lines": "the set-up lines",
    "image_path": "the path of the image",
}
"""What of an environment may be another each time: a new version of a runtime may change them, and
that is what a chart over time is to show. They are named beside the recurrence."""
NAMES = {"label", "name"}


INTERIM_PLAN = (
    "A plan with interim analyses does not recur: it ends where a difference looks large, so its "
    "ratios are biased, and no chart can judge them. Launch it with one analysis, and let that "
    "recur."
)


class PlanChanged(Exception):
    """Launched now, the plan would be another one, for the reasons that the text gives."""


def explain_why_not_recur(source: Experiment) -> str:
    """Return why an experiment that was launched cannot recur, in words; "" if it can."""
    return INTERIM_PLAN if source.looks > 1 else ""


def add_first_recurrence(row: RecurringExperiment) -> Recurrence:
    """Make the source of a new recurring experiment its first recurrence."""
    source = row.source
    assert source.launched_at is not None
    with transaction.atomic():
        row.last_number = 1
        row.save(update_fields=["last_number"])
        return Recurrence.objects.create(
            recurring=row,
            number=1,
            experiment=source,
            reason=LaunchReason.FIRST,
            launched_at=source.launched_at,
        )


def copy_settings(source: Experiment) -> dict[str, Any]:
    """Return the columns of a draft with the same definition."""
    return {name: getattr(source, name) for name in COPIED}


def make_draft(row: RecurringExperiment, number: int) -> Experiment:
    """Return a draft of the owner's with the definition of the source.

    To be called in a transaction.
    """
    source = row.source
    end = f" (recurrence {number})"
    columns = copy_settings(source) | {"question": row.question[: 300 - len(end)] + end}
    draft = Experiment.objects.create(
        owner=row.owner, copied_from=source, visibility=row.visibility, **columns
    )
    copy_workloads(source, draft)
    draft.environments.set(source.environments.all())
    _copy_waivers(source, draft)
    if row.visibility == Visibility.GROUPS:
        draft.groups.set(row.groups.all())
    return draft


def _copy_waivers(source: Experiment, draft: Experiment) -> None:
    """Let the differences pass that were waived for the source, with who did, when and why.

    A waiver holds for its two values alone: a difference with others stands against the launch.
    """
    waivers = list(source.waivers.all())
    times = [waiver.at for waiver in waivers]
    for waiver in waivers:
        waiver.pk, waiver.experiment = None, draft
    for waiver, at in zip(Waiver.objects.bulk_create(waivers), times, strict=True):
        waiver.at = at  # adding it has written the time of now
    Waiver.objects.bulk_update(waivers, ["at"])


def list_cluster_changes(first: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """Return what rows of the cluster make other in `plan` than it was in the first one.

    Raises PlanChanged where anything else of the plan is another.
    """
    problems, changes = [], []
    for name in sorted((first.keys() | plan.keys()) - NOT_OF_THE_PLAN):
        old, new = first.get(name), plan.get(name)
        if old == new:
            continue
        if name not in ("workloads", "environments"):
            problems.append(f"{name.replace('_', ' ')} is another than in the plan")
            continue
        noun = name.removesuffix("s")
        for key in sorted({**(old or {}), **(new or {})}):
            before, after = (old or {}).get(key), (new or {}).get(key)
            if before is None or after is None:
                problems.append(f"{noun} {_name(before or after or {})} is new or missing")
                continue
            for field in sorted((before.keys() | after.keys()) - NAMES):
                if before.get(field) == after.get(field):
                    continue
                if name == "environments" and field in OF_THE_CLUSTER:
                    changes.append(f"{_name(after)}: {OF_THE_CLUSTER[field]}")
                else:
                    problems.append(
                        f"{noun} {_name(after)} has another value of {field.replace('_', ' ')}"
                    )
    if problems:
        raise PlanChanged(
            f"The plan would be another one: {'; '.join(problems)}. Undo that, or launch the new "
            "definition and let that recur."
        )
    return changes


def _name(spec: Mapping[str, Any]) -> str:
    return str(spec.get("label") or spec.get("name") or "")
