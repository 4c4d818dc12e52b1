"""For which processors an image is, and whether a cluster's nodes have them."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.clusters.preflights import find_node_machines
from experiments.models import Cluster, Environment, Image, Partition

OF_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}
"""What the kernel calls a machine, as registries name it; others are called the same."""
ALSO_RUNS = {"amd64": {"386"}}


def read_architecture(image: Image) -> str:
    """Return an image's architecture as registries name it; "" if nothing tells."""
    if image.architecture:
        return image.architecture
    machine = str((image.facts.get("system") or {}).get("architecture") or "")
    return OF_MACHINES.get(machine, machine)


def list_node_architectures(cluster: Cluster, partition: Partition | None = None) -> list[str]:
    """Return the architectures of nodes, as checks of the cluster saw them; [] if none did.

    Of a partition those of its own nodes, where a check ran there.
    """
    machines = find_node_machines(cluster)
    if partition and partition.name in machines:
        machines = {partition.name: machines[partition.name]}
    return sorted({OF_MACHINES.get(machine, machine) for machine in machines.values()})


def explain_mismatch(image: Image, cluster: Cluster, partition: Partition | None = None) -> str:
    """Return why an image cannot run on these nodes; "" if it can, or nobody knows."""
    architecture = read_architecture(image)
    nodes = list_node_architectures(cluster, partition) if architecture else []
    runs = {*nodes, *(other for name in nodes for other in ALSO_RUNS.get(name, ()))}
    if not nodes or architecture in runs:
        return ""
    return (
        f"The image {image} is for {architecture}; the nodes of {partition or cluster} are "
        f"{' and '.join(nodes)}."
    )


def explain_mismatches(
    environments: Iterable[Environment], cluster: Cluster, partition: Partition | None
) -> list[str]:
    """Return a sentence for each environment whose image is for other processors."""
    sentences = []
    for environment in environments:
        if environment.staged_image and (
            why_not := explain_mismatch(environment.staged_image.image, cluster, partition)
        ):
            sentences.append(f"{environment}: {why_not}")
    return sentences
