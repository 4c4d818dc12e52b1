"""Work on a cluster that is no measurement: staging an image, verifying it, building one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import IntegrityError, models, transaction

from experiments.models.catalogue import Environment
from experiments.models.cluster import Cluster
from experiments.models.code_copies import CodeCopy
from experiments.models.data_sets import DataCopy, DataSet
from experiments.models.images import Image, ImageImport, StagedImage
from experiments.models.partition import Partition
from experiments.models.states import JOB_FINAL
from experiments.models.submission import Submission
from experiments.models.visibility import compile_once

if TYPE_CHECKING:
    from experiments.models.user import User


class OperationQuerySet(models.QuerySet["Operation"]):
    """Operations, and which of them a person may see."""

    @compile_once
    def visible_to(self, user: User) -> OperationQuerySet:
        """Return one's own, and those on clusters, images and environments that `user` sees."""
        if user.is_superuser:
            return self
        clusters = Cluster.objects.visible_to(user).values("pk")
        images = Image.objects.visible_to(user).values("pk")
        environments = Environment.objects.visible_to(user).values("pk")
        of_image = (
            models.Q(image__in=images)
            | models.Q(staged_image__image__in=images)
            | models.Q(image_import__image__in=images)
        )
        of_environment = models.Q(environment__in=environments)
        of_none = models.Q(image=None, staged_image=None, image_import=None)
        data_sets = DataSet.objects.visible_to(user).values("pk")
        seen = (of_image & models.Q(environment=None)) | (of_environment & (of_image | of_none))
        seen |= models.Q(kind=Operation.Kind.CLEAN_UP) | models.Q(data_copy__data_set__in=data_sets)
        code = CodeCopy.objects.visible_to(user).values("pk")
        seen |= models.Q(code_copy__in=code)
        return self.filter(models.Q(owner=user) | (models.Q(cluster__in=clusters) & seen))

    def create_alone(self, **columns: Any) -> Operation | None:
        """Return a new operation; None where another one works on the same thing already.

        What is worked on by one operation at a time, the constraints of the table say.
        """
        operation = Operation(**columns)
        try:
            with transaction.atomic():
                operation.save()
        except IntegrityError:
            return None
        return operation


class Operation(Submission):
    """Steps that a worker has the cluster do, as one job of its scheduler.

    What it works on is named by its foreign keys; which ones are set follows from its kind.
    """

    class Kind(models.TextChoices):
        STAGE = "stage", "stage"
        VERIFY = "verify", "verify"
        UNSTAGE = "unstage", "remove"
        BUILD = "build", "build"
        MATCH = "match", "make the matching environment"
        TREE = "tree", "make the environment of the files of"
        INSPECT = "inspect", "inspect"
        CLEAN_UP = "clean_up", "remove job directories of"
        READ_DATA = "read_data", "read all files of"
        CHECK_DATA = "check_data", "check"
        FETCH_CODE = "fetch_code", "fetch"
        CHECK_CODE = "check_code", "check"
        DROP_CODE = "drop_code", "remove"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    partition = models.ForeignKey(
        Partition, null=True, blank=True, on_delete=models.SET_NULL, related_name="operations"
    )
    image = models.ForeignKey(
        Image, null=True, blank=True, on_delete=models.CASCADE, related_name="operations"
    )
    staged_image = models.ForeignKey(
        StagedImage, null=True, blank=True, on_delete=models.CASCADE, related_name="operations"
    )
    environment = models.ForeignKey(
        Environment, null=True, blank=True, on_delete=models.CASCADE, related_name="operations"
    )
    image_import = models.ForeignKey(
        ImageImport, null=True, blank=True, on_delete=models.CASCADE, related_name="operations"
    )
    data_copy = models.ForeignKey(
        DataCopy, null=True, blank=True, on_delete=models.CASCADE, related_name="operations"
    )
    code_copy = models.ForeignKey(
        CodeCopy, null=True, blank=True, on_delete=models.SET_NULL, related_name="operations"
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="operations"
    )
    requested_at = models.DateTimeField(auto_now_add=True)
    doing = models.CharField(max_length=300, blank=True, help_text="The step that is under way.")
    step = models.PositiveSmallIntegerField(default=0)
    steps = models.PositiveSmallIntegerField(default=0)
    output_tail = models.TextField(blank=True)
    result = models.JSONField(default=dict, blank=True)

    objects = OperationQuerySet.as_manager()

    class Meta:
        ordering = ["-requested_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["staged_image"],
                condition=~models.Q(state__in=JOB_FINAL),
                name="one_operation_at_a_time",
            ),
            models.UniqueConstraint(
                fields=["data_copy"],
                condition=~models.Q(state__in=JOB_FINAL),
                name="one_operation_a_data_copy",
            ),
            models.UniqueConstraint(
                fields=["code_copy"],
                condition=~models.Q(state__in=JOB_FINAL),
                name="one_operation_a_code_copy",
            ),
            models.UniqueConstraint(
                fields=["cluster"],
                condition=models.Q(kind="clean_up") & ~models.Q(state__in=JOB_FINAL),
                name="one_clean_up_a_cluster",
            ),
        ]
        indexes = [
            models.Index(
                fields=["cluster", "state"],
                condition=~models.Q(state__in=JOB_FINAL),
                name="operation_alive",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.subject}"

    @property
    def subject(self) -> object:
        """Return the image, environment, import or data that it works on, or the cluster's disk."""
        if self.kind == self.Kind.CLEAN_UP:
            return self.cluster
        named = self.staged_image or self.environment or self.image_import or self.image
        return named or self.data_copy or self.code_copy or "code that is gone"

    def asked_partition(self) -> Partition | None:
        """Return where it runs: the partition that it names, else the one with most time."""
        offered = self.cluster.partitions.filter(enabled=True)
        return self.partition or offered.order_by("-time_limit_minutes").first()

    def image_of(self) -> Image | None:
        """Return the image that it is about, if it is about one."""
        if self.staged_image:
            return self.staged_image.image
        return self.image or (self.image_import.image if self.image_import else None)

    @property
    def percent(self) -> int | None:
        """Return the percentage of its steps that have ended; None before the first."""
        return 100 * (self.step - 1) // self.steps if self.step and self.steps else None
