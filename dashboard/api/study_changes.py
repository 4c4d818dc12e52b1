"""What is done to studies by the API, by the functions of the pages."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from django.db import transaction
from django.http import HttpResponse
from ninja import Field

from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import RowKey, require_offered_groups, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.study_routes import StudySchema, find_study, read_study
from dashboard.api.tokens import EXPERIMENTS
from dashboard.api.visibility_changes import VisibilityChange, choose_visibility
from dashboard.studies.study_forms import StudyForm
from experiments.access import audit
from experiments.access.permissions import why_not_change
from experiments.models import Study, User
from experiments.studies.study_actions import (
    Done,
    NotAllLaunched,
    cancel_all,
    launch_drafts,
    pause_all,
    resume_all,
)
from experiments.studies.study_members import NotPutIn, put_in, take_out

router = Router(tags=["Studies"])
CHANGED: dict[int, Any] = {
    200: StudySchema,
    409: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}
Keys = Annotated[list[RowKey], Field(max_length=Study.MOST_EXPERIMENTS)]


class StudyChange(VisibilityChange):
    """What is to be another; what is not sent stays."""

    name: str | None = None
    question: str | None = None
    notes: str | None = None
    put_in: Keys = Field([], description="Experiments that are put in at its end.")
    take_out: Keys = Field([], description="Experiments that leave it; they stay what they are.")


@router.patch("studies/{pk}", auth=EXPERIMENTS, response=CHANGED)
def change_study(request: ApiRequest, pk: Key, change: StudyChange) -> HttpResponse:
    """Change what a study says of itself, and what is in it; all of it, or nothing."""
    study = find_own_study(request, pk)
    form = _make_form(request, study, change)
    require_valid(form)
    with transaction.atomic():
        with audit.log_change(request.user, form.instance):
            form.save()
        take_out(study, change.take_out, request.user)
        try:
            put_in(study, change.put_in, request.user)
        except NotPutIn as reason:
            problems = [FieldProblem("put_in", str(reason))]
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(reason), problems) from reason
    return read_study(request, pk)


def _make_form(request: ApiRequest, study: Study, change: StudyChange) -> StudyForm:
    values = {
        name: getattr(study, name) if getattr(change, name) is None else getattr(change, name)
        for name in ("name", "question", "notes")
    }
    # A row of its own: a form that is refused has changed its instance.
    form = StudyForm(
        values | choose_visibility(study, change),
        instance=Study.objects.get(pk=study.pk),
        user=request.user,
    )
    require_offered_groups(form, change.groups)
    return form


@router.delete("studies/{pk}", auth=EXPERIMENTS, response={204: None, **REFUSED})
def delete_study(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete a study; its experiments stay."""
    audit.delete(request.user, find_own_study(request, pk))
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


@router.post("studies/{pk}/launch", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def launch_study(request: ApiRequest, pk: Key) -> HttpResponse:
    """Launch all drafts of a study that are one's own, or none."""
    try:
        return _do(request, pk, launch_drafts, "There is no draft of yours in it.")
    except NotAllLaunched as refused:
        raise Problem(HTTPStatus.CONFLICT, f"Nothing was launched. {refused}") from refused


@router.post("studies/{pk}/cancel", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def cancel_study(request: ApiRequest, pk: Key) -> HttpResponse:
    """End what is alive of a study; runs that have ended keep their numbers, and drafts stay."""
    return _do(request, pk, cancel_all, "")


@router.post("studies/{pk}/pause", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def pause_study(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have nothing new of a study sent; what has been sent goes on."""
    return _do(request, pk, pause_all, "Nothing of it that is yours can be paused.")


@router.post("studies/{pk}/continue", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def continue_study(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the jobs of a study's paused experiments sent again."""
    return _do(request, pk, resume_all, "Nothing of it that is yours is paused.")


def _do(
    request: ApiRequest, pk: int, change: Callable[[Study, User], Done], why_nothing: str
) -> HttpResponse:
    """Change a study's experiments; where there was nothing to change, say so by 409."""
    done = change(find_own_study(request, pk), request.user)
    if not done.count and why_nothing:
        raise Problem(HTTPStatus.CONFLICT, why_nothing)
    return read_study(request, pk)


def find_own_study(request: ApiRequest, pk: int) -> Study:
    """Return a study that one may change. Raises Http404 or Problem 403."""
    study = find_study(request, pk)
    refuse(why_not_change(request.user, study))
    return study
