"""A question, a frozen plan and its runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Coalesce
from django.urls import reverse

from experiments.models.catalogue import Environment, Workload
from experiments.models.cluster import Cluster
from experiments.models.partition import Partition
from experiments.models.states import RUN_FINAL, RunState
from experiments.models.visibility import Shared, SharedQuerySet
from runners import kept_output, node_rules
from runners.workloads import choose_repeat_seed

MOST_AGAIN = 5
MOST_MHZ = 100_000
MOST_CPUS = 100_000
USUAL_OUTPUT_MIB = kept_output.DEFAULT_MIB
LEAST_LOSS_MARGIN = 1e-9
MOST_ANALYSES = 5
"""Interim analyses, as many as `statistics.interim_analyses` has levels for."""


def default_scales() -> list[str]:
    """Return the scales of a new experiment: one node with one GPU."""
    return ["1x1"]


@dataclass(frozen=True)
class LastEvent:
    """The key and the time of an experiment's last event; None where it has none."""

    pk: int | None
    at: datetime | None


class ExperimentQuerySet(SharedQuerySet["Experiment"]):
    """Experiments, in the orders and selections that pages need."""

    def dated(self) -> ExperimentQuerySet:
        """Annotate `since_when`, to be sorted by: launched, or its logs imported."""
        return self.annotate(since_when=Coalesce("launched_at", "imported_at"))

    def lock_drafts(self) -> ExperimentQuerySet:
        """Return what can still be changed; nobody else does until the transaction ends.

        Whoever changes what a launch freezes locks the row first, and its workloads after it.
        """
        drafts = self.filter(launched_at=None, imported_at=None)
        return drafts.select_for_update(of=("self",), no_key=True)

    def newest_first(self) -> ExperimentQuerySet:
        return self.order_by(Coalesce("launched_at", "imported_at").desc(nulls_last=True))

    def alive(self) -> ExperimentQuerySet:
        """Return those with runs that have not ended."""
        return self._with_runs_in(set(RunState) - set(RUN_FINAL))

    def with_results(self) -> ExperimentQuerySet:
        """Return those that have a number to show."""
        return self._with_runs_in({RunState.SUCCEEDED})

    def _with_runs_in(self, states: set[RunState]) -> ExperimentQuerySet:
        # A subquery of its own for each: not all runs there are, to name a few experiments.
        runs: Any = self.model._meta.get_field("runs").related_model
        rows = runs._default_manager.filter(experiment=models.OuterRef("pk"))
        return self.filter(models.Exists(rows.filter(state__in=sorted(states))))

    def without_plan(self) -> ExperimentQuerySet:
        """Leave the frozen plan where it is: of a large experiment it has megabytes."""
        return self.defer("plan")


