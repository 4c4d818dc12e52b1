"""What is compared: environments and workloads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models, transaction

from experiments.models.cluster import Cluster, Runtime
from experiments.models.data_sets import DataSet
from experiments.models.environment_copies import update_copy
from experiments.models.images import Image, StagedImage
from experiments.models.visibility import SharedInside, SharedQuerySet, compile_once
from experiments.natural_order import NaturalKey, make_natural_key
from runners.code_copies import CodeSource, find_source
from runners.workloads import KNOWN_WORKLOADS, WORKLOADS
from runners.workloads.parameter_sweeps import Variant

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from experiments.models.user import User


def workload_choices() -> list[tuple[str, str]]:
    """Return the kinds of workloads with their labels, as choices."""
    return [(kind, workload.label) for kind, workload in KNOWN_WORKLOADS.items()]


def are_variables(variables: Any) -> None:
    """Refuse what cannot be handed to a program as an environment variable."""
    if not isinstance(variables, dict):
        raise ValidationError('Variables are an object, such as {"OMP_NUM_THREADS": "1"}.')
    for name, value in variables.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValidationError(f"A variable cannot be called {name!r}.")
        if not isinstance(value, str) or "\0" in value:
            raise ValidationError(f"The value of {name} is to be a text without NUL.")


def are_texts(values: Any) -> None:
    """Refuse anything but a list of texts."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValidationError('This is to be a list of texts, such as ["--nv"].')


class EnvironmentQuerySet(SharedQuerySet["Environment"]):
    """Environments, and which of them a person may see."""

    def originals(self) -> EnvironmentQuerySet:
        """Leave out the A/A copies, by which an environment is compared with itself."""
        return self.filter(copy_of=None)

    @compile_once
    def visible_to(self, user: User | AnonymousUser) -> EnvironmentQuerySet:
        """Leave out what is on machines that `user` does not see. An A/A copy is shown to those who
        see its environment.
        """
        clusters = Cluster.objects.visible_to(user)
        shown = self.shown_to(user)
        originals = self.model._default_manager.filter(shown)
        copies = models.Q(copy_of__in=originals.values("pk"))
        rule = (models.Q(copy_of=None) & shown) | copies
        return self.filter(rule, cluster__in=clusters.values("pk"))


