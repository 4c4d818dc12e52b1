"""What keyboards, fingers and screen readers need, in a real browser and in both themes."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from playwright.sync_api import Page

from experiments.models import Experiment, Run
from tests.dashboard.conftest import Open, People, Site, drawn, measured
from tests.factories import JobFactory, RunFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
FORMS = (
    "/experiments/new/",
    "/experiments/import/",
    "/compare/tables/new/",
    "/catalogue/workloads/new/?kind=command",
    "/catalogue/workloads/new/?kind=cnn",
    "/catalogue/environments/new/",
    "/catalogue/images/new/",
    "/catalogue/images/recipes/new/",
    "/catalogue/images/files/new/",
    "/catalogue/presets/numpy-on-tuned-blas/",
    "/runs/",
    "/experiments/",
    "/client/",
    "/docs/",
    "/docs/statistics/",
    "/notifications/",
    "/account/notifications/",
    "/account/webhooks/new/",
)
INPUTS = {"textbox", "combobox", "checkbox", "radio", "spinbutton", "searchbox", "button", "link"}
SMALL = """() => [...document.querySelectorAll('a, button, input, select, summary, textarea')]
  .filter((one) => {
    if (one.type === 'hidden' || !one.offsetParent) return false;
    if (one.closest('.visually-hidden, .skip, footer')) return false;
    const box = one.matches('input[type=checkbox], input[type=radio]');
    const { width, height } = (box && one.closest('label') || one).getBoundingClientRect();
    // A link within a sentence is as high as its line: the rule leaves it out.
    const inline = getComputedStyle(one).display === 'inline' && one.tagName === 'A';
    return !inline && width > 1 && (width < 23.9 || height < 23.9);
  }).map((one) => one.outerHTML.slice(0, 160))"""
RING = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  let ringed = one; // what surrounds it may have the ring, as a cell has for its link
  while (ringed.parentElement && getComputedStyle(ringed).outlineStyle === 'none')
    ringed = ringed.parentElement;
  const style = getComputedStyle(ringed);
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  let ground = ringed.parentElement;
  while (ground && rgb(getComputedStyle(ground).backgroundColor)[3] < 255)
    ground = ground.parentElement;
  const light = (colour) => {
    const [r, g, b] = rgb(colour).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const pair = [style.outlineColor,
    getComputedStyle(ground ?? document.documentElement).backgroundColor].map(light);
  return {
    what: one.outerHTML.slice(0, 120),
    width: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
    contrast: (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05),
  };
}"""
CONTRAST = """async (one) => {
  await Promise.all(one.getAnimations().map((animation) => animation.finished));
  const style = getComputedStyle(one);
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const grounds = [];
  for (let up = one; up; up = up.parentElement)
    grounds.unshift(getComputedStyle(up).backgroundColor);
  grounds.forEach((ground) => light(ground));
  const ground = light('transparent');
  const pair = [ground, light(style.color)];
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
}"""
EDGES = """(plot) => {
  const sides = (one) => one.getBoundingClientRect();
  const all = (which) => [...plot.querySelectorAll(which)].map(sides);
  const plotted = sides(plot.querySelector('.cartesianlayer .gridlayer'));
  return {
    names: Math.max(...all('.ytick text').map((one) => one.right)),
    numbers: Math.min(...[...plot.querySelectorAll('.annotation')]
      .filter((one) => /\\[/.test(one.textContent)).map((one) => sides(one).left)),
    left: plotted.left,
    right: plotted.right,
    headings: [...plot.querySelectorAll('.ytick text')].map((one) => one.textContent),
    across: [...plot.querySelectorAll('.annotation')].map((one) => one.textContent),
  };
}"""


def nameless(page: Page) -> list[str]:
    """What takes input and has no name, as a screen reader is told."""
    session = page.context.new_cdp_session(page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    return [
        str(node["role"]["value"])
        for node in nodes
        if node.get("role", {}).get("value") in INPUTS
        and not node.get("ignored")
        and not node.get("name", {}).get("value", "").strip()
    ]


def test_every_input_of_every_form_has_a_name_and_every_target_is_large_enough(
    page: Page, open_page: Open, site: Site, results: Experiment
) -> None:
    problems = []
    for address in FORMS:
        open_page(address)
        problems += [(address, "no name", role) for role in nameless(page)]
        problems += [(address, "too small", html) for html in page.evaluate(SMALL)]
    assert not problems, "\n".join(map(str, problems))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_focus_is_seen_wherever_the_keyboard_goes(
    theme: Literal["light", "dark"], page: Page, open_page: Open, site: Site, results: Experiment
) -> None:
    page.emulate_media(color_scheme=theme)
    for address in ("/experiments/new/", "/catalogue/workloads/new/?kind=command", "/runs/"):
        open_page(address)
        seen = []
        for _ in range(45):
            page.keyboard.press("Tab")
            if (ring := page.evaluate(RING)) is None:
                break
            seen.append(ring)
        assert len(seen) > 15
        assert [ring for ring in seen if ring["width"] < 2 or ring["contrast"] < 3] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_to_be_read_before_a_button_can_be_read_on_a_phone(
    theme: Literal["light", "dark"], page: Page, open_page: Open, results: Experiment
) -> None:
    job = JobFactory(experiment=results, repeat=9, state="planned")
    RunFactory(job=job, state=Run.State.PLANNED)
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(results.get_absolute_url())
    for text in ("Pause", "Cancel"):
        opener = page.locator("summary", has_text=text)
        opener.click()
        box = page.locator(".confirm:visible").bounding_box()
        assert box
        assert (box["x"] >= 0, box["x"] + box["width"] <= 390) == (True, True)
        for target in (opener, page.locator(".confirm:visible button")):
            target.hover()
            assert target.evaluate(CONTRAST) >= 4.5, target
        opener.click()


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_the_last_column_of_the_runs_is_not_cut(
    width: int, page: Page, open_page: Open, site: Site, people: People
) -> None:
    site.workload.name = "ResNet50-FCN, 20 epochs, batch 16 on synthetic tiles"
    site.workload.save(update_fields=["name"])
    site.container.name = "Apptainer 1.4.5 SIF of a long name"
    site.container.save(update_fields=["name"])
    made = measured(site, people.owner, question="What does a container cost here? " * 8)
    made.runs.update(node="gpu-node-0123.cluster.example.org")
    Run.objects.filter(pk__in=list(made.runs.values_list("pk", flat=True)[:4])).update(
        state="failed", reason="time limit reached by the scheduler"
    )
    page.set_viewport_size({"width": width, "height": 900})
    open_page("/runs/")
    wider = page.locator(".scroll").first.evaluate("box => box.scrollWidth - box.clientWidth")
    assert wider <= 0 or width < 1280  # on a phone it scrolls, in its own box
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_headings_and_intervals_of_the_forest_keep_to_their_places(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    site.workload.name = "a workload whose name is as long as names get here"
    site.workload.save(update_fields=["name"])
    made = measured(site, people.owner, scales=["1x1", "1x2"])
    open_page(f"/experiments/{made.pk}/comparison/")
    page.get_by_text("Interactive chart").first.click()
    drawn(page)
    found = page.locator("[data-chart=forest]").evaluate(EDGES)
    assert found["names"] + 8 <= found["left"]
    assert found["right"] + 8 <= found["numbers"]
    assert any("1x2" in text for text in found["headings"])
    assert not any("1x2" in text for text in found["across"])
