"""One-second jobs on the lab: Tare beside a plain loop of sbatch, psij, submitit and ReFrame.

`shell_loop.py [JOBS] [ROUNDS] [SIDES]`: as many jobs of one run each, from Launch (or the first
sbatch) to the end of all, the sides in turns. Tare runs as `make demo` and compose start it; the
others run on the login node, in a virtual environment of their own. All of them ask the queue at
most once a second.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers
from lab.client import Lab, ensure_lab, stop_lab
from lab.images import list_passed_variables
from lab.instance import Instance
from standalone import children

POLL_SECONDS = 1
WARM_UP = 4  # jobs of every side that nobody counts
ALONE = 10  # jobs whose scripts are run one after the other, on the idle lab
SERVICES = {"worker": ("worker",), "clock": ("clock",), "bulk": ("worker", "--queue", "bulk")}
SUBMITTERS = BASE / "benchmarks" / "submitters"
PACKAGES = {"psij": "psij-python", "submitit": "submitit", "reframe": "reframe-hpc"}
GOALS = {"ratio": 1.10, "cpu": 10.0, "first": 1.0, "share": 0.1}
TICKS = os.sysconf("SC_CLK_TCK")
# One script after the other, as the scheduler starts them; prints wall and CPU seconds of all.
RUN_ALONE = """export SLURM_JOB_ID=$1 SLURMD_NODENAME=node1 TIMEFORMAT='%R %U %S'
shift
time for directory; do "$directory/job.sh" 2>/dev/null; done
"""


@dataclass(frozen=True)
class Took:
    """What one side took for all jobs, in seconds."""

    wall: float
    cluster_cpu: float  # of all processes in the lab
    own_cpu: float  # of the side's own processes; of Tare's with PostgreSQL and Valkey
    first: float = 0.0  # until the first job was submitted, as far as Tare knows
    inside: float = 0.0  # a job from its first to its last line, without its program


def main() -> None:
    jobs, rounds = (int(text) for text in (sys.argv[1:3] + ["500", "3"][len(sys.argv[1:3]) :]))
    with run_servers(with_valkey=True) as folder, run_lab(folder / "lab") as lab:
        sides: dict[str, Callable[[int], Took]] = {"loop": Command(lab, "bash", "loop.sh").run}
        problem = install_others(lab)
        if not problem:
            sides |= {name: make_other(lab, name) for name in PACKAGES}
        with run_tare(lab, folder) as tare:
            sides["Tare"] = tare.run
            chosen = sys.argv[3].split(",") if len(sys.argv) > 3 else list(sides)
            took = measure({name: sides[name] for name in chosen}, jobs, rounds)
            alone = tare.run_scripts_alone() if "Tare" in chosen else None
    show(took, jobs)
    if problem:
        print(f"psij, submitit and ReFrame could not be installed: {problem}")
    if alone:
        show_goals(took, *alone)


def measure(
    sides: Mapping[str, Callable[[int], Took]], jobs: int, rounds: int
) -> dict[str, list[Took]]:
    """Run all sides in turns, another one first in each round; print as they end."""
    for run in sides.values():
        run(WARM_UP)
    took: dict[str, list[Took]] = {name: [] for name in sides}
    for number in range(rounds):
        names = list(sides)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            took[name].append(sides[name](jobs))
            print(f"round {number + 1}: {name:8} {took[name][-1]}", flush=True)
    return took


@contextmanager
def run_lab(folder: Path) -> Iterator[Lab]:
    try:
        yield ensure_lab(folder)
    finally:
        stop_lab(folder)


def install_others(lab: Lab) -> str:
    """Install the other programs on the login node; return why that failed, or ""."""
    folder = lab.directory / "scratch" / lab.user
    for path in SUBMITTERS.iterdir():
        shutil.copy(path, folder)
    uv, others = "/opt/tools/bin/uv", f"{lab.work_directory}/others"
    variables = ["env", *list_passed_variables(), "UV_CACHE_DIR=/tmp/uv"]
    python = f"{others}/bin/python"
    for argv in (
        [uv, "venv", "--quiet", "--python", "/usr/bin/python3", others],
        [uv, "pip", "install", "--quiet", "--python", python, *PACKAGES.values()],
    ):
        done = lab.execute([*variables, *argv], user=lab.user, timeout=600)
        if done.returncode:
            return done.stderr.strip()
    done = lab.execute([uv, "pip", "freeze", "--quiet", "--python", python], user=lab.user)
    versions = [line for line in done.stdout.splitlines() if line.startswith((*PACKAGES.values(),))]
    print(", ".join(versions), flush=True)
    return ""


def make_other(lab: Lab, name: str) -> Callable[[int], Took]:
    others = f"{lab.work_directory}/others/bin"
    if name == "reframe":
        return ReFrame(lab, f"{others}/reframe", "with_reframe.py").run
    return Command(lab, f"{others}/python", f"with_{name}.py").run


@dataclass(frozen=True)
class Command:
    """A side that is a command on the login node: PROGRAM SCRIPT JOBS FOLDER POLL_SECONDS."""

    lab: Lab
    program: str
    script: str

    def run(self, jobs: int) -> Took:
        folder = f"{self.lab.work_directory}/jobs-of-others"
        self.lab.execute(["rm", "-rf", folder])
        self.lab.execute(["mkdir", folder], user=self.lab.user)
        before = count_lab_cpu(self.lab), count_children_cpu(), time.monotonic()
        done = self.lab.execute(self.write_argv(jobs, folder), user=self.lab.user, timeout=3600)
        wall = time.monotonic() - before[2]
        if done.returncode:
            raise RuntimeError(f"{self.script}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        wait_until_idle(self.lab)
        return Took(wall, count_lab_cpu(self.lab) - before[0], count_children_cpu() - before[1])

    def write_argv(self, jobs: int, folder: str) -> list[str]:
        script = f"{self.lab.work_directory}/{self.script}"
        return [self.program, script, str(jobs), folder, str(POLL_SECONDS)]


class ReFrame(Command):
    def write_argv(self, jobs: int, folder: str) -> list[str]:
        script = f"{self.lab.work_directory}/{self.script}"
        options = ["-C", script, "-c", script, "--prefix", folder, "--run"]
        return ["env", f"JOBS={jobs}", f"RFM_LOG_DIR={folder}", self.program, *options]


def wait_until_idle(lab: Lab) -> None:
    """Wait until Slurm has tidied up after the last job, which belongs to its side."""
    while lab.execute(["squeue", "--noheader", "--format=%i"]).stdout.strip():
        time.sleep(0.1)


class Tare:
    """Tare with the processes that `make demo` and compose start, and the lab as its cluster."""

    def __init__(self, lab: Lab, owner: Any, cluster: Any, pids: list[int]) -> None:
        self.lab, self.owner, self.cluster, self.pids = lab, owner, cluster, pids

    def run(self, jobs: int) -> Took:
        """Launch an experiment of so many jobs, half of them in each of two environments."""
        from experiments.execution import lifecycle
        from experiments.models import Job
        from experiments.notify import enqueue_tick

        experiment = self.make_experiment(jobs // 2)
        before = count_lab_cpu(self.lab), count_cpu(self.pids), time.process_time()
        began, clock = time.monotonic(), time.time()
        lifecycle.launch(experiment, self.owner)
        enqueue_tick(self.cluster.pk)
        launching = time.process_time() - before[2]  # the web server's work
        while experiment.jobs.exclude(state__in=Job.FINAL).exists():
            time.sleep(0.2)
        wall = time.monotonic() - began
        own = count_cpu(self.pids) - before[1] + launching
        wait_until_idle(self.lab)
        failed = experiment.jobs.exclude(state=Job.State.DONE).first()
        if failed:
            raise RuntimeError(f"a job has {failed.state}: {failed.reason} {failed.message}")
        first = min(experiment.jobs.values_list("submitted_at", flat=True))
        self.experiment = experiment
        return Took(
            wall,
            count_lab_cpu(self.lab) - before[0],
            own,
            first.timestamp() - clock,
            self.measure_inside(experiment),
        )

    def make_experiment(self, repeats: int) -> Any:
        from experiments.models import Experiment, Workload

        workload, _ = Workload.objects.get_or_create(
            name="one second",
            kind="command",
            parameters=clean_parameters({"argv": ["sleep", "1"], "read": "nothing"}),
            time_limit_seconds=60,
            owner=self.owner,
        )
        environments = list(self.cluster.environments.order_by("pk"))
        experiment = Experiment.objects.create(
            question="How long does it take?",
            cluster=self.cluster,
            partition=self.cluster.partitions.get(name="gpu"),
            baseline=environments[0],
            scales=["1x0"],
            repeats=repeats,
            design=Experiment.Design.INDEPENDENT,
            margin=0.05,
            owner=self.owner,
        )
        experiment.environments.set(environments)
        experiment.workloads.set([workload])
        return experiment

    def measure_inside(self, experiment: Any) -> float:
        """Return the median of a job's seconds, by its journal, without those of its program."""
        from experiments.models import Measurement

        rows = Measurement.objects.filter(run__experiment=experiment, metric="wall_time")
        return statistics.median(
            (ended - started).total_seconds() - value
            for value, started, ended in rows.values_list(
                "value", "run__job__started_at", "run__job__ended_at"
            )
        )

    def run_scripts_alone(self) -> tuple[float, float]:
        """Return a job script's own wall and CPU seconds a run, on the idle lab."""
        from experiments.execution.connections import connect
        from experiments.execution.specs import make_job_spec
        from runners.submissions import send_jobs

        jobs = list(self.experiment.jobs.order_by("pk")[:ALONE])
        specs = [
            replace(spec, directory=f"{spec.directory}-alone") for spec in map(make_job_spec, jobs)
        ]
        with connect(self.cluster) as runner:
            send_jobs(runner.transport, runner.scheduler, specs)
            for spec in specs:
                runner.transport.run(["chmod", "+x", f"{spec.directory}/job.sh"])
            argv = ["bash", "-c", RUN_ALONE, "alone", jobs[0].scheduler_id]
            done = runner.transport.run([*argv, *(spec.directory for spec in specs)], timeout=300)
        wall, user, system = (float(text) for text in done.stderr.split()[-3:])
        return wall / len(specs) - 1.0, (user + system) / len(specs)


