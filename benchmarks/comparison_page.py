"""Comparing: 36 configurations x 2 environments x 10 runs, and pages of 1,000 and 20,000 runs."""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers

if TYPE_CHECKING:
    from django.test import Client

CONFIGURATIONS, RUNS = 36, 10
COMPARE_GOAL, PAGE_GOAL, VARIANCE_GOAL = 0.100, 0.300, 0.200
STEPS = 1000
ENVIRONMENTS, WORKLOADS, SCALES, REPEATS = 5, 5, ("1x1", "1x4"), 20
"""The large page shows 1,000 runs in 200 jobs."""
MANY_REPEATS, FEW_STEPS = 400, 20
"""The largest one 20,000 runs in 4,000 jobs; of so many, few steps each."""
KEPT_GOAL, LIVE_GOAL = 0.150, 0.010
KEPT_SIZE, LIVE_SIZE = 500, 10
"""Goals in kB, before compression."""


def main() -> None:
    with run_servers():
        print(f"{'median of 15':44} {'ms':>8} {'goal':>6} {'ratio':>7}")
        compare_configurations()
        split_variances()
        page()


def compare_configurations() -> None:
    """Measure the comparison, and the same tests by scipy and statsmodels, one by one."""
    from scipy import stats
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.weightstats import ttost_paired

    from experiments.statistics import Sample, compare, correct_by_holm

    draw = random.Random(1)
    data = [
        [
            Sample(f"r{block}{name}", str(block), name, draw.lognormvariate(0, 0.01), "node1")
            for block in range(RUNS)
            for name in ("bare", "container")
        ]
        for _ in range(CONFIGURATIONS)
    ]

    def compare_by_tare() -> None:
        correct_by_holm(
            [
                pair
                for samples in data
                for pair in compare(
                    samples,
                    baseline="bare",
                    environments=["container"],
                    margin=0.02,
                    better="lower",
                    paired=True,
                    unit="s",
                )
            ]
        )

    def test_by_scipy() -> None:
        import numpy as np

        ps = []
        for samples in data:
            bare, container = (
                np.array([sample.value for sample in samples if sample.environment == name])
                for name in ("bare", "container")
            )
            test = stats.ttest_rel(np.log(container), np.log(bare))
            test.confidence_interval(0.95)
            test.confidence_interval(0.90)
            ttost_paired(container, bare, 1 / 1.02, 1.02, transform=np.log)
            ps.append(test.pvalue)
        multipletests(ps, method="holm")

    by_tare, by_scipy = median_seconds(compare_by_tare), median_seconds(test_by_scipy)
    print_row(
        f"{CONFIGURATIONS} configurations x 2 x {RUNS} runs, everything",
        by_tare,
        COMPARE_GOAL,
        by_tare / by_scipy,
    )
    print_row("  only the tests, by scipy and statsmodels", by_scipy)


def split_variances() -> None:
    """Measure the components of variance of 1,000 and 5,000 runs in blocks of up to 5."""
    from experiments.statistics.variance_components import split_variance

    draw = random.Random(3)
    for runs, nodes in ((1000, 20), (1000, 200), (5000, 50)):
        logs, labels, names = [], [], []
        for run in range(runs):
            block, environment = divmod(run, ENVIRONMENTS)
            if draw.random() < 0.05:
                continue  # as failed runs do, it leaves blocks of several sizes
            logs.append(draw.gauss(0.001 * (block % nodes), 0.01))
            labels.append((str(block % nodes), str(block)))
            names.append(str(environment))
        groupings = {level: [own[i] for own in labels] for i, level in enumerate(("node", "block"))}
        print_row(
            f"components of variance, {runs:,} runs on {nodes} nodes",
            median_seconds(lambda: split_variance(logs, groupings, names)),  # noqa: B023
            VARIANCE_GOAL,
        )


