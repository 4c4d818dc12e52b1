"""A bundle of 1,000 runs of 1,000 steps: written, verified and imported, each in its own process.

`python -m benchmarks.bundles` prints wall clock, own processor time and the most memory of each;
with `--profile` also where writing and importing spend their time.
"""

from __future__ import annotations

import cProfile
import hashlib
import pstats
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers

REPEATS, STEPS = 500, 1000
GOALS = {"write": 10, "verify": 10, "import": 20}
VERIFY = BASE / "experiments" / "bundles" / "verify.py"


def main() -> None:
    """Measure all three; each process starts from what the one before it has left."""
    with run_servers() as folder:
        bundle = folder / "study.zip"
        run_part("fill", bundle)
        print(f"{'':10} {'s':>7} {'own s':>7} {'MB':>6} {'goal s':>7}", flush=True)
        run_part("write", bundle)
        print(f"{'':10} {bundle.stat().st_size / 1e6:.1f} MB", flush=True)
        run_part("verify", bundle)
        run_part("forget", bundle)
        run_part("import", bundle)


def run_part(name: str, bundle: Path) -> None:
    command = [sys.executable, __file__, name, str(bundle), *sys.argv[1:]]
    subprocess.run(command, check=True, cwd=BASE)


def measure(name: str, work: Callable[[], None]) -> None:
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    began, own = time.perf_counter(), time.process_time()
    profile.runcall(work) if profile else work()
    seconds, own = time.perf_counter() - began, time.process_time() - own
    print_row(name, seconds, own, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def print_row(name: str, seconds: float, own: float, kilobytes: int) -> None:
    print(
        f"{name:10} {seconds:7.1f} {own:7.1f} {kilobytes / 1000:6.0f} {GOALS[name]:7}", flush=True
    )


def prepare() -> None:
    import django

    django.setup()


def fill() -> None:
    """Make an experiment of 500 blocks whose runs have ended, with steps, outputs and records."""
    prepare()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from experiments.comparisons.step_summaries import add_step_summary
    from experiments.execution import lifecycle
    from experiments.execution.series_copy import copy_series
    from experiments.models import Experiment, Measurement, Run, Series
    from tests.experiments.bundles import studies
    from tests.factories import ExperimentFactory, WorkloadFactory

    draft = ExperimentFactory(workloads=[WorkloadFactory()], repeats=REPEATS, margin=0.02)
    lifecycle.launch(draft, draft.owner)
    experiment = Experiment.objects.get(pk=draft.pk)
    studies.end_runs(experiment, nodes=4)
    numbers = random.Random(1)
    rows = []
    for run in experiment.runs.select_related("experiment"):
        values = [0.1 * numbers.lognormvariate(0, 0.01) for _ in range(STEPS)]
        values[:30] = [value * 1.3 for value in values[:30]]
        mean = sum(values[10:]) / (STEPS - 10)
        Measurement.objects.filter(run=run, metric="step_time").update(value=mean)
        series = Series(run=run, metric="step_time", unit="s", values=values, burn_in=10)
        rows.append(add_step_summary(series))
        losses = [2.0 * 0.99**step * numbers.lognormvariate(0, 0.01) for step in range(STEPS)]
        rows.append(add_step_summary(Series(run=run, metric="loss", unit="1", values=losses)))
        if len(rows) >= 100:
            copy_series(rows)
            rows = []
    studies.keep_records(experiment, output=b"step 1: 0.1 s\n" * 1000)
    assert Run.objects.filter(state="succeeded").count() == 2 * REPEATS


def write(bundle: Path) -> None:
    prepare()
    from dashboard.comparisons.bundle_files import make_bundle
    from experiments.models import Experiment

    experiment = Experiment.objects.get()

    def write_pieces() -> None:
        with bundle.open("wb") as file:
            for piece in make_bundle(experiment):
                file.write(piece)

    measure("write", write_pieces)


def verify(bundle: Path) -> None:
    """Run the file alone, as a referee does: no Django, no packages."""
    command = [sys.executable, "-I", "-S", str(VERIFY), str(bundle)]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print_row("verify", time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss)


def forget(bundle: Path) -> None:
    prepare()
    from experiments.models import Experiment, Snapshot

    print(f"{'':10} sha256 {hashlib.sha256(bundle.read_bytes()).hexdigest()[:12]}", flush=True)
    Experiment.objects.get().delete()
    Snapshot.objects.all().delete()


def bring(bundle: Path) -> None:
    prepare()
    from experiments.imports.imported_bundles import import_bundle
    from experiments.models import Series, User

    owner = User.objects.earliest("pk")
    measure("import", lambda: import_bundle(bundle, owner, file_name=bundle.name) and None)
    assert Series.objects.count() == 4 * REPEATS


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("--"):
        main()
    elif sys.argv[1] == "fill":
        fill()
    else:
        parts = {"write": write, "verify": verify, "forget": forget, "import": bring}
        parts[sys.argv[1]](Path(sys.argv[2]))