class Environment(SharedInside):
    """Where a program finds its software. No runtime and no image: bare metal."""

    name = models.CharField(max_length=100)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="environments")
    runtime = models.ForeignKey(
        Runtime, null=True, blank=True, on_delete=models.PROTECT, related_name="environments"
    )
    staged_image = models.ForeignKey(
        StagedImage, null=True, blank=True, on_delete=models.PROTECT, related_name="environments"
    )
    mode = models.CharField(
        max_length=10, blank=True, help_text="The runtime's execution mode, such as udocker's P1."
    )
    python = models.CharField(
        max_length=500,
        default="python3",
        help_text="The interpreter that starts the program, as this environment names it.",
    )
    binds = models.JSONField(
        default=list,
        blank=True,
        validators=[are_texts],
        help_text='Folders to show inside, such as ["/data:/data"].',
    )
    variables = models.JSONField(
        default=dict,
        blank=True,
        validators=[are_variables],
        help_text="Variables that the program sees.",
    )
    setup_lines = models.TextField(
        blank=True, help_text="Shell lines before the program starts, outside the container."
    )
    recorded_tool = models.CharField(
        max_length=50,
        blank=True,
        editable=False,
        help_text="What started the containers of imported runs, by the name of their folder.",
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="environments"
    )
    tree_of = models.ForeignKey(
        Image,
        null=True,
        editable=False,
        on_delete=models.PROTECT,
        related_name="trees",
        help_text="The image whose own files it runs, outside of a container.",
    )
    copy_of = models.OneToOneField(
        "self",
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="own_copy",
        help_text="The environment that this row measures a second time, in A/A tests.",
    )

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        ordering = ["cluster", "name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="environment_once_a_cluster"),
            models.CheckConstraint(
                condition=models.Q(runtime__isnull=True, staged_image__isnull=True)
                | models.Q(runtime__isnull=False, staged_image__isnull=False),
                name="runtime_and_image_go_together",
            ),
            models.CheckConstraint(
                condition=models.Q(recorded_tool="") | models.Q(runtime__isnull=True),
                name="what_was_recorded_is_not_started",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the environment, and its A/A copy with the same settings."""
        may_have_copy = not self._state.adding and self.copy_of_id is None
        with transaction.atomic():
            super().save(*args, **kwargs)
            if may_have_copy:
                update_copy(self)

    @property
    def original_pk(self) -> int:
        """Return the key of the environment that this row is: of an A/A copy, of its original."""
        return self.copy_of_id or self.pk

    @property
    def is_bare_metal(self) -> bool:
        return self.runtime_id is None and not self.recorded_tool

    @property
    def kind(self) -> str:
        """Return the name of this environment's runtime in `runners.runtimes.RUNTIMES`."""
        return self.runtime.kind if self.runtime else "bare_metal"

    @property
    def start_mode(self) -> str:
        """Return the mode in which its containers start: that of its staged form wins."""
        return (self.staged_image.mode if self.staged_image else "") or self.mode


class WorkloadQuerySet(SharedQuerySet["Workload"]):
    """Workloads, and which of them a person may see or launch."""

    def originals(self) -> WorkloadQuerySet:
        """Leave out the variants that sweeps have made."""
        return self.filter(parent=None)

    def launchable(self) -> WorkloadQuerySet:
        """Leave out what is only known from imported logs and bundles."""
        return self.filter(kind__in=WORKLOADS, recorded=False)

    @compile_once
    def visible_to(self, user: User | AnonymousUser) -> WorkloadQuerySet:
        """Leave out what somebody's imported logs brought that others may not read.

        A variant is shown to those who see both its workload and an experiment that has it: it
        tells what somebody's draft asks for.
        """
        is_recorded = ~models.Q(kind__in=WORKLOADS) | models.Q(recorded=True)
        rule = self.shown_to_or_recorded(user, recorded=is_recorded)
        parents = self.model._default_manager.filter(rule).values("pk")
        variants = models.Q(parent__in=parents)
        if not (user.is_authenticated and user.is_superuser):
            experiments: Any = self.model._meta.get_field("experiments").related_model
            readable = experiments.objects.visible_to(user)
            members = experiments.workloads.through._default_manager.filter(
                experiment__in=readable.values("pk")
            )
            variants &= models.Q(pk__in=members.values("workload"))
        return self.filter((models.Q(parent=None) & rule) | variants)


class Workload(SharedInside):
    """A program with parameters.

    A variant of one, its `parent`, is made by the sweep of an experiment and only by that.
    """

    class DataProof(models.TextChoices):
        """What each job does before it measures, to prove that its data are the data set."""

        SIZES_AND_TIMES = "looks", "sizes and times of all files"
        HASHES = "hashes", "all files are read and hashed"

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=30, choices=workload_choices)
    parameters = models.JSONField(default=dict, blank=True)
    time_limit_seconds = models.PositiveIntegerField(
        default=600,
        validators=[MinValueValidator(10)],
        help_text="The longest that one run may take, in seconds.",
    )
    data_set = models.ForeignKey(
        DataSet,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="workloads",
        help_text="What it reads; {data} in its parameters stands for the path.",
    )
    data_proof = models.CharField(
        max_length=10,
        choices=DataProof.choices,
        default=DataProof.SIZES_AND_TIMES,
        db_default=DataProof.SIZES_AND_TIMES,
        help_text="What each job does before it measures.",
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="workloads"
    )
    parent = models.ForeignKey(
        "self", null=True, editable=False, on_delete=models.PROTECT, related_name="variants"
    )
    swept = models.JSONField(
        default=dict, editable=False, help_text="The values in which a variant differs."
    )
    sweep_order = models.TextField(
        blank=True, editable=False, help_text="What a variant is sorted by, numbers as numbers."
    )
    recorded = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Only known from a bundle of another Tare: nobody launches it.",
    )
    sort_name = models.GeneratedField(
        expression=models.Case(
            models.When(sweep_order="", then=models.F("name")),
            default=models.F("sweep_order"),
            output_field=models.TextField(),
        ),
        output_field=models.TextField(),
        db_persist=True,
    )

    objects = WorkloadQuerySet.as_manager()

    class Meta:
        ordering = ["sort_name"]

    def __str__(self) -> str:
        return self.name

    @property
    def visibility_text(self) -> str:
        """Return who can view it, in words: of a variant, who can view its workload."""
        return self.parent.visibility_text if self.parent else super().visibility_text

    @property
    def code_source(self) -> CodeSource | None:
        """Return where its code comes from; None where it names none."""
        return find_source(self.parameters)

    @property
    def natural_key(self) -> tuple[NaturalKey, str]:
        """Return what lists for people are sorted by: names with numbers by size, then variants.

        The values of a variant are written so that texts sort as they do: not to be read again.
        """
        values = Variant(self.swept, {}).order if self.swept else ""
        if not values or not self.sweep_order.endswith(values):
            return make_natural_key(self.sweep_order or self.name), ""
        return make_natural_key(self.sweep_order.removesuffix(values).rstrip()), values

    @property
    def swept_label(self) -> str:
        """Return what sets a variant apart, such as "batch_size=64"; "" of any other workload."""
        return Variant(self.swept, {}).label


class SentFileManager(models.Manager["SentFile"]):
    """The files that travel with jobs, each stored once."""

    def keep(self, content: bytes) -> SentFile:
        """Return the row that holds `content`; the same bytes are kept once."""
        row = SentFile(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        row.content = content
        self.bulk_create([row], ignore_conflicts=True)
        return row

    def contents(self, files: Mapping[str, str]) -> dict[str, bytes]:
        """Return what is sent under each name; `files` is name -> sha256. KeyError for no row."""
        rows = self.filter(sha256__in=files.values())
        known = {row.sha256: bytes(row.content) for row in rows}
        return {name: known[sha256] for name, sha256 in files.items()}


class SentFile(models.Model):
    """The bytes of a file that a workload sends along, known by their hash; names are its."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size = models.PositiveIntegerField(help_text="Bytes.")
    content = models.BinaryField()
    kept_at = models.DateTimeField(auto_now_add=True)

    objects = SentFileManager()

    class Meta:
        ordering = ["sha256"]

    def __str__(self) -> str:
        return f"{self.size} bytes, sha256 {self.sha256[:12]}"
