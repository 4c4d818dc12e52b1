"""Which experiments are in a study: read in their order, put in, and taken out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max

from experiments.access import audit
from experiments.models import Experiment, Study, StudyExperiment, User


class NotPutIn(Exception):
    """Experiments that cannot be put into a study, for the reason that its text gives."""


@dataclass(frozen=True)
class Members:
    """The experiments of a study that a person may view, in their order."""

    experiments: list[Experiment]
    hidden: int
    """How many more there are that this person may not view."""


def read_members(study: Study, user: User) -> Members:
    """Return the experiments of a study for a person, without their plans; two queries."""
    keys = list_member_keys(study)
    rows = Experiment.objects.visible_to(user).without_plan()
    rows = rows.select_related("cluster", "partition", "owner", "baseline__runtime")
    by_key = {row.pk: row for row in rows.filter(pk__in=keys)}
    return Members([by_key[key] for key in keys if key in by_key], len(keys) - len(by_key))


def list_member_keys(study: Study) -> list[int]:
    """Return the keys of all experiments of a study, in their order."""
    rows = StudyExperiment.objects.filter(study=study).order_by("place", "pk")
    return list(rows.values_list("experiment", flat=True))


def store_members(study: Study, experiments: Sequence[Experiment]) -> None:
    """Store the experiments of a study that is made, in their order."""
    StudyExperiment.objects.bulk_create(
        StudyExperiment(study=study, experiment=row, place=place)
        for place, row in enumerate(experiments, start=1)
    )


def put_in(study: Study, keys: Iterable[int], by: User) -> int:
    """Put experiments that a person may view at the end of a study; return how many are new.

    Raises NotPutIn where one is not there, or they become too many; none is put in then.
    """
    distinct_keys = list(dict.fromkeys(keys))
    visible = Experiment.objects.visible_to(by).filter(pk__in=distinct_keys)
    known = set(visible.values_list("pk", flat=True))
    if missing := [key for key in distinct_keys if key not in known]:
        raise NotPutIn(f"There is no experiment {missing[0]}, or you may not view it.")
    with transaction.atomic():
        if not Study.objects.select_for_update(no_key=True).filter(pk=study.pk).exists():
            raise NotPutIn("The study has been deleted in the meantime.")
        before = set(list_member_keys(study))
        added = [key for key in distinct_keys if key not in before]
        count = len(before) + len(added)
        if count > Study.MOST_EXPERIMENTS:
            raise NotPutIn(
                f"A study has at most {Study.MOST_EXPERIMENTS} experiments; it would have {count}."
            )
        rows = StudyExperiment.objects.filter(study=study)
        last = rows.aggregate(last=Max("place"))["last"] or 0
        StudyExperiment.objects.bulk_create(
            StudyExperiment(study=study, experiment_id=key, place=place)
            for place, key in enumerate(added, start=last + 1)
        )
        if added:
            audit.note(by, "changed", study, why=f"put in: {_name(added)}")
    return len(added)


def take_out(study: Study, keys: Iterable[int], by: User) -> int:
    """Take experiments out of a study; return how many were in it. They stay what they are."""
    with transaction.atomic():
        rows = StudyExperiment.objects.filter(study=study, experiment__in=list(keys))
        taken = list(rows.order_by("place", "pk").values_list("experiment", flat=True))
        rows.delete()
        if taken:
            audit.note(by, "changed", study, why=f"taken out: {_name(taken)}")
    return len(taken)


def _name(keys: Iterable[int]) -> str:
    return "experiments " + ", ".join(map(str, keys))
