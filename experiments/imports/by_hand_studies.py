"""Studies whose jobs `benchmarks/by_hand.py` had written: a plan, and what came back of its jobs.

The experiment is made of the plan as a launch makes it, and then the jobs' files enter by the door
of results that are carried by hand. Those jobs had no token: that a job is of this plan is told by
the order, the programs and the parameters that its own files name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from django.db import transaction
from django.db.models import Min
from django.utils import timezone

from experiments.access import audit
from experiments.design import compute_hash
from experiments.execution.by_hand_results import (
    Answer,
    Brought,
    enter,
    read_jobs,
    why_not_whole,
)
from experiments.execution.moves import move_all, record_event
from experiments.execution.planned_jobs import make_job, make_runs
from experiments.imports.by_hand_plans import LIMIT_SECONDS, Block, Study, read_plan
from experiments.imports.layout import find_tool
from experiments.imports.problems import ImportProblem
from experiments.models import Cluster, Environment, Experiment, Job, Partition, Run, User, Workload
from experiments.models.cluster_choices import BY_HAND
from experiments.planning.freeze import freeze_workload
from experiments.snapshots import replace_paths
from runners.by_hand import BEGINS, unpack_results
from runners.errors import Refused
from runners.records import Record, RunRecord
from runners.scratch_folders import open_scratch_folder
from runners.untrusted import Damaged, Table, Text, clean_text, parse_document

WHY = "an import of a study by hand"
SPEC = Table(
    {"run": Text(100), "environment": Text(100), "workload": Text(50), "parameters": Table()},
    needed=("run", "environment", "workload", "parameters"),
)


@dataclass(frozen=True)
class Imported:
    """The experiment of a study, and what became of its jobs."""

    experiment: Experiment
    brought: Brought


def import_study(
    plan: bytes,
    archive: BinaryIO,
    owner: User,
    *,
    machine: str,
    question: str,
    source: str,
    is_final: bool = False,
) -> Imported:
    """Store the study of a plan, with the results in an archive.

    Raises ImportProblem, with nothing stored, if the plan cannot be read, the archive cannot be
    trusted or none of its jobs enters. One bad job stops none of the others.
    """
    study = read_plan(plan)
    if Cluster.objects.filter(name=machine).exists():
        raise ImportProblem(f"There is a cluster called {machine} already: name another machine.")
    with open_scratch_folder("study") as scratch, transaction.atomic():
        experiment = _create_experiment(study, owner, machine=machine, question=question)
        jobs = _create_jobs(study, experiment)

        def why_not(folder: str) -> str:
            return "" if folder in jobs else "the plan has no such job"

        try:
            unpacked = unpack_results(archive, scratch, why_not)
        except Refused as refusal:
            raise ImportProblem(str(refusal)) from None
        brought = Brought(unpacked.sha256)
        brought.notes += [*filter(None, [unpacked.damage]), *unpacked.notes]
        for folder, files in unpacked.jobs.items():
            if files.problem:
                shown = clean_text(folder)[:100]
                brought.refused.append(Answer(f"job {shown}", 0, files.problem))
                continue
            job, block = jobs[folder]
            _enter_job(study, job, block, files.folder, brought, is_final=is_final)
        if not brought.entered:
            raise ImportProblem(_explain_nothing(brought))
        _end_the_rest(experiment)
        began = experiment.jobs.aggregate(first=Min("started_at"))["first"]
        Experiment.objects.filter(pk=experiment.pk).update(launched_at=began or timezone.now())
        digest = hashlib.sha256(plan).hexdigest()
        why = f"{source}, sha256 {brought.sha256}, plan file {digest}: {brought.describe()}"
        record_event(experiment, "imported a study by hand", why=clean_text(why)[:2000], by=owner)
    experiment.refresh_from_db()
    return Imported(experiment, brought)


def _explain_nothing(brought: Brought) -> str:
    reasons = [f"{answer.title}: {answer.why}" for answer in brought.refused[:5]]
    return " ".join(["No job entered.", *brought.notes[:3], "; ".join(reasons)]).strip()


def _create_experiment(study: Study, owner: User, *, machine: str, question: str) -> Experiment:
    """Store the rows that the plan names, and the experiment as if it had been launched."""
    cluster = _save(
        owner,
        Cluster(
            name=machine,
            transport=BY_HAND,
            scheduler="direct",
            work_directory=study.at,
            enabled=False,
            recorded=True,
            owner=owner,
        ),
    )
    partition = None
    if study.gpus_on_node:
        partition = _save(
            owner, Partition(cluster=cluster, name="machine", gpus_per_node=study.gpus_on_node)
        )
    environments = [
        _save(
            owner,
            Environment(
                name=row["label"],
                cluster=cluster,
                recorded_tool="" if row["runtime"] == "bare_metal" else find_tool(row["runtime"]),
                python=row["python"],
                binds=row["binds"],
                variables=dict(row["variables"]),
                setup_lines="\n".join(row["setup_lines"]),
                owner=owner,
            ),
        )
        for row in study.environments
    ]
    workloads = _create_workloads(study, owner, machine)
    plan = _make_plan(study, question, cluster, environments, workloads)
    experiment = Experiment.objects.create(
        question=question,
        cluster=cluster,
        partition=partition,
        baseline=environments[0],
        scales=list(dict.fromkeys(cell.scale for cell in study.cells)),
        repeats=max(cell.blocks for cell in study.cells),
        margin=study.margin,
        primary_metric=study.metric,
        owner=owner,
        order_seed=study.seed,
        plan=plan,
        plan_hash=compute_hash(plan),
        launched_at=timezone.now(),
    )
    experiment.workloads.set(workloads)
    experiment.environments.set(environments)
    return experiment


def _save(owner: User, row: Any) -> Any:
    with audit.log_change(owner, row, why=WHY):
        row.save()
    return row


def _create_workloads(study: Study, owner: User, machine: str) -> list[Workload]:
    """Return a workload for each cell; cells with the same parameters share one."""
    rows: list[Workload] = []
    for cell in study.cells:
        same = [
            row for row in rows if (row.kind, row.parameters) == (cell.workload, cell.parameters)
        ]
        if same:
            rows.append(same[0])
            continue
        name = f"{machine}: {cell.name.partition(',')[0]}"[:100]
        taken = Workload.objects.filter(name__startswith=name[:90]).count()
        row = Workload(
            name=f"{name[:90]} ({taken + 1})" if taken else name,
            kind=cell.workload,
            parameters=cell.parameters,
            time_limit_seconds=LIMIT_SECONDS,
            owner=owner,
        )
        rows.append(_save(owner, row))
    return rows


def _make_plan(
    study: Study,
    question: str,
    cluster: Cluster,
    environments: Sequence[Environment],
    workloads: Sequence[Workload],
) -> dict[str, Any]:
    """Return the plan as a launch freezes it, with the seeds from which its orders were drawn."""
    return {
        "question": question,
        "cluster": {"name": cluster.name, "host": ""},
        "partition": "machine" if study.gpus_on_node else None,
        "workloads": {str(row.pk): freeze_workload(row) for row in workloads},
        "environments": {
            str(row.pk): spec for row, spec in zip(environments, study.environments, strict=True)
        },
        "baseline": str(environments[0].pk),
        "scales": list(dict.fromkeys(cell.scale for cell in study.cells)),
        "repeats": max(cell.blocks for cell in study.cells),
        "design": "paired",
        "margin": study.margin,
        "primary_metric": study.metric,
        "payload": "",
        "order_seed": study.seed,
        "blocks": [
            {
                "workload": str(workloads[block.cell].pk),
                "scale": study.cells[block.cell].scale,
                "repeat": block.repeat,
                "environments": [str(environments[place].pk) for place in block.environments],
            }
            for block in study.list_blocks()
        ],
    }


def _create_jobs(study: Study, experiment: Experiment) -> dict[str, tuple[Job, Block]]:
    """Store the jobs of the plan as handed out; return them by the names of their folders."""
    plan: Mapping[str, Any] = experiment.plan or {}
    workloads = {str(row.pk): row for row in experiment.workloads.all()}
    jobs: dict[str, tuple[Job, Block]] = {}
    for index, (block, planned) in enumerate(zip(study.list_blocks(), plan["blocks"], strict=True)):
        job = make_job(experiment, workloads[planned["workload"]], planned, index, "")
        job.state = Job.State.QUEUED
        job.scheduler_id = f"{BEGINS}{job.uid}"
        job.directory = f"{study.at}/jobs/{block.folder}"
        job.save()
        Run.objects.bulk_create(make_runs(experiment, job, planned, plan))
        jobs[block.folder] = job, block
    return jobs


def _enter_job(
    study: Study, job: Job, block: Block, folder: Path, brought: Brought, *, is_final: bool
) -> None:
    """Enter the files of one job, if they are of this plan and whole."""
    for _, record in read_jobs({job: folder}, brought):
        runs = {
            f"{block.folder}-{place}": run
            for place, run in zip(block.environments, job.runs.order_by("position"), strict=True)
        }
        why = _why_not_planned(study, block, record) or why_not_whole(record, is_final=is_final)
        if why:
            brought.refused.append(Answer(f"job {block.folder}", job.number, why))
        else:
            enter([(job, _rename_runs(record, job, runs))], brought, job.experiment.owner)


def _why_not_planned(study: Study, block: Block, record: Record) -> str:
    """Return why a job's files are not of this block of the plan; "" if they are."""
    cell = study.cells[block.cell]
    for position, place in enumerate(block.environments):
        uid = f"{block.folder}-{place}"
        run = record.runs.get(uid)
        if run is None or f"runs/{position}-{uid}/spec.json" not in record.sizes:
            return f"its run {uid} is not there, or not in the order of the plan"
        try:
            spec = parse_document(run.files.get("spec.json", b""), SPEC)
        except Damaged as problem:
            return f"spec.json of its run {uid} cannot be read: {problem}"
        known = (spec["run"], spec["environment"], spec["workload"])
        label = study.environments[place]["label"]
        differing = {
            name
            for name, value in spec["parameters"].items()
            if name in cell.parameters and value != cell.parameters[name]
        } | {name for name in cell.given if name not in spec["parameters"]}
        if known != (uid, label, cell.workload) or differing:
            what = f", which differs in {', '.join(sorted(differing))}" if differing else ""
            return f"its run {uid} is not that of the plan{what}"
    if strange := set(record.runs) - {f"{block.folder}-{place}" for place in block.environments}:
        return f"it has runs that are not in the plan: {clean_text(sorted(strange)[0])[:100]}"
    return ""


