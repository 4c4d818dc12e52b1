"""Images: what is in the catalogue, where it lies, and what is on its way there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.urls import reverse

from experiments.encryption import SecretField
from experiments.models.cluster import Cluster
from experiments.models.visibility import SharedInside, SharedQuerySet
from runners.runtimes import RUNTIMES

if TYPE_CHECKING:
    from experiments.models.user import User

# An image's own bytes, as they came: what every other form on a cluster is made from.
ARCHIVE = "archive"

# A worker that fetches or sends writes at least this often how far it is; else it has died.
SILENCE = timedelta(seconds=60)


def format_choices() -> list[tuple[str, str]]:
    """Return all forms in which an image can be staged, as choices."""
    formats = {form for runtime in RUNTIMES.values() for form in runtime.formats} | {ARCHIVE}
    return [(form, form) for form in sorted(formats)]


# As registries name them; which of them an index is asked for.
ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x", "riscv64")
DEFAULT_ARCHITECTURE = ARCHITECTURES[0]


class SignatureState(models.TextChoices):
    """What was found about an image's signatures when it was imported."""

    UNCHECKED = "unchecked", "not checked"
    NONE = "none", "none found"
    MISMATCH = "mismatch", "signature does not fit"
    SIGNED = "signed", "signed"


is_digest = RegexValidator(r"^sha256:[0-9a-f]{64}$", "A digest is sha256: and 64 hex digits.")


