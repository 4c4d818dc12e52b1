"""Environments made, changed, inspected and deleted by the API, with the form of their pages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse
from django.urls import reverse
from ninja import Field, Query
from pydantic import AfterValidator

from dashboard.access.rights import changeable_row, visible_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.catalogue_schemas import EnvironmentSchema
from dashboard.api.experiment_routes import REFUSED, ExperimentSchema, Key, read_experiment
from dashboard.api.filled_forms import Line, fill_in
from dashboard.api.form_bodies import INVALID, RowKey, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.operation_schemas import OperationSchema
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
    refuse_now,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CATALOGUE, EXPERIMENTS
from dashboard.api.visibility_changes import VisibilityChange, change_row
from dashboard.catalogue import row_changes
from dashboard.planning.aa_tests import draft_against_itself
from dashboard.software.environment_forms import EnvironmentForm
from experiments.access import audit
from experiments.access.permissions import why_not_add, why_not_use, why_not_use_key_of
from experiments.models import Cluster, Environment, Experiment, Runtime
from experiments.notify import enqueue_tick
from experiments.presets.aa_drafts import CannotBeTested
from experiments.software import environments, inspections

router = Router(tags=["Catalogue"])
CHANGED: dict[int, Any] = {
    200: EnvironmentSchema,
    409: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}
BARE_METAL = "bare_metal"
RELATED = ("cluster", "runtime", "staged_image__image")


def _is_variable_name(name: str) -> str:
    if not name or "=" in name or name != name.strip() or len(name.splitlines()) > 1:
        raise ValueError("the name of a variable has no = and no blanks around it")
    return name


VariableName = Annotated[str, AfterValidator(_is_variable_name)]


class EnvironmentChange(VisibilityChange):
    """What is to be another of an environment; what is not sent stays."""

    name: str | None = None
    runtime: RowKey | str | None = Field(
        None,
        description="The kind of one of the cluster's runtimes, such as `apptainer`, or its id; "
        "null: bare metal.",
    )
    staged_image: RowKey | None = Field(
        None, description="One of `staged-images` that is ready and that the runtime starts."
    )
    mode: str | None = None
    python: str | None = None
    binds: list[Line] | None = None
    variables: dict[VariableName, Line] | None = None
    setup_lines: str | None = None


class NewEnvironment(EnvironmentChange):
    """An environment on a cluster; what is not sent is suggested as on its page."""

    cluster: RowKey


@router.post(
    "environments",
    auth=CATALOGUE,
    response={201: EnvironmentSchema, 403: ProblemSchema, 409: ProblemSchema, 422: ProblemSchema},
)
@idempotent
def make_environment(request: ApiRequest, new: NewEnvironment) -> HttpResponse:
    """Make an environment on a cluster."""
    refuse(why_not_add(request.user, Environment))
    values = new.model_dump(mode="json", exclude_unset=True)
    _find_runtime(values, Cluster.objects.visible_to(request.user).filter(pk=new.cluster).first())

    def make(*bound: Any) -> EnvironmentForm:
        if not bound:  # without an instance, whose defaults would count as typed
            return EnvironmentForm(initial=dict(values), user=request.user)
        instance = Environment(owner=request.user)
        return EnvironmentForm(bound[0], instance=instance, user=request.user)

    form = fill_in(make, values)
    require_valid(form)
    row = row_changes.store(form, request.user)
    return send_described(request, "environments", row.pk, status=HTTPStatus.CREATED)


@router.patch("environments/{pk}", auth=CATALOGUE, response=CHANGED)
def change_environment(request: ApiRequest, pk: Key, change: EnvironmentChange) -> HttpResponse:
    """Change an environment; experiments that were launched keep what they were launched with."""
    row = changeable_row(request, Environment, pk, *RELATED)

    def change_others(values: dict[str, Any]) -> None:
        refuse(why_not_use_key_of(request.user, row.cluster))
        refuse_now(environments.why_not_edit(row))
        _find_runtime(values, row.cluster)
        form = fill_in(
            lambda *bound: EnvironmentForm(*bound[:1], instance=row, user=request.user), values
        )
        require_valid(form)
        row_changes.store(form, request.user)

    change_row(request, row, change, change_others)
    return send_described(request, "environments", pk)


@router.delete(
    "environments/{pk}", auth=CATALOGUE, response={204: None, 409: ProblemSchema, **REFUSED}
)
def delete_environment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete an environment that no experiment names."""
    row = changeable_row(request, Environment, pk, "cluster")
    refuse_now(environments.why_not_delete(row))
    audit.delete(request.user, row)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


@router.post(
    "environments/{pk}/inspect",
    auth=CATALOGUE,
    throttle=HEAVY,
    response={202: OperationSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def inspect_environment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the cluster inspect the software of an environment."""
    row = visible_row(request, Environment, pk)
    refuse(why_not_use(request.user, row))
    with refusals_as_conflicts(inspections.NotRequested):
        operation = inspections.request_inspection(row, request.user)
    enqueue_tick(row.cluster_id)
    return send_described(request, "operations", operation.pk, status=HTTPStatus.ACCEPTED)


@router.post(
    "environments/{pk}/against-itself",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={
        200: ExperimentSchema,
        201: ExperimentSchema,
        409: ProblemSchema,
        422: ProblemSchema,
        **REFUSED,
    },
)
@idempotent
def draft_aa_test(
    request: ApiRequest,
    pk: Key,
    partition: Annotated[
        int | None, Query(ge=1, lt=2**63, description="The number of a partition; else any.")
    ] = None,
) -> HttpResponse:
    """Make the draft of an A/A test; 200 with the one that one has already."""
    refuse(why_not_add(request.user, Experiment))
    row = visible_row(request, Environment, pk, *RELATED)
    row = row.copy_of or row
    refuse(why_not_use(request.user, row.cluster))
    with refusals_as_conflicts(CannotBeTested):
        made = draft_against_itself(row, partition, request.user)
    answer = read_experiment(request, made.experiment.pk)
    if made.is_new:
        answer.status_code = HTTPStatus.CREATED
        answer["Location"] = reverse("api:read_experiment", args=[made.experiment.pk])
    return answer


def _find_runtime(values: dict[str, Any], cluster: Cluster | None) -> None:
    """Put the number of a runtime in the place of its kind. Raises Problem 422."""
    kind = values.get("runtime")
    if not isinstance(kind, str):
        return
    if kind in ("", BARE_METAL):
        values["runtime"] = None
        return
    rows = Runtime.objects.filter(cluster=cluster) if cluster else Runtime.objects.none()
    named = [row for row in rows if row.kind == kind]
    if len(named) == 1:
        values["runtime"] = named[0].pk
        return
    offered = ", ".join(f"{row.kind} ({row.pk}: {row.executable})" for row in rows) or "none"
    cause = "several" if named else "no"
    message = f"The cluster has {cause} “{kind[:50]}”: choose by number. There are: {offered}."
    raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, [FieldProblem("runtime", message)])
