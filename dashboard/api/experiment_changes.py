"""What else is done to experiments by the API: labels, visibility, archive, copies, extensions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse
from ninja import Field

from dashboard.access.visibility_forms import save_visibility
from dashboard.api.experiment_actions import CHANGED, find_own
from dashboard.api.experiment_routes import (
    REFUSED,
    ExperimentSchema,
    Key,
    find_experiment,
    read_experiment,
)
from dashboard.api.form_bodies import StrictBody, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS
from dashboard.api.visibility_changes import VisibilityChange, fill_in_visibility
from dashboard.execution.label_views import LabelForm
from experiments.access.permissions import why_not_add
from experiments.execution import extending, labels, lifecycle, pins, unsent_jobs
from experiments.execution.further_attempts import NotDone
from experiments.models import Experiment
from experiments.notify import enqueue_tick
from experiments.presets.experiment_copies import OF_OTHERS, NotCopied, is_copyable, make_copy

router = Router(tags=["Experiments"])
COMMA = "A tag has no comma: send each as a text of its own."
NONE_UNSENT = "There is no job to try again that the scheduler has not taken."
NOT_STOPPED = "Not stopped: that interim analysis is not the last one, or decided nothing."
Count = Annotated[int, Field(ge=1, lt=2**31)]


class ExperimentChange(VisibilityChange):
    """What is to be another; what is not sent stays."""

    question: str | None = None
    tags: list[str] | None = None
    notes: str | None = None


class ExtensionRequest(StrictBody):
    """By how much an experiment is extended."""

    repeats: Count = Field(description="Further repeats of each inconclusive configuration.")


class StopRequest(StrictBody):
    """The interim analysis whose verdicts shall stand."""

    analysis: Count = Field(description="The number of the latest interim analysis.")


@router.patch("experiments/{pk}", auth=EXPERIMENTS, response=CHANGED)
def change_experiment(request: ApiRequest, pk: Key, change: ExperimentChange) -> HttpResponse:
    """Change question, tags, notes and visibility; all of it, or nothing."""
    experiment = find_own(request, pk)
    label_form = _make_label_form(experiment, change)
    forms: list[Any] = [label_form]
    if change.changes_visibility:
        forms.append(fill_in_visibility(request, experiment, change))
    require_valid(*forms)
    with transaction.atomic():
        cleaned = label_form.cleaned_data
        sent = {name: cleaned[name] for name in cleaned if getattr(change, name) is not None}
        labels.relabel(experiment, request.user, **sent)
        for form in forms[1:]:
            save_visibility(form, request.user)
    return read_experiment(request, pk)


def _make_label_form(experiment: Experiment, change: ExperimentChange) -> LabelForm:
    if any("," in tag for tag in change.tags or ()):
        problems = [FieldProblem("tags", COMMA)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, COMMA, problems)
    tags = experiment.tags if change.tags is None else change.tags
    question, notes = change.question, change.notes
    return LabelForm(
        {
            "question": experiment.question if question is None else question,
            "notes": experiment.notes if notes is None else notes,
            "tags": ", ".join(tags),
        }
    )


@router.post("experiments/{pk}/pin", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def pin_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Keep the experiment's files on the cluster."""
    experiment = find_own(request, pk)
    if pins.pin(experiment, request.user):  # directories that are being removed
        enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)


@router.post("experiments/{pk}/unpin", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def unpin_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Leave the experiment's files to the cluster's rule again."""
    pins.unpin(find_own(request, pk), request.user)
    return read_experiment(request, pk)


@router.post("experiments/{pk}/archive", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def archive_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have lists leave an experiment out; its addresses still work."""
    experiment = find_own(request, pk)
    labels.archive(Experiment.objects.filter(pk=experiment.pk), request.user)
    return read_experiment(request, pk)


@router.post("experiments/{pk}/unarchive", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def unarchive_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have lists show an archived experiment again."""
    experiment = find_own(request, pk)
    labels.restore(Experiment.objects.filter(pk=experiment.pk), request.user)
    return read_experiment(request, pk)


@router.post(
    "experiments/{pk}/clone",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: ExperimentSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def clone_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Make a draft of one's own with the same definition."""
    refuse(why_not_add(request.user, Experiment))
    source = find_experiment(request, pk)
    if not is_copyable(source):
        raise PermissionDenied(OF_OTHERS)
    with refusals_as_conflicts(NotCopied):
        draft = make_copy(source, request.user)
    answer = read_experiment(request, draft.pk)
    answer.status_code = HTTPStatus.CREATED
    answer["Location"] = reverse("api:read_experiment", args=[draft.pk])
    return answer


@router.post("experiments/{pk}/extend", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def extend_experiment(request: ApiRequest, pk: Key, extension: ExtensionRequest) -> HttpResponse:
    """Add repeats to an experiment whose verdict is inconclusive, once."""
    experiment = find_own(request, pk)
    with refusals_as_conflicts(NotDone):
        extending.extend(experiment, extension.repeats, request.user)
    enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)


@router.post("experiments/{pk}/stop", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def stop_experiment(request: ApiRequest, pk: Key, stop: StopRequest) -> HttpResponse:
    """Keep the verdicts of the latest interim analysis, and end what is alive."""
    experiment = find_own(request, pk)
    if not lifecycle.stop(experiment, stop.analysis, request.user):
        raise Problem(HTTPStatus.CONFLICT, NOT_STOPPED)
    enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)


@router.post("experiments/{pk}/retry", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def retry_unsent_jobs(request: ApiRequest, pk: Key) -> HttpResponse:
    """Plan the next attempt of each job that the scheduler has not taken."""
    experiment = find_own(request, pk)
    with refusals_as_conflicts(NotDone):
        count = unsent_jobs.retry_unsent(experiment, request.user)
    if not count:
        raise Problem(HTTPStatus.CONFLICT, NONE_UNSENT)
    enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)
