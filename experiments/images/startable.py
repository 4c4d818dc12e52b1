"""Whether the nodes of a cluster can start what an experiment asks of them, as its checks saw."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.clusters import preflights
from experiments.images.architectures import explain_mismatches
from experiments.models import Cluster, Environment, Partition
from runners.preflight.modes import WORKS, name_mode_check
from runners.runtimes import RUNTIMES


def explain_not_startable(
    environments: Iterable[Environment], cluster: Cluster, partition: Partition | None
) -> list[str]:
    """Return a sentence for each environment that no node can start; [] if all may start."""
    environments = list(environments)
    return [
        *explain_mismatches(environments, cluster, partition),
        *explain_impossible_modes(environments, cluster),
    ]


def explain_impossible_modes(environments: Iterable[Environment], cluster: Cluster) -> list[str]:
    """Return a sentence for each environment whose mode a check of the cluster found impossible.

    A mode that no check has tried counts as possible.
    """
    modes = [(environment, environment.start_mode) for environment in environments]
    tried = preflights.find_tried_modes(cluster) if any(mode for _, mode in modes) else {}
    sentences = []
    for environment, mode in modes:
        check = tried.get(name_mode_check(RUNTIMES[environment.kind].label, mode))
        if mode and check and check.value != WORKS:
            why_not = preflights.explain_impossible_mode(check, cluster)
            sentences.append(f"{environment}: {why_not}")
    return sentences
