"""A run while it runs: how far it is, how long it will take, and its curves so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from dashboard.execution.run_facts import Phase, list_phases_of
from experiments.models import LiveReading, Run
from experiments.statistics import numbers
from runners.workloads.live_reports import LiveCurve, LiveReport, Stretch, restore_report

STEP_TIME = "step_time"
FIRST_CURVES = (STEP_TIME, "loss")
MOST_CURVES = 4
WIDTH, HEIGHT = 1000, 160
"""Of the box in which a curve is drawn."""
LATE_STEPS = 20
"""The last steps, or stretches of steps, whose mean is the present speed."""
SHOWN_OUTPUT = 3000
"""Characters of the output that are sent each time."""
ROOM, MOST_MEDIANS = 1.25, 3
"""The scale of times ends above the largest one, or above so many medians if that is less."""


@dataclass(frozen=True)
class DrawnCurve:
    """One series so far, as paths in a box of WIDTH times HEIGHT, and in words."""

    name: str
    line: str
    """The means of its stretches."""
    spread: str
    """From the smallest to the largest value of each stretch, where these differ."""
    warm_up: float
    """Where the warm-up ends in the box."""
    top: str
    bottom: str
    last_step: str
    sentence: str


@dataclass(frozen=True)
class LiveRun:
    """What the page of a running run shows of it."""

    phase: str
    steps: int
    planned_steps: int | None
    step_seconds: float | None
    """The mean of its last steps."""
    seconds_left: float | None
    """Until its last step, if the rest goes on like the last ones."""
    curves: Sequence[DrawnCurve]
    phases: Sequence[Phase]
    output: str
    read_at: datetime | None
    problem: str
    odd_lines: int

    @property
    def steps_text(self) -> str:
        """Return how many steps are done, of how many if that is known: "340 of 1,000"."""
        if not self.planned_steps:
            return f"{self.steps:,}" if self.steps else numbers.MISSING
        return f"{self.steps:,} of {self.planned_steps:,}"

    @property
    def share(self) -> float | None:
        """Return how many per cent of the planned steps are done."""
        if not self.planned_steps:
            return None
        return min(100 * self.steps / self.planned_steps, 100.0)


def describe_live_run(run: Run, reading: LiveReading) -> LiveRun:
    """Return what was last read of a running run, drawn and in words."""
    report = restore_report(reading.report)
    times = report.curves.get(STEP_TIME)
    # Programs may report several values of another series in one step.
    counts = [times.count] if times else [curve.count for curve in report.curves.values()]
    steps = max(counts, default=0)
    planned = _find_planned_steps(run, steps)
    step_seconds = _measure_speed(times) if times and times.unit == "s" else None
    names = sorted(report.curves, key=lambda name: (name not in FIRST_CURVES, name != STEP_TIME))
    return LiveRun(
        phase=_name_phase(run, report, steps, planned),
        steps=steps,
        planned_steps=planned,
        step_seconds=step_seconds,
        seconds_left=step_seconds * (planned - steps) if step_seconds and planned else None,
        curves=[
            draw_curve(name, report.curves[name], planned=planned, warm_up=report.warm_up or 0)
            for name in names[:MOST_CURVES]
            if any(stretch.count for stretch in report.curves[name].stretches)
        ],
        phases=list_phases_of(report.phases),
        output=_cut_output(reading.output_tail),
        read_at=reading.read_at,
        problem=reading.problem,
        odd_lines=report.odd_lines,
    )


def _find_planned_steps(run: Run, steps: int) -> int | None:
    """Return how many steps its workload asks for; None where that is not known, or not true."""
    planned = run.spec.get("workload", {}).get("parameters", {}).get("steps")
    is_count = isinstance(planned, int) and not isinstance(planned, bool)
    return planned if is_count and planned >= max(steps, 1) else None


def _name_phase(run: Run, report: LiveReport, steps: int, planned: int | None) -> str:
    if run.ended_at is not None:
        return "finished"
    if steps == 0:
        return "before the first step"
    if steps == planned:
        return "after the last step"
    if not report.warm_up:
        return "running"
    return "warm-up" if steps < report.warm_up else "after the warm-up"


def _measure_speed(times: LiveCurve) -> float | None:
    """Return the mean of the last steps, None before the second one.

    The first step is not counted while there are others: it compiles and allocates.
    """
    late = [stretch for stretch in times.stretches[1:][-LATE_STEPS:] if stretch.count]
    count = sum(stretch.count for stretch in late)
    return sum(stretch.total for stretch in late) / count if count else None


def draw_curve(name: str, curve: LiveCurve, *, planned: int | None, warm_up: int) -> DrawnCurve:
    """Return a curve in a box whose width is all planned steps, so that nothing moves later.

    Of times the height is that after the warm-up; what lies above is counted in the sentence.
    """
    last = max(planned or 0, curve.count, 2)
    drawn = [stretch for stretch in curve.stretches if stretch.count]
    counted = [
        stretch for stretch in curve.stretches[-(-warm_up // curve.width) :] if stretch.count
    ]
    is_after_warm_up = warm_up > 0 and len(counted) > 1
    bottom, top = min(stretch.low for stretch in drawn), max(stretch.high for stretch in drawn)
    if name == STEP_TIME:
        usual = counted if is_after_warm_up else drawn
        # Most are alike, and a few may be a hundred times as long: these do not flatten the others.
        middle = median(stretch.total / stretch.count for stretch in usual)
        most = max(stretch.high for stretch in usual)
        bottom, top = 0.0, ROOM * min(most, MOST_MEDIANS * middle)
    height = top - bottom or 1.0

    def place(value: float) -> int:
        return round(HEIGHT * (1 - min(max((value - bottom) / height, 0.0), 1.0)))

    line, spread, goes_on = [], [], False
    for number, stretch in enumerate(curve.stretches):
        x = round(WIDTH * (number + 0.5) * curve.width / last)
        if not stretch.count:
            goes_on = False
            continue
        line.append(f"{'L' if goes_on else 'M'}{x} {place(stretch.total / stretch.count)}")
        goes_on = True
        if place(stretch.low) != place(stretch.high):
            spread.append(f"M{x} {place(stretch.low)}V{place(stretch.high)}")
    return DrawnCurve(
        name=name.replace("_", " "),
        line="".join(line) + ("h1" if len(line) == 1 else ""),
        spread="".join(spread),
        warm_up=round(WIDTH * min(warm_up / last, 1.0), 1),
        top=numbers.quantity(top, curve.unit, significant=3),
        bottom=numbers.quantity(bottom, curve.unit, significant=3) if bottom else "0",
        last_step=f"{last:,}",
        sentence=_describe_curve(
            curve, counted if is_after_warm_up else drawn, top, is_after_warm_up=is_after_warm_up
        ),
    )


def _describe_curve(
    curve: LiveCurve, counted: Sequence[Stretch], top: float, *, is_after_warm_up: bool
) -> str:
    """Return a curve in words: its last values, its range, and what its box does not show."""
    late = counted[-LATE_STEPS:]
    mean = sum(stretch.total for stretch in late) / sum(stretch.count for stretch in late)
    span = [min(stretch.low for stretch in counted), max(stretch.high for stretch in counted)]
    texts = [numbers.quantity(value, curve.unit) for value in (mean, *span)]
    which = "after the warm-up" if is_after_warm_up else "all"
    count = numbers.count(curve.count, "value")
    sentence = f"{count}; lately {texts[0]}, {which} {texts[1]} to {texts[2]}."
    if curve.width > 1:
        sentence += f" A point is the mean of {curve.width:,}, its bar the smallest to the largest."
    above = [stretch.high for stretch in curve.stretches if stretch.count and stretch.high > top]
    if above:
        reach = numbers.quantity(max(above), curve.unit, significant=3)
        points = numbers.count(len(above), "point") + (" reaches" if len(above) == 1 else " reach")
        sentence += f" {points} above the box, up to {reach}."
    return sentence


def _cut_output(output: str) -> str:
    """Return the last whole lines of an output, at most SHOWN_OUTPUT characters."""
    if len(output) <= SHOWN_OUTPUT:
        return output
    shown = output[-SHOWN_OUTPUT:]
    _, newline, whole = shown.partition("\n")
    return whole if newline and whole else shown