def _rename_runs(record: Record, job: Job, runs: Mapping[str, Run]) -> Record:
    """Return the record with the names that its runs have in Tare, in place of those they had."""
    folders = {f"runs/{run.position}-{uid}/": f"{run.folder}/" for uid, run in runs.items()}

    def rename(path: str) -> str:
        for old, new in folders.items():
            if path.startswith(old):
                return new + path.removeprefix(old)
        return path

    def adapt(run_record: RunRecord, uid: str) -> RunRecord:
        folder = f"runs/{runs[uid].position}-{uid}"
        return replace(
            run_record,
            snapshot=replace_paths(run_record.snapshot, job.directory, folder),
            others=replace_paths(run_record.others, job.directory, folder),
        )

    return replace(
        record,
        runs={runs[uid].uid: adapt(each, uid) for uid, each in record.runs.items()},
        journal=[
            {**line, "run": runs[line["run"]].uid} if line.get("run") in runs else line
            for line in record.journal
        ],
        bad_checksums=[rename(name) for name in record.bad_checksums],
        missing=[rename(name) for name in record.missing],
        uncompared=tuple(rename(name) for name in record.uncompared),
        checksums={rename(name): each for name, each in record.checksums.items()},
        sizes={rename(name): each for name, each in record.sizes.items()},
    )


def _end_the_rest(experiment: Experiment) -> None:
    """End the jobs that did not come: nobody will bring them."""
    why = "it did not come with the study"
    jobs = experiment.jobs.all()
    runs = Run.objects.filter(experiment=experiment, job__in=jobs.exclude(state__in=Job.FINAL))
    move_all(
        runs, Run.State.PLANNED, Run.State.CANCELLED, why=why, reason="cancelled", message=f"{why}."
    )
    move_all(jobs, Job.State.QUEUED, Job.State.COLLECTING, why=why)
    for before in (Job.State.COLLECTING, Job.State.PLANNED):
        move_all(jobs, before, Job.State.CANCELLED, why=why, reason="cancelled")
