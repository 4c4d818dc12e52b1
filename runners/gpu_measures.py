"""Memory and energy of a run's GPUs, from what was sampled and counted beside it. No I/O.

Samples are seconds apart. What happens between two of them is not known: a peak there is missed,
and power is taken to go from one to the next in a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from runners.node_samples import Sample, Samples
from runners.run_measures import Measure, NotMeasured, accept, read_number
from runners.workloads.run_metrics import GPU_ENERGY, PEAK_GPU_MEMORY

MEMORY_SAMPLES = "samples of GPU memory"
POWER_SAMPLES = "integrated samples of GPU power"
COUNTER = "energy counter of the GPUs (NVML)"
FEWEST = 2
"""Samples of each GPU within the run: of fewer nothing follows."""
LONGEST_GAP = 2.5
"""Between samples, and from the run's ends to the first and the last: so many times the usual one.
With a longer one too much of the run is unknown."""


def measure_peak_gpu_memory(samples: Samples, began: float, ended: float) -> Measure:
    """Return the most bytes that any GPU had in use in a sample between two moments.

    Those of others on the GPU are among them.
    """
    tracks = _choose(samples, "GPU memory", began, ended)
    interval = _require_samples(tracks, began, ended)
    highest = max(value for track in tracks.values() for _, value in track)
    fewest = min(map(len, tracks.values()))
    detail = f"{fewest:,} samples {interval:.3g} s apart; a peak between two is missed"
    return accept(PEAK_GPU_MEMORY, highest, MEMORY_SAMPLES, detail)


def measure_gpu_energy(
    samples: Samples,
    began: float,
    ended: float,
    counted_before: Mapping[str, Any],
    counted_after: Mapping[str, Any],
) -> Measure:
    """Return the energy of the GPUs between two moments, by their counter, else by their power.

    `counted_before` and `counted_after` are what the job script wrote of the counters around the
    run: `gpu_millijoules` by GPU; either may be empty.
    """
    before, after = (line.get("gpu_millijoules") or {} for line in (counted_before, counted_after))
    if before and before.keys() == after.keys():
        return _measure_by_counter(before, after)
    tracks = _choose(samples, "GPU power", began, ended)
    interval = _require_samples(tracks, began, ended)
    joules = math.fsum(integrate_power(track, began, ended) for track in tracks.values())
    fewest = min(map(len, tracks.values()))
    detail = f"{fewest:,} samples {interval:.3g} s apart, straight lines between them"
    return accept(GPU_ENERGY, joules, POWER_SAMPLES, detail)


def integrate_power(track: Sequence[Sample], began: float, ended: float) -> float:
    """Return the joules under straight lines between samples in watts.

    Before the first and after the last one power is taken to be theirs.
    """
    (first, first_watts), (last, last_watts) = track[0], track[-1]
    between = math.fsum(
        (later - sooner) * (low + high) / 2 for (sooner, low), (later, high) in pairwise(track)
    )
    return (first - began) * first_watts + between + (ended - last) * last_watts


def _measure_by_counter(before: Mapping[str, Any], after: Mapping[str, Any]) -> Measure:
    millijoules = 0.0
    for gpu, value in sorted(before.items()):
        start, end = (read_number(count, f"counter of GPU {gpu}") for count in (value, after[gpu]))
        if end < start:
            raise NotMeasured(f"the energy counter of GPU {gpu} was set back while the run ran")
        millijoules += end - start
    return accept(GPU_ENERGY, millijoules / 1000, COUNTER, "read just before and after the run")


def _choose(samples: Samples, name: str, began: float, ended: float) -> dict[int, list[Sample]]:
    """Return the samples of each GPU between two moments. Raises NotMeasured without any GPU."""
    if samples.divided:
        raise NotMeasured("the run has a part of a GPU (MIG), of which nothing is told")
    tracks = {
        gpu: [sample for sample in track if began <= sample[0] <= ended]
        for (quantity, gpu), track in sorted(samples.tracks.items(), key=str)
        if quantity == name and gpu is not None
    }
    if not tracks:
        raise NotMeasured(f"there are no samples of {name}{_explain(samples)}")
    return tracks


def _explain(samples: Samples) -> str:
    return f": {samples.problem}" if samples.problem else ""


def _require_samples(tracks: Mapping[int, Sequence[Sample]], began: float, ended: float) -> float:
    """Return the usual seconds between samples. Raises NotMeasured where too little is known."""
    for gpu, track in tracks.items():
        if len(track) < FEWEST:
            raise NotMeasured(
                f"{len(track)} samples of GPU {gpu} were taken while it ran; {FEWEST} are needed"
            )
    usual = median(
        later - sooner for track in tracks.values() for (sooner, _), (later, _) in pairwise(track)
    )
    for gpu, track in tracks.items():
        moments = [began, *(moment for moment, _ in track), ended]
        longest = max(later - sooner for sooner, later in pairwise(moments))
        if longest > LONGEST_GAP * usual:
            raise NotMeasured(
                f"for {longest:,.1f} s of the run there is no sample of GPU {gpu}; usually there "
                f"is one each {usual:.3g} s"
            )
    return usual
