"""An experiment on a machine that Tare cannot reach: its jobs are copied and started by hand.

    python benchmarks/by_hand.py write PLAN.json FOLDER   # copy FOLDER to the machine, to "at"
    bash FOLDER/start.sh                                  # on the machine; copy FOLDER/jobs back
    python benchmarks/by_hand.py read PLAN.json FOLDER    # print the results

The plan is JSON: `at` (the folder's absolute path on the machine), `environments` (members of
`runners.jobs.EnvironmentSpec`; the first is the baseline), `cells` (name, workload, parameters,
scale, blocks, perhaps another metric than the workload's own), `gpus_on_node`, `margin`, `seed`.
The jobs are those of a machine without scheduler, so each holds one block, in random order.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.design import Scale, plan_blocks
from experiments.statistics import Sample, compare, numbers
from runners.jobs import EnvironmentSpec, JobSpec, Launch, Resources, RunSpec
from runners.records import read_record
from runners.schedulers.direct import BEGIN, Direct
from runners.scripts import quote, render_job_files
from runners.workloads import WORKLOADS

LIMIT_SECONDS = 300


def jobs(settings: dict[str, Any]) -> Iterator[tuple[dict[str, Any], JobSpec]]:
    """Yield every block of every cell with its job, in the plan's order."""
    environments = [spec(row) for row in settings["environments"]]
    cells = settings["cells"]
    for number, cell in enumerate(cells):
        scale = Scale.parse(cell["scale"])
        blocks = plan_blocks(
            [number], environments, [scale], cell["blocks"], settings["seed"] + number
        )
        for block in blocks:
            uid = f"{number}-{block.repeat}"
            parameters = WORKLOADS[cell["workload"]].clean(cell["parameters"])
            runs = tuple(
                RunSpec(
                    uid=f"{uid}-{environments.index(environment)}",
                    position=position,
                    workload=cell["workload"],
                    parameters=parameters,
                    environment=environment,
                    time_limit_seconds=LIMIT_SECONDS,
                )
                for position, environment in enumerate(block.environments)
            )
            yield (
                cell,
                JobSpec(
                    uid=uid,
                    name=f"tare-{uid}",
                    directory=f"{settings['at']}/jobs/{uid}",
                    runs=runs,
                    resources=Resources(
                        time_limit_seconds=LIMIT_SECONDS * len(runs) + 60,
                        gpus_per_node=scale.gpus_per_node,
                        gpus_on_node=settings["gpus_on_node"],
                    ),
                    launch=Launch(launcher=scale.launcher, instances=scale.instances_per_node),
                ),
            )


def spec(row: dict[str, Any]) -> EnvironmentSpec:
    """Return an environment of the plan; lists become tuples."""
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    values["variables"] = tuple((name, text) for name, text in row.get("variables", ()))
    return EnvironmentSpec(**values)


def write(settings: dict[str, Any], folder: Path) -> None:
    lines = ["#!/bin/bash", f"mkdir -p {quote(settings['at'])}"]
    for cell, job in jobs(settings):
        directory = folder / "jobs" / job.uid
        for name, content in render_job_files(job, Direct()).items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)
        queue = f"{settings['at']}/machine-$(hostname)"
        lines.append(f"echo {quote(cell['name'])}, job {job.uid}")
        begin = f'(cd {quote(job.directory)} && sh -c {quote(BEGIN)} begin "{queue}")'
        lines.append(f"[ -e {quote(job.directory)}/exit_code ] || {begin}")
    (folder / "start.sh").write_text("\n".join([*lines, ""]))


def read(settings: dict[str, Any], folder: Path) -> None:
    names = [row["label"] for row in settings["environments"]]
    samples_by_cell: dict[str, list[Sample]] = {}
    metrics = {}
    for cell, job in jobs(settings):
        directory = folder / "jobs" / job.uid
        record = read_record(
            {
                path.relative_to(directory).as_posix(): path.read_bytes()
                for path in directory.rglob("*")
                if path.is_file()
            }
        )
        kind = WORKLOADS[cell["workload"]]
        for run in job.runs:
            run_record = record.runs.get(run.uid)
            if run_record is None or run_record.exit_code != 0:
                reason = "did not come back"
                if run_record:
                    reason = run_record.failure or run_record.output_tail[-300:]
                print(f"{cell['name']}, {run.environment.label}, {run.uid}: {reason}")
                continue
            result = kind.read(run_record.files, run.parameters)
            name = cell.get("metric") or kind.choose_primary_metric(run.parameters)
            metrics[cell["name"]] = next(
                metric for metric in kind.list_metrics(run.parameters) if metric.name == name
            )
            sample = Sample(
                run=run.uid,
                block=job.uid,
                environment=run.environment.label,
                value=result.measurements[name][0],
                node="",
                started=run_record.began,
                repeat=int(job.uid.partition("-")[2]),
            )
            samples_by_cell.setdefault(cell["name"], []).append(sample)
            shown = ", ".join(
                f"{key} {value:.5g} {unit}" for key, (value, unit) in result.measurements.items()
            )
            print(f"  {cell['name']}, {run.environment.label}: {shown}")
    for name, samples in samples_by_cell.items():
        metric = metrics[name]
        print(f"\n{name}: {metric.label}")
        for label in names:
            values = [sample.value for sample in samples if sample.environment == label]
            if values:
                mean = sum(values) / len(values)
                print(f"  {label:24} {numbers.quantity(mean, metric.unit)}  (n = {len(values)})")
        for pair in compare(
            samples,
            baseline=names[0],
            environments=names[1:],
            margin=settings["margin"],
            better=metric.better,
            paired=True,
            unit=metric.unit,
        ):
            print(f"  {pair.sentence}")


def main() -> None:
    verb, plan_path, folder = sys.argv[1:]
    {"write": write, "read": read}[verb](json.loads(Path(plan_path).read_text()), Path(folder))


if __name__ == "__main__":
    main()
