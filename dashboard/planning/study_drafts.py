"""Studies from files: each entry fills in the form of an experiment; all are stored, or none.

None of these functions asks whether `user` may make studies: whoever calls them does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from django.db import transaction

from dashboard.planning.definition_drafts import (
    NO_NAMES,
    Applied,
    Names,
    apply_definition,
    check_text,
    explain_refusal,
    launch_text,
    save_text,
)
from experiments.access import audit
from experiments.access.permissions import list_groups_to_share_with
from experiments.definitions.definition import Definition
from experiments.definitions.definition_problems import BadDefinition, Problem, sort_problems
from experiments.definitions.site_rows import Missing
from experiments.definitions.study_reading import StudyDefinition, is_study, parse_study
from experiments.execution import lifecycle
from experiments.models import Experiment, Study, User
from experiments.models.visibility import Visibility
from experiments.notify import enqueue_tick
from experiments.planning.forecasts import Forecast
from experiments.studies.described_studies import (
    describe_study,
    keep_study_text,
    rewrite_study_text,
)
from experiments.studies.study_members import store_members

SUMMED = (
    "combinations",
    "blocks",
    "jobs",
    "runs",
    "gpu_hours_at_most",
    "node_hours_at_most",
    "further_gpu_hours",
)


@dataclass(frozen=True)
class AppliedStudy:
    """A file that has filled in a form for each experiment, with all that stands against it."""

    entries: tuple[Applied, ...]
    problems: tuple[Problem, ...]
    definition: StudyDefinition | None = None

    @property
    def is_valid(self) -> bool:
        return bool(self.entries) and not self.problems

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Return the names that may be mapped to rows of this site, each once."""
        rows = {
            (row.section, row.name): row for entry in self.entries for row in entry.missing[::-1]
        }
        return tuple(rows.values())

    @property
    def forecast(self) -> Forecast | None:
        """Return the most that all experiments together will use; None where one is not known."""
        forecasts = [entry.forecast for entry in self.entries]
        known = [row for row in forecasts if row is not None]
        if not known or len(known) < len(forecasts):
            return None
        totals = {
            row.name: (sum if row.name in SUMMED else max)(
                getattr(forecast, row.name) for forecast in known
            )
            for row in fields(Forecast)
        }
        return Forecast(**totals)

    @property
    def warnings(self) -> list[str]:
        """Return what is to be known before a launch, with the place of its entry."""
        return [
            f"experiments[{number}]: {warning}"
            for number, entry in enumerate(self.entries)
            for warning in entry.warnings
        ]


def check_study_text(
    text: str | bytes, user: User, mapping: Names = NO_NAMES, *, make_missing: bool = False
) -> AppliedStudy:
    """Return what stands against a file, and the forms that it fills in. Nothing is stored."""
    try:
        definition = parse_study(text)
    except BadDefinition as error:
        return AppliedStudy((), error.problems)
    with transaction.atomic():
        applied = apply_study(definition, user, mapping, make_missing=make_missing)
        transaction.set_rollback(True)
    return applied


def apply_study(
    definition: StudyDefinition,
    user: User,
    mapping: Names = NO_NAMES,
    *,
    make_missing: bool = False,
) -> AppliedStudy:
    """Return the forms of all experiments, filled in and judged. To be called in a transaction."""
    entries: list[Applied] = []
    problems: list[Problem] = []
    for number, row in enumerate(definition.experiments):
        applied = apply_definition(row, user, mapping, make_missing=make_missing)
        entries.append(applied)
        problems += [definition.lead_back(number, problem) for problem in applied.problems]
    return AppliedStudy(tuple(entries), sort_problems(problems), definition)


def save_study_text(
    text: str | bytes, user: User, mapping: Names = NO_NAMES, *, make_missing: bool = False
) -> Study:
    """Store a file as a study of drafts. Raises BadDefinition; nothing is kept then."""
    with transaction.atomic():
        study, _ = _store(parse_study(text), user, mapping, make_missing=make_missing)
    return study


def launch_study_text(
    text: str | bytes, user: User, mapping: Names = NO_NAMES, *, make_missing: bool = False
) -> Study:
    """Store a file as a study and launch all its experiments. Raises BadDefinition as above.

    Clusters are asked for a visit by whoever calls this, once its transaction has ended.
    """
    definition = parse_study(text)
    problems: list[Problem] = []
    with transaction.atomic():
        study, drafts = _store(definition, user, mapping, make_missing=make_missing)
        for number, draft in enumerate(drafts):
            with _lead_back(definition, number, problems) as entry:
                try:
                    lifecycle.launch(draft, user)
                except lifecycle.NotLaunchable as refusal:
                    raise explain_refusal(entry, refusal) from None
        if problems:
            raise BadDefinition(problems)
    return study


def check_file(
    text: str | bytes, user: User, mapping: Names = NO_NAMES, *, make_missing: bool = False
) -> Applied | AppliedStudy:
    """Return what stands against the file of an experiment, or of a study. Nothing is stored."""
    check = check_study_text if is_study(text) else check_text
    return check(text, user, mapping, make_missing=make_missing)


def store_file(
    text: str | bytes,
    user: User,
    mapping: Names = NO_NAMES,
    *,
    launch: bool,
    make_missing: bool = False,
) -> Experiment | Study:
    """Store the file of an experiment, or of a study; launch all of it, and visit its clusters.

    Raises BadDefinition; nothing is kept then.
    """
    of_study = is_study(text)
    if launch:
        store: Any = launch_study_text if of_study else launch_text
    else:
        store = save_study_text if of_study else save_text
    made: Experiment | Study = store(text, user, mapping, make_missing=make_missing)
    for cluster in list_clusters(made) if launch else ():
        enqueue_tick(cluster)
    return made


def list_clusters(made: Study | Experiment) -> list[int]:
    """Return the keys of the clusters on which something was launched, in one order."""
    if isinstance(made, Experiment):
        return [made.cluster_id]
    return sorted(set(made.experiments.order_by().values_list("cluster", flat=True)))


@contextmanager
def _lead_back(
    definition: StudyDefinition, number: int, problems: list[Problem]
) -> Iterator[Definition]:
    """Collect what is wrong with one entry, and go on."""
    try:
        yield definition.experiments[number]
    except BadDefinition as error:
        problems += [definition.lead_back(number, problem) for problem in error.problems]


def _store(
    definition: StudyDefinition, user: User, mapping: Names, *, make_missing: bool
) -> tuple[Study, list[Experiment]]:
    applied = apply_study(definition, user, mapping, make_missing=make_missing)
    if applied.problems:
        raise BadDefinition(applied.problems)
    experiments = [entry.form.save() for entry in applied.entries if entry.form]
    study = Study(
        owner=user,
        name=definition.name,
        question=definition.question,
        notes=definition.notes,
        visibility=_choose_visibility(definition),
    )
    with audit.log_change(user, study):
        study.save()
        if study.visibility == Visibility.GROUPS:
            offered = list_groups_to_share_with(user, Experiment(owner=user))
            study.groups.set(offered.filter(name__in=definition.groups))
    store_members(study, experiments)
    text = definition.text
    if any(mapping.values()):
        text = rewrite_study_text(text, describe_study(study, experiments))
    keep_study_text(study, experiments, text)
    return study, experiments


def _choose_visibility(definition: StudyDefinition) -> str:
    """Return who can view the study: no link opens one, so that public means all members."""
    if definition.visibility == Visibility.PUBLIC:
        return Visibility.MEMBERS
    default: str = Study._meta.get_field("visibility").get_default()
    return definition.visibility or default
