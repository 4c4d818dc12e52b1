"""Bring docker-compose.yml up from nothing, and try what docs/compose.md promises.

    python -m tests.compose [--from COMMIT]

Base images are stand-ins of the same names (base_images.py). The site begins as COMMIT, launches
the demo experiment, and is upgraded to this checkout while its jobs run; each service is then
killed in two ways; the experiment goes on to its verdicts. The last output is a table of all steps.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from lab import host
from tests.compose import base_images, lab_image
from tests.compose.composed_site import (
    SERVICES,
    Site,
    copy_checkout,
    copy_commit,
    crash,
    find_compose,
    wait_until,
)
from tests.compose.engine import docker, inspect, run_engine

BASE = Path(__file__).resolve().parents[2]
FOLDER = BASE / "var" / "compose-proof"
BLOCKS_BEFORE_UPGRADE = 2


class Table:
    """What was done, how long it took, and what was seen."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Time a step; the block adds what it has seen."""
        host.say(f"{what} ...")
        seen: list[str] = []
        began = time.monotonic()
        yield seen
        row = f"| {what} | {time.monotonic() - began:.0f} s | {'; '.join(seen)} |"
        self.rows.append(row)
        host.say(row)


def main() -> int:
    """Run the whole proof. Exit code 1 when something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="commit", help="Upgrade this; default: an older migration.")
    commit = parser.parse_args().commit or find_commit_before_newest_migration()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which cleans up
    FOLDER.mkdir(parents=True, exist_ok=True)
    table = Table()
    try:
        with run_engine(FOLDER):
            host.say(list_versions())
            prove(table, commit)
    except host.LabError as error:
        host.say(f"FAILED: {error}")
        return 1
    finally:
        sys.stdout.write("\n".join(["", "| step | took | seen |", "| --- | --- | --- |"]) + "\n")
        sys.stdout.write("\n".join(table.rows) + "\n")
    return 0


def find_commit_before_newest_migration() -> str:
    """Return the newest commit that has a migration less than this checkout."""
    added = ["--diff-filter=A", "--format=%H", "HEAD", "--", "experiments/migrations"]
    return git("rev-parse", "--short", f"{git('log', '-1', *added)}^")


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=BASE, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def prove(table: Table, commit: str) -> None:
    """Go through all steps. Raises LabError at the first thing that does not hold."""
    copy_checkout(BASE, FOLDER / "after")  # which somebody may go on to edit
    site = Site(FOLDER / "after", FOLDER / "compose.log")
    site.log.write_text("")
    site.end()  # of a proof that was broken off
    try:
        start_before(table, site, commit)
        upgrade(table, site)
        for service in SERVICES:
            if service != "lab":
                kill(table, site, service)
        finish_experiment(table, site)
        with table.step("lab: upgrade to this version"):
            site.compose("up", "--detach", "--build", "lab")
            site.wait_until_healthy()
        kill(table, site, "lab")
        run_job(table, site)
        check_nothing_is_lost(table, site)
    except host.LabError:
        for name in site.list_containers():
            done = subprocess.run(["docker", "logs", name], capture_output=True, check=False)
            (FOLDER / f"{name}.log").write_bytes(done.stdout + done.stderr)
        raise
    finally:
        with table.step("Everything removed"):
            site.end()


def start_before(table: Table, site: Site, commit: str) -> None:
    """Start the version to be upgraded, with the demo experiment running on its lab."""
    with table.step("Image of the demo, from the cache of all labs") as seen:
        cached = lab_image.ensure_image(FOLDER)
        seen.append(cached.name)
    copy_commit(commit, FOLDER / "before")
    with table.step("Stand-ins for base images") as seen:
        names = base_images.list_base_images(FOLDER / "before")
        names |= base_images.list_base_images(FOLDER / "after")
        base_images.make_stand_ins(names, FOLDER)
        seen += sorted(names)
    site.checkout = FOLDER / "before"
    with table.step(f"Version {commit}: built and started") as seen:
        site.compose("up", "--detach", "--build")
        site.wait_until_serving()
        seen += sorted(site.list_containers())
    with table.step("Image copied to the lab, udocker's container made"):
        wait_until(lambda: "idle" in site.run_on_the_lab("sinfo"), "Slurm", 120)
        lab_image.copy_image(site, cached)
    with table.step(f"Demo experiment launched; {BLOCKS_BEFORE_UPGRADE} blocks measured") as seen:
        key = lab_image.read_key(site)
        facts = lab_image.read_facts(site, cached)
        site.call("launch", facts=facts, key=key)
        wait_for_blocks(site, BLOCKS_BEFORE_UPGRADE)
        seen.append(describe(site))


def wait_for_blocks(site: Site, number: int) -> None:
    def are_done() -> bool:
        states = [state for _, state, _ in site.call("describe")["jobs"]]
        return states.count("done") >= number

    wait_until(are_done, f"{number} blocks of the experiment", 900)


def upgrade(table: Table, site: Site) -> None:
    """Start this checkout's version over the data of the one before, while its jobs run."""
    before = site.call("describe")
    site.checkout = FOLDER / "after"
    with table.step("Upgrade to this version, all but the lab, while a job runs") as seen:
        services = [service for service in SERVICES if service != "lab"]
        site.compose("up", "--detach", "--build", *services)
        site.wait_until_healthy()
        after = site.call("describe")
        migrations = after["migrations"] - before["migrations"]
        seen.append(f"{migrations} migrations applied; {describe(site)}")
        require(set(before["users"]) <= set(after["users"]), "the users are there")
        require(after["events"] >= before["events"], "the events are there")
        require(before["jobs"][0] == after["jobs"][0], "the first job is as it was")


