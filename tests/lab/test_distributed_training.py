"""Horovod on TensorFlow and DDP on PyTorch: a process for each GPU, on one node and on two.

Their images are built here where the cache has none: Horovod's takes minutes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from bs4 import BeautifulSoup

from experiments import demo
from experiments.execution import lifecycle
from experiments.models import Cluster, Experiment, LiveReading, Run, Workload
from lab.client import Lab, ensure_lab, stop_lab
from runners.jobs import EnvironmentSpec, Launch
from runners.schedulers import Slurm
from runners.workloads import WORKLOADS
from tests.conftest import tick_until
from tests.factories import AdminFactory
from tests.lab.by_forms import Person
from tests.lab.conftest import FIRST_BUILD_SECONDS
from tests.lab.machine import Machine, connected
from tests.lab.test_launchers import job_of, ran
from tests.lab.test_presets import SMALL, Smoke, drafted, researcher
from tests.lab.test_without_python import VERDICTS

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

LIBRARIES = {
    "horovod": ("mpirun", {"parallel": "horovod"}, ("Horovod", 2)),
    "torch": ("srun", {"framework": "pytorch", "parallel": "ddp"}, ("DistributedDataParallel", 2)),
}
"""By image: the launcher, the parameters, and strategy and replicas in the facts of a result."""
# What MPI in a container of udocker needs: the researcher's own name, since PRoot makes everybody
# root and the daemon of mpirun believes nobody else; and /tmp, where that keeps its files.
OPTIONS, BINDS = ("--hostauth", "--user=researcher"), ("/tmp:/tmp",)
KILL_RANK_1 = """
for process in /proc/[0-9]*; do
    words=$(tr '\\0' ' ' <$process/cmdline) 2>/dev/null
    case $words in
    *udocker*payload/main.py* | *proot*payload/main.py*) ;;
    *python*payload/main.py*)
        if tr '\\0' '\\n' <$process/environ | grep -qx TARE_RANK=1; then
            kill -KILL ${process#/proc/}
        fi ;;
    esac
done
"""

each = pytest.mark.parametrize("image", LIBRARIES)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with the two images, which no other test needs, and with no other."""
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=tuple(LIBRARIES))
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def machine(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm()) as runner:
        yield Machine(lab, runner)


