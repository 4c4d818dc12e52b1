"""Jobs on the cluster leave samples of their node: shown while they run and after, and judged."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.utils import timezone

from experiments import execution
from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, LiveReading, NodeSamples, Run
from lab.client import Lab
from runners.gpu_measures import MEMORY_SAMPLES, POWER_SAMPLES
from runners.node_samples import MOST_GPUS
from runners.run_measures import MARKS, SLURM
from tests.conftest import finish, tick_until
from tests.factories import ExperimentFactory, WorkloadFactory
from tests.lab.by_forms import Person
from tests.lab.test_ends import NVIDIA_SMI, PARAMETERS
from tests.sending import send_files

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

LINE = "$(date -u +%Y/%m/%d\\ %T.123), {gpu}, 97, 40536, 612.31, {mhz}, 71, {reasons}"


@contextmanager
def tool(lab: Lab, sampling: str, processes: str = "exit 1") -> Iterator[None]:
    """Put an nvidia-smi on all nodes that lists four GPUs, and then does `sampling` to sample it.

    `processes` is what it does to list the processes there.
    """
    script = (
        "#!/bin/bash\n"
        "if [ \"$1\" = -q ]; then printf 'GPU 0000:0%s:06.0\\n' 1 2 3 4; exit; fi\n"
        f'case "$*" in *--query-compute-apps*) {processes}; exit ;; esac\n'
        'case "$*" in *--query-gpu=timestamp*) ;; *) exit 1 ;; esac\n'
        f"{sampling}\n"
    )
    lab.execute(["sh", "-c", f"install -m 755 /dev/stdin {NVIDIA_SMI} <<'EOF'\n{script}EOF"])
    try:
        yield
    finally:
        lab.execute(["rm", NVIDIA_SMI])


def print_lines(*, gpus: int = 1, mhz: int = 1830, reasons: str = "0x0000000000000004") -> str:
    """Return what prints a line for each GPU again and again, as `nvidia-smi --loop` does."""
    lines = "\n".join(
        f'echo "{LINE.format(gpu=gpu, mhz=mhz, reasons=reasons)}"' for gpu in range(gpus)
    )
    return f"while true; do\n{lines}\nsleep 1\ndone"


def launch(cluster: Cluster, folder: str, **columns: object) -> Experiment:
    """Launch an experiment of one block whose first run waits for a file `go`."""
    python = cluster.environments.filter(python__contains="numpy").values_list("python", flat=True)
    script = f"#!/bin/sh\nuntil [ -e '{folder}/go' ]; do sleep 0.2; done\nexec {python[0]} \"$@\"\n"
    with execution.connect(cluster) as runner:
        send_files(runner.transport, folder, {"python": script.encode()})
        runner.transport.run(["chmod", "+x", f"{folder}/python"])
    environments = [
        Environment.objects.create(
            name=name, cluster=cluster, python=f"{folder}/python", owner=cluster.owner
        )
        for name in ("a", "b")
    ]
    made: Experiment = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=environments[0],
        environments=environments,
        workloads=[WorkloadFactory(kind="blas", parameters=PARAMETERS, time_limit_seconds=120)],
        scales=["1x1"],
        repeats=1,
        **columns,
    )
    lifecycle.launch(made, cluster.owner)
    return made


def watch_until(
    person: Person, made: Experiment, condition: Callable[[LiveReading], object]
) -> str:
    """Keep the page of its first run open until its reading is as asked; return the page."""
    run = made.runs.get(position=0)
    tick_until(made.cluster, made.runs.filter(state=Run.State.RUNNING).exists)

    def is_read() -> bool:
        person.app.get(run.get_absolute_url(), user=person.name)
        reading = LiveReading.objects.filter(run=run).first()
        return bool(reading and reading.samples and condition(reading))

    tick_until(made.cluster, is_read)
    return str(person.app.get(run.get_absolute_url(), user=person.name).text)


def end(lab: Lab, made: Experiment, folder: str) -> Run:
    lab.execute(["touch", f"{folder}/go"])
    finish(made)
    return made.runs.get(position=0)


def test_a_throttled_gpu_is_seen_while_the_run_goes_on_and_rejects_it(
    lab: Lab, registered: Cluster, person: Person
) -> None:
    folder = f"{registered.work_directory}/throttled"
    with tool(lab, print_lines(reasons="0x0000000000000044")):
        made = launch(registered, folder, reject_throttled=True, reject_below_mhz=1900)
        page = watch_until(
            person,
            made,
            lambda reading: any(
                track["name"] == "CPU use" and track["count"] > 1
                for track in reading.samples["tracks"]
            ),
        )
        assert "CPU use" in page
        assert "GPU 0: hardware thermal slowdown in" in page
        assert "612 W" in page
        run = end(lab, made, folder)
    assert (run.state, run.reason) == (Run.State.FAILED, "rejected")
    assert run.message.startswith("By the plan's rules: GPU 0: hardware thermal slowdown in")
    assert "a mean clock of 1,830 MHz while in use, less than 1,900 MHz" in run.message
    page = str(person.app.get(run.get_absolute_url(), user=person.name).text)
    assert "hardware thermal slowdown" in page
    assert "GPU power" in page
    assert not run.measurements.exists()


def test_another_s_process_on_the_gpu_rejects_what_runs_beside_it(
    lab: Lab, registered: Cluster, person: Person
) -> None:
    folder = f"{registered.work_directory}/beside"
    listing = "pgrep -u nobody -x sleep | sed 's/$/, sleep/'"
    sleep = "setsid setpriv --reuid=nobody --regid=nogroup --clear-groups sleep 600"
    with tool(lab, print_lines(), listing):
        made = launch(registered, folder, reject_others=True)
        tick_until(registered, made.runs.filter(state=Run.State.RUNNING).exists)
        lab.execute(["sh", "-c", f"{sleep} >/dev/null 2>&1 </dev/null &"])
        try:
            run = end(lab, made, folder)
        finally:
            lab.execute(["pkill", "-u", "nobody", "-x", "sleep"])
    assert (run.state, run.reason) == (Run.State.FAILED, "rejected")
    assert run.message == (
        "By the plan's rules: others had 1 process on the job's GPUs in 1 of 2 samples."
    )
    assert not run.measurements.exists()


@pytest.mark.parametrize(
    ("sampling", "gpus"),
    [
        ("echo 'Unable to determine the device handle for GPU0: Unknown Error'; exit 15", 0),
        (print_lines(gpus=16), 16),
        (f"{print_lines()} &\nsleep 2; kill $!; printf '2026/11/24 00:00'; exit 1", 1),
        ("while true; do head -c 3000 /dev/urandom; echo; sleep 1; done", 0),
    ],
    ids=["fails", "16 GPUs", "half a line", "noise"],
)
def test_an_odd_tool_is_shown_as_it_is_and_changes_no_run(
    lab: Lab, registered: Cluster, person: Person, sampling: str, gpus: int
) -> None:
    assert gpus <= MOST_GPUS
    folder = f"{registered.work_directory}/odd-{zlib.crc32(sampling.encode())}"
    with tool(lab, sampling):
        made = launch(registered, folder, reject_throttled=True)
        page = watch_until(person, made, lambda reading: reading.samples["samples"] > 1)
        run = end(lab, made, folder)
    assert run.state == Run.State.SUCCEEDED, run.message
    content = NodeSamples.objects.get(run=run).content
    assert len({track["gpu"] for track in content["tracks"]} - {None}) == gpus
    assert ("GPU power" in page) == (gpus > 0)
    after = str(person.app.get(run.get_absolute_url(), user=person.name).text)
    assert ("rules on slowed GPUs were not applied" in after) == (gpus == 0)
    if "Unable" in sampling:
        no_samples = "No samples of GPUs: Unable to determine the device handle for GPU0"
        assert f"{no_samples}: Unknown Error" in after


def test_a_job_that_waits_says_when_slurm_expects_to_start_it(
    lab: Lab, registered: Cluster, person: Person
) -> None:
    folder = f"{registered.work_directory}/waits"
    fill = ["sbatch", "--parsable", "--nodes=2", "--gres=gpu:4", "--time=7", "--output=/dev/null"]
    other = lab.execute([*fill, "--wrap=sleep 600"], user=lab.user).stdout.strip()
    try:
        made = launch(registered, folder)
        job = made.jobs.get()
        tick_until(registered, made.jobs.filter(expected_start_at__isnull=False).exists)
        job.refresh_from_db()
        assert job.expected_start_at
        ahead = (job.expected_start_at - timezone.now()).total_seconds()
        assert 0 < ahead < 8 * 60, "after the other job's time limit, by whatever zone is set there"
        for page in (made.get_absolute_url(), made.runs.get(position=0).get_absolute_url()):
            text = " ".join(person.app.get(page, user=person.name).text.split())
            assert "Slurm expects to start it at <time" in text
    finally:
        lab.execute(["scancel", other])
    assert end(lab, made, folder).state == Run.State.SUCCEEDED


def test_time_memory_and_energy_of_a_run_are_measured(
    lab: Lab, registered: Cluster, person: Person
) -> None:
    """By Slurm's own times, and by samples of a GPU of which power and memory are known."""
    folder = f"{registered.work_directory}/measured"
    with tool(lab, print_lines().replace("sleep 1", "sleep 3")):
        made = launch(registered, folder)
        watch_until(
            person,
            made,
            lambda reading: any(
                track["name"] == "GPU power" and track["count"] > 2
                for track in reading.samples["tracks"]
            ),
        )
        run = end(lab, made, folder)
    assert run.state == Run.State.SUCCEEDED, run.message
    rows = {row.metric: row for row in run.measurements.all()}
    missing = run.measure_notes.missing
    assert rows["run_time"].value > 6
    assert (rows["gpu_energy"].source, rows["peak_gpu_memory"].source) == (
        POWER_SAMPLES,
        MEMORY_SAMPLES,
    )
    assert rows["gpu_energy"].value == pytest.approx(612.31 * rows["run_time"].value)
    assert rows["peak_gpu_memory"].value == 40536 * 2**20
    assert rows["peak_host_memory"].source == MARKS
    if "queue_time" in rows:
        assert (rows["queue_time"].source, rows["queue_time"].value % 1) == (SLURM, 0)
    else:
        assert missing["queue_time"].endswith("Slurm counts whole seconds")
    page = str(person.app.get(run.get_absolute_url(), user=person.name).text)
    assert f"{POWER_SAMPLES}, " in page
