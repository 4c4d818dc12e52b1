"""HEAD on every address: the status and headers of GET, no content, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished
from django.db import close_old_connections, connection, transaction
from django.test import Client, RequestFactory
from django.urls import reverse

from dashboard.comparisons import bundle_views, export_limit, table_files
from dashboard.drawings import drawing_process
from experiments.comparisons import keep_comparison
from experiments.models import Cluster, Experiment, Job, LiveReading, Role, Run, User
from tests.dashboard.access.test_roles import RULES, logged_in, mine, person  # noqa: F401
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, RunFactory

pytestmark = pytest.mark.django_db

LIVE = {"HX-Request": "true"}
NO_RULE = ("admin:index", "admin:experiments_cluster_changelist", "api:list_runs")
"""Addresses that the table of roles does not name."""


@pytest.fixture
def handler() -> Iterator[WSGIHandler]:
    """Return what a web server calls; the test client takes content away by itself."""
    request_finished.disconnect(close_old_connections)  # as the test client does
    yield WSGIHandler()
    request_finished.connect(close_old_connections)


def send_head(
    handler: WSGIHandler, client: Client, address: str, headers: dict[str, str] | None = None
) -> Any:
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in client.cookies.items())
    request = RequestFactory().head(address, headers={"Cookie": cookies, **(headers or {})})
    return handler.get_response(request)  # type: ignore[arg-type]


def read_tables() -> dict[str, str]:
    """Return a digest of each table's rows."""
    digests = {}
    with connection.cursor() as cursor:
        for name in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(
                f'SELECT md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM "{name}" t'
            )
            digests[name] = cursor.fetchone()[0]
    return digests


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any) -> list[str]:
    """Return the figures that were drawn, none of which was kept before."""
    location = {"LOCATION": str(tmp_path / "drawn")}
    settings.CACHES = settings.CACHES | {"figures": settings.CACHES["figures"] | location}
    orders: list[str] = []

    def draw(order: str) -> bytes:
        orders.append(order)
        return b"drawn"

    monkeypatch.setattr(drawing_process, "_run_program", draw)
    return orders


@pytest.mark.parametrize("role", [None, Role.SITE_ADMINISTRATOR])
def test_head_answers_as_get_does_and_changes_nothing(
    role: Role | None,
    mine: Callable[[User], dict[str, list[Any]]],  # noqa: F811
    handler: WSGIHandler,
    drawn: list[str],
    django_capture_on_commit_callbacks: Any,
) -> None:
    user = person(role or Role.RESEARCHER)
    own, client = mine(user), logged_in(user) if role else Client()
    for pk in Experiment.objects.values_list("pk", flat=True):
        keep_comparison(pk)
    addresses = {name: reverse(name, args=own[what]) for name, (_, what, _) in RULES.items()}
    addresses |= {name: reverse(name) for name in NO_RULE}
    before = read_tables()
    answers: dict[str, Any] = {}
    with django_capture_on_commit_callbacks() as callbacks:
        for name, address in addresses.items():
            for headers in (None, LIVE):
                answer = send_head(handler, client, address, headers)
                content = b"".join(answer) if answer.streaming else answer.content
                assert content == b"", name
                assert settings.SESSION_COOKIE_NAME not in answer.cookies, name
                answer.close()
                answers[f"{name} live" if headers else name] = answer
    assert read_tables() == before
    assert callbacks == []
    assert drawn == []
    assert len(export_limit._free) == export_limit.MOST_AT_ONCE
    statuses = set()
    for name, address in addresses.items():
        for key, headers in ((name, None), (f"{name} live", LIVE)):
            with transaction.atomic():
                answer = client.get(address, headers=headers or {})
                if answer.streaming:
                    b"".join(answer.streaming_content)
                transaction.set_rollback(True)
            statuses.add(answer.status_code)
            assert answers[key].status_code == answer.status_code, key
            for header in ("Content-Type", "Content-Disposition", "Location"):
                assert answers[key].get(header) == answer.get(header), (key, header)
    assert {302, 405} <= statuses


def test_a_look_at_a_running_run_by_head_asks_for_no_visit(
    as_owner: Client, site: Site, people: People, handler: WSGIHandler
) -> None:
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state=Job.State.RUNNING)
    run = RunFactory(job=job, state=Run.State.RUNNING, ended_at=None, exit_code=None)
    address = reverse("run", args=[run.uid])
    assert send_head(handler, as_owner, address).status_code == 200
    assert not LiveReading.objects.exists()
    assert not Cluster.objects.exclude(wanted_at=None).exists()
    as_owner.get(address)
    assert LiveReading.objects.exists()


def test_a_secret_that_is_shown_once_is_there_after_head(
    as_owner: Client, people: People, handler: WSGIHandler
) -> None:
    made = as_owner.post(reverse("webhook_new"), {"address": "https://example.org/", "topics": []})
    if made.status_code == 200:
        raise AssertionError(made.content.decode())
    address = made["Location"]
    assert send_head(handler, as_owner, address).status_code == 200
    assert as_owner.get(address).status_code == 200


def test_no_piece_of_a_streamed_file_is_made(
    as_owner: Client, results: Experiment, handler: WSGIHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any, **__: Any) -> Iterator[bytes]:
        raise AssertionError("a piece was made")
        yield b""

    monkeypatch.setattr(bundle_views, "make_bundle", write)
    monkeypatch.setattr(table_files, "write_table", write)
    for name in ("bundle_zip", "series_parquet"):
        answer = send_head(handler, as_owner, reverse(name, args=[results.pk]))
        assert answer.status_code == 200
        assert b"".join(answer) == b""
        answer.close()


def test_the_length_is_that_of_the_content(
    as_owner: Client, results: Experiment, handler: WSGIHandler
) -> None:
    address = reverse("comparison_tex", args=[results.pk])
    answer = send_head(handler, as_owner, address)
    assert int(answer["Content-Length"]) == len(as_owner.get(address).content)
