"""One action on many experiments: rights are asked of each, and none stops the others."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from ninja import Field, Schema

from dashboard.api.experiment_routes import REFUSED
from dashboard.api.form_bodies import StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS
from experiments.execution import bulk_changes, labels
from experiments.execution.bulk_changes import Outcome
from experiments.models import Experiment

router = Router(tags=["Experiments"])
MOST_SELECTED = 10_000
NO_TAGS = "Nothing was tagged: send at least one tag."
WITHOUT = "Tags are sent with “tag” and “untag” alone."
RowKey = Annotated[int, Field(ge=1, lt=2**63)]


class SelectionRequest(StrictBody):
    """Which experiments, and what is done to each of them."""

    action: Literal["tag", "untag", "archive", "unarchive", "cancel"]
    experiments: list[RowKey] = Field(
        min_length=1, max_length=MOST_SELECTED, description="Their numbers."
    )
    tags: list[str] = Field([], description="Of “tag” and “untag”.")


class OutcomeSchema(Schema):
    """To how many experiments it was done, and to how many not, by the reason."""

    done: int
    unchanged: int
    forbidden: int
    missing: int
    failed: int
    sentence: str


@router.post(
    "experiments/selected",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: OutcomeSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def change_selected_experiments(request: ApiRequest, selection: SelectionRequest) -> OutcomeSchema:
    """Tag, untag, archive, unarchive or cancel many experiments; each by itself."""
    keys = list(dict.fromkeys(selection.experiments))
    tags = _read_tags(selection)
    if selection.action == "archive":
        return _describe(bulk_changes.archive(keys, request.user), "Archived", "already archived")
    if selection.action == "unarchive":
        return _describe(bulk_changes.restore(keys, request.user), "Restored", "not archived")
    if selection.action == "cancel":
        outcome = bulk_changes.cancel(keys, request.user)
        return _describe(outcome, "Cancelled", "with nothing left to cancel")
    is_added = selection.action == "tag"
    change = labels.add_tags if is_added else labels.remove_tags
    outcome = bulk_changes.change_labels(
        keys, request.user, lambda rows, by: change(rows, by, tags)
    )
    if is_added:
        unchanged = f"already tagged, or with {Experiment.MOST_TAGS} tags"
        return _describe(outcome, "Tagged", unchanged)
    return _describe(outcome, "Removed the tag from", "without it")


def _read_tags(selection: SelectionRequest) -> list[str]:
    is_about_tags = selection.action in ("tag", "untag")
    problem = WITHOUT if selection.tags and not is_about_tags else ""
    tags: list[str] = []
    if is_about_tags:
        try:
            tags = labels.parse_tags(", ".join(selection.tags))
        except ValueError as error:
            problem = f"Nothing was tagged: {error}"
        else:
            problem = "" if tags else NO_TAGS
    if any("," in tag for tag in selection.tags):
        problem = "A tag has no comma: send each as a text of its own."
    if problem:
        problems = [FieldProblem("tags", problem)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, problem, problems)
    return tags


def _describe(outcome: Outcome, verb: str, unchanged: str) -> OutcomeSchema:
    return OutcomeSchema(**vars(outcome), sentence=outcome.describe(verb, unchanged))
