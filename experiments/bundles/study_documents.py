"""The documents of a bundle about the study: its plan, its comparison, its events and images."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

from django.conf import settings

from experiments.bundles.plain_json import make_line
from experiments.citations import write_statement
from experiments.comparisons import (
    ExperimentComparison,
    list_comparison_rows,
    list_everywhere_rows,
    list_pooled_rows,
)
from experiments.comparisons.comparison_keys import LIBRARIES, identify_method
from experiments.comparisons.judged_together import list_decisive
from experiments.comparisons.rows_by_key import iterate_rows
from experiments.confounder_table import TREATMENT, read_table
from experiments.images.architectures import read_architecture
from experiments.images.sbom_documents import WRITERS
from experiments.models import Environment, Event, Experiment, Extension, StagedImage
from experiments.planning.decisive_metrics import list_further
from experiments.provenance.lineage import list_bases
from experiments.statistics.interim_analyses import schedule
from runners.workloads import KNOWN_WORKLOADS

RULES = 1
"""The version of the rules by which `verify.py` computes, as it has it itself."""
FORMAT = "tare-bundle 1"
AT_ONCE = 1000


def describe_experiment(experiment: Experiment, extension: Extension | None) -> dict[str, Any]:
    """Return what explains all other documents: who asked what, how, and with which versions."""
    workloads = list(experiment.workloads.order_by("pk"))
    environments = list(experiment.environments.order_by("pk"))
    keys = {row.pk: experiment.get_workload_key(row.pk) for row in workloads}
    environment_keys = {row.pk: experiment.get_environment_key(row.pk) for row in environments}
    decisive = list_decisive(experiment, workloads)
    return {
        "format": FORMAT,
        "rules": RULES,
        "method": identify_method(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "site": settings.SITE_ADDRESS,
        "experiment": experiment.key,
        "question": experiment.question,
        "owner": experiment.owner.username,
        "came_from": _describe_origin(experiment),
        "machine": _describe_machine(experiment),
        "launched_at": _write_time(experiment.launched_at),
        "cancelled_at": _write_time(experiment.cancelled_at),
        "stopped_at_look": experiment.stopped_at_look,
        "imported_at": _write_time(experiment.imported_at),
        "imported_from": experiment.imported_from,
        "import_hash": experiment.import_hash,
        "plan_hash": experiment.plan_hash,
        "order_seed": experiment.order_seed,
        "extended_repeats": experiment.extended_repeats,
        "extension_level": experiment.extension_level,
        "extension_hash": extension.plan_hash if extension else "",
        "workloads": {keys[row.pk]: row.name for row in workloads},
        "environments": {environment_keys[row.pk]: row.name for row in environments},
        "programs": {
            keys[row.pk]: {
                "kind": row.kind,
                "parameters": row.parameters,
                "time_limit_seconds": row.time_limit_seconds,
            }
            for row in workloads
        },
        "tools": {environment_keys[row.pk]: row.recorded_tool for row in environments},
        **list_data_sets(experiment),
        "citation": write_statement(experiment),
        "reproduces": describe_reproduced(experiment),
        "definition": {
            "design": experiment.design,
            "estimand": experiment.estimand,
            "goal": experiment.goal,
            "warm_up": experiment.warm_up,
            "repeats": experiment.repeats,
            "after_repeats": list(schedule(experiment.repeats, experiment.looks)),
            "scales": list(experiment.scales),
            "baseline": environment_keys[experiment.baseline_id],
            "metrics_rule": experiment.metrics_rule,
            "margins": [
                {"margin": experiment.margin, "margin_faster": experiment.margin_faster},
                *(
                    {"margin": row["margin"], "margin_faster": row.get("margin_faster")}
                    for row in experiment.further_metrics
                ),
            ],
        },
        "metrics": [
            {
                keys[workload.pk]: {
                    "name": row.metrics[workload.pk].name,
                    "unit": row.metrics[workload.pk].unit,
                    "better": row.metrics[workload.pk].better,
                    "series": KNOWN_WORKLOADS[workload.kind].find_base_series(
                        row.metrics[workload.pk].name
                    ),
                }
                for workload in workloads
            }
            for row in decisive
        ],
        "further_metrics": [further.name for further in list_further(experiment)],
    }


def describe_reproduced(experiment: Experiment) -> dict[str, Any] | None:
    """Return which plan the experiment does again, and what stands for what; None if none.

    What could not be the same names machines of the first study: only where all may view that.
    """
    record, first = experiment.reproduction, experiment.reproduces
    if not record:
        return None
    is_open = experiment.is_from_bundle or (first is not None and first.is_open_to_members)
    return {**record, "differences": record.get("differences", []) if is_open else []}


def list_data_sets(experiment: Experiment) -> dict[str, Any]:
    """Return the data sets of the plan, by the workloads that read them; {} where none does."""
    frozen = (experiment.plan or {}).get("workloads") or {}
    names = ("name", "digest", "files", "bytes", "licence", "source")
    data_sets = {
        key: {name: data.get(name) for name in names}
        for key, workload in frozen.items()
        if (data := workload.get("data_set"))
    }
    return {"data_sets": data_sets} if data_sets else {}


def _describe_origin(experiment: Experiment) -> dict[str, str] | None:
    """Return which bundle of another Tare the experiment came as; None if it did not."""
    if not experiment.is_from_bundle:
        return None
    bundle = experiment.imported_bundle
    return {
        "sha256": bundle.sha256,
        "site": bundle.site,
        "experiment": bundle.number,
        "owner": bundle.owner,
        "signed_by": bundle.signed_by,
    }


def _describe_machine(experiment: Experiment) -> dict[str, Any]:
    """Return the names of cluster and partition, and how large the partition is."""
    partition = experiment.partition
    size = ("name", "nodes", "gpus_per_node", "gpu_model", "cpus_per_node")
    return {
        "cluster": experiment.cluster.name,
        "partition": partition and {name: getattr(partition, name) for name in size},
    }


def describe_comparison(comparison: ExperimentComparison) -> dict[str, Any]:
    """Return the full results, as the page and its files print them."""
    return {
        "method": identify_method(),
        "analyses": comparison.stage.plan,
        "comparison": list_comparison_rows(comparison),
        "all_configurations": list_everywhere_rows(comparison),
        "pooled": list_pooled_rows(comparison),
        "left_out": comparison.left_out,
        "unsteady": [
            {**group.configuration, "sentence": group.unsteady}
            for group in comparison.unsteady_groups
        ],
    }


def describe_confounders() -> list[dict[str, str]]:
    """Return the table of confounders, row by row, without its reasons."""
    return [
        {
            "key": row.key,
            "fact": row.title,
            "compared": row.compared,
            "grade": str(row.grade or TREATMENT),
            "known_on_one_side": str(row.grade_if_unknown) if row.grade else row.compared,
        }
        for row in read_table().rows
    ]


def write_events(experiment: Experiment) -> Iterator[bytes]:
    """Yield each event as a line: what was moved, by whom, when and why. Persons by user name."""
    events = Event.objects.filter(experiment=experiment).select_related("actor", "job", "run")
    narrow = events.only(
        *("at", "what", "why", "experiment", "stated_by"),
        *("actor__username", "run__uid", "job__uid", "job__workload", "job__scale"),
    )
    for event in iterate_rows(narrow.order_by("at", "pk"), AT_ONCE):
        yield make_line(
            {
                "at": _write_time(event.at),
                "what": event.what,
                "why": event.why,
                "by": event.actor.username if event.actor else event.stated_by or None,
                "run": event.run.uid if event.run else None,
                "job": event.job.uid if event.job else None,
                "workload_key": event.job and experiment.get_workload_key(event.job.workload_id),
                "scale": event.job.scale if event.job else None,
            }
        )


def describe_images(experiment: Experiment, staged: Iterable[StagedImage]) -> list[dict[str, Any]]:
    """Return the images of the environments: digests, hashes of their files, what each was made of.

    What else the catalogue knows of them is not of this experiment. Of an image that not everybody
    who can log in can view, the digest alone says which one it is.
    """
    if experiment.is_from_bundle:
        return list(experiment.imported_bundle.images)
    return [
        {
            "reference": form.image.reference if form.image.is_open_to_members else "",
            "digest": form.image.digest,
            "kind": form.image.kind,
            "tree": form.image.tree if form.image.is_open_to_members else "",
            "size_bytes": form.image.size_bytes,
            "architecture": read_architecture(form.image),
            "signature": {
                "state": form.image.get_signature_state_display(),
                "note": form.image.signature_note if form.image.is_open_to_members else "",
                "checked_at": _write_time(form.image.signature_checked_at),
            },
            "staged_as": form.form,
            "staged_sha256": form.sha256,
            "staged_tree": form.tree if form.image.is_open_to_members else "",
            "made_from": [base.digest for base in list_bases(form.image)],
        }
        for form in staged
    ]


def list_staged(experiment: Experiment) -> list[StagedImage]:
    """Return a staged form of each image of the environments, in the order of the catalogue."""
    staged = {
        row.staged_image.image_id: row.staged_image
        for row in Environment.objects.filter(experiments=experiment).select_related(
            "staged_image__image"
        )
        if row.staged_image
    }
    return [form for _, form in sorted(staged.items())]


def write_bills_of_materials(staged: Iterable[StagedImage]) -> Iterator[tuple[str, list[bytes]]]:
    """Yield name and content of the software bills of materials of inspected images.

    Those of images that not everybody who logs in may view stay where they are.
    """
    for form in staged:
        for kind, write in WRITERS.items():
            if form.image.is_open_to_members and (content := write(form.image)):
                yield f"images/{form.image.digest.removeprefix('sha256:')}.{kind}.json", [content]


def describe_waivers(experiment: Experiment) -> list[dict[str, Any]]:
    """Return the differences in software that a person let pass, and why."""
    if experiment.is_from_bundle:
        return list(experiment.imported_bundle.waivers)
    rows = experiment.waivers.select_related("by", "environment").order_by("environment", "what")
    return [
        {
            "environment": row.environment.name,
            "what": row.what,
            "on_baseline": row.on_baseline,
            "in_environment": row.in_environment,
            "reason": row.reason,
            "by": row.by.username,
            "at": _write_time(row.at),
        }
        for row in rows
    ]


def _write_time(moment: Any) -> str | None:
    return moment.isoformat() if moment else None
