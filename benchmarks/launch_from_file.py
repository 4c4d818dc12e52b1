"""From a file: `tare --help`, and `tare launch` to its answer, beside what Python itself takes.

python benchmarks/launch_from_file.py [RUNS]

The site has so many runs already (usually 100,000). Its web server is the one of production.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.large_site import RUNS, fill_large_site
from benchmarks.servers import run_servers, run_web

TIMES = 11
"""Fewer than one person may launch in a minute."""


def main() -> None:
    with run_servers(with_valkey=True) as folder:
        text, token = prepare_site(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
        file = folder / "experiment.yaml"
        file.write_text(text)
        with run_web(folder) as (base, _), tempfile.TemporaryDirectory() as home:
            measure(file, {"HOME": home, "TARE_URL": base, "TARE_TOKEN": token})


def prepare_site(runs: int) -> tuple[str, str]:
    """Fill a site; return an experiment file that can be launched there, and a token."""
    import django

    django.setup()
    from datetime import timedelta

    from django.core.management import call_command
    from django.utils import timezone

    from experiments.definitions.described_experiments import write_file
    from experiments.models.api_token import make_token
    from tests.factories import ExperimentFactory

    call_command("migrate", verbosity=0)
    if runs:
        fill_large_site(runs)
    draft = ExperimentFactory(question="What does it cost?", margin=0.02, repeats=10)
    _, token = make_token(
        draft.owner, "benchmark", ["experiments"], timezone.now() + timedelta(days=1)
    )
    return write_file(draft, draft.owner, "yaml"), token


def measure(file: Path, environment: Mapping[str, str]) -> None:
    """Print how long each command takes, in turns."""
    tare = (sys.executable, "-m", "tare_client")
    commands: dict[str, tuple[str, ...]] = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "tare --help": (*tare, "--help"),
        "tare check": (*tare, "check", str(file)),
        "tare launch": (*tare, "launch", str(file)),
    }
    took: dict[str, list[float]] = {name: [] for name in commands}
    environment = {**os.environ, **environment, "PYTHONPATH": str(BASE / "clients" / "python")}
    for _ in range(TIMES):
        for name, command in commands.items():
            began = time.perf_counter()
            run(command, environment)
            took[name].append(1000 * (time.perf_counter() - began))
    print(f"{f'of {TIMES}, in ms':20}{'first':>10}{'median':>10}{'most':>10}{'goal':>10}")
    goals: dict[str, Any] = {"tare --help": 150, "tare launch": 300}
    for name, (first, *later) in took.items():
        figures = f"{first:10.0f}{statistics.median(later):10.0f}{max(later):10.0f}"
        print(f"{name:20}{figures}{goals.get(name, ''):>10}")


def run(command: tuple[str, ...], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
