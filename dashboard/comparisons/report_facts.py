"""What a report says beside the results: the environments, their software and nodes, versions."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from django.db.models import Max

from dashboard.comparisons.paired_facts import PACKAGE
from experiments.comparisons import Comparison, ExperimentComparison
from experiments.comparisons.comparison_keys import LIBRARIES, identify_method
from experiments.comparisons.judged_samples import list_compared_runs, list_compared_samples
from experiments.models import Experiment, Run
from experiments.natural_order import sort_naturally
from experiments.statistics import numbers
from runners.runtimes import RUNTIMES

VERSION = "0.1.0"
"""Tare's, as `pyproject.toml` has it; a test holds one to the other."""
NODES_NAMED = 20
FACTS = (
    *("kernel", "CPU", "CPU cores", "GPU model", "GPU driver", "visible GPUs"),
    *("Python", "BLAS", "BLAS that answered"),
)
"""Facts of a snapshot that are printed, in this order."""
PACKAGES = ("tensorflow", "torch", "jax", "numpy")
"""Packages whose versions are printed; the others are counted."""


@dataclass(frozen=True)
class EnvironmentFacts:
    """One environment of an experiment: what starts it, of which image, and what runs saw in it."""

    name: str
    runtime: str
    digest: str
    """Of its image; empty on bare metal."""
    seen: str
    """What its last run that succeeded saw: kernel, processors, driver, Python."""


def list_environments(comparison: Comparison) -> list[EnvironmentFacts]:
    """Return the environments of an experiment, the baseline first; none of a published table."""
    if not isinstance(comparison, ExperimentComparison):
        return []
    plan = comparison.experiment.plan or {}
    frozen = {row.get("label"): row for row in plan.get("environments", {}).values()}
    seen = _read_last_facts(comparison.experiment)
    return [
        EnvironmentFacts(
            name,
            _describe_runtime(frozen.get(name, {})),
            frozen.get(name, {}).get("image_digest", ""),
            "; ".join(_describe_facts(seen.get(name, {}))),
        )
        for name in comparison.environments
    ]


def describe_nodes(comparison: Comparison) -> str:
    """Return on how many nodes the compared runs ran, and on which; "" where none is known.

    Before anything is compared these are the nodes of all runs that succeeded.
    """
    nodes = {
        node
        for group in comparison.groups
        for samples in (
            (list_compared_samples(comparison, group, pair) for pair in group.pairs)
            if group.pairs
            else (group.samples,)
        )
        for sample in samples
        for node in (sample.node, *sample.nodes)
    } - {""}
    if not nodes:
        return ""
    named = ", ".join(sort_naturally(nodes)[:NODES_NAMED])
    more = f" and {len(nodes) - NODES_NAMED:,} more" if len(nodes) > NODES_NAMED else ""
    return f"{numbers.count(len(nodes), 'node')}: {named}{more}"


def describe_runs(comparison: Comparison) -> str:
    """Return how many runs the verdicts rest on, of how many that were planned."""
    if not isinstance(comparison, ExperimentComparison):
        values = sum(len(group.samples) for group in comparison.groups)
        return f"{numbers.count(values, 'value')} of a published table" if values else ""
    compared = sum(len(list_compared_runs(comparison, group)) for group in comparison.groups)
    ends = ", ".join(
        f"{comparison.stage.states[state]:,} {state}"
        for state in map(str, Run.FINAL)
        if comparison.stage.states[state]
    )
    return (
        f"{numbers.count(compared, 'run')} compared, of {comparison.planned:,} planned"
        f"{f' ({ends})' if ends else ''}"
    )


def list_versions(experiment: Experiment | None) -> list[tuple[str, str]]:
    """Return what identifies plan, program and method: equal ones compute equal numbers."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    versions = [
        ("Tare", VERSION),
        ("Method (sha256 of its code)", identify_method()),
        ("Computed by", f"Python {platform.python_version()}, {libraries}"),
    ]
    if experiment and experiment.plan_hash:
        versions.insert(0, ("Plan (sha256)", experiment.plan_hash))
    if experiment and experiment.import_hash:
        versions.insert(0, ("Imported logs (sha256)", experiment.import_hash))
    return versions


def _describe_runtime(frozen: Mapping[str, Any]) -> str:
    kind = frozen.get("runtime", "")
    label = RUNTIMES[kind].label if kind in RUNTIMES else kind
    return ", ".join(filter(None, (label, frozen.get("image_format"), frozen.get("mode"))))


def _read_last_facts(experiment: Experiment) -> dict[str, Mapping[str, str]]:
    """Return the facts that the last run of each environment has met, by its name.

    Two statements, however many runs there are: of each snapshot only the facts are read.
    """
    runs = Run.objects.filter(
        experiment=experiment, state=Run.State.SUCCEEDED, snapshot__isnull=False
    )
    last = runs.order_by().values("environment").annotate(last=Max("pk")).values_list("last")
    keys = [key for (key,) in last]
    rows = Run.objects.filter(pk__in=keys).order_by("pk")
    return dict(rows.values_list("environment__name", "snapshot__facts"))


def _describe_facts(facts: Mapping[str, str]) -> Iterator[str]:
    for name in FACTS:
        if facts.get(name):
            yield f"{name} {facts[name]}"
    packages = {
        name.removeprefix(PACKAGE): text for name, text in facts.items() if name.startswith(PACKAGE)
    }
    for name in PACKAGES:
        if name in packages:
            yield f"{name} {packages[name]}"
    if packages:
        yield numbers.count(len(packages), "Python package")
