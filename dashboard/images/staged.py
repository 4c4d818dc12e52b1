"""The staged forms of one image, as its page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import (
    Case,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    TextField,
    Value,
    When,
    prefetch_related_objects,
)

from dashboard.images.inventory_page import Same, compare_trees
from experiments.access import permissions
from experiments.access.viewing import list_shown
from experiments.clusters.preflights import prefetch_ended_reports
from experiments.images import staging
from experiments.images.architectures import explain_mismatch, read_architecture
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Image,
    ImageImport,
    Operation,
    StagedImage,
    User,
)
from experiments.models.compiled_rows import KEY, CompiledReaderRows, CompiledRows
from experiments.models.images import ARCHIVE

HISTORY = 20
CHANGING = (StagedImage.State.STAGING, StagedImage.State.REMOVING)
SHOWN_OF_ENVIRONMENT = ("name", "staged_image", "visibility", "owner", "copy_of", "cluster")
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


def _select_forms(image: int) -> QuerySet[StagedImage]:
    rows = StagedImage.objects.filter(image=image).exclude(state=StagedImage.State.REMOVED)
    return rows.select_related("cluster").defer("cluster__host_key", "cluster__setup_lines")


def _select_environments(image: int) -> QuerySet[Environment]:
    alive = Experiment.environments.through._default_manager.filter(
        environment=OuterRef("pk"), experiment__in=Experiment.objects.alive().values("pk")
    )
    rows = Environment.objects.filter(staged_image__image=image).order_by("name")
    return rows.only(*SHOWN_OF_ENVIRONMENT).annotate(is_in_use=Exists(alive))


def _select_operations(image: int) -> QuerySet[Operation]:
    # By subqueries: joins would be planned twice, here and below.
    staged, imports = (model.objects.filter(image=image) for model in (StagedImage, ImageImport))
    about = Q(image=image) | Q(staged_image__in=staged) | Q(image_import__in=imports)
    rows = Operation.objects.filter(about).select_related("cluster", "staged_image", "owner")
    ended_rows = rows.filter(state__in=Operation.FINAL)[:HISTORY].values("pk")
    # Of those that have ended the output is read on their own pages.
    tail = Case(
        When(state__in=Operation.FINAL, then=Value("")),
        default="output_tail",
        output_field=TextField(),
    )
    both = rows.filter(~Q(state__in=Operation.FINAL) | Q(pk__in=ended_rows))
    return both.defer(*LARGE).annotate(tail=tail)


FORMS = CompiledRows(_select_forms, KEY)
ENVIRONMENTS = CompiledRows(_select_environments, KEY)
OPERATIONS = CompiledRows(_select_operations, KEY)
USABLE = CompiledReaderRows(lambda reader: Cluster.objects.usable_by(reader).only("pk"))


def list_forms(image: Image, reader: User) -> list[Form]:
    """Return the forms on clusters that `reader` sees, without those that are gone."""
    rows = FORMS.read(image.pk)
    clusters = {row.cluster_id: row.cluster for row in rows}
    seen = {cluster.pk for cluster in list_shown(reader, list(clusters.values()))}
    staged_forms = [row for row in rows if row.cluster_id in seen]
    if not staged_forms:
        return []
    # What a form was made from comes after the forms.
    staged_forms.sort(
        key=lambda row: (row.cluster.name, row.format == ARCHIVE, row.format, row.mode)
    )
    if read_architecture(image):
        prefetch_related_objects([row.cluster for row in staged_forms], prefetch_ended_reports())
    usable, removable = _find_rights(image, staged_forms, reader)
    environments: dict[int | None, list[Any]] = {}
    for environment in ENVIRONMENTS.read(image.pk):
        environments.setdefault(environment.staged_image_id, []).append(environment)
    return [
        Form(
            row=row,
            same=compare_trees(image, row),
            environments=_list_shown(environments.get(row.pk, []), row, reader),
            in_use=[other.name for other in environments.get(row.pk, []) if other.is_in_use],
            may_use=row.cluster_id in usable,
            may_remove=row.cluster_id in usable and row.pk in removable,
            wrong_architecture=explain_mismatch(image, row.cluster),
        )
        for row in staged_forms
    ]


def _list_shown(
    environments: list[Environment], form: StagedImage, reader: User
) -> list[Environment]:
    """Return those of a form's environments that `reader` sees, without A/A copies."""
    originals = [row for row in environments if row.copy_of_id is None]
    for row in originals:
        if row.cluster_id == form.cluster_id:
            row.cluster = form.cluster  # it is not read once more
    return list_shown(reader, originals)


def _find_rights(
    image: Image, staged_forms: list[StagedImage], reader: User
) -> tuple[set[int], set[int]]:
    """Return the keys of the clusters that `reader` may use, and of the forms they may remove."""
    if not permissions.may_add(reader, StagedImage):
        return set(), set()
    usable = {cluster.pk for cluster in USABLE.read(reader)}
    if image.owner_id == reader.pk:
        removable = {row.pk for row in staged_forms}
    else:
        removable = permissions.list_changeable_keys(reader, staged_forms)
    return usable, removable


def prepare_history(image: Image, reader: User) -> dict[str, Any]:
    """Return what was and is being done with an image: alive, and the last that have ended.

    `cancellable` are the keys of those that `reader` may end.
    """
    alive, ended = list[Operation](), list[Operation]()
    row: Any
    for row in OPERATIONS.read(image.pk):
        row.output_tail = row.tail
        (ended if row.is_final else alive).append(row)
    cancellable = staging.list_cancellable_keys(alive, reader)
    for operation in (*alive, *ended):
        if operation.staged_image:
            operation.staged_image.image = image  # for its name, without another query
    return {"operations_alive": alive, "operations_ended": ended, "cancellable": cancellable}
