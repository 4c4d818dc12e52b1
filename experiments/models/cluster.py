"""Where jobs run: clusters, and what starts containers on them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.expressions import RawSQL
from django.utils import timezone
from django.utils.functional import cached_property

from experiments.models.cluster_choices import (
    BY_HAND,
    LOCAL_TRANSPORT,
    is_host,
    is_work_directory,
    runtime_choices,
    scheduler_choices,
    transport_choices,
)
from experiments.models.credential import Credential
from experiments.models.intervals import IDLE_SECONDS, compute_floor, compute_interval
from experiments.models.visibility import (
    SharedInside,
    SharedQuerySet,
    compile_once,
)
from runners.errors import Kind

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from experiments.models.pause import Pause
    from experiments.models.user import User


CONNECTION_LIMIT: Kind = "connection limit"
"""The kind of a visit's end where the cluster's own limit allowed no connection."""
FAILURE_SHOWN = timedelta(days=1)
GATE_ASKED_AGAIN = timedelta(minutes=10)
"""So long after a forced command refused a command it is asked by the former one alone."""
LONGEST_BACK_OFF = timedelta(minutes=5)
"""After failed visits the next one is as soon as that, however many have failed."""

# UNION, not UNION ALL: a machine that was reached already is not gone on from, so circles end.
JUMP_HOSTS = """
WITH RECURSIVE hop(id, jump_host_id) AS (
    SELECT id, jump_host_id FROM experiments_cluster WHERE id = %s
    UNION
    SELECT further.id, further.jump_host_id
    FROM experiments_cluster further JOIN hop ON further.id = hop.jump_host_id
)
SELECT id FROM hop
"""
"""The keys of a jump host and of all those before it."""
MOST_POLL_SECONDS = 24 * 3600
MOST_RETENTION_DAYS = 3650


class ClusterQuerySet(SharedQuerySet["Cluster"]):
    """Clusters, and which of them a person may see or use."""

    @compile_once
    def visible_to(self, user: User | AnonymousUser) -> ClusterQuerySet:
        """Leave out machines that are only known from logs that others have imported."""
        return self.filter(self.shown_to_or_recorded(user, recorded=models.Q(recorded=True)))

    @compile_once
    def usable_by(self, user: User) -> ClusterQuerySet:
        """Return the enabled clusters on which `user` may use the key, and so send jobs.

        On Tare's own machine no key is needed: there `user` has to be named. Where Tare has no
        connection, whoever may see the cluster may carry jobs there. Any other cluster without a
        key is for nobody but site administrators.
        """
        visible = self.visible_to(user).filter(enabled=True)
        if user.is_superuser:
            return visible
        keys = Credential.objects.usable_by(user).values("pk")
        named = Cluster.users.through._default_manager.filter(user=user).values("cluster_id")
        away = models.Q(credential__in=keys) & ~models.Q(transport=LOCAL_TRANSPORT)
        carried = models.Q(transport=BY_HAND)
        return visible.filter(away | carried | models.Q(transport=LOCAL_TRANSPORT, pk__in=named))


class Cluster(SharedInside):
    """A machine with a login node; the tick visits it under a lease.

    A *recorded* one is only known from imported logs: nobody logs in, nothing is launched there.
    """

    name = models.CharField(max_length=100, unique=True)
    transport = models.CharField(max_length=20, choices=transport_choices, default="ssh")
    host = models.CharField(max_length=255, blank=True, validators=[is_host])
    port = models.PositiveIntegerField(default=22)
    host_key = models.TextField(
        blank=True,
        help_text="The login node's public host key as one line (ssh-ed25519 AAAA...). "
        "Tare talks to a host with this key only.",
    )
    jump_host = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="behind"
    )
    credential = models.ForeignKey(
        Credential, null=True, blank=True, on_delete=models.PROTECT, related_name="clusters"
    )
    scheduler = models.CharField(max_length=20, choices=scheduler_choices, default="slurm")
    work_directory = models.CharField(
        max_length=500,
        validators=[is_work_directory],
        help_text="Absolute; on a file system that the compute nodes share.",
    )
    setup_lines = models.TextField(
        blank=True, help_text="Shell lines that begin every job here, such as `module load`."
    )
    max_live_jobs = models.PositiveIntegerField(
        default=16,
        validators=[MinValueValidator(1)],
        help_text="How many of Tare's jobs may be queued or running at once.",
    )
    poll_seconds = models.FloatField(
        default=5,
        # A time that no calendar holds would break every page with this cluster, and the clock.
        validators=[MinValueValidator(1), MaxValueValidator(MOST_POLL_SECONDS)],
        help_text="Seconds. Tare asks the scheduler so often while jobs are live: up to four times "
        "as often while they change, and once a minute where none is live.",
    )
    max_submissions_per_minute = models.PositiveIntegerField(
        "submissions a minute",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="How many jobs Tare submits at most in any minute. Empty: no limit.",
    )
    max_connections_per_hour = models.PositiveIntegerField(
        "connections an hour",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="How often Tare logs in at most in any hour, for checks and transfers too. "
        "Empty: no limit.",
    )
    max_gpu_hours_per_month = models.PositiveIntegerField(
        "GPU-hours a month",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="What Tare's jobs may use at most in a calendar month (UTC). A job is sent while "
        "its GPUs for its whole time limit are left. Empty: no limit.",
    )
    retention_days = models.PositiveIntegerField(
        "days that job directories stay",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_RETENTION_DAYS)],
        help_text="Tare removes the directories of jobs so many days after their files were "
        "collected and verified. Empty: it removes none.",
    )
    removes_uncopied = models.BooleanField(
        "remove files that were never copied, too",
        default=False,
        help_text="Such as checkpoints: large files of runs lie on the cluster alone. Otherwise "
        "the directories that hold such files stay.",
    )
    removal_checked_at = models.DateTimeField(
        null=True, editable=False, help_text="When directories to be removed were last looked for."
    )
    enabled = models.BooleanField(default=True)
    recorded = models.BooleanField(default=False, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="clusters"
    )
    users = models.ManyToManyField(
        settings.AUTH_USER_MODEL,
        blank=True,
        related_name="usable_clusters",
        verbose_name="who may send jobs",
        help_text="To Tare's own machine only, beside site administrators: what they send runs as "
        "Tare itself and can read its keys. Elsewhere the credential says who may.",
    )

    preparing = models.CharField(
        max_length=300, blank=True, editable=False, help_text="What is being set up there."
    )
    preparing_percent = models.PositiveSmallIntegerField(null=True, editable=False)

    lease_token = models.CharField(max_length=32, blank=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    visitor = models.CharField(
        max_length=32,
        blank=True,
        editable=False,
        help_text="The process that visited last, and may have a connection open.",
    )
    last_tick_at = models.DateTimeField(null=True, editable=False)
    last_tick_seconds = models.FloatField(
        null=True, editable=False, help_text="How long the last visit took."
    )
    last_interval_seconds = models.FloatField(
        null=True, editable=False, help_text="From the beginning of the visit before it to its own."
    )
    changed_at = models.DateTimeField(
        null=True, editable=False, help_text="When jobs there last changed their states."
    )
    wanted_at = models.DateTimeField(
        null=True, editable=False, help_text="When a visit was asked for that could not begin."
    )
    last_seen_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    last_error_kind = models.CharField(max_length=30, blank=True, editable=False)
    older_gate_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When the forced command last refused a command that older scripts do not know.",
    )
    own_failure = models.TextField(
        blank=True, editable=False, help_text="What Tare could not handle there, of one job."
    )
    own_failure_details = models.TextField(
        blank=True, editable=False, help_text="More of it, for administrators."
    )
    own_failed_at = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)

    objects = ClusterQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(recorded=False)
                | models.Q(enabled=False, host="", credential=None),
                name="nobody_logs_in_where_logs_come_from",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def list_hops(self) -> list[Cluster]:
        """Return the machines to log in to, from the first jump host to this one, each once.

        One statement reads the jump hosts and their credentials, however many there are; where
        they lead in a circle each is read once.
        """
        if self.jump_host_id is None:
            return [self]
        keys = RawSQL(JUMP_HOSTS, [self.jump_host_id])  # noqa: S611
        rows = Cluster.objects.filter(pk__in=keys).select_related("credential").in_bulk()
        hops, passed = [self], {self.pk}
        key: int | None = self.jump_host_id
        while key is not None and key in rows and key not in passed:
            hops[0].jump_host = rows[key]
            hops.insert(0, rows[key])
            passed.add(key)
            key = rows[key].jump_host_id
        return hops

    def usable_by(self, user: User) -> bool:
        """Return whether `user` may send jobs here."""
        return Cluster.objects.usable_by(user).filter(pk=self.pk).exists()

    @property
    def is_by_hand(self) -> bool:
        """Return whether Tare has no connection to it: people carry its jobs and results."""
        return self.transport == BY_HAND

    @property
    def images_folder(self) -> str:
        """Return the folder on the cluster in which Tare keeps images."""
        return f"{self.work_directory.rstrip('/')}/images"

    @property
    def executables(self) -> dict[str, str]:
        """Return the runtimes' executables by kind of runtime; of two of a kind the first."""
        return {row.kind: row.executable for row in self.runtimes.order_by("-pk")}

    @property
    def has_older_gate(self) -> bool:
        """Return whether the forced command was found to be older so lately that it still is."""
        at = self.older_gate_at
        return at is not None and timezone.now() - at < GATE_ASKED_AGAIN

    @property
    def recent_failure(self) -> str:
        """Return the last failure that did not end a visit, for a day; "" if there is none."""
        return self.own_failure if self._has_failed_lately else ""

    @property
    def recent_details(self) -> str:
        """Return the details of the last failure for administrators, for a day."""
        return self.own_failure_details if self._has_failed_lately else ""

    @property
    def _has_failed_lately(self) -> bool:
        at = self.own_failed_at
        return at is not None and timezone.now() - at < FAILURE_SHOWN

    def due_at(self, now: datetime) -> datetime | None:
        """Return when it may be visited at the earliest, after a pause or back-off; None: at once.

        The clock asks for a visit later than that while nothing changes: `interval_seconds`. `now`
        is PostgreSQL's, as all that is compared with it.
        """
        floor = timedelta(seconds=self.floor_seconds)
        times = []
        # Where the clock was turned back, what was written before lies far ahead: it holds nothing.
        if self.last_tick_at and self.last_tick_at <= now + floor:
            times.append(self.last_tick_at + floor)
        if self.retry_at and self.retry_at <= now + LONGEST_BACK_OFF:
            times.append(self.retry_at)
        return max(times, default=None)

    @property
    def floor_seconds(self) -> float:
        """Return how far apart visits begin at least, whatever happens."""
        return compute_floor(self.poll_seconds, self.last_tick_seconds)

    @property
    def interval_seconds(self) -> float:
        """Return how far apart the clock has visits begin while jobs are live or wait."""
        return compute_interval(
            self.poll_seconds,
            took=self.last_tick_seconds,
            last_visit=self.last_tick_at,
            changed_at=self.changed_at,
        )

    @property
    def idle_seconds(self) -> float:
        """Return how far apart visits begin where no job is live or waits.

        Each opens a connection: together they take at most half of those that are allowed.
        """
        most = self.max_connections_per_hour if self.transport != LOCAL_TRANSPORT else None
        return max(self.poll_seconds, IDLE_SECONDS, 2 * 3600 / most if most else 0)

    @property
    def waits_for_connections(self) -> bool:
        """Return whether its own limit has allowed no connection to the last visit."""
        return self.last_error_kind == CONNECTION_LIMIT

    @property
    def trouble(self) -> str:
        """Return what is wrong with the last visit in a word or two, "" if nothing is."""
        if not self.last_error or self.waits_for_connections:
            return ""
        # Of a cluster: its scheduler is away, or what it prints makes no sense.
        kind = self.last_error_kind
        return "no usable answer" if kind == "busy" else kind or "not reachable"

    @property
    def contact(self) -> Literal["never", "failed", "recent", "old"]:
        """Return whether the cluster was reached lately, by the outcome and age of its visits."""
        if self.last_error and not self.waits_for_connections:
            return "failed"
        if self.last_seen_at is None:
            return "never"
        # Two visits, the second one of which may be under way.
        recent = timedelta(seconds=2 * self.idle_seconds)
        return "recent" if timezone.now() - self.last_seen_at <= recent else "old"

    @cached_property
    def shared_pauses(self) -> list[Pause]:
        """Return the pauses that concern more than one experiment, as they were when this was asked
        first; prefetch `pauses__partition`.
        """
        return [pause for pause in self.pauses.all() if pause.experiment_id is None]


class Runtime(models.Model):
    """What starts containers on one cluster."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="runtimes")
    kind = models.CharField(max_length=20, choices=runtime_choices)
    executable = models.CharField(max_length=500, help_text="A name on PATH or a path.")
    version = models.CharField(max_length=100, blank=True)
    options = models.JSONField(default=list, blank=True, help_text='Such as ["--nv"].')
    setup_lines = models.TextField(blank=True)

    class Meta:
        ordering = ["cluster", "kind"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "executable"], name="runtime_once_a_cluster"
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.version} on {self.cluster}".replace("  ", " ")