class Experiment(Shared):
    """Editable until it is launched; then its plan is frozen and hashed.

    An imported one has runs that somebody else has made: it is never launched.
    """

    class Design(models.TextChoices):
        PAIRED = "paired", "paired: one job runs every environment on the same node"
        INDEPENDENT = "independent", "independent: every run is a job of its own"

    class WarmUp(models.TextChoices):
        FIXED = "fixed", "fixed number of steps: the workload's parameter warm-up"
        FOUND = "found", "detected: up to where each run settles, by change points"

    class Estimand(models.TextChoices):
        NODES = "nodes", "this node: the nodes that its runs will have run on"
        PARTITION = "partition", "this partition: its nodes, of which these stand for all"

    class Goal(models.TextChoices):
        EQUIVALENCE = "equivalence", "equivalence: neither slower nor faster by the margin"
        NOT_SLOWER = "not slower", "not slower by the margin, however much faster"

    class MetricsRule(models.TextChoices):
        ALL = "all", "all must be shown"
        IN_ORDER = "in order", "in a fixed order, up to the first that is not shown"

    MOST_TAGS, LONGEST_TAG, LONGEST_NOTES = 20, 40, 10_000

    question = models.CharField(max_length=300)
    tags = ArrayField(models.CharField(max_length=LONGEST_TAG), default=list, blank=True)
    notes = models.TextField(max_length=LONGEST_NOTES, blank=True)
    archived_at = models.DateTimeField(
        null=True, blank=True, help_text="Since then lists leave it out unless they are told to."
    )
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="experiments")
    partition = models.ForeignKey(
        Partition, null=True, blank=True, on_delete=models.PROTECT, related_name="experiments"
    )
    workloads = models.ManyToManyField(Workload, related_name="experiments")
    sweeps = models.JSONField(
        default=dict,
        editable=False,
        help_text="Workload -> the values of its parameters, as they were typed. Its variants "
        "stand among the workloads in its place.",
    )
    environments = models.ManyToManyField(Environment, related_name="experiments")
    baseline = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    scales = models.JSONField(
        default=default_scales, help_text='Nodes x GPUs per node, such as ["1x1", "2x4 srun"].'
    )
    repeats = models.PositiveIntegerField(
        default=5, validators=[MinValueValidator(1), MaxValueValidator(1000)]
    )
    looks = models.PositiveSmallIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_ANALYSES)],
        help_text="How often the data may be judged, equally spaced, each time at a stricter level "
        "the more looks there are.",
    )
    design = models.CharField(max_length=12, choices=Design.choices, default=Design.PAIRED)
    margin = models.FloatField(
        default=0.02,
        validators=[MinValueValidator(0.0001), MaxValueValidator(1)],
        help_text="The largest relative difference that you would still call the same.",
    )
    goal = models.CharField(
        max_length=12,
        choices=Goal.choices,
        default=Goal.EQUIVALENCE,
        help_text="What is to be shown.",
    )
    margin_faster = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0001), MaxValueValidator(1)],
        help_text="The margin of what is faster. Empty: the same as of what is slower.",
    )
    accuracy_margin = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.001), MaxValueValidator(100)],
        help_text="Percentage points of an accuracy within which trainings count as equivalent.",
    )
    loss_margin = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_LOSS_MARGIN), MaxValueValidator(1e6)],
        help_text="The same for the last loss, in its own unit. Empty: no verdict on training.",
    )
    primary_metric = models.CharField(
        max_length=100, blank=True, help_text="Empty: each workload's own."
    )
    further_metrics = models.JSONField(
        default=list,
        blank=True,
        help_text="Further decisive metrics in their order, each with its margin: "
        '[{"metric": "step_time_sd", "margin": 0.05}], with a "margin_faster" where it differs.',
    )
    metrics_rule = models.CharField(
        max_length=8,
        choices=MetricsRule.choices,
        default=MetricsRule.ALL,
        help_text="How several decisive metrics are judged together.",
    )
    estimand = models.CharField(
        max_length=10,
        choices=Estimand.choices,
        blank=True,
        help_text="What its verdicts speak of. Empty: planned before there was the choice.",
    )
    spreads_nodes = models.BooleanField(
        default=False, help_text="Send each block of a configuration to a node of its own."
    )
    warm_up = models.CharField(max_length=10, choices=WarmUp.choices, default=WarmUp.FIXED)
    cooldown_seconds = models.PositiveIntegerField(default=0)
    reject_swap = models.BooleanField(
        default=False, help_text="Reject runs during which the node used its swap."
    )
    reject_throttled = models.BooleanField(
        default=False, help_text="Reject runs in which heat or the hardware slowed a GPU down."
    )
    reject_below_mhz = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_MHZ)],
        help_text="Reject runs in which a GPU in use had a lower mean clock.",
    )
    reject_others = models.BooleanField(
        default=False, help_text="Reject runs beside which others had a process on the job's GPUs."
    )
    reject_others_cpus = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_CPUS)],
        help_text="Reject runs beside which so many CPUs were busy beyond all those of the run.",
    )
    rejected_again = models.PositiveSmallIntegerField(
        default=0,
        validators=[MaxValueValidator(MOST_AGAIN)],
        help_text="How often rejected runs of a block are planned again, by a job of their own.",
    )
    output_mib = models.PositiveSmallIntegerField(
        default=USUAL_OUTPUT_MIB,
        db_default=USUAL_OUTPUT_MIB,  # for workers of the version before, while a site is upgraded
        validators=[MaxValueValidator(kept_output.MOST_MIB)],
        help_text="How much is kept of what a run prints: of more its beginning and its end.",
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="experiments"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    copied_from = models.ForeignKey(
        "self", null=True, editable=False, on_delete=models.SET_NULL, related_name="copies"
    )

    order_seed = models.BigIntegerField(null=True, editable=False)
    plan = models.JSONField(null=True, editable=False)
    plan_hash = models.CharField(max_length=64, blank=True, editable=False)
    launched_at = models.DateTimeField(null=True, editable=False)
    cancelled_at = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(
        null=True, editable=False, help_text="Since then nothing new of it is sent."
    )
    stopped_at_look = models.PositiveSmallIntegerField(
        null=True, editable=False, help_text="The look whose verdict a person kept."
    )
    extended_repeats = models.PositiveIntegerField(
        null=True,
        editable=False,
        help_text="How many repeats were added after the verdict; the plan does not have them.",
    )
    extension_level = models.FloatField(
        null=True,
        editable=False,
        help_text="The two-sided level of the verdict after the extension.",
    )
    pinned_at = models.DateTimeField(
        null=True, editable=False, help_text="Since then its files on the cluster are to stay."
    )
    imported_at = models.DateTimeField(null=True, editable=False)
    imported_from = models.CharField(max_length=300, blank=True, editable=False)
    import_hash = models.CharField(max_length=64, blank=True, editable=False)
    bundle_keys = models.JSONField(
        null=True,
        editable=False,
        help_text="Of one that came as a bundle: what its plan calls each workload and "
        "environment, by the keys that they have here.",
    )
    reproduces = models.ForeignKey(
        "self",
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="reproductions",
        help_text="The experiment whose plan it does again.",
    )
    reproduction = models.JSONField(
        null=True,
        editable=False,
        help_text="Of a reproduction: the hash of the plan that it does again, which of its own "
        "workloads and environments stand for those of that plan, by their keys, and what could "
        "not be the same.",
    )

    objects = ExperimentQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["created_at", "id"], name="experiment_by_creation"),
            GinIndex(fields=["tags"], name="experiment_by_tag"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(launched_at__isnull=True, plan_hash="", order_seed=None)
                | (
                    models.Q(launched_at__isnull=False, order_seed__isnull=False)
                    & ~models.Q(plan_hash="")
                ),
                name="launched_means_frozen",
            ),
            models.CheckConstraint(
                condition=models.Q(imported_at__isnull=True, import_hash="")
                | (
                    models.Q(imported_at__isnull=False, launched_at__isnull=True)
                    & models.Q(design="independent")
                    & ~models.Q(import_hash="")
                ),
                name="imported_is_never_launched",
            ),
            models.UniqueConstraint(
                fields=["owner", "import_hash"],
                condition=~models.Q(import_hash=""),
                name="imported_once_a_person",
            ),
            models.CheckConstraint(condition=models.Q(repeats__gte=1), name="at_least_one_repeat"),
            models.CheckConstraint(
                condition=models.Q(margin__gt=0, margin__lte=1), name="margin_between_0_and_1"
            ),
            models.CheckConstraint(
                condition=models.Q(goal="equivalence", margin_faster=None)
                | models.Q(goal="equivalence", margin_faster__gt=0, margin_faster__lte=1)
                | models.Q(goal="not slower", margin_faster=None),
                name="goal_and_its_margins",
            ),
            models.CheckConstraint(
                condition=(
                    models.Q(accuracy_margin=None)
                    | models.Q(accuracy_margin__gt=0, accuracy_margin__lte=100)
                )
                & (models.Q(loss_margin=None) | models.Q(loss_margin__gt=0, loss_margin__lte=1e6)),
                name="margins_of_training",
            ),
            models.CheckConstraint(
                condition=models.Q(metrics_rule__in=["all", "in order"]), name="known_metrics_rule"
            ),
            models.CheckConstraint(
                condition=models.Q(looks__gte=1, looks__lte=MOST_ANALYSES), name="one_to_five_looks"
            ),
            models.CheckConstraint(
                condition=models.Q(stopped_at_look=None)
                | models.Q(stopped_at_look__gte=1, cancelled_at__isnull=False),
                name="stopped_at_a_look_means_ended",
            ),
            models.CheckConstraint(
                condition=models.Q(extended_repeats=None, extension_level=None)
                | models.Q(
                    extended_repeats__isnull=False,
                    extended_repeats__gte=1,
                    extension_level__isnull=False,
                    extension_level__gt=0,
                    launched_at__isnull=False,
                ),
                name="extended_means_launched",
            ),
        ]

    def __str__(self) -> str:
        return self.question

    def get_absolute_url(self) -> str:
        return reverse("experiment", args=[self.pk])

    read_last_event: LastEvent | None = None
    """Its last event, where that was read together with its row."""

    def find_last_event(self) -> LastEvent:
        """Return its last event; no query where that was read together with its row."""
        if self.read_last_event:
            return self.read_last_event
        newest = self.events.order_by("-at", "-pk").values_list("pk", "at").first()
        return LastEvent(*(newest or (None, None)))

    @property
    def since(self) -> datetime | None:
        """Return when it was launched, or its logs imported; None for a draft."""
        return self.launched_at or self.imported_at

    @property
    def key(self) -> str:
        """Return the name from which those of its files and plots are made."""
        return str(self.pk)

    @property
    def is_from_bundle(self) -> bool:
        """Return whether another Tare has measured it, and a bundle has brought it here."""
        return self.bundle_keys is not None

    def get_workload_key(self, pk: int) -> str:
        """Return the name that the plan has for the workload with this primary key."""
        return self._get_plan_key("workloads", pk)

    def get_environment_key(self, pk: int) -> str:
        """Return the name that the plan has for the environment with this primary key."""
        return self._get_plan_key("environments", pk)

    def _get_plan_key(self, rows: str, pk: int) -> str:
        key = str(pk)
        return str(self.bundle_keys[rows][key]) if self.bundle_keys else key

    @property
    def all_repeats(self) -> int:
        """Return the number of repeats, with those that an extension added."""
        return self.repeats + (self.extended_repeats or 0)

    @property
    def unusual_goal(self) -> dict[str, Any]:
        """Return what the plan says of its goal beside the margin; empty for what is usual."""
        goal = {"goal": self.goal} if self.goal != self.Goal.EQUIVALENCE else {}
        return goal if self.margin_faster is None else {**goal, "margin_faster": self.margin_faster}

    @property
    def training_margins(self) -> dict[str, float]:
        """Return what the plan says of training; empty where it asks for no verdict on it."""
        margins = {"accuracy_margin": self.accuracy_margin, "loss_margin": self.loss_margin}
        return {name: margin for name, margin in margins.items() if margin is not None}

    @property
    def varied_seeds(self) -> list[str]:
        """Frozen workloads whose seed is another in each repeat, with them: "cnn: seeds 1 to 5"."""
        frozen = (self.plan or {}).get("workloads", {}).values()
        seeds = {
            workload["name"]: [
                choose_repeat_seed(workload["parameters"], repeat).get("seed")
                for repeat in (1, self.all_repeats)
            ]
            for workload in frozen
        }
        return [
            f"{name}: seeds {first} to {last}"
            for name, (first, last) in sorted(seeds.items())
            if first != last
        ]

    @property
    def rejection_rules(self) -> dict[str, Any]:
        """Return the rules that reject a run for what its node did, as `node_rules.judge` takes."""
        rules = {
            node_rules.SWAP: self.reject_swap,
            node_rules.THROTTLED: self.reject_throttled,
            node_rules.LEAST_MHZ: self.reject_below_mhz,
            node_rules.OTHERS: self.reject_others,
            node_rules.OTHERS_CPUS: self.reject_others_cpus,
        }
        rules = {name: value for name, value in rules.items() if value}
        if rules and self.rejected_again:
            rules[node_rules.ATTEMPTS] = self.rejected_again
        return rules

    @property
    def rejection_texts(self) -> list[str]:
        return node_rules.describe_rules(self.rejection_rules)

    @property
    def sweep_texts(self) -> list[tuple[str, str]]:
        """Return the name of each workload that is swept with what was typed for it."""
        if not self.sweeps:
            return []
        rows = Workload.objects.filter(pk__in=[int(key) for key in self.sweeps])
        return [(row.name, self.sweeps[str(row.pk)]) for row in rows]

    @property
    def is_draft(self) -> bool:
        return self.launched_at is None and self.imported_at is None

    @property
    def is_paired(self) -> bool:
        return self.design == self.Design.PAIRED