@pytest.fixture
def registered(lab: Lab, db: None) -> Cluster:
    owner = AdminFactory(username="demo")
    facts = json.loads((lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    for image in LIBRARIES:
        demo.register_image(cluster, facts["images"][image], owner)
    cluster.runtimes.filter(kind="udocker").update(options=list(OPTIONS))
    cluster.environments.filter(runtime__kind="udocker").update(binds=list(BINDS))
    Cluster.objects.update(poll_seconds=0)
    cluster.refresh_from_db()
    return cluster


def list_environments(lab: Lab, image: str) -> list[EnvironmentSpec]:
    """Bare metal, Apptainer and udocker, of the same packages."""
    software = lab.images[image]
    inside = EnvironmentSpec("", "", python=software.image.python)
    path, container = software.form("sandbox").path, software.form("udocker", "P1").path
    return [
        EnvironmentSpec("bare", "bare_metal", python=software.bare_metal.python),
        replace(inside, label="box", runtime="apptainer", image_path=path),
        replace(
            inside,
            label="u",
            runtime="udocker",
            mode="P1",
            image_path=container,
            options=OPTIONS,
            binds=BINDS,
        ),
    ]


@each
@pytest.mark.parametrize("nodes", [1, 2])
def test_two_processes_train_as_one_behind_every_wall(
    machine: Machine, image: str, nodes: int
) -> None:
    """The same losses from both ranks, on bare metal and in containers."""
    launcher, library, (strategy, replicas) = LIBRARIES[image]
    options = tuple(demo.MPIRUN_OPTIONS) if launcher == "mpirun" else ()
    launch = Launch(launcher, nodes=nodes, processes_per_node=2 // nodes, options=options)
    cnn = WORKLOADS["cnn"]
    job = job_of(machine, launch, *list_environments(machine.lab, image), gpus=2 // nodes)
    wanted = {"network": "small", "steps": 6, "burn_in": 1, "evaluate": False}
    parameters = cnn.clean(wanted | library)
    runs = tuple(replace(run, workload="cnn", parameters=parameters) for run in job.runs)
    resources = replace(job.resources, time_limit_seconds=900, memory_mb=4000)
    losses = []
    for run in ran(machine, replace(job, runs=runs, resources=resources), 900):
        assert (run.exit_code, run.failure) == (0, ""), run.output_tail
        result = cnn.read(run.files, parameters)
        facts = result.facts
        assert (facts["strategy"], facts["replicas"]) == (strategy, replicas)
        assert (facts["processes"], facts["batch_of_replica"], facts["batch_of_job"]) == (2, 16, 32)
        other = json.loads(run.files["rank-1/result.json"])
        assert other["series"]["loss"]["values"] == result.series["loss"][1]
        rate = result.measurements["images_per_second"][0]
        assert rate == pytest.approx(32 / result.measurements["step_time"][0])
        losses.append(result.series["loss"][1])
    assert losses[0] == losses[1] == losses[2]
    assert losses[0][-1] < losses[0][0], "it learns"


LONGER = SMALL | {"steps": "40", "burn_in": "10"}
MOST_SECONDS = 2400
"""Of 45 runs, one after the other, on a busy machine: half a minute each and more."""
SMOKES = {
    "horovod-on-several-nodes": ("horovod", "mpirun"),
    "ddp-on-several-nodes": ("torch", "srun"),
}


def find_environments(cluster: Cluster, image: str) -> list[str]:
    """Return the names of bare metal, Apptainer and udocker for an image, bare metal first."""
    rows = cluster.environments.filter(name__contains=f"({image} ").order_by("pk")
    kinds = ("bare metal", "Apptainer sandbox", "udocker P1")
    return [row.name for row in rows if row.name.startswith(kinds)]


@pytest.mark.timeout(FIRST_BUILD_SECONDS + MOST_SECONDS)
@pytest.mark.parametrize("key", SMOKES)
def test_a_preset_of_five_blocks_ends_in_verdicts_by_nodes_and_gpus(
    key: str, researcher: Person, registered: Cluster
) -> None:
    """The table of the study: one process, two on one node, and two on two nodes."""
    Cluster.objects.update(max_live_jobs=1)  # both nodes are one host: one job would slow another
    image, launcher = SMOKES[key]
    scales = [f"{scale} {launcher}" for scale in ("1x1", "1x2", "2x1")]
    names = find_environments(registered, image)
    assert len(names) == 3, "on bare metal, in Apptainer and in udocker"
    smoke = Smoke("", typed=LONGER, scales=", ".join(scales), repeats=5)
    made = drafted(researcher, registered, key, smoke, names)
    alive = Run.objects.exclude(state__in=Run.FINAL)
    tick_until(registered, lambda: not alive.exists(), seconds=MOST_SECONDS)
    ended = {(run.state, run.reason, run.message) for run in Run.objects.all()}
    assert ended == {("succeeded", "", "")}
    page = BeautifulSoup(researcher.get("comparison", made.pk, section="all").text, "html.parser")
    text = page.get_text(" ", strip=True)
    for words in ("Weak scaling", "(x ", *scales, *names):
        assert words in text, words
    assert "NO INFERENCE" not in text
    assert "PROVISIONAL" not in text
    verdicts = [each.get_text(strip=True) for each in page.select(".verdict")]
    assert len(verdicts) >= len(scales) * (len(names) - 1)
    assert set(verdicts) <= VERDICTS, verdicts


@each
def test_a_rank_that_is_killed_in_the_middle_is_named(
    image: str, researcher: Person, registered: Cluster, lab: Lab
) -> None:
    """The others end because they lose it: what they say about that is not why the run failed."""
    launcher, library, _ = LIBRARIES[image]
    typed = {"steps": "100000", "network": "small", "evaluate": False, "time_limit_seconds": "600"}
    page = researcher.get("workload_new", kind="cnn")
    researcher.send(page, "?kind=cnn", name="endless", **typed, **library)
    names = find_environments(registered, image)
    rows = list(registered.environments.filter(name__in=names).order_by("pk"))
    assert len(rows) == 3, "on bare metal, in Apptainer and in udocker"
    researcher.send(
        researcher.get("experiment_new", cluster=registered.pk),
        "",
        question="Which rank is it?",
        workloads=[str(Workload.objects.get(name="endless").pk)],
        environments=[str(row.pk) for row in rows],
        baseline=str(rows[0].pk),
        scales=f"2x1 {launcher}",
        repeats="1",
        design="independent",
    )
    experiment = Experiment.objects.get()
    try:
        for _ in rows:
            running = Run.objects.filter(state=Run.State.RUNNING)
            tick_until(registered, running.exists, seconds=300)
            run = running.get()

            def has_steps(run: Run = run) -> bool:
                """Return whether the page of the run, which is being read, shows some steps."""
                researcher.app.get(run.get_absolute_url(), user=researcher.name)
                readings = LiveReading.objects.filter(run=run)
                curves = [(reading.report or {}).get("curves", {}) for reading in readings]
                return any(curve.get("loss", {}).get("count", 0) > 2 for curve in curves)

            tick_until(registered, has_steps, seconds=300)
            killed = lab.execute(["sh", "-c", KILL_RANK_1])
            assert killed.returncode == 0, killed.stderr
            final = Run.objects.filter(pk=run.pk, state__in=Run.FINAL)
            tick_until(registered, final.exists, seconds=120)
    finally:
        lifecycle.cancel(experiment, experiment.owner)
        alive = Run.objects.exclude(state__in=Run.FINAL)
        tick_until(registered, lambda: not alive.exists(), seconds=300)
    for run in experiment.runs.all():
        page = researcher.app.get(run.get_absolute_url(), user=researcher.name)
        assert "Rank 1 ended with exit code 137 (SIGKILL" in page.text
