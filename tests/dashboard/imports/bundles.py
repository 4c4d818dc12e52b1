"""Bundles on their way from one Tare to another, with one database for both."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from django.db.models import F, Value
from django.db.models.fields import TextField
from django.db.models.functions import Cast, Concat

from dashboard.comparisons.methods import describe_methods
from experiments.bundles import ExtraFile, write_bundle
from experiments.comparisons import (
    compare_experiment,
    list_comparison_rows,
    list_everywhere_rows,
    list_pooled_rows,
)
from experiments.imports.imported_bundles import Imported, import_bundle
from experiments.models import Cluster, Environment, Experiment, Snapshot, User, Workload
from tests.experiments.bundles.studies import MADE_AT, NAME
from tests.factories import UserFactory

OF_THE_SITE = {"experiment"}
SITES = count()


def write(experiment: Experiment) -> bytes:
    """Return the bundle of an experiment, with its methods in words."""
    row = Experiment.objects.get(pk=experiment.pk)

    def make_extra(comparison: Any) -> list[ExtraFile]:
        text = "\n\n".join(describe_methods(comparison))
        return [ExtraFile("methods.txt", text.encode(), "Methods")]

    return b"".join(write_bundle(row, NAME, made_at=MADE_AT, make_extra=make_extra))


def describe(experiment: Experiment) -> dict[str, Any]:
    """Return all that the comparison of an experiment says: rows, sentences, methods."""
    comparison = compare_experiment(Experiment.objects.get(pk=experiment.pk))
    rows = {
        "comparison": list_comparison_rows(comparison),
        "all configurations": list_everywhere_rows(comparison),
        "pooled": list_pooled_rows(comparison),
    }
    return {
        **{
            name: [{key: row[key] for key in row if key not in OF_THE_SITE} for row in some]
            for name, some in rows.items()
        },
        "left out": comparison.left_out,
        "unsteady": [group.unsteady for group in comparison.unsteady_groups],
        "analyses": comparison.stage.plan,
        "methods": describe_methods(comparison),
    }


def forget_all(*experiments: Experiment) -> None:
    """Take experiments from this site, with all names in its catalogue: it is another site then."""
    for experiment in experiments:
        Experiment.objects.get(pk=experiment.pk).delete()
    Snapshot.objects.filter(runs=None, jobs=None).delete()
    moved = Concat(Value(f"site {next(SITES)}, "), Cast(F("pk"), TextField()))
    for model in (Cluster, Workload, Environment):
        model.objects.update(name=moved)


def bring(bundle: bytes, folder: Path, owner: User | None = None, **options: Any) -> Imported:
    """Import a bundle for a person of this site."""
    path = folder / "study.zip"
    path.write_bytes(bundle)
    return import_bundle(path, owner or UserFactory(), file_name=path.name, **options)
