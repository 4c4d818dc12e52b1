"""Interim analyses of an experiment: how far it is, and which runs may be judged.

The plan decides which runs an analysis takes: the first repeats of every configuration, whichever
end first. It waits until all of those have ended, well or not; blocks that failed are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from experiments.models import Experiment, Run
from experiments.models.compiled_rows import KEY, TEXT
from experiments.models.prepared_statements import PreparedStatement
from experiments.statistics import numbers
from experiments.statistics.interim_analyses import get_level, schedule
from experiments.statistics.values import ALPHA

WHY = "Deciding earlier inflates the error rate."

# The blocks of an experiment, counted by PostgreSQL: one row for those of a repeat that are alike.
# A job that had ended before the experiment was cancelled has failed by itself.
ALIKE = """
SELECT repeat, ended, cut, count(*), {sums}
FROM (
    SELECT
        min(run.repeat) AS repeat,
        bool_and(run.state = ANY(%s)) AS ended,
        coalesce(
            bool_or(
                run.state = %s AND %s::timestamptz IS NOT NULL
                AND (job.ended_at IS NULL OR job.ended_at >= %s::timestamptz)
            ),
            false
        ) AS cut,
        {counts}
    FROM experiments_run AS run LEFT JOIN experiments_job AS job ON job.id = run.job_id
    WHERE run.experiment_id = %s
    GROUP BY {block}
) AS block (repeat, ended, cut, {names})
GROUP BY repeat, ended, cut
"""


def _prepare_count(block: str) -> PreparedStatement:
    """Return the statement for an experiment's key and the time at which it was cancelled."""
    statement = ALIKE.format(
        block=block,
        counts=", ".join(f"count(*) FILTER (WHERE run.state = '{state}')" for state in Run.State),
        sums=", ".join(f"sum(in_state_{number})" for number, _ in enumerate(Run.State)),
        names=", ".join(f"in_state_{number}" for number, _ in enumerate(Run.State)),
    )
    parameters = [list(Run.FINAL), Run.State.CANCELLED, TEXT, TEXT, KEY]
    return PreparedStatement(statement, parameters, (KEY, TEXT))


COUNT_PAIRED_BLOCKS = _prepare_count("run.workload_id, run.scale, run.repeat")
COUNT_RUNS = _prepare_count("run.id")


@dataclass(frozen=True)
class Judgement:
    """The runs that are judged together: those of the first `repeats`, or all (None).

    `number` counts the planned analyses from 1; 0 is a judgement that was not planned.
    """

    number: int
    repeats: int | None
    decides: bool = True
    """True if it may give a verdict; else it is an estimate beside the existing verdicts."""