def page() -> None:
    """Measure the page, and that of two repeats only, which shows what every page costs."""
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    settings.ALLOWED_HOSTS = ["*"]
    settings.SECURE_SSL_REDIRECT = False
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    call_command("migrate", verbosity=0)
    large, small = make_experiment(REPEATS), make_experiment(2)
    client = Client()

    def get(pk: int) -> Callable[[], None]:
        from experiments.models import Experiment

        client.force_login(Experiment.objects.get(pk=pk).owner)

        def fetch() -> None:
            response = client.get(f"/experiments/{pk}/comparison/")
            assert response.status_code == 200, response.status_code

        return fetch

    slow, quick = median_seconds(get(large)), median_seconds(get(small))
    runs = ENVIRONMENTS * WORKLOADS * len(SCALES)
    print_row(f"comparison page, {runs * REPEATS:,} runs", slow, PAGE_GOAL, slow / quick)
    print_row(f"  {runs * 2:,} runs", quick)
    compare_many_runs(client)
    trained = median_seconds(get(make_experiment(REPEATS, trained=True)))
    print_row("  1,000 runs with losses and spreads", trained, PAGE_GOAL, trained / slow)


def compare_many_runs(client: Client) -> None:
    """Measure the page of 20,000 runs as a worker has kept it, and its live fragment."""
    from experiments.comparisons import keep_comparison
    from experiments.models import Event, Experiment, Job, Run

    pk = make_experiment(MANY_REPEATS, steps=FEW_STEPS)
    client.force_login(Experiment.objects.get(pk=pk).owner)
    address = f"/experiments/{pk}/comparison/"
    runs = ENVIRONMENTS * WORKLOADS * len(SCALES) * MANY_REPEATS
    began = time.perf_counter()
    assert keep_comparison(pk) == "kept"
    print_row(f"{runs:,} runs compared by a worker", time.perf_counter() - began)

    def measure(label: str, query: str, seconds: float, kilobytes: int, **headers: str) -> None:
        measure_address(label, address + query, seconds, kilobytes, **headers)

    def measure_address(
        label: str, path: str, seconds: float, kilobytes: int, **headers: str
    ) -> None:
        sizes, own = [], []

        def fetch() -> None:
            began = time.process_time()
            response = client.get(path, headers=headers)
            own.append(time.process_time() - began)
            assert response.status_code in (200, 204), response.status_code
            sizes.append(len(response.content))

        took = median_seconds(fetch)
        print_row(f"{label}, {sizes[-1] / 1000:,.0f} of {kilobytes} kB", took, seconds)
        print_row("    own processor time", statistics.median(own))

    measure("  its page, kept", "", KEPT_GOAL, KEPT_SIZE)
    for section in ("runs", "full_results", "warm_up"):
        measure(f"  its page, {section}", f"?section={section}", KEPT_GOAL, KEPT_SIZE)
    last = Job.objects.filter(experiment=pk).latest("pk")
    Job.objects.filter(pk=last.pk).update(state=Job.State.RUNNING, ended_at=None)
    Run.objects.filter(job=last).update(state=Run.State.RUNNING)
    Event.objects.create(experiment_id=pk, what="a run has ended since")
    live = {"hx-request": "true"}
    page = client.get(address).content.decode()
    assert "Computed" in page, "It shows what was computed last."
    measure("  its page, new data", "", KEPT_GOAL, KEPT_SIZE)
    shown = page.partition("part=live&amp;shown=")[2].partition('"')[0]
    earlier = shown.replace("running", "planned")
    measure(
        "  live fragment, new data", f"?part=live&shown={earlier}", LIVE_GOAL, LIVE_SIZE, **live
    )
    measure("  live fragment, no news", f"?part=live&shown={shown}", LIVE_GOAL, LIVE_SIZE, **live)
    measure("  its table, computed anew", "?part=numbers", KEPT_GOAL, KEPT_SIZE, **live)
    experiment = f"/experiments/{pk}/"
    measure_address("  experiment, live part", experiment, LIVE_GOAL, LIVE_SIZE, **live)
    details = live | {"hx-target": "experiment-details"}
    measure_address("  experiment, its details", experiment, KEPT_GOAL, KEPT_SIZE, **details)
    measure_address("  overview, new data", "/", KEPT_GOAL, KEPT_SIZE)


