"""Bundles at a service with Zenodo's API: once, whatever fails on the way, and said in words."""

from __future__ import annotations

import contextlib
import io
import threading
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db.models.functions import Now
from pytest_django import Settings

from dashboard.comparisons import bundle_files
from experiments.citations import Author, save_citation
from experiments.deposits import (
    NotDone,
    deposit_api,
    deposit_bundle,
    depositing,
    forget_deposit,
    list_due_deposits,
    list_missing,
    request_deposit,
    stop_deposit,
)
from experiments.deposits.deposit_api import DepositService
from experiments.models import AuditEntry, Citation, Deposit, DepositToken, Experiment
from experiments.models.database_time import database_now
from tests.deposit_service import (
    TOKEN,
    Conversation,
    Fault,
    Service,
    answer,
    answer_a_gigabyte,
    cut_before_it_is_read,
    cut_in_the_middle,
    do_and_answer,
    do_and_cut,
    refuse_early,
    serve_deposits,
)
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import AdminFactory

pytestmark = pytest.mark.django_db
CREATE = "POST /api/deposit/depositions"
UPLOAD = "PUT /api/files/"
DESCRIBE = "PUT /api/deposit/depositions/"
AUTHOR = Author("Curie", "Marie", "0000-0002-1825-0097", "Sorbonne")


@pytest.fixture
def service(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(bundle_files, "draw", lambda *_, **__: b"<svg/>")
    with serve_deposits() as running:
        settings.DEPOSIT_ADDRESS = running.address
        settings.SITE_ADDRESS = "https://tare.example.org"
        yield running


@pytest.fixture
def experiment(service: Service) -> Experiment:
    row = launch(repeats=3)
    end_runs(row)
    save_citation(row, row.owner, title="A title", licence="CC-BY-4.0", authors=[AUTHOR])
    DepositToken.objects.create(owner=row.owner, service=service.address, token=TOKEN)
    return Experiment.objects.get(pk=row.pk)


def begin(experiment: Experiment, *, publishes: bool = False) -> Deposit:
    row = request_deposit(experiment, experiment.owner, publishes=publishes)
    deposit_bundle(row.pk)
    return read(row)


def read(row: Deposit) -> Deposit:
    return Deposit.objects.get(pk=row.pk)


def go_on(row: Deposit) -> Deposit:
    """Let the time pass for which it waits, and have a worker go on."""
    past = database_now() - timedelta(hours=1)
    Deposit.objects.filter(pk=row.pk).update(retry_at=past)
    Deposit.objects.filter(pk=row.pk).exclude(create_sent_at=None).update(create_sent_at=past)
    assert list_due_deposits() == [row.pk]
    deposit_bundle(row.pk)
    return read(row)


def test_a_draft_has_the_bundle_and_what_is_stated(
    experiment: Experiment, service: Service
) -> None:
    row = begin(experiment)
    assert (row.state, row.doi, row.problem) == ("draft", "10.5281/zenodo.1000", "")
    (there,) = service.depositions.values()
    assert there["submitted"] is False
    metadata = there["metadata"]
    assert metadata["title"] == "A title"
    assert metadata["creators"] == [
        {"name": "Curie, Marie", "orcid": "0000-0002-1825-0097", "affiliation": "Sorbonne"}
    ]
    assert (metadata["license"], metadata["upload_type"]) == ("cc-by-4.0", "dataset")
    assert metadata["related_identifiers"][0]["identifier"] == (
        f"https://tare.example.org/experiments/{experiment.pk}/"
    )
    ((name, content),) = service.files["bucket-1000"].items()
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        (cff,) = (entry for entry in bundle.namelist() if entry.endswith("CITATION.cff"))
        assert b'doi: "10.5281/zenodo.1000"' in bundle.read(cff)
    assert name.endswith("bundle.zip")
    assert row.sent_bytes == row.total_bytes == len(content)
    citation = Citation.objects.get()
    assert (citation.doi, citation.doi_published_at) == (row.doi, None)


def test_it_is_published_at_once_or_later_and_never_twice(
    experiment: Experiment, service: Service
) -> None:
    row = begin(experiment)
    row = begin(experiment, publishes=True)
    assert (row.state, row.page != "") == ("published", True)
    assert service.count(UPLOAD) == 1  # the draft that somebody has looked at is what is published
    assert Citation.objects.get().doi_published_at
    with pytest.raises(NotDone, match=r"published already: 10\.5281/zenodo\.1000"):
        begin(experiment, publishes=True)
    assert len(service.depositions) == 1
    what = AuditEntry.objects.filter(kind="deposit").order_by("pk").values_list("what", flat=True)
    assert list(what) == ["asked for a deposit", "asked for a deposit", "published"]


def test_what_was_stated_anew_is_what_is_published(
    experiment: Experiment, service: Service
) -> None:
    begin(experiment)
    authors = [AUTHOR, Author("Meitner", "Lise")]
    save_citation(experiment, experiment.owner, title="Mended", licence="CC0-1.0", authors=authors)
    experiment = Experiment.objects.get(pk=experiment.pk)
    row = begin(experiment, publishes=True)
    (there,) = service.depositions.values()
    assert (row.state, there["submitted"]) == ("published", True)
    metadata = there["metadata"]
    assert (metadata["title"], metadata["license"]) == ("Mended", "cc0-1.0")
    assert [creator["name"] for creator in metadata["creators"]] == [
        "Curie, Marie",
        "Meitner, Lise",
    ]
    ((_, content),) = service.files["bucket-1000"].items()
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        (cff,) = (entry for entry in bundle.namelist() if entry.endswith("CITATION.cff"))
        assert b"Meitner" in bundle.read(cff)


def test_what_is_stated_anew_while_the_bundle_is_sent_is_sent_before_it_is_published(
    experiment: Experiment, service: Service
) -> None:
    row = request_deposit(experiment, experiment.owner, publishes=True)
    upload = DepositService.upload

    def upload_and_state_anew(*arguments: Any) -> None:
        upload(*arguments)
        Citation.objects.update(title="Mended")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DepositService, "upload", upload_and_state_anew)
        assert deposit_bundle(row.pk) == "try again"
    assert read(row).problem == depositing.CHANGED
    row = go_on(row)
    assert (row.state, service.count(UPLOAD)) == ("published", 2)
    assert service.depositions[1000]["metadata"]["title"] == "Mended"


