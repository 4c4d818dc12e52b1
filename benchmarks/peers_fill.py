"""Fill MLflow's or Aim's own store with the runs of a large site: run by the Python of each.

python benchmarks/peers_fill.py mlflow DATABASE_URL RUNS
python benchmarks/peers_fill.py aim FOLDER RUNS SECONDS

MLflow's tables are filled by its own models, as the large site of Tare is by COPY: its interface
takes minutes for a few thousand runs. Aim has its own files, so it is filled by its interface until
the seconds are over. Both print the number of runs as the last word.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.large_site import BEGIN, RUNS_EACH

CURVE_RUNS, CURVE_STEPS = 20, 1000
SERIES = ("step_time", "loss", "images_per_second", "gradient_norm", "learning_rate")
METRICS = {
    "step_time": 0.190,
    "step_time_sd": 0.004,
    "container_start": 0.4,
    "import_time": 2.1,
    "time_to_first_step": 4.2,
}
"""What each run has measured, with the mean of its values."""
PARAMETERS = {
    "batch": 32,
    "steps": 200,
    "burn_in": 20,
    "threads": 1,
    "seeds": "same in all repeats",
    "size": 512,
    "precision": "float32",
}
PORTION = 2000
CURVES = "curves"
"""The name of the experiment of 20 runs with five series of 1,000 steps."""


def draw_metrics(rng: random.Random) -> dict[str, float]:
    return {name: mean * rng.gauss(1, 0.05) for name, mean in METRICS.items()}


def draw_series(rng: random.Random) -> dict[str, list[float]]:
    return {name: [rng.lognormvariate(0, 0.1) for _ in range(CURVE_STEPS)] for name in SERIES}


def fill_mlflow(url: str, runs: int) -> int:
    """Fill a database with so many runs, a hundred an experiment, and with those of curves."""
    from mlflow.store.tracking.dbmodels import models
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy import insert

    store = SqlAlchemyStore(url, "/nowhere")
    rng = random.Random(13)
    count = max(runs // RUNS_EACH, 1)
    names = [f"Question {number:04}" for number in range(count)]
    keys = [store.create_experiment(name) for name in (*names, CURVES)]
    tables: dict[str, list[dict[str, Any]]] = {}

    def flush() -> None:
        with store.ManagedSessionMaker() as session:
            for name, rows in tables.items():
                if rows:
                    session.execute(insert(getattr(models, name)), rows)
        tables.clear()

    def add_run(number: int, experiment: str, series: dict[str, list[float]]) -> None:
        uid = f"{number:032x}"
        begin = int(BEGIN.timestamp() * 1000) + number * 240_000
        of_run = {
            "run_uuid": uid,
            "name": f"run {number}",
            "experiment_id": int(experiment),
            "user_id": "person",
            "status": "FINISHED",
            "start_time": begin,
            "end_time": begin + 120_000,
            "artifact_uri": f"/nowhere/{uid}",
        }
        tables.setdefault("SqlRun", []).append(of_run)
        tags = {"mlflow.runName": f"run {number}", "mlflow.user": "person"}
        tables.setdefault("SqlTag", []).extend(
            {"run_uuid": uid, "key": key, "value": value} for key, value in tags.items()
        )
        tables.setdefault("SqlParam", []).extend(
            {"run_uuid": uid, "key": key, "value": str(value)}
            for key, value in (PARAMETERS | {"seed": number // RUNS_EACH}).items()
        )
        for key, values in series.items():
            points = [
                {
                    "run_uuid": uid,
                    "key": key,
                    "value": value,
                    "timestamp": begin + step,
                    "step": step,
                    "is_nan": False,
                }
                for step, value in enumerate(values)
            ]
            tables.setdefault("SqlMetric", []).extend(points)
            tables.setdefault("SqlLatestMetric", []).append(points[-1])

    for number in range(count * RUNS_EACH):
        metrics = {name: [value] for name, value in draw_metrics(rng).items()}
        add_run(number, keys[number // RUNS_EACH], metrics)
        if number % PORTION == PORTION - 1:
            flush()
    flush()
    for number in range(CURVE_RUNS):
        add_run(count * RUNS_EACH + number, keys[-1], draw_series(rng))
    flush()
    return count * RUNS_EACH


def fill_aim(folder: str, runs: int, seconds: float) -> int:
    """Fill a repository with the runs of curves, then with others until the time is over."""
    from aim import Repo, Run

    repo = Repo.from_path(folder, init=True)
    rng = random.Random(13)

    def add_run(experiment: str, series: dict[str, list[float]]) -> None:
        run = Run(
            repo=repo,
            experiment=experiment,
            system_tracking_interval=None,
            log_system_params=False,
            capture_terminal_logs=False,
        )
        run["parameters"] = PARAMETERS
        for name, values in series.items():
            for step, value in enumerate(values):
                run.track(value, name=name, step=step)
        run.close()

    for _ in range(CURVE_RUNS):
        add_run(CURVES, draw_series(rng))
    end, filled = time.monotonic() + seconds, 0
    for number in _count_until(runs, end):
        metrics = {name: [value] for name, value in draw_metrics(rng).items()}
        add_run(f"Question {number // RUNS_EACH:04}", metrics)
        filled += 1
    return filled


def _count_until(most: int, end: float) -> Iterator[int]:
    for number in range(most):
        if time.monotonic() > end:
            return
        yield number


if __name__ == "__main__":
    tool, place, number, *rest = sys.argv[1:]
    if tool == "mlflow":
        print(fill_mlflow(place, int(number)))
    else:
        print(fill_aim(place, int(number), float(rest[0])))
