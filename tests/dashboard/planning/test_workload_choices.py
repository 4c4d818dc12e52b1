"""The workloads that the form of an experiment offers."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from experiments.models import Experiment, Workload
from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import HTMX, NEW, asked
from tests.factories import WorkloadFactory

pytestmark = pytest.mark.django_db

FILTER = {**HTMX, "HX-Trigger-Name": "workload_filter"}


@pytest.fixture
def many(site: Site) -> list[Workload]:
    owner = site.workload.owner
    rows = [
        Workload(
            name=f"net {number:04}", kind="cnn", owner=owner, parameters={"batch_size": number}
        )
        for number in range(5000)
    ]
    return Workload.objects.bulk_create(rows)


def names(page: BeautifulSoup, only: str = "") -> list[str]:
    boxes = page.select(f'#workload-choices input[name="workloads"]{only}')
    return [" ".join(box.parent.get_text(" ").split()) for box in boxes if box.parent]


def filtered(client: Client, site: Site, text: str, **changes: Any) -> BeautifulSoup:
    sent = asked(site, workload_filter=text, **changes)
    answer = client.post(NEW, sent, headers=FILTER)
    assert answer.status_code == 200
    assert "<html" not in answer.content.decode()
    return BeautifulSoup(answer.content, "html.parser")


def test_a_few_workloads_need_no_filter_and_show_their_parameters(
    as_owner: Client, site: Site
) -> None:
    owner = site.workload.owner
    WorkloadFactory(name="net", kind="cnn", parameters={"batch_size": 17}, owner=owner)
    page = BeautifulSoup(as_owner.get(NEW).content, "html.parser")
    assert page.select_one("#workload-filter") is None
    assert "net Training a convolutional network batch_size=17" in names(page)


def test_of_5000_workloads_the_page_has_fifty(
    as_owner: Client, site: Site, many: list[Workload]
) -> None:
    answer = as_owner.get(NEW)
    page = BeautifulSoup(answer.content, "html.parser")
    assert len(answer.content) < 150_000
    assert len(names(page)) == 50
    assert "5001 of 5001 match" in " ".join(page.get_text(" ").split())
    with CaptureQueriesContext(connection) as captured:
        as_owner.get(NEW)
    assert len(captured) <= 15


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("net 0042", "net 0042"),
        ("NET 0042", "net 0042"),
        ("batch_size=42", "net 0042"),
        ("blas", "blas small"),
        ("convolutional 4242", "net 4242"),
    ],
)
def test_words_of_names_kinds_and_parameters_are_found(
    as_owner: Client, site: Site, many: list[Workload], text: str, found: str
) -> None:
    shown = names(filtered(as_owner, site, text, workloads=[]))
    assert any(name.startswith(found) for name in shown)
    assert len(shown) < 50


def test_what_is_chosen_stays_chosen_whatever_the_filter_says(
    as_owner: Client, site: Site, many: list[Workload]
) -> None:
    page = filtered(as_owner, site, "nothing has this name", workloads=[many[40].pk])
    assert names(page) == names(page, "[checked]") != []
    assert "net 0040" in names(page)[0]
    sent = asked(site, workloads=[many[40].pk, many[8].pk], workload_filter="x")
    as_owner.post(NEW, sent | {"action": "save"})
    assert set(Experiment.objects.get().workloads.all()) == {many[40], many[8]}


@pytest.mark.parametrize(
    "text", ["\0", "%", "_" * 300, "\\", '"', "<b>", "=", "a=", " ".join("x" * 50)]
)
def test_odd_words_find_something_or_nothing(as_owner: Client, site: Site, text: str) -> None:
    page = filtered(as_owner, site, text)
    assert page.select_one("b") is None
    assert names(page, "[checked]") != []


def test_workloads_of_others_are_not_found(as_owner: Client, site: Site) -> None:
    WorkloadFactory(name="their secret", visibility="private")
    assert names(filtered(as_owner, site, "secret", workloads=[])) == []


def test_without_javascript_the_filter_is_a_step(
    as_owner: Client, site: Site, many: list[Workload]
) -> None:
    sent = asked(site, workloads=[], workload_filter="net 0042") | {"action": "preview"}
    page = BeautifulSoup(as_owner.post(NEW, sent).content, "html.parser")
    assert [name[:8] for name in names(page)] == ["net 0042"]
    assert page.select_one("#workload-filter")["value"] == "net 0042"  # type: ignore[index]


def test_workloads_with_numbers_are_offered_in_the_order_of_their_sizes(
    as_owner: Client, site: Site
) -> None:
    for name in ("net 10", "net 9", "net 100"):
        WorkloadFactory(name=name, kind="cnn", owner=site.workload.owner)
    page = BeautifulSoup(as_owner.get(NEW).content, "html.parser")
    nets = [" ".join(label.split()[:2]) for label in names(page) if label.startswith("net ")]
    assert nets == ["net 9", "net 10", "net 100"]
