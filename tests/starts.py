"""Experiments whose runs have steps: some warm up, some throttle, some never settle."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from experiments.comparisons import Group, compare_experiment
from experiments.comparisons.step_summaries import add_step_summary
from experiments.models import Environment, Experiment, Measurement
from tests.factories import (
    ContainerFactory,
    EnvironmentFactory,
    LaunchedFactory,
    SeriesFactory,
    WorkloadFactory,
    block,
)

FIXED_WARM_UP = 10
STEPS = 400


def steps(
    time: float, *, slow_until: int = 0, throttled_from: int = STEPS, seed: int = 0
) -> list[float]:
    """`time` s a step, half as slow again at the start and 5 % slower once it is throttled."""
    return [
        time
        * (1 + 0.001 * ((7 * step + seed) % 11))
        * (1.5 if step < slow_until else 1.05 if step >= throttled_from else 1)
        for step in range(STEPS)
    ]


class Made:
    """An experiment whose runs have the steps that are given to `add`."""

    def __init__(self, **columns: Any) -> None:
        self.bare = EnvironmentFactory(name="bare metal")
        self.box = ContainerFactory(name="box", cluster=self.bare.cluster)
        parameters = {"steps": STEPS, "burn_in": FIXED_WARM_UP}
        self.workload = WorkloadFactory(name="cnn", kind="cnn", parameters=parameters)
        self.experiment: Experiment = LaunchedFactory(
            cluster=self.bare.cluster,
            baseline=self.bare,
            environments=[self.bare, self.box],
            workloads=[self.workload],
            **columns,
        )
        self.count = 0

    def add(self, bare: list[float], box: list[float], *, look: bool = True) -> Made:
        self.count += 1
        made = block(self.experiment, self.count, {self.bare: 1.0, self.box: 1.0})
        for run, values in zip(made.runs.order_by("position"), (bare, box), strict=True):
            mean = fmean(values[FIXED_WARM_UP:])
            run.measurements.update(value=mean)
            run.spec = {"workload": {"parameters": self.workload.parameters}}
            run.save(update_fields=["spec"])
            Measurement.objects.create(
                run=run, metric="images_per_second", value=32 / mean, unit="images/s"
            )
            series = SeriesFactory.build(run=run, values=values)
            (add_step_summary(series) if look else series).save()
        return self

    @property
    def group(self) -> Group:
        (group,) = compare_experiment(self.experiment).groups
        return group

    def values(self, environment: Environment) -> list[float]:
        return [s.value for s in self.group.samples if s.environment == environment.name]


def started(**columns: Any) -> Made:
    """Five blocks: bare metal is level, the box needs 40 to 60 steps to warm up."""
    made = Made(**columns)
    for k in range(5):
        slow = 40 + 10 * (k % 3)
        made.add(steps(0.02, seed=k), steps(0.0202, slow_until=slow, seed=k))
    return made


FOUND = {"warm_up": Experiment.WarmUp.FOUND}
