"""What the node did while a run ran, drawn as small charts, with the figures in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.design import Scale
from experiments.models import LiveReading, NodeSamples, Run
from experiments.statistics import numbers
from runners.node_samples import (
    CPU,
    GPU_UNITS,
    IDLE,
    MEMORY,
    PAGED,
    REASONS,
    SLOWDOWNS,
    SWAP,
    UNITS,
)

DRAWN = ("GPU use", "GPU memory", "GPU power", "GPU clock", CPU, MEMORY)
WIDTH, HEIGHT = 500, 100
"""Of the box of a chart."""
FULL = 100.0
"""Per cent: the top of the box of a use."""
ROOM = 1.08
"""The box of another quantity ends above its largest value."""


@dataclass(frozen=True)
class NodeChart:
    """One quantity during a run, as paths in a box of WIDTH times HEIGHT: one for each GPU."""

    name: str
    lines: Sequence[str]
    spread: str
    """From the lowest to the highest sample of each point, where these differ."""
    top: str
    sentence: str


@dataclass(frozen=True)
class NodeRow:
    """The samples of one quantity of one GPU, or of the node, in words."""

    name: str
    low: str
    mean: str
    high: str
    count: int


@dataclass(frozen=True)
class NodeUse:
    """What the page of a run shows of its node."""

    charts: Sequence[NodeChart]
    rows: Sequence[NodeRow]
    samples: int
    seconds: float
    slower: Sequence[str]
    """Sentences on GPUs whose clocks were held back."""
    is_first_of: int
    """The nodes of the run, of which the first alone is sampled."""
    divided: str
    """The numbers of GPUs of which the run had a part (MIG); "" without any."""
    problem: str
    odd_lines: int
    left_out: Sequence[str]
    is_live: bool
    """Whether the run goes on: then these are the last minutes."""


def describe_live_use(run: Run, reading: LiveReading) -> NodeUse | None:
    """Return what was last read of the node of a running run; None before there is a sample."""
    if not reading.samples:
        return None
    nodes = Scale.parse(run.scale).nodes
    return describe_node_use(reading.samples, nodes=nodes, is_live=True)


def find_node_use(run: Run) -> NodeUse | None:
    """Return the samples of a run that has ended; None if there are none."""
    row: NodeSamples | None = getattr(run, "node_samples", None) if run.is_final else None
    if row is None:
        return None
    return describe_node_use(row.content, nodes=Scale.parse(run.scale).nodes)


def describe_node_use(
    content: Mapping[str, Any], *, nodes: int = 1, is_live: bool = False
) -> NodeUse:
    """Return a document of `runners.node_samples.describe_run`, drawn and in words."""
    tracks: Sequence[Mapping[str, Any]] = content["tracks"]
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for track in tracks:
        by_name.setdefault(track["name"], []).append(track)
    return NodeUse(
        charts=[_draw(name, by_name[name]) for name in DRAWN if name in by_name],
        rows=[_describe_row(track) for track in tracks],
        samples=content["samples"],
        seconds=content["seconds"],
        slower=_describe_slowdowns(content["reasons"], content["samples"]),
        is_first_of=nodes,
        divided=", ".join(map(str, content.get("divided", []))),  # not in older documents
        problem=content["problem"],
        odd_lines=content["odd_lines"],
        left_out=content.get("left_out", []),  # older rows have none
        is_live=is_live,
    )


def _describe_slowdowns(reasons: Mapping[str, Mapping[str, int]], samples: int) -> list[str]:
    """Return a sentence for each reason for which clocks were held back; a power cap is the last.

    It is usual on many nodes, and what is not usual shall be seen first.
    """
    sentences = []
    for bit, reason in sorted(REASONS.items(), key=lambda item: not item[0] & SLOWDOWNS):
        counts = {gpu: of_gpu[reason] for gpu, of_gpu in reasons.items() if reason in of_gpu}
        if not counts or bit == IDLE:
            continue
        gpus = f"GPU{'s' * (len(counts) > 1)} {', '.join(counts)}"
        least, most = min(counts.values()), max(counts.values())
        times = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        sentences.append(f"{gpus}: {reason} in {times} of {samples:,} samples.")
    return sentences


def _draw(name: str, tracks: Sequence[Mapping[str, Any]]) -> NodeChart:
    """Return one quantity, from zero to its largest value or to all of it."""
    unit = UNITS[name]
    highest = max(track["high"] for track in tracks)
    top = FULL if unit == "%" else ROOM * highest or 1.0

    def place(value: float) -> int:
        return round(HEIGHT * (1 - min(max(value / top, 0.0), 1.0)))

    lines, spread = [], []
    for track in tracks:
        points = track["points"]
        line, goes_on = "", False
        for number, point in enumerate(points):
            if point is None:
                continue
            low, mean, high = point if isinstance(point, list) else (point, point, point)
            x = round(WIDTH * (number + 0.5) / len(points))
            line += f"{'L' if goes_on else 'M'}{x} {place(mean)}"
            goes_on = True
            if place(low) != place(high):
                spread.append(f"M{x} {place(low)}V{place(high)}")
        lines.append(line if "L" in line else f"{line}h2")
    lowest = min(track["low"] for track in tracks)
    mean = sum(track["mean"] for track in tracks) / len(tracks)
    texts = [_write(value, highest, unit) for value in (mean, lowest, highest)]
    gpus = f"{len(tracks)} GPUs; " if len(tracks) > 1 else ""
    return NodeChart(
        name=name,
        lines=lines,
        spread="".join(spread),
        top=_write(top, top, unit),
        sentence=f"{gpus}mean {texts[0]}, {texts[1]} to {texts[2]}.",
    )


def _describe_row(track: Mapping[str, Any]) -> NodeRow:
    name, unit, high = track["name"], UNITS[track["name"]], track["high"]
    label = name if track["gpu"] is None else f"{name}, GPU {track['gpu']}"
    if name == PAGED:
        return NodeRow("pages from and to swap", "", "", f"{high:,.0f}", track["count"])
    if name not in GPU_UNITS:
        label = f"{name} of the node" if name != SWAP else "swap in use"
    low, mean, highest = (_write(track[key], high, unit) for key in ("low", "mean", "high"))
    return NodeRow(label, low, mean, highest, track["count"])


def _write(value: float, largest: float, unit: str) -> str:
    """Return a value with three digits, in the SI prefix of the largest one beside it."""
    factor, text = numbers.si([largest], unit)
    shown = value * factor
    if shown == 0:
        return f"0 {text}".strip()
    decimals = 0 if abs(shown) >= 100 or unit in ("%", "°C") else 1 if abs(shown) >= 10 else 2
    return f"{numbers.fixed(shown, decimals)} {text}".strip()
