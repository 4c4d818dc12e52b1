"""What a comparison says as plain values, and the runs behind it, in groups or one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models.fields.json import KeyTextTransform, KeyTransform

from experiments.comparisons import ExperimentComparison, Group
from experiments.models import Experiment, Run
from experiments.natural_order import sort_naturally
from experiments.provenance.origins import MANY, Place, Result, RunGroup
from experiments.statistics import Pair

MOST_GROUPS = 12
"""Workloads in environments that are groups of their own."""
OPEN_AT_ONCE = 6
"""Runs of a group that are shown one by one at a time."""


@dataclass(frozen=True)
class RunKeys:
    """What groups are made of: a run with what it shares with others."""

    key: int
    uid: str
    place: Place
    node: str
    job: str
    block: int
    payload: str
    image: str
    snapshot: int | None
    began_at: datetime | None
    ended_at: datetime | None


def list_results(comparison: ExperimentComparison) -> list[Result]:
    """Return what the comparison says of each environment, in each configuration by each metric."""
    return [
        make_result(comparison, number, rank, place)
        for number, groups in enumerate(zip(*comparison.by_metric, strict=True), start=1)
        for rank, group in enumerate(groups, start=1)
        for place in range(1, len(group.pairs) + 1)
    ]


def make_result(comparison: ExperimentComparison, number: int, rank: int, place: int) -> Result:
    """Return one result by its numbers, which count from 1; IndexError if there is none."""
    if min(number, rank, place) < 1:
        raise IndexError("Numbers of results count from 1.")
    group = comparison.by_metric[rank - 1][number - 1]
    pair = group.pairs[place - 1]
    return Result(
        number=number,
        rank=rank,
        pair=place,
        configuration=group.name,
        metric=group.metric.name,
        environment=pair.environment,
        baseline=pair.baseline,
        ratio=pair.ratio,
        interval=pair.ci95,
        level=1 - pair.alpha,
        verdict=str(pair.verdict),
        stamps=tuple(map(str, pair.stamps)),
        runs=tuple(_list_judged_runs(group, pair)),
        excluded=tuple(_list_excluded(comparison, group, pair)),
    )


def _list_judged_runs(group: Group, pair: Pair) -> list[str]:
    """Return the uids of the runs of both sides, without blocks that lack one of them."""
    sides = {pair.baseline, pair.environment}
    dropped = set(pair.dropped_blocks) if pair.paired else set[str]()
    return [
        sample.run
        for sample in group.samples
        if sample.environment in sides and sample.block not in dropped
    ]


def _list_excluded(comparison: ExperimentComparison, group: Group, pair: Pair) -> list[str]:
    """Return the uids of the runs of this configuration that persons have excluded."""
    names = (
        {
            (workload.pk, scale): (workload.name, scale)
            for workload in comparison.experiment.workloads.only("pk", "name")
            for scale in comparison.experiment.scales
        }
        if comparison.exclusions
        else {}
    )
    own = tuple(group.configuration.get(name, "") for name in ("workload", "scale"))
    sides = {pair.baseline, pair.environment}
    return [
        exclusion.run
        for exclusion in comparison.exclusions
        if exclusion.environment in sides and names.get(exclusion.place) == own
    ]


def read_run_keys(experiment: Experiment, uids: Iterable[str] | None = None) -> list[RunKeys]:
    """Return the runs of an experiment, all that succeeded or those of these uids, in order."""
    rows: Any = experiment.runs.filter(state=Run.State.SUCCEEDED)
    if uids is not None:
        rows = experiment.runs.filter(uid__in=list(uids))
    image = KeyTextTransform("image_digest", KeyTransform("environment", "spec"))
    values = rows.order_by("job__block", "position").values_list(
        *("pk", "uid", "workload_id", "environment_id", "node", "job__uid", "job__block"),
        *("job__payload_hash", image, "snapshot_id", "began_at", "ended_at"),
    )
    return [
        RunKeys(
            key=key,
            uid=uid,
            place=(str(workload), str(environment)),
            node=node,
            job=job,
            block=block,
            payload=payload,
            image=image or "",
            snapshot=snapshot,
            began_at=began,
            ended_at=ended,
        )
        for (
            key,
            uid,
            workload,
            environment,
            node,
            job,
            block,
            payload,
            image,
            snapshot,
            began,
            ended,
        ) in values
    ]


def group_runs(
    runs: Sequence[RunKeys], *, metric: str = "", opened: str = "", first: int = 1
) -> tuple[list[RunGroup], list[int]]:
    """Return the runs in groups by workload and environment, and the keys of those on their own.

    Of many workloads a group is of an environment alone. Of the group whose environment is `opened`
    some are on their own, from the `first` one on; a group of a single run is none.
    """
    by_place: dict[Place, list[RunKeys]] = {}
    for run in runs:
        by_place.setdefault(run.place, []).append(run)
    if len(by_place) > MOST_GROUPS:
        by_place = {}
        for run in runs:
            by_place.setdefault((MANY, run.place[1]), []).append(run)
    in_groups, singles = list[RunKeys](), list[int]()
    groups = list[RunGroup]()
    for place, members in by_place.items():
        rest = members
        query = f"open={place[1]}"
        part = ""
        if place[1] == opened:
            shown = members[first - 1 : first - 1 + OPEN_AT_ONCE]
            keys = {run.key for run in shown}
            singles += [run.key for run in shown]
            rest = [run for run in members if run.key not in keys]
            following = first + OPEN_AT_ONCE
            query = f"open={place[1]}&from={following if following <= len(members) else 1}"
            part = "rest"
        if len(rest) == 1:
            singles.append(rest[0].key)
        elif rest:
            in_groups += rest
            groups.append(_make_group(place, rest, metric=metric, query=query, part=part))
    jobs = len({run.job for run in in_groups})
    payloads = tuple(sorted({run.payload for run in in_groups if run.payload}))
    return [replace(group, jobs=jobs, payloads=payloads) for group in groups], singles


def _make_group(
    place: Place, runs: Sequence[RunKeys], *, metric: str, query: str, part: str
) -> RunGroup:
    began = [run.began_at for run in runs if run.began_at]
    ended = [run.ended_at for run in runs if run.ended_at]
    return RunGroup(
        place=place,
        metric=metric,
        count=len(runs),
        blocks=len({run.block for run in runs}),
        jobs=0,
        nodes=tuple(sort_naturally({run.node for run in runs if run.node})),
        images=tuple(sort_naturally({run.image for run in runs if run.image})),
        snapshots=len({run.snapshot for run in runs if run.snapshot}),
        payloads=(),
        first_began_at=min(began).isoformat() if began else "",
        last_ended_at=max(ended).isoformat() if ended else "",
        query=query,
        part=part,
    )
