"""The comparison as one file: all of it stands inside, and nothing of it runs."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.conf import settings
from django.test import Client
from django.urls import reverse

from dashboard.comparisons import report_figures, report_views
from dashboard.comparisons.report_facts import VERSION
from dashboard.drawings.drawing_process import Busy, NotDrawn
from experiments.comparisons import compare_experiment
from experiments.models import Environment, Experiment, Run, Snapshot
from tests.dashboard.access.test_escaping import EVIL
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.conftest import People, Site, measured
from tests.factories import ExperimentFactory, JobFactory, PublishedTableFactory, RunFactory

pytestmark = pytest.mark.django_db
PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg"></svg>'


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Figures are drawn in test_forest_files.py; here it matters which ones are asked for."""
    asked: list[dict[str, Any]] = []

    def draw(forest: Any, **options: Any) -> bytes:
        asked.append({"forest": forest, **options})
        return PICTURE

    monkeypatch.setattr(report_figures, "draw", draw)
    return asked


def fetch(client: Client, experiment: Experiment, query: str = "") -> str:
    answer = client.get(reverse("report", args=[experiment.pk]) + query)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_everything_stands_inside_of_the_file(results: Experiment, as_owner: Client) -> None:
    page = BeautifulSoup(fetch(as_owner, results), "html.parser")
    assert page.find("script") is None
    assert page.find("link") is None
    assert page.find("form") is None
    images = page.find_all("img")
    assert len(images) == 4, "ratios, all runs, run order, equivalence"
    assert {image["src"].partition(",")[0] for image in images} == {"data:image/svg+xml;base64"}
    assert "@import" not in page.style.text
    assert "url(" not in page.style.text


def test_its_policy_allows_its_style_and_nothing_that_runs(
    results: Experiment, as_owner: Client
) -> None:
    answer = as_owner.get(reverse("report", args=[results.pk]))
    page = BeautifulSoup(answer.content.decode(), "html.parser")
    digest = base64.b64encode(hashlib.sha256(page.style.text.encode()).digest()).decode()
    policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "form-action 'none'; base-uri 'none'"
    )
    sent = answer["Content-Security-Policy"]
    assert f"style-src-elem 'sha256-{digest}'" in sent
    assert "script-src 'none'" in sent
    assert "style=" not in re.sub(r"<style>.*?</style>", "", str(page), flags=re.S)


def test_it_says_what_the_page_says(results: Experiment, as_owner: Client) -> None:
    page = BeautifulSoup(fetch(as_owner, results), "html.parser")
    text = " ".join(page.get_text(" ").split())
    (pair,) = compare_experiment(results).pairs
    assert results.question in page.h1.text
    assert " ".join(f"{pair.claim}{pair.evidence}".split()) in text.replace(" ", " ")
    for part in ("Full results", "Methods", "Holm", results.plan_hash, "Python 3", "numpy"):
        assert part in text
    assert "10 runs compared, of 10 planned (10 succeeded)" in text
    address = f"http://testserver{reverse('comparison', args=[results.pk])}"
    assert page.find("a", string=address)["href"] == address
    assert all(link["href"].startswith("http://testserver/") for link in page.find_all("a"))


def test_it_counts_the_runs_on_which_its_verdicts_rest(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner, blocks=8, repeats=20, looks=4)
    assert "10 runs compared, of 16 planned (16 succeeded)" in fetch(as_owner, made)
    Run.objects.filter(experiment=made, repeat__gt=5).update(node="node7")
    text = BeautifulSoup(fetch(as_owner, made), "html.parser").get_text()
    assert "Ran on 1 node: node1." in text
    waiting = measured(site, people.owner)
    RunFactory(job=JobFactory(experiment=waiting, repeat=6), state=Run.State.RUNNING)
    assert "0 runs compared, of 11 planned (10 succeeded)" in fetch(as_owner, waiting)


def test_a_run_that_is_alone_in_its_block_is_not_counted(
    results: Experiment, as_owner: Client, site: Site
) -> None:
    results.runs.filter(repeat=2, environment=site.container).update(state=Run.State.FAILED)
    text = fetch(as_owner, results)
    assert "8 runs compared, of 10 planned (9 succeeded, 1 failed)" in text


