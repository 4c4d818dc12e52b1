"""Memory and energy of GPUs: of samples with known power, and of counters."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runners.gpu_measures import (
    COUNTER,
    MEMORY_SAMPLES,
    POWER_SAMPLES,
    integrate_power,
    measure_gpu_energy,
    measure_peak_gpu_memory,
)
from runners.node_samples import Samples, read_samples
from runners.run_measures import NotMeasured

GIB = 2.0**30
NOON = 1795435200.0  # 2026-11-23 12:00:00 UTC


def sampled(power: dict[int, list[float]], *, every: float = 5.0, first: float = 2.0) -> Samples:
    """Return samples whose power in watts is known, and whose memory is a GiB for each watt."""
    samples = Samples()
    for gpu, watts in power.items():
        moments = [first + every * number for number in range(len(watts))]
        samples.tracks["GPU power", gpu] = list(zip(moments, watts, strict=True))
        samples.tracks["GPU memory", gpu] = [
            (moment, watt * GIB) for moment, watt in zip(moments, watts, strict=True)
        ]
    return samples


def energy(samples: Samples, began: float, ended: float, *counted: dict[str, Any]) -> Any:
    before, after = counted or ({}, {})
    return measure_gpu_energy(samples, began, ended, before, after)


def test_constant_power_is_power_times_time() -> None:
    measure = energy(sampled({0: [300.0] * 4}), 0.0, 20.0)
    assert measure.value == pytest.approx(6000.0)
    assert (measure.unit, measure.source) == ("J", POWER_SAMPLES)
    assert measure.detail.startswith("4 samples 5 s apart")


def test_power_that_rises_is_the_area_below_straight_lines() -> None:
    # 0 to 100 W in 10 s: 500 J; 2 s before at 0 W and 3 s after at 100 W: 300 J.
    track = [(2.0, 0.0), (7.0, 50.0), (12.0, 100.0)]
    assert integrate_power(track, 0.0, 15.0) == pytest.approx(800.0)


def test_the_energy_of_several_gpus_is_added_and_their_memory_is_not() -> None:
    samples = sampled({0: [100.0] * 4, 1: [40.0, 60.0, 40.0, 40.0]})
    assert energy(samples, 2.0, 17.0).value == pytest.approx(1500 + 700)
    peak = measure_peak_gpu_memory(samples, 0.0, 20.0)
    assert (peak.value, peak.unit, peak.source) == (100 * GIB, "B", MEMORY_SAMPLES)
    assert peak.detail == "4 samples 5 s apart; a peak between two is missed"


def test_samples_of_other_runs_do_not_count() -> None:
    samples = sampled({0: [900.0, 100.0, 100.0, 100.0, 900.0]})
    assert energy(samples, 5.0, 19.0).value == pytest.approx(1400.0)
    assert measure_peak_gpu_memory(samples, 5.0, 19.0).value == 100 * GIB


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_samples_are_no_energy_and_no_peak(count: int) -> None:
    samples = sampled({0: [300.0] * count, 1: [300.0] * 4})
    for measure in (energy, measure_peak_gpu_memory):
        with pytest.raises(NotMeasured, match=f"{count} samples of GPU 0"):
            measure(samples, 0.0, 20.0)


@pytest.mark.parametrize(
    ("began", "ended", "longest"), [(0.0, 60.0, "43.0"), (-30.0, 20.0, "32.0")]
)
def test_a_long_time_without_samples_is_no_energy(began: float, ended: float, longest: str) -> None:
    with pytest.raises(NotMeasured, match=f"for {longest} s of the run there is no sample"):
        energy(sampled({0: [300.0] * 4}), began, ended)
    gap = sampled({0: [300.0] * 5})
    del gap.tracks["GPU power", 0][1:4]
    gap.tracks["GPU power", 0].insert(1, (3.0, 300.0))
    gap.tracks["GPU power", 0].insert(2, (4.0, 300.0))
    with pytest.raises(NotMeasured, match=r"for 18\.0 s"):
        energy(gap, 2.0, 22.0)


def test_without_samples_the_tool_s_words_are_the_reason() -> None:
    with pytest.raises(NotMeasured, match="there are no samples of GPU power: Unable to open"):
        energy(Samples(problem="Unable to open the device"), 0.0, 10.0)
    with pytest.raises(NotMeasured, match="MIG"):
        energy(Samples(divided={0}), 0.0, 10.0)


@pytest.mark.parametrize("watts", ["nan", "-5", "1e9", "inf", "[N/A]", "abc"])
def test_odd_power_passes_no_door(watts: str) -> None:
    line = f"2026/11/23 12:00:0{{}}.000, 0, 80, 1024, {watts}, 1980, 61, 0x0\n"
    content = "".join(line.format(second) for second in (0, 4, 8)).encode()
    samples = read_samples({"samples/gpus.csv": content})
    with pytest.raises(NotMeasured):
        energy(samples, NOON, NOON + 9)


def test_no_power_at_all_is_no_energy() -> None:
    with pytest.raises(NotMeasured, match="above zero"):
        energy(sampled({0: [0.0] * 4}), 0.0, 20.0)


# --- Counters


def counted(**millijoules: Any) -> dict[str, Any]:
    return {"gpu_millijoules": {name.removeprefix("g"): n for name, n in millijoules.items()}}


def test_counters_are_taken_where_there_are_some() -> None:
    samples = sampled({0: [300.0] * 4, 1: [300.0] * 4})
    measure = energy(samples, 0.0, 20.0, counted(g0=5000, g1=100), counted(g0=9000, g1=2100))
    assert (measure.value, measure.source) == (6.0, COUNTER)


@pytest.mark.parametrize(
    "after", [{}, counted(g0=9000), {"gpu_millijoules": None}, counted(g0=1, g1=1, g2=1)]
)
def test_counters_of_other_gpus_are_no_counters(after: dict[str, Any]) -> None:
    samples = sampled({0: [300.0] * 4, 1: [300.0] * 4})
    measure = energy(samples, 0.0, 20.0, counted(g0=5000, g1=100), after)
    assert (measure.value, measure.source) == (pytest.approx(12_000), POWER_SAMPLES)


@pytest.mark.parametrize("value", [4999, -1, math.nan, None, "many", 1e200])
def test_a_counter_that_cannot_be_right_is_no_energy(value: Any) -> None:
    with pytest.raises(NotMeasured):
        energy(sampled({0: [300.0] * 4}), 0.0, 20.0, counted(g0=5000), counted(g0=value))
