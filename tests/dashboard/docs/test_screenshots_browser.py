"""Pictures of pages for the documents, of made-up data: `make screenshots` writes docs/pictures/.

Without SCREENSHOTS=write the same pictures go to a folder of their own: a page that is no longer
there, is empty, or gives a picture that is too large fails.
"""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest
from django.urls import reverse
from django.utils import timezone
from PIL import Image
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from dashboard.docs.documents import map_pictures
from experiments.execution.holder import make_token
from experiments.health.processes import LATE
from experiments.models import Cluster, Environment, Experiment, Run, Runtime, ServiceSign
from runners.preflight.checks import Check
from tests.dashboard.conftest import People, drawn
from tests.factories import (
    PASSWORD,
    CheckReportFactory,
    ClusterFactory,
    ContainerFactory,
    CredentialFactory,
    EnvironmentFactory,
    ImageFactory,
    LaunchedFactory,
    PartitionFactory,
    RuntimeFactory,
    SeriesFactory,
    WorkloadFactory,
    block,
)
from tests.source_tree import BASE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]

FOLDER = BASE / "docs" / "pictures"
MOST_BYTES = 150_000
COLOURS = 128
"""Of a picture: pages have few, and it takes a third of the bytes."""
SIZE = {"width": 1200, "height": 800}
HEIGHTS = {"overview": 400, "run": 620}
"""Of pages that are shorter."""
EXPECTED = {
    "overview": "Apptainer SIF is equivalent to bare metal",
    "new-experiment": "GPU-hours",
    "experiment": "What the runs say",
    "comparison": "Time per step relative to bare metal",
    "run": "Where and when",
    "cluster": "udocker install --force",
    "operations": "All that Tare needs is running.",
}
"""A text of each picture's page."""
COSTS = {
    "Apptainer SIF": (1.004, 1.006),
    "udocker F3": (1.012, 1.019),
    "udocker P1": (1.071, 1.094),
}
"""Of each container the ratio to bare metal, on 1 GPU and on 4."""
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
"""A public key of nobody's."""
VERSIONS = {"Apptainer": "1.4.5", "udocker": "1.3.17"}
CHECKS = (
    ("Connection", "Log in", "ok", "as *measure* on login1 in 0.4 s", ""),
    ("Login node", "Work directory", "ok", "/project/measure/tare, 3.1 TB free", ""),
    ("Login node", "Scheduler", "ok", "Slurm 24.11.5", ""),
    ("Partition gpu", "GPUs", "ok", "4 × NVIDIA A100, driver 570.124", ""),
    ("Partition gpu", "Apptainer", "ok", "1.4.5, started a container with a GPU", ""),
    ("Partition gpu", "udocker", "warning", "F3: patchelf lacks --set-root-prefix",
     "Install udocker's own build: udocker install --force."),
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """What the pages show."""

    cluster: Cluster
    experiment: Experiment
    run: Run


@pytest.fixture
def shown(people: People) -> Shown:
    """A cluster, and an experiment on two scales whose 8 blocks have all ended."""
    now = timezone.now()
    credential = CredentialFactory(name="measure", user_name="measure", owner=people.admin)
    credential.users.add(people.owner)
    cluster = ClusterFactory(
        name="alps",
        owner=people.admin,
        transport="ssh",
        host="login1.example.org",
        host_key=HOST_KEY,
        credential=credential,
        scheduler="slurm",
        work_directory="/project/measure/tare",
        last_tick_at=now,
        last_tick_seconds=0.4,
        last_seen_at=now,
    )
    partition = PartitionFactory(cluster=cluster, name="gpu", gpus_per_node=4)
    rows = [Check(*fields).as_json() for fields in CHECKS]
    checked = {"began_at": now, "ended_at": now, "outcome": "warning"}
    CheckReportFactory(cluster=cluster, owner=people.admin, rows=rows, **checked)
    for service, queue in (("worker", "default"), ("worker", "bulk"), ("clock", "")):
        place = {"host": socket.gethostname(), "pid": os.getpid(), "token": make_token()}
        seen = {"started_at": now - timedelta(days=3), "seen_at": now + LATE * 0.9}
        ServiceSign.objects.create(service=service, queue=queue, **place, **seen)
    bare = EnvironmentFactory(name="bare metal", cluster=cluster)
    image = ImageFactory(reference="tensorflow:2.21", owner=people.admin)
    containers = {}
    for name in COSTS:
        runtime, form = name.split()
        columns = {"kind": runtime.lower(), "version": VERSIONS[runtime], "executable": ""}
        installed = Runtime.objects.filter(cluster=cluster, kind=runtime.lower()).first()
        containers[name] = ContainerFactory(
            name=name,
            cluster=cluster,
            runtime=installed or RuntimeFactory(cluster=cluster, **columns),
            staged_image__image=image,
            staged_image__path=f"/project/images/{name.replace(' ', '-')}",
            staged_image__format="sif" if form == "SIF" else "udocker",
        )
    workload = WorkloadFactory(name="ResNet50 b64", kind="cnn", owner=people.owner)
    experiment: Experiment = LaunchedFactory(
        question="Does a container slow ResNet50 down on alps?",
        owner=people.owner,
        cluster=cluster,
        partition=partition,
        baseline=bare,
        workloads=[workload],
        environments=[bare, *containers.values()],
        scales=["1x1", "1x4"],
        repeats=8,
        margin=0.02,
        launched_at=now - timedelta(hours=6),
    )
    add_blocks(experiment, bare, containers)
    run = Run.objects.filter(experiment=experiment).order_by("pk")[0]
    chance = random.Random(7)
    steps = [0.31, 0.142, *(0.1002 + abs(chance.gauss(0, 0.0006)) for _ in range(198))]
    SeriesFactory(run=run, values=steps)
    return Shown(cluster, experiment, run)


def add_blocks(
    experiment: Experiment, bare: Environment, containers: dict[str, Environment]
) -> None:
    """Add the blocks of both scales, each in an order of its own, as a plan has them."""
    chance = random.Random(20261127)
    for place, scale in enumerate(experiment.scales):
        for repeat in range(1, experiment.repeats + 1):
            node = 0.1 * (1 + 0.09 * place) * chance.gauss(1, 0.004)
            values = {bare: node}
            for name, environment in containers.items():
                values[environment] = node * COSTS[name][place] * chance.gauss(1, 0.0025)
            order = chance.sample(list(values), len(values))
            block(experiment, repeat, {one: values[one] for one in order}, scale=scale)


def list_addresses(shown: Shown) -> dict[str, tuple[str, str]]:
    """Return who looks at which address, by the picture's name."""
    places = (
        ("owner", reverse("overview")),
        ("owner", reverse("experiment_new")),
        ("owner", shown.experiment.get_absolute_url()),
        ("owner", reverse("comparison", args=[shown.experiment.pk])),
        ("owner", shown.run.get_absolute_url()),
        ("admin", reverse("cluster", args=[shown.cluster.pk])),
        ("admin", reverse("operations")),
    )
    return dict(zip(EXPECTED, places, strict=True))


def log_in(page: Page, site: str, who: str) -> None:
    page.context.clear_cookies()
    page.goto(f"{site}/login/")
    page.get_by_label("Username").fill(who)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{site}/")


def fill_in(page: Page) -> None:
    """Fill in the form of an experiment, so that it says what it would cost."""
    page.get_by_label("Question").fill("Does Apptainer slow ResNet50 down on 4 GPUs?")
    page.get_by_role("checkbox", name="ResNet50 b64").check()
    page.get_by_role("checkbox", name="Apptainer SIF").check()
    page.get_by_label("Scales").fill("1x4")
    page.get_by_label("Scales").press("Tab")


def test_each_picture_of_the_documents_can_be_made(
    page: Page,
    live_server: LiveServer,
    people: People,
    shown: Shown,
    roomy_disks: None,
    empty_queues: None,
    tmp_path: Path,
) -> None:
    folder = FOLDER if os.environ.get("SCREENSHOTS") == "write" else tmp_path
    folder.mkdir(exist_ok=True)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    logged_in = ""
    for name, (who, address) in list_addresses(shown).items():
        if who != logged_in:
            log_in(page, live_server.url, who)
            logged_in = who
        answer = page.goto(live_server.url + address)
        assert answer
        assert answer.ok, address
        if name == "new-experiment":
            fill_in(page)
        expect(page.get_by_text(EXPECTED[name]).first).to_be_visible(timeout=30_000)
        if page.locator("[data-chart]:not(details:not([open]) *)").count():
            drawn(page)
        page.wait_for_load_state("networkidle")
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        clip = {"x": 0, "y": 0, **SIZE, "height": HEIGHTS.get(name, SIZE["height"])}
        path = folder / f"{name}.png"
        picture = Image.open(BytesIO(page.screenshot(clip=clip))).convert("RGB")
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
        assert 10_000 < path.stat().st_size < MOST_BYTES, (name, path.stat().st_size)


def test_the_pictures_of_pages_are_those_that_are_made_here_and_small() -> None:
    pictures = {name: path for name, path in map_pictures().items() if "/" in name}
    assert set(pictures) == {f"pictures/{name}.png" for name in EXPECTED}
    assert [name for name, path in pictures.items() if path.stat().st_size > MOST_BYTES] == []
