"""Reads from the database what is stored of where an experiment's numbers come from."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from typing import Any

from django.db.models import F, Func, Q, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from experiments.comparisons import EXCLUDING
from experiments.comparisons.comparison_keys import LIBRARIES, identify_method
from experiments.comparisons.rows_by_key import iterate_values
from experiments.design import compute_hash
from experiments.models import (
    Environment,
    Event,
    Experiment,
    Image,
    Measurement,
    Run,
    Workload,
)
from experiments.provenance.lineage import list_bases_of_all
from experiments.provenance.origins import (
    LAUNCHED,
    EnvironmentOrigin,
    ImageOrigin,
    PersonalEvent,
    Place,
    ProgramFile,
    RunOrigin,
    StudyOrigin,
    Value,
    WorkloadOrigin,
)
from experiments.provenance.stored_programs import read_programs

AT_ONCE = 500
INCLUDING = f"{Run.State.EXCLUDED} → {Run.State.SUCCEEDED}"
OF_RUNS = {EXCLUDING: "run excluded", INCLUDING: "run included again"}
OF_STUDIES = (LAUNCHED, "cancelled", "extended", "results brought")
AGAIN = "→ planned"
"""How events end that say that a person had a job tried again."""


def read_study(experiment: Experiment) -> StudyOrigin:
    """Return what all runs of the experiment share; a dozen small statements."""
    frozen, extension_hash = _read_frozen(experiment)
    workloads = frozen.get("workloads") or {}
    frozen_environments = frozen.get("environments") or {}
    environments = {str(row.pk): row for row in _list_environments(experiment)}
    return StudyOrigin(
        key=experiment.pk,
        question=experiment.question,
        owner=experiment.owner.username,
        hash=experiment.plan_hash or experiment.import_hash,
        is_imported=experiment.imported_at is not None,
        imported_from=experiment.imported_from,
        bundle=_describe_bundle(experiment),
        began_at=_write_time(experiment.launched_at or experiment.imported_at),
        order_seed=experiment.order_seed,
        extension_hash=extension_hash,
        cluster=experiment.cluster.name,
        cluster_key=experiment.cluster_id,
        partition=experiment.partition.name if experiment.partition else "",
        method=identify_method(),
        software={
            "Python": platform.python_version(),
            **{name: version(name) for name in LIBRARIES},
        },
        margin=experiment.margin,
        baseline=str(experiment.baseline_id),
        workloads={
            str(row.pk): WorkloadOrigin(
                key=str(row.pk),
                name=row.name,
                kind=row.kind,
                sha256=_hash_parameters(workloads.get(experiment.get_workload_key(row.pk))),
            )
            for row in _list_workloads(experiment)
        },
        environments={
            key: _describe_environment(
                row,
                frozen_environments.get(experiment.get_environment_key(row.pk)) or {},
                experiment.baseline_id,
            )
            for key, row in environments.items()
        },
        images=_read_images(experiment, environments.values(), frozen),
        events=_list_events(experiment),
    )


def _describe_bundle(experiment: Experiment) -> str:
    if not experiment.is_from_bundle:
        return ""
    bundle = experiment.imported_bundle
    signed = f", signed by {bundle.signed_by}" if bundle.signed_by else ""
    return f"{bundle.origin}, sha256 {bundle.sha256}{signed}"


def _read_frozen(experiment: Experiment) -> tuple[Mapping[str, Any], str]:
    """Return workloads and environments of the frozen plan, without its blocks, and the hash of
    what was added to it; of an import nothing, and "" where nothing was added.
    """
    workloads, environments, extension_hash = (
        Experiment.objects.filter(pk=experiment.pk)
        .order_by()
        .values_list(
            KeyTransform("workloads", "plan"),
            KeyTransform("environments", "plan"),
            "extension__plan_hash",
        )
        .get()
    )
    return {"workloads": workloads, "environments": environments}, extension_hash or ""


def _hash_parameters(workload: Mapping[str, Any] | None) -> str:
    """Return the sha256 of the parameters that a plan has for a workload; "" where it has none."""
    return compute_hash(workload["parameters"]) if workload else ""


def _list_workloads(experiment: Experiment) -> Iterable[Workload]:
    return experiment.workloads.only("pk", "name", "kind").order_by("pk")


def _list_environments(experiment: Experiment) -> Iterable[Environment]:
    rows = experiment.environments.select_related("runtime", "staged_image__image")
    return rows.order_by("pk")


def _describe_environment(
    row: Environment, frozen: Mapping[str, Any], baseline: int
) -> EnvironmentOrigin:
    """Return an environment as the plan has it; of an import, as its row has it."""
    staged = row.staged_image
    digest = frozen.get("image_digest") if frozen else staged and staged.image.digest
    is_same = staged is not None and staged.image.digest == digest
    return EnvironmentOrigin(
        key=str(row.pk),
        name=str(frozen.get("label") or row.name),
        runtime=str(frozen.get("runtime") or (row.kind if row.runtime else row.recorded_tool)),
        is_baseline=row.pk == baseline,
        image=str(digest or ""),
        image_format=str(frozen.get("image_format") or (staged.form if staged else "")),
        image_sha256=staged.sha256 if staged and is_same else "",
        image_tree=staged.tree if staged and is_same and staged.image.is_open_to_members else "",
    )


def _read_images(
    experiment: Experiment, environments: Iterable[Environment], frozen: Mapping[str, Any]
) -> dict[str, ImageOrigin]:
    """Return the images of the environments with those that they were made from, by digest.

    Of one that not everybody who logs in may view, the digests alone.
    """
    digests = {row.staged_image.image.digest for row in environments if row.staged_image}
    digests |= {
        str(row.get("image_digest"))
        for row in (frozen.get("environments") or {}).values()
        if row.get("image_digest")
    }
    images: dict[str, ImageOrigin] = {}
    narrow = Image.objects.only("digest", "reference", "tree", "visibility")
    found = list(narrow.filter(digest__in=digests))
    all_bases = list_bases_of_all(found)
    for image in found:
        bases = all_bases[image.pk]
        for place, row in enumerate([image, *bases]):
            origin = ImageOrigin(
                digest=row.digest, made_from=tuple(base.digest for base in bases[place:])
            )
            if row.is_open_to_members:  # a graph goes along in files that others read
                origin = replace(origin, reference=row.reference, tree=row.tree, key=row.pk)
            images.setdefault(row.digest, origin)
    return images


def _list_events(experiment: Experiment) -> tuple[PersonalEvent, ...]:
    """Return what persons decided: the launch, its end, exclusions, jobs that they tried again."""
    of_study = Q(job=None, run=None) & (
        Q(what__in=OF_STUDIES) | Q(what__startswith="stopped at") | Q(what__startswith="imported")
    )
    rows = (
        Event.objects.filter(Q(actor__isnull=False) | ~Q(stated_by=""), experiment=experiment)
        .filter(of_study | Q(what__in=list(OF_RUNS)) | Q(run=None, what__endswith=AGAIN))
        .order_by("at", "pk")
        .select_related("actor", "job", "run")
        .only(
            *("at", "what", "why", "experiment", "stated_by"),
            *("actor__username", "job__uid", "run__uid"),
        )
    )
    return tuple(
        PersonalEvent(
            key=row.pk,
            at=_write_time(row.at),
            what=OF_RUNS.get(row.what, row.text),
            why="" if row.what == LAUNCHED else row.why,
            by=row.actor.username if row.actor else row.stated_by,
            job=row.job.uid if row.job else "",
            run=row.run.uid if row.run else "",
        )
        for row in rows
    )


RUN_FIELDS = (
    *("uid", "workload_id", "environment_id", "scale", "repeat", "state", "node"),
    *("began_at", "ended_at", "snapshot_id", "snapshot__content_hash", "job__uid", "job__block"),
    *("job__scheduler_id", "job__attempt", "job__submitted_at", "job__ended_at"),
    "job__payload_hash",
)


def read_runs(
    keys: Sequence[int], *, metrics: Sequence[str] = (), with_checkouts: bool = False
) -> Iterator[RunOrigin]:
    """Yield the runs of these keys with their values, all or those of `metrics`; some at a time."""
    for start in range(0, len(keys), AT_ONCE):
        part = keys[start : start + AT_ONCE]
        values = _read_values(part, metrics)
        rows = list(
            iterate_values(_select_runs(), part, ("pk", *RUN_FIELDS, "image", "hash"), AT_ONCE)
        )
        programs = read_programs({row[10] for row in rows if row[10]}, with_checkouts)
        for row in rows:
            files, checkouts = programs.get(row[10], ((), ()))
            yield _make_run(row, tuple(values.get(row[0], ())), files, checkouts)


def _select_runs() -> Any:
    text = Func(
        F("job__script"), function="convert_to", template="%(function)s(%(expressions)s, 'UTF8')"
    )
    digest = Func(text, function="sha256")
    return Run.objects.annotate(
        image=KeyTextTransform("image_digest", KeyTransform("environment", "spec")),
        hash=Func(
            digest,
            template="encode(%(expressions)s, 'hex')",
            output_field=TextField(),
        ),
    )


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The sha256 of nothing: of a script that was not sent."""


