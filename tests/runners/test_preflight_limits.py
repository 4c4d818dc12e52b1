"""Suggested limits: a queue that does not run empty, and a scheduler that is asked seldom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.jobs import Resources
from runners.preflight import PartitionSpec, Site
from runners.preflight.limits import CALLS_TO_A_PAUSE, PAUSES, suggest_limits
from runners.schedulers import SCHEDULERS


def partition(nodes=2, gpus=4, **more):
    return PartitionSpec(nodes, Resources(60, gpus_per_node=gpus, partition="gpu", **more))


def limits(seconds=0.01, *partitions, scheduler="slurm"):
    check = suggest_limits(seconds, Site("/w", partitions=partitions), SCHEDULERS[scheduler]())
    assert check.outcome == "ok"
    assert check.value == "", "how fast a site answers is no change of it"
    return tuple(map(int, check.limits.split()))


@pytest.mark.parametrize(
    ("seconds", "pause"), [(0.01, 2), (0.05, 3), (0.1, 5), (0.25, 15), (0.9, 60), (20, 60)]
)
def test_a_slow_scheduler_is_asked_less_often(seconds, pause):
    assert limits(seconds, partition())[1] == pause


@pytest.mark.parametrize(
    ("partitions", "scheduler", "live"),
    [
        ((partition(2, 4), partition(1, 4)), "slurm", 16),
        ((partition(3, 0),), "slurm", 6),
        ((partition(500, 8),), "slurm", 64),
        ((), "slurm", 4),
        ((partition(1, 8),), "direct", 4),
        ((partition(1, 8, side_by_side=True),), "direct", 16),
    ],
)
def test_twice_as_many_jobs_wait_or_run_as_there_is_room_for(partitions, scheduler, live):
    assert limits(0.01, *partitions, scheduler=scheduler)[0] == live


@given(st.floats(0, 1e6), st.integers(1, 10**6), st.integers(0, 64))
def test_limits_are_always_ones_that_a_cluster_may_have(seconds, nodes, gpus):
    live, pause = limits(seconds, partition(nodes, gpus))
    assert 1 <= live <= 64
    assert pause in PAUSES
    assert pause >= min(seconds * CALLS_TO_A_PAUSE, PAUSES[-1])