def clean_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    from runners.workloads import WORKLOADS

    return dict(WORKLOADS["command"].clean(parameters))


@contextmanager
def run_tare(lab: Lab, folder: Path) -> Iterator[Tare]:
    """Run the worker, the clock and the bulk worker, with the lab as a cluster."""
    import json

    import django

    django.setup()
    from django.core.management import call_command

    from experiments import demo
    from experiments.models import Cluster, Environment, Partition, User

    call_command("migrate", verbosity=0)
    owner = User.objects.create(username="bench")
    cluster = demo.register_lab(json.loads((lab.directory / "lab.json").read_text()), owner)
    Cluster.objects.filter(pk=cluster.pk).update(max_live_jobs=10**4, poll_seconds=POLL_SECONDS)
    Partition.objects.filter(cluster=cluster).update(cpus_per_run=1, memory_mb=400)
    for name in ("bare metal", "bare metal, again"):
        Environment.objects.create(
            cluster=cluster, name=name, python="/usr/bin/python3", owner=owner
        )
    family = []
    try:
        for name, command in SERVICES.items():
            argv = [BASE / ".venv" / "bin" / "python", BASE / "manage.py", *command]
            log = folder / name
            family.append(children.start(argv, log=log, env=os.environ))
        # All children of this process: PostgreSQL and Valkey, too.
        pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        yield Tare(lab, owner, Cluster.objects.get(pk=cluster.pk), [int(pid) for pid in pids])
    finally:
        for child in family:
            children.terminate(child)
        children.wait_or_kill(family, seconds=3)


