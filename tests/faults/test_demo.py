"""The demo ends in the middle of a load, and is started again: its cluster ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.models import Cluster
from lab.instance import WORK
from tests.faults.page_texts import PAGE_TEXTS
from tests.faults.site import Load, Reader, launch, use_servers
from tests.lab.started_demo import Demo, find_services, wait_for
from tests.source_tree import BASE

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(900)]

POWER_CUT = "all its processes are killed"
WAYS = ("Ctrl-C", "the supervisor is killed", POWER_CUT)


@pytest.fixture
def folder(tmp_path: Path, django_db_blocker: Any) -> Iterator[Path]:
    with django_db_blocker.unblock():
        yield tmp_path / "var"
    subprocess.run([BASE / "lab" / "lab", "down", "--dir", tmp_path / "var" / "lab"], check=False)


@contextmanager
def start_demo(folder: Path) -> Iterator[Demo]:
    """Start a demo, and have this process use its servers in the block."""
    demo = Demo(folder)
    try:
        demo.says("^Ctrl-C ends it")
        kept = demo.read_environment()
        with use_servers(kept["DATABASE_URL"], kept["REDIS_URL"]):
            wait_for(lambda: (folder / "lab" / "lab.json").exists(), demo)
            yield demo
    finally:
        if demo.process.poll() is None:
            demo.stop()


def launch_load(demo: Demo) -> Load:
    """Launch four jobs of two runs each on the demo's cluster, as soon as it is there."""
    wait_for(lambda: Cluster.objects.filter(name="lab").exists(), demo)
    Cluster.objects.update(max_live_jobs=4, poll_seconds=1)
    cluster = Cluster.objects.get(name="lab")
    scratch = demo.folder / "lab" / "scratch"
    load = launch(cluster, scratch / "researcher" / "load", f"{WORK}/load", blocks=4)
    return replace(load, work=scratch / Path(cluster.work_directory).relative_to("/scratch"))


def end(demo: Demo, way: str) -> None:
    """End a demo; what it has started may need a moment longer."""
    if way == "Ctrl-C":
        demo.stop()
        return
    if way == POWER_CUT:  # as far as its supervisor knows them
        for process in find_services(demo.folder).values():
            os.killpg(process, signal.SIGKILL)
    demo.process.kill()
    demo.process.wait()


@pytest.mark.parametrize("way", WAYS)
def test_the_demo_is_ended_and_started_again(folder: Path, way: str) -> None:
    """Whatever ran is tried again by rule: each attempt is executed once, and no result is lost.

    Slurm, too, may forget in a power cut how jobs ended that had begun.
    """
    with start_demo(folder) as demo:
        load = launch_load(demo)
        wait_for(lambda: load.experiment.runs.filter(state="running").count() >= 2, demo)
        end(demo, way)
    with start_demo(folder) as demo:
        load.gate.touch()
        wait_for(load.is_over, demo, seconds=600)
        account = load.make_account()
        assert account.is_kept, account
        events = Reader(load).read("events")
        failed = load.experiment.jobs.exclude(state="done")
        reasons = set(failed.values_list("reason", flat=True))
        assert reasons <= ({"lost"} if way == POWER_CUT else set()), events
        if failed.count() < 4:
            assert PAGE_TEXTS["the demo is ended"] in events, events


def test_the_web_server_is_killed(folder: Path) -> None:
    """Nobody misses it but those who read its pages."""
    with start_demo(folder) as demo:
        load = launch_load(demo)
        wait_for(lambda: load.experiment.runs.filter(state="running").count() >= 2, demo)
        os.kill(find_services(folder)["web"], signal.SIGKILL)
        demo.says("^web was killed by SIGKILL; its log is .*. Starting it again now.")
        load.gate.touch()
        wait_for(load.is_over, demo, seconds=600)
        account = load.make_account()
        assert account.is_kept
        assert account.executions == account.runs == 8
