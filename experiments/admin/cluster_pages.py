"""Administration of clusters, with their partitions and runtimes."""

from __future__ import annotations

import re
import shlex
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from experiments.access.permissions import may_run_here, why_not_use_keys_of
from experiments.access.visibility_fields import VisibilityFields
from experiments.admin.base import Owned, RuledInline
from experiments.admin.help_links import HelpLinks
from experiments.execution import explain_partition_problem
from experiments.models import Cluster, Job, Operation, Partition, Runtime, User
from experiments.models.cluster_choices import BY_HAND, LOCAL_TRANSPORT
from runners.schedulers import PLACEHOLDERS, SCHEDULERS
from runners.transports import fingerprint_public_key

LABELS = {
    "max_live_jobs": "Live jobs at most",
    "poll_seconds": "Seconds between status calls",
    "setup_lines": "Set-up lines",
}
"""What forms call a column whose own name is not what other pages say."""


def _relabel(field: Any, db_field: Any) -> Any:
    if field and db_field.name in LABELS:
        field.label = LABELS[db_field.name]
    return field


class OptionLines(forms.CharField):
    """Options of a scheduler, one a line; stored as a list."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 80, "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))

    def validate(self, value: list[str]) -> None:
        for option in value:
            if not option.startswith("-"):
                raise ValidationError(f"An option begins with a dash, this does not: {option}")
            unknown = set(re.findall(r"\{(\w*)\}", option)) - set(PLACEHOLDERS)
            if unknown:
                known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
                raise ValidationError(f"{option} names {{{min(unknown)}}}; known are {known}.")


class LauncherLines(OptionLines):
    """Options of srun or mpirun, one a line, with what belongs to each."""

    def validate(self, value: list[str]) -> None:
        for line in value:
            if not line.startswith("-"):
                raise ValidationError(f"An option begins with a dash, this does not: {line}")
            try:
                shlex.split(line)
            except ValueError as error:
                raise ValidationError(f"{line} cannot be split into words: {error}.") from None


class PartitionForm(HelpLinks, forms.ModelForm):  # type: ignore[type-arg]
    """The administration's form of a partition."""

    directives = OptionLines(
        label="Further options",
        required=False,
        help_text="Of the scheduler, one a line, such as --exclusive or --constraint=a100. Those "
        "that name {gpus}, {cpus}, {nodes}, {memory} or {memory_per_cpu} (MB) replace Tare's own "
        "way to ask for them: --gpus-per-node=a100:{gpus}, or -pe smp {cpus} for Grid Engine.",
    )
    srun_options = LauncherLines(
        label="Options of srun",
        required=False,
        help_text="For scales such as 2x4 srun, one a line: --mpi=pmix.",
    )
    mpirun_options = LauncherLines(
        label="Options of mpirun",
        required=False,
        help_text="For scales such as 2x4 mpirun, one a line: --mca btl ^openib. Open MPI's; they "
        "come after Tare's own -np, --map-by and --bind-to none.",
    )

    class Meta:
        model = Partition
        fields = "__all__"
        labels: ClassVar = {
            "gpus_per_node": "GPUs per node",
            "gpu_model": "GPU model",
            "gres": "GPU resource",
            "cpus_per_node": "CPUs per node",
            "cpus_per_run": "CPUs per run",
            "memory_mb": "Memory, MB",
        }
        help_texts: ClassVar = {
            "name": "Grid Engine: the queue. Without a scheduler: any name.",
            "gres": "What the scheduler calls a GPU, such as gpu or gpu:a100.",
            "account": "Grid Engine: the project.",
            "qos": "Slurm only.",
        }


class PartitionFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    """The partitions of one cluster, each such that its scheduler can be asked for it."""

    def clean(self) -> None:
        """Refuse what the scheduler's own job script could not say."""
        super().clean()
        scheduler = self.instance.scheduler
        for form in self.forms:
            if scheduler in SCHEDULERS and form.is_valid() and form.has_changed():
                problem = explain_partition_problem(form.instance, scheduler)
                if problem:
                    form.add_error(None, f"A job cannot be written so: {problem}.")


class KeyedInline(RuledInline):
    """What jobs with the cluster's key run: changed by those who may use that key, shown to all."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and not (obj and why_not_use_keys_of(request.user, obj))


class PartitionInline(KeyedInline):
    """The partitions on the administration's page of a cluster."""

    model = Partition
    form = PartitionForm
    formset = PartitionFormSet
    fields = (
        ("name", "nodes", "gpus_per_node", "gpu_model", "gres"),
        ("cpus_per_node", "cpus_per_run", "memory_mb", "time_limit_minutes"),
        ("account", "qos", "side_by_side", "enabled"),
        "directives",
        ("srun_options", "mpirun_options"),
    )


class RuntimeForm(HelpLinks, forms.ModelForm):  # type: ignore[type-arg]
    """The administration's form of a runtime, beside its cluster."""


class RuntimeInline(KeyedInline):
    """The runtimes on the administration's page of a cluster."""

    model = Runtime
    form = RuntimeForm
    fields = (("kind", "executable", "version"), ("options", "setup_lines"))

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        return _relabel(super().formfield_for_dbfield(db_field, request, **kwargs), db_field)


def _count_live(cluster: Cluster) -> int:
    """Return how many jobs and operations the cluster's scheduler may have."""
    rows = (
        model._default_manager.filter(cluster_id=cluster.pk, state__in=model.LIVE)
        for model in (Job, Operation)
    )
    return sum(live.count() for live in rows)


