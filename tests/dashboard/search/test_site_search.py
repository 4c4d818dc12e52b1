"""The search finds everything that has a page, for those who may view it, whatever is typed."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from dashboard.search.site_search import (
    LONGEST_TITLE,
    MOST_AT_ONCE,
    Group,
    Result,
    limit_groups,
    search_site,
)
from experiments.models import Experiment, Role, User
from tests.dashboard.conftest import People, Site, measured
from tests.factories import (
    ContainerFactory,
    ExperimentFactory,
    ImageFactory,
    PublishedTableFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


DOCUMENTS = re.compile(
    r'<div role="group" aria-labelledby="found-document">.*?\n  </div>', re.DOTALL
)


def find(client: Client, text: str) -> list[str]:
    """Return the titles that the dialog shows, but for documents and the way to the page."""
    answer = client.get("/search/results/", {"q": text})
    assert answer.status_code == 200
    content = DOCUMENTS.sub("", answer.content.decode())
    return [unescape(title) for title in re.findall(r"<span>(.*?)</span>", content, re.DOTALL)]


def list_keys(groups: list[Group]) -> list[str]:
    return [group.key for group in groups if group.key != "document"]


@pytest.fixture
def secret(site: Site, people: People) -> Experiment:
    """Return an experiment; it and all around it are the owner's alone and named zebra."""
    mine: dict[str, Any] = {"owner": people.owner, "visibility": "private"}
    User.objects.filter(pk=people.owner.pk).update(username="zebra-keeper")
    site.workload.delete()
    workload = WorkloadFactory(name="zebra training", **mine)
    experiment = measured(
        Site(site.cluster, site.partition, site.bare, site.container, workload),
        question="What does a zebra cost?",
        **mine,
    )
    experiment.runs.update(node="zebra-node-1")
    for row in (site.cluster, site.bare, site.container):
        type(row)._default_manager.filter(pk=row.pk).update(**mine)
    type(site.cluster)._default_manager.filter(pk=site.cluster.pk).update(name="zebra cluster")
    type(site.container)._default_manager.filter(pk=site.container.pk).update(name="zebra box")
    ImageFactory(reference="tare/zebra:1", **mine)
    PublishedTableFactory(question="Table 1 of the zebra paper", **mine)
    return experiment


EVERYTHING = {
    "What does a zebra cost?",
    "tare/zebra:1",
    "zebra training",
    "zebra box",
    "zebra cluster",
    "zebra-node-1",
    "Table 1 of the zebra paper",
    "zebra-keeper",
}


def test_everything_with_a_page_is_found_by_a_part_of_its_name(
    secret: Experiment, people: People
) -> None:
    for who in ("owner", "admin"):
        assert set(find(people.client(who), "ZEBRA")) == EVERYTHING
    page = people.client("owner").get("/search/", {"q": "zebra"}).content.decode()
    assert all(title in unescape(page) for title in EVERYTHING)


def test_nobody_finds_what_they_may_not_view(secret: Experiment, people: People) -> None:
    assert find(people.client("other"), "zebra") == []
    run = secret.runs.all()[0]
    assert find(people.client("other"), run.uid) == []
    assert find(people.client("owner"), run.uid) == [run.uid]
    assert secret.question not in find(people.client("other"), f"#{secret.pk}")
    assert find(people.client("owner"), f"#{secret.pk}") == [secret.question]
    page = people.client("other").get("/search/", {"q": "zebra"}).content.decode()
    assert "Nothing found" in page
    assert people.client("anonymous").get("/search/results/?q=zebra").status_code == 302


def test_a_node_and_a_person_are_found_by_what_may_be_viewed_of_them(
    site: Site, people: People
) -> None:
    hidden = measured(site, people.owner, visibility="private")
    hidden.runs.update(node="gpu-7")
    assert find(people.client("other"), "gpu-7") == []
    assert find(people.client("other"), "owner") == []
    shown = measured(site, people.owner, question="And this?", visibility="members")
    shown.runs.update(node="gpu-7")
    assert find(people.client("other"), "gpu-7") == ["gpu-7"]
    assert find(people.client("other"), "owner") == ["owner"]


def test_results_lead_to_what_they_name(site: Site, people: People, as_owner: Client) -> None:
    experiment = measured(site, people.owner, question="Where to?")
    experiment.runs.update(node="gpu & 7")
    for text in ("Where to?", "gpu", "owner", "blas small", "bare metal", "lab", "Student"):
        for group in search_site(people.owner, text, 5):
            for result in group.results:
                assert as_owner.get(result.address, follow=True).status_code == 200, result
    node = next(group for group in search_site(people.owner, "gpu", 5) if group.key == "node")
    page = as_owner.get(node.results[0].address)
    assert page.context["list"].runs.count() == experiment.runs.count()
    person = next(group for group in search_site(people.owner, "owner", 5) if group.key == "person")
    ExperimentFactory(owner=people.other, question="Another one’s?")
    page = as_owner.get(person.results[0].address).content.decode()
    assert "Where to?" in page
    assert "Another one’s?" not in page


