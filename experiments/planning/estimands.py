"""What verdicts are to speak of: this node or this partition, and how blocks come to its nodes."""

from __future__ import annotations

import re

from experiments.models import Cluster, Experiment, Partition
from experiments.statistics import numbers
from experiments.statistics.verdicts import FEWEST
from runners.schedulers import SCHEDULERS

EXCLUDING = re.compile(r"\s*(#SBATCH\s+)?(-x|--exclude\b|-w|--nodelist\b)")
"""Slurm's options that say on which nodes a job may run, as directives of a partition have them."""
NODES, PARTITION = Experiment.Estimand.NODES, Experiment.Estimand.PARTITION


def propose_estimand(cluster: Cluster, partition: Partition | None) -> str:
    """Return the partition where blocks can be spread over enough of its nodes, else the nodes."""
    enough = partition is not None and partition.nodes >= FEWEST
    can_spread = not explain_why_not_spread(cluster, paired=True)
    return str(PARTITION if enough and can_spread else NODES)


def explain_why_not_spread(cluster: Cluster, *, paired: bool) -> str:
    """Return why blocks cannot be kept off the nodes of earlier ones; "" if they can."""
    if cluster.is_by_hand:
        return (
            f"Jobs are carried to {cluster} by hand: Tare learns the node of a block when its "
            "results are brought, so that somebody would have to go there once for each block."
        )
    scheduler = SCHEDULERS[cluster.scheduler]
    if not scheduler.can_exclude_nodes:
        return (
            f"{scheduler.label} cannot keep a job off nodes that are named: it chooses the node of "
            "each block itself."
        )
    if not paired:
        return (
            "In the independent design a block is no job: its environments would run on different "
            "nodes. Choose the paired design."
        )
    return ""


def explain_why_same_node(partition: Partition | None) -> str:
    """Return why a block cannot be kept off the nodes of others here; "" if it can."""
    if partition is None:
        return "Choose a partition: how many nodes the cluster’s default one has is not known."
    if partition.nodes < 2:
        return f"{partition.name} has one node: every block runs there."
    for directive in partition.directives:
        if EXCLUDING.match(directive):
            return (
                f"{partition.name} has the option “{directive}” of its own, which takes the place "
                "of any other list of nodes to keep off."
            )
    return ""


def explain_why_one_analysis(
    estimand: str, partition: Partition | None, *, repeats: int, spreads: bool
) -> str:
    """Return why verdicts on a partition cannot have several analyses; "" if they can.

    The levels of interim analyses hold where each brings new nodes. Where blocks come to the same
    nodes again the degrees of freedom stay few while the looks go on: with 2 nodes and 5 analyses
    false alarms come in 7.4 % of experiments, with 3 nodes in 6.8 %, and with 5 in 6.1 %.
    """
    if estimand != PARTITION or (spreads and count_planned_nodes(partition, repeats) == repeats):
        return ""
    return (
        "Several analyses of a verdict on the partition need a node of its own for each of the "
        f"{numbers.count(repeats, 'block')} (tick “One block a node”, in a partition of as many "
        "nodes): on the same nodes again they would raise more false alarms than 5 %. Plan one "
        "analysis, or let verdicts speak of this node."
    )


def count_planned_nodes(partition: Partition | None, repeats: int) -> int:
    """Return on how many nodes the blocks of a configuration run at most."""
    return min(repeats, partition.nodes if partition else 1)


def warn_of_nodes(
    estimand: str, cluster: Cluster, partition: Partition | None, *, repeats: int, spreads: bool
) -> str:
    """Return what stands against a verdict on the partition, with the cure; "" if nothing does."""
    if estimand != PARTITION:
        return ""
    count = count_planned_nodes(partition, repeats)
    if count < 2:
        return (
            "Verdicts are to speak of the partition, and every block will be on one node, which "
            "says nothing about others: choose this node."
        )
    if not spreads:
        cure = "tick “One block a node”"
        if explain_why_not_spread(cluster, paired=True):
            cure = "choose this node, unless its queue is known to spread jobs"
        return (
            "Verdicts are to speak of the partition, and its scheduler may send every block to one "
            f"node, which says nothing about others: {cure}."
        )
    if count < FEWEST:
        return (
            f"Verdicts on the partition will rest on {numbers.count(count, 'node')} at most and be "
            f"stamped FEW NODES. Plan {FEWEST} or more, or choose this node."
        )
    return ""
