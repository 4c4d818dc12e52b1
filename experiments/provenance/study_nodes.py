"""The part of a provenance graph that all runs of a study share: persons, plan, images, Tare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from experiments.provenance.origins import (
    EnvironmentOrigin,
    ImageOrigin,
    PersonalEvent,
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
from experiments.statistics import numbers

PLAN, TARE, ACCOUNT, CLUSTER, METHOD, BEGIN = (
    *("plan", "tare", "account", "cluster", "method", "begin"),
)
ON_A_JOB = "decision on a job"
MOST_DECISIONS = 4
"""On runs that are shown one by one where they are folded."""
UNNAMED_ACCOUNT = "Its user name is not part of what is shown and exported."


def list_study_nodes(
    study: StudyOrigin,
    scope: Scope,
    events: Sequence[PersonalEvent],
    decisions: Sequence[Node],
) -> Iterator[Node]:
    """Yield what the runs have in common, of the environments and images in `scope` alone."""
    yield from _list_persons(study, events)
    yield _describe_tare(study)
    yield _describe_begin(study)
    yield _describe_plan(study)
    yield _describe_cluster(study)
    if not study.is_imported:
        yield _describe_account(study)
    images = dict.fromkeys(filter(None, scope.images))
    for key in dict.fromkeys(environment for _, environment in scope.places):
        environment = study.environments[key]
        yield _describe_environment(environment)
        images.setdefault(environment.image)
    yield from _list_images(study, [digest for digest in images if digest])
    yield from decisions


def name_person(name: str) -> str:
    return name_node("person", name)


def name_event(event: PersonalEvent) -> str:
    return name_node("event", event.key)


def name_image(digest: str) -> str:
    return name_node("image", digest.removeprefix("sha256:"))


def _list_persons(study: StudyOrigin, events: Sequence[PersonalEvent]) -> Iterator[Node]:
    names = dict.fromkeys([study.owner, study.launched_by, *(event.by for event in events)])
    for name in names:
        if name:
            details = {"is the owner": "yes"} if name == study.owner else {}
            yield Node(
                id=name_person(name),
                kind=Kind.AGENT,
                type="person",
                title=name,
                details=details,
                page=Page("events", study.key),
                prov_type="Person",
            )


def _describe_tare(study: StudyOrigin) -> Node:
    person = study.owner if study.is_imported else study.launched_by
    return Node(
        id=TARE,
        kind=Kind.AGENT,
        type="program",
        title="Tare",
        details={"code": study.method, **study.software},
        links=(Link(Relation.ON_BEHALF_OF, name_person(person)),),
        page=Page("methods", study.key),
        prov_type="SoftwareAgent",
    )


def _describe_begin(study: StudyOrigin) -> Node:
    return Node(
        id=BEGIN,
        kind=Kind.ACTIVITY,
        type="import" if study.is_imported else "launch",
        title="Import of logs" if study.is_imported else "Launch",
        links=(Link(Relation.ASSOCIATED_WITH, name_person(study.launched_by)),),
        page=Page("events", study.key),
        began_at=study.began_at,
        ended_at=study.began_at,
    )


def _describe_plan(study: StudyOrigin) -> Node:
    details: dict[str, Any]
    if study.is_imported:
        details = {"sha256": study.hash, "imported from": study.imported_from}
        title, type_name = "Logs", "imported logs"
    else:
        details = {
            "sha256": study.hash,
            "question": study.question,
            "margin": study.margin,
            "order seed": study.order_seed,
            **({"sha256 of the extension": study.extension_hash} if study.extension_hash else {}),
            **({"from a bundle": study.bundle} if study.bundle else {}),
        }
        title, type_name = "Plan", "plan"
    return Node(
        id=PLAN,
        kind=Kind.ENTITY,
        type=type_name,
        title=title,
        details=details,
        links=(Link(Relation.GENERATED_BY, BEGIN),),
        page=Page("plan", study.key),
        prov_type="" if study.is_imported else "Plan",
    )


def _describe_cluster(study: StudyOrigin) -> Node:
    return Node(
        id=CLUSTER,
        kind=Kind.ENTITY,
        type="cluster",
        title=study.cluster,
        details={"partition": study.partition or None},
        page=Page("cluster", study.cluster_key),
        prov_type="Location",
    )


def _describe_account(study: StudyOrigin) -> Node:
    return Node(
        id=ACCOUNT,
        kind=Kind.AGENT,
        type="cluster account",
        title=f"Account on {study.cluster}",
        details={"name": UNNAMED_ACCOUNT},
        links=(
            Link(Relation.ON_BEHALF_OF, name_person(study.launched_by)),
            Link(Relation.AT_LOCATION, CLUSTER),
        ),
        page=Page("cluster", study.cluster_key),
    )


def _describe_environment(environment: EnvironmentOrigin) -> Node:
    image = (
        (Link(Relation.DERIVED_FROM, name_image(environment.image)),) if environment.image else ()
    )
    return Node(
        id=name_node("environment", environment.key),
        kind=Kind.ENTITY,
        type="environment",
        title=environment.name,
        details={
            "is the baseline": "yes" if environment.is_baseline else "no",
            "runtime": environment.runtime or "none: bare metal",
            **(
                {
                    "image as": environment.image_format,
                    "sha256 of the staged image": environment.image_sha256 or None,
                    "tree hash of the staged image": environment.image_tree or None,
                }
                if environment.image
                else {}
            ),
        },
        links=image,
        page=Page("environment", int(environment.key)),
    )


def _list_images(study: StudyOrigin, digests: Sequence[str]) -> Iterator[Node]:
    seen: set[str] = set()
    for digest in digests:
        image = study.images.get(digest, ImageOrigin(digest))
        lineage = [digest, *image.made_from]
        for place, each in enumerate(lineage):
            if each in seen:
                break
            seen.add(each)
            known = study.images.get(each, ImageOrigin(each))
            bases = lineage[place + 1 : place + 2]
            yield Node(
                id=name_image(each),
                kind=Kind.ENTITY,
                type="image",
                title=known.reference or each[:19],
                details={"digest": each, "tree hash": known.tree or None},
                links=link_all(Relation.DERIVED_FROM, [name_image(base) for base in bases]),
                page=Page("image", known.key) if known.key else None,
            )


def list_decisions(study: StudyOrigin, scope: Scope, events: Sequence[PersonalEvent]) -> list[Node]:
    """Return what persons decided; of many decisions on runs, where they are folded, one node."""
    of_runs = [event for event in events if event.run]
    if not scope.folds or len(of_runs) <= MOST_DECISIONS:
        return [_describe_event(study, scope, event) for event in events]
    together = Node(
        id="decisions",
        kind=Kind.ACTIVITY,
        type="decisions",
        title=f"{len(of_runs)} decisions on {numbers.count(len({e.run for e in of_runs}), 'run')}",
        links=link_all(
            Relation.ASSOCIATED_WITH,
            [name_person(name) for name in sorted({e.by for e in of_runs})],
        ),
        page=Page("exclusions", study.key),
        began_at=of_runs[0].at,
        ended_at=of_runs[-1].at,
    )
    rest = [_describe_event(study, scope, event) for event in events if not event.run]
    return [*rest, together]


def _describe_event(study: StudyOrigin, scope: Scope, event: PersonalEvent) -> Node:
    informants = [name_node("run", event.run)] if event.run in scope.shown else []
    return Node(
        id=name_event(event),
        kind=Kind.ACTIVITY,
        type=ON_A_JOB if event.job and not event.run else "decision",
        title=event.what,
        details={"because": event.why or None, "run": event.run or None},
        links=(
            *(link_all(Relation.INFORMED_BY, informants) or (Link(Relation.USED, PLAN),)),
            Link(Relation.ASSOCIATED_WITH, name_person(event.by)),
        ),
        page=Page("run", event.run) if event.run else Page("events", study.key),
        began_at=event.at,
        ended_at=event.at,
    )
