"""Spread of past runs, from which the next experiment's number of repeats can be planned."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q

from experiments.models import Cluster, Experiment, Measurement, Run, User, Workload

FEWEST = 3
"""Arms and groups of blocks with fewer runs or blocks are not used."""
NEWEST = 2000
"""Only so many of the newest runs are read: older ones say little about the cluster of today."""


@dataclass(frozen=True)
class Spread:
    """A standard deviation of logs (a CV, as a fraction), with its degrees of freedom and runs."""

    sd: float
    df: int
    runs: int


@dataclass(frozen=True)
class History:
    """The spread from run to run within an arm, and of ratios; None if unknown."""

    of_runs: Spread | None
    of_ratios: Spread | None
    """Between blocks."""
    of_nodes: Spread | None = None
    """Between the means of nodes."""
    within_nodes: Spread | None = None
    """Of ratios between the blocks of one node."""
    blocks_of_node: float = 1.0
    """How many blocks a node had behind its mean: the harmonic mean."""

    def expect_node_means(self, blocks: float) -> Spread | None:
        """Return the spread of the means of nodes that have so many blocks each; None if unknown.

        A mean of many blocks varies less than that of one. What blocks add is known from the
        blocks of one node; what nodes add is what is left, and not less than nothing.
        """
        if self.of_nodes is None or self.within_nodes is None:
            return self.of_nodes
        of_blocks = self.within_nodes.sd**2
        of_nodes = max(self.of_nodes.sd**2 - of_blocks / self.blocks_of_node, 0.0)
        return replace(self.of_nodes, sd=math.sqrt(of_nodes + of_blocks / blocks))


def measure_past_spread(
    kind: str, cluster: Cluster, metric: str, reader: User, *, only: Workload | None = None
) -> History:
    """Return how `metric` varied in the runs of this kind of workload that `reader` may see.

    `only` restricts them to one workload and its variants, for kinds whose workloads are different
    programs.

    The spread is that within arms (a configuration in one environment), so environments, workloads
    and scales may differ. Runs that failed, were cancelled or were excluded do not count.
    """
    rows = Measurement.objects.filter(
        run__experiment__in=Experiment.objects.visible_to(reader).filter(cluster=cluster),
        run__workload__kind=kind,
        run__state=Run.State.SUCCEEDED,
        metric=metric,
        value__gt=0,
    ).order_by("-run_id")
    if only:
        rows = rows.filter(Q(run__workload=only) | Q(run__workload__parent=only))
    groups: defaultdict[tuple[object, ...], dict[int, dict[int, float]]]
    groups = defaultdict(lambda: defaultdict(dict))
    nodes: defaultdict[tuple[object, ...], defaultdict[str, Blocks]]
    nodes = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for experiment, workload, scale, block, node, environment, value in rows.values_list(
        "run__experiment_id",
        "run__workload_id",
        "run__scale",
        "run__job__block",
        "run__node",
        "run__environment_id",
        "value",
    )[:NEWEST]:
        groups[experiment, workload, scale][block][environment] = math.log(value)
        if node:
            nodes[experiment, workload, scale][node][block][environment] = math.log(value)
    means = [part for of_group in nodes.values() for part in _spread_of_nodes(of_group)]
    weights = sum(df for (_, df, _), _ in means)
    within = [
        part
        for of_group in nodes.values()
        for blocks in of_group.values()
        for part in _spread_of_ratios(blocks, fewest=2)
    ]
    return History(
        _pool(part for blocks in groups.values() for part in _spread_of_runs(blocks)),
        _pool(part for blocks in groups.values() for part in _spread_of_ratios(blocks)),
        _pool(part for part, _ in means),
        _pool(within) if weights else None,
        weights / sum(df / blocks for (_, df, _), blocks in means) if weights else 1.0,
    )


Blocks = defaultdict[int, dict[int, float]]
"""Block -> environment -> logarithm."""
Part = tuple[float, int, int]
"""A sum of squares, its degrees of freedom, and the runs behind it."""


def _spread_of_runs(blocks: Mapping[int, Mapping[int, float]]) -> Iterable[Part]:
    """Yield the sum of squares of each environment's runs around their own mean."""
    logs_by_environment: defaultdict[int, list[float]] = defaultdict(list)
    for block in blocks.values():
        for environment, log in block.items():
            logs_by_environment[environment].append(log)
    for logs in logs_by_environment.values():
        if len(logs) >= FEWEST:
            yield _squares(logs), len(logs) - 1, len(logs)


def _spread_of_ratios(
    blocks: Mapping[Any, Mapping[int, float]], fewest: int = FEWEST
) -> Iterable[Part]:
    """Yield the sum of squares in complete blocks, around the means of blocks and environments.

    Twice that variance is the variance of the log-ratio of two environments: for two of them it
    is that of the ratios themselves, and with more each run still counts once.
    """
    environments = {environment for block in blocks.values() for environment in block}
    complete = [block for block in blocks.values() if len(block) == len(environments)]
    if len(environments) < 2 or len(complete) < fewest:
        return
    centres = [math.fsum(block.values()) / len(block) for block in complete]
    squares = math.fsum(
        _squares([block[name] - centre for block, centre in zip(complete, centres, strict=True)])
        for name in environments
    )
    df = (len(environments) - 1) * (len(complete) - 1)
    yield 2 * squares, df, len(environments) * len(complete)


def _spread_of_nodes(
    nodes: Mapping[str, Mapping[int, Mapping[int, float]]],
) -> Iterable[tuple[Part, float]]:
    """Yield the sum of squares of the means of nodes, as `_spread_of_ratios` does of blocks.

    And how many blocks a node has, by the harmonic mean.
    """
    means: dict[str, dict[int, float]] = {}
    for node, blocks in nodes.items():
        logs: defaultdict[int, list[float]] = defaultdict(list)
        for block in blocks.values():
            for environment, log in block.items():
                logs[environment].append(log)
        means[node] = {name: math.fsum(own) / len(own) for name, own in logs.items()}
    runs = sum(len(block) for blocks in nodes.values() for block in blocks.values())
    environments = len({name for of_node in means.values() for name in of_node})
    counts = [sum(map(len, blocks.values())) / environments for blocks in nodes.values()]
    harmonic = len(counts) / math.fsum(1 / count for count in counts)
    for squares, df, _ in _spread_of_ratios(means):
        yield (squares, df, runs), harmonic


def _squares(logs: list[float]) -> float:
    mean = math.fsum(logs) / len(logs)
    return math.fsum((log - mean) ** 2 for log in logs)


def _pool(parts: Iterable[Part]) -> Spread | None:
    """Return the pooled spread; None without data, or where rounding has hidden all variation."""
    known_parts = list(parts)
    squares = math.fsum(part[0] for part in known_parts)
    df = sum(part[1] for part in known_parts)
    if df == 0 or squares <= 1e-20:
        return None
    return Spread(math.sqrt(squares / df), df, sum(part[2] for part in known_parts))
