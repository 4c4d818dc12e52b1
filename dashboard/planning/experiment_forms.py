"""The form of an experiment; what its cluster cannot run is refused at the field."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.forms.models import ModelChoiceIteratorValue
from django.http import QueryDict
from django.utils import timezone
from django.utils.choices import CallableChoiceIterator

from dashboard.form_styles import PercentField, Styled
from dashboard.planning.decisive_metrics_fields import DecisiveMetricsFields
from dashboard.planning.power import Outlook
from dashboard.planning.power_of_all import estimate_all_outlooks
from dashboard.planning.sweep_fields import (
    WorkloadOption,
    add_sweep_fields,
    list_options,
    list_sweep_names,
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
from experiments.access.visibility_fields import VisibilityFields
from experiments.clusters import preflights
from experiments.design import Scale
from experiments.execution.limits import warn_of_gpu_hours
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
from experiments.planning import rules
from experiments.planning.aa_tests import select_offered
from experiments.planning.estimands import (
    count_planned_nodes,
    explain_why_not_spread,
    propose_estimand,
    warn_of_nodes,
)
from experiments.planning.rules import Forecast
from experiments.planning.scale_rules import suggest_scale
from experiments.planning.variants import list_chosen, store_sweeps
from experiments.statistics import numbers
from experiments.statistics.interim_analyses import MOST_ANALYSES
from experiments.statistics.margins import Margin
from experiments.statistics.verdicts import FEWEST
from runners.workloads import WORKLOADS
from runners.workloads.results import Metric
from runners.workloads.run_metrics import RUN_METRICS

PARTITION = Experiment.Estimand.PARTITION
RULES = (
    *("reject_swap", "reject_throttled", "reject_others"),
    *("reject_below_mhz", "reject_others_cpus"),
)
"""Fields of the rules that reject runs."""


class ScalesField(forms.CharField):
    """Scales as text, `1x1, 1x2`, and as the list that the model stores."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return [_normal(part.strip()) for part in text.split(",") if part.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(initial != self.to_python(data))


def _normal(text: str) -> str:
    """Return a scale's one spelling, or the text itself for the rules to refuse."""
    try:
        return str(Scale.parse(text))
    except ValueError:
        return text


def choose_cluster(user: User, asked: Any = None) -> Cluster | None:
    """Return the cluster asked for, if `user` may use it; else the one they used last."""
    usable = Cluster.objects.usable_by(user)
    if asked is not None:
        key = parse_whole_number(asked)
        return None if key is None else usable.filter(pk=key).first()
    mine = usable.filter(experiments__owner=user).order_by("-experiments__created_at")
    furnished = usable.filter(environments__isnull=False)
    return mine.first() or furnished.first() or usable.first()


Choices = list[tuple[str, Any]]


def list_metric_choices(
    workloads: Iterable[Workload] = (), chosen: Iterable[Workload] = ()
) -> Choices:
    """Return the metrics of each kind, of users' programs among `workloads`, and of every run.

    What the `chosen` ones report comes first, in a group of its own.
    """
    metrics = {metric.name: metric for kind in WORKLOADS.values() for metric in kind.metrics}
    for name, metric in _reported_by(workloads).items():
        metrics.setdefault(name, metric)
    first = _reported_by(chosen)
    own = [_named(metric) for metric in first.values()]
    others = [_named(metric) for name, metric in metrics.items() if name not in first]
    usual: Choices = [("", "the workload's own")]
    of_runs = ("Of every run", [_named(row) for row in RUN_METRICS if row.name not in metrics])
    if not own:
        return [*usual, *others, of_runs]
    return [*usual, ("Of the workloads chosen", own), ("Of other workloads", others), of_runs]


def _reported_by(workloads: Iterable[Workload]) -> dict[str, Metric]:
    return {
        metric.name: metric
        for row in workloads
        for metric in WORKLOADS[row.kind].list_metrics(row.parameters)
    }


def _named(metric: Metric) -> tuple[str, str]:
    return metric.name, f"{metric.name}: {metric.label.lower()}"


def list_analysis_choices() -> list[tuple[int, str]]:
    """Return the choices for the number of interim analyses."""
    return [(1, "one, at the end"), *((count, str(count)) for count in range(2, MOST_ANALYSES + 1))]


# What the form itself fills in, and so may change with the cluster.
UNTOUCHED_SCALES: list[list[str]] = [[], ["1x1"], ["1x0"]]


