"""Experiments that have ended, with numbers, steps, outputs and snapshots, and their bundles."""

from __future__ import annotations

import hashlib
import io
import json
import random
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from experiments.bundles import write_bundle
from experiments.bundles.bundle_writer import VERIFY
from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution import lifecycle
from experiments.models import Experiment, Job, Run, Series, Snapshot, StoredRecord
from tests.factories import ContainerFactory, ExperimentFactory, MeasurementFactory, WorkloadFactory

MADE_AT = datetime(2026, 11, 26, 12, tzinfo=UTC)
NAME = "tare-1-bundle"


def launch(*, workloads: int = 1, containers: int = 1, **columns: Any) -> Experiment:
    """Return a launched experiment of so many workloads in bare metal and so many containers."""
    draft = ExperimentFactory(
        workloads=[WorkloadFactory() for _ in range(workloads)],
        **({"margin": 0.02} | columns),
    )
    others = [ContainerFactory(cluster=draft.cluster) for _ in range(containers - 1)]
    draft.environments.add(*others)
    lifecycle.launch(draft, draft.owner)
    launched: Experiment = Experiment.objects.get(pk=draft.pk)
    return launched


def end_runs(
    experiment: Experiment,
    *,
    spread: float = 0.004,
    cost: float = 1.0,
    nodes: int = 1,
    metrics: tuple[str, ...] = ("step_time",),
    steps: int = 0,
    seed: int = 1,
) -> None:
    """Have all runs succeed, with numbers that a seed gives; `cost` is that of the containers.

    A run's numbers follow from what it is, not from its place in the plan, whose order is random:
    the same study has the same verdicts each time.
    """
    workloads, environments = (
        list(rows.order_by("pk").values_list("pk", flat=True))
        for rows in (experiment.workloads, experiment.environments)
    )
    snapshots = [
        Snapshot.objects.keep({"kernel": "6.1", "GPU driver": "550.1", "node": n})
        for n in range(nodes)
    ]
    begins = experiment.launched_at
    assert begins
    for place, run in enumerate(experiment.runs.order_by("job__block", "position")):
        node = run.job.block % nodes
        is_bare = run.environment_id == experiment.baseline_id
        cell = workloads.index(run.workload_id), environments.index(run.environment_id)
        numbers = random.Random(f"{seed} {cell} {run.scale} {run.repeat}")
        level = 0.1 * (1.0 if is_bare else cost) * (1 + 0.01 * node)
        for metric in metrics:
            value = level * numbers.lognormvariate(0, spread)
            if steps and metric == "step_time":
                value = add_steps(run, numbers, value, steps)
            MeasurementFactory(run=run, metric=metric, value=value, unit="s")
        Run.objects.filter(pk=run.pk).update(
            state=Run.State.SUCCEEDED,
            node=f"node{node}",
            snapshot=snapshots[node],
            began_at=begins + timedelta(seconds=60 * place + 1),
            ended_at=begins + timedelta(seconds=60 * place + 50),
            output_tail="step 1\nstep 2 – done\n",
            command="python3 main.py spec.json",
        )
    ended_at = begins + timedelta(hours=9)
    experiment.jobs.update(
        state=Job.State.DONE, scheduler_id="1", script="#!/bin/sh\ntrue\n", ended_at=ended_at
    )


def add_steps(run: Run, numbers: random.Random, level: float, steps: int) -> float:
    """Give a run steps with a warm-up, and return the mean after the fixed part of it."""
    burn_in = run.workload.parameters.get("burn_in", 10)
    values = [level * numbers.lognormvariate(0, 0.01) for _ in range(steps)]
    values[:30] = [value * 1.3 for value in values[:30]]
    series = Series(run=run, metric="step_time", unit="s", values=values, burn_in=burn_in)
    add_step_summary(series).save()
    Series.objects.create(run=run, metric="loss", unit="1", values=[2.0, float("nan"), 1e-20])
    rest = values[burn_in:]
    return sum(rest) / len(rest)


def give_facts(
    experiment: Experiment, baseline: Mapping[str, Any], others: Mapping[str, Any], *, last: int = 0
) -> None:
    """Have runs of both sides find these facts, of the first blocks, or only of the `last` ones."""
    blocks = sorted(set(experiment.jobs.values_list("block", flat=True)))[-last:]
    runs = experiment.runs.filter(job__block__in=blocks)
    is_bare = {"environment": experiment.baseline_id}
    common = {"hostname": "node0", "packages": {"numpy": "2.0"}}
    for rows, facts in ((runs.filter(**is_bare), baseline), (runs.exclude(**is_bare), others)):
        rows.update(snapshot=Snapshot.objects.keep({"inside": common | dict(facts)}))


def keep_records(experiment: Experiment, output: bytes = b"step 1 \xff\0\r\nstep 2\n") -> None:
    """Have all that the runs printed and the names of their files kept, as after a real end."""
    digest = hashlib.sha256(output).hexdigest()
    files = [["output.txt", len(output), digest], ["result.json", 2, "ab" * 32]]
    for run in experiment.runs.all():
        StoredRecord.objects.create(
            run=run,
            output=zlib.compress(output),
            output_bytes=len(output),
            output_sha256=digest,
            files=zlib.compress(json.dumps(files).encode()),
            files_listed=len(files),
            facts={"argv": ["python3", "train.py"], "loaded": {"readings": 1}},
        )


def make_bundle(experiment: Experiment, **options: Any) -> bytes:
    row = Experiment.objects.get(pk=experiment.pk)
    return b"".join(write_bundle(row, NAME, made_at=MADE_AT, **options))


def verify(bundle: bytes, folder: Path, *arguments: str) -> tuple[int, str]:
    """Check a bundle by `verify.py` alone in a folder: no packages, no site, nothing else."""
    (folder / "verify.py").write_bytes(VERIFY.read_bytes())
    (folder / "bundle.zip").write_bytes(bundle)
    program = [sys.executable, "-I", "-S", "verify.py", "bundle.zip", *arguments]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=60, env={})
    assert done.stderr == ""
    return done.returncode, done.stdout


def unpack(bundle: bytes) -> dict[str, bytes]:
    """Return the files of a bundle, by their names in it."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as file:
        return {name.removeprefix(f"{NAME}/"): file.read(name) for name in file.namelist()}
