"""Lists: sorted, filtered and cut by the server, at the same cost however many rows there are."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from experiments.models import Cluster, Environment, Experiment, PublishedTable, Run, Workload
from tests.dashboard.conftest import People, Site, measured
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    ExperimentFactory,
    JobFactory,
    PartitionFactory,
    PublishedTableFactory,
    RunFactory,
    RuntimeFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def more_rows(site: Site, people: People) -> None:
    for _ in range(4):
        measured(site, people.owner, blocks=3)
        ExperimentFactory(cluster=site.cluster, baseline=site.bare, owner=people.other)
        WorkloadFactory()
        PublishedTableFactory(owner=people.other)
        ContainerFactory(cluster=site.cluster)
        cluster = ClusterFactory()
        PartitionFactory(cluster=cluster)
        RuntimeFactory(cluster=cluster)
    groups = [Group.objects.create(name=name) for name in ("neurophysics", "chess")]
    people.owner.groups.set(groups)
    for model in (Cluster, Environment, Experiment, PublishedTable, Workload):
        model.objects.update(visibility="groups")
        for row in model.objects.all():
            row.groups.set(groups)


@pytest.mark.parametrize(
    "address",
    [
        "/experiments/",
        "/runs/",
        "/compare/",
        "/compare/?tab=tables",
        "/clusters/",
        "/catalogue/?tab=images",
        "/catalogue/?tab=workloads",
        "/catalogue/?tab=environments",
        "/search/?q=cost",
    ],
)
def test_a_list_asks_the_database_as_often_for_many_rows_as_for_few(
    address: str, site: Site, people: People, results: Experiment
) -> None:
    client = people.client("owner")
    PublishedTableFactory(owner=people.other)
    queries(client, address)  # what is asked once a process
    few = queries(client, address)
    more_rows(site, people)
    assert queries(client, address) == few
    assert few <= 15


@pytest.mark.parametrize("tab", ["runs", "jobs", "plan", "events"])
def test_an_experiment_asks_as_often_for_many_runs_as_for_few(
    tab: str, site: Site, people: People
) -> None:
    client = people.client("owner")
    small = measured(site, people.owner, blocks=2)
    large = measured(site, people.owner, blocks=12)
    few = queries(client, f"{small.get_absolute_url()}?tab={tab}")
    assert queries(client, f"{large.get_absolute_url()}?tab={tab}") == few


def test_the_overview_asks_as_often_for_many_live_experiments(site: Site, people: People) -> None:
    client = people.client("owner")

    def alive() -> None:
        job = JobFactory(experiment=measured(site, people.owner, blocks=0), state="running")
        RunFactory(job=job, state=Run.State.RUNNING)

    client.get("/")  # the first visit is noted by more statements
    alive()
    few = queries(client, "/")
    for _ in range(5):
        alive()
    assert queries(client, "/") == few


def test_a_page_has_fifty_rows_and_the_next_one_the_rest(
    as_owner: Client, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=30)
    page = as_owner.get(experiment.get_absolute_url())
    assert len(page.context["listing"].page.object_list) == 50
    assert "1–50 of 60" in page.content.decode()
    rest = as_owner.get(experiment.get_absolute_url(), {"page": 2})
    shown = [row.pk for answer in (page, rest) for row in answer.context["listing"].page]
    assert sorted(shown) == sorted(experiment.runs.values_list("pk", flat=True))


@pytest.mark.parametrize("page", ["0", "-1", "99", "last", "1e9", "x"])
def test_a_page_that_does_not_exist_is_no_error(page: str, as_owner: Client) -> None:
    assert as_owner.get("/experiments/", {"page": page}).status_code == 200


@pytest.mark.parametrize("sort", ["question", "-question", "nonsense", "-", "owner__password"])
def test_the_address_sorts_by_declared_columns_alone(
    sort: str, as_owner: Client, people: People
) -> None:
    for question in ("b?", "a?", "c?"):
        ExperimentFactory(question=question, owner=people.owner)
    context = as_owner.get("/experiments/", {"sort": sort}).context
    found = [row.question for row, _ in context["rows"]]
    expected = {"question": ["a?", "b?", "c?"], "-question": ["c?", "b?", "a?"]}
    assert found == expected.get(sort, ["c?", "a?", "b?"])
    assert context["listing"].sort in {"question", "-question", "-created"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "DOES"}, {"does it?"}),
        ({"state": "draft"}, {"draft?"}),
        ({"state": "ended"}, {"does it?"}),
        ({"state": "alive"}, {"alive?"}),
        ({"mine": "me"}, {"does it?", "alive?"}),
        ({"cluster": "nonsense"}, {"does it?", "alive?", "draft?"}),
        ({"q": "100 % \\ _"}, set()),
    ],
)
def test_experiments_are_filtered(
    query: dict[str, str], found: set[str], as_owner: Client, site: Site, people: People
) -> None:
    measured(site, people.owner, blocks=1, question="does it?")
    alive = measured(site, people.owner, blocks=0, question="alive?")
    RunFactory(job=JobFactory(experiment=alive), state=Run.State.PLANNED)
    ExperimentFactory(question="draft?", cluster=site.cluster, owner=people.other)
    rows = as_owner.get("/experiments/", query).context["rows"]
    assert {row.question for row, _ in rows} == found


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"state": "succeeded"}, 4),
        ({"state": "failed"}, 0),
        ({"environment": "apptainer"}, 2),
        ({"workload": "small"}, 4),
        ({"q": "what"}, 4),
        ({"state": "no such"}, 4),
    ],
)
def test_runs_are_filtered(
    query: dict[str, str], count: int, as_owner: Client, site: Site, people: People
) -> None:
    measured(site, people.owner, blocks=2, question="What?")
    listing = as_owner.get("/runs/", query).context["listing"]
    assert listing.page.paginator.count == count


def test_sorting_keeps_the_filter_and_paging_keeps_both(
    as_owner: Client, site: Site, people: People
) -> None:
    measured(site, people.owner, blocks=60)
    page = as_owner.get("/runs/", {"state": "succeeded", "sort": "node"}).content.decode()
    assert "?state=succeeded&amp;sort=-node" in page
    assert "?state=succeeded&amp;sort=node&amp;page=2" in page


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/", "What does a container cost?"),
        ("/experiments/", "Ask the first question"),
        ("/runs/", "No run yet"),
        ("/compare/", "Nothing to compare yet"),
        ("/clusters/", "No cluster yet"),
        ("/catalogue/", "No image yet"),
        ("/catalogue/?tab=workloads", "No workload yet"),
        ("/catalogue/?tab=environments", "No environment yet"),
        ("/search/?q=zzyzx", "Nothing found"),
    ],
)
def test_an_empty_page_teaches(address: str, words: str, as_owner: Client) -> None:
    assert words in as_owner.get(address).content.decode()


def test_the_search_finds_questions_and_uids(as_owner: Client, results: Experiment) -> None:
    run = results.runs.all()[0]
    assert results.question in as_owner.get("/search/", {"q": "WHAT does"}).content.decode()
    page = as_owner.get("/search/", {"q": run.uid[:8].upper()}).content.decode()
    assert run.get_absolute_url() in page


FILTERED = {
    "/experiments/": {"state": "draft", "mine": "me"},
    "/compare/": {"mine": "me", "tag": "new"},
    "/compare/?tab=tables": {"mine": "me"},
    "/catalogue/": {"kind": "oci", "mine": "me"},
    "/catalogue/?tab=workloads": {"variants": "1"},
    "/catalogue/?tab=environments": {},
    "/credentials/": {},
    "/audit/": {"kind": "cluster", "who": "owner", "object": "7"},
    "/runs/": {"state": "failed", "environment": "bare"},
}
"""Lists with filters, and some that they have beside their search."""


@pytest.mark.parametrize("address", FILTERED)
def test_all_lists_show_their_filters_alike(address: str, site: Site, people: People) -> None:
    measured(site, people.owner)
    PublishedTableFactory(owner=people.owner)
    client, filters = people.client("admin"), FILTERED[address]
    query = {**parse_qs(address.partition("?")[2]), "q": "b", "sort": "-name", **filters}
    answer = client.get(address.partition("?")[0], {**query, "page": "9"})
    soup = BeautifulSoup(answer.content, "html.parser")
    (tools,) = soup.select(".list-tools")
    assert not [form for form in soup.select("form.filters") if not form.find_parent("details")]
    # Chips are removed one by one, and all at once.
    removed = [parse_qs(str(link["href"])[1:]) for link in tools.select(".chips a")]
    assert len(removed) == len(filters)
    kept = parse_qs(urlencode(query, doseq=True))
    for name in filters:
        assert {key: value for key, value in kept.items() if key != name} in removed
    (clear,) = (link for link in tools.select("a.clear") if link.text == "Clear all")
    left = parse_qs(str(clear["href"]).partition("?")[2])
    assert "q" not in left
    assert not filters.keys() & left.keys()
    assert left.get("tab") == kept.get("tab")
    # Whoever searches keeps filters, order and tab, and begins at the first page.
    (search,) = tools.select("form[role=search]")
    assert search.select_one("input[type=search][aria-label]")
    sent = {str(field["name"]): [str(field["value"])] for field in search.select("input")}
    assert sent == kept


def test_a_search_for_workloads_goes_on_showing_variants(
    as_owner: Client, site: Site, people: People
) -> None:
    variant = WorkloadFactory(name="blas small n=8", parent=site.workload)
    ExperimentFactory(owner=people.owner, workloads=[variant])
    page = "/catalogue/?tab=workloads&q=blas"
    soup = BeautifulSoup(as_owner.get(page).content, "html.parser")
    assert len(soup.select("tbody tr")) == 1
    (show,) = (link["href"] for link in soup.select("a") if link.text == "Show variants")
    soup = BeautifulSoup(as_owner.get("/catalogue/" + str(show)).content, "html.parser")
    assert len(soup.select("tbody tr")) == 2
    assert soup.select_one(".list-tools form[role=search] input[name=variants][value='1']")
    (hide,) = (link["href"] for link in soup.select("a") if link.text == "Hide variants")
    assert parse_qs(str(hide)[1:]) == {"tab": ["workloads"], "q": ["blas"]}


def test_a_cluster_out_of_service_says_so(as_owner: Client, site: Site) -> None:
    ClusterFactory(name="old", enabled=False)
    bad = ClusterFactory(name="bad", last_error="no route to host", last_error_kind="unreachable")
    page = as_owner.get("/clusters/").content.decode()
    assert "off" in page
    assert "unreachable" in page
    assert "no route to host" in as_owner.get(f"/clusters/{bad.pk}/").content.decode()


def test_environments_are_shown_with_their_image(as_owner: Client, site: Site) -> None:
    page = as_owner.get("/catalogue/?tab=environments").content.decode()
    row = Environment.objects.get(pk=site.container.pk)
    assert row.staged_image is not None
    assert row.staged_image.image.reference in page