class ClusterForm(HelpLinks, VisibilityFields, forms.ModelForm):  # type: ignore[type-arg]
    """The administration's form of a cluster."""

    by: ClassVar[User]

    def clean_host_key(self) -> str:
        text = str(self.cleaned_data["host_key"]).strip()
        if text:
            try:
                fingerprint_public_key(text)
            except ValueError as problem:
                raise ValidationError(str(problem)) from None
        return text

    def clean_work_directory(self) -> str:
        path = str(self.cleaned_data["work_directory"])
        if not path.startswith("/") or "\n" in path:
            raise ValidationError("The work directory is an absolute path, such as /scratch/tare.")
        return path

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("transport") == "ssh" and not cleaned.get("host"):
            self.add_error("host", "SSH needs a host to log in to.")
        if cleaned.get("transport") == LOCAL_TRANSPORT and not may_run_here(self.by):
            self.add_error("transport", "Jobs there run as Tare itself: for site administrators.")
        if cleaned.get("transport") == BY_HAND:
            for name in ("host", "jump_host", "credential"):
                if cleaned.get(name):
                    self.add_error(name, "Nobody logs in where jobs are carried by hand.")
        is_carried = BY_HAND in (cleaned.get("transport"), self.initial.get("transport"))
        changes = is_carried and "transport" in self.changed_data
        if changes and (count := _count_live(self.instance)):
            self.add_error(
                "transport",
                f"{count} job{'s' * (count != 1)} there would be lost: wait for their end, or "
                "cancel them.",
            )
        jump = cleaned.get("jump_host")
        if jump is not None and self.instance.pk and self.instance in jump.list_hops():
            circle = " → ".join(str(hop) for hop in [*jump.list_hops(), self.instance])
            self.add_error("jump_host", f"The jump hosts lead in a circle: {circle}.")
        elif jump is not None and jump.transport != "ssh":
            self.add_error("jump_host", f"{jump} is this machine itself: nobody jumps over it.")
        if "scheduler" in self.changed_data and (count := _count_live(self.instance)):
            jobs = "1 job there is" if count == 1 else f"{count} jobs there are"
            self.add_error(
                "scheduler",
                f"{jobs} known to {SCHEDULERS[self.initial['scheduler']].label} alone: to any "
                "other scheduler they would seem to be lost. Wait for their end, or cancel them.",
            )
        if self.instance.recorded and (cleaned.get("enabled") or cleaned.get("host")):
            self.add_error("enabled", "This machine is known from imported logs only.")
        return cleaned


VISIBILITY_HELP = (
    "Cluster administrators of the groups may change the cluster too. All who may use its key may "
    "send jobs there."
)
# What decides where the cluster's key logs in, and what runs with it.
KEYED = (
    *("transport", "host", "port", "host_key", "jump_host", "credential"),
    *("scheduler", "work_directory", "setup_lines"),
)
SENDERS = "Who may send jobs to Tare’s own machine"


@admin.register(Cluster)
class ClusterAdmin(Owned):
    """The administration's pages of clusters."""

    form = ClusterForm
    inlines = (PartitionInline, RuntimeInline)
    list_display = ("name", "host", "scheduler", "enabled", "last_seen_at", "last_visit")
    readonly_fields: ClassVar[Any] = (
        "pinned",
        "last_seen_at",
        "last_visit",
        "last_error",
        "owner",
    )
    fieldsets: ClassVar = (
        (None, {"fields": ("name", "enabled", "owner")}),
        ("Visibility", {"fields": ("visibility", "groups"), "description": VISIBILITY_HELP}),
        (SENDERS, {"fields": ("users",)}),
        (
            "How Tare reaches it",
            {
                "fields": (
                    "transport",
                    "host",
                    "port",
                    "host_key",
                    "pinned",
                    "jump_host",
                    "credential",
                ),
                "description": "The host key is fetched, compared and pinned on the cluster's own "
                "page. Compare its fingerprint before you paste one here.",
            },
        ),
        ("How it runs jobs", {"fields": ("scheduler", "work_directory", "setup_lines")}),
        (
            "Limits",
            {
                "fields": (
                    "max_live_jobs",
                    "poll_seconds",
                    "max_submissions_per_minute",
                    "max_connections_per_hour",
                    "max_gpu_hours_per_month",
                )
            },
        ),
        ("Job directories", {"fields": ("retention_days", "removes_uncopied")}),
        ("Last visit", {"fields": ("last_seen_at", "last_visit", "last_error")}),
    )

    def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
        """Let those name people for this machine itself who may send jobs there themselves."""
        locked = obj and why_not_use_keys_of(request.user, obj)
        return [
            (
                name,
                {**about, "description": locked} if locked and "host" in about["fields"] else about,
            )
            for name, about in super().get_fieldsets(request, obj)
            if name != SENDERS or may_run_here(request.user)
        ]

    def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
        """Have the next visit come at once: what kept it away may have been changed."""
        super().save_related(request, form, formsets, change)
        Cluster.objects.filter(pk=form.instance.pk).update(retry_at=None)

    def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
        locked = KEYED if obj and why_not_use_keys_of(request.user, obj) else ()
        return (*super().get_readonly_fields(request, obj), *locked)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        return _relabel(super().formfield_for_dbfield(db_field, request, **kwargs), db_field)

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if field and db_field.name == "jump_host" and (own := self._row(request).pk):
            field.queryset = field.queryset.exclude(pk=own)
        return field

    @admin.display(description="Outcome of the last visit")
    def last_visit(self, cluster: Cluster) -> str:
        if cluster.waits_for_connections:
            return "limit of connections"
        return cluster.trouble or ("reached" if cluster.last_seen_at else "none yet")

    @admin.display(description="Pinned fingerprint")
    def pinned(self, cluster: Cluster) -> str:
        return fingerprint_public_key(cluster.host_key) if cluster.host_key else "none yet"
