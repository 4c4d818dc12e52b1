"""Experiments, runs and jobs are changed by the API as by the pages' buttons."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.access.visibility_forms import make_visibility_form, save_visibility
from dashboard.api import experiment_changes
from dashboard.api.experiment_changes import COMMA
from dashboard.api.form_bodies import NO_GROUPS
from experiments.models import Event, Experiment, Job, Run, User
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import (
    NOON,
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


def send(
    client: Client,
    owner: User,
    path: str,
    body: Any = None,
    status: int = 200,
    *,
    method: str = "post",
    **headers: str,
) -> Any:
    headers |= log_in(owner, "experiments")
    call = getattr(client, method)
    sent = {} if body is None else {"data": body, "content_type": "application/json"}
    answer = call(f"/api/v1/{path}", headers=headers, **sent)
    assert answer.status_code == status, answer.content
    return answer.json()


def change(client: Client, row: Experiment, body: Any, status: int = 200) -> Any:
    return send(client, row.owner, f"experiments/{row.pk}", body, status, method="patch")


def test_what_is_not_sent_stays(client: Client) -> None:
    row = ExperimentFactory(question="Before?", notes="kept", tags=["old"])
    assert change(client, row, {"question": "After?"})["question"] == "After?"
    made = change(client, row, {"tags": ["a", "b"], "visibility": "members"})
    assert (made["notes"], made["tags"], made["visibility"]) == ("kept", ["a", "b"], "members")
    assert Event.objects.filter(experiment=row, what="visibility changed").count() == 1
    assert change(client, row, {"tags": [], "notes": ""})["tags"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"question": ""}, "required"),
        ({"question": "x" * 301}, "300"),
        ({"notse": "x"}, "Did you mean “notes”?"),
        ({"tags": ["a,b"]}, COMMA),
        ({"visibility": "everyone"}, "private"),
        ({"visibility": ""}, "private"),
        ({"visibility": "groups"}, "groups"),
        ({"groups": [4_000_000]}, NO_GROUPS),
        ({"question": 7}, "string"),
        ([], "dict"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_changed(
    client: Client, body: Any, words: str
) -> None:
    row = ExperimentFactory(question="Before?", visibility="private")
    if isinstance(body, dict):
        body = {"notes": "new", "visibility": "members"} | body
    problems = change(client, row, body, 422)["problems"]
    assert any(words in problem["message"] for problem in problems), problems
    row.refresh_from_db()
    assert (row.question, row.notes, row.visibility) == ("Before?", "", "private")


def test_what_happened_since_a_form_was_opened_stays() -> None:
    row = LaunchedFactory()
    form = make_visibility_form(Experiment)(
        {"visibility": "members"}, instance=Experiment.objects.get(pk=row.pk), user=row.owner
    )
    assert form.is_valid()
    Experiment.objects.filter(pk=row.pk).update(cancelled_at=NOON)
    save_visibility(form, row.owner)
    row.refresh_from_db()
    assert (row.visibility, row.cancelled_at) == ("members", NOON)


def test_files_are_pinned_and_an_experiment_archived_and_back(client: Client) -> None:
    row = LaunchedFactory()
    for action, column, is_set in (
        ("pin", "pinned_at", True),
        ("unpin", "pinned_at", False),
        ("archive", "archived_at", True),
        ("unarchive", "archived_at", False),
    ):
        for _ in range(2):  # again, it changes nothing and is no error
            send(client, row.owner, f"experiments/{row.pk}/{action}")
            row.refresh_from_db()
            assert (getattr(row, column) is not None) == is_set, action


def test_a_copy_is_a_draft_of_ones_own_and_made_once_for_a_key(client: Client) -> None:
    row, reader = LaunchedFactory(visibility="members"), UserFactory()
    row.cluster.visibility = "members"
    row.cluster.save()
    made = [
        send(
            client,
            reader,
            f"experiments/{row.pk}/clone",
            status=201,
            **{"Idempotency-Key": "once"},
        )
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert (made[0]["is_draft"], made[0]["copied_from"]) == (True, row.pk)
    assert made[0]["owner"] != row.owner.username
    assert Experiment.objects.filter(copied_from=row).count() == 1


def test_what_cannot_be_done_now_is_said(client: Client) -> None:
    row = LaunchedFactory()
    for action, body in (("extend", {"repeats": 3}), ("stop", {"analysis": 1}), ("retry", None)):
        detail = send(client, row.owner, f"experiments/{row.pk}/{action}", body, 409)["detail"]
        assert detail.endswith("."), action
    assert not Experiment.objects.filter(pk=row.pk).exclude(cancelled_at=None).exists()
    for body in ({"repeats": 0}, {"repeats": 2**40}, {"repeats": "many"}, {}):
        send(client, row.owner, f"experiments/{row.pk}/extend", body, 422)


def test_a_run_is_excluded_with_a_cause_and_included_again(client: Client) -> None:
    run = RunFactory(state=Run.State.SUCCEEDED)
    owner, path = run.experiment.owner, f"runs/{run.uid}"
    for why in ("", " \n ", "x" * 1001):
        send(client, owner, f"{path}/exclude", {"why": why}, 422)
    send(client, owner, f"{path}/include", {"why": "It was fine."}, 409)
    answer = send(client, owner, f"{path}/exclude", {"why": "The node\nwas throttled."})
    assert answer["state"] == "excluded"
    assert Event.objects.filter(run=run, why="The node was throttled.").exists()
    send(client, owner, f"{path}/exclude", {"why": "Again."}, 409)
    assert send(client, owner, f"{path}/include", {"why": "No."})["state"] == "succeeded"


def test_a_failed_job_is_tried_again_once(client: Client) -> None:
    job = JobFactory(state=Job.State.FAILED, experiment=LaunchedFactory())
    RunFactory(job=job, experiment=job.experiment, state=Run.State.FAILED)
    owner = job.experiment.owner
    send(client, owner, f"jobs/{job.uid}/retry")
    job.refresh_from_db()
    assert (job.state, job.attempt) == (Job.State.PLANNED, 2)
    send(client, owner, f"jobs/{job.uid}/retry", status=409)
    for action in ("repair", "any-node", "collect"):
        assert send(client, owner, f"jobs/{job.uid}/{action}", status=409)["detail"]


def test_those_of_others_are_refused_and_hidden_ones_are_not_there(client: Client) -> None:
    stranger = UserFactory()
    for visibility, status in (("members", 403), ("private", 404)):
        run = RunFactory(job__experiment=LaunchedFactory(visibility=visibility))
        row = run.experiment
        for action in ("pin", "unpin", "archive", "unarchive", "retry"):
            send(client, stranger, f"experiments/{row.pk}/{action}", status=status)
        send(client, stranger, f"experiments/{row.pk}", {"notes": ""}, status, method="patch")
        send(client, stranger, f"runs/{run.uid}/exclude", {"why": "x"}, status)
        send(client, stranger, f"jobs/{run.job.uid}/retry", status=status)
        row.refresh_from_db()
        assert (row.archived_at, row.pinned_at) == (None, None)


def test_what_is_deleted_while_it_is_changed_is_no_mistake_of_the_site(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = ExperimentFactory()
    make_form = experiment_changes._make_label_form

    def delete_first(experiment: Experiment, change: Any) -> Any:
        Experiment.objects.get(pk=experiment.pk).delete()
        return make_form(experiment, change)

    monkeypatch.setattr(experiment_changes, "_make_label_form", delete_first)
    answer = client.patch(
        f"/api/v1/experiments/{draft.pk}",
        {"question": "And now?"},
        content_type="application/json",
        headers=log_in(draft.owner, "experiments"),
    )
    assert (answer.status_code, answer["Content-Type"]) == (409, "application/problem+json")
    assert "deleted" in answer.json()["detail"]


def test_two_who_change_other_labels_at_once_both_have_theirs(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ExperimentFactory(question="Before?", notes="", tags=[])
    judge = experiment_changes.require_valid

    def change_meanwhile(*forms: Any) -> None:
        Experiment.objects.filter(pk=row.pk).update(notes="from another program")
        judge(*forms)

    monkeypatch.setattr(experiment_changes, "require_valid", change_meanwhile)
    made = change(client, row, {"tags": ["mine"]})
    assert (made["tags"], made["notes"]) == (["mine"], "from another program")


def test_a_copy_names_its_address(client: Client) -> None:
    row = ExperimentFactory()
    answer = client.post(
        f"/api/v1/experiments/{row.pk}/clone", headers=log_in(row.owner, "experiments")
    )
    assert answer["Location"] == f"/api/v1/experiments/{answer.json()['id']}"
