"""The form of an experiment; what its cluster cannot run is refused at the field."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.forms.models import ModelChoiceIteratorValue
from django.utils import timezone
from django.utils.choices import CallableChoiceIterator

from dashboard.form_styles import PercentField, Styled
from dashboard.planning.decisive_metrics_fields import DecisiveMetricsFields
from dashboard.planning.metric_choices import list_analysis_choices, list_metric_choices
from dashboard.planning.plan_prospects import PlanProspects
from dashboard.planning.plan_suggestions import PlanSuggestions, choose_cluster
from dashboard.planning.rejection_fields import RejectionRules, has_rules
from dashboard.planning.scales_field import ScalesField
from dashboard.planning.sweep_fields import (
    WorkloadOption,
    add_sweep_fields,
    list_options,
    name_sweep_field,
    plan_variants,
    read_sweeps,
)
from dashboard.planning.training_fields import (
    METRICS,
    TrainingMargins,
    make_accuracy_field,
    make_loss_field,
)
from dashboard.planning.workload_choices import choose_offered
from dashboard.typed_requests import parse_whole_number
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.clusters import preflights
from experiments.execution.limits import warn_of_gpu_hours
from experiments.images.startable import explain_not_startable
from experiments.models import (
    CheckReport,
    Cluster,
    Environment,
    Experiment,
    Partition,
    User,
    Workload,
)
from experiments.models.experiment import USUAL_OUTPUT_MIB
from experiments.natural_columns import pad_numbers
from experiments.planning import rules
from experiments.planning.aa_tests import select_offered
from experiments.planning.forecasts import Forecast, forecast
from experiments.planning.frozen_code import describe_unready_code
from experiments.planning.frozen_data import describe_unready_data
from experiments.planning.variants import list_chosen, store_sweeps


class ExperimentForm(
    OwnColumns,
    PlanProspects,
    PlanSuggestions,
    RejectionRules,
    TrainingMargins,
    DecisiveMetricsFields,
    VisibilityFields,
    Styled,
    forms.ModelForm,  # type: ignore[type-arg]
):
    """The form of an experiment; the cluster decides which partitions and environments show."""

    scales = ScalesField(
        help_text="Nodes x GPUs on each node, with commas between: 1x1, 1x2. No GPU: 1x0. Several "
        "nodes or processes need a launcher: 2x4 srun, 1x2 mpirun. Packed, four instances at once "
        "with a GPU each: 1x4x4.",
        initial=["1x1"],
    )
    margin = PercentField(
        help_text="The largest difference that you would still call the same. "
        "It is fixed before the data.",
        initial=0.02,
    )
    margin_faster = PercentField(
        label="Margin if faster",
        required=False,
        help_text="Empty: the same as of what is slower. Such as 5 % above and 2 % here.",
    )
    accuracy_margin = make_accuracy_field()
    loss_margin = make_loss_field()
    looks = forms.TypedChoiceField(
        label="Interim analyses",
        choices=list_analysis_choices,
        coerce=int,
        required=False,
        empty_value=1,  # type: ignore[arg-type]
        help_text="When the data are judged. Between interim analyses come at least five repeats; "
        "the more analyses, the stricter each of them.",
    )
    primary_metric = forms.ChoiceField(
        label="Primary metric",
        choices=list_metric_choices,
        required=False,
        help_text="The verdict is about it.",
    )

    class Meta:
        model = Experiment
        fields = (
            "question",
            "cluster",
            "partition",
            "workloads",
            "environments",
            "baseline",
            "scales",
            "repeats",
            "looks",
            "goal",
            "margin",
            "margin_faster",
            *METRICS,
            "estimand",
            "spreads_nodes",
            "primary_metric",
            "metrics_rule",
            "design",
            "warm_up",
            "cooldown_seconds",
            "output_mib",
            "reject_swap",
            "reject_throttled",
            "reject_others",
            "reject_below_mhz",
            "reject_others_cpus",
            "rejected_again",
            "visibility",
            "groups",
        )
        widgets: ClassVar = {
            "groups": forms.CheckboxSelectMultiple,
            "workloads": forms.CheckboxSelectMultiple,
            "environments": forms.CheckboxSelectMultiple,
            "baseline": forms.RadioSelect,
            "design": forms.RadioSelect,
            "estimand": forms.RadioSelect,
            "goal": forms.RadioSelect,
            "metrics_rule": forms.RadioSelect,
            "warm_up": forms.RadioSelect,
        }
        labels: ClassVar = {
            "estimand": "What verdicts speak of",
            "goal": "What is to be shown",
            "spreads_nodes": "One block a node",
            "metrics_rule": "How they are judged together",
            "warm_up": "Warm-up",
            "cooldown_seconds": "Cool-down between runs",
            "output_mib": "Output kept of a run",
            "reject_swap": "The node used its swap.",
            "reject_throttled": "A GPU was slowed down.",
            "reject_others": "Others used a GPU of the job.",
            "reject_below_mhz": "Least clock of GPUs",
            "reject_others_cpus": "Load of others on the node",
            "rejected_again": "Try rejected runs again",
        }
        help_texts: ClassVar = {
            "question": "Such as: does Apptainer slow ResNet-50 down on our A100 nodes?",
            "goal": "Not slower takes fewer repeats, and says nothing about how much faster it is.",
            "estimand": "This partition: each node counts once, so plan five nodes or more. "
            "This node: every block counts, and nothing is said of other nodes.",
            "spreads_nodes": "A block goes to a node that no earlier block of its configuration "
            "ran on, if the partition has one. It is sent when the one before it has started.",
            "metrics_rule": "All: the verdict is EQUIVALENT only if every metric is. Fixed order: "
            "a metric is judged only if those before it were shown.",
            "warm_up": "The slow steps at a run’s start, which no mean counts. Every step after it "
            "does. A run that never settles still counts, and a stamp beside the verdict says so.",
            "output_mib": "Of what a run prints; of more, the beginning and the end.",
            "reject_swap": "Pages went to it or came from it during the run.",
            "reject_throttled": "By heat or by its hardware. A power cap alone rejects nothing.",
            "reject_others": "A process that is not the job’s own was on it before, during or "
            "after the run.",
            "reject_below_mhz": "A GPU had a lower mean clock while it was in use. Empty: any.",
            "reject_others_cpus": "So many CPUs were busy, on the mean, beyond all that the run "
            "may use. Empty: any. Not applied where it may use the whole node, or has several "
            "processes.",
            "rejected_again": "In their block, by another job on the same node, at most so often "
            "for each block. 0: they stay failed.",
            "repeats": "Independent repetitions, n. With fewer than five, every verdict is "
            "provisional.",
        }

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Before anything is proposed: what the page was opened with, by which it is told whether
        # the draft was saved elsewhere meanwhile.
        self.stored = {**self.initial, "cluster": self.instance.cluster_id}
        self.user = user
        self.fields["cooldown_seconds"].unit = "s"  # type: ignore[attr-defined]
        self.fields["output_mib"].unit = "MiB"  # type: ignore[attr-defined]
        self.fields["output_mib"].required = False
        self.fields["reject_below_mhz"].unit = "MHz"  # type: ignore[attr-defined]
        self.fields["reject_others_cpus"].unit = "CPUs"  # type: ignore[attr-defined]
        self.fields["rejected_again"].unit = "times"  # type: ignore[attr-defined]
        self.fields["rejected_again"].required = False
        self.fields["warm_up"].required = False  # the model knows the usual one
        # No button for "nothing": what is proposed then counts.
        self._field("estimand").choices = Experiment.Estimand.choices
        self.fields["margin"].unit = "%"  # type: ignore[attr-defined]
        self.fields["margin_faster"].unit = "%"  # type: ignore[attr-defined]
        self.fields["goal"].required = False  # the model knows the usual one
        self.fields["metrics_rule"].required = False
        self._field("cluster").queryset = Cluster.objects.usable_by(user)
        self.offer_groups_of(user)
        self.chosen_cluster = self._chosen_cluster(user)
        visible = select_offered(self.instance, user).filter(cluster=self.chosen_cluster)
        environments = visible.select_related("runtime", "staged_image__image").order_by(
            pad_numbers("name"), "pk"
        )
        self._field("environments").queryset = environments
        self._field("baseline").queryset = environments
        for name in ("environments", "baseline"):
            self._field(name).widget.choices = CallableChoiceIterator(self._list_environments)
        self._field("baseline").empty_label = None
        partitions = Partition.objects.filter(cluster=self.chosen_cluster)
        # A draft keeps showing its own, and says that it is out of service.
        offered = Q(enabled=True) | Q(pk=self.instance.partition_id)
        self._field("partition").queryset = partitions.filter(offered).order_by(pad_numbers("name"))
        workloads = Workload.objects.visible_to(user).originals().launchable()
        self._field("workloads").queryset = workloads
        if self.instance.sweeps:
            self.initial["workloads"] = list_chosen(self.instance)
        text = self.data.get("workload_filter", "") if self.is_bound else ""
        self.offered = choose_offered(workloads, self._chosen_keys(), text)
        self._field("workloads").widget.choices = [
            (ModelChoiceIteratorValue(row.pk, row), str(row)) for row in self.offered.rows
        ]
        add_sweep_fields(self, self.offered.rows)
        metrics = list_metric_choices(self.offered.rows, self.offered.chosen)
        self._field("primary_metric").choices = metrics
        self.offer_further_metrics(metrics)
        if not self.is_bound and not self.instance.pk:
            self.suggest()
        elif not self.is_bound and not self.initial.get("estimand"):
            self.suggest_estimand(self.instance.partition)
        self.planned_workloads: list[Workload] = []
        self.forecast: Forecast | None = None
        self.gpu_hours_warning = ""
        self.waiting: list[str] = []
        self.unready_data: list[str] = []

    @cached_property
    def offered_environments(self) -> list[Environment]:
        """Return the environments to choose from, read once: two fields offer them."""
        return list(self._field("environments").queryset)

    def _list_environments(self) -> list[tuple[ModelChoiceIteratorValue, str]]:
        return [
            (ModelChoiceIteratorValue(row.pk, row), str(row)) for row in self.offered_environments
        ]

    def _chosen_keys(self) -> set[int]:
        """Return the keys of the workloads that are ticked."""
        chosen = self["workloads"].value() or []
        keys = (parse_whole_number(str(getattr(item, "pk", item))) for item in chosen)
        return {key for key in keys if key is not None}

    def _field(self, name: str) -> Any:
        return self.fields[name]

    def _chosen_cluster(self, user: User) -> Cluster | None:
        """Return the cluster asked for, else the draft's, else the one used last."""
        return choose_cluster(user, (self.data if self.is_bound else self.initial).get("cluster"))

    @property
    def red(self) -> CheckReport | None:
        """Return the chosen cluster's last check if anything failed in it."""
        return preflights.find_last_if_red(self.chosen_cluster) if self.chosen_cluster else None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not cleaned.get("cluster"):
            return cleaned
        self.planned_workloads = plan_variants(self, list(cleaned.get("workloads") or ()))
        self.check_training_margins(cleaned, self.planned_workloads)
        asked: dict[str, Any] = {
            "workloads": self.planned_workloads,
            "environments": list(cleaned.get("environments") or ()),
            "scales": cleaned.get("scales") or [],
            "repeats": cleaned.get("repeats") or 1,
            "paired": cleaned.get("design") != Experiment.Design.INDEPENDENT,
            "cooldown_seconds": cleaned.get("cooldown_seconds") or 0,
        }
        again = (cleaned.get("rejected_again") or 0) if has_rules(cleaned) else 0
        self.forecast = forecast(**asked, rejected_again=again)
        self.gpu_hours_warning = warn_of_gpu_hours(
            cleaned["cluster"],
            gpu_hours=self.forecast.gpu_hours_at_most,
            longest=self.forecast.longest_job_gpu_hours,
            further=self.forecast.further_gpu_hours,
            now=timezone.now(),
        )
        self.waiting = rules.describe_unready_images(asked["environments"])
        self.unready_data = [
            *describe_unready_data(asked["workloads"], cleaned["cluster"]),
            *describe_unready_code(asked["workloads"], cleaned["cluster"]),
        ]
        self.further_metrics = self.read_further_metrics(cleaned)
        problems = rules.list_refusals(
            cluster=cleaned["cluster"],
            partition=cleaned.get("partition"),
            baseline=cleaned.get("baseline"),
            primary_metric=cleaned.get("primary_metric") or "",
            looks=cleaned.get("looks") or 1,
            find_warm_up=cleaned.get("warm_up") == Experiment.WarmUp.FOUND,
            spreads_nodes=bool(cleaned.get("spreads_nodes")),
            estimand=cleaned.get("estimand") or "",
            goal=cleaned.get("goal") or "",
            further_metrics=self.further_metrics,
            **asked,
        )
        if wrong := explain_not_startable(
            asked["environments"], cleaned["cluster"], cleaned.get("partition")
        ):
            problems["environments"] = [*problems.get("environments", []), *wrong]
        of_metrics = self.add_metric_problems(problems, self.further_metrics)
        for name in problems.keys() - self.errors.keys() - of_metrics:
            # What is still being filled in is not wrong yet: the live preview keeps quiet about it.
            filled_in = len(asked[name]) > 1 if name == "environments" else cleaned.get(name)
            code = None if filled_in else "required"
            for message in problems[name]:
                self.add_error(name, ValidationError(message, code=code))
        return cleaned

    def save(self, commit: bool = True) -> Experiment:
        """Store the draft; its swept workloads become their variants."""
        self.instance.further_metrics = list(self.further_metrics.values())
        with transaction.atomic():
            experiment: Experiment = super().save(commit)
            store_sweeps(experiment, list(self.cleaned_data["workloads"]), read_sweeps(self))
        return experiment

    @property
    def workload_options(self) -> list[WorkloadOption]:
        """Return the workloads to choose from, each with the field of its sweep."""
        return list_options(self)

    @property
    def fields_to_judge(self) -> list[forms.BoundField]:
        """Return the fields whose problems a preview shows."""
        chosen = {name_sweep_field(row.pk) for row in self.offered.chosen}
        hidden = METRICS.keys() - self.judged_training_fields
        shown = (self.base_fields.keys() - hidden) | chosen
        return [self[name] for name in self.fields if name in shown]

    def clean_estimand(self) -> str:
        """Return what was chosen; this node where nothing was, for which any nodes will do."""
        chosen: str = self.cleaned_data["estimand"]
        return chosen or str(Experiment.Estimand.NODES)

    def clean_goal(self) -> str:
        """Return what was chosen; equivalence where nothing was, as before there was the choice."""
        return self.cleaned_data["goal"] or str(Experiment.Goal.EQUIVALENCE)

    def clean_metrics_rule(self) -> str:
        return self.cleaned_data["metrics_rule"] or str(Experiment.MetricsRule.ALL)

    def clean_margin_faster(self) -> float | None:
        """Return the margin of what is faster; None where it is the other one."""
        margin: float | None = self.cleaned_data["margin_faster"]
        if margin is not None and self.cleaned_data.get("goal") == Experiment.Goal.NOT_SLOWER:
            raise ValidationError(
                "How much faster it is does not matter where “not slower” is to be shown: leave "
                "this empty."
            )
        return None if margin == self.cleaned_data.get("margin") else margin

    def clean_output_mib(self) -> int:
        limit = self.cleaned_data["output_mib"]
        return USUAL_OUTPUT_MIB if limit is None else limit

    @property
    def has_unusual_design(self) -> bool:
        """Return whether any field that is folded away is filled in otherwise, or wrong."""
        usual = {"design": "paired", "warm_up": "fixed", "looks": "1", "cooldown_seconds": "0"}
        usual["output_mib"] = str(USUAL_OUTPUT_MIB)
        return any(
            str(self[name].value() or text) != text or (self.is_bound and self[name].errors)
            for name, text in usual.items()
        )

    def forgive_what_is_missing(self) -> None:
        """Keep only the problems of fields that are filled in: the rest is being typed."""
        for errors in self.errors.values():
            data = errors.as_data()
            errors.data = [error for error in data if error.code != "required"]
