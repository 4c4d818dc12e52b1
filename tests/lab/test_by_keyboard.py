"""From the log-in to a file of results by the keyboard alone, on the real cluster of the lab."""

from __future__ import annotations

import csv
import json
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from experiments import execution, notify
from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, Run, Workload
from lab.client import Lab
from tests.conftest import pause_longer
from tests.dashboard.conftest import (
    browser_type_launch_args,
    chromium,
    complaints,
    playwright,
)
from tests.factories import PASSWORD, AdminFactory
from tests.lab.by_forms import Workers
from tests.lab.hands import Hands

__all__ = ["browser_type_launch_args", "chromium", "complaints", "playwright"]

pytestmark = [
    pytest.mark.lab,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]

FULL_RESULTS = re.compile("^Full results")  # the number of comparisons may follow
expect.set_options(timeout=30_000)  # the browser, the site and the lab share the machine
PROGRAM = (
    "import itertools, os, time; from tare import Recorder; r = Recorder(); "
    "go_on = lambda n: n < 4 or not os.path.exists({file!r}); "
    "[(time.sleep(0.1), print('epoch', n, flush=True), r.step(loss=1 / (n + 1))) "
    "for n in itertools.takewhile(go_on, r.steps(3000, burn_in=1))]"
)
"""Goes on until somebody has seen enough of it: that is a file on the cluster."""


class Work:
    """Does what the pages ask workers to do, and visits the cluster, until something is seen."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def until(self, is_seen: Callable[[], object], seconds: float = 120) -> None:
        deadline, pauses = time.monotonic() + seconds, pause_longer()
        while not is_seen():
            assert time.monotonic() < deadline, list(Run.objects.values_list("state", "message"))
            self.workers.work()
            for pk in Cluster.objects.values_list("pk", flat=True):
                execution.tick(pk)
            next(pauses)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    workers = Workers()
    monkeypatch.setattr(notify, "enqueue", workers.take)
    return Work(workers)


def add_cluster(hands: Hands, lab: Lab, work: Work) -> None:
    page = hands.page
    hands.follow("Clusters")
    hands.follow("Add a cluster")
    for label, text in (
        ("Name", "the lab"),
        ("Host", lab.host),
        ("Port", str(lab.port)),
        ("Account", lab.user),
    ):
        hands.write(label, text)
    hands.push("Continue")
    work.until(page.get_by_text("The host shows", exact=True).is_visible)
    hands.push("I have compared it: it is the same")
    hands.open("Import a key")
    imported = page.locator("#import")
    hands.go_to(imported.get_by_label("Name", exact=True))
    page.keyboard.type("lab's key")
    hands.go_to(imported.get_by_label("Account", exact=True))
    hands.press("Control+a")
    page.keyboard.type(lab.user)
    hands.go_to(imported.get_by_label("or as text", exact=True))
    page.keyboard.insert_text(Path(lab.private_key).read_text())  # Ctrl+V
    hands.push("Import the key")
    hands.follow("The line is installed: continue")
    hands.write("Work directory", f"{lab.work_directory}/by-keyboard")
    hands.push("Log in and read")
    work.until(page.get_by_role("link", name="Continue", exact=True).is_visible)
    hands.follow("Continue")
    hands.push("Add this cluster")
    expect(page.get_by_role("heading", level=1)).to_contain_text("the lab")


def add_environment(hands: Hands, name: str, python: str) -> None:
    hands.follow("Catalogue")
    hands.follow("Environments")
    hands.follow("New environment")
    hands.write("Name", name)
    hands.write("Interpreter", python)
    hands.push("Add the environment")
    expect(hands.page.get_by_role("heading", level=1)).to_contain_text(name)


def add_program(hands: Hands, argv: str) -> None:
    hands.follow("Catalogue")
    hands.follow("Workloads")
    hands.follow("Add a workload")
    hands.choose("Kind", "command")
    expect(hands.page.get_by_label("Command", exact=True)).to_be_visible()
    hands.write("Name", "a loop")
    hands.write("Command", argv)
    hands.push("Add to the catalogue")


def test_the_whole_path_by_keyboard(
    page: Page, live_server: LiveServer, lab: Lab, work: Work
) -> None:
    AdminFactory(username="ada")
    file = f"{lab.work_directory}/seen-by-keyboard"
    facts = json.loads((lab.directory / "lab.json").read_text())
    python = facts["images"]["numpy"]["bare_metal"]["python"]
    page.goto(live_server.url)
    hands = Hands(page)
    hands.write("Username", "ada")
    hands.write("Password", PASSWORD)
    hands.enter()
    add_cluster(hands, lab, work)
    add_environment(hands, "bare metal", python)
    add_environment(hands, "bare metal again", python)
    assert Environment.objects.count() == 2
    add_program(hands, shlex.join(["{python}", "-c", PROGRAM.format(file=file)]))
    assert Workload.objects.get().name == "a loop"

    launch(hands)
    made = Experiment.objects.get()
    alive = made.runs.exclude(state__in=Run.FINAL)
    try:
        watch(hands, made, work)
        lab.execute(["touch", file])
        work.until(lambda: not alive.exists())
    finally:
        lifecycle.cancel(made, made.owner)
        work.until(lambda: not alive.exists())
        lab.execute(["rm", "-f", file])
    assert {run.state for run in made.runs.all()} == {"succeeded"}
    compare(hands, made)
    assert len(export_runs(hands)) == 4


def launch(hands: Hands) -> None:
    hands.follow("Experiments")
    hands.follow("New experiment")
    hands.write("Question", "Does a keyboard suffice?")
    hands.choose("Partition", "gpu")
    hands.tick(re.compile("^a loop"))
    hands.tick("bare metal")
    hands.tick("bare metal again")
    hands.write("Scales", "1x0")
    hands.write("Repeats", "2")
    hands.push("Launch")
    refusal = hands.page.locator("#summary, .problem")
    assert refusal.count() == 0, refusal.all_inner_texts()
    expect(hands.page.get_by_role("heading", level=1)).to_have_text("Does a keyboard suffice?")


def watch(hands: Hands, made: Experiment, work: Work) -> None:
    """Look at a run while it runs; the focus stays on its output, which grows."""
    running = made.runs.filter(state=Run.State.RUNNING)
    work.until(running.exists)
    hands.follow(running[0].uid[:8])
    output = hands.page.locator("pre.from-end")
    work.until(lambda: hands.page.locator("figure.curve").count() and output.count())
    hands.go_to(output)
    seen = output.inner_text()
    work.until(lambda: output.inner_text() != seen)
    assert "epoch 1" in seen
    expect(output).to_be_focused()


def compare(hands: Hands, made: Experiment) -> None:
    # The page of the run that was watched shows the end once: its parts move while that comes.
    expect(hands.page.locator("[data-live]")).to_have_count(0, timeout=30_000)
    hands.follow(made.question)
    hands.follow("Open the comparison")
    hands.go("link", FULL_RESULTS)
    hands.press("Enter")
    expect(hands.page.get_by_role("heading", name="Full results")).to_be_visible()
    expect(hands.page.get_by_role("link", name=FULL_RESULTS)).to_be_focused()


def export_runs(hands: Hands) -> list[dict[str, str]]:
    """Return the rows of a file that the comparison's page exports."""
    hands.open("Export")
    hands.go("link", re.compile("^Runs, CSV"))
    with hands.page.expect_download() as download:
        hands.press("Enter")
    with open(download.value.path(), newline="") as file:
        return list(csv.DictReader(file))
