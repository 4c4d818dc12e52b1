"""An experiment on a machine that Tare cannot reach: jobs written here, started there by hand.

    python benchmarks/by_hand.py write PLAN.json FOLDER   # carry FOLDER there, to the plan's "at"
    bash FOLDER/start.sh                                  # there; bring FOLDER/jobs back
    python benchmarks/by_hand.py read PLAN.json FOLDER    # what the runs say

The plan is JSON: `at` (the folder's absolute path there), `environments` (members of
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

from experiments.design import Scale, plan
from experiments.statistics import Sample, compare, numbers
from runners.jobs import EnvironmentSpec, JobSpec, Launch, Resources, RunSpec
from runners.records import read_record
from runners.schedulers.direct import BEGIN, Direct
from runners.scripts import job_files, quote
from runners.workloads import WORKLOADS

LIMIT_SECONDS = 300


def jobs(wanted: dict[str, Any]) -> Iterator[tuple[dict[str, Any], JobSpec]]:
    """Every block of every cell with its job, in the plan's order."""
    environments = [spec(row) for row in wanted["environments"]]
    cells = wanted["cells"]
    for number, cell in enumerate(cells):
        scale = Scale.parse(cell["scale"])
        blocks = plan([number], environments, [scale], cell["blocks"], wanted["seed"] + number)
        for block in blocks:
            uid = f"{number}-{block.repeat}"
            parameters = WORKLOADS[cell["workload"]].clean(cell["parameters"])
            runs = tuple(
                RunSpec(
                    uid=f"{uid}-{environments.index(one)}",
                    position=position,
                    workload=cell["workload"],
                    parameters=parameters,
                    environment=one,
                    time_limit_seconds=LIMIT_SECONDS,
                )
                for position, one in enumerate(block.environments)
            )
            yield (
                cell,
                JobSpec(
                    uid=uid,
                    name=f"tare-{uid}",
                    directory=f"{wanted['at']}/jobs/{uid}",
                    runs=runs,
                    resources=Resources(
                        time_limit_seconds=LIMIT_SECONDS * len(runs) + 60,
                        gpus_per_node=scale.gpus_per_node,
                        gpus_on_node=wanted["gpus_on_node"],
                    ),
                    launch=Launch(launcher=scale.launcher, instances=scale.instances_per_node),
                ),
            )


def spec(row: dict[str, Any]) -> EnvironmentSpec:
    """An environment of the plan; lists become tuples."""
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    values["variables"] = tuple((name, text) for name, text in row.get("variables", ()))
    return EnvironmentSpec(**values)


def write(wanted: dict[str, Any], folder: Path) -> None:
    lines = ["#!/bin/bash", f"mkdir -p {quote(wanted['at'])}"]
    for cell, job in jobs(wanted):
        here = folder / "jobs" / job.uid
        for name, content in job_files(job, Direct()).items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_bytes(content)
        queue = f"{wanted['at']}/machine-$(hostname)"
        lines.append(f"echo {quote(cell['name'])}, job {job.uid}")
        begin = f'(cd {quote(job.directory)} && sh -c {quote(BEGIN)} begin "{queue}")'
        lines.append(f"[ -e {quote(job.directory)}/exit_code ] || {begin}")
    (folder / "start.sh").write_text("\n".join([*lines, ""]))


def read(wanted: dict[str, Any], folder: Path) -> None:
    names = [row["label"] for row in wanted["environments"]]
    found: dict[str, list[Sample]] = {}
    metrics = {}
    for cell, job in jobs(wanted):
        here = folder / "jobs" / job.uid
        record = read_record(
            {
                path.relative_to(here).as_posix(): path.read_bytes()
                for path in here.rglob("*")
                if path.is_file()
            }
        )
        kind = WORKLOADS[cell["workload"]]
        for run in job.runs:
            left = record.runs.get(run.uid)
            if left is None or left.exit_code != 0:
                why = left.failure or left.output_tail[-300:] if left else "did not come back"
                print(f"{cell['name']}, {run.environment.label}, {run.uid}: {why}")
                continue
            result = kind.read(left.files, run.parameters)
            name = cell.get("metric") or kind.primary_of(run.parameters)
            metrics[cell["name"]] = next(
                one for one in kind.metrics_of(run.parameters) if one.name == name
            )
            sample = Sample(
                run=run.uid,
                block=job.uid,
                environment=run.environment.label,
                value=result.measurements[name][0],
                node="",
                started=left.began,
                repeat=int(job.uid.partition("-")[2]),
            )
            found.setdefault(cell["name"], []).append(sample)
            shown = ", ".join(
                f"{key} {value:.5g} {unit}" for key, (value, unit) in result.measurements.items()
            )
            print(f"  {cell['name']}, {run.environment.label}: {shown}")
    for name, samples in found.items():
        metric = metrics[name]
        print(f"\n{name}: {metric.label}")
        for label in names:
            values = [one.value for one in samples if one.environment == label]
            if values:
                mean = sum(values) / len(values)
                print(f"  {label:24} {numbers.quantity(mean, metric.unit)}  (n = {len(values)})")
        for pair in compare(
            samples,
            baseline=names[0],
            environments=names[1:],
            margin=wanted["margin"],
            better=metric.better,
            paired=True,
            unit=metric.unit,
        ):
            print(f"  {pair.sentence}")


def main() -> None:
    verb, wanted, folder = sys.argv[1:]
    {"write": write, "read": read}[verb](json.loads(Path(wanted).read_text()), Path(folder))


if __name__ == "__main__":
    main()
