"""Times and memory of runs: measured, or not measured with a reason, and never a zero."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runners.run_measures import (
    JOB_SCRIPT,
    MARKS,
    MARKS_AND_TREE,
    SLURM,
    TWO_CLOCKS,
    NotMeasured,
    accept,
    measure_host_memory,
    measure_queue_time,
    measure_run_time,
)
from runners.workloads import WORKLOADS
from runners.workloads.run_metrics import PEAK_HOST_MEMORY, RUN_METRICS, add_run_metrics

SCONTROL = (
    "JobId=8 JobName=tare SubmitTime=2026-11-26T13:00:00 EligibleTime=2026-11-26T13:00:00 "
    "AccrueTime=2026-11-26T13:00:00 StartTime=2026-11-26T13:02:30 EndTime=2026-11-26T14:02:30"
)


def line(time: float, uptime: float | None = None) -> dict[str, Any]:
    return {"time": time, "uptime": uptime}


# --- Time of the run


def test_the_time_of_a_run_is_that_between_two_lines_of_its_journal() -> None:
    measure = measure_run_time(line(1000.25, 50.0), line(1012.75, 62.49))
    assert (measure.value, measure.unit, measure.source) == (12.5, "s", JOB_SCRIPT)


@pytest.mark.parametrize(
    ("ended", "uptime", "words"),
    [
        (1004.0, 60.0, "clock was set by −6.0 s"),  # 10 s have passed
        (4610.0, 60.0, r"clock was set by +3,600.0 s"),
        (990.0, 60.0, "clock was set by −20.0 s"),
        (990.0, None, "clock was set back"),
        (1000.0, None, "clock was set back"),
    ],
)
def test_a_clock_that_was_set_leaves_no_time(
    ended: float, uptime: float | None, words: str
) -> None:
    with pytest.raises(NotMeasured) as raised:
        measure_run_time(line(1000.0, 50.0), line(ended, uptime))
    assert words in str(raised.value)


def test_a_clock_that_is_kept_right_is_no_clock_that_was_set() -> None:
    day = 86_400.0
    measure = measure_run_time(line(0.0, 5.0), line(day * 1.0005, 5.0 + day))
    assert measure.value == day * 1.0005


def test_a_journal_of_an_older_job_script_has_no_time() -> None:
    for began, ended in (({}, {}), (line(1.0), {}), ({}, line(2.0))):
        with pytest.raises(NotMeasured, match="does not say when"):
            measure_run_time(began, ended)


# --- Time in the queue


def test_slurm_s_own_times_come_before_two_clocks() -> None:
    measure = measure_queue_time(SCONTROL, 5.0, 154.0)
    assert (measure.value, measure.source) == (150.0, SLURM)
    assert measure.detail == "in whole seconds"


def test_a_wait_that_slurm_does_not_resolve_is_no_zero() -> None:
    with pytest.raises(NotMeasured, match="less than 1 s"):
        measure_queue_time(SCONTROL.replace("13:02:30", "13:00:00"), 1.0, 2.0)


@pytest.mark.parametrize("start", ["Unknown", "2026-11-26T12:00:00", "2026-02-31T00:00:00"])
def test_odd_times_of_slurm_are_no_measure(start: str) -> None:
    text = SCONTROL.replace("StartTime=2026-11-26T13:02:30", f"StartTime={start}")
    if start == "Unknown":
        assert measure_queue_time(text, 10.0, 12.5).source == TWO_CLOCKS
        return
    with pytest.raises(NotMeasured, match=r"no dates|change of clocks"):
        measure_queue_time(text, 10.0, 12.5)


@pytest.mark.parametrize(
    ("start", "waited"),
    [
        ("2026-11-26T14:02:30", 150.0),  # an hour forth, and back
        ("2026-11-26T13:02:30", 3750.0),
        ("2026-11-26T13:00:00", 3600.0),
        ("2026-11-26T13:32:30", 150.0),  # Lord Howe changes by half an hour
    ],
)
def test_a_change_of_clocks_while_a_job_waits_leaves_no_time(start: str, waited: float) -> None:
    text = SCONTROL.replace("StartTime=2026-11-26T13:02:30", f"StartTime={start}")
    with pytest.raises(NotMeasured, match="change of clocks"):
        measure_queue_time(text, 1000.0, 1000.0 + waited)
    if start != "2026-11-26T13:00:00":  # nothing else tells
        assert measure_queue_time(text, None, None).source == SLURM


def test_without_slurm_two_clocks_tell_and_say_so() -> None:
    measure = measure_queue_time("", 10.0, 12.5)
    assert (measure.value, measure.source) == (2.5, TWO_CLOCKS)
    assert "clocks differ" in measure.detail
    with pytest.raises(NotMeasured, match=r"started 3\.0 s before"):
        measure_queue_time("", 10.0, 7.0)
    with pytest.raises(NotMeasured, match="not known"):
        measure_queue_time("", None, 7.0)


# --- Memory


def account(own: Any = 5e8, child: Any = 0, **more: Any) -> dict[str, Any]:
    return {"own_bytes": own, "child_bytes": child, **more}


def test_the_largest_child_is_added_to_its_parent_and_processes_to_each_other() -> None:
    alone = measure_host_memory({"": account(100, 30)})
    assert (alone.value, alone.unit, alone.source) == (130, "B", MARKS)
    several = measure_host_memory({"": account(100, 30), "rank 1": account(70, 0)})
    assert several.value == 200


def test_what_was_held_together_counts_where_it_is_more() -> None:
    seen = account(10, 100, together_bytes=310, samples=7)
    measure = measure_host_memory({"": seen})
    assert (measure.value, measure.source) == (310, MARKS_AND_TREE)
    assert measure.detail.startswith("7 samples")
    assert measure_host_memory({"": seen | {"together_bytes": 50}}).value == 110


def test_a_program_that_ended_before_its_first_sample_has_marks_alone() -> None:
    unseen = account(10, 100, together_bytes=0, samples=0)
    seen = account(10, 100, together_bytes=310, samples=1)
    assert measure_host_memory({"": unseen}).source == MARKS
    assert measure_host_memory({"": seen}).source == MARKS_AND_TREE
    mixed = measure_host_memory({"rank 0": seen, "rank 1": unseen})
    assert (mixed.value, mixed.source) == (220, MARKS)


@pytest.mark.parametrize(
    "memory",
    [
        {},
        {"": {}},
        {"": account(), "rank 1": {}},
        {"": account(0)},
        {"": account(-1)},
        {"": account(math.nan)},
        {"": account(None)},
        {"": account("much")},
        {"": account(True)},
        {"": account(1e300)},
        {"": account(2**60)},
        {"": account(5, -5)},
        {"": account(5, 5, together_bytes=-1, samples=1)},
        {"": account(5, 5, together_bytes=9, samples=None)},
    ],
)
def test_memory_that_cannot_be_right_is_not_measured(memory: dict[str, Any]) -> None:
    with pytest.raises(NotMeasured):
        measure_host_memory(memory)


# --- The door, and the names


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, None, "5", True, [], 1e200, 2.0**51])
def test_one_door_refuses_what_is_no_measure(value: Any) -> None:
    with pytest.raises(NotMeasured):
        accept(PEAK_HOST_MEMORY, value, "a source")


def test_a_program_s_own_metric_keeps_its_name() -> None:
    own = WORKLOADS["command"].clean(
        {
            "argv": ["x"],
            "read": "json",
            "file": "out.json",
            "metrics": [
                {
                    "name": "gpu_energy",
                    "unit": "kWh",
                    "better": "lower",
                    "find": "e",
                    "take": "last",
                }
            ],
        }
    )
    metrics = WORKLOADS["command"].list_all_metrics(own)
    assert [metric.unit for metric in metrics if metric.name == "gpu_energy"] == ["kWh"]
    assert len(add_run_metrics(())) == len(RUN_METRICS) == len({m.name for m in RUN_METRICS})
    for metric in RUN_METRICS:
        assert metric.better == "lower"
        assert metric.label
