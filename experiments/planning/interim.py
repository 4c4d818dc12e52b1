"""How far an experiment is, and what may be judged of it: nothing outside the planned looks.

Which runs a look takes is decided by the plan: the first repeats of every cell, whatever ends
first. A look waits until all of those have ended, well or not; blocks that failed are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from experiments.models import Experiment, Run
from experiments.statistics import numbers
from experiments.statistics.interim_analyses import level, schedule

WHY = (
    "Whoever looks along the way and stops when the verdict pleases is wrong far more often than "
    "5 times in 100."
)


@dataclass(frozen=True)
class Judgement:
    """The runs that are judged together: those of the first `repeats`, or all (None).

    `number` counts the planned looks from 1; 0 is a judgement that was not planned.
    """

    number: int
    repeats: int | None
    decides: bool = True
    """Whether it may give a verdict; else it is an estimate beside the verdicts that there are."""


@dataclass(frozen=True)
class Stage:
    """An experiment's plan of looks, and how much of it has come about."""

    looks: tuple[int, ...]
    """After how many repeats each look was planned."""
    taken: int
    """How many looks have all their runs, and none of them cancelled."""
    planned: int
    ended: int
    """Blocks (paired) or runs, and how many of them have ended."""
    unit: str
    """What those are: "block" or "run"."""
    ended_for_next: int
    planned_for_next: int
    """The same for the next look alone."""
    alive: bool
    cancelled: bool
    stopped_at: int | None
    """The look whose verdict a person kept."""
    states: Counter[str]
    """How many runs are in which state."""

    @property
    def level(self) -> float:
        """The two-sided level of each look."""
        return level(len(self.looks))

    @property
    def stopped_early(self) -> bool:
        """Whether planned runs did not take place, and no look was what ended it."""
        return self.cancelled and self.stopped_at is None and self.taken < len(self.looks)

    @property
    def settled(self) -> int:
        """The repeats that a look has judged while others are still to come."""
        taken = self.taken if self.taken < len(self.looks) else self.taken - 1
        return self.looks[taken - 1] if taken else 0

    @property
    def judgements(self) -> Iterator[Judgement]:
        """What may be judged, in the order in which it could be."""
        last = self.taken if self.stopped_at is None else self.stopped_at
        for number, repeats in enumerate(self.looks[:last], start=1):
            yield Judgement(number, repeats if number < len(self.looks) else None)
        if self.cancelled and not self.alive and self.taken < len(self.looks):
            yield Judgement(0, None, decides=self.stopped_at is None)

    @property
    def waits(self) -> bool:
        """Whether another judgement is to come."""
        return self.alive and self.stopped_at is None

    @property
    def plan(self) -> str:
        """When the data are judged, in words."""
        if len(self.looks) == 1:
            return "one, after all repeats"
        *first, last = map(str, self.looks)
        return (
            f"{len(self.looks)}: after {', '.join(first)} and {last} repeats, each at the level "
            f"{self.level:g}"
        )

    @property
    def waiting(self) -> str:
        """When the next verdict comes, in a sentence or two; "" when none is to come."""
        if not self.waits:
            return ""
        if self.cancelled:
            return "It is being cancelled: the verdict comes when the runs under way have ended."
        if len(self.looks) == 1:
            return f"The verdict comes when {self._all_have} ended; {self.ended} have. {WHY}"
        number = self.taken + 1
        of_cells = f"the first {self.looks[self.taken]} repeats of every cell have"
        return (
            f"Look {number} of {len(self.looks)} comes when "
            f"{of_cells if number < len(self.looks) else self._all_have} ended; "
            f"{self.ended_for_next} of their {self.planned_for_next} {self.unit}s have."
            + ("" if self.taken else f" {WHY}")
        )

    @property
    def brief(self) -> str:
        """The same in a few words, for lists."""
        if not self.waits:
            return ""
        if self.cancelled:
            return "being cancelled"
        if len(self.looks) == 1:
            return f"verdict after {self._count}; {self.ended} so far"
        return (
            f"look {self.taken + 1} of {len(self.looks)} after {self.planned_for_next} "
            f"{self.unit}s; {self.ended_for_next} so far"
        )

    @property
    def why_early(self) -> str:
        """The reason of the stamp."""
        return f"Stopped after {self.ended} of {self._count}, outside the planned looks. {WHY}"

    @property
    def _all_have(self) -> str:
        if self.planned == 1:
            return f"its one {self.unit} has"
        return f"{numbers.all_of(self.planned, self.unit)} have"

    @property
    def _count(self) -> str:
        return numbers.count(self.planned, self.unit)


def stage_of(experiment: Experiment) -> Stage:
    """Return how far the experiment is; one query."""
    blocks: dict[tuple[object, ...], Block] = {}
    states: Counter[str] = Counter()
    rows = experiment.runs.order_by().values_list(
        "pk", "workload_id", "scale", "repeat", "state", "job__ended_at"
    )
    for pk, workload, scale, repeat, state, ended_at in rows:
        key = (workload, scale, repeat) if experiment.is_paired else (pk,)
        block = blocks.setdefault(key, Block(repeat))
        block.ended &= state in Run.FINAL
        block.cut |= state == Run.State.CANCELLED and _after(ended_at, experiment.cancelled_at)
        states[state] += 1
    return _stage(experiment, list(blocks.values()), states)


@dataclass
class Block:
    """What is counted: a block, or a run of an independent design."""

    repeat: int
    ended: bool = True
    cut: bool = False
    """Whether it was cancelled together with the experiment."""

    @property
    def came_about(self) -> bool:
        return self.ended and not self.cut


def _after(ended_at: datetime | None, cancelled_at: datetime | None) -> bool:
    """Whether a job's end came of the experiment's cancellation; else its failure is its own."""
    return cancelled_at is not None and (ended_at is None or ended_at >= cancelled_at)


def _stage(experiment: Experiment, blocks: list[Block], states: Counter[str]) -> Stage:
    looks = schedule(experiment.repeats, experiment.looks)
    waits_for = [
        [block for block in blocks if number == len(looks) or block.repeat <= repeats]
        for number, repeats in enumerate(looks, start=1)
    ]
    taken = 0
    while taken < len(looks) and all(block.came_about for block in waits_for[taken]):
        taken += 1
    following = waits_for[min(taken, len(looks) - 1)]
    return Stage(
        looks=looks,
        taken=taken,
        planned=len(blocks),
        ended=sum(block.came_about for block in blocks),
        unit="block" if experiment.is_paired else "run",
        ended_for_next=sum(block.came_about for block in following),
        planned_for_next=len(following),
        alive=not all(block.ended for block in blocks),
        cancelled=experiment.cancelled_at is not None,
        stopped_at=experiment.stopped_at_look,
        states=states,
    )
