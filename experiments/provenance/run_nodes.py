"""The part of a provenance graph that is of single runs, or of a group of them."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.provenance.origins import (
    PersonalEvent,
    RunGroup,
    RunOrigin,
    StudyOrigin,
    Value,
)
from experiments.provenance.prov_graph import (
    Kind,
    Link,
    Node,
    Page,
    Relation,
    link_all,
    name_node,
)
from experiments.provenance.study_nodes import (
    ACCOUNT,
    BEGIN,
    CLUSTER,
    PLAN,
    TARE,
    name_event,
    name_image,
)
from experiments.statistics import numbers

JOBS = "jobs"
MOST_NODES = 3
"""Machines of a group that are shown one by one."""


def name_value(uid: str, metric: str) -> str:
    return name_node("value", uid, metric)


def name_group(group: RunGroup) -> str:
    return name_node("runs", *group.place, *([group.part] if group.part else []))


def name_group_values(group: RunGroup) -> str:
    return name_node("values", *group.place, *([group.part] if group.part else []))


def list_run_nodes(
    study: StudyOrigin, run: RunOrigin, seen: set[str], decision: PersonalEvent | None
) -> Iterator[Node]:
    """Yield a run with its job and its values; of what runs share only what is not in `seen`.

    `decision` is what a person last did to its job.
    """
    shared: list[Node] = [] if study.is_imported else [*_list_job_nodes(study, run, decision)]
    if run.node:
        shared.append(describe_machine(run.node, run.uid))
    if run.snapshot:
        shared.append(_describe_snapshot(run))
    shared += [
        Node(
            id=name_node("file", file.sha256),
            kind=Kind.ENTITY,
            type="program file",
            title=file.path.rpartition("/")[2],
            details={"path": file.path, "sha256": file.sha256, "bytes": file.size_bytes},
            page=Page("run", run.uid),
        )
        for file in run.program
    ]
    for node in shared:
        if node.id not in seen:
            seen.add(node.id)
            yield node
    yield _describe_run(study, run)
    for value in run.values:
        yield _describe_value(run, value)


def _list_job_nodes(
    study: StudyOrigin, run: RunOrigin, decision: PersonalEvent | None
) -> Iterator[Node]:
    payload = name_node("payload", run.payload_sha256) if run.payload_sha256 else ""
    script = name_node("script", run.job) if run.script_sha256 else ""
    if payload:
        yield describe_payload(run.payload_sha256, Page("run", run.uid))
    if script:
        yield Node(
            id=script,
            kind=Kind.ENTITY,
            type="job script",
            title="job.sh",
            details={"sha256": run.script_sha256},
            links=(Link(Relation.DERIVED_FROM, PLAN), Link(Relation.ATTRIBUTED_TO, TARE)),
            page=Page("script", run.uid),
        )
    yield Node(
        id=name_node("job", run.job),
        kind=Kind.ACTIVITY,
        type="job",
        title=f"Job {run.scheduler_id}" if run.scheduler_id else f"Job {run.job[:8]}",
        details={
            "uid": run.job,
            "name for the scheduler": run.scheduler_id or None,
            "block": run.block + 1,
            "attempt": run.attempt,
        },
        links=(
            *link_all(Relation.USED, [script, payload]),
            Link(Relation.INFORMED_BY, name_event(decision) if decision else BEGIN),
            Link(Relation.ASSOCIATED_WITH, ACCOUNT),
        ),
        page=Page("jobs", study.key),
        began_at=run.submitted_at,
        ended_at=run.job_ended_at,
    )


def describe_payload(sha256: str, page: Page) -> Node:
    """Return the code that Tare sends with each job, which starts and watches the programs."""
    return Node(
        id=name_node("payload", sha256),
        kind=Kind.ENTITY,
        type="code",
        title="Tare’s payload",
        details={"sha256 of its files": sha256},
        links=(Link(Relation.ATTRIBUTED_TO, TARE),),
        page=page,
    )


def describe_machine(name: str, uid: str) -> Node:
    """Return the node of a cluster on which runs ran."""
    return Node(
        id=name_node("node", name),
        kind=Kind.ENTITY,
        type="node",
        title=name,
        links=(Link(Relation.AT_LOCATION, CLUSTER),),
        page=Page("run", uid) if uid else None,
        prov_type="Location",
    )


def _describe_snapshot(run: RunOrigin) -> Node:
    return Node(
        id=name_node("snapshot", run.snapshot),
        kind=Kind.ENTITY,
        type="snapshot",
        title=f"Snapshot {run.snapshot[:8]}",
        details={"sha256": run.snapshot},
        links=(),
        page=Page("snapshot", run.uid),
    )


def _describe_run(study: StudyOrigin, run: RunOrigin) -> Node:
    workload, environment = run.place
    own = {name_node("file", file.sha256) for file in run.program}
    sources = [
        name_node("environment", environment),
        name_node("workload", workload),
        name_image(run.image) if run.image else "",
        *sorted(own),
        name_node("snapshot", run.snapshot) if run.snapshot else "",
    ]
    return Node(
        id=name_node("run", run.uid),
        kind=Kind.ACTIVITY,
        type="run",
        place=study.environments[environment].name,
        title=f"Run {run.uid[:8]}",
        details={
            "uid": run.uid,
            "of": f"{study.describe_place(run.place)} at {run.scale}, repeat {run.repeat}",
            "state": run.state,
            **({"checkouts": " ".join(run.checkouts)} if run.checkouts else {}),
        },
        links=(
            *link_all(Relation.USED, [*sources, PLAN if study.is_imported else ""]),
            *(
                [Link(Relation.INFORMED_BY, BEGIN)]
                if study.is_imported
                else [Link(Relation.INFORMED_BY, name_node("job", run.job))]
            ),
            Link(Relation.ASSOCIATED_WITH, TARE, plan="" if study.is_imported else PLAN),
            *link_all(Relation.AT_LOCATION, [name_node("node", run.node) if run.node else CLUSTER]),
        ),
        page=Page("run", run.uid),
        began_at=run.began_at,
        ended_at=run.ended_at,
    )


def _describe_value(run: RunOrigin, value: Value) -> Node:
    return Node(
        id=name_value(run.uid, value.metric),
        kind=Kind.ENTITY,
        type="measured value",
        title=f"{value.metric} {value.value:.6g} {value.unit}",
        details={
            "metric": value.metric,
            "value": value.value,
            "unit": value.unit,
            "source": value.source or "the program reported it",
        },
        links=(Link(Relation.GENERATED_BY, name_node("run", run.uid)),),
        page=Page("value", run.uid),
    )


def list_group_nodes(study: StudyOrigin, group: RunGroup, seen: set[str]) -> Iterator[Node]:
    """Yield runs as one activity with their values as one collection, and what they share."""
    machines = list(group.nodes)
    if len(machines) > MOST_NODES:
        places = [name_group(group) + "-nodes"]
        yield Node(
            id=places[0],
            kind=Kind.ENTITY,
            type="nodes",
            title=numbers.count(len(machines), "node"),
            details={"names": ", ".join(machines)},
            links=(Link(Relation.AT_LOCATION, CLUSTER),),
            page=Page("expand", group.query),
            prov_type="Collection",
        )
    else:
        places = [name_node("node", name) for name in machines] or [CLUSTER]
        for name, place in zip(machines, places, strict=False):
            if place not in seen:
                seen.add(place)
                yield describe_machine(name, "")
    for payload in group.payloads:
        if (name := name_node("payload", payload)) not in seen:
            seen.add(name)
            yield describe_payload(payload, Page("expand", group.query))
    workload, environment = group.place
    runs = name_group(group)
    jobs = () if study.is_imported else (JOBS,)
    if jobs and JOBS not in seen:
        seen.add(JOBS)
        yield Node(
            id=JOBS,
            kind=Kind.ACTIVITY,
            type="jobs",
            title=numbers.count(group.jobs, "job"),
            links=(
                *link_all(Relation.USED, [name_node("payload", p) for p in group.payloads]),
                Link(Relation.INFORMED_BY, BEGIN),
                Link(Relation.ASSOCIATED_WITH, ACCOUNT),
            ),
            page=Page("jobs", study.key),
        )
    yield Node(
        id=runs,
        kind=Kind.ACTIVITY,
        type="runs",
        place=study.environments[environment].name,
        title=f"{numbers.count(group.count, 'run')}, {numbers.count(group.blocks, 'block')}",
        details={
            "of": study.describe_place(group.place),
            "runs": group.count,
            "blocks": group.blocks,
            "snapshots": group.snapshots,
        },
        links=(
            *link_all(
                Relation.USED,
                [
                    name_node("environment", environment),
                    name_node("workload", workload),
                    *map(name_image, group.images),
                    PLAN if study.is_imported else "",
                ],
            ),
            *link_all(Relation.INFORMED_BY, jobs or (BEGIN,)),
            Link(Relation.ASSOCIATED_WITH, TARE, plan="" if study.is_imported else PLAN),
            *link_all(Relation.AT_LOCATION, places),
        ),
        page=Page("expand", group.query),
        began_at=group.first_began_at,
        ended_at=group.last_ended_at,
    )
    yield Node(
        id=name_group_values(group),
        kind=Kind.ENTITY,
        type="values",
        place=study.environments[environment].name,
        title=f"{numbers.count(group.count, 'value')} of {group.metric}"
        if group.metric
        else "Measured values",
        links=(Link(Relation.GENERATED_BY, runs),),
        page=Page("expand", group.query),
        prov_type="Collection",
    )
