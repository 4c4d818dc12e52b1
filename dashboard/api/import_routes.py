"""Experiments that come from elsewhere: logs of others, and bundles of another Tare."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from ninja import Schema

from dashboard.api.experiment_routes import (
    REFUSED,
    ExperimentSchema,
    describe_experiments,
    read_experiment,
)
from dashboard.api.form_bodies import INVALID, list_form_problems, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import (
    FieldProblem,
    FieldProblemSchema,
    Problem,
    ProblemSchema,
    refuse,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.sent_parts import FILE, TEXT, Json, describe_parts, require_parts
from dashboard.api.tokens import EXPERIMENTS
from dashboard.imports.bundle_import_views import BundleForm
from dashboard.imports.import_forms import ImportForm
from dashboard.uploads import was_too_large
from experiments.access.permissions import why_not_add
from experiments.imports import ImportProblem
from experiments.imports.imported_bundles import BundleKnown, Imported
from experiments.imports.imported_runs import AlreadyImported
from experiments.models import Experiment

router = Router(tags=["Imports"])
LOGS: dict[str, Json] = {
    "archive": FILE,
    "question": TEXT,
    "machine": TEXT,
    "margin": TEXT | {"description": "In per cent, such as 2.", "examples": ["2"]},
    "metric": TEXT | {"description": "The verdict is about it."},
    "visibility": TEXT,
    "environment": TEXT | {"description": "The place in the paths that names environments."},
    "baseline": TEXT | {"description": "The name of an environment."},
}
BUNDLE: dict[str, Json] = {"bundle": FILE, "visibility": TEXT}
NOTHING = "Nothing was imported."
HIDDEN = (
    "The runs of this bundle are on this site already, in an experiment that you may not view. Its "
    "owner or a site administrator can share it with you. " + NOTHING
)
STORED: dict[int, Any] = {
    409: ProblemSchema,
    415: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}


class PlaceInPaths(Schema):
    """A part of the paths of runs that may tell environments apart."""

    environment: int
    names: list[str]


class ImportedConfiguration(Schema):
    """A workload at a scale, with its runs in each environment."""

    workload: str
    scale: str
    runs: dict[str, int]


class LogsSchema(Schema):
    """What is in an archive of logs."""

    valid: bool
    problems: list[FieldProblemSchema]
    places: list[PlaceInPaths]
    environment: int | None
    baseline: str
    configurations: list[ImportedConfiguration]
    failed_runs: list[str]
    notes: list[str]


class ImportedBundle(Schema):
    """The experiment of a bundle, and where its comparison here is another than the printed one."""

    experiment: ExperimentSchema
    differences: list[str]


def _read_form(request: ApiRequest) -> ImportForm:
    refuse(why_not_add(request.user, Experiment))
    require_parts(request, LOGS)
    data = request.POST.copy()
    data.setdefault("margin", "2")
    data.setdefault("metric", str(ImportForm.base_fields["metric"].initial))
    data.setdefault("visibility", Experiment.Visibility.PRIVATE)
    return ImportForm(data, request.FILES, too_large=was_too_large(request))


@router.post(
    "experiments/import/check",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: LogsSchema, 415: ProblemSchema, 422: ProblemSchema, **REFUSED},
    openapi_extra=describe_parts(LOGS, required=("archive",)),
)
def check_logs(request: ApiRequest) -> LogsSchema:
    """Say what is in an archive of logs, and what stands against its import; nothing is stored."""
    form = _read_form(request)
    valid = form.is_valid()
    if "archive" not in request.FILES:
        require_valid(form)
    names = form.place.values if form.place else ()
    return LogsSchema(
        valid=valid,
        problems=[vars(row) for row in list_form_problems(form)],  # type: ignore[misc]
        places=[
            PlaceInPaths(environment=row.index, names=list(row.values)) for row in form.positions
        ],
        environment=form.place.index if form.place else None,
        baseline=form.chosen_baseline,
        configurations=[
            ImportedConfiguration(
                workload=row.workload,
                scale=row.scale,
                runs=dict(zip(names, row.runs, strict=True)),
            )
            for row in form.configurations
        ],
        failed_runs=form.failed,
        notes=form.notes if form.place else [],
    )


@router.post(
    "experiments/import",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: ExperimentSchema, **STORED},
    openapi_extra=describe_parts(LOGS, required=("archive", "question")),
)
@idempotent
def import_logs(request: ApiRequest) -> HttpResponse:
    """Make an experiment of an archive of logs."""
    form = _read_form(request)
    require_valid(form)
    _require_choices(form)
    try:
        stored = form.store(request.user)
    except AlreadyImported as refusal:
        raise Problem(HTTPStatus.CONFLICT, f"{refusal}. {NOTHING}") from refusal
    except ImportProblem as problem:
        raise _refuse_file("archive", problem) from problem
    answer = read_experiment(request, stored.pk)
    answer.status_code = HTTPStatus.CREATED
    answer["Location"] = reverse("api:read_experiment", args=[stored.pk])
    return answer


def _require_choices(form: ImportForm) -> None:
    """Raise Problem for a choice that there is not, in whose place a page would take another.

    A page shows what it took; a program would not look.
    """
    place, problems = form.place, []
    asked, baseline = form.cleaned_data["environment"], form.cleaned_data["baseline"]
    if place and asked is not None and asked != place.index:
        places = ", ".join(str(row.index) for row in form.positions)
        problems.append(FieldProblem("environment", f"There is no such place; there are {places}."))
    elif place and baseline and baseline not in place.values:
        names = ", ".join(place.values)
        problems.append(FieldProblem("baseline", f"There is no such environment; there: {names}."))
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)


def _refuse_file(field: str, problem: ImportProblem) -> Problem:
    text = f"{problem} {NOTHING}"
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, text, [FieldProblem(field, text)])


@router.post(
    "bundles",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: ImportedBundle, **STORED},
    openapi_extra=describe_parts(BUNDLE, required=("bundle",)),
)
@idempotent
def import_bundle(request: ApiRequest) -> HttpResponse:
    """Make an experiment of a bundle that another Tare has written, once all of it was checked."""
    refuse(why_not_add(request.user, Experiment))
    require_parts(request, BUNDLE)
    data = request.POST.copy()
    data.setdefault("visibility", Experiment.Visibility.PRIVATE)
    form = BundleForm(data, request.FILES, too_large=was_too_large(request))
    require_valid(form)
    try:
        imported = form.store(request.user)
    except BundleKnown as known:
        raise Problem(HTTPStatus.CONFLICT, _explain_known(request, known)) from known
    except ImportProblem as problem:
        raise _refuse_file("bundle", problem) from problem
    described = _describe_imported(request, imported)
    return JsonResponse(described.model_dump(mode="json"), status=HTTPStatus.CREATED)


def _explain_known(request: ApiRequest, known: BundleKnown) -> str:
    visible = Experiment.objects.visible_to(request.user).filter(pk=known.experiment.pk).first()
    if visible is None:
        return HIDDEN
    return (
        f"The runs of this bundle are on this site already, as experiment {visible.pk}: "
        f"“{visible.question}”. {NOTHING}"
    )


def _describe_imported(request: ApiRequest, imported: Imported) -> ImportedBundle:
    rows = Experiment.objects.filter(pk=imported.experiment.pk).without_plan()
    row = rows.select_related("cluster", "partition", "owner")
    (described,) = describe_experiments(list(row), request.user)
    return ImportedBundle(experiment=described, differences=list(imported.differences))
