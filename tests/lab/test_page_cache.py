"""A cold and a warm page cache in real containers: what the programs inside read from the disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from bs4 import BeautifulSoup

from experiments import demo
from experiments.models import Cluster, Experiment, Run, Workload
from lab.client import Lab, ensure_lab, stop_lab
from runners import page_cache
from runners.jobs import EnvironmentSpec
from runners.page_cache_records import FILE
from runners.payload import read_payload_files
from runners.payload.page_cache import LEAST_WARM, MOST_COLD
from runners.schedulers import Slurm
from tests.conftest import tick_until
from tests.factories import AdminFactory
from tests.lab.by_forms import Person
from tests.lab.machine import Machine, connected
from tests.lab.test_presets import researcher
from tests.lab.test_without_python import VERDICTS

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough]

FORMS = {
    "Apptainer sandbox": ("apptainer", "sandbox", ""),
    "udocker P1": ("udocker", "udocker", "P1"),
    "udocker R1": ("udocker", "udocker", "R1"),
    "Charliecloud": ("charliecloud", "sandbox", ""),
    "Podman": ("podman", "podman", ""),
    "Apptainer SIF": ("apptainer", "sif", ""),
    "Charliecloud squashfs": ("charliecloud", "squashfs", ""),
}
OF_ONE_FILE = ("Apptainer SIF", "Charliecloud squashfs")
"""Their files are read by a process of FUSE, and what the program has read is not its own."""
# What the kernel has read from disks for this process while it loaded NumPy and its libraries.
READS = """import json, numpy
lines = open("/proc/self/io").read().splitlines()
json.dump(dict(line.split(": ") for line in lines), open("io.json", "w"))"""
LEAST_READ, MOST_READ = 10_000_000, 1_000_000  # bytes from the disk, cold and warm
# The share of files that is in memory, as the system's administrator is told by mincore.
RESIDENT = """import sys
sys.path.insert(0, sys.argv[1])
from payload import page_cache
page_cache.MOST_MEASURED = 10 ** 6
print(page_cache.measure("warm", page_cache.list_files(sys.argv[2:])))"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("numpy",))
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def machine(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm(), gate=False) as runner:
        yield Machine(lab, runner)


def list_environments(machine: Machine) -> list[EnvironmentSpec]:
    """Return bare metal, and each container in which the page cache can be prepared."""
    software = machine.lab.images["numpy"]
    bare = EnvironmentSpec("bare metal", "bare_metal", python=software.bare_metal.python)
    return [
        bare,
        *(
            replace(
                bare,
                label=label,
                runtime=runtime,
                mode=mode,
                python=software.image.python,
                image_format=form,
                image_path=software.form(form, mode).path,
            )
            for label, (runtime, form, mode) in FORMS.items()
        ),
    ]


def watch(machine: Machine, environments: list[EnvironmentSpec]) -> list[EnvironmentSpec]:
    """Return the environments with an interpreter that says what was read for it, and no more."""
    folder = f"{machine.lab.work_directory}/watched"
    asked = 'case "$*" in *sys.path*) exec "$PYTHON" "$@" ;; esac'
    program = f'#!/bin/sh\n{asked}\nexec "$PYTHON" -c "$READS"\n'
    machine.send(folder, {"python.sh": program.encode()})
    return [
        replace(
            one,
            python=f"{folder}/python.sh",
            binds=() if one.runtime == "bare_metal" else (folder,),
            variables=(("PYTHON", one.python), ("READS", READS)),
        )
        for one in environments
    ]


def measure_resident_share(machine: Machine, environment: EnvironmentSpec, payload: str) -> float:
    """Return the share of an environment's files that is in memory, asked by root."""
    command = page_cache.build_places_command(environment)
    found = machine.lab.execute(command, user=machine.lab.user)
    places = found.stdout.splitlines()
    assert places, found.stderr
    done = machine.lab.execute(["python3", "-B", "-c", RESIDENT, payload, *places])
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("policy", ["cold", "warm"])
def test_a_cold_run_reads_the_disk_and_a_warm_one_does_not(machine: Machine, policy: str) -> None:
    """Whatever lies between the program and its files: a folder, layers, a squashfs file."""
    environments = list_environments(machine)
    job = machine.job(*watch(machine, environments), gpus_per_node=0, time_limit_seconds=900)
    runs = (replace(run, parameters={**run.parameters, "page_cache": policy}) for run in job.runs)
    job = replace(job, runs=tuple(runs))
    record = machine.finished(job, machine.runner.submit(job), 600)
    for run in job.runs:
        ran, label = record.runs[run.uid], run.environment.label
        assert (ran.exit_code, ran.failure) == (0, ""), (label, ran.output_tail)
        found: dict[str, Any] = json.loads(ran.files[FILE])
        assert found["unreadable"] < 10, "such as /etc/shadow of a folder that root owns"
        assert found["bytes"] > 20_000_000, label
        if policy == "cold":
            assert found["cached"] <= MOST_COLD, label
        else:
            assert found["cached"] >= LEAST_WARM, label
        if label not in OF_ONE_FILE:
            read = int(json.loads(ran.files["io.json"])["read_bytes"])
            assert read > LEAST_READ if policy == "cold" else read < MOST_READ, (label, read)


