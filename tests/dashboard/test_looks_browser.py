"""What is seen at a glance: nothing overlaps, tables fit a phone, marks have no ground."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from experiments.models import Experiment, User
from tests.dashboard.conftest import Open, People, Site, measured
from tests.factories import ContainerFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
LONG = "What does Apptainer cost with cuDNN 9.15, and with the cuDNN 9.12 of the node itself?"
PHONE = {"width": 390, "height": 844}
# Texts of one line of a table that lie over each other, measured by the letters themselves.
OVERLAPPING = """() => [...document.querySelectorAll('main table tr')].flatMap((row) => {
  // What is for screen readers alone has a box of its text's size that nobody sees.
  const seen = [...row.cells].filter((cell) => !cell.querySelector(':scope > .visually-hidden'));
  const boxes = seen.map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return [cell.textContent.trim(), range.getBoundingClientRect()];
  }).filter(([text, box]) => text && box.width > 1);
  return boxes.flatMap(([text, a], at) => boxes.slice(at + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    .map(([other]) => `${text} | ${other}`));
})"""
WIDER = """() => [...document.querySelectorAll('main .scroll')]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.textContent.trim().slice(0, 80))"""


def test_two_sides_never_lie_over_each_other_on_a_phone(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    left = measured(site, people.owner, question=LONG)
    names = ("Podman rootless of the new release", "udocker P1")
    left.environments.add(*(ContainerFactory(name=name, cluster=site.cluster) for name in names))
    right = measured(site, people.owner, question=f"{LONG} Again.")
    first, second = left.runs.order_by("pk")[:2]
    page.set_viewport_size(PHONE)
    for address in (
        f"/compare/experiments/{left.pk}/{right.pk}/",
        f"/compare/runs/{first.uid}/{second.uid}/",
    ):
        open_page(address)
        assert page.locator("table.sides").count() > 1
        assert page.evaluate(OVERLAPPING) == []
        assert page.evaluate(WIDER) == []


def test_lists_on_a_phone_hide_no_column(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = measured(site, people.owner, question=LONG)
    measured(site, people.owner, question=f"{LONG} Again.")
    run = made.runs.order_by("pk")[0]
    page.set_viewport_size(PHONE)
    for address in (
        "/experiments/",
        "/compare/",
        "/clusters/",
        "/catalogue/",
        "/catalogue/?tab=workloads",
        "/catalogue/?tab=environments",
        f"/compare/experiments/{made.pk}/",
        f"/compare/runs/{run.uid}/",
        run.get_absolute_url(),
    ):
        open_page(address)
        assert page.locator("main table.as-cards").count(), address
        if address == "/compare/":  # verdicts come when their row is seen
            expect(page.locator(".brief").first).to_be_visible()
        assert page.evaluate(WIDER) == [], address


def test_the_head_of_a_page_takes_two_rows_on_a_phone(page: Page, open_page: Open) -> None:
    page.set_viewport_size(PHONE)
    open_page("/docs/")
    brand, person = (
        page.locator(which).bounding_box() for which in (".bar .brand", ".bar .menu > summary")
    )
    assert brand
    assert person
    assert abs(brand["y"] + brand["height"] / 2 - person["y"] - person["height"] / 2) < 4
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_marked_has_an_outline_and_no_ground(
    theme: Literal["light", "dark"], page: Page, live_server: LiveServer
) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(f"{live_server.url}/login/")
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', "
        "'<span class=mark>CONFOUNDED</span><mark>12.5</mark>')"
    )
    for which in (".mark", "mark"):
        ground = page.locator(which).evaluate("one => getComputedStyle(one).backgroundColor")
        assert ground == "rgba(0, 0, 0, 0)"


SIZE = "one => parseFloat(getComputedStyle(one).fontSize)"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_table_that_scrolls_says_so_at_its_edge(
    theme: Literal["light", "dark"], page: Page, open_page: Open, site: Site, people: People
) -> None:
    measured(site, people.owner, question=LONG)
    page.emulate_media(color_scheme=theme)
    for width in (390, 1024):
        page.set_viewport_size({"width": width, "height": 844})
        open_page("/runs/")
        box = page.locator(".scroll").first
        wider, at_edge, inside = box.evaluate(
            """async (box) => {
              const shown = getComputedStyle(box);
              const shade = getComputedStyle(document.documentElement)
                .getPropertyValue('--tare-shade').trim();
              const ground = getComputedStyle(document.body).backgroundColor;
              return [box.scrollWidth - box.clientWidth,
                (shown.backgroundImage.match(/gradient/g) ?? []).length, [shade, ground]];
            }"""
        )
        assert wider > 0
        assert at_edge == 4
        # Darker than paper, lighter than night: black would not be seen there.
        assert inside[0].startswith("#000000" if theme == "light" else "#ffffff"), inside


def test_the_answer_is_as_large_as_the_question_and_fields_are_no_wider_than_they_need(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = measured(site, people.owner)
    page.set_viewport_size({"width": 1440, "height": 900})
    open_page(f"/experiments/{made.pk}/comparison/")
    question = page.locator("h1").evaluate(SIZE)
    assert page.locator(".answer").first.evaluate(SIZE) >= question
    open_page("/experiments/new/")
    widths = page.locator("main .form-control:visible, main .form-select:visible").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().width)"
    )
    assert max(widths) < 800


SIZES = """() => [...new Set([...document.querySelectorAll('main *')].filter((element) =>
  element.checkVisibility({ visibilityProperty: true }) && !element.closest('.visually-hidden, svg')
  && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
  .map((element) => getComputedStyle(element).fontSize))].sort()"""


def test_a_page_has_three_sizes_of_type(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = measured(site, people.owner)
    page.set_viewport_size({"width": 1440, "height": 900})
    for address in (
        *("/", "/experiments/", "/runs/", "/compare/", "/catalogue/", "/clusters/", "/docs/"),
        *("/docs/statistics/", "/experiments/new/", "/glossary/", "/account/notifications/"),
        made.get_absolute_url(),
        f"{made.get_absolute_url()}comparison/",
        made.runs.earliest("pk").get_absolute_url(),
    ):
        open_page(address)
        assert set(page.evaluate(SIZES)) <= {"13px", "15px", "24px"}, address


# Texts of verdicts that end in an ellipsis, and parts of cells that reach out of them.
CUT_OFF = """() => [...document.querySelectorAll('.verdict-matrix *')].filter((one) =>
  one.checkVisibility() && one.scrollWidth > one.clientWidth + 1 && one.clientWidth
  && getComputedStyle(one).overflowX === 'hidden').map((one) => one.textContent.trim())"""
REACHING_OUT = """() => [...document.querySelectorAll('.verdict-matrix :is(th, td) *')]
  .filter((one) => {
    if (!one.checkVisibility() || one.closest('svg svg, details:not([open]) > p')) return false;
    const [part, cell] = [one, one.closest('th, td')].map((each) => each.getBoundingClientRect());
    const isHidden = one.parentElement.closest('.anywhere, summary');
    return !isHidden && (part.right > cell.right + 1 || part.bottom > cell.bottom + 1);
  }).map((one) => `${one.className.baseVal ?? one.className}: ${one.textContent.trim()}`)"""


def measured_at_eighteen_scales(site: Site, owner: User, environments: int) -> Experiment:
    """Return an experiment with so many environments beside the baseline, all with long names."""
    names = ("Podman rootless of 2026", "udocker P1", "Charliecloud 0.41")
    others = [
        ContainerFactory(name=name, cluster=site.cluster) for name in names[: environments - 1]
    ]
    site.workload.name = "ResNet-50, mixed precision, batch 256 per GPU, channels last"
    site.workload.save()
    scales = [f"{nodes}x{gpus}" for nodes in (1, 2, 4) for gpus in range(1, 7)]
    return measured(site, owner, blocks=2, scales=scales, others=others)


@pytest.mark.parametrize("environments", [1, 3, 4])
def test_eighteen_configurations_fit_on_two_screens(
    environments: int, page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = measured_at_eighteen_scales(site, people.owner, environments)
    page.set_viewport_size({"width": 1440, "height": 900})
    open_page(f"/experiments/{made.pk}/comparison/")
    rows = page.locator(".verdict-matrix tbody tr")
    expect(rows).to_have_count(18)
    figure = page.locator("figure.printed").first
    picture = figure.locator("picture.for-light img:visible").last
    picture.scroll_into_view_if_needed()
    picture.evaluate("picture => picture.decode()")
    heights = rows.evaluate_all("all => all.map((one) => one.getBoundingClientRect().height)")
    assert max(heights) <= (48 if environments > 1 else 34), "two lines, or one"
    box = picture.evaluate("one => one.getBoundingClientRect().bottom + scrollY")
    assert box <= 1800
    assert page.evaluate(REACHING_OUT) == []
    name = rows.first.locator("th > .anywhere")
    assert name.get_attribute("title") == name.text_content()
    ends = page.locator(".verdict-matrix tbody th .end")
    shown = "all => all.filter((one) => one.scrollWidth <= one.clientWidth + 1).length"
    assert ends.evaluate_all(shown) == 18, "the scales tell the rows apart"
    assert len(set(ends.all_text_contents())) == 18
    assert page.evaluate(WIDER) == []


@pytest.mark.parametrize("width", [390, 1024])
def test_nothing_of_a_verdict_is_cut_on_smaller_screens(
    width: int, page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = measured_at_eighteen_scales(site, people.owner, 4)
    page.set_viewport_size({"width": width, "height": 844})
    open_page(f"/experiments/{made.pk}/comparison/")
    expect(page.locator(".verdict-matrix tbody tr")).to_have_count(18)
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate(REACHING_OUT) == []


def test_nothing_selected_leaves_nothing_to_press(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = measured(site, people.owner)
    page.set_viewport_size({"width": 1440, "height": 900})
    open_page("/runs/")
    buttons = page.locator(".selection :is(.btn, .menu):visible")
    assert buttons.count() == 0
    page.get_by_label(f"Select run {made.runs.order_by('pk')[0].uid[:8]}").check()
    assert buttons.count() > 1
    assert (
        page.locator(".runs td", has_text="node1").first.evaluate(
            """one => {
          const range = document.createRange();
          range.selectNodeContents(one);
          return range.getClientRects().length;
        }"""
        )
        == 1
    )
