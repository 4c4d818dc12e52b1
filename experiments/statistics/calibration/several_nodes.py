"""Calibration of verdicts that rest on several nodes, with a ratio that differs between nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.statistics import vectorised
from experiments.statistics.vectorised import Array, Estimates

RUN_SD = 0.005
NODE_SDS = (0.0, 0.005, 0.02)
"""How much the log-ratio differs from node to node."""
LAYOUTS: Mapping[str, Sequence[int]] = {
    "10 nodes x 1": (1,) * 10,
    "5 nodes x 2": (2,) * 5,
    "3 nodes x 4": (4,) * 3,
    "2 nodes x 5": (5,) * 2,
    "1 node x 10": (10,),
    "8 + 1 + 1 blocks": (8, 1, 1),
    "4 + 2 + 1 + 1 + 1 + 1 blocks": (4, 2, 1, 1, 1, 1),
}
"""How many blocks each node has."""
CHAINS: Mapping[str, Sequence[int]] = {
    "5 sets of 2 jobs": (2,) * 5,
    "sets of 4, 2, 1, 1 and 1 jobs": (4, 2, 1, 1, 1),
}
"""How many jobs on 2 nodes each set has, each of which shares a node with the next one."""
JOBS_WITH_ONE = 10
"""Jobs on 2 nodes, of which one is the same in all: as independent they are the control."""
PARTITION, AS_INDEPENDENT, THESE_NODES = "partition", "as independent", "these nodes"


def simulate(rng: Any, data_sets: int) -> dict[str, dict[str, Estimates]]:
    """Return estimates of many experiments, by what they speak of and by case; the ratio is 1.

    For the partition the ratio is 1 on average over nodes, for the nodes themselves it is 1 on
    average over the blocks that ran. "As independent" speaks of the partition as if every block
    had a node of its own.
    """
    simulated: dict[str, dict[str, Estimates]] = {
        PARTITION: {},
        AS_INDEPENDENT: {},
        THESE_NODES: {},
    }
    for layout, blocks_by_node in LAYOUTS.items():
        blocks = sum(blocks_by_node)
        for node_sd in NODE_SDS:
            case = f"{layout}, {100 * node_sd:g} % between nodes"
            baseline, noise = (rng.normal(0, RUN_SD, (data_sets, blocks)) for _ in range(2))
            ratios = draw_ratios(rng, data_sets, blocks_by_node, node_sd)
            environment = noise + ratios
            by_node = vectorised.estimate_by_node(baseline, environment, blocks_by_node)
            simulated[PARTITION][case] = by_node
            simulated[AS_INDEPENDENT][case] = vectorised.estimate_paired(baseline, environment)
            simulated[THESE_NODES][case] = vectorised.estimate_paired(
                baseline, environment - ratios.mean(axis=1, keepdims=True)
            )
    return simulated


def simulate_sets(rng: Any, data_sets: int) -> dict[str, dict[str, Estimates]]:
    """Return estimates of jobs on 2 nodes each, some in common: by their sets, and as independent.

    The log-ratio of a job is the mean of those of its nodes, and 0 on average over all nodes.
    """
    by_sets, as_independent = {}, {}
    for node_sd in NODE_SDS:
        between = f"{100 * node_sd:g} % between nodes"
        for name, chains in CHAINS.items():
            ratios = np.hstack(
                [_average_pairs(rng.normal(0, node_sd, (data_sets, jobs + 1))) for jobs in chains]
            )
            arms = _draw_arms(rng, ratios)
            by_sets[f"{name}, {between}"] = vectorised.estimate_by_node(*arms, chains)
        common, others = (
            rng.normal(0, node_sd, (data_sets, count)) for count in (1, JOBS_WITH_ONE)
        )
        arms = _draw_arms(rng, (common + others) / 2)
        name = f"{JOBS_WITH_ONE} jobs that share a node, {between}"
        as_independent[name] = vectorised.estimate_paired(*arms)
    return {PARTITION: by_sets, AS_INDEPENDENT: as_independent}


def _average_pairs(nodes: Array) -> Array:
    """Return the mean of each node and the next one: of the jobs of a chain."""
    return (nodes[:, :-1] + nodes[:, 1:]) / 2


def _draw_arms(rng: Any, ratios: Array) -> tuple[Array, Array]:
    """Return the logs of baseline and environment with these true log-ratios."""
    baseline, noise = (rng.normal(0, RUN_SD, ratios.shape) for _ in range(2))
    return baseline, noise + ratios


def draw_ratios(rng: Any, data_sets: int, blocks_by_node: Sequence[int], sd: float) -> Array:
    """Return the true log-ratio of each block: all blocks of one node have the same."""
    ratios = rng.normal(0, sd, (data_sets, len(blocks_by_node)))
    return np.repeat(ratios, blocks_by_node, axis=1)