def test_root_finds_nothing_of_a_cold_image_in_memory(machine: Machine) -> None:
    """By mincore of every file, which tells the truth to the administrator alone."""
    payload = f"{machine.lab.work_directory}/told"
    machine.send(f"{payload}/payload", read_payload_files())
    for environment in list_environments(machine)[1:]:
        prepare = [
            *page_cache.build_reading_command(environment),
            *("python3", "-B", f"{payload}/payload/page_cache.py"),
        ]
        places = machine.lab.execute(
            page_cache.build_places_command(environment), user=machine.lab.user
        ).stdout.splitlines()
        for policy in ("warm", "cold"):
            record = f"{machine.lab.work_directory}/{policy}.json"
            command = [*prepare, policy, record, *places]
            done = machine.lab.execute(command, user=machine.lab.user, timeout=200)
            assert done.returncode == 0, (environment.label, done.stderr)
            share = measure_resident_share(machine, environment, payload)
            assert share > 0.9 if policy == "warm" else share < 0.1, (environment.label, share)


@pytest.fixture
def registered(lab: Lab, db: None) -> Cluster:
    owner = AdminFactory(username="demo")
    facts = json.loads((lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    demo.register_image(cluster, facts["images"]["numpy"], owner)
    # Both nodes are one host: a cold job would drop what a warm one has read.
    Cluster.objects.update(poll_seconds=0, max_live_jobs=1)
    cluster.refresh_from_db()
    return cluster


@pytest.mark.django_db(transaction=True)
def test_cold_and_warm_files_end_in_verdicts_and_in_what_differs(
    researcher: Person, registered: Cluster
) -> None:
    """By forms: the image's own files, read once, on bare metal and in three containers."""
    typed = {"small_files": "0", "large_file_mb": "0", "software_files": "300", "steps": "1"}
    page = researcher.get("workload_new", kind="files")
    researcher.send(
        page, "?kind=files", name="its software", burn_in="0", time_limit_seconds="60", **typed
    )
    row = Workload.objects.get(name="its software")
    kinds = ("bare metal", "Apptainer SIF", "udocker P1", "Podman")
    rows = [each for each in registered.environments.order_by("pk") if each.name.startswith(kinds)]
    assert len(rows) == len(kinds)
    researcher.send(
        researcher.get("experiment_new", cluster=registered.pk, workloads=row.pk),
        "",
        question="Is a container slower while nothing is in memory?",
        workloads=[str(row.pk)],
        environments=[str(each.pk) for each in rows],
        baseline=str(rows[0].pk),
        scales="1x0",
        repeats="5",
        **{f"sweep_{row.pk}": "page_cache: cold, warm"},
    )
    made = Experiment.objects.get()
    alive = made.runs.exclude(state__in=Run.FINAL)
    tick_until(registered, lambda: not alive.exists(), seconds=1200)
    assert {(run.state, run.message) for run in made.runs.all()} == {("succeeded", "")}
    text = researcher.get("comparison", made.pk, section="all").text
    page = BeautifulSoup(text, "html.parser")
    verdicts = [each.get_text(strip=True) for each in page.select(".verdict")]
    assert len(verdicts) >= 2 * (len(rows) - 1)
    assert set(verdicts) <= VERDICTS, verdicts
    headings = [one.get_text(" ", strip=True) for one in page.select("h2, summary")]
    assert any(one.startswith("Between workloads") for one in headings), headings
    for run in made.runs.select_related("workload", "measure_notes"):
        policy = run.workload.parameters["page_cache"]
        assert f"page cache {policy}: before the run" in run.measure_notes.details["run_time"]
