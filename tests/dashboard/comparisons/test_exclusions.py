"""Runs that were excluded after the verdict: pages and files have both verdicts and the cause."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.comparisons import keep_comparison
from experiments.execution import excluded_runs
from experiments.models import Event, Experiment, Run
from tests.dashboard.access.test_links import body, visitor
from tests.dashboard.conftest import People, Site, measured, read_report
from tests.dashboard.planning.test_form import HTMX
from tests.factories import UserFactory, link_to

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


BEFORE = (
    "With the 2 runs that were excluded by hand (after the final analysis) it is SLOWER (ratio 1.10"
)


def test_the_page_has_the_stamp_both_verdicts_and_the_list(
    experiment: Experiment, as_owner: Client
) -> None:
    page = read_report(as_owner, experiment)
    assert "<summary>EXCLUDED AFTER A VERDICT</summary>" in page
    assert BEFORE in page
    assert page.count("with excluded runs: SLOWER (ratio 1.10") >= 2, "in the matrix and the table"
    panel = page.partition('id="exclusions"')[2].partition("</section>")[0]
    assert panel.count("after the final analysis") == 2
    assert panel.count("=cmd()+&lt;b&gt;node1&lt;/b&gt; &amp; 50 %_was hot") == 2
    assert "<td>owner</td>" in panel
    brief = get(as_owner, "comparison", experiment, headers=HTMX)
    assert "runs excluded by hand after the final analysis; with them: SLOWER (ratio 1.10" in brief


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
    assert "Of these, 2 after the final analysis." in methods
    assert f"blas small, 1x1, Apptainer: SLOWER without them. {BEFORE}" in methods


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


def read_all(client: Client, experiment: Experiment) -> list[str]:
    """What pages and files say of an experiment, without what differs in each answer."""
    texts = [read_report(client, experiment)]
    texts += [get(client, name, experiment) for name in ("comparison_csv", "comparison_tex")]
    lines = (line for text in texts for line in text.splitlines())
    return [line for line in lines if "csrf" not in line and "nonce" not in line]


def test_what_is_included_again_is_as_before(results: Experiment, as_owner: Client) -> None:
    before = read_all(as_owner, results)
    run = results.runs.latest("pk")
    as_owner.post(reverse("run_exclude", args=[run.uid]), {"why": CAUSE})
    assert read_all(as_owner, results) != before
    address = reverse("run_include", args=[run.uid])
    assert "Include this run again" in as_owner.get(run.get_absolute_url()).content.decode()
    assert "Not included" in as_owner.post(address, {"why": " "}, follow=True).content.decode()
    page = as_owner.post(address, {"why": "b\0c <i>"}, follow=True).content.decode()
    assert "Included again" in page
    assert "b\N{REPLACEMENT CHARACTER}c &lt;i&gt;" in page, "the events have the cause"
    assert read_all(as_owner, results) == before


def test_one_before_any_verdict_has_both_verdicts_and_the_milder_stamp(
    experiment: Experiment, as_owner: Client
) -> None:
    Event.objects.filter(what="excluded after a verdict").delete()
    said = "excluded by hand (before any verdict could be read) it is SLOWER (ratio 1.10"
    page = read_report(as_owner, experiment)
    assert said in page
    assert "<summary>EXCLUDED BY HAND</summary>" in page
    assert "EXCLUDED AFTER" not in page
    assert "Of these, 2 before any verdict." in page
    for name in ("comparison_csv", "comparison_json", "comparison_tex"):
        text = get(as_owner, name, experiment)
        assert said in text
        assert "EXCLUDED BY HAND" in text


def test_the_printed_report_has_both_in_words_and_in_its_table(
    experiment: Experiment, as_owner: Client
) -> None:
    report = get(as_owner, "report", experiment)
    assert BEFORE in report.replace("\N{NO-BREAK SPACE}", " ")
    assert "with excluded runs: SLOWER (ratio" in report.replace("\N{NO-BREAK SPACE}", " ")


def test_a_link_that_hides_names_hides_who_excluded(results: Experiment, as_owner: Client) -> None:
    person = UserFactory(username="zo\N{LATIN SMALL LETTER E WITH DIAERESIS}_o.neil+x")
    run = results.runs.latest("pk")
    assert excluded_runs.exclude(run, person, f"the fan, says {person.username} & <b>\x85")
    assert person.username in read_report(as_owner, results)
    client = visitor(link_to(results, hides_names=True))
    for name in ("comparison", "comparison_csv", "comparison_json", "comparison_tex"):
        text = body(client.get(reverse(name, args=[results.pk]) + "?section=all")).casefold()
        assert "with the run that was excluded by hand" in text, name
        assert "neil" not in text, name
    assert "neil" not in body(client.get(run.get_absolute_url())).casefold()


def test_with_all_runs_excluded_everything_still_has_both_verdicts(
    results: Experiment, as_owner: Client
) -> None:
    for run in results.runs.all():
        assert excluded_runs.exclude(run, results.owner, CAUSE)
    page = read_report(as_owner, results)
    assert "NO INFERENCE" in page
    assert "with excluded runs: SLOWER (ratio 1.10" in page
    for name in ("report", "comparison_csv", "comparison_json", "comparison_tex", "robustness"):
        get(as_owner, name, results)
    row = json.loads(get(as_owner, "comparison_json", results))["comparison"][0]
    assert (row["verdict"], row["before_exclusion_verdict"]) == ("NO INFERENCE", "SLOWER")


def test_pages_of_kept_verdicts_ask_little_more_because_of_exclusions(
    results: Experiment, as_owner: Client
) -> None:
    counts = []
    for is_excluded in (False, True):
        if is_excluded:
            assert excluded_runs.exclude(results.runs.latest("pk"), results.owner, CAUSE)
        keep_comparison(results.pk)
        for name in ("comparison", "experiment"):
            get(as_owner, name, results)
            with CaptureQueriesContext(connection) as queries:
                get(as_owner, name, results)
            counts.append(len(queries))
    comparison, page, with_excluded, page_with_excluded = counts
    assert with_excluded <= comparison + 1
    # Verdicts that name who excluded what are not remembered: people may be renamed.
    assert page_with_excluded <= page + 3
