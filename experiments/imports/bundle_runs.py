"""The jobs and runs of a bundle as rows, with their numbers, steps, outputs and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import connection

from experiments.imports.bundle_catalogue import Catalogue
from experiments.imports.bundle_door import CheckedBundle
from experiments.imports.bundle_parts import RunParts, read_output
from experiments.imports.bundle_shapes import (
    EVENT,
    FACTS,
    RUN,
    read_moment,
    read_shape,
    read_unchanged,
)
from experiments.imports.problems import ImportProblem
from experiments.models import (
    Event,
    Experiment,
    Job,
    Run,
    Snapshot,
)
from experiments.planning.freeze import make_workload_of_repeat
from experiments.snapshot_facts import list_facts
from runners.kept_output import OUTPUT_MIB
from runners.records import TAIL
from runners.untrusted import Damaged, Table, clean_text, parse_document

AT_ONCE = 1000
MOST_RUNS, MOST_BYTES = 50, 4_000_000
"""Runs whose steps and outputs are held at once, and how large these may be together."""
JOB_FACTS = ("workload_key", "scale", "repeat", "block", "attempt", "repairs_job", "job_snapshot")
LATER_FACTS = ("limits", "scheduling")
AT = """
UPDATE experiments_event AS event SET at = stated.at
FROM unnest(%s::bigint[], %s::timestamptz[]) AS stated (pk, at) WHERE event.id = stated.pk
"""
Document = dict[str, Any]


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of one bundle's runs, in the experiment that it becomes."""

    bundle: CheckedBundle
    experiment: Experiment
    catalogue: Catalogue
    plan: Mapping[str, Any] | None

    def create_runs(self) -> list[str]:
        """Store jobs, runs and all that is known of them; return what is otherwise than stated."""
        documents = [
            read_shape(f"run {str(row.get('run'))[:32]}", row, RUN)
            for row in self.bundle.study.runs
        ]
        snapshots = self._create_snapshots(documents)
        jobs = self._create_jobs(documents, snapshots)
        parts, others = RunParts(self.bundle), 0
        for part in self._split(documents):
            runs = [self._make_run(row, jobs[row["job"]], snapshots) for row in part]
            Run.objects.bulk_create(runs)
            others += parts.create(list(zip(runs, part, strict=True)))
        self._create_events(jobs)
        if not others:
            return []
        return [f"Of {others:,} runs this site finds another end of the warm-up than is stated."]

    def _split(self, documents: Iterable[Document]) -> Iterator[list[Document]]:
        """Yield runs in portions whose files fit into the memory."""
        part: list[Document] = []
        size = 0
        for row in documents:
            own = self._measure(row["run"])
            if part and (len(part) >= MOST_RUNS or size + own > MOST_BYTES):
                yield part
                part, size = [], 0
            part.append(row)
            size += own
        if part:
            yield part

    def _measure(self, uid: str) -> int:
        sizes = self.bundle.files.sizes
        names = ("steps.json", "output.txt", "record.json")
        return sum(sizes.get(f"data/runs/{uid}/{name}", 0) for name in names)

    def _create_snapshots(self, documents: Sequence[Document]) -> dict[str, Snapshot]:
        """Return the rows of all snapshots that runs or jobs refer to, by their hashes."""
        named = {row.get(name) for row in documents for name in ("snapshot", "job_snapshot")}
        digests = sorted(filter(None, named))
        as_stored: Document = {}
        if "data/facts_as_stored.json" in self.bundle.files.sizes:
            document = self.bundle.read_json("data/facts_as_stored.json")
            as_stored = read_shape("facts_as_stored.json", document, FACTS)
        rest = iter(digests)
        while part := list(islice(rest, MOST_RUNS)):
            Snapshot.objects.bulk_create(
                [self._make_snapshot(digest, as_stored) for digest in part], ignore_conflicts=True
            )
        rows = Snapshot.objects.filter(content_hash__in=digests).only("content_hash")
        return {row.content_hash: row for row in rows}

    def _make_snapshot(self, digest: str, as_stored: Document) -> Snapshot:
        """Return a snapshot; its facts as an older Tare stored them only if that one took it too.

        Snapshots are shared by all experiments: what is made up of one would be believed of others.
        """
        name = f"data/snapshots/{digest}.json"
        content = read_unchanged(name, self.bundle.read_json(name), Table())
        inside = content.get("inside") or {}
        is_newer = isinstance(inside, dict) and (
            "cpus" not in inside or any(key in inside for key in LATER_FACTS)
        )
        facts = as_stored.get(digest) if not is_newer else None
        return Snapshot(content_hash=digest, content=content, facts=facts or list_facts(content))

    def _create_jobs(
        self, documents: Sequence[Document], snapshots: Mapping[str, Snapshot]
    ) -> dict[str, Job]:
        """Return the jobs by their names. ImportProblem where two runs of one contradict."""
        first: dict[str, Document] = {}
        for row in documents:
            known = first.setdefault(row["job"], row)
            if any(known.get(name) != row.get(name) for name in JOB_FACTS):
                raise ImportProblem(f"The runs of job {row['job']} contradict each other.")
        jobs = {uid: self._make_job(uid, row, snapshots) for uid, row in first.items()}
        Job.objects.bulk_create(jobs.values(), batch_size=AT_ONCE)
        repairs = []
        for uid, row in first.items():
            if row.get("repairs_job"):
                if row["repairs_job"] not in jobs:
                    raise ImportProblem(f"Job {uid} repairs a job that is not there.")
                jobs[uid].repairs = jobs[row["repairs_job"]]
                repairs.append(jobs[uid])
        Job.objects.bulk_update(repairs, ["repairs"], batch_size=AT_ONCE)
        return jobs

    def _make_job(self, uid: str, row: Document, snapshots: Mapping[str, Snapshot]) -> Job:
        facts = row.get("job_facts") or {}
        name = f"data/jobs/{uid}/job.sh"
        script = ""
        if name in self.bundle.files.sizes:
            script = clean_text(self.bundle.files.read(name))
        return Job(
            uid=uid,
            experiment=self.experiment,
            cluster=self.catalogue.cluster,
            workload=self._find(self.catalogue.workloads, row["workload_key"]),
            scale=row["scale"],
            repeat=row["repeat"],
            block=row["block"] - 1,
            payload_hash=(self.plan or {}).get("payload") or "",
            state=facts.get("state") or _guess_state(row),
            reason=facts.get("reason") or "",
            message=facts.get("message") or "",
            exit_code=facts.get("exit_code"),
            attempt=row.get("attempt") or 1,
            scheduler_id=row.get("scheduler_id") or "",
            script=script,
            node=facts.get("node") or "",
            nodes=row.get("nodes") or [],  # not in bundles of earlier versions
            excluded_nodes=facts.get("excluded_nodes"),
            submitted_at=read_moment(name, facts.get("submitted_at")),
            started_at=read_moment(name, facts.get("started_at")),
            ended_at=read_moment(name, row.get("job_ended_at")),
            snapshot=snapshots.get(row.get("job_snapshot") or ""),
        )

    def _find(self, rows: Mapping[str, Any], key: str) -> Any:
        if key not in rows:
            raise ImportProblem("A run is of a workload or an environment that is not there.")
        return rows[key]

    def _make_run(self, row: Document, job: Job, snapshots: Mapping[str, Snapshot]) -> Run:
        name = f"run {row['run']}"
        files = row.get("files_left_on_the_cluster") or []
        return Run(
            uid=row["run"],
            experiment=self.experiment,
            job=job,
            workload_id=job.workload_id,
            environment=self._find(self.catalogue.environments, row["environment_key"]),
            scale=job.scale,
            repeat=job.repeat,
            position=row["position"],
            spec=self._make_spec(row),
            state=row["state"],
            reason=row.get("reason") or "",
            message=row.get("message") or "",
            exit_code=row.get("exit_code"),
            node=row.get("node") or "",
            began_at=read_moment(name, row.get("began_at")),
            ended_at=read_moment(name, row.get("ended_at")),
            command=row.get("command") or "",
            output_tail=clean_text(read_output(self.bundle, row["run"]))[-TAIL:],
            snapshot=snapshots.get(row.get("snapshot") or ""),
            phases=row.get("phases") or {},
            files_count=len(files) or None,
            files_bytes=sum(file.get("size_bytes") or 0 for file in files) or None,
        )

    def _make_spec(self, row: Document) -> Document:
        """Return what the run was to do, as its launch had it."""
        if self.plan is None:
            workload = self.catalogue.workloads[row["workload_key"]]
            return {"workload": {"kind": workload.kind, "parameters": workload.parameters}}
        workload_spec = self.plan["workloads"][row["workload_key"]]
        return {
            "workload": make_workload_of_repeat(workload_spec, row["repeat"]),
            "environment": self.plan["environments"][row["environment_key"]],
            **{name: self.plan[name] for name in ("reject", OUTPUT_MIB) if name in self.plan},
        }

    def _create_events(self, jobs: Mapping[str, Job]) -> None:
        """Store what happened, with the times and the names of people that the bundle has."""
        runs = dict(self.experiment.runs.values_list("uid", "pk"))
        lines = iter([line for line in self.bundle.read_lines("data/events.jsonl") if line])
        while part := list(islice(lines, AT_ONCE)):
            rows, times = [], []
            for line in part:
                event = _read_event(line)
                if event.get("job") not in {None, *jobs} or event.get("run") not in {None, *runs}:
                    raise ImportProblem("An event is of a run or a job that is not there.")
                job = jobs.get(event.get("job") or "")
                rows.append(
                    Event(
                        experiment=self.experiment,
                        job=job,
                        run_id=runs.get(event.get("run") or ""),
                        what=event["what"],
                        why=event.get("why") or "",
                        stated_by=event.get("by") or "",
                    )
                )
                times.append(read_moment("an event", event["at"]))
            Event.objects.bulk_create(rows)
            with connection.cursor() as cursor:  # a new row has the time of now, whatever it says
                cursor.execute(AT, [[row.pk for row in rows], times])


def _read_event(line: str) -> Document:
    try:
        event: Document = parse_document(line, EVENT)
    except Damaged as problem:
        raise ImportProblem(f"data/events.jsonl: {problem}.") from None
    return event


def _guess_state(row: Document) -> str:
    """Return how a job ended of which the bundle does not say it."""
    if row["state"] == Run.State.CANCELLED:
        return Job.State.CANCELLED
    return Job.State.DONE if row.get("scheduler_id") else Job.State.FAILED