class ExperimentForm(
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
        environments = visible.select_related("runtime", "staged_image__image")
        self._field("environments").queryset = environments
        self._field("baseline").queryset = environments
        for name in ("environments", "baseline"):
            self._field(name).widget.choices = CallableChoiceIterator(self._list_environments)
        self._field("baseline").empty_label = None
        partitions = Partition.objects.filter(cluster=self.chosen_cluster)
        # A draft keeps showing its own, and says that it is out of service.
        offered = Q(enabled=True) | Q(pk=self.instance.partition_id)
        self._field("partition").queryset = partitions.filter(offered)
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
            self._suggest()
        elif not self.is_bound and not self.initial.get("estimand"):
            self._suggest_estimand(self.instance.partition)
        self.planned_workloads: list[Workload] = []
        self.forecast: Forecast | None = None
        self.gpu_hours_warning = ""
        self.waiting: list[str] = []

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

    def _suggest(self) -> None:
        """Fill in what follows from the cluster; what was typed for it already stays."""
        environments = self.offered_environments
        bare = [row for row in environments if row.is_bare_metal] or environments
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
        self._suggest_estimand(chosen)

    def _suggest_estimand(self, partition: Partition | None) -> None:
        """Fill in what verdicts speak of, for a new draft and for one from before the choice."""
        if self.chosen_cluster is None:
            return
        if not self.initial.get("estimand") and self.instance.pk:
            # Its blocks were not to be spread: on one node they would say nothing of a partition.
            self.initial["estimand"] = str(Experiment.Estimand.NODES)
        elif not self.initial.get("estimand"):
            self.initial["estimand"] = propose_estimand(self.chosen_cluster, partition)
            self.initial["spreads_nodes"] = self.initial["estimand"] == PARTITION
        if explain_why_not_spread(self.chosen_cluster, paired=True):
            self.initial["spreads_nodes"] = False

    def _text_of_scales(self) -> str:
        """Return the scales as text: a new draft has a list, what was typed is text already."""
        return str(self._field("scales").prepare_value(self.initial.get("scales")) or "")

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
        again = (cleaned.get("rejected_again") or 0) if self._has_rules(cleaned) else 0
        self.forecast = rules.forecast(**asked, rejected_again=again)
        self.gpu_hours_warning = warn_of_gpu_hours(
            cleaned["cluster"],
            gpu_hours=self.forecast.gpu_hours_at_most,
            longest=self.forecast.longest_job_gpu_hours,
            further=self.forecast.further_gpu_hours,
            now=timezone.now(),
        )
        self.waiting = rules.describe_unready_images(asked["environments"])
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
        of_metrics = self.add_metric_problems(problems, self.further_metrics)
        for name in problems.keys() - self.errors.keys() - of_metrics:
            # What is still being filled in is not wrong yet: the live preview keeps quiet about it.
            filled_in = len(asked[name]) > 1 if name == "environments" else cleaned.get(name)
            code = None if filled_in else "required"
            for message in problems[name]:
                self.add_error(name, ValidationError(message, code=code))
        return cleaned

    @staticmethod
    def _has_rules(cleaned: dict[str, Any]) -> bool:
        return any(cleaned.get(name) for name in RULES)

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

    def clean_rejected_again(self) -> int:
        return self.cleaned_data["rejected_again"] or 0

    @property
    def checked_rules(self) -> list[forms.BoundField]:
        """Return the rules on nodes that are ticked or not."""
        return [self[name] for name in ("reject_swap", "reject_throttled", "reject_others")]

    @property
    def has_unusual_design(self) -> bool:
        """Return whether any field that is folded away is filled in otherwise, or wrong."""
        usual = {"design": "paired", "warm_up": "fixed", "looks": "1", "cooldown_seconds": "0"}
        usual["output_mib"] = str(USUAL_OUTPUT_MIB)
        return any(
            str(self[name].value() or text) != text or (self.is_bound and self[name].errors)
            for name, text in usual.items()
        )

    @property
    def rejects(self) -> bool:
        """Return whether any rule on nodes is filled in, or wrong."""
        names_of_all = (*RULES, "rejected_again")
        is_wrong = self.is_bound and any(self[name].errors for name in names_of_all)
        return is_wrong or any(self[name].value() for name in RULES)

    @property
    def warnings(self) -> list[str]:
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
        nodes = warn_of_nodes(
            self.cleaned_data.get("estimand") or "",
            self.cleaned_data["cluster"],
            self.cleaned_data.get("partition"),
            repeats=repeats,
            spreads=bool(self.cleaned_data.get("spreads_nodes")),
        )
        return [*filter(None, [self.gpu_hours_warning, repeats < FEWEST and few, nodes]), *waiting]

    @cached_property
    def outlooks(self) -> list[Outlook]:
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
                if asked.get("estimand") == PARTITION
                else None,
                paired=asked["design"] != Experiment.Design.INDEPENDENT,
                comparisons=len(workloads)
                * len(asked["scales"])
                * (len(asked["environments"]) - 1),
                reader=self.user,
            )
        )

    def forgive_what_is_missing(self) -> None:
        """Keep only the problems of fields that are filled in: the rest is being typed."""
        for errors in self.errors.values():
            data = errors.as_data()
            errors.data = [error for error in data if error.code != "required"]


def read_typed_values(form: type[ExperimentForm], data: QueryDict) -> dict[str, Any]:
    """Return what was typed so far as initial values, for a form that does not judge it yet."""
    several = {"workloads", "environments"}
    return {
        name: data.getlist(name) if name in several else data[name]
        for name in [*form.base_fields, *list_sweep_names(data)]
        if name in data
    }
