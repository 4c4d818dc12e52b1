"""What a node did while runs ran, as the job script sampled it. No I/O: bytes in, values out.

Three files: `samples/node.txt`, a line of figures from /proc each time; `samples/gpus.csv`, which
the node's own tool writes, a line for each GPU; and, where a rule of the plan asks for it,
`samples/processes.txt`: how many processes were on the job's GPUs. Programs can write to all: a
line that is odd is counted and left out, and none stops the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runners.untrusted import LATEST, clean_text

SAMPLES = ("samples/node.txt", "samples/gpus.csv")
PROCESSES = "samples/processes.txt"
RAPL = "samples/rapl.txt"
LEAST_INTERVAL_SECONDS = 5
MOST_SAMPLES = 5_000
"""Of a job that uses up its time limit: with a longer one the node is sampled less often."""
MOST_POINTS = 120
"""Of a stored track. With more samples each point is the mean of those in its share of the time."""
MOST_BYTES = 32 * 1024 * 1024
"""Of a file; of a longer one the first bytes are read. A job writes 5 MiB with eight GPUs."""
LONGEST_LINE = 500
MOST_COUNTS = 100_000
"""Lines about processes: one a minute for two months, and two for each run."""
MOST_GPUS = 64
DIGITS = 4
"""Of a stored value."""
LONGEST_PROBLEM = 200

CPU, MEMORY, SWAP, PAGED, LOAD = "CPU use", "memory", "swap", "swapped pages", "load"
OTHERS_CPU = "CPU use by others"
"""Than the job, the kernel among them; known where Slurm keeps the job in a cgroup of its own."""
NODE_UNITS = {CPU: "%", OTHERS_CPU: "%", MEMORY: "B", SWAP: "B", PAGED: "1", LOAD: "1"}
FROM_BEFORE = (CPU, OTHERS_CPU)
"""Tracks that count from the line before."""
MICROSECONDS_A_TICK = 10_000
GPU_UNITS = {
    "GPU use": "%",
    "GPU memory": "B",
    "GPU power": "W",
    "GPU clock": "Hz",
    "GPU temperature": "°C",
}
UNITS = NODE_UNITS | GPU_UNITS
GPU_FACTORS = (1.0, 2.0**20, 1.0, 1e6, 1.0)
"""From the units of nvidia-smi: per cent, MiB, W, MHz, °C."""
IDLE = 0x1
REASONS = {
    IDLE: "idle",
    0x2: "clocks set for applications",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "synchronised boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "clocks of the display",
}
"""Why a GPU's clocks are below their highest, by the bits that its driver sets."""
SLOWDOWNS = 0x8 | 0x20 | 0x40 | 0x80
"""Bits of REASONS by which heat or the hardware slows a GPU down. A power cap is usual."""
_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,9})?")
_MOMENT = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,6})")
_NOTHING = re.compile(r"\[.{0,40}\]|N/A|Enabled|Disabled")
_DIVIDED = "Enabled"
"""The mode MIG of a GPU, which stands in place of what it has in use with its other parts."""

Sample = tuple[float, float]
"""A time in seconds since 1970, by the node's clock, and a value."""


@dataclass(frozen=True)
class ProcessCount:
    """How many processes computed on a job's GPUs at a time, by whose they were.

    One that computes on several GPUs counts once; records of before that have it once for each.
    """

    time: float
    own: int
    others: int
    unknown: int


@dataclass
class Samples:
    """All samples of a job, in the order of time."""

    tracks: dict[tuple[str, int | None], list[Sample]] = field(default_factory=dict)
    """By quantity and GPU; None: of the node. CPU uses count from the line before."""
    reasons: dict[int, list[Sample]] = field(default_factory=dict)
    """Bits of REASONS, by GPU."""
    divided: set[int] = field(default_factory=set)
    """GPUs of which the job has a part (MIG): what is known of them is of the whole GPU."""
    process_counts: list[ProcessCount] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """Of the lines about the node."""
    ticks: list[tuple[float, int, int]] = field(default_factory=list)
    """A time, the ticks that its CPUs have been busy since it was started, and all their ticks."""
    odd_lines: int = 0
    left_out: list[str] = field(default_factory=list)
    """What of the files was not read because it is too much, in words."""
    problem: str = ""
    """What the tool said in place of samples of GPUs."""


def read_samples(files: Mapping[str, bytes]) -> Samples:
    """Return what the files of a job's record say. Never raises: what is odd is counted."""
    samples = Samples()
    _read_node(files.get(SAMPLES[0], b""), samples)
    _read_gpus(files.get(SAMPLES[1], b""), samples)
    _read_process_counts(files.get(PROCESSES, b""), samples)
    for track in (*samples.tracks.values(), *samples.reasons.values()):
        track.sort()
    samples.times.sort()
    samples.ticks.sort()
    return samples


