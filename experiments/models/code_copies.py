"""Code of workloads: archives that were sent to this site, and its copies on clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.fields.json import KT

from experiments.models.catalogue import Workload
from experiments.models.cluster import Cluster
from experiments.models.images import is_digest
from experiments.models.visibility import compile_once
from runners.code_copies import ARCHIVE, COMMIT, CodeSource

if TYPE_CHECKING:
    from experiments.models.user import User

is_commit = RegexValidator(r"^[0-9a-f]{40}$", "A commit is 40 hexadecimal digits.")


class CodeArchive(models.Model):
    """An archive of code, known by its sha256; its bytes are in the image store.

    What is in it was read when it was sent, so that each cluster's copy can be compared with it.
    """

    sha256 = models.CharField(max_length=64, primary_key=True)
    name = models.CharField(max_length=200, help_text="Of the file, when it was first sent.")
    size_bytes = models.BigIntegerField()
    digest = models.CharField(max_length=71, validators=[is_digest])
    files = models.PositiveIntegerField()
    unpacked_bytes = models.BigIntegerField()
    kept_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "sha256"]

    def __str__(self) -> str:
        return self.name


def filter_named_by(workloads: models.QuerySet[Workload]) -> models.Q:
    """Return the rule for copies of the code that one of `workloads` names."""
    commits, archives = (
        workloads.exclude(**{f"parameters__{name}": ""})
        .annotate(code_key=KT(f"parameters__{name}"))
        .filter(code_key__isnull=False)
        .values("code_key")
        for name in (COMMIT, ARCHIVE)
    )
    return models.Q(commit__in=commits) | models.Q(archive__in=archives)


class CodeCopyQuerySet(models.QuerySet["CodeCopy"]):
    """Copies of code, and which of them a person may see."""

    @compile_once
    def visible_to(self, user: User) -> CodeCopyQuerySet:
        """Return one's own, and those of workloads that `user` sees, on clusters that they see.

        A workload of their own opens only what lies on clusters that they may use: anybody can name
        a commit. Site administrators see all, also what no workload names any more.
        """
        if user.is_superuser:
            return self
        visible = Workload.objects.visible_to(user)
        usable = models.Q(cluster__in=Cluster.objects.usable_by(user).values("pk"))
        shown = filter_named_by(visible.exclude(owner=user)) | (filter_named_by(visible) & usable)
        clusters = Cluster.objects.visible_to(user).values("pk")
        return self.filter(models.Q(owner=user) | shown, cluster__in=clusters)

    def unnamed(self) -> CodeCopyQuerySet:
        """Return the copies of code that no workload names any more."""
        return self.exclude(filter_named_by(Workload.objects.all()))

    def of_source(self, source: CodeSource) -> CodeCopyQuerySet:
        """Return the copies of one commit, from whatever address, or of one archive."""
        if source.commit:
            return self.filter(commit=source.commit)
        return self.filter(archive=source.archive)


class CodeCopy(models.Model):
    """Code on one cluster: an archive, unpacked, or a commit of a repository, fetched.

    The digest is that of its files: names, contents, links and rights to execute.
    """

    class State(models.TextChoices):
        STAGING = "staging", "staging"
        READY = "ready", "ready"
        MISSING = "missing", "missing"
        CHANGED = "changed", "changed"
        FAILED = "failed", "failed"
        REMOVING = "removing", "removing"

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="code_copies")
    archive = models.ForeignKey(
        CodeArchive, null=True, blank=True, on_delete=models.PROTECT, related_name="copies"
    )
    commit = models.CharField(max_length=40, blank=True, validators=[is_commit])
    repository = models.CharField(
        max_length=300, blank=True, help_text="The address that the commit was fetched from."
    )
    digest = models.CharField(max_length=71, blank=True, validators=[is_digest])
    files = models.PositiveIntegerField(null=True, blank=True)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    left_out = models.JSONField(
        default=dict, blank=True, help_text="Submodules and files of Git LFS, which stayed away."
    )
    paths = models.JSONField(
        null=True,
        blank=True,
        help_text="Its files, links with a / behind; empty where they are too many to be kept.",
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.STAGING)
    message = models.TextField(blank=True, help_text="Why it is not ready.")
    read_at = models.DateTimeField(
        null=True, blank=True, help_text="When all files were last read."
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="code_copies"
    )

    objects = CodeCopyQuerySet.as_manager()

    class Meta:
        ordering = ["cluster", "pk"]
        verbose_name_plural = "code copies"
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "commit"],
                condition=~models.Q(commit=""),
                name="one_code_copy_a_commit",
            ),
            models.UniqueConstraint(
                fields=["cluster", "archive"],
                condition=models.Q(archive__isnull=False),
                name="one_code_copy_an_archive",
            ),
            models.CheckConstraint(
                condition=models.Q(commit="", archive__isnull=False)
                | (~models.Q(commit="") & models.Q(archive__isnull=True)),
                name="code_is_a_commit_or_an_archive",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source.label} on {self.cluster}"

    @property
    def source(self) -> CodeSource:
        """Return where the code comes from."""
        return CodeSource(
            archive=self.archive_id or "", repository=self.repository, commit=self.commit
        )

    @property
    def path(self) -> str:
        """Return the folder of its files on the cluster."""
        name = f"git-{self.commit}" if self.commit else f"archive-{self.archive_id}"
        return f"{self.cluster.work_directory.rstrip('/')}/code/{name}"
