"""A/A tests: experiments that compare an environment with itself, by its A/A copy."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from experiments.models import Environment, Experiment, User
from experiments.models.catalogue import EnvironmentQuerySet


def select_offered(draft: Experiment, user: User) -> EnvironmentQuerySet:
    """Return the environments that `user` may choose for a draft: no A/A copies but its own."""
    visible = Environment.objects.visible_to(user)
    if draft.pk is None:
        return visible.originals()
    members = Experiment.environments.through._default_manager.filter(experiment=draft.pk)
    return visible.filter(Q(copy_of=None) | Q(pk__in=members.values("environment")))


def list_all_experiments(environment: Environment) -> QuerySet[Experiment]:
    """Return the experiments that have an environment or its A/A copy."""
    rows = Environment.objects.filter(Q(pk=environment.pk) | Q(copy_of=environment.pk))
    members = Experiment.environments.through._default_manager.filter(
        environment__in=rows.values("pk")
    )
    return Experiment.objects.filter(pk__in=members.values("experiment"))


def list_names_of_baseline(experiment: Experiment) -> list[str]:
    """Return the names of the environments that are the experiment's baseline once more."""
    rows = list(experiment.environments.order_by("name").only("name", "copy_of"))
    originals = {row.pk: row.original_pk for row in rows}
    baseline = originals.get(experiment.baseline_id)
    return [
        row.name for row in rows if row.pk != experiment.baseline_id and row.original_pk == baseline
    ]