def _list_lines(name: str, content: bytes, samples: Samples) -> Iterator[str]:
    """Yield the whole lines of a file; the last one may be cut off.

    Lines that are too long are left out, unread: they and what follows too many bytes are named.
    """
    start, most, long = 0, min(len(content), MOST_BYTES), 0
    while (end := content.find(b"\n", start, most)) >= 0:
        if end - start > LONGEST_LINE:
            long += 1
        else:
            yield content[start:end].decode("ascii", "replace")
        start = end + 1
    long += most - start > LONGEST_LINE  # a cut-off one is no flaw, but this is no line of samples
    if long:
        samples.odd_lines += long
        lines = "a line" if long == 1 else f"{long:,} lines"
        samples.left_out.append(f"{lines} of {name} longer than {LONGEST_LINE} characters")
    if len(content) > MOST_BYTES:
        samples.left_out.append(f"what follows the first {MOST_BYTES // 2**20} MiB of {name}")


def _read_node(content: bytes, samples: Samples) -> None:
    before: tuple[float, int, int, int | None] | None = None  # the line before: time, ticks, own
    for line in _list_lines(SAMPLES[0], content, samples):
        fields = line.split(" ")
        own = int(fields[8]) if len(fields) == 9 and _WHOLE.fullmatch(fields[8]) else None
        is_whole = (len(fields) == 8 or own is not None) and all(
            _DECIMAL.fullmatch(text) or (text == "-" and place > 2)
            for place, text in enumerate(fields)
        )
        if (
            not is_whole
            or float(fields[0]) > LATEST
            or not all(_WHOLE.fullmatch(text) for text in fields[1:3])
        ):
            samples.odd_lines += 1
            continue
        time, busy, ticks = float(fields[0]), int(fields[1]), int(fields[2])
        samples.times.append(time)
        samples.ticks.append((time, busy, ticks))
        if before and time > before[0] and 0 <= busy - before[1] <= ticks - before[2] > 0:
            share = 100 * (busy - before[1]) / (ticks - before[2])
            samples.tracks.setdefault((CPU, None), []).append((time, share))
            if own is not None and before[3] is not None and own >= before[3]:
                # The kernel counts both on its own: of a job alone the difference may be below 0.
                used = (own - before[3]) / MICROSECONDS_A_TICK
                others = 100 * max(busy - before[1] - used, 0.0) / (ticks - before[2])
                samples.tracks.setdefault((OTHERS_CPU, None), []).append((time, others))
        before = time, busy, ticks, own
        memory, _, swap, paged, load = fields[3:8]
        for name, text, factor in (
            (MEMORY, memory, 1024.0),
            (SWAP, swap, 1024.0),
            (PAGED, paged, 1.0),
            (LOAD, load, 1.0),
        ):
            if text != "-":
                samples.tracks.setdefault((name, None), []).append((time, float(text) * factor))


def _read_gpus(content: bytes, samples: Samples) -> None:
    odd = []
    for line in _list_lines(SAMPLES[1], content, samples):
        fields = [text.strip() for text in line.split(",")]
        time = _parse_moment(fields[0]) if len(fields) == 8 else None
        values = [_parse_value(text) for text in fields[2:7]]
        if (
            time is None
            or not _WHOLE.fullmatch(fields[1])
            or int(fields[1]) >= MOST_GPUS
            or any(value is None for value in values)
        ):
            odd.append(line)
            continue
        gpu = int(fields[1])
        if fields[3] == _DIVIDED:
            samples.divided.add(gpu)
        for name, factor, value in zip(GPU_UNITS, GPU_FACTORS, values, strict=True):
            if value is not None and not math.isnan(value):
                samples.tracks.setdefault((name, gpu), []).append((time, value * factor))
        if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", fields[7]):
            samples.reasons.setdefault(gpu, []).append((time, float(int(fields[7], 16) & 0x1FF)))
    samples.odd_lines += len(odd)
    if odd and not any(gpu is not None for _, gpu in samples.tracks):
        samples.problem = " ".join(clean_text(odd[-1])[:LONGEST_PROBLEM].split())