def count_lab_cpu(lab: Lab) -> float:
    init = Instance(lab.directory).find_init()
    assert init
    return count_cpu([init])


def count_cpu(pids: list[int]) -> float:
    """Return the CPU seconds of these processes, their descendants, and those that have ended."""
    parents: dict[int, list[int]] = {}
    ticks = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        pid = int(path.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    total, todo = 0, list(pids)
    while todo:
        pid = todo.pop()
        total += ticks.get(pid, 0)
        todo += parents.get(pid, [])
    return total / TICKS


def count_children_cpu() -> float:
    """Return the CPU seconds of commands that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(took: Mapping[str, list[Took]], jobs: int) -> None:
    """Print the medians, and the medians of the ratios to the loop of the same round."""
    print(f"\n{jobs} one-second jobs, {len(next(iter(took.values())))} rounds, medians")
    print(f"{'':10} {'wall s':>8} {'to loop':>8} {'own CPU s':>10} {'cluster CPU s a job':>20}")
    for name, rows in took.items():
        ratio = compute_ratio(took, name)
        print(
            f"{name:10} {median(rows, 'wall'):8.1f} {ratio:8.2f} {median(rows, 'own_cpu'):10.1f} "
            f"{median(rows, 'cluster_cpu') / jobs:20.3f}"
        )


def show_goals(took: Mapping[str, list[Took]], wall: float, cpu: float) -> None:
    rows = took["Tare"]
    for what, value, goal in (
        ("wall time, to the loop's", compute_ratio(took, "Tare"), GOALS["ratio"]),
        ("CPU s of all of Tare's processes", median(rows, "own_cpu"), GOALS["cpu"]),
        ("s from Launch to the first job submitted", median(rows, "first"), GOALS["first"]),
        (f"job script's own share a run, {ALONE} alone: wall s", wall, GOALS["share"]),
        (f"job script's own share a run, {ALONE} alone: CPU s", cpu, GOALS["share"]),
    ):
        print(f"{what:56} {value:8.3f}   (goal: {goal})")
    print(f"{'the same beside the others, wall s':56} {median(rows, 'inside'):8.3f}")


def compute_ratio(took: Mapping[str, list[Took]], name: str) -> float:
    if "loop" not in took:
        return float("nan")
    pairs = zip(took[name], took["loop"], strict=True)
    return statistics.median(own.wall / loop.wall for own, loop in pairs)


def median(rows: list[Took], name: str) -> float:
    return statistics.median(getattr(row, name) for row in rows)


if __name__ == "__main__":
    main()