def test_a_second_request_while_the_first_is_under_way_is_refused(
    experiment: Experiment, service: Service
) -> None:
    seen: list[Any] = []

    def ask_again(conversation: Conversation) -> None:
        # In the middle of the upload: another worker with the same task, too.
        seen.append(service.count(CREATE))
        conversation.answer_truly()

    service.fail(UPLOAD, ask_again)
    row = request_deposit(experiment, experiment.owner, publishes=False)
    with pytest.raises(NotDone, match="under way already"):
        request_deposit(experiment, experiment.owner, publishes=True)
    Deposit.objects.filter(pk=row.pk).update(state="under way", seen_at=Now())
    assert deposit_bundle(row.pk) == "not due, or another task works on it"
    with pytest.raises(NotDone, match="under way already"):
        request_deposit(experiment, experiment.owner, publishes=True)
    Deposit.objects.filter(pk=row.pk).update(state="waiting")
    assert deposit_bundle(row.pk) == "draft"
    assert (seen, len(service.depositions)) == ([1], 1)


LASTING: dict[str, tuple[str, Fault, str]] = {
    "401": (CREATE, answer(401, {"message": "Unauthorized"}), "does not know the token"),
    "403": (CREATE, answer(403, {"message": "Forbidden"}), "deposit:write and deposit:actions"),
    "400": (
        CREATE,
        answer(
            400,
            {"message": "Validation error", "errors": [{"field": "license", "message": "unknown"}]},
        ),
        "Validation error license: unknown",
    ),
    "no JSON": (DESCRIBE, answer(200, b"<html>maintenance</html>"), "something else"),
    "a list": (DESCRIBE, answer(200, [1, 2]), "something else"),
    "NaN": (DESCRIBE, answer(200, b'{"id": NaN}'), "something else"),
    "no bytes of UTF-8": (DESCRIBE, answer(200, b'{"id": "\xff"}'), "something else"),
    "deep": (DESCRIBE, answer(200, b"[" * 100_000), "something else"),
    "1 GB": (DESCRIBE, answer_a_gigabyte, "more than 2 MiB"),
    "redirect": (
        CREATE,
        answer(302, Location="http://localhost:1/api/deposit/depositions"),
        "sends on to another address",
    ),
    "redirect of the file": (UPLOAD, answer(307, Location="http://localhost:1/x"), "sends on"),
    "too large": (UPLOAD, refuse_early(413), "HTTP 413"),
    "gone": (UPLOAD, answer(404, {"message": "no bucket"}), "does not have the draft"),
}
PASSING: dict[str, tuple[str, Fault, str]] = {
    "429": (CREATE, answer(429, Retry_After="900"), "asked too often"),
    "500": (CREATE, answer(500), "fails (HTTP 500)"),
    "504 as a page": (DESCRIBE, answer(504, b"<html>"), "fails (HTTP 504)"),
    "cut in the upload": (UPLOAD, cut_in_the_middle, "broke off"),
    "other check sum": (UPLOAD, answer(201, {"checksum": "md5:00"}), "another check sum"),
    "no answer": (DESCRIBE, do_and_cut, "broke off"),
}