def _read_process_counts(content: bytes, samples: Samples) -> None:
    counts = samples.process_counts
    for number, line in enumerate(_list_lines(PROCESSES, content, samples)):
        if number == MOST_COUNTS:
            samples.left_out.append(f"what follows the first {MOST_COUNTS:,} lines of {PROCESSES}")
            break
        fields = line.split(" ")
        if (
            len(fields) != 4
            or not _DECIMAL.fullmatch(fields[0])
            or float(fields[0]) > LATEST
            or not all(_WHOLE.fullmatch(text) for text in fields[1:])
        ):
            samples.odd_lines += 1
            continue
        counts.append(ProcessCount(float(fields[0]), *map(int, fields[1:])))
    counts.sort(key=lambda count: count.time)


def _parse_moment(text: str) -> float | None:
    """Return the seconds since 1970 of the tool's time, which is asked for in UTC."""
    match = _MOMENT.fullmatch(text)
    if not match:
        return None
    numbers = [int(match[group]) for group in range(1, 7)]
    try:
        whole = datetime(*numbers, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]
    except ValueError:
        return None
    return whole + float(f"0.{match[7]}") if 0 <= whole < LATEST else None


def _parse_value(text: str) -> float | None:
    """Return a number, NaN where the GPU does not know it, None where it is neither."""
    if _NOTHING.fullmatch(text):
        return math.nan
    return float(text) if _DECIMAL.fullmatch(text) else None


def describe_run(samples: Samples, began: float, ended: float) -> dict[str, Any]:
    """Return the samples between two moments as a document of JSON; {} if there are none.

    A point of a track is a number, the lowest, mean and highest of several, or null; all points of
    all tracks divide the time from `began` to `ended` evenly.
    """
    tracks = {
        key: chosen
        for key, track in samples.tracks.items()
        if (chosen := _choose(track, began, ended, is_from_before=key[0] in FROM_BEFORE))
    }
    times = [time for time in samples.times if began <= time <= ended]
    if not tracks or not ended > began:
        return {}
    points = min(MOST_POINTS, max(len(track) for track in tracks.values()))
    return {
        "seconds": round(ended - began, 3),
        "samples": max(len(times), *(len(track) for track in tracks.values())),
        "points": points,
        "tracks": [
            {"name": name, "gpu": gpu, **_summarize(name, track, began, ended, points)}
            for (name, gpu), track in sorted(tracks.items(), key=_rank)
        ],
        "reasons": {
            str(gpu): counts
            for gpu, track in sorted(samples.reasons.items())
            if (counts := _count_reasons(_choose(track, began, ended)))
        },
        "divided": sorted(samples.divided),
        "odd_lines": samples.odd_lines,
        "left_out": samples.left_out,
        "problem": samples.problem,
    }


def describe_so_far(files: Mapping[str, bytes], began: float) -> dict[str, Any]:
    """Return the samples since `began` that the ends of the files hold, as `describe_run` does."""
    samples = read_samples(files)
    times = [time for track in samples.tracks.values() for time, _ in track if time >= began]
    return describe_run(samples, min(times), max(times)) if times else {}


def _rank(item: tuple[tuple[str, int | None], Any]) -> tuple[int, int]:
    (name, gpu), _ = item
    order = [*GPU_UNITS, *NODE_UNITS]
    return order.index(name), -1 if gpu is None else gpu


def _choose(
    track: Sequence[Sample], began: float, ended: float, *, is_from_before: bool = False
) -> list[Sample]:
    """Return the samples between two moments; without the first where it tells of before them."""
    chosen = [sample for sample in track if began <= sample[0] <= ended]
    return chosen[1:] if is_from_before else chosen


def _summarize(
    name: str, track: Sequence[Sample], began: float, ended: float, points: int
) -> dict[str, Any]:
    values = [value for _, value in track]
    if name == PAGED:  # a counter since the node's start: the pages of this run
        return {"count": len(track), "low": 0, "high": max(values) - min(values)}
    places: list[list[float]] = [[] for _ in range(points)]
    for time, value in track:
        place = int(points * (time - began) / (ended - began))
        places[min(place, points - 1)].append(value)
    return {
        "count": len(track),
        "low": _round(min(values)),
        "mean": _round(math.fsum(values) / len(values)),
        "high": _round(max(values)),
        "points": [_thin(values_there) for values_there in places],
    }


def _thin(values: Sequence[float]) -> float | list[float] | None:
    if len(values) <= 1:
        return _round(values[0]) if values else None
    mean = math.fsum(values) / len(values)
    return [_round(min(values)), _round(mean), _round(max(values))]


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _count_reasons(track: Sequence[Sample]) -> dict[str, int]:
    """Return in how many samples clocks were held back, by reason; of idle GPUs none."""
    return {
        name: count
        for bit, name in REASONS.items()
        if bit != IDLE and (count := sum(bool(int(bits) & bit) for _, bits in track))
    }
