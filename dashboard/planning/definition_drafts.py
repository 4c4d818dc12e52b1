"""Drafts from files: the file fills in the form of an experiment, whose rules then decide.

Pages, commands and the programming interface call the same functions. None of them asks whether
`user` may make experiments, or change the draft: whoever calls them does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.db import transaction
from django.db.models import Q
from django.utils.datastructures import MultiValueDict

from dashboard.planning.decisive_metrics_fields import PARTS, name_fields
from dashboard.planning.experiment_forms import ExperimentForm
from dashboard.planning.sweep_fields import BEGIN, name_sweep_field
from experiments.definitions.definition import Definition
from experiments.definitions.definition_fields import BY_NAME, FIELDS
from experiments.definitions.definition_problems import BadDefinition, Problem, sort_problems
from experiments.definitions.definition_reading import parse_definition
from experiments.definitions.described_experiments import (
    describe_experiment,
    keep_text,
    rewrite_text,
)
from experiments.definitions.site_rows import Missing, SiteRows, find_rows
from experiments.definitions.written_units import write_percent
from experiments.execution import lifecycle
from experiments.models import Environment, Experiment, User
from experiments.planning.forecasts import Forecast

Names = Mapping[str, Mapping[str, str]]
"""Section -> name in the file -> name on this site."""
NO_NAMES: Names = {}
FOLLOW = {
    "partitions": ("partition", "scales", "spreads_nodes", "looks"),
    "environments": ("environments", "baseline", "scales"),
    "workloads": ("workloads", "primary_metric", "accuracy_margin", "loss_margin", "warm_up"),
}
"""Missing rows -> the fields of the form that cannot be judged without them."""
NOT_OF_THE_FORM = ("cluster", "partition", "groups", "tags", "notes")
"""Fields that are rows, which the form names by their keys, or that it does not have."""
LAUNCHED_MEANWHILE = "The draft has been launched or deleted in the meantime."


@dataclass(frozen=True)
class Applied:
    """A file that has filled in the form, with all that stands against it."""

    form: ExperimentForm | None
    """None where the file could not be read, or its cluster is not here."""
    problems: tuple[Problem, ...]
    missing: tuple[Missing, ...] = ()
    """Names that may be mapped to rows of this site."""
    definition: Definition | None = None
    remarks: tuple[str, ...] = ()
    """What a person may have meant otherwise, and refuses nothing."""

    @property
    def is_valid(self) -> bool:
        return self.form is not None and not self.problems

    @property
    def forecast(self) -> Forecast | None:
        """Return the most that it will use; None where that is not known."""
        return self.form.forecast if self.form else None

    @property
    def warnings(self) -> list[str]:
        """Return what is to be known before a launch."""
        return [*self.remarks, *self.form.warnings] if self.form else []


def check_text(
    text: str | bytes,
    user: User,
    mapping: Names = NO_NAMES,
    *,
    draft: Experiment | None = None,
    make_missing: bool = False,
) -> Applied:
    """Return what stands against a file, and the form that it fills in. Nothing is stored."""
    try:
        definition = parse_definition(text)
    except BadDefinition as error:
        return Applied(None, error.problems)
    with transaction.atomic():
        applied = apply_definition(
            definition, user, mapping, draft=draft, make_missing=make_missing
        )
        transaction.set_rollback(True)
    return applied


def apply_definition(
    definition: Definition,
    user: User,
    mapping: Names = NO_NAMES,
    *,
    draft: Experiment | None = None,
    make_missing: bool = False,
) -> Applied:
    """Return the form of an experiment, filled in and judged. To be called in a transaction.

    Workloads and A/A copies that have to be made are stored by it.
    """
    rows = find_rows(definition, user, mapping, make_missing=make_missing)
    if rows.cluster is None:
        return Applied(None, sort_problems(rows.problems), tuple(rows.missing), definition)
    experiment = draft or Experiment(owner=user)
    experiment.tags, experiment.notes = list(definition.values["tags"]), definition.values["notes"]
    form = ExperimentForm(make_form_data(definition, rows), instance=experiment, user=user)
    _offer_copies(form, rows, user)
    problems = [*rows.problems, *_list_form_problems(form, definition, rows)]
    return Applied(
        form, sort_problems(problems), tuple(rows.missing), definition, tuple(rows.remarks)
    )


def save_text(
    text: str | bytes,
    user: User,
    mapping: Names = NO_NAMES,
    *,
    draft: Experiment | None = None,
    make_missing: bool = False,
) -> Experiment:
    """Store a file as a draft of `user`, or in place of one. Raises BadDefinition; nothing is kept.

    The text is kept with its comments. Names that `mapping` changes stand in it as they are here.
    """
    definition = parse_definition(text)
    with transaction.atomic():
        if draft and not Experiment.objects.lock_drafts().filter(pk=draft.pk):
            raise BadDefinition([Problem("", LAUNCHED_MEANWHILE)])
        applied = apply_definition(
            definition, user, mapping, draft=draft, make_missing=make_missing
        )
        if applied.form is None or applied.problems:
            raise BadDefinition(applied.problems)
        experiment = applied.form.save()
        kept = definition.text
        if any(mapping.values()):
            kept = rewrite_text(kept, describe_experiment(experiment))
        keep_text(experiment, kept)
    return experiment


def make_form_data(definition: Definition, rows: SiteRows) -> MultiValueDict[str, Any]:
    """Return what a browser would send for this definition."""
    data: MultiValueDict[str, Any] = MultiValueDict()
    for row in FIELDS:
        value = definition.values[row.name]
        if row.kind == "flag":
            if value:
                data[row.name] = "on"
        elif row.name not in NOT_OF_THE_FORM and value is not None:
            data[row.name] = _write_value(row.name, value)
    data["cluster"] = str(rows.cluster.pk) if rows.cluster else ""
    data["partition"] = str(rows.partition.pk) if rows.partition else ""
    data.setlist("groups", [str(key) for key in rows.group_keys])
    data.setlist("workloads", [str(row.pk) for row in rows.workloads if row])
    data.setlist("environments", [str(row.pk) for row in rows.environments if row])
    for environment, entry in zip(rows.environments, definition.environments, strict=True):
        if entry.is_baseline and environment:
            data["baseline"] = str(environment.pk)
    for workload, of_file in zip(rows.workloads, definition.workloads, strict=True):
        if workload and of_file.sweep:
            data[name_sweep_field(workload.pk)] = of_file.sweep
    for place, metric in enumerate(definition.further_metrics, start=2):
        for part, name in zip(PARTS, name_fields(place), strict=True):
            if part in metric:
                data[name] = _write_value(part, metric[part])
    return data


def _write_value(name: str, value: Any) -> str:
    if name in ("margin", "margin_faster"):
        return write_percent(value)
    if name == "scales":
        return ", ".join(value)
    return str(value)


def _offer_copies(form: ExperimentForm, rows: SiteRows, user: User) -> None:
    """Let the form take the A/A copies that the file asks for: it offers none to a new draft."""
    keys = [row.pk for row in rows.environments if row and row.copy_of_id]
    if not keys:
        return
    visible = Environment.objects.visible_to(user).filter(cluster=rows.cluster)
    offered = visible.filter(Q(copy_of=None) | Q(pk__in=keys))
    offered = offered.select_related("runtime", "staged_image__image")
    for name in ("environments", "baseline"):
        field: Any = form.fields[name]
        field.queryset = offered


def _list_form_problems(
    form: ExperimentForm, definition: Definition, rows: SiteRows
) -> list[Problem]:
    """Return what the form has against the file, each at the place in the file.

    What follows from rows that are missing is left out: that they are missing stands there already.
    """
    form.is_valid()
    follow: set[str] = set()
    if rows.missing:
        sections = {row.section for row in rows.missing}
        follow = {name for key in sections for name in FOLLOW.get(key, ())}
    problems: list[Problem] = []
    for name, messages in form.errors.items():
        if name in follow:
            continue
        path = find_path(name, rows)
        problems += [definition.make_problem(path, str(message)) for message in messages]
    return problems


def find_path(name: str, rows: SiteRows) -> str:
    """Return where in the file the value of a field of the form stands."""
    if name == NON_FIELD_ERRORS:
        return ""
    if name in BY_NAME:
        return BY_NAME[name].path
    if name.startswith(BEGIN):
        keys = [str(row.pk) if row else "" for row in rows.workloads]
        key = name.removeprefix(BEGIN)
        return f"workloads[{keys.index(key)}].sweep" if key in keys else "workloads"
    if name == "baseline":
        return "environments"
    part, _, place = name.rpartition("_")
    if part in PARTS and place.isdecimal():
        return f"metrics.further[{int(place) - 2}].{part}"
    return name


def launch_text(
    text: str | bytes, user: User, mapping: Names = NO_NAMES, *, make_missing: bool = False
) -> Experiment:
    """Store a file as an experiment and launch it. Raises BadDefinition; nothing is kept then.

    The cluster is asked for a visit by whoever calls this, once its transaction has ended.
    """
    with transaction.atomic():
        draft = save_text(text, user, mapping, make_missing=make_missing)
        try:
            lifecycle.launch(draft, user)
        except lifecycle.NotLaunchable as refusal:
            raise explain_refusal(parse_definition(text), refusal) from None
    return draft


def explain_refusal(definition: Definition, refusal: lifecycle.NotLaunchable) -> BadDefinition:
    """Return why an experiment is not launched, each reason at the place in its file."""
    return BadDefinition(
        definition.make_problem(BY_NAME[name].path if name in BY_NAME else name, message)
        for name, messages in refusal.messages.items()
        for message in messages
    )