def make_experiment(repeats: int, *, trained: bool = False, steps: int = STEPS) -> int:
    """Make a public experiment whose runs have ended, with steps and snapshots; return its pk.

    With `trained`, its runs also have the losses and spreads that further panels show.
    """
    from experiments.comparisons.step_summaries import add_step_summary
    from experiments.models import Job, Measurement, Run, Series, Snapshot
    from tests.factories import NOON, EnvironmentFactory, LaunchedFactory, WorkloadFactory

    draw = random.Random(2)
    experiment = LaunchedFactory(
        repeats=repeats, scales=list(SCALES), visibility="public", environments=None
    )
    environments = [
        experiment.baseline,
        *(EnvironmentFactory(cluster=experiment.cluster) for _ in range(ENVIRONMENTS - 1)),
    ]
    experiment.environments.set(environments)
    workloads = [WorkloadFactory() for _ in range(WORKLOADS)]
    experiment.workloads.set(workloads)
    snapshots = [
        Snapshot.objects.keep(
            {"inside": {"hostname": "node1", "packages": {f"p{i}": "1.0" for i in range(200)}}}
        )
    ]
    jobs, runs, numbers, series = [], [], [], []
    for repeat in range(repeats):
        for workload in workloads:
            for scale in SCALES:
                job = Job(
                    experiment=experiment,
                    cluster=experiment.cluster,
                    workload=workload,
                    scale=scale,
                    repeat=repeat,
                    block=len(jobs),
                    state=Job.State.DONE,
                    scheduler_id=str(len(jobs)),
                )
                jobs.append(job)
                for position, environment in enumerate(environments):
                    run = Run(
                        experiment=experiment,
                        job=job,
                        workload=workload,
                        environment=environment,
                        scale=scale,
                        repeat=repeat,
                        position=position,
                        state=Run.State.SUCCEEDED,
                        node="node1",
                        began_at=NOON,
                        ended_at=NOON,
                        snapshot=snapshots[0],
                    )
                    value = draw.lognormvariate(-3, 0.01)
                    runs.append(run)
                    numbers.append(Measurement(run=run, metric="step_time", value=value, unit="s"))
                    values = [value * draw.lognormvariate(0, 0.02) for _ in range(steps)]
                    series.append(
                        add_step_summary(
                            Series(run=run, metric="step_time", values=values, unit="s")
                        )
                    )
                    if trained:
                        run.spec = {"workload": {"kind": "cnn", "parameters": {"seed": repeat}}}
                        spread = {"step_time_sd": statistics.stdev(values), "tail_ratio": 1.05}
                        numbers += [
                            Measurement(run=run, metric=name, value=number, unit=unit)
                            for (name, number), unit in zip(spread.items(), "s1", strict=True)
                        ]
                        losses = [draw.lognormvariate(0, 0.1) for _ in range(steps)]
                        series.append(
                            add_step_summary(
                                Series(run=run, metric="loss", values=losses, unit="1")
                            )
                        )
    for rows in (jobs, runs, numbers, series):
        type(rows[0]).objects.bulk_create(rows, batch_size=5_000)
    return int(experiment.pk)


def median_seconds(action: Callable[[], None]) -> float:
    action()  # imports and caches
    took = []
    for _ in range(15):
        began = time.perf_counter()
        action()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def print_row(
    label: str, seconds: float, goal: float | None = None, ratio: float | None = None
) -> None:
    goal_text = f"{1000 * goal:6.0f}" if goal else " " * 6
    ratio_text = f"{ratio:7.2f}" if ratio else ""
    print(f"{label:44} {1000 * seconds:8.1f} {goal_text} {ratio_text}".rstrip())


if __name__ == "__main__":
    main()
