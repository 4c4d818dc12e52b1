"""What notifications are about, and who may still read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from experiments.access.permissions import filter_changeable
from experiments.models import Cluster, Credential, Experiment, User
from experiments.models.notification import ROLES, list_kinds


@dataclass(frozen=True)
class Subject:
    """What a notification is about: its name is the same for all that changes one row."""

    name: str
    experiment: Experiment | None = None
    cluster: Cluster | None = None
    credential: Credential | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns of a row that is about it."""
        return {
            "subject": self.name,
            "experiment": self.experiment,
            "cluster": self.cluster,
            "credential": self.credential,
        }


def is_readable(person: User) -> Q:
    """Return the rule for notifications that a person may read now.

    Without those about experiments that the person may not see any more, and those of a role that
    was taken away.
    """
    visible = Experiment.objects.visible_to(person).values("pk")
    rule = Q(experiment=None) | Q(experiment__in=visible)
    kinds = list_kinds(person)
    if closed := [kind for kind in ROLES if kind not in kinds]:
        rule &= ~Q(kind__in=closed)
    clusters = filter_changeable(person, Cluster.objects.all()).values("pk")
    credentials = filter_changeable(person, Credential.objects.all()).values("pk")
    rule &= Q(cluster=None) | Q(cluster__in=clusters)
    return rule & (Q(credential=None) | Q(credential__in=credentials))
