"""Somebody without a mouse before a real browser: keys are pressed, and the focus is looked at."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.dashboard.test_accessibility_browser import RING

MOST_PRESSES = 200
END = "(the page’s end)"
FOCUS = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const text = (node) => (node?.textContent ?? '').trim().replace(/\\s+/g, ' ').slice(0, 60);
  const name = element.ariaLabel || text(element.labels?.[0]) || text(element) || element.id;
  const box = element.getBoundingClientRect();
  const middle = document.elementFromPoint(
    Math.max(0, box.x) + Math.min(box.width, innerWidth) / 2, box.y + Math.min(box.height, 20) / 2);
  const isCovered = middle && !element.contains(middle) && !middle.contains(element)
    && ![...(element.labels ?? [])].some((label) => label.contains(middle));
  return {
    description: `${element.role ?? element.tagName.toLowerCase()} “${name}”`,
    isSeen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && !isCovered,
  };
}"""
REMEMBER = """() => {
  const earlier = window.passedBefore;
  const now = document.activeElement;
  window.passedBefore = now;
  if (!earlier?.isConnected || now === document.body || earlier === document.body) return true;
  return Boolean(earlier.compareDocumentPosition(now) & Node.DOCUMENT_POSITION_FOLLOWING);
}"""


class Hands:
    """Presses keys, and nothing else."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.emulate_media(reduced_motion="reduce")  # or the focus is looked for while it scrolls
        self.passed: list[str] = []

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def step(self) -> None:
        """Press Tab; the focus goes on in the order of the page, and is seen where it is."""
        self.press("Tab")
        is_forward = self.page.evaluate(REMEMBER)
        focus = self.page.evaluate(FOCUS)
        if focus is None:
            self.passed.append(END)
            return
        self.passed.append(focus["description"])
        assert is_forward, f"The focus goes back to {focus['description']}: {self.passed}"
        assert focus["isSeen"], f"{focus['description']} has the focus out of sight: {self.passed}"
        ring = self.page.evaluate(RING)
        assert ring["width"] >= 2, ring
        assert ring["contrast"] >= 3, ring

    def go_to(self, target: Locator) -> None:
        """Press Tab until `target` has the focus; of several, the first that is met."""
        self.passed = []
        focused = target.and_(self.page.locator(":focus"))
        for _ in range(MOST_PRESSES):
            if focused.count():
                return
            self.step()
            if self.passed.count(END) == 2:
                break  # the whole page was passed
        pytest.fail(f"No key reaches {target} on {self.page.url}. Passed: {self.passed}")

    def go(self, role: str, name: str | re.Pattern[str]) -> None:
        self.go_to(self.page.get_by_role(role, name=name, exact=True))  # type: ignore[arg-type]

    def enter(self) -> None:
        """Press Enter, which leads to another page."""
        with self.page.expect_navigation(wait_until="domcontentloaded", timeout=120_000):
            self.press("Enter")

    def follow(self, name: str | re.Pattern[str]) -> None:
        """Go where a link leads."""
        self.go("link", name)
        self.enter()

    def push(self, name: str | re.Pattern[str]) -> None:
        """Send a form by its button."""
        self.go("button", name)
        self.enter()

    def open(self, text: str) -> None:
        """Open a menu or what is folded away."""
        self.go_to(self.page.locator("summary").filter(has_text=re.compile(f"^\\s*{text}\\s*$")))
        self.press("Enter")

    def write(self, label: str, text: str) -> None:
        """Type into a field in place of what it holds."""
        self.go_to(self.page.get_by_label(label, exact=True))
        self.press("Control+a")
        self.page.keyboard.type(text)

    def tick(self, name: str | re.Pattern[str]) -> None:
        """Have a box ticked, which may be so already."""
        self.go("checkbox", name)
        box = self.page.locator(":focus")
        if not box.is_checked():
            self.press("Space")
        expect(box).to_be_checked()

    def choose(self, label: str, text: str) -> None:
        """Choose of a list, by the first letters of a choice."""
        self.go_to(self.page.get_by_label(label, exact=True))
        self.page.keyboard.type(text)
