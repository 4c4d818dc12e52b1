"""The file of a stored experiment: of a draft by its rows, of a launched one by its plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from experiments.definitions.definition import (
    DataSetReference,
    Definition,
    EnvironmentDefinition,
    WorkloadDefinition,
    fill_in_values,
)
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.definition_reading import parse_definition
from experiments.definitions.definition_writing import (
    rewrite_yaml,
    to_document,
    write_json,
    write_yaml,
)
from experiments.models import DefinitionText, Environment, Experiment, Image, User, Workload
from experiments.planning.frozen_data import FOLDER
from experiments.planning.variants import list_chosen
from runners.data_sets import PLACEHOLDER
from runners.workloads import WORKLOADS, ParameterError
from runners.workloads.parameter_sweeps import SweepError, expand_sweep

YAML_ENDING, JSON_ENDING = "yaml", "json"
COLUMNS = (
    *("question", "repeats", "design", "looks", "warm_up", "cooldown_seconds", "spreads_nodes"),
    *("goal", "margin", "margin_faster", "primary_metric", "metrics_rule", "accuracy_margin"),
    *("loss_margin", "reject_swap", "reject_throttled", "reject_others", "reject_below_mhz"),
    *("reject_others_cpus", "rejected_again", "output_mib"),
)
"""Columns of the experiment that have a field of the same name in the file."""


class CannotBeWritten(Exception):
    """There is no file of this experiment, for the reason that its text gives."""


def write_file(experiment: Experiment, user: User, ending: str = YAML_ENDING) -> str:
    """Return the file of an experiment that `user` may view. Raises CannotBeWritten.

    Of one that was made of a file, YAML is the text of that as long as nothing has changed, and
    keeps its comments after that.
    """
    definition = describe_experiment(experiment, user)
    if ending == JSON_ENDING:
        return write_json(definition)
    kept = DefinitionText.objects.filter(experiment=experiment).first()
    is_own = experiment.owner_id == user.pk
    if kept is None or not is_own or kept.text.lstrip().startswith("{"):
        return write_yaml(definition)
    if kept.described == hash_description(experiment):
        return kept.text
    return rewrite_text(kept.text, definition)


def rewrite_text(text: str, definition: Definition) -> str:
    """Return the text of a file with what has changed since; who can view it only if unusual."""
    try:
        before = parse_definition(text)
    except BadDefinition:
        return write_yaml(definition)
    definition = leave_out_usual(before, definition)
    return text if before.says_the_same(definition) else rewrite_yaml(text, definition)


def leave_out_usual(before: Definition, definition: Definition) -> Definition:
    """Return a definition without what a file has left out, and what is as usual here."""
    usual = Experiment._meta.get_field("visibility").get_default()
    if not before.values["visibility"] and definition.values["visibility"] == usual:
        definition = replace(definition, values={**definition.values, "visibility": ""})
    of_any_format = {row.name for row in before.environments if not row.format}
    environments = tuple(
        replace(row, format="") if row.name in of_any_format else row
        for row in definition.environments
    )
    return replace(definition, environments=environments)


def keep_text(experiment: Experiment, text: str) -> None:
    """Keep the file that a draft was made of, to be exported with its comments."""
    values = {"text": text, "described": hash_description(experiment)}
    DefinitionText.objects.update_or_create(experiment=experiment, defaults=values)


def hash_description(experiment: Experiment) -> str:
    """Return a hash of all that the file of an experiment says."""
    document = to_document(describe_experiment(experiment))
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def can_be_written(experiment: Experiment) -> bool:
    """Return whether there is a file of this experiment: it was planned on this site."""
    return experiment.imported_at is None and not experiment.is_from_bundle


def describe_experiment(experiment: Experiment, user: User | None = None) -> Definition:
    """Return the definition of an experiment. Raises CannotBeWritten.

    For a `user`: who can view it stands in the owner's file alone, images have a name where the
    user may view them, and of drafts only what the user may view is told.
    """
    if not can_be_written(experiment):
        raise CannotBeWritten("It was not planned on this site, so there is no file of its plan.")
    if user and experiment.is_draft:
        _check_visible(experiment, user)
    values: dict[str, Any] = {name: getattr(experiment, name) for name in COLUMNS}
    values |= {
        "tags": tuple(experiment.tags),
        "notes": experiment.notes.replace("\r\n", "\n").strip(),
        "cluster": experiment.cluster.name,
        "partition": experiment.partition.name if experiment.partition else "",
        "scales": tuple(experiment.scales),
        "estimand": experiment.estimand or "nodes",
        "warm_up": experiment.warm_up or "fixed",
    }
    if user is None or user.pk == experiment.owner_id:
        values["visibility"] = experiment.visibility
        if experiment.visibility == experiment.Visibility.GROUPS:
            names = experiment.groups.order_by("name").values_list("name", flat=True)
            values["groups"] = tuple(names)
    rows = sorted(
        experiment.environments.select_related("runtime", "staged_image__image"),
        key=lambda row: (row.pk != experiment.baseline_id, row.pk),
    )
    shown = _list_shown_images(rows, user)
    plan = experiment.plan or {}
    return Definition(
        values=fill_in_values(values),
        workloads=tuple(_describe_workloads(experiment, plan)),
        environments=tuple(
            _describe_environment(
                row,
                plan.get("environments", {}).get(str(row.pk)),
                is_baseline=row.pk == experiment.baseline_id,
                shown=shown,
            )
            for row in rows
        ),
        further_metrics=tuple(experiment.further_metrics),
    )


def _check_visible(experiment: Experiment, user: User) -> None:
    environments = experiment.environments.all()
    seen = Environment.objects.visible_to(user).filter(pk__in=environments.values("pk"))
    workloads = list_chosen(experiment)
    known = Workload.objects.visible_to(user).filter(pk__in=[row.pk for row in workloads])
    if seen.count() < environments.count() or known.count() < len(workloads):
        raise CannotBeWritten(
            "It has workloads or environments that you may not view: ask their owner to show them "
            "to you."
        )


def _list_shown_images(rows: Any, user: User | None) -> set[int]:
    keys = [row.staged_image.image_id for row in rows if row.staged_image]
    if user is None or not keys:
        return set()
    return set(Image.objects.visible_to(user).filter(pk__in=keys).values_list("pk", flat=True))


def list_own_lines(text: str) -> list[str]:
    """Return the set-up lines that say something."""
    return [line for line in text.splitlines() if line.strip()]


def _describe_environment(
    row: Environment, frozen: Mapping[str, Any] | None, *, is_baseline: bool, shown: set[int]
) -> EnvironmentDefinition:
    """Return an environment as it is, or as the plan has frozen it."""
    staged = row.staged_image
    lines = list_own_lines(row.setup_lines)
    values: dict[str, Any] = {
        "runtime": row.kind,
        "image": staged.image.digest if staged else "",
        "format": staged.format if staged else "",
        "mode": row.mode,
        "python": row.python,
        "binds": tuple(row.binds),
        "variables": dict(row.variables),
    }
    if frozen:
        of_runtime = list_own_lines(row.runtime.setup_lines if row.runtime else "")
        lines = list(frozen.get("setup_lines", ()))
        if lines[: len(of_runtime)] == of_runtime:
            lines = lines[len(of_runtime) :]
        values = {
            "runtime": frozen.get("runtime", row.kind),
            "image": frozen.get("image_digest", ""),
            "format": frozen.get("image_format", ""),
            "mode": frozen.get("mode", ""),
            "python": frozen.get("python", row.python),
            "binds": tuple(frozen.get("binds", ())),
            "variables": dict(frozen.get("variables", ())),
        }
    is_shown = staged is not None and staged.image_id in shown
    return EnvironmentDefinition(
        name=row.name,
        setup_lines="".join(f"{line}\n" for line in lines),
        is_baseline=is_baseline,
        is_copy=row.copy_of_id is not None,
        reference=staged.image.reference if staged and is_shown else "",
        **values,
    )


def _describe_workloads(
    experiment: Experiment, plan: Mapping[str, Any]
) -> Iterator[WorkloadDefinition]:
    frozen = plan.get("workloads", {})
    members = list(experiment.workloads.select_related("parent", "data_set").order_by("pk"))
    chosen = sorted({row.parent or row for row in members}, key=lambda row: row.pk)
    for row in chosen:
        text = experiment.sweeps.get(str(row.pk), "")
        plans = [
            frozen[str(member.pk)]
            for member in members
            if str(member.pk) in frozen and row.pk in (member.pk, member.parent_id)
        ]
        parameters = _choose_parameters(row, text, plans)
        of_plan = plans[0] if plans else {}
        yield WorkloadDefinition(
            name=row.name,
            kind=row.kind,
            parameters=parameters,
            time_limit_seconds=of_plan.get("time_limit_seconds", row.time_limit_seconds),
            sweep=text,
            **_describe_data(row, of_plan),
        )


def _describe_data(row: Workload, of_plan: Mapping[str, Any]) -> dict[str, Any]:
    if data := of_plan.get("data_set"):
        reference = DataSetReference(data["name"], data["digest"])
        return {"data_set": reference, "data_proof": data["proof"]}
    if row.data_set:
        reference = DataSetReference(row.data_set.name, row.data_set.digest)
        return {"data_set": reference, "data_proof": row.data_proof}
    return {}


def _choose_parameters(
    row: Workload, text: str, plans: list[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the parameters: of a plan those it has frozen, and of swept ones what they vary."""
    if row.kind not in WORKLOADS:
        raise CannotBeWritten(f"This version of Tare does not know the kind {row.kind}.")
    try:
        current = WORKLOADS[row.kind].clean(row.parameters)
    except ParameterError as error:
        if not plans:
            raise CannotBeWritten(f"{row.name} cannot be run any more: {error}") from None
        current = {}
    if not plans:
        return current
    of_plans = [_put_placeholder(plan) for plan in plans]
    if not text:
        return of_plans[0]
    for base in (current, of_plans[0]):
        try:
            variants = expand_sweep(text, WORKLOADS[row.kind], base)
        except SweepError:
            continue
        made = [dict(variant.parameters) for variant in variants]
        if all(variant in made for variant in of_plans) and len(made) == len(of_plans):
            return base
    return of_plans[0]


def _put_placeholder(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the frozen parameters with {data} where the path of the data set stands."""
    parameters = dict(plan["parameters"])
    path = plan.get("data_set", {}).get("path")
    if path and isinstance(parameters.get(FOLDER), str):
        parameters[FOLDER] = parameters[FOLDER].replace(path, PLACEHOLDER)
    return parameters