@pytest.mark.parametrize("case", LASTING)
def test_what_a_person_has_to_mend_is_said_and_can_be_tried_again(
    experiment: Experiment, service: Service, case: str
) -> None:
    request, fault, text = LASTING[case]
    service.fail(request, fault)
    row = begin(experiment)
    assert (row.state, row.retry_at) == ("failed", None)
    assert text in row.problem, row.problem
    assert TOKEN not in row.problem
    assert list_due_deposits() == []
    row = begin(experiment)
    assert (row.state, row.problem) == ("draft", "")
    assert len(service.depositions) == 1
    assert set(service.tokens) == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("case", PASSING)
def test_what_may_pass_is_said_and_tried_again_by_itself(
    experiment: Experiment, service: Service, case: str
) -> None:
    request, fault, text = PASSING[case]
    service.fail(request, fault)
    row = begin(experiment)
    assert row.state == "waiting"
    assert row.retry_at
    assert text in row.problem, row.problem
    waits = (row.retry_at - database_now()).total_seconds()
    assert (800 < waits <= 900) if case == "429" else (50 < waits <= 60)
    assert list_due_deposits() == []
    assert deposit_bundle(row.pk) == "not due, or another task works on it"
    row = go_on(row)
    assert (row.state, row.problem) == ("draft", "")
    assert len(service.depositions) == 1
    assert len(service.files["bucket-1000"]) == 1


def test_an_hour_of_failures_is_waited_out_ever_more_slowly(
    experiment: Experiment, service: Service
) -> None:
    row = begin(experiment)
    Deposit.objects.filter(pk=row.pk).update(state="failed")
    service.fail(f"GET /api/deposit/depositions/{row.deposition}", *[answer(500)] * 40)
    row = begin(experiment)
    waits = []
    while row.state == "waiting":
        assert row.retry_at
        waits.append(round((row.retry_at - database_now()).total_seconds() / 60))
        row = go_on(row)
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert sum(waits) > 60
    assert (row.state, row.attempts) == ("failed", depositing.MOST_ATTEMPTS)
    service.faults.clear()
    assert begin(experiment).state == "draft"
    assert len(service.depositions) == 1


