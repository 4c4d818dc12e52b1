"""The requested length of runs of tf_cnn_benchmarks: so many epochs, or so many steps.

The program is given one of the two and logs both. Epochs become whole steps, so that they are
logged as 9.99936 for 10, and their number of steps is another one for each number of GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

STEPS, EPOCHS = "num_batches", "num_epochs"
PRINTED = 0.005
"""Epochs that are printed have two decimals."""


def keep_lengths(workloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the workloads with the length that was asked for: `EPOCHS`, or else `STEPS`.

    What the logs do not say is taken from all of them: among workloads that are alike but for
    their length, epochs count where that makes no more workloads than counting steps.
    """
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for index, workload in enumerate(workloads):
        rest = {name: workload[name] for name in workload if name not in (STEPS, EPOCHS)}
        alike[repr(sorted(rest.items()))].append(index)
    shortened = [dict(workload) for workload in workloads]
    for members in alike.values():
        epochs = {index: count_whole_epochs(workloads[index]) for index in members}
        by_epochs = {(epochs[i], epochs[i] or str(workloads[i].get(STEPS))) for i in members}
        by_steps = {str(workloads[index].get(STEPS)) for index in members}
        for index in members:
            shortened[index].pop(EPOCHS, None)
            if epochs[index] and len(by_epochs) <= len(by_steps):
                shortened[index].pop(STEPS)
                shortened[index][EPOCHS] = epochs[index]
    return shortened


def count_whole_epochs(workload: Mapping[str, Any]) -> int | None:
    """Return the whole number of epochs from which its steps differ by less than one step."""
    steps, logged = workload.get(STEPS), workload.get(EPOCHS)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 0 < steps < 2**31:
        return None
    try:
        epochs = float(str(logged))
    except ValueError:
        return None
    if not 0 < epochs < 2**31:
        return None
    whole = round(epochs)
    slack = epochs / steps * (1 - 1e-9) + PRINTED * isinstance(logged, str)
    return whole if whole and abs(epochs - whole) < slack else None