def test_all_words_are_needed_in_any_order(site: Site, people: People) -> None:
    ExperimentFactory(owner=people.owner, question="Does Apptainer slow ResNet50 down?")
    client = people.client("owner")
    assert find(client, "resnet50  apptainer") == ["Does Apptainer slow ResNet50 down?"]
    assert find(client, "resnet50 podman") == []


def test_experiments_are_found_by_number_and_tag_newest_first_and_archived_last(
    people: People,
) -> None:
    rows = [
        ExperimentFactory(owner=people.owner, question=f"Question {number}", tags=["paper-2"])
        for number in range(3)
    ]
    Experiment.objects.filter(pk=rows[2].pk).update(archived_at=timezone.now())
    client = people.client("owner")
    assert find(client, "paper-2") == ["Question 1", "Question 0", "Question 2"]
    assert find(client, f"#{rows[0].pk}")[0] == "Question 0"


def test_what_has_exactly_this_name_comes_first(people: People) -> None:
    ExperimentFactory(owner=people.owner, question="What does udocker P1 cost?")
    ContainerFactory(name="udocker P1")
    assert list_keys(search_site(people.owner, "Udocker p1", 5)) == ["environment", "experiment"]


def test_documents_are_found_by_section(people: People) -> None:
    groups = search_site(people.owner, "interim analyses", 5)
    assert "Interim analyses" in [row.title for group in groups for row in group.results]


def test_the_search_asks_the_database_as_often_for_much_as_for_little(people: People) -> None:
    client = people.client("owner")

    def count() -> int:
        client.get("/search/results/?q=abc")
        with CaptureQueriesContext(connection) as queries:
            client.get("/search/results/?q=abc")
        return len(queries)

    before = count()
    for number in range(30):
        ExperimentFactory(owner=people.owner, question=f"abc {number}")
        WorkloadFactory(name=f"abc {number}")
        ImageFactory(reference=f"abc:{number}")
    assert count() == before < 10


@pytest.mark.parametrize("letter", ["a", "Ω", "🧪", "ע"])
def test_an_answer_is_small_however_long_the_names_are(letter: str, people: People) -> None:
    for number in range(12):
        name = f"zz {number} " + letter * 80
        WorkloadFactory(name=name)
        ImageFactory(reference=(name + letter * 300)[:300], framework=letter * 100)
        ContainerFactory(name=name)
        ExperimentFactory(question=(name + letter * 300)[:300])
        PublishedTableFactory(question=(name + letter * 300)[:300], source=letter * 500)
    answer = people.client("owner").get("/search/results/?q=zz")
    assert answer.content.count(b'role="option"') > 15
    assert len(answer.content) < 10_000


@pytest.mark.parametrize(
    "text",
    [
        "%",
        "_",
        "\\",
        "'; DROP TABLE experiments_run; --",
        "((((((a+)+)+)+$",
        "[^",
        "🧪🧬",
        "שלום עולם",
        "\u202eabc",
        "ﬀ ß İ",
        "a" * 10_000,
        "zq " * 3_000,
        "9" * 500,
        "#99999999999999999999",
        "²",
        "<script>alert(1)</script>",
        "{{ 7|add:7 }}",
        "%00",
        "\r\n\t",
    ],
)
def test_odd_text_is_searched_for_as_it_stands(text: str, people: People) -> None:
    ExperimentFactory(question="What does it cost?")
    client = people.client("owner")
    assert "What does it cost?" not in find(client, text)
    page = client.get("/search/", {"q": text})
    assert page.status_code == 200
    assert b"<script>alert" not in page.content


def test_a_percent_sign_finds_a_percent_sign(people: People) -> None:
    ExperimentFactory(question="Is it within 2 %?")
    ExperimentFactory(question="Is it within 2 ms?")
    assert find(people.client("owner"), "2 %") == ["Is it within 2 %?"]


def test_names_are_escaped(people: People) -> None:
    WorkloadFactory(name='"><img src=x onerror=alert(1)>')
    answer = people.client("owner").get("/search/results/?q=onerror").content.decode()
    assert "<img" not in answer


def test_a_viewer_searches_too() -> None:
    ExperimentFactory(question="For everybody?")
    client = Client()
    client.force_login(UserFactory(role=Role.VIEWER))
    assert find(client, "everybody") == ["For everybody?"]


@given(st.lists(st.integers(0, 20), max_size=10))
def test_the_dialog_shows_some_of_each_kind_and_never_too_many(sizes: list[int]) -> None:
    groups = [
        Group(str(number), "", tuple(Result("a" * 500, "/") for _ in range(size)))
        for number, size in enumerate(sizes)
        if size
    ]
    limited = limit_groups(groups)
    assert list_keys(limited) == list_keys(groups)
    assert all(group.results for group in limited)
    assert sum(len(group.results) for group in limited) <= MOST_AT_ONCE
    for group in limited:
        assert all(len(row.title.encode()) <= LONGEST_TITLE + 3 for row in group.results)


class AnyText(TestCase):
    """Whatever is typed, there is an answer."""

    @given(st.text(max_size=50).filter(lambda text: "\0" not in text))
    def test_any_text_is_answered(self, text: str) -> None:
        search_site(UserFactory(), text, 5)
