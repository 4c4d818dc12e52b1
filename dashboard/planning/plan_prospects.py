"""What an experiment's form says of a plan beside its fields: warnings, and what it can show."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from dashboard.planning.power import Outlook
from dashboard.planning.power_of_all import estimate_all_outlooks
from experiments.models import Experiment
from experiments.planning.estimands import count_planned_nodes, warn_of_nodes
from experiments.planning.mpi_in_udocker import warn_of_mpi_in_udocker
from experiments.presets.program_checks import describe_missing_programs
from experiments.statistics import numbers
from experiments.statistics.margins import Margin
from experiments.statistics.verdicts import FEWEST


class PlanProspects:
    """What an experiment's form says beside its fields."""

    @property
    def warnings(self: Any) -> list[str]:
        """Return what stands against no launch but should be known before it, with the cure."""
        if not (self.forecast and self.forecast.runs):
            return []
        repeats = self.cleaned_data.get("repeats") or FEWEST
        few = (
            f"With {numbers.count(repeats, 'repeat')} every verdict is provisional: plan {FEWEST} "
            "or more."
        )
        waiting = [
            f"{sentence} It can be saved now and launched once the image is in place."
            for sentence in self.waiting
        ]
        waiting += [
            f"{sentence} It can be saved now and launched once the data are in place."
            for sentence in self.unready_data
        ]
        waiting += describe_missing_programs(
            self.planned_workloads, list(self.cleaned_data.get("environments") or ())
        )
        waiting += warn_of_mpi_in_udocker(
            self.planned_workloads,
            list(self.cleaned_data.get("environments") or ()),
            self.cleaned_data.get("scales") or [],
        )
        nodes = warn_of_nodes(
            self.cleaned_data.get("estimand") or "",
            self.cleaned_data["cluster"],
            self.cleaned_data.get("partition"),
            repeats=repeats,
            spreads=bool(self.cleaned_data.get("spreads_nodes")),
        )
        return [*filter(None, [self.gpu_hours_warning, repeats < FEWEST and few, nodes]), *waiting]

    @cached_property
    def outlooks(self: Any) -> list[Outlook]:
        """Return what the requested repeats can show; nothing while any part of that is invalid."""
        asked = getattr(self, "cleaned_data", {})
        needed = ("cluster", "workloads", "environments", "scales", "repeats", "margin", "design")
        if not all(asked.get(name) for name in needed) or "margin_faster" in self.errors:
            return []
        workloads = self.planned_workloads
        return list(
            estimate_all_outlooks(
                further=self.list_further_margins(asked.get("goal") or ""),
                cluster=asked["cluster"],
                workloads=workloads,
                metric=asked.get("primary_metric") or "",
                repeats=asked["repeats"],
                analyses=asked.get("looks") or 1,
                margin=Margin.make(
                    asked.get("goal") or "", asked["margin"], asked.get("margin_faster")
                ),
                nodes=count_planned_nodes(asked["partition"], asked["repeats"])
                if asked.get("estimand") == Experiment.Estimand.PARTITION
                else None,
                paired=asked["design"] != Experiment.Design.INDEPENDENT,
                comparisons=len(workloads)
                * len(asked["scales"])
                * (len(asked["environments"]) - 1),
                reader=self.user,
            )
        )
