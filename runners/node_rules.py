"""Rules of a plan that reject a run for what its node did. No I/O, and blind to its numbers.

They see samples of the node alone, never a result: so they can be fixed before the launch and
applied to every environment alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.node_samples import PAGED, REASONS, SLOWDOWNS, ProcessCount, Samples

SWAP, THROTTLED, LEAST_MHZ, OTHERS = "swap", "throttled", "least_mhz", "others"
OTHERS_CPUS = "others_cpus"
ATTEMPTS = "again"
"""How often rejected runs of a block are planned again: beside the rules, and none itself."""
OF_GPUS = (THROTTLED, LEAST_MHZ, OTHERS)
NAMES = {
    SWAP: "swap",
    THROTTLED: "slowed GPUs",
    LEAST_MHZ: "clocks of GPUs in use",
    OTHERS: "other processes on GPUs",
    OTHERS_CPUS: "load of others on the node",
}
OTHER = "another rule"
_MARKS = {
    SWAP: re.compile(r"[\d,]+ pages went to swap or came from it"),
    THROTTLED: re.compile(r"GPU \d+: [^;]+ in [\d,]+ of [\d,]+ samples"),
    LEAST_MHZ: re.compile(r"GPU \d+ had a mean clock of "),
    OTHERS: re.compile(r"others had (up to )?[\d,]+ process"),
    OTHERS_CPUS: re.compile(r"others kept at least [\d,.]+ CPUs busy"),
}
"""By which the message of a rejected run tells its rules."""
IN_USE = 50.0
"""Per cent: a GPU that does less lowers its clock by itself."""


TICKS_A_SECOND = 100
"""Of a CPU in /proc/stat, whatever the kernel's own clock is."""
LONGEST_BEFORE = 15.0
"""Seconds from the count for a run to its beginning, at most: the tool has as long to answer."""


@dataclass(frozen=True)
class Judgement:
    """What the rules say of one run."""

    violations: tuple[str, ...] = ()
    """Why it is rejected, as parts of a sentence; none: it counts."""
    not_applied: tuple[str, ...] = ()
    """Rules for which it has no samples; these reject nothing."""


def describe_rules(rules: Mapping[str, Any]) -> list[str]:
    """Return the rules in words, each to follow "rejected where"."""
    texts = []
    if rules.get(SWAP):
        texts.append("pages went to swap or came from it")
    if rules.get(THROTTLED):
        texts.append("heat or the hardware slowed a GPU down")
    if rules.get(LEAST_MHZ):
        texts.append(f"a GPU in use had a mean clock below {rules[LEAST_MHZ]:,} MHz")
    if rules.get(OTHERS):
        texts.append("others had a process on the job's GPUs")
    if rules.get(OTHERS_CPUS):
        count = _count_cpus_in_words(rules[OTHERS_CPUS])
        texts.append(
            f"at least {count} of the node were busy, on the mean, beyond all that the run may use"
        )
    return texts


def name_violated_rules(message: str) -> list[str]:
    """Return the names of the rules that the message of a rejected run speaks of, in order."""
    names = [NAMES[rule] for rule, mark in _MARKS.items() if mark.search(message)]
    return names or [OTHER]


