"""The main way through Tare in a real browser, under its content security policy."""

from __future__ import annotations

import csv
import re
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, Route, expect
from pytest_django.live_server_helper import LiveServer

from experiments.comparisons import compare_experiment
from experiments.comparisons.scales import compute_scalings
from experiments.models import Experiment, Job, Run, Snapshot
from tests.dashboard.comparisons.test_steps import LOSSES, trained
from tests.dashboard.conftest import (
    Complaints,
    Open,
    People,
    Site,
    drawn,
    measured,
    open_charts,
    show_all_sections,
)
from tests.factories import (
    ClusterFactory,
    EnvironmentFactory,
    ImageFactory,
    JobFactory,
    OperationFactory,
    RunFactory,
    SeriesFactory,
    StagedImageFactory,
    link_to,
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_a_question_becomes_an_experiment(page: Page, open_page: Open, site: Site) -> None:
    open_page("/experiments/new/")
    page.get_by_label("Question").fill("What does Apptainer cost?")
    page.get_by_text("blas small").first.click()
    page.get_by_role("checkbox", name="Apptainer").check()
    consequences = page.locator("#consequences")
    expect(consequences).to_contain_text("at most 0.2")  # 10 runs of a minute on one GPU
    page.get_by_label("Scales").fill("1x9")
    expect(page.locator("#id_scales_error")).to_contain_text("9 GPUs a node asked for; gpu has 2.")
    page.get_by_label("Scales").fill("1x1")
    expect(page.locator("#id_scales_error")).to_be_empty()
    expect(page.get_by_label("Scales")).to_be_focused()
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What does Apptainer cost?")
    expect(page.get_by_text("0 of 10 runs have ended")).to_be_visible()
    assert Experiment.objects.get().plan_hash


def test_launch_on_an_incomplete_form_says_what_is_missing_until_it_is_mended(
    page: Page, open_page: Open, site: Site
) -> None:
    open_page("/experiments/new/")
    expect(page.locator("#consequences")).to_contain_text("Choose workloads")
    with page.expect_response(lambda answer: bool(answer.request.headers.get("hx-request"))):
        page.get_by_role("button", name="Launch").click()  # and the new page asks for its preview
    summary = page.locator("#summary")
    expect(page.locator("#consequences")).not_to_have_class(re.compile("htmx"))
    expect(summary).to_contain_text("Not launched")
    expect(summary).to_be_focused()
    expect(summary.get_by_role("link")).to_have_text(["Question", "Workloads", "Environments"])
    expect(page.locator("#id_question_error")).to_have_text("This field is required.")
    summary.get_by_role("link", name="Question").click()
    expect(page.get_by_label("Question")).to_be_focused()
    page.get_by_label("Question").fill("What does Apptainer cost?")
    expect(summary.get_by_role("link")).to_have_text(["Workloads", "Environments"])
    expect(page.locator("#id_question_error")).to_be_empty()
    expect(page.get_by_label("Question")).to_be_focused()
    summary.get_by_role("link", name="Workloads").click()
    expect(page.get_by_role("checkbox", name="blas small")).to_be_focused()
    page.get_by_role("checkbox", name="blas small").check()
    page.get_by_role("checkbox", name="Apptainer").check()
    expect(summary).to_be_empty()
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What does Apptainer cost?")


def test_another_cluster_keeps_what_was_typed(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    EnvironmentFactory(name="bare elsewhere", cluster=ClusterFactory(name="elsewhere"))
    open_page("/experiments/new/")
    page.get_by_label("Question").fill("Where?")
    page.get_by_label("Cluster").select_option("elsewhere")
    expect(page.get_by_text("bare elsewhere")).to_be_visible()
    expect(page.get_by_label("Question")).to_have_value("Where?")


def test_the_comparison_is_drawn(page: Page, open_page: Open, results: Experiment) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_page(show_all_sections(f"/experiments/{results.pk}/comparison/"))
    expect(page.locator(".printed .for-light img")).to_have_count(7)
    picture = page.locator(".printed .for-light img").first
    picture.scroll_into_view_if_needed()
    room = picture.bounding_box()
    # A busy server has the page ask for it again.
    expect(picture).not_to_have_js_property("naturalWidth", 0, timeout=30_000)
    now = picture.bounding_box()
    assert room
    assert now
    assert abs(now["height"] - room["height"]) < 30, "the page keeps about as much room for it"
    assert not any("plotly" in address for address in asked), "nobody asks for interaction"
    page.get_by_text("Interactive chart").first.click()
    assert drawn(page) == 1
    open_charts(page)
    assert drawn(page) == 5  # bars are folded away
    expect(page.locator(".verdict", has_text="SLOWER").first).to_be_visible()
    page.get_by_label("Export the forest plot").click()
    file = page.locator("main details.menu[open] a", has_text="SVG").first
    expect(file).to_be_visible()
    expect(file).to_have_attribute("href", re.compile(r"/forest\.svg"))


def test_of_many_cells_each_is_drawn_when_it_is_opened(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    scales = [f"1x{gpus}" for gpus in range(1, 6)]
    made = measured(site, people.owner, scales=scales)
    open_page(show_all_sections(f"/experiments/{made.pk}/comparison/"))
    folded = page.locator("details.panel").filter(has=page.locator("[data-chart]"))
    expect(folded).to_have_count(5)  # runs, blocks, run order, curve, bars
    expect(folded.locator("[data-drawn]")).to_have_count(0)
    folded.nth(2).locator("summary").first.click()
    open_charts(page)
    expect(folded.nth(2).locator("[data-drawn]").first).to_be_visible()
    expect(folded.nth(1).locator("[data-drawn]")).to_have_count(0)


def test_the_points_of_every_plot_are_a_table(
    page: Page, open_page: Open, results: Experiment
) -> None:
    open_page(show_all_sections(f"/experiments/{results.pk}/comparison/"))
    page.get_by_text("Interactive chart").first.click()
    page.locator("summary", has_text="Ratios as bars").click()
    open_tables(page)
    tables = {}
    buttons = page.locator("[data-save=csv]")
    for button in range(buttons.count()):
        # Of a chart without a printed figure it is in a menu.
        buttons.nth(button).evaluate("button => { button.closest('details').open = true }")
        with page.expect_download() as download:
            buttons.nth(button).click()
        name = re.fullmatch(r"tare-\d+-(.+)\.csv", download.value.suggested_filename)
        assert name
        with open(download.value.path(), newline="") as file:
            tables[name[1]] = list(csv.reader(file))
    assert set(tables) == {"forest", "bars", "strip-0", "slopes-0", "order-0", "equivalence-0"}
    (pair,) = compare_experiment(results).pairs
    heading, *rows = tables["forest"]
    assert heading == ["series", "ratio to bare metal", "of", "run"]
    assert [float(row[1]) for row in rows] == [*(pair.ci95 or ()), *(pair.ci90 or ()), pair.ratio]
    assert {row[2] for row in rows} == {"blas small, 1x1: Apptainer"}
    assert [row[:3] for row in tables["bars"] if row[0] == "Apptainer"] == [
        ["Apptainer", str(pair.ratio), "blas small, 1x1: Apptainer"]
    ]
    figure = page.locator("figure", has=page.locator("[data-chart=strip-0]"))
    expect(figure.locator("caption")).to_have_text(f"{len(tables['strip-0']) - 1} rows")
    expect(figure.locator("thead th")).to_have_text(tables["strip-0"][0])
    expect(figure.locator("tbody th[scope=row]")).to_have_text(
        [row[0] for row in tables["strip-0"][1:]]
    )
    expect(figure.locator("tbody a").first).to_have_attribute(
        "href", re.compile("/runs/[0-9a-f]{32}/")
    )
    runs = set(results.runs.values_list("uid", flat=True))
    for plot in ("strip-0", "slopes-0", "order-0"):
        assert {row[3] for row in tables[plot][1:]} - {""} == runs
    assert [row[2] for row in tables["strip-0"] if row[0] == "Apptainer"] == [
        "Apptainer, n = 5"
    ] * 5


def open_tables(page: Page) -> None:
    """Open the table behind each figure."""
    page.evaluate(
        "for (const fold of document.querySelectorAll('details.points')) fold.open = true"
    )


def saved(page: Page, name: str) -> list[list[str]]:
    """The table of a figure, as its button gives it."""
    figure = page.locator("figure", has=page.locator(f"[data-chart={name}]"))
    open_tables(page)
    with page.expect_download() as download:
        figure.get_by_role("button", name="CSV").click()
    with open(download.value.path(), newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_steps_scaling_and_bars_are_drawn_in_both_themes_with_their_numbers(
    theme: Literal["light", "dark"], page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = trained(site, people)
    page.emulate_media(color_scheme=theme)
    open_page(show_all_sections(f"/experiments/{made.pk}/comparison/"))
    folded = page.locator("[data-chart=bars]")
    page.locator("summary", has_text="Ratios as bars").click()
    open_charts(page)
    expect(folded.locator(".barlayer path").first).to_be_visible()
    box = folded.bounding_box()
    assert box
    expect(folded.locator(".main-svg").first).to_have_attribute("width", f"{box['width']:g}")
    page.get_by_role("heading", name="Inside the runs").scroll_into_view_if_needed()
    expect(page.locator("p[hx-get]")).to_have_count(0)
    open_charts(page)
    drawn(page)

    (scaling,) = compute_scalings(compare_experiment(made))
    heading, *rows = saved(page, "scaling-0")
    assert heading == ["series", "GPUs", "time per step (ms)", "run"]
    points = {(name, gpus): float(value) for name, gpus, value, _ in rows if "," not in name}
    assert points == {
        (level.environment, str(level.gpus)): pytest.approx(1000 * level.mean)
        for level in scaling.levels
    }
    assert {row[0] for row in rows} > {"bare metal, ideal", "Apptainer, 95 % interval"}
    rows = saved(page, "efficiency-0")[1:]
    assert [float(row[2]) for row in rows if row[0] == "bare metal"] == [
        pytest.approx(100 * (scaling.gains[0].efficiency or 0))
    ]
    workload = made.workloads.get()
    runs = set(made.runs.filter(scale="1x2").values_list("uid", flat=True))
    losses = saved(page, f"losses-{workload.pk}-1x2")
    assert {row[3] for row in losses[1:]} - {""} == runs
    assert [float(row[2]) for row in losses if row[0] == "Apptainer, median"] == LOSSES
    tails = saved(page, f"tails-{workload.pk}-1x1")
    assert min(float(row[2]) for row in tails[1:]) == pytest.approx(100 / 9)
    ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--tare-ink')")
    whisker = page.evaluate("document.querySelector('[data-chart=bars]')._fullData[1].line.color")
    assert whisker == ink.strip()


def test_on_paper_the_comparison_is_light_and_as_wide_as_the_page(
    page: Page, open_page: Open, results: Experiment
) -> None:
    page.emulate_media(color_scheme="dark")
    open_page(f"/experiments/{results.pk}/comparison/?section=runs")
    open_charts(page)
    drawn(page)
    plot = page.locator("[data-chart=strip-0] .main-svg").first
    on_screen = plot.get_attribute("width") or ""
    page.evaluate("loadPictures()")
    pictures = page.locator(".printed .for-light img")
    expect(pictures).to_have_count(2)
    for picture in pictures.all():
        assert picture.evaluate("picture => picture.naturalWidth"), "fetched for paper, unseen"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "light")
    expect(plot).to_have_attribute("width", "824")
    page.emulate_media(media="print")
    expect(plot).to_be_hidden()
    expect(page.locator(".printed .for-light img").first).to_be_visible()
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(page.get_by_role("button").first).to_be_hidden()
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    expect(plot).to_have_attribute("width", on_screen)
    page.set_viewport_size({"width": 700, "height": 800})
    expect(plot).not_to_have_attribute("width", on_screen)


def test_charts_that_could_not_be_fetched_are_fetched_again_and_stop_no_print(
    page: Page, open_page: Open, results: Experiment, complaints: Complaints
) -> None:
    page.add_init_script("window.print = () => { document.documentElement.dataset.printed = 1; }")
    page.route("**/plotly.min.js", lambda route: route.abort())
    open_page(show_all_sections(f"/experiments/{results.pk}/comparison/"))
    page.locator("#export > summary").click()
    page.get_by_role("button", name="This page").click()
    # Print waits for pictures, for a minute at most.
    expect(page.locator("html")).to_have_attribute("data-printed", "1", timeout=70_000)
    assert complaints.lines == [], "paper has pictures: the library is not asked for"
    page.keyboard.press("Escape")  # the menu lies over what follows it
    expect(page.locator("#export")).not_to_have_attribute("open", "")
    with (
        page.expect_event("pageerror"),
        page.expect_console_message(lambda message: "ERR_FAILED" in message.text),
    ):
        page.get_by_text("Interactive chart").first.click()
    expect(page.locator("[data-chart] .main-svg")).to_have_count(0)
    complaints.lines.clear()  # of the browser itself, about the file
    page.unroute("**/plotly.min.js")
    page.locator("summary", has_text="Interactive chart").nth(1).click()
    expect(page.locator("[data-chart] .main-svg").first).to_be_visible()


def test_a_section_is_fetched_when_it_is_opened_and_its_address_kept(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    """By a click on a cell, on the list and in the menu of configurations, and back again."""
    made = measured(site, people.owner, scales=["1x1", "1x2"])
    address = f"/experiments/{made.pk}/comparison/"
    open_page(address)
    page.evaluate("document.getElementById('main').marked = true")
    page.locator(".verdict-matrix .cell").nth(1).click()
    expect(page.get_by_role("heading", name="Verdicts in words")).to_be_visible()
    assert page.url.endswith("?section=verdicts&configuration=2")
    page.get_by_role("link", name="Run order", exact=True).press("Enter")
    picture = page.locator("#section .for-light img")
    expect(picture).to_have_attribute("src", re.compile(r"run_order\.svg\?configuration=2&"))
    expect(page.get_by_role("link", name="Run order", exact=True)).to_be_focused()
    page.get_by_label("Configuration", exact=True).select_option("blas small, 1x1")
    expect(picture).to_have_attribute("src", re.compile(r"run_order\.svg\?configuration=1&"))
    expect(picture).to_have_js_property("complete", value=True)
    assert page.url.endswith("?section=run_order&configuration=1")
    assert page.evaluate("document.getElementById('main').marked"), "nothing else was loaded"
    page.go_back()
    expect(picture).to_have_attribute("src", re.compile(r"run_order\.svg\?configuration=2&"))
    open_charts(page)
    expect(page.locator("[data-chart=order-1] .main-svg").first).to_be_visible(timeout=30_000)
    expect(page.locator(".verdict-matrix")).to_have_count(1)


def test_other_tests_are_fetched_by_a_click_and_drawn(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=8)
    open_page(show_all_sections(f"/experiments/{experiment.pk}/comparison/"))
    open_charts(page)
    before = drawn(page)
    page.get_by_role("link", name="What other tests say").click()
    expect(page.locator("#robustness")).to_contain_text("All agree with Student’s t")
    expect(page.locator("#robustness .for-light img")).to_be_visible()
    open_charts(page)
    expect(page.locator("[data-chart=quantiles-0] .main-svg").first).to_be_visible()
    assert drawn(page) == before + 1


def test_a_point_leads_to_its_run(page: Page, open_page: Open, results: Experiment) -> None:
    open_page(f"/experiments/{results.pk}/comparison/")
    open_charts(page)
    drawn(page)
    page.locator("[data-chart=strip-0]").scroll_into_view_if_needed()
    point = page.locator("[data-chart=strip-0] .scatterlayer .trace .points path").last
    box = point.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{32}/$"))


def test_a_run_is_drawn_and_its_snapshot_searched(page: Page, open_page: Open, run: Run) -> None:
    snapshot = Snapshot.objects.keep({"inside": {"packages": {"numpy": "2.4.6"}, "cpu": "EPYC"}})
    Run.objects.filter(pk=run.pk).update(snapshot=snapshot)
    open_page(run.get_absolute_url())
    expect(page.locator(".printed .for-light img")).to_be_visible()
    open_charts(page)
    assert drawn(page) == 1
    page.get_by_label("Search the snapshot").press_sequentially("numpy")
    expect(page.locator("#facts tbody tr")).to_have_count(1)
    expect(page.locator("#facts")).to_contain_text("2.4.6")


def test_a_live_page_ends_by_itself(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=1)
    RunFactory(job=JobFactory(experiment=experiment, repeat=2), state=Run.State.RUNNING)
    open_page(experiment.get_absolute_url())
    expect(page.get_by_text("2 of 3 runs have ended")).to_be_visible()
    experiment.runs.update(state=Run.State.SUCCEEDED)
    expect(page.get_by_text("3 of 3 runs have ended")).to_be_visible()
    expect(page.locator("#live[hx-trigger]")).to_have_count(0, timeout=30_000)
    expect(page.get_by_role("link", name="Open the comparison")).to_be_visible()


def test_a_live_part_that_has_not_changed_is_left_as_it_is(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    """So what a reader has marked there stays marked."""
    experiment = measured(site, people.owner, blocks=1)
    RunFactory(job=JobFactory(experiment=experiment, repeat=2), state=Run.State.RUNNING)
    open_page(experiment.get_absolute_url())
    unchanged = lambda answer: answer.status == 204  # noqa: E731
    with page.expect_response(unchanged):  # the first answer is whole: no digest is known yet
        pass
    page.evaluate("document.getElementById('live').marked = true")
    for _ in range(2):
        with page.expect_response(unchanged):
            pass
    assert page.evaluate("document.getElementById('live').marked")
    experiment.runs.update(state=Run.State.SUCCEEDED)
    expect(page.get_by_text("3 of 3 runs have ended")).to_be_visible()


def test_a_live_run_is_drawn_when_it_ends_and_focus_stays(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=1)
    run = RunFactory(job=JobFactory(experiment=experiment, repeat=2), state=Run.State.RUNNING)
    open_page(run.get_absolute_url())
    page.get_by_role("link", name=experiment.question).focus()
    SeriesFactory(run=run)
    Run.objects.filter(pk=run.pk).update(state=Run.State.SUCCEEDED)
    expect(page.locator(".printed .for-light img")).to_be_visible(timeout=30_000)
    open_charts(page)
    assert drawn(page) == 1
    expect(page.get_by_role("link", name=experiment.question)).to_be_focused()


def test_asking_whether_to_cancel_is_not_swept_away(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state=Job.State.RUNNING)
    RunFactory(job=job, state=Run.State.RUNNING)
    open_page(experiment.get_absolute_url())
    page.locator("summary", has_text="Cancel").click()
    question = page.get_by_role("button", name="Cancel the rest")
    with page.expect_event("console", lambda message: message.text == "a poll was due"):
        page.evaluate(
            "document.addEventListener('htmx:beforeRequest', () => console.info('a poll was due'))"
        )
    expect(question).to_be_visible()
    question.click()
    expect(page.get_by_text("ended at the next visit")).to_be_visible()


def test_an_answer_that_was_under_way_sweeps_no_question_away(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    """A slow answer comes after the reader has opened the menu, by keyboard."""
    experiment = measured(site, people.owner, blocks=1)
    RunFactory(job=JobFactory(experiment=experiment, repeat=2), state=Run.State.RUNNING)
    open_page(experiment.get_absolute_url())
    page.evaluate(
        "document.addEventListener('htmx:afterRequest',"
        " () => { document.documentElement.dataset.answered = 'yes'; })"
    )
    late: list[Route] = []
    page.route("**/experiments/**", lambda route: late.append(route))
    with page.expect_request("**/experiments/**"):
        pass
    opener = page.locator("summary", has_text="Cancel")
    opener.press("Enter")
    page.keyboard.press("Tab")
    question = page.get_by_role("button", name="Cancel the rest")
    expect(question).to_be_focused()
    for route in late:
        route.continue_()
    expect(page.locator("html")).to_have_attribute("data-answered", "yes", timeout=60_000)
    expect(question).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    expect(opener).to_be_focused()


def test_times_are_the_readers_own_and_utc_on_hover(
    new_context: Any, live_server: LiveServer, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=1, visibility="public")
    page = new_context(timezone_id="Asia/Kolkata", locale="en-GB").new_page()
    page.goto(live_server.url + link_to(experiment))
    launched = page.locator("time").first
    expect(launched).to_have_text("20 Nov 2026, 17:30")
    expect(launched).to_have_attribute("title", "2026-11-20 12:00 UTC")


def test_without_javascript_the_theme_is_the_systems(
    new_context: Any, live_server: LiveServer
) -> None:
    backgrounds = {}
    for theme in ("light", "dark"):
        page = new_context(java_script_enabled=False, color_scheme=theme).new_page()
        page.goto(f"{live_server.url}/login/")
        style = "element => getComputedStyle(element).backgroundColor"
        backgrounds[theme] = page.locator("body").evaluate(style)
        page.emulate_media(media="print", color_scheme=theme)
        assert page.locator("body").evaluate(style) != "rgb(20, 23, 26)", "paper is white"
    assert backgrounds == {"light": "rgb(253, 253, 252)", "dark": "rgb(20, 23, 26)"}


def test_the_switch_darkens_page_and_plots_and_is_remembered(
    page: Page, open_page: Open, results: Experiment
) -> None:
    page.emulate_media(color_scheme="light")
    open_page(f"/experiments/{results.pk}/comparison/")
    page.get_by_text("Interactive chart").first.click()
    drawn(page)
    ink = "document.querySelector('[data-chart=forest] .xtick text').style.fill"
    light = page.evaluate(ink)
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.wait_for_function(f"() => {ink} !== {light!r}")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_dark_is_the_systems_wish(page: Page, open_page: Open, results: Experiment) -> None:
    page.emulate_media(color_scheme="dark")
    open_page("/experiments/")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_the_administrations_auto_leaves_the_systems_wish(
    page: Page, open_page: Open, results: Experiment
) -> None:
    page.emulate_media(color_scheme="dark")
    open_page("/experiments/")
    page.evaluate("localStorage.setItem('theme', 'auto')")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_no_page_scrolls_sideways_on_a_phone(
    page: Page, open_page: Open, results: Experiment, run: Run
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    Run.objects.filter(pk=run.pk).update(
        message="word" * 200, output_tail="x" * 2000, command="c" * 2000, reason="crashed"
    )
    failed = results.runs.all()[1]
    Run.objects.filter(pk=failed.pk).update(state="failed", message="no space " * 60)
    Experiment.objects.filter(pk=results.pk).update(question="long" * 60)
    image = ImageFactory(reference="registry.example.org/" + "deep/" * 30)
    staged = StagedImageFactory(image=image, path="/scratch/" + "deep" * 50, message="word" * 99)
    operation = OperationFactory(staged_image=staged, output_tail="x" * 2000, message="word" * 99)
    addresses = [
        "/",
        "/experiments/",
        "/experiments/new/",
        *(f"{results.get_absolute_url()}?tab={tab}" for tab in ("runs", "jobs", "plan", "events")),
        f"{results.get_absolute_url()}comparison/",
        "/compare/",
        "/runs/",
        run.get_absolute_url(),
        "/catalogue/",
        f"/catalogue/images/{image.pk}/",
        "/catalogue/images/new/",
        f"/operations/{operation.pk}/",
        "/catalogue/environments/new/",
        f"/catalogue/environments/{results.baseline_id}/",
        "/catalogue/?tab=workloads",
        "/catalogue/?tab=environments",
        "/catalogue/workloads/new/",
        "/clusters/",
        f"/clusters/{results.cluster_id}/",
        "/search/?q=long",
    ]
    for address in addresses:
        open_page(address)
        over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert over <= 0, f"{address} is {over} px too wide"


def test_the_keyboard_reaches_the_content_first(page: Page, open_page: Open) -> None:
    open_page("/experiments/")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_series_without_steady_state_is_still_drawn(
    page: Page, open_page: Open, results: Experiment
) -> None:
    run = results.runs.all()[0]
    SeriesFactory(run=run, values=[0.1])
    open_page(run.get_absolute_url())
    open_charts(page)
    assert drawn(page) == 1


def test_the_complaints_are_heard(page: Page, complaints: Complaints, open_page: Open) -> None:
    """The other tests rest on this: a broken policy does not pass in silence."""
    page.evaluate("document.body.appendChild(document.createElement('script')).text = '1'")
    page.wait_for_timeout(0)
    assert any("Content Security Policy" in line for line in complaints.lines)
    complaints.lines.clear()