@dataclass(frozen=True)
class Stage:
    """An experiment's plan of interim analyses, and how much of it has been done."""

    after_repeats: tuple[int, ...]
    """The number of repeats after which each analysis was planned."""
    taken: int
    """The number of analyses that have all their runs, none of them cancelled."""
    planned: int
    ended: int
    """The number of blocks (paired) or runs, and how many of them have ended."""
    unit: str
    """The unit of those two numbers: "block" or "run"."""
    ended_for_next: int
    planned_for_next: int
    """`ended` and `planned` of the next analysis alone."""
    alive: bool
    cancelled: bool
    stopped_at: int | None
    """The analysis at which a person ended the experiment and kept the verdict."""
    states: Counter[str]
    """The number of runs in each state."""
    extended_by: int = 0
    """How many repeats were added after the verdict; the last of `after_repeats` counts them."""
    extension_level: float = ALPHA
    """The two-sided level of the verdict after the extension."""

    @property
    def level(self) -> float:
        """Return the two-sided level of each analysis that was planned."""
        return get_level(len(self.after_repeats) - bool(self.extended_by))

    def get_level_of(self, judgement: Judgement) -> float:
        """Return the two-sided level at which a judgement decides."""
        if self.extended_by and judgement.number != 1:
            return self.extension_level
        return self.level

    def leave_out_extension(self) -> Stage:
        """Return the stage of a configuration that was not extended, of an experiment that was."""
        if not self.extended_by:
            return self
        planned = self.after_repeats[:-1]
        taken = min(self.taken, len(planned))
        return replace(self, after_repeats=planned, taken=taken, extended_by=0)

    @property
    def stopped_early(self) -> bool:
        """Return whether planned runs were cancelled before the last analysis, and not by one."""
        return self.cancelled and self.stopped_at is None and self.taken < len(self.after_repeats)

    @property
    def settled(self) -> int:
        """Return the number of repeats judged by an analysis while others are still to come."""
        taken = self.taken if self.taken < len(self.after_repeats) else self.taken - 1
        return self.after_repeats[taken - 1] if taken else 0

    @property
    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements that may be made, in the order in which they could be."""
        last = self.taken if self.stopped_at is None else self.stopped_at
        for number, repeats in enumerate(self.after_repeats[:last], start=1):
            yield Judgement(number, repeats if number < len(self.after_repeats) else None)
        if self.cancelled and not self.alive and self.taken < len(self.after_repeats):
            yield Judgement(0, None, decides=self.stopped_at is None)

    @property
    def waits(self) -> bool:
        """Return whether another judgement is to come."""
        return self.alive and self.stopped_at is None

    @property
    def plan(self) -> str:
        """Return when the data are judged, as text."""
        if self.extended_by:
            return (
                f"one, after all {self.after_repeats[0]} planned repeats; extended by "
                f"{self.extended_by}, after which a second one is at the level "
                f"{self.extension_level:g}"
            )
        if len(self.after_repeats) == 1:
            return "one, after all repeats"
        *first, last = map(str, self.after_repeats)
        return (
            f"{len(self.after_repeats)}: after {', '.join(first)} and {last} repeats, each at the "
            f"level {self.level:g}"
        )

    @property
    def waiting(self) -> str:
        """Return when the next verdict comes, in a sentence or two; "" when none is to come."""
        if not self.waits:
            return ""
        if self.cancelled:
            return "It is being cancelled: the verdict comes when the runs under way have ended."
        ended = f"{self.ended} {_have(self.ended)}"
        if self.extended_by and self.taken:
            return (
                f"It was extended by {numbers.count(self.extended_by, 'repeat')}: the verdict at "
                f"the level {self.extension_level:g} appears when {self._all_have} ended; {ended}. "
                f"Until then the one after {self.after_repeats[0]} repeats stands."
            )
        if len(self.after_repeats) == 1:
            return f"The verdict appears when {self._all_have} ended; {ended}. {WHY}"
        number = self.taken + 1
        first_repeats = (
            f"the first {self.after_repeats[self.taken]} repeats of every configuration have"
        )
        return (
            f"Interim analysis {number} of {len(self.after_repeats)} comes when "
            f"{first_repeats if number < len(self.after_repeats) else self._all_have} ended; "
            f"{self.ended_for_next} of their {self.planned_for_next} {self.unit}s "
            f"{_have(self.ended_for_next)}." + ("" if self.taken else f" {WHY}")
        )

    @property
    def brief(self) -> str:
        """Return when the next verdict comes in a few words, for lists."""
        if not self.waits:
            return ""
        if self.cancelled:
            return "being cancelled"
        if self.extended_by:
            return f"extended: verdict after {self._count}; {self.ended} so far"
        if len(self.after_repeats) == 1:
            return f"verdict after {self._count}; {self.ended} so far"
        return (
            f"interim analysis {self.taken + 1} of {len(self.after_repeats)} after "
            f"{self.planned_for_next} {self.unit}s; {self.ended_for_next} so far"
        )

    @property
    def why_early(self) -> str:
        """Return the reason for the stamp STOPPED EARLY."""
        ended = f"{self.ended} of {self._count}"
        return f"Stopped after {ended}, outside the planned interim analyses. {WHY}"

    @property
    def _all_have(self) -> str:
        if self.planned == 1:
            return f"its one {self.unit} has"
        return f"{numbers.all_of(self.planned, self.unit)} have"

    @property
    def _count(self) -> str:
        return numbers.count(self.planned, self.unit)


def read_stage(experiment: Experiment) -> Stage:
    """Return how far the experiment is; one query."""
    count_blocks = COUNT_PAIRED_BLOCKS if experiment.is_paired else COUNT_RUNS
    blocks = []
    states: Counter[str] = Counter()
    rows = count_blocks.fetch(experiment.pk, experiment.cancelled_at)
    for repeat, ended, cut, number, *counts in rows:
        blocks.append(Blocks(repeat, ended, cut, number))
        states.update(dict(zip(Run.State.values, map(int, counts), strict=True)))
    return _stage(experiment, blocks, +states)


@dataclass(frozen=True)
class Blocks:
    """Blocks of a paired design, or runs of an independent one, that count alike."""

    repeat: int
    ended: bool
    cut: bool
    """True if they were cancelled together with the experiment."""
    number: int

    @property
    def came_about(self) -> bool:
        return self.ended and not self.cut


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _stage(experiment: Experiment, blocks: list[Blocks], states: Counter[str]) -> Stage:
    after_repeats = list_judged_repeats(experiment)
    waits_for = [
        [block for block in blocks if number == len(after_repeats) or block.repeat <= repeats]
        for number, repeats in enumerate(after_repeats, start=1)
    ]
    taken = 0
    while taken < len(after_repeats) and all(block.came_about for block in waits_for[taken]):
        taken += 1
    following = waits_for[min(taken, len(after_repeats) - 1)]
    return Stage(
        after_repeats=after_repeats,
        taken=taken,
        planned=_count(blocks),
        ended=_count(block for block in blocks if block.came_about),
        unit="block" if experiment.is_paired else "run",
        ended_for_next=_count(block for block in following if block.came_about),
        planned_for_next=_count(following),
        alive=not all(block.ended for block in blocks),
        cancelled=experiment.cancelled_at is not None,
        stopped_at=experiment.stopped_at_look,
        states=states,
        extended_by=experiment.extended_repeats or 0,
        extension_level=experiment.extension_level or ALPHA,
    )


def _count(blocks: Iterable[Blocks]) -> int:
    return sum(alike.number for alike in blocks)


def list_judged_repeats(experiment: Experiment) -> tuple[int, ...]:
    """Return the repeats after which the data are judged: by the plan, and after an extension."""
    planned = schedule(experiment.repeats, experiment.looks)
    return (*planned, experiment.all_repeats) if experiment.extended_repeats else planned