def _make_run(
    row: Sequence[Any],
    values: tuple[Value, ...],
    program: tuple[ProgramFile, ...],
    checkouts: tuple[str, ...],
) -> RunOrigin:
    _, uid, workload, environment, scale, repeat, state, node, began, ended, *rest = row
    _, snapshot, job, block, scheduler_id, attempt, submitted, job_ended, payload, *more = rest
    image, script = more
    return RunOrigin(
        uid=uid,
        place=(str(workload), str(environment)),
        scale=scale,
        repeat=repeat,
        state=str(state),
        node=node,
        began_at=_write_time(began),
        ended_at=_write_time(ended),
        image=image or "",
        snapshot=snapshot or "",
        job=job,
        block=block,
        scheduler_id=scheduler_id,
        attempt=attempt,
        submitted_at=_write_time(submitted),
        job_ended_at=_write_time(job_ended),
        script_sha256="" if script == EMPTY else script,
        payload_sha256=payload,
        values=values,
        program=program,
        checkouts=checkouts,
    )


def _read_values(keys: Sequence[int], metrics: Sequence[str]) -> dict[int, list[Value]]:
    rows = Measurement.objects.filter(run__in=keys)
    if metrics:
        rows = rows.filter(metric__in=metrics)
    values: dict[int, list[Value]] = {}
    for run, metric, value, unit, source in rows.order_by("metric").values_list(
        "run_id", "metric", "value", "unit", "source"
    ):
        values.setdefault(run, []).append(Value(metric, value, unit, source))
    return values


def list_places(experiment: Experiment) -> tuple[Place, ...]:
    """Return each workload with each environment of the experiment."""
    return tuple(
        (str(workload), str(environment))
        for workload in experiment.workloads.order_by("pk").values_list("pk", flat=True)
        for environment in experiment.environments.order_by("pk").values_list("pk", flat=True)
    )


def _write_time(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""
