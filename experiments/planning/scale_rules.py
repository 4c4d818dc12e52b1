"""Rules for the scales that a cluster and its workloads can run; part of `rules`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.design import Scale
from experiments.models import Cluster, Environment, Partition, Workload
from experiments.models.segment import count_most_segments
from experiments.statistics import numbers
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS
from runners.workloads import WORKLOADS, ParameterError
from runners.workloads.page_cache import PAGE_CACHE, is_prepared


def count_processes_on_a_node(scale: Scale, kind: str, parameters: Mapping[str, Any]) -> int:
    """Return how many processes of a run, or of one instance, each node has."""
    each = WORKLOADS[kind].choose_processes(parameters)
    return max(1, scale.gpus_per_instance) if each == "gpu" else 1


def suggest_scale(partition: Partition | None) -> str:
    """Return the smallest scale that fits: one GPU, or none where the partition has none."""
    return str(Scale(1, 1 if partition and partition.gpus_per_node else 0))


def list_refusals(
    scale: Scale,
    cluster: Cluster,
    partition: Partition | None,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
) -> Iterator[str]:
    """Yield the reasons why this cannot run, each with what would help.

    The workloads are of kinds that Tare can start, not of imported logs.
    """
    yield from _check_partition(scale, partition)
    unshared = list(_check_packing(scale))
    yield from unshared or _check_launcher(scale, cluster, environments)
    if not unshared:
        for workload in workloads:
            yield from _check_workload(scale, workload)


def _check_partition(scale: Scale, partition: Partition | None) -> Iterator[str]:
    nodes, gpus, place = (
        (partition.nodes, partition.gpus_per_node, partition.name)
        if partition
        else (1, 0, "this machine, without a partition that says what it has,")
    )
    if scale.nodes > nodes:
        yield f"{numbers.count(scale.nodes, 'node')} asked for; {place} has {nodes}."
    if scale.gpus_per_node > gpus:
        yield f"{numbers.count(scale.gpus_per_node, 'GPU')} a node asked for; {place} has {gpus}."


def _check_packing(scale: Scale) -> Iterator[str]:
    """Yield the reasons why instances cannot be packed so."""
    if not scale.is_packed:
        return
    gpus, instances = scale.gpus_per_node, scale.instances_per_node
    if scale.launcher:
        yield (
            f"{scale}: the job script starts packed instances itself. Leave {scale.launcher} out."
        )
    if scale.nodes > 1:
        yield f"{scale}: instances are packed on one node. Write {Scale(1, gpus, instances)}."
    if gpus % instances:
        yield (
            f"{scale}: {numbers.count(gpus, 'GPU')} cannot be shared out evenly among {instances} "
            f"instances. Write {Scale(1, instances, instances)}, with a GPU for each, or "
            f"{Scale(1, 0, instances)} without GPUs."
        )


def _check_launcher(
    scale: Scale, cluster: Cluster, environments: Sequence[Environment]
) -> Iterator[str]:
    """Yield the reasons why nothing could start the processes."""
    scheduler = SCHEDULERS[cluster.scheduler]
    known = scheduler.launchers
    across = [name for name, spans in known.items() if spans]
    without_launcher = Scale(scale.nodes, scale.gpus_per_node)
    if scale.launcher and scale.launcher not in known:
        yield (
            f"{scale}: {scale.launcher} is Slurm's, and the scheduler of {cluster} is "
            f"{scheduler.label}. Write "
            f"{' or '.join(f'{without_launcher} {name}' for name in known)}."
        )
    elif scale.nodes > 1 and not across:
        yield (
            f"{scale}: on {cluster} a run uses one node; Tare starts processes on several under "
            "Slurm only."
        )
    elif scale.nodes > 1 and not scale.launcher:
        yield (
            f"{scale}: nothing would start the program on {scale.nodes} nodes. Write "
            f"{' or '.join(f'{without_launcher} {name}' for name in across)}."
        )
    for environment in environments if scale.launcher else ():
        if not RUNTIMES[environment.kind].under_launchers:
            yield (
                f"{scale}: {environment} is started by {RUNTIMES[environment.kind].label}, which "
                "cannot be put under a launcher. Leave it out, or use another runtime for the "
                "image, such as Enroot."
            )


def _check_workload(scale: Scale, workload: Workload) -> Iterator[str]:
    """Yield the reasons why the workload itself cannot use the nodes and GPUs of the scale."""
    kind = WORKLOADS[workload.kind]
    nodes, gpus = scale.nodes, scale.gpus_per_instance
    if nodes > kind.most_nodes or gpus > kind.most_gpus:
        many = kind.most_nodes > 1
        most = f"at most {kind.most_nodes} nodes" if many else "one node"
        each = f"{numbers.count(kind.most_gpus, 'GPU')}{' on each' * many}"
        yield f"{workload} uses {most} and at most {each}, not {scale}."
        return
    try:
        parameters = kind.clean(workload.parameters)
    except ParameterError as error:
        yield f"{workload}: {error}."
        return
    on_a_node = count_processes_on_a_node(scale, workload.kind, parameters)
    if on_a_node > 1 and not scale.launcher:
        yield f"{scale}: {workload} runs as one process for each GPU. {_for_each_gpu(scale)}"
    if nodes > 1 and kind.choose_processes(parameters) == "one":
        yield (
            f"{scale}: {workload} runs as one process, which has no use for {nodes} nodes. Write "
            f"{Scale(1, scale.gpus_per_node)}, or let it run as one process for each node or GPU."
        )
    if nodes > 1 and is_prepared(parameters):
        yield (
            f"{scale}: {workload} asks for a {parameters[PAGE_CACHE]} page cache, which can be had "
            "on one node alone. Leave out the scales of several nodes."
        )
    if scale.is_packed and count_most_segments({"parameters": parameters}) > 1:
        yield (
            f"{scale}: {workload} may go over several jobs, and packed instances cannot: choose "
            "segments=1, or leave this scale out."
        )
    messages = kind.list_refusals(parameters, nodes=nodes, gpus=gpus, processes=nodes * on_a_node)
    yield from (f"{scale}: {workload}: {message}" for message in messages)


def _for_each_gpu(scale: Scale) -> str:
    if scale.is_packed:
        one_each = Scale(1, scale.gpus_per_node, scale.gpus_per_node)
        return f"An instance is one process, and has one GPU: write {one_each}."
    return f"A launcher has to start them: write {scale} mpirun, or {scale} srun under Slurm."
