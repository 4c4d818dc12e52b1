"""The provenance graph of a study, of a run, or of what a comparison says: from plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from experiments.provenance.origins import (
    MANY,
    Result,
    RunGroup,
    RunOrigin,
    Scope,
    StudyOrigin,
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
from experiments.provenance.run_nodes import (
    list_group_nodes,
    list_run_nodes,
    name_group_values,
    name_value,
)
from experiments.provenance.study_nodes import (
    METHOD,
    ON_A_JOB,
    PLAN,
    TARE,
    list_decisions,
    list_study_nodes,
)
from experiments.statistics import numbers

COMPARISON = "comparison"
MOST_RESULTS = 3
"""That are shown one by one where runs are in groups."""


def list_nodes(
    study: StudyOrigin,
    scope: Scope,
    runs: Iterable[RunOrigin] = (),
    groups: Sequence[RunGroup] = (),
    results: Sequence[Result] = (),
) -> Iterator[Node]:
    """Yield the nodes of the graph, each once: what a node depends on is in it too.

    `runs` are read one by one and may be many; of `groups` only what their runs share is said.
    """
    events = scope.select_events(study.events)
    decisions = list_decisions(study, scope, events)
    yield from list_study_nodes(study, scope, events, decisions)
    places = [*scope.places, *(group.place for group in groups)]
    for key in dict.fromkeys(workload for workload, _ in places):
        yield _describe_workload(study, key)
    seen: set[str] = set()
    for group in groups:
        yield from list_group_nodes(study, group, seen)
    by_job = {event.job: event for event in events if event.job and not event.run}
    for run in runs:
        yield from list_run_nodes(study, run, seen, by_job.get(run.job))
    if results:
        yield _describe_method(study)
        on_study = [node.id for node in decisions if node.type != ON_A_JOB]
        yield _describe_comparison(study, results, groups, on_study)
        if groups and len(results) > MOST_RESULTS:
            yield _describe_many_results(study, results)
        else:
            for result in results:
                yield from _list_result_nodes(study, result, groups)


def _describe_workload(study: StudyOrigin, key: str) -> Node:
    if key == MANY:
        return Node(
            id=name_node("workload", key),
            kind=Kind.ENTITY,
            type="workloads",
            title=numbers.count(len(study.workloads), "workload"),
            details={"names": ", ".join(row.name for row in study.workloads.values())},
            links=() if study.is_imported else (Link(Relation.DERIVED_FROM, PLAN),),
            page=Page("plan", study.key),
        )
    workload = study.workloads[key]
    return Node(
        id=name_node("workload", key),
        kind=Kind.ENTITY,
        type="workload",
        title=workload.name,
        details={"kind": workload.kind, "sha256 of its parameters": workload.sha256 or None},
        links=() if study.is_imported else (Link(Relation.DERIVED_FROM, PLAN),),
        page=Page("workload", int(key)),
    )


def _describe_method(study: StudyOrigin) -> Node:
    return Node(
        id=METHOD,
        kind=Kind.ENTITY,
        type="method",
        title="Method of comparison",
        details={"sha256 of its code": study.method, **study.software},
        page=Page("methods", study.key),
    )


def _describe_comparison(
    study: StudyOrigin,
    results: Sequence[Result],
    groups: Sequence[RunGroup],
    decisions: Sequence[str],
) -> Node:
    return Node(
        id=COMPARISON,
        kind=Kind.ACTIVITY,
        type="comparison",
        title="Comparison",
        details={"results": len(results)},
        links=(
            *link_all(Relation.USED, _list_values(results, groups)),
            Link(Relation.USED, METHOD),
            Link(Relation.ASSOCIATED_WITH, TARE, plan=PLAN),
            *link_all(Relation.INFORMED_BY, decisions),
        ),
        page=Page("comparison", study.key),
    )


def _list_values(results: Sequence[Result], groups: Sequence[RunGroup]) -> list[str]:
    """Return the names of the values on which results rest: of groups, and of single runs."""
    values = [name_group_values(group) for group in groups]
    return values + [name_value(uid, row.metric) for row in results for uid in row.runs]


def _list_result_nodes(
    study: StudyOrigin, result: Result, groups: Sequence[RunGroup]
) -> Iterator[Node]:
    parts = (result.number, result.rank, result.pair)
    page = Page("section", study.key)
    ratio = name_node("ratio", *parts)
    where = f"{result.environment} / {result.baseline}"
    low, high = result.interval or (None, None)
    yield Node(
        id=ratio,
        kind=Kind.ENTITY,
        type="ratio",
        title=f"Ratio {result.ratio:.6g}" if result.ratio is not None else "No ratio",
        details={
            "of": where,
            "configuration": result.configuration,
            "metric": result.metric,
            "ratio": result.ratio,
            "interval from": low,
            "interval to": high,
            "confidence level": result.level,
        },
        links=(
            Link(Relation.GENERATED_BY, COMPARISON),
            *link_all(Relation.DERIVED_FROM, _list_values([result], groups)),
        ),
        page=page,
    )
    yield Node(
        id=name_node("verdict", *parts),
        kind=Kind.ENTITY,
        type="verdict",
        title=result.verdict,
        details={
            "of": where,
            "margin": study.margin,
            "stamps": ", ".join(result.stamps) or None,
        },
        links=(
            Link(Relation.GENERATED_BY, COMPARISON),
            Link(Relation.DERIVED_FROM, ratio),
            Link(Relation.DERIVED_FROM, PLAN),
        ),
        page=page,
    )


def _describe_many_results(study: StudyOrigin, results: Sequence[Result]) -> Node:
    return Node(
        id="results",
        kind=Kind.ENTITY,
        type="results",
        title=f"{len(results)} ratios and verdicts",
        links=(Link(Relation.GENERATED_BY, COMPARISON), Link(Relation.DERIVED_FROM, PLAN)),
        page=Page("section", study.key),
        prov_type="Collection",
    )
