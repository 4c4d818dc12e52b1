"""Runs that were excluded after the verdict: pages and files have both verdicts and the cause."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, measured, read_report
from tests.dashboard.planning.test_form import HTMX

pytestmark = pytest.mark.django_db
CAUSE = "=cmd()+<b>node1</b> & 50 %_was hot"


def get(client: Client, name: str, experiment: Experiment, **headers: Any) -> str:
    answer: Any = client.get(reverse(name, args=[experiment.pk]), **headers)
    assert answer.status_code == 200
    return str((b"".join(answer) if answer.streaming else answer.content).decode())


@pytest.fixture
def experiment(site: Site, people: People, as_owner: Client) -> Experiment:
    """Six blocks of which a person has excluded two runs."""
    made = measured(site, people.owner, blocks=6, repeats=6)
    for run in made.runs.filter(environment=site.container, repeat__in=(2, 3)):
        as_owner.post(reverse("run_exclude", args=[run.uid]), {"why": CAUSE})
    assert made.runs.filter(state=Run.State.EXCLUDED).count() == 2
    return made


BEFORE = "Before 2 runs were excluded, when a verdict could be read, it was SLOWER (ratio 1.10"


def test_the_page_has_the_stamp_both_verdicts_and_the_list(
    experiment: Experiment, as_owner: Client
) -> None:
    page = read_report(as_owner, experiment)
    assert "<summary>EXCLUDED AFTER A VERDICT</summary>" in page
    assert BEFORE in page
    assert "before exclusions: SLOWER" in page
    panel = page.partition('id="exclusions"')[2].partition("</section>")[0]
    assert panel.count("after a verdict could be read") == 2
    assert panel.count("=cmd()+&lt;b&gt;node1&lt;/b&gt; &amp; 50 %_was hot") == 2
    assert "<td>owner</td>" in panel
    brief = get(as_owner, "comparison", experiment, headers=HTMX)
    assert "runs excluded after a verdict; before: SLOWER" in brief


@pytest.mark.parametrize("name", ["comparison_csv", "comparison_json", "comparison_tex"])
def test_every_file_has_the_stamp_both_verdicts_the_cause_and_the_person(
    name: str, experiment: Experiment, as_owner: Client
) -> None:
    text = get(as_owner, name, experiment)
    for words in ("EXCLUDED AFTER A VERDICT", BEFORE, "owner"):
        assert words in text
    cause = r"=cmd()+\textless{}b\textgreater{}node1" if name.endswith("tex") else "<b>node1</b>"
    assert cause in text


def test_json_lists_all_of_them(experiment: Experiment, as_owner: Client) -> None:
    content = json.loads(get(as_owner, "comparison_json", experiment))
    assert [one["excluded_because"] for one in content["exclusions"]] == [CAUSE, CAUSE]
    assert {one["excluded_by"] for one in content["exclusions"]} == {"owner"}
    (row,) = content["comparison"]
    assert (row["before_exclusion_verdict"], row["before_exclusion_runs"]) == ("SLOWER", 2)
    runs = json.loads(get(as_owner, "runs_json", experiment))["runs"]
    assert sum(bool(run.get("excluded_after_a_verdict")) for run in runs) == 2


def test_the_methods_name_them(experiment: Experiment, as_owner: Client) -> None:
    methods = read_report(as_owner, experiment).partition("<h2>Methods</h2>")[2]
    assert "2 runs were excluded by a person: run " in methods
    assert "2 of them were excluded when a verdict could be read." in methods
    assert f"blas small, 1x1, Apptainer: SLOWER now. {BEFORE}" in methods


def test_nothing_of_this_without_an_exclusion(results: Experiment, as_owner: Client) -> None:
    page = read_report(as_owner, results)
    assert "Excluded runs" not in page
    assert "excluded by a person" not in page


def test_a_cause_of_any_bytes_is_kept_in_one_line(results: Experiment, as_owner: Client) -> None:
    run = results.runs.all()[0]
    why = "a\0b\n" + 5000 * "x"
    as_owner.post(reverse("run_exclude", args=[run.uid]), {"why": why})
    run.refresh_from_db()
    assert run.message.startswith("a\N{REPLACEMENT CHARACTER}b xxx")
    assert len(run.message) == 1000