class Image(SharedInside):
    """A container image, known by its digest. A tag is only a label.

    The digest is that of an OCI manifest; of a SIF file or a root file system's tarball, which
    have none, the file's own sha256.
    """

    class Kind(models.TextChoices):
        OCI = "oci", "OCI image"
        SIF = "sif", "SIF file"
        ROOTFS = "rootfs", "root file system"

    reference = models.CharField(max_length=300)
    digest = models.CharField(max_length=71, unique=True, validators=[is_digest])
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.OCI)
    content_sha256 = models.CharField(
        max_length=64, blank=True, help_text="Of the file that Tare keeps; empty if it keeps none."
    )
    tree = models.CharField(
        max_length=71, blank=True, help_text="The hash of its files: names, modes and contents."
    )
    recipe = models.TextField(blank=True, help_text="How it was made, in full.")
    operating_system = models.CharField(max_length=100, blank=True)
    python_version = models.CharField(max_length=30, blank=True)
    framework = models.CharField(max_length=100, blank=True)
    cuda_version = models.CharField("CUDA version", max_length=30, blank=True)
    cudnn_version = models.CharField("cuDNN version", max_length=30, blank=True)
    mpi = models.CharField("MPI", max_length=60, blank=True)
    packages = models.JSONField(default=dict, blank=True, help_text="Package to version.")
    facts = models.JSONField(default=dict, blank=True, help_text="All that was read inside.")
    labels = models.JSONField(default=dict, blank=True)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    architecture = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="As registries name it: amd64, arm64.",
    )
    signature_state = models.CharField(
        max_length=10,
        choices=SignatureState.choices,
        default=SignatureState.UNCHECKED,
        db_default=SignatureState.UNCHECKED,
        editable=False,
    )
    signature_note = models.TextField(blank=True, default="", db_default="", editable=False)
    signature_key = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Its name then.",
    )
    signature_checked_at = models.DateTimeField(null=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="images"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SharedQuerySet["Image"].as_manager()

    class Meta:
        ordering = ["reference"]

    def __str__(self) -> str:
        return self.reference

    def get_absolute_url(self) -> str:
        return reverse("image", args=[self.pk])

    @property
    def frameworks(self) -> list[str]:
        """Return the image's frameworks, each with its version."""
        return [framework for framework in self.framework.split(", ") if framework]

    @property
    def short_digest(self) -> str:
        return self.digest.removeprefix("sha256:")[:12]

    def archive_on(self, cluster: Cluster) -> StagedImage | None:
        """Return the image's archive on a cluster, sent or being sent."""
        return self.staged.filter(cluster=cluster, format=ARCHIVE).first()


class StagedImageQuerySet(models.QuerySet["StagedImage"]):
    """Staged images, and which of them wait to be sent."""

    def to_be_sent(self) -> StagedImageQuerySet:
        """Return the archives that must be sent to a cluster."""
        return self.filter(format=ARCHIVE, state=StagedImage.State.STAGING)


class StagedImage(models.Model):
    """An image in the form that one cluster's runtime starts, or its archive there."""

    class State(models.TextChoices):
        STAGING = "staging", "staging"
        READY = "ready", "ready"
        FAILED = "failed", "failed"
        REMOVING = "removing", "removing"
        REMOVED = "removed", "removed"

    image = models.ForeignKey(Image, on_delete=models.PROTECT, related_name="staged")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="staged_images")
    format = models.CharField(max_length=20, choices=format_choices)
    mode = models.CharField(
        max_length=10,
        blank=True,
        help_text="Of a form that belongs to one mode, such as udocker's.",
    )
    path = models.CharField(
        max_length=500, help_text="On the cluster; for udocker the container's name."
    )
    sha256 = models.CharField(max_length=64, blank=True)
    tree = models.CharField(max_length=71, blank=True, help_text="The hash of the files inside.")
    changed_tree = models.CharField(
        max_length=71,
        blank=True,
        db_default="",
        editable=False,
        help_text="The hash after the runtime changed files, for its mode or to add the driver's; "
        "tree: before.",
    )
    driver_files = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        editable=False,
        help_text="Paths inside of the files of the GPU's driver, copied when it was staged.",
    )
    size_bytes = models.BigIntegerField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.READY)
    message = models.TextField(blank=True)
    made_here = models.BooleanField(
        default=False, help_text="Made by Tare, which may remove it again."
    )
    verified_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Of an archive that is being sent: how far, and when a worker last wrote so.
    sent_bytes = models.BigIntegerField(null=True, editable=False)
    sending_at = models.DateTimeField(null=True, editable=False)

    objects = StagedImageQuerySet.as_manager()

    class Meta:
        ordering = ["image", "cluster", "format", "mode"]
        constraints = [
            models.UniqueConstraint(fields=["image", "cluster", "path"], name="staged_once_a_path")
        ]

    def __str__(self) -> str:
        return f"{self.image} as {self.form} on {self.cluster}"

    @property
    def form(self) -> str:
        """Return the format, and the mode if the form belongs to one."""
        return f"{self.format} {self.mode}".strip()

    @property
    def sent_percent(self) -> int | None:
        """Return how much of an archive has been sent; None if it is not being sent."""
        if self.sent_bytes is None or not self.size_bytes:
            return None
        return min(100, 100 * self.sent_bytes // self.size_bytes)


class ImageImportQuerySet(models.QuerySet["ImageImport"]):
    """Image imports, and which of them a person's list shows."""

    def listed_for(self, user: User) -> ImageImportQuerySet:
        """Return what `user` asked for and has not put aside yet; site administrators see all."""
        rows = self.filter(dismissed_at=None)
        return rows if user.is_superuser else rows.filter(owner=user)


class ImageImport(models.Model):
    """An image on its way into the catalogue: what a person asked to add, and what came of it."""

    class Kind(models.TextChoices):
        REGISTRY = "registry", "from a registry"
        UPLOAD = "upload", "an uploaded file"
        CLUSTER = "cluster", "a file on a cluster"
        RECIPE = "recipe", "a recipe"
        DOCKERFILE = "dockerfile", "a Dockerfile"
        DEFINITION = "definition", "a definition file"

    BUILT = (Kind.RECIPE, Kind.DOCKERFILE, Kind.DEFINITION)
    """Those that an operation on a cluster makes."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        UNDER_WAY = "under way", "under way"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    reference = models.CharField(
        max_length=500, help_text="What was asked for: a reference, a file's name, a path."
    )
    title = models.CharField(max_length=300, blank=True, help_text="What to call the image.")
    incoming = models.CharField(
        max_length=100, blank=True, help_text="The uploaded file's name in the image store."
    )
    cluster = models.ForeignKey(
        Cluster, null=True, blank=True, on_delete=models.PROTECT, related_name="image_imports"
    )
    base = models.ForeignKey(
        Image, null=True, blank=True, on_delete=models.PROTECT, related_name="recipes"
    )
    lock = models.TextField(blank=True, help_text="A recipe's lock file.")
    packages = models.TextField(
        blank=True, default="", db_default="", help_text="A recipe's Debian packages, one a line."
    )
    conda_file = models.TextField(
        blank=True, default="", db_default="", help_text="A recipe's environment file of conda."
    )
    build_file = models.TextField(
        blank=True, default="", db_default="", help_text="The Dockerfile or definition file."
    )
    sent_files = models.JSONField(
        blank=True,
        default=dict,
        db_default={},
        help_text="Files that are sent along: the sha256 of each by its name.",
    )
    limit_minutes = models.PositiveSmallIntegerField(
        null=True, help_text="After how long a build is ended."
    )
    architecture = models.CharField(
        max_length=20,
        choices=[(name, name) for name in ARCHITECTURES],
        default=DEFAULT_ARCHITECTURE,
        db_default=DEFAULT_ARCHITECTURE,
        help_text="Which image is taken of those that a reference or an archive holds.",
    )
    user_name = models.CharField(max_length=100, blank=True, help_text="At the registry.")
    password = SecretField(blank=True, default="", help_text="Kept until the image is here.")
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    doing = models.CharField(max_length=200, blank=True)
    done_bytes = models.BigIntegerField(null=True)
    total_bytes = models.BigIntegerField(null=True)
    seen_at = models.DateTimeField(null=True, help_text="When a worker last wrote here.")
    problem = models.TextField(blank=True)
    image = models.ForeignKey(
        Image, null=True, blank=True, on_delete=models.SET_NULL, related_name="image_imports"
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="image_imports"
    )
    requested_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    dismissed_at = models.DateTimeField(
        null=True, editable=False, help_text="When its owner had read what came of it."
    )

    objects = ImageImportQuerySet.as_manager()

    class Meta:
        ordering = ["-requested_at", "-pk"]

    def __str__(self) -> str:
        return self.title or self.reference

    @property
    def is_built(self) -> bool:
        """Return whether an operation on a cluster makes the image."""
        return self.kind in self.BUILT

    @property
    def is_over(self) -> bool:
        return self.state in (self.State.DONE, self.State.FAILED)

    @property
    def percent(self) -> int | None:
        if self.done_bytes is None or not self.total_bytes:
            return None
        return min(100, 100 * self.done_bytes // self.total_bytes)
