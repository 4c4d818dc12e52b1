"""What the form of a new experiment fills in by itself: what follows from its cluster."""

from __future__ import annotations

from typing import Any

from dashboard.typed_requests import parse_whole_number
from experiments.models import Cluster, Experiment, Partition, User
from experiments.planning.estimands import explain_why_not_spread, propose_estimand
from experiments.planning.scale_rules import suggest_scale
from runners.interpreters import NO_PYTHON

# What the form itself fills in, and so may change with the cluster.
UNTOUCHED_SCALES: list[list[str]] = [[], ["1x1"], ["1x0"]]


def choose_cluster(user: User, asked: Any = None) -> Cluster | None:
    """Return the cluster asked for, if `user` may use it; else the one they used last."""
    usable = Cluster.objects.usable_by(user)
    if asked is not None:
        key = parse_whole_number(asked)
        return None if key is None else usable.filter(pk=key).first()
    mine = usable.filter(experiments__owner=user).order_by("-experiments__created_at")
    furnished = usable.filter(environments__isnull=False)
    return mine.first() or furnished.first() or usable.first()


class PlanSuggestions:
    """What an experiment's form proposes."""

    def suggest(self: Any) -> None:
        """Fill in what follows from the cluster; what was typed for it already stays."""
        environments = self.offered_environments
        bare = [row for row in environments if row.is_bare_metal] or environments
        bare.sort(key=lambda row: row.python == NO_PYTHON)  # most programs need Python
        known = {str(row.pk) for row in environments}
        self.initial["cluster"] = self.chosen_cluster and self.chosen_cluster.pk
        if str(self.initial.get("baseline")) not in known and bare:
            self.initial["baseline"] = bare[0].pk
            self.initial["environments"] = [bare[0].pk]
        partitions = list(self._field("partition").queryset)
        if str(self.initial.get("partition")) not in {str(row.pk) for row in partitions}:
            # The one that allows the longest jobs: a debug partition is seldom what is meant.
            roomiest = max(partitions, key=lambda row: row.time_limit_minutes, default=None)
            self.initial["partition"] = roomiest and roomiest.pk
        chosen = {str(row.pk): row for row in partitions}.get(str(self.initial["partition"]))
        if self._field("scales").to_python(self._text_of_scales()) in UNTOUCHED_SCALES:
            self.initial["scales"] = [suggest_scale(chosen)]
        self.suggest_estimand(chosen)

    def suggest_estimand(self: Any, partition: Partition | None) -> None:
        """Fill in what verdicts speak of, for a new draft and for one from before the choice."""
        if self.chosen_cluster is None:
            return
        if not self.initial.get("estimand") and self.instance.pk:
            # Its blocks were not to be spread: on one node they would say nothing of a partition.
            self.initial["estimand"] = str(Experiment.Estimand.NODES)
        elif not self.initial.get("estimand"):
            self.initial["estimand"] = propose_estimand(self.chosen_cluster, partition)
            speaks_of_partition = self.initial["estimand"] == Experiment.Estimand.PARTITION
            self.initial["spreads_nodes"] = speaks_of_partition
        if explain_why_not_spread(self.chosen_cluster, paired=True):
            self.initial["spreads_nodes"] = False

    def _text_of_scales(self: Any) -> str:
        """Return the scales as text: a new draft has a list, what was typed is text already."""
        return str(self._field("scales").prepare_value(self.initial.get("scales")) or "")