def test_it_says_what_ran_where_of_which_image(results: Experiment, as_owner: Client) -> None:
    facts = {"kernel": "5.14", "gpu_driver": "550.1", "packages": {"numpy": "2.1", "six": "1"}}
    run = results.runs.filter(environment__name="Apptainer").order_by("-pk")[0]
    run.snapshot = Snapshot.objects.keep({"inside": facts})
    run.save(update_fields=["snapshot"])
    plan = {"environments": {"1": {"label": "Apptainer", "runtime": "apptainer"}}}
    plan["environments"]["1"] |= {"image_format": "sif", "image_digest": "sha256:abc", "mode": ""}
    Experiment.objects.filter(pk=results.pk).update(plan=plan)
    page = BeautifulSoup(fetch(as_owner, results), "html.parser")
    bare, container = (block.get_text(" ", strip=True) for block in page.select(".environment"))
    assert bare == "bare metal (baseline)"
    assert container == (
        "Apptainer Runtime Apptainer, sif Image sha256:abc Last run saw "
        "kernel 5.14; GPU driver 550.1; numpy 2.1; 2 Python packages"
    )
    assert "Ran on 1 node: node1." in page.get_text()


def test_its_version_is_that_of_the_package() -> None:
    with open(settings.BASE_DIR / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["version"] == VERSION


def test_it_is_saved_or_opened(results: Experiment, as_owner: Client) -> None:
    address = reverse("report", args=[results.pk])
    assert as_owner.get(address)["Content-Disposition"].startswith("inline;")
    saved = as_owner.get(f"{address}?download")["Content-Disposition"]
    assert saved == f'attachment; filename="tare-{results.pk}-what-does-it-cost-report.html"'


def test_names_stay_hidden(
    results: Experiment, people: People, drawn: list[dict[str, Any]]
) -> None:
    Experiment.objects.filter(pk=results.pk).update(question="Is print of emmy slow?")
    people.owner.last_name = "print"  # a word of the style sheet
    people.owner.username = "emmy"
    people.owner.save()
    client = visitor(link_to(results, hides_names=True))
    answer = client.get(reverse("report", args=[results.pk]))
    page = BeautifulSoup(answer.content.decode(), "html.parser")
    assert "emmy" not in answer.content.decode()
    assert "print" not in page.main.text
    assert "@media print" in page.style.text
    assert "emmy" not in answer["Content-Disposition"]
    assert drawn[0]["is_visitor"]
    shown = fetch(visitor(link_to(results)), results)
    assert "emmy" in shown  # it is a choice of the link


def test_hostile_names_are_texts(site: Site, people: People, as_owner: Client) -> None:
    Environment.objects.filter(pk=site.container.pk).update(name=EVIL[:100])
    experiment = measured(site, people.owner, question=f'{EVIL}<style></style> src="picture-0"')
    page = fetch(as_owner, experiment)
    assert "<script>" not in page
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    assert page.count("data:image") == 4
    assert page.count("<style>") == 1
    assert page.index("<style>") < page.index("</head>")


def test_a_figure_that_was_not_drawn_says_why(
    results: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> bytes:
        raise NotDrawn("It took more than 30 s. <b>")

    monkeypatch.setattr(report_figures, "draw", refuse)
    page = BeautifulSoup(fetch(as_owner, results), "html.parser")
    assert "It took more than 30 s. <b>" in page.figure.text
    assert page.figure.img is None
    assert "Full results" in page.text


def test_it_has_the_figures_that_papers_need(
    results: Experiment, as_owner: Client, drawn: list[dict[str, Any]]
) -> None:
    page = BeautifulSoup(fetch(as_owner, results), "html.parser")
    titles = [asked["forest"].title for asked in drawn]
    headings = [figure.find_parent("section").h2.text for figure in page.select("figure")]
    assert headings == titles
    assert len(titles) == 4
    assert {asked["width"] for asked in drawn} == {180}
    assert {asked["theme"] for asked in drawn} == {"light"}


def test_pictures_for_which_there_is_no_room_are_named_with_the_reason(
    results: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_figures, "MOST_BYTES", 1_000_000)
    sizes = iter([1_100_000, 10, 800_000, 20])  # the first one is drawn however large it is
    monkeypatch.setattr(report_figures, "draw", lambda *_, **__: b"x" * next(sizes))
    page = BeautifulSoup(fetch(as_owner, results), "html.parser")
    assert [len(figure.select("img")) for figure in page.select("figure")] == [1, 0, 0, 0]
    problem = page.select("figure .problem")[1]
    reason = "With it the pictures of the file would be 2.5 MB; they may be 1.0 MB in all."
    assert reason in " ".join(problem.text.split())
    assert problem.a["href"].endswith("/run_order.pdf")


def test_its_type_has_the_three_sizes_of_a_page() -> None:
    style = (settings.BASE_DIR / report_views.STYLE).read_text()
    screen = style.partition("@media print")[0]
    sizes = set(re.findall(r"font(?:-size)?: ([0-9.]+px)", screen))
    assert sizes == {"24px", "20px", "15px", "13px"}  # a title is 20 px high on a phone


def test_while_too_many_figures_are_drawn_no_half_file_is_made(
    results: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> bytes:
        raise Busy("Too many figures are being drawn.")

    monkeypatch.setattr(report_figures, "draw", refuse)
    answer = as_owner.get(reverse("report", args=[results.pk]))
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "Too many figures are being drawn." in answer.content.decode()


def test_of_very_many_comparisons_it_stays_small_and_says_what_it_leaves_out(
    site: Site, people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_views, "MOST_SENTENCES", 2)
    monkeypatch.setattr(report_figures, "MOST_PAGES", 2)
    monkeypatch.setattr(report_figures, "count_pages", lambda *_: 9)
    made = measured(site, people.owner, blocks=2, scales=["1x1", "1x2", "1x3"])
    page = BeautifulSoup(fetch(as_owner, made), "html.parser")
    assert len(page.select(".verdicts li")) == 2
    assert "The first 2 of 3 configurations; the table has them all." in page.get_text()
    assert [len(figure.select("img")) for figure in page.select("figure")] == [2] * 4
    for caption in page.select("figcaption"):
        assert "The first 2 of 9 pages" in " ".join(caption.get_text().split())
    assert len(page.select(".results tbody tr:not(.group)")) == 3
    assert page.select_one(".matrix") is None, "more than can be seen at once"


def test_several_configurations_are_seen_at_once(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner, blocks=3, scales=["1x1", "1x2"])
    page = BeautifulSoup(fetch(as_owner, made), "html.parser")
    rows = [" ".join(row.get_text(" ").split()) for row in page.select(".matrix tbody tr")]
    assert [row.partition(" 20.")[0] for row in rows] == ["blas small, 1x1", "blas small, 1x2"]
    assert all("SLOWER 1.100" in row for row in rows), rows


def test_before_any_verdict_it_says_when_it_comes(
    results: Experiment, site: Site, people: People, as_owner: Client
) -> None:
    Run.objects.filter(pk=results.runs.order_by("-pk")[0].pk).update(state="running")
    page = BeautifulSoup(fetch(as_owner, results), "html.parser")
    assert page.img is None
    assert page.table is None
    assert "verdict" in page.get_text()
    draft = ExperimentFactory(owner=people.owner, cluster=site.cluster)
    for nothing in (measured(site, people.owner, blocks=0), draft):
        page = BeautifulSoup(fetch(as_owner, nothing), "html.parser")
        assert page.h1.text == nothing.question
        assert page.table is None


def test_a_published_table_has_one_too(as_owner: Client, people: People) -> None:
    row = PublishedTableFactory(owner=people.owner)
    answer = as_owner.get(reverse("table_report", args=[row.pk]))
    page = BeautifulSoup(answer.content.decode(), "html.parser")
    assert row.question in page.h1.text
    assert page.find("img")
