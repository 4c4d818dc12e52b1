"""What an evaluation of an artefact asks for, as far as it is stored with an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db.models import Count, Q

from experiments.bundles.stated_reproductions import StatedReproduction, list_reproductions
from experiments.citations import describe_citation
from experiments.models import Experiment, Image, Run, User

OWN_PROGRAM = "command"
"""The kind of a workload whose program is not one of Tare's."""


@dataclass(frozen=True)
class ArtefactFacts:
    """The facts of one experiment; what nobody has stated is empty."""

    hash: str
    is_imported: bool
    runs: int
    succeeded: int
    excluded: int
    alive: int
    scripts: int
    nodes: int
    runs_with_snapshot: int
    images: int
    images_with_tree: int
    own_programs: Sequence[str] = ()
    licence: str = ""
    authors: Sequence[str] = ()
    deposit_doi: str = ""
    reproductions: Sequence[StatedReproduction] = ()
    """Those by others, with their verdicts."""


def read_artefact_facts(
    experiment: Experiment, reader: User | AnonymousUser | None = None
) -> ArtefactFacts:
    """Return the facts; six statements, however many runs there are, and more if it was done again.

    Reproductions are those that `reader` may view; None: those that are public, for bundles.
    """
    succeeded = Q(state=Run.State.SUCCEEDED)
    counts = experiment.runs.order_by().aggregate(
        runs=Count("pk"),
        succeeded=Count("pk", filter=succeeded),
        excluded=Count("pk", filter=Q(state=Run.State.EXCLUDED)),
        alive=Count("pk", filter=~Q(state__in=Run.FINAL)),
        nodes=Count("node", filter=~Q(node=""), distinct=True),
        runs_with_snapshot=Count("pk", filter=succeeded & Q(snapshot__isnull=False)),
    )
    environments = experiment.environments.exclude(staged_image=None)
    images = Image.objects.filter(pk__in=environments.values("staged_image__image"))
    of_images = (
        _count_bundled_images(experiment.imported_bundle.images)
        if experiment.is_from_bundle
        else images.order_by().aggregate(
            images=Count("pk"), images_with_tree=Count("pk", filter=~Q(tree=""))
        )
    )
    cited = describe_citation(experiment)
    own = experiment.workloads.filter(kind=OWN_PROGRAM).order_by("name")
    return ArtefactFacts(
        hash=experiment.plan_hash or experiment.import_hash,
        is_imported=experiment.imported_at is not None,
        scripts=experiment.jobs.exclude(script="").count(),
        own_programs=list(own.values_list("name", flat=True)),
        licence=cited.licence,
        authors=[author.name for author in cited.authors],
        deposit_doi=cited.doi if cited.is_published else "",
        reproductions=list_reproductions(experiment, reader),
        **counts,
        **of_images,
    )


def _count_bundled_images(images: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return how many images another site's bundle describes, and how many with a tree hash."""
    trees = {str(row.get("digest")): bool(row.get("tree")) for row in images}
    return {"images": len(trees), "images_with_tree": sum(trees.values())}