def judge(
    rules: Mapping[str, Any], samples: Samples, began: float, ended: float, cpus: int | None = None
) -> Judgement:
    """Return what the rules say of the run between two moments, by the samples of its node.

    `cpus`: on how many CPUs of the node the run may run; None where that is not known.
    """
    violations, not_applied = [], []

    def choose(track: list[tuple[float, float]]) -> dict[float, float]:
        return {time: value for time, value in track if began <= time <= ended}

    if rules.get(SWAP):
        pages = list(choose(samples.tracks.get((PAGED, None), [])).values())
        if len(pages) < 2:
            not_applied.append(NAMES[SWAP])
        elif moved := max(pages) - min(pages):
            violations.append(f"{moved:,.0f} pages went to swap or came from it")
    if rules.get(THROTTLED):
        tracks = {gpu: choose(track) for gpu, track in sorted(samples.reasons.items())}
        if not any(tracks.values()):
            not_applied.append(NAMES[THROTTLED])
        for gpu, track in tracks.items():
            slow = [int(bits) & SLOWDOWNS for bits in track.values() if int(bits) & SLOWDOWNS]
            if slow:
                names = [name for bit, name in REASONS.items() if any(bits & bit for bits in slow)]
                violations.append(
                    f"GPU {gpu}: {' and '.join(names)} in {len(slow):,} of {len(track):,} samples"
                )
    if least := rules.get(LEAST_MHZ):
        means = _find_mean_clocks(samples, choose)
        if not means:
            not_applied.append(NAMES[LEAST_MHZ])
        violations += [
            f"GPU {gpu} had a mean clock of {mean:,.0f} MHz while in use, less than {least:,} MHz"
            for gpu, mean in means.items()
            if mean < least
        ]
    if rules.get(OTHERS):
        counts = choose_process_counts(samples.process_counts, began, ended)
        others = [count.others for count in counts if count.others]
        if not any(count.unknown == 0 or count.others for count in counts):
            not_applied.append(NAMES[OTHERS])
        if others:
            most = f"{'up to ' if len(set(others)) > 1 else ''}{max(others):,}"
            noun = "process" if max(others) == 1 else "processes"
            share = f"{len(others):,} of {len(counts):,} samples"
            violations.append(f"others had {most} {noun} on the job's GPUs in {share}")
    if least := rules.get(OTHERS_CPUS):
        of_others = find_cpus_of_others(samples.ticks, began, ended, cpus)
        if of_others is None:
            not_applied.append(NAMES[OTHERS_CPUS])
        elif of_others >= least:
            violations.append(
                f"others kept at least {of_others:,.1f} CPUs busy beside the {cpus:,} of the run"
            )
    return Judgement(tuple(violations), tuple(not_applied))


def choose_process_counts(
    counts: Sequence[ProcessCount], began: float, ended: float
) -> list[ProcessCount]:
    """Return the counts, in the order of time, that tell of a run between two moments.

    The one just before it began is among them: it was taken for this run.
    """
    before = [count for count in counts if began - LONGEST_BEFORE <= count.time < began]
    return before[-1:] + [count for count in counts if began <= count.time <= ended]


def find_cpus_of_others(
    ticks: Sequence[tuple[float, int, int]], began: float, ended: float, cpus: int | None
) -> float | None:
    """Return how many CPUs of the node were busy on the mean beyond all that a run may use.

    That many at least others have used: a run that leaves some of its own idle hides as many. None
    where nothing is known: two samples are needed, and a run that may use all CPUs of its node
    cannot be told from others.
    """
    of_run = [sample for sample in ticks if began <= sample[0] <= ended]
    if cpus is None or len(of_run) < 2:
        return None
    (first, busy_before, all_before), (last, busy, total) = of_run[0], of_run[-1]
    seconds = last - first
    if seconds <= 0 or not 0 <= busy - busy_before <= total - all_before:
        return None  # the clock or a counter was set back
    of_node = round((total - all_before) / seconds / TICKS_A_SECOND)
    if cpus >= of_node:
        return None
    return max((busy - busy_before) / seconds / TICKS_A_SECOND - cpus, 0.0)


def _count_cpus_in_words(cpus: int) -> str:
    """Return a number of CPUs: "1 CPU", "12 CPUs"."""
    return "1 CPU" if cpus == 1 else f"{cpus:,} CPUs"


def _find_mean_clocks(samples: Samples, choose: Any) -> dict[int, float]:
    """Return the mean clock in MHz of each GPU over the samples in which it was in use."""
    means = {}
    for (name, gpu), track in sorted(samples.tracks.items(), key=str):
        if name == "GPU clock" and gpu is not None:
            uses = choose(samples.tracks.get(("GPU use", gpu), []))
            clocks = [clock for time, clock in choose(track).items() if uses.get(time, 0) >= IN_USE]
            if clocks:
                means[gpu] = sum(clocks) / len(clocks) / 1e6
    return means
