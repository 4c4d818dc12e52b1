"""The frozen plan of an experiment: catalogue rows as the plain values that a launch keeps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from experiments.design import PlannedBlock, Scale, plan_blocks
from experiments.models import DataCopy, Environment, Experiment, Workload
from experiments.planning.decisive_metrics import freeze_metrics
from experiments.planning.frozen_code import Copies, find_code_copies, freeze_code
from experiments.planning.frozen_data import fill_in_path, find_copies, freeze_data_set
from experiments.statistics.interim_analyses import get_level, schedule
from runners.kept_output import DEFAULT_MIB, OUTPUT_MIB
from runners.payload import hash_payload
from runners.workloads import WORKLOADS, choose_repeat_seed


def freeze_environment(environment: Environment) -> dict[str, Any]:
    """Return the arguments of `runners.jobs.EnvironmentSpec`, as JSON keeps them."""
    runtime, staged = environment.runtime, environment.staged_image
    image = staged.image if staged else environment.tree_of
    lines = [runtime.setup_lines if runtime else "", environment.setup_lines]
    return {
        "label": environment.name,
        "runtime": environment.kind,
        "executable": runtime.executable if runtime else "",
        "options": list(runtime.options) if runtime else [],
        "mode": environment.mode,
        "image_format": staged.format if staged else "",
        "image_path": staged.path if staged else "",
        "image_digest": image.digest if image else "",
        "python": environment.python,
        "binds": list(environment.binds),
        "variables": sorted([name, value] for name, value in environment.variables.items()),
        "setup_lines": [line for text in lines for line in text.splitlines() if line.strip()],
    }


def freeze_workload(
    workload: Workload,
    copies: Mapping[int, DataCopy] = MappingProxyType({}),
    code_copies: Copies = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the workload with all its parameters, as the frozen plan keeps it.

    With its data set, where it has one of which `copies`, by data set, have one; and its code.
    """
    code = freeze_code(workload, code_copies)
    data = freeze_data_set(workload, copies)
    return {
        "name": workload.name,
        "kind": workload.kind,
        "parameters": fill_in_path(WORKLOADS[workload.kind].clean(workload.parameters), data),
        "time_limit_seconds": workload.time_limit_seconds,
        **({"data_set": data} if data else {}),
        **({"code": code} if code else {}),
    }


def make_workload_of_repeat(workload: Mapping[str, Any], repeat: int) -> dict[str, Any]:
    """Return the workload of one repeat, from the spec that `freeze_workload` returned."""
    return {**workload, "parameters": choose_repeat_seed(workload["parameters"], repeat)}


def list_planned_blocks(
    experiment: Experiment, seed: int
) -> list[PlannedBlock[Workload, Environment]]:
    """Return the experiment's blocks in the order that `seed` gives."""
    return plan_blocks(
        list(experiment.workloads.order_by("pk")),
        list(
            experiment.environments.select_related("runtime", "staged_image__image").order_by("pk")
        ),
        [Scale.parse(text) for text in experiment.scales],
        experiment.repeats,
        seed,
        paired=experiment.is_paired,
    )


def freeze_output_limit(experiment: Experiment) -> dict[str, Any]:
    """Return how much of a run's output is kept; {} where it is as usual, as in plans of before."""
    usual = experiment.output_mib == DEFAULT_MIB
    return {} if usual else {OUTPUT_MIB: experiment.output_mib}


def freeze_definition(experiment: Experiment, seed: int) -> dict[str, Any]:
    """Return all that defines the experiment, as plain JSON: the plan that is hashed."""
    partition = experiment.partition
    workloads = list(experiment.workloads.all())
    copies = find_copies(workloads, experiment.cluster)
    code_copies = find_code_copies(workloads, experiment.cluster)
    return {
        "question": experiment.question,
        "cluster": {"name": experiment.cluster.name, "host": experiment.cluster.host},
        "partition": partition.name if partition else None,
        "workloads": {str(row.pk): freeze_workload(row, copies, code_copies) for row in workloads},
        **({"sweeps": experiment.sweeps} if experiment.sweeps else {}),
        "environments": {
            str(row.pk): freeze_environment(row)
            for row in experiment.environments.select_related("runtime", "staged_image__image")
        },
        "baseline": str(experiment.baseline_id),
        "scales": list(experiment.scales),
        "repeats": experiment.repeats,
        "looks": {
            "after_repeats": list(schedule(experiment.repeats, experiment.looks)),
            "level": get_level(experiment.looks),
        },
        "design": experiment.design,
        "margin": experiment.margin,
        **experiment.unusual_goal,
        **experiment.training_margins,
        **({"estimand": experiment.estimand} if experiment.estimand else {}),
        **({"one_block_a_node": True} if experiment.spreads_nodes else {}),
        "primary_metric": experiment.primary_metric,
        **freeze_metrics(experiment),
        "warm_up": experiment.warm_up,
        "cooldown_seconds": experiment.cooldown_seconds,
        **({"reject": rules} if (rules := experiment.rejection_rules) else {}),
        **freeze_output_limit(experiment),
        "payload": hash_payload(),
        "order_seed": seed,
        "blocks": [
            {
                "workload": str(block.workload.pk),
                "scale": str(block.scale),
                "repeat": block.repeat,
                "environments": [str(environment.pk) for environment in block.environments],
            }
            for block in list_planned_blocks(experiment, seed)
        ],
    }
