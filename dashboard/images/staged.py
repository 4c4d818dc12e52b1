"""The staged forms of one image, as its page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import (
    Case,
    Prefetch,
    Q,
    TextField,
    Value,
    When,
    prefetch_related_objects,
)

from dashboard.images.inventory_page import Same, compare_trees
from experiments.access import permissions
from experiments.access.viewing import may_view
from experiments.clusters.preflights import prefetch_ended_reports
from experiments.images import staging
from experiments.images.architectures import explain_mismatch, read_architecture
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Image,
    Operation,
    StagedImage,
    User,
)
from experiments.models.images import ARCHIVE

HISTORY = 20
CHANGING = (StagedImage.State.STAGING, StagedImage.State.REMOVING)
LARGE = ("script", "output_tail", "result")


@dataclass(frozen=True)
class Form:
    """A staged form with its users and with what its reader may do with it."""

    row: StagedImage
    same: Same
    environments: list[Environment]
    """Those that the reader sees."""
    in_use: list[str]
    """Names of the environments by which an experiment that has not ended uses it."""
    may_use: bool
    may_remove: bool
    wrong_architecture: str
    """Why the nodes of its cluster cannot run it; empty if they can, or nobody knows."""

    @property
    def is_alive(self) -> bool:
        return self.row.state in CHANGING

    @property
    def is_archive(self) -> bool:
        return self.row.format == ARCHIVE

    @property
    def is_settled(self) -> bool:
        return self.row.state in (StagedImage.State.READY, StagedImage.State.FAILED)


def list_forms(image: Image, reader: User) -> list[Form]:
    """Return the forms on clusters that `reader` sees, without those that are gone."""
    rows = image.staged.exclude(state=StagedImage.State.REMOVED).select_related("cluster")
    staged_forms = [row for row in rows if may_view(reader, row.cluster)]
    if not staged_forms:
        return []
    # What a form was made from comes after the forms.
    staged_forms.sort(
        key=lambda row: (row.cluster.name, row.format == ARCHIVE, row.format, row.mode)
    )
    named = Environment.objects.originals().visible_to(reader).only("name", "staged_image_id")
    prefetch_related_objects(staged_forms, Prefetch("environments", named))
    if read_architecture(image):
        clusters = [row.cluster for row in staged_forms]
        prefetch_related_objects(clusters, prefetch_ended_reports())
    usable, removable = _find_rights(image, staged_forms, reader)
    alive = Experiment.objects.alive().values("pk")
    in_use: dict[int | None, list[str]] = {}
    used = Environment.objects.filter(
        staged_image__in=staged_forms, experiments__in=alive
    ).distinct()
    for key, name in used.order_by("name").values_list("staged_image_id", "name"):
        in_use.setdefault(key, []).append(name)
    return [
        Form(
            row=row,
            same=compare_trees(image, row),
            environments=list(row.environments.all()),
            in_use=in_use.get(row.pk, []),
            may_use=row.cluster_id in usable,
            may_remove=row.cluster_id in usable and row.pk in removable,
            wrong_architecture=explain_mismatch(image, row.cluster),
        )
        for row in staged_forms
    ]


def _find_rights(
    image: Image, staged_forms: list[StagedImage], reader: User
) -> tuple[set[int], set[int]]:
    """Return the keys of the clusters that `reader` may use, and of the forms they may remove."""
    if not permissions.may_add(reader, StagedImage):
        return set(), set()
    clusters = {row.cluster_id for row in staged_forms}
    usable = Cluster.objects.usable_by(reader).filter(pk__in=clusters)
    if image.owner_id == reader.pk:
        removable = {row.pk for row in staged_forms}
    else:
        removable = permissions.list_changeable_keys(reader, staged_forms)
    return set(usable.values_list("pk", flat=True)), removable


def prepare_history(image: Image, reader: User) -> dict[str, Any]:
    """Return what was and is being done with an image: alive, and the last that have ended.

    `cancellable` are the keys of those that `reader` may end.
    """
    about = Q(image=image) | Q(staged_image__image=image) | Q(image_import__image=image)
    rows = Operation.objects.filter(about).select_related("cluster", "staged_image", "owner")
    ended_rows = rows.filter(state__in=Operation.FINAL)[:HISTORY].values("pk")
    # Of those that have ended the output is read on their own pages.
    tail = Case(
        When(state__in=Operation.FINAL, then=Value("")),
        default="output_tail",
        output_field=TextField(),
    )
    both = rows.filter(~Q(state__in=Operation.FINAL) | Q(pk__in=ended_rows))
    alive, ended = list[Operation](), list[Operation]()
    row: Any
    for row in both.defer(*LARGE).annotate(tail=tail):
        row.output_tail = row.tail
        (ended if row.is_final else alive).append(row)
    cancellable = staging.list_cancellable_keys(alive, reader)
    for operation in (*alive, *ended):
        if operation.staged_image:
            operation.staged_image.image = image  # for its name, without another query
    return {"operations_alive": alive, "operations_ended": ended, "cancellable": cancellable}