LOST: dict[str, Fault] = {
    "cut": do_and_cut,
    "502 of a proxy": do_and_answer(502, b"<html>"),
    "no JSON": do_and_answer(201, b"<html>"),
    "no number": do_and_answer(201, b"{}"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_draft_of_which_no_answer_came_is_found_again(
    experiment: Experiment, service: Service, case: str
) -> None:
    service.fail(CREATE, LOST[case])
    row = begin(experiment)
    assert (row.deposition, len(service.depositions)) == (None, 1)
    row = begin(experiment) if row.state == "failed" else go_on(row)
    assert (row.state, row.deposition) == ("draft", 1000)
    assert (service.count(CREATE), len(service.depositions)) == (1, 1)


def test_none_is_made_in_its_place_before_the_service_would_list_it(
    experiment: Experiment, service: Service
) -> None:
    service.fail(CREATE, do_and_cut)
    service.lists_nothing = True
    row = begin(experiment)
    Deposit.objects.filter(pk=row.pk).update(retry_at=None)
    assert deposit_bundle(row.pk) == "try again"
    row = read(row)
    assert "not known yet whether" in row.problem
    assert row.retry_at
    assert row.create_sent_at
    assert row.retry_at >= row.create_sent_at + depositing.LOOKING_AGAIN
    service.lists_nothing = False
    assert go_on(row).state == "draft"
    assert len(service.depositions) == 1


def test_a_worker_that_died_is_followed_by_another_that_makes_no_second_one(
    experiment: Experiment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """As if the process had ended here."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    row = request_deposit(experiment, experiment.owner, publishes=True)
    with monkeypatch.context() as patched:
        patched.setattr(depositing, "_find_doi", die)  # the draft is made, nothing is stored
        with pytest.raises(Killed):
            deposit_bundle(row.pk)
    assert (list_due_deposits(), len(service.depositions)) == ([], 1)
    Deposit.objects.filter(pk=row.pk).update(seen_at=Now() - timedelta(minutes=6))
    assert list_due_deposits() == [row.pk]
    assert deposit_bundle(row.pk) == "published"
    assert len(service.depositions) == 1


@pytest.mark.parametrize("fault", [do_and_cut, do_and_answer(504, b"<html>")])
def test_a_publication_of_which_no_answer_came_is_noticed(
    experiment: Experiment, service: Service, fault: Fault
) -> None:
    service.fail("POST /api/deposit/depositions/1000/actions/publish", fault)
    row = begin(experiment, publishes=True)
    assert (row.state, service.depositions[1000]["submitted"]) == ("waiting", True)
    row = go_on(row)
    assert (row.state, row.doi) == ("published", "10.5281/zenodo.1000")
    assert service.count("POST") == 2
    assert service.count(UPLOAD) == 1


def test_what_was_published_there_by_hand_is_noticed(
    experiment: Experiment, service: Service
) -> None:
    begin(experiment)
    service.depositions[1000]["submitted"] = True
    row = begin(experiment)
    assert (row.state, service.count(UPLOAD)) == ("published", 1)


def test_the_file_and_the_token_go_to_no_other_host(
    experiment: Experiment, service: Service
) -> None:
    with serve_deposits() as other:

        def point_elsewhere(conversation: Conversation) -> None:
            conversation.read_body()
            document = conversation.make_deposition({})
            bucket = f"http://127.0.0.1:{other.port}/api/files/bucket-1000"
            conversation.send(201, document | {"links": {"bucket": bucket, "html": "javascript:1"}})

        service.fail(CREATE, point_elsewhere)
        row = begin(experiment)
        assert (row.state, row.page, other.requests) == ("failed", "", [])
        assert "wants the file at another host" in row.problem


def test_an_answer_that_drips_ends_in_time(
    experiment: Experiment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deposit_api, "WHOLE_SECONDS", 0.5)
    over = threading.Event()

    def drip(conversation: Conversation) -> None:
        conversation.read_body()
        conversation.send_response(200)
        conversation.send_header("Content-Length", "1000000")
        conversation.end_headers()
        with contextlib.suppress(OSError):
            while not over.wait(0.005):
                conversation.wfile.write(b" ")

    service.fail(DESCRIBE, drip)
    row = begin(experiment)
    over.set()
    assert row.state == "waiting"
    assert row.problem.endswith("did not answer in time.")


def test_nobody_who_listens_is_said(experiment: Experiment, settings: Settings) -> None:
    settings.DEPOSIT_ADDRESS = "http://127.0.0.1:1/api"
    DepositToken.objects.update(service=settings.DEPOSIT_ADDRESS)
    row = begin(experiment)
    assert (row.state, row.create_sent_at) == ("waiting", None)
    assert row.problem == "Nobody listens at 127.0.0.1:1."


def test_what_is_stopped_in_the_middle_sends_nothing_more(
    experiment: Experiment, service: Service
) -> None:
    row = request_deposit(experiment, experiment.owner, publishes=True)
    stop_deposit(experiment, experiment.owner)
    assert deposit_bundle(row.pk) == "not due, or another task works on it"
    assert read(row).problem == f"Stopped by {experiment.owner}."

    attempt = depositing.Attempt(read(row), claim=row.uid)
    with pytest.raises(depositing.Lost):
        attempt.store(sent_bytes=1)
    assert service.requests == []


def test_a_token_is_for_one_service_and_a_draft_for_one_person(
    experiment: Experiment, service: Service, settings: Settings
) -> None:
    begin(experiment)
    other = AdminFactory()  # who may change it, too
    assert list_missing(experiment, other) == [
        f"Your account has no token of 127.0.0.1:{service.port}."
    ]
    DepositToken.objects.create(owner=other, service=service.address, token=TOKEN)
    with pytest.raises(NotDone, match="is in the account of"):
        request_deposit(experiment, other, publishes=True)
    with serve_deposits() as another:
        settings.DEPOSIT_ADDRESS = another.address
        with pytest.raises(NotDone, match="has no token of"):
            request_deposit(experiment, other, publishes=True)
        DepositToken.objects.filter(owner=other).update(service=another.address)
        row = request_deposit(experiment, other, publishes=False)
        assert deposit_bundle(row.pk) == "draft"
        assert (len(service.depositions), len(another.depositions)) == (1, 1)


def test_a_draft_that_is_forgotten_is_followed_by_another_one(
    experiment: Experiment, service: Service
) -> None:
    begin(experiment)
    forget_deposit(experiment, experiment.owner)
    assert Citation.objects.get().doi == ""
    row = begin(experiment)
    assert (row.deposition, len(service.depositions)) == (1001, 2)


def test_what_is_missing_is_said_before_anything_is_asked_for(
    experiment: Experiment, service: Service
) -> None:
    DepositToken.objects.all().delete()
    Citation.objects.update(authors=[], licence="")
    experiment.runs.filter(repeat=1).update(state="planned")
    with pytest.raises(NotDone) as why:
        request_deposit(Experiment.objects.get(pk=experiment.pk), experiment.owner, publishes=False)
    for text in ("runs have not ended", "No authors", "No licence", "no token of 127.0.0.1"):
        assert text in str(why.value)
    assert (Deposit.objects.count(), service.requests) == (0, [])


def test_a_token_that_cannot_be_read_any_more_is_asked_for_again(
    experiment: Experiment, service: Service, settings: Settings
) -> None:
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    row = begin(experiment)
    assert (row.state, service.requests) == ("failed", [])
    assert row.problem == "This site can no longer read the token: save it again."


PUBLISH = "POST /api/deposit/depositions/1000/actions/publish"


def test_what_is_being_published_is_not_stopped(
    experiment: Experiment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[str] = []
    publish = DepositService.publish

    def publish_while_somebody_stops_it(*arguments: Any) -> Any:
        with pytest.raises(NotDone) as refusal:
            stop_deposit(experiment, experiment.owner)
        refusals.append(str(refusal.value))
        return publish(*arguments)

    monkeypatch.setattr(DepositService, "publish", publish_while_somebody_stops_it)
    row = begin(experiment, publishes=True)
    assert refusals == [f"127.0.0.1:{service.port} is publishing it: wait for its answer."]
    assert (row.state, row.publish_sent_at) == ("published", None)


def test_what_may_have_been_published_is_not_forgotten(
    experiment: Experiment, service: Service
) -> None:
    service.fail(PUBLISH, do_and_cut)
    assert begin(experiment, publishes=True).state == "waiting"
    stop_deposit(experiment, experiment.owner)
    with pytest.raises(NotDone, match="what came of that is not known"):
        forget_deposit(experiment, experiment.owner)
    row = begin(experiment)
    assert (row.state, row.doi) == ("published", "10.5281/zenodo.1000")
    assert len(service.depositions) == 1


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_was_certainly_not_published_is_forgotten(
    experiment: Experiment, service: Service, is_gone: bool
) -> None:
    service.fail(PUBLISH, cut_before_it_is_read)
    assert begin(experiment, publishes=True).publish_sent_at
    stop_deposit(experiment, experiment.owner)
    if is_gone:
        service.depositions.clear()
    assert begin(experiment).state == ("failed" if is_gone else "draft")
    forget_deposit(experiment, experiment.owner)
    assert not Deposit.objects.exists()


def test_a_refused_publication_leaves_a_draft_that_can_be_forgotten(
    experiment: Experiment, service: Service
) -> None:
    service.fail(PUBLISH, answer(403, {"message": "Forbidden"}))
    row = begin(experiment, publishes=True)
    assert (row.state, row.publish_sent_at) == ("failed", None)
    forget_deposit(experiment, experiment.owner)
