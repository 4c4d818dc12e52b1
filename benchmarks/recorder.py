"""What recording a step costs: python benchmarks/recorder.py

The same 10 ms of work, plain and recorded, step by step in turns, so that a noisy machine is as
noisy for both; and the bare call. Takes about 10 s.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners.payload.recorder import Recorder

PAIRS, CALLS = 400, 200_000
clock = time.perf_counter


def work(rounds: int) -> float:
    """Do arithmetic whose time depends on nothing but `rounds`."""
    total = 0.0
    for number in range(rounds):
        total += number * 0.5
    return total


def rounds_for(seconds: float) -> int:
    began = clock()
    work(2_000_000)
    return round(2_000_000 * seconds / (clock() - began))


def pairs_of_steps(rounds: int, folder: str) -> list[tuple[float, float]]:
    """Return the seconds of plain and of recorded steps; which comes first changes each time."""
    recorder = Recorder(path=os.path.join(folder, "result.json"))
    recorder.series("loss", "1")
    steps = recorder.steps(PAIRS, burn_in=1)

    def plain() -> float:
        began = clock()
        work(rounds)
        return clock() - began

    def recorded() -> float:
        began = clock()
        next(steps)
        recorder.step(loss=work(rounds))
        return clock() - began

    pairs = []
    for number in range(PAIRS):
        order = (plain, recorded) if number % 2 else (recorded, plain)
        seconds = {step: step() for step in order}
        pairs.append((seconds[plain], seconds[recorded]))
    return pairs


def seconds_per_call(folder: str) -> float:
    """Return the seconds of `step` with one value, less the empty loop; the best of five."""
    recorder = Recorder(path=os.path.join(folder, "result.json"))
    recorder.series("loss", "1")
    best = float("inf")
    for _ in range(5):
        began = clock()
        for number in range(CALLS):
            recorder.step(loss=number)
        called = clock()
        for _ in range(CALLS):
            pass
        best = min(best, (called - began) - (clock() - called))
    return best / CALLS


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pairs = pairs_of_steps(rounds_for(0.010), folder)
        call = seconds_per_call(folder)
    plain, recorded = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(after / before for before, after in pairs)
    print(f"{'':38}{'measured':>13}{'at most':>13}")
    print(f"{'plain step, median':38}{plain * 1e3:>10.4f} ms")
    print(f"{'recorded step, median':38}{recorded * 1e3:>10.4f} ms")
    print(f"{'recorded / plain, median of pairs':38}{ratio:>13.5f}{1.001:>13}")
    print(f"{'one step() with one value':38}{call * 1e9:>10.0f} ns{2000:>10} ns")


if __name__ == "__main__":
    main()