def kill(table: Table, site: Site, service: str) -> None:
    """Kill a service's process, then its container; each time all has to be healthy again."""
    container = site.find_container(service)
    with table.step(f"{service}: process killed by its number") as seen:
        began = time.monotonic()
        crash(container)
        seen.append(f"started again after {time.monotonic() - began:.0f} s, then healthy")
        site.wait_until_healthy()
    with table.step(f"{service}: docker kill") as seen:
        docker("kill", container)
        time.sleep(10)  # longer than the engine's pause before it starts a container again
        was_restarted = inspect(container)["State"]["Running"]
        others = site.list_unhealthy(but=service)
        seen.append("started again by itself" if was_restarted else "stayed down")
        seen.append(f"unhealthy besides: {', '.join(others) or 'nothing'}")
        seen.append(f"/healthz/: {site.read_health() or 'no answer'}")
        site.compose("up", "--detach", "--no-recreate", service)
        site.wait_until_healthy()
        seen.append("healthy after `up -d`")


def finish_experiment(table: Table, site: Site) -> None:
    """Wait for the verdicts, and for Slurm's word that nothing was executed twice."""
    with table.step("The rest of the experiment, to its verdicts") as seen:
        wait_until(lambda: site.call("describe")["is_over"], "the end of the experiment", 1800)
        seen.append(describe(site))
        seen += site.call("list_verdicts")
    with table.step("Jobs in Slurm's accounts") as seen:
        executions = lab_image.list_executions(site)
        twice = {name: states for name, states in executions.items() if len(states) > 1}
        seen.append(f"{len(executions)} names, {len(twice)} of them twice")
        require(not twice, f"no job was submitted twice: {twice}")
        jobs = site.call("describe")["jobs"]
        require(all(state == "done" for _, state, _ in jobs), f"every job is done: {jobs}")
        require(set(map(len, executions.values())) == {1}, "each job was executed once")
        require(len(executions) == len(jobs), "each execution belongs to a job")


def run_job(table: Table, site: Site) -> None:
    """Run a job on both nodes of the lab that was killed."""
    with table.step("A job on both nodes of that lab"):
        site.run_on_the_lab("su", "researcher", "-c", "srun --nodes=2 true")


def check_nothing_is_lost(table: Table, site: Site) -> None:
    """Compare the verdicts before and after everything is stopped and started anew."""
    verdicts = site.call("list_verdicts")
    with table.step("`down` and `up -d` of everything: containers new, volumes kept"):
        site.compose("down", "--timeout", "10")
        site.compose("up", "--detach")
        site.wait_until_healthy()
        require(site.call("list_verdicts") == verdicts, "the verdicts are the same")


def describe(site: Site) -> str:
    """Return one line of how far the experiment is."""
    runs = site.call("describe")["runs"]
    return ", ".join(f"{number} runs {state}" for state, number in runs.items())


def require(is_true: bool, what: str) -> None:
    if not is_true:
        raise host.LabError(f"does not hold: {what}")


def list_versions() -> str:
    """Return the date and the versions of what the proof runs with."""
    engine = docker("version", "--format", "{{.Server.Version}}").strip()
    argv = [*find_compose(), "version", "--short"]
    compose = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    return f"{datetime.now(UTC):%d %B %Y}, Docker engine {engine}, docker compose {compose}"


if __name__ == "__main__":
    sys.exit(main())
