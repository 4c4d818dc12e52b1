"""Copies of experiments: drafts with the same definition."""

from __future__ import annotations

from django.db import transaction

from experiments.access.permissions import why_not_use
from experiments.models import Experiment, User
from experiments.planning.variants import copy_workloads
from experiments.presets.own_presets import SETTINGS

COPIED = ("cluster", "partition", "baseline", *SETTINGS)
OF_OTHERS = "Runs that others have made cannot be launched again."


class NotCopied(Exception):
    """The person may not use what the definition needs; the text says why."""


def is_copyable(source: Experiment) -> bool:
    """Return whether Tare has made the runs itself, so that they can be launched again."""
    return not (source.imported_at or source.is_from_bundle)


def make_copy(source: Experiment, owner: User) -> Experiment:
    """Make a draft with the definition of `source`. Raises NotCopied."""
    if reason := why_not_use(owner, source.cluster):
        raise NotCopied(f"No draft was made of it. {reason}")
    copied = {name: getattr(source, name) for name in COPIED}
    with transaction.atomic():
        draft = Experiment.objects.create(owner=owner, copied_from_id=source.pk, **copied)
        copy_workloads(source, draft)
        draft.environments.set(source.environments.all())
    return draft
