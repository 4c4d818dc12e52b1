"""Any two environments stand side by side, with their differences on top."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.models import Environment, Experiment, Run, Snapshot
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, RunFactory, link_to

pytestmark = pytest.mark.django_db


@pytest.fixture
def two(site: Site, people: People) -> Experiment:
    """Two environments whose runs found another Python on one node each; two scales."""
    Environment.objects.filter(pk=site.container.pk).update(variables={"OMP_NUM_THREADS": "4"})
    made = measured(site, people.owner, scales=["1x1", "1x2"])
    for row, version in ((site.bare, "3.11.2"), (site.container, "3.12.0")):
        content = {"inside": {"hostname": "node7", "python": {"version": version}}}
        snapshot = Snapshot.objects.keep(content)
        Snapshot.objects.filter(pk=snapshot.pk).update(
            facts={"Python": version, "hostname": "node7", "package <b>": "1"}
        )
        Run.objects.filter(experiment=made, environment=row).update(snapshot=snapshot)
    return made


def show(client: Client, experiment: Experiment, query: str = "") -> BeautifulSoup:
    address = reverse("comparison", args=[experiment.pk]) + f"?section=sides{query}"
    response = client.get(address)
    assert response.status_code == 200
    (section,) = BeautifulSoup(response.content, "html.parser").select("#sides")
    return section  # type: ignore[return-value]


def rows(section: BeautifulSoup, caption: str) -> dict[str, list[str]]:
    for table in section.select("table"):
        if table.caption and table.caption.text == caption:
            return {
                " ".join(row.th.text.split()): [
                    " ".join(cell.text.split()) for cell in row.select("td")
                ]
                for row in table.select("tbody tr")
                if row.th
            }
    return {}


def test_differences_are_on_top_and_what_is_shared_is_said_once(
    two: Experiment, as_owner: Client
) -> None:
    section = show(as_owner, two)
    differing, same = rows(section, "What differs"), rows(section, "What is the same")
    assert differing["Python"] == ["3.11.2", "3.12.0"]
    assert differing["Variables"] == ["none", "OMP_NUM_THREADS=4"]
    assert same["hostname"] == ["node7"]
    assert same["package <b>"] == ["1"]
    assert not differing.keys() & same.keys()
    total = len(differing) + len(same)
    assert f"{len(differing)} of {total} known facts differ." in section.text
    captions = [caption.text for caption in section.select("caption")]
    assert captions == ["What differs", "What is the same", "What was measured"]


def test_each_configuration_has_its_numbers_and_the_planned_verdict(
    two: Experiment, as_owner: Client
) -> None:
    lines = rows(show(as_owner, two), "What was measured")
    assert len(lines) == 2
    for left, right in lines.values():
        assert "n = 5" in left
        assert "ATTRIBUTABLE" not in left
        assert "NOT ATTRIBUTABLE 1.1" in right, "their Python differs"


def test_the_address_keeps_the_choice(two: Experiment, as_owner: Client) -> None:
    section = show(as_owner, two, "&left=2&right=1")
    assert rows(section, "What differs")["Python"] == ["3.12.0", "3.11.2"]
    chosen = [option["value"] for option in section.select("option[selected]")]
    assert chosen == ["2", "1"]
    (form,) = section.select("form")
    assert form.get("method", "get") == "get"
    assert form.select("noscript button")


def test_no_mean_is_shown_before_the_verdict(site: Site, people: People, as_owner: Client) -> None:
    made = measured(site, people.owner)
    RunFactory(job=JobFactory(experiment=made, repeat=6), state=Run.State.RUNNING)
    ((left, right),) = rows(show(as_owner, made), "What was measured").values()
    assert left == right == "n = 5; the mean comes with the verdict"


def test_after_an_interim_analysis_no_later_run_is_shown(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner, blocks=8, repeats=20, looks=4)
    for line in rows(show(as_owner, made), "What was measured").values():
        assert ["n = 5" in cell for cell in line] == [True, True], line


def test_means_are_of_blocks_in_which_both_ran(two: Experiment, as_owner: Client) -> None:
    first = two.runs.filter(repeat=1).exclude(environment=two.baseline)
    first.update(state=Run.State.FAILED)
    for line in rows(show(as_owner, two), "What was measured").values():
        assert ["n = 4" in cell for cell in line] == [True, True], line


def test_one_environment_on_both_sides_has_no_difference(two: Experiment, as_owner: Client) -> None:
    section = show(as_owner, two, "&left=2&right=2")
    assert rows(section, "What differs") == {}
    assert "Both sides are the same environment." in section.text


@pytest.mark.parametrize("odd", ["", "0", "-1", "3", "x", "1.5", "9" * 500, "<b>", "\ufffd"])
def test_an_odd_choice_is_the_usual_one(odd: str, two: Experiment, as_owner: Client) -> None:
    section = show(as_owner, two, f"&left={odd}&right={odd}")
    assert [option["value"] for option in section.select("option[selected]")] == ["1", "2"]


def test_visitors_see_no_variables_and_no_hidden_names(two: Experiment, client: Client) -> None:
    client.get(link_to(two, hides_names=True))
    section = show(client, two)
    assert "OMP_NUM_THREADS" not in section.text
    assert "Python" in rows(section, "What differs")


def test_it_takes_as_many_statements_for_many_configurations(
    site: Site, people: People, as_owner: Client
) -> None:
    counts = []
    for scales in (["1x1"], ["1x1", "1x2", "1x4", "2x1"]):
        made = measured(site, people.owner, scales=scales)
        show(as_owner, made)
        with CaptureQueriesContext(connection) as queries:
            show(as_owner, made)
        counts.append(len(queries))
    assert counts[0] == counts[1]
