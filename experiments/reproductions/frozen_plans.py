"""A frozen plan read back: the columns of a draft, its workloads and its environments.

Plans may come from another site, in a bundle: nothing of them is taken for granted. The rows of the
catalogue are not asked, which may have changed since, or be of another site.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError

from experiments.models import Experiment, Workload
from experiments.models.catalogue import are_texts, are_variables
from experiments.models.data_sets import is_data_path
from experiments.models.images import is_digest
from experiments.planning.frozen_data import DATA_PATH, FOLDER
from runners import node_rules
from runners.kept_output import OUTPUT_MIB
from runners.runtimes import RUNTIMES
from runners.workloads import WORKLOADS, ParameterError

BARE_METAL = "bare_metal"
SAME_NAMES = (
    *("scales", "repeats", "design", "margin", "goal", "margin_faster", "accuracy_margin"),
    *("loss_margin", "estimand", "primary_metric", "further_metrics", "metrics_rule", "warm_up"),
    *("cooldown_seconds", OUTPUT_MIB),
)
"""What a plan calls as the draft does. A plan leaves out what is as usual."""
OTHER_NAMES = {
    *("question", "cluster", "partition", "workloads", "environments", "baseline", "looks"),
    *("one_block_a_node", "reject", "sweeps", "order_seed", "blocks", "payload", "parity"),
}
REJECTIONS = {
    node_rules.SWAP: "reject_swap",
    node_rules.THROTTLED: "reject_throttled",
    node_rules.LEAST_MHZ: "reject_below_mhz",
    node_rules.OTHERS: "reject_others",
    node_rules.OTHERS_CPUS: "reject_others_cpus",
    node_rules.ATTEMPTS: "rejected_again",
}
ROWS = ("cluster", "partition", "baseline", "owner")
OF_WORKLOADS = {"name", "kind", "parameters", "time_limit_seconds", "data_set", "code"}
OF_DATA_SETS = {
    *("name", "digest", "files", "bytes", "licence", "source", "path", "manifest", "proof"),
}


class UnreadablePlan(Exception):
    """No experiment can be made of a plan, for the reason that the text gives."""


@dataclass(frozen=True)
class DataSpec:
    """A data set as the plan has frozen it: the digest says what it is, the path where it lay."""

    name: str
    digest: str
    path: str
    proof: str


@dataclass(frozen=True)
class WorkloadSpec:
    """A workload as the plan has frozen it, under the key that its blocks name."""

    key: str
    name: str
    kind: str
    parameters: dict[str, Any]
    time_limit_seconds: int
    data_set: DataSpec | None = None

    @property
    def template(self) -> dict[str, Any]:
        """Return the parameters of a row of the catalogue: {data} where the plan has the path."""
        folder = self.parameters.get(FOLDER)
        if self.data_set is None or not isinstance(folder, str):
            return self.parameters
        start, path = self.data_set.path.rstrip("/"), folder.rstrip("/")
        if path != start and not path.startswith(f"{start}/"):
            return self.parameters
        return {**self.parameters, FOLDER: DATA_PATH + folder[len(start) :]}

    @property
    def study(self) -> tuple[str, dict[str, Any], str]:
        """Return what two workloads that do the same have in common, wherever their data lie."""
        return self.kind, self.template, self.data_set.digest if self.data_set else ""

    @property
    def files(self) -> dict[str, str]:
        """Return the files that travel with its jobs: name -> sha256."""
        files = self.parameters.get("files")
        return dict(files) if isinstance(files, Mapping) else {}


@dataclass(frozen=True)
class EnvironmentSpec:
    """An environment as the plan has frozen it, under the key that its blocks name."""

    key: str
    label: str
    runtime: str
    mode: str
    image_format: str
    image_digest: str
    python: str
    binds: list[str]
    variables: dict[str, str]
    setup_lines: list[str]

    @property
    def is_bare_metal(self) -> bool:
        return self.runtime == BARE_METAL


@dataclass(frozen=True)
class FrozenPlan:
    """What of a plan makes another experiment with it."""

    question: str
    cluster: str
    host: str
    partition: str
    payload: str
    settings: dict[str, Any]
    """The columns of a draft, beside the rows that it names."""
    workloads: list[WorkloadSpec]
    environments: list[EnvironmentSpec]
    baseline: str
    """The key of that environment."""


def read_plan(plan: Any) -> FrozenPlan:
    """Return what a frozen plan says. Raises UnreadablePlan with a sentence."""
    if not isinstance(plan, Mapping) or not plan:
        raise UnreadablePlan("It has no frozen plan: it was never launched.")
    if unknown := sorted(map(str, plan.keys() - {*SAME_NAMES, *OTHER_NAMES})):
        raise UnreadablePlan(
            f"Its plan has settings that this version of Tare does not know: {', '.join(unknown)}."
        )
    try:
        return _read(plan)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UnreadablePlan(f"Its plan cannot be read: {_describe(problem)}.") from None


def _read(plan: Mapping[str, Any]) -> FrozenPlan:
    cluster = plan["cluster"]
    workloads = [_read_workload(key, spec) for key, spec in plan["workloads"].items()]
    environments = [_read_environment(key, spec) for key, spec in plan["environments"].items()]
    if plan["baseline"] not in {spec.key for spec in environments}:
        raise UnreadablePlan("Its plan does not say which environment is the baseline.")
    return FrozenPlan(
        question=_read_text(plan["question"]),
        cluster=_read_text(cluster["name"]),
        host=_read_text(cluster["host"]),
        partition=_read_text(plan.get("partition") or ""),
        payload=_read_text(plan.get("payload") or ""),
        settings=_read_settings(plan),
        workloads=sorted(workloads, key=_order),
        environments=sorted(environments, key=_order),
        baseline=plan["baseline"],
    )


def _order(spec: WorkloadSpec | EnvironmentSpec) -> tuple[int, str]:
    """Return what keeps rows in the order of the first plan: their keys were primary keys."""
    return len(spec.key), spec.key


def _read_settings(plan: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: plan[name] for name in SAME_NAMES if name in plan}
    settings["looks"] = len(plan["looks"]["after_repeats"]) if "looks" in plan else 1
    settings["spreads_nodes"] = plan.get("one_block_a_node", False) is True
    rules = plan.get("reject") or {}
    settings |= {REJECTIONS[name]: value for name, value in rules.items()}
    if not isinstance(settings["scales"], list):
        raise TypeError("scales are no list")
    for name, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    try:
        Experiment(question="?", **settings).clean_fields(exclude=ROWS)
    except ValidationError as error:
        name, messages = next(iter(error.message_dict.items()))
        raise UnreadablePlan(f"Its plan has no valid {name}: {' '.join(messages)}") from None
    return settings


def _read_workload(key: str, spec: Mapping[str, Any]) -> WorkloadSpec:
    name, kind = _read_text(spec["name"]), _read_text(spec["kind"])
    if kind not in WORKLOADS:
        raise UnreadablePlan(f"{name} is of the type {kind}, which Tare cannot start.")
    _require_known(name, spec, OF_WORKLOADS)
    try:
        parameters = WORKLOADS[kind].clean(spec["parameters"])
    except ParameterError as error:
        raise UnreadablePlan(f"{name}: {error}.") from None
    row = Workload(
        name=name, kind=kind, parameters=parameters, time_limit_seconds=spec["time_limit_seconds"]
    )
    try:
        row.clean_fields(exclude=["owner"])
    except ValidationError as error:
        raise UnreadablePlan(f"{name}: {' '.join(error.messages)}") from None
    data_set = _read_data_set(name, spec["data_set"]) if "data_set" in spec else None
    return WorkloadSpec(_read_text(key), name, kind, parameters, row.time_limit_seconds, data_set)


def _read_data_set(name: str, spec: Mapping[str, Any]) -> DataSpec:
    _require_known(f"The data set of {name}", spec, OF_DATA_SETS)
    texts = {key: _read_text(spec[key]) for key in ("name", "digest", "path", "proof")}
    try:
        is_digest(texts["digest"])
        is_data_path(texts["path"])
    except ValidationError as error:
        raise UnreadablePlan(f"The data set of {name}: {' '.join(error.messages)}") from None
    if texts["proof"] not in Workload.DataProof:
        raise UnreadablePlan(f"The data set of {name} is proved in a way that Tare does not know.")
    return DataSpec(**texts)


def _require_known(what: str, spec: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise UnreadablePlan for what this version would leave out without a word."""
    if unknown := sorted(map(str, spec.keys() - set(known))):
        raise UnreadablePlan(
            f"{what} has settings that this version of Tare does not know: {', '.join(unknown)}."
        )


def _read_environment(key: str, spec: Mapping[str, Any]) -> EnvironmentSpec:
    label, runtime = _read_text(spec["label"]), _read_text(spec["runtime"])
    if runtime not in RUNTIMES:
        raise UnreadablePlan(f"{label} is started by {runtime}, which Tare does not know.")
    digest = _read_text(spec["image_digest"])
    variables = dict(spec["variables"])
    try:
        are_texts(spec["binds"])
        are_texts(spec["setup_lines"])
        are_variables(variables)
        if runtime != BARE_METAL:
            is_digest(digest)
    except ValidationError as error:
        raise UnreadablePlan(f"{label}: {' '.join(error.messages)}") from None
    return EnvironmentSpec(
        key=_read_text(key),
        label=label,
        runtime=runtime,
        mode=_read_text(spec["mode"]),
        image_format=_read_text(spec["image_format"]),
        image_digest=digest,
        python=_read_text(spec["python"]),
        binds=list(spec["binds"]),
        variables=variables,
        setup_lines=list(spec["setup_lines"]),
    )


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text"[:200])
    if "\0" in value:
        raise ValueError("a text contains NUL")
    return value


def _describe(problem: Exception) -> str:
    return f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)[:300]
