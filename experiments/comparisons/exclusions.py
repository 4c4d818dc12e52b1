"""Runs that persons have excluded, and what the verdicts are with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from django.db.models import FilteredRelation, Q

from experiments.models import Experiment, Run
from experiments.statistics import Pair, Stamp, numbers
from experiments.statistics.values import Before, Verdict

EXCLUDED_AFTER_INTERIM = "excluded after an interim analysis"
"""The event of a run that is excluded when the verdict of an interim analysis could be read."""
EXCLUDED_AFTER = "excluded after a verdict"
"""The event of one that is excluded when the last verdict of its experiment could be read. Before
there were two events this was the one for both, which count as the worse."""
EXCLUDING = f"{Run.State.SUCCEEDED} → {Run.State.EXCLUDED}"
NAMED = 5
"""More runs than this are counted, not named, in the reason of a stamp."""
WHY_AFTER = "A person who reads a verdict and then chooses the runs can choose the verdict."


class Moment(StrEnum):
    """When a run was excluded: the later, the worse."""

    BEFORE = "before any verdict"
    INTERIM = "after an interim analysis"
    FINAL = "after the final analysis"


MOMENTS = {EXCLUDED_AFTER_INTERIM: Moment.INTERIM, EXCLUDED_AFTER: Moment.FINAL}


@dataclass(frozen=True)
class Exclusion:
    """A run that a person has excluded from every comparison."""

    pk: int
    run: str
    place: tuple[int, str]
    """Its configuration: the workload's primary key and the scale."""
    environment: str
    block: int
    repeat: int
    why: str
    by: str = ""
    at: datetime | None = None
    moment: Moment = Moment.BEFORE
    """Which verdict of the experiment could be read at that time."""

    @property
    def after_verdict(self) -> bool:
        return self.moment is not Moment.BEFORE

    @property
    def columns(self) -> dict[str, object]:
        """Return the columns that the exported file of runs has about the exclusion."""
        return {
            "excluded_by": self.by,
            "excluded_at": self.at.isoformat() if self.at else None,
            "excluded_because": self.why,
            "excluded_after_a_verdict": self.after_verdict,
        }

    @property
    def description(self) -> str:
        """Return who excluded the run, when and why, as a part of a sentence."""
        when = f" on {self.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if self.at else ""
        by = f" by {self.by}" if self.by else ""
        where = f"{self.environment}, block {self.block}"
        return f"run {self.run[:8]} ({where}){by}{when}: “{self.why}”"


def filter_counted(*, with_excluded: bool = False, prefix: str = "run__") -> Q:
    """Return the filter for runs that count: those that succeeded, and those excluded if asked."""
    states = [Run.State.SUCCEEDED, *([Run.State.EXCLUDED] if with_excluded else [])]
    return Q(**{f"{prefix}state__in": states})


def list_exclusions(experiment: Experiment) -> list[Exclusion]:
    """Return the runs that persons have excluded, in the order of the plan; one query."""
    exclusion_events = FilteredRelation(
        "events", condition=Q(events__what__in=(EXCLUDING, *MOMENTS))
    )
    rows = (
        experiment.runs.filter(state=Run.State.EXCLUDED)
        .annotate(exclusion_event=exclusion_events)
        .order_by("job__block", "position", "pk", "exclusion_event__pk")
        .values_list(
            *("pk", "uid", "workload", "scale", "environment__name", "job__block", "repeat"),
            *(
                "message",
                "exclusion_event__what",
                "exclusion_event__actor__username",
                "exclusion_event__stated_by",
                "exclusion_event__at",
            ),
        )
    )
    exclusions: dict[int, Exclusion] = {}
    for pk, uid, workload, scale, environment, block, repeat, why, what, actor, stated, at in rows:
        known = exclusions.get(pk) or Exclusion(
            pk=pk,
            run=uid,
            place=(workload, scale),
            environment=environment,
            block=block + 1,
            repeat=repeat,
            why=why,
        )
        # A run may have been excluded, included again and excluded again: the last time counts,
        # and a verdict that could be read at the first one could be at the last.
        if what == EXCLUDING:
            known = replace(known, by=actor or stated or "", at=at)
        elif what:
            known = replace(known, moment=MOMENTS[what])
        exclusions[pk] = known
    return list(exclusions.values())


def stamp_excluded(
    pair: Pair,
    before: Pair | None,
    own: Sequence[Exclusion],
    others: Sequence[Exclusion],
    *,
    problem: str = "",
) -> Pair:
    """Return the pair, stamped with its other verdict if exclusions took part in it.

    `own` are the exclusions of its own runs, `others` those of the experiment's other runs, and
    `before` is the pair with all of them undone, or None where nothing could be compared then,
    because of `problem`. Without exclusions of its own a pair is stamped where those of other
    pairs change its result: by Holm's correction, or by the warm-up that all environments share.
    """
    if not own and not (before and _differs(pair, before)):
        return pair
    then = _describe_with_excluded(pair, before, own, others, problem)
    blocks = ""
    if then.blocks:
        count = numbers.count(then.blocks, "block")
        blocks = f"A block that lacks a run of either side is left out: {count} fewer. "
    runs = numbers.count(len(own), "run") if own else "Runs"
    was = "was" if len(own) == 1 else "were"
    reason = (
        f"{runs} {was} excluded by hand, {then.moments}. With them: {then.description}. "
        f"Without them: {_take_verdict(pair).description}. {blocks}"
        f"{_describe_runs(own) if own else 'They are runs of other comparisons.'}"
    )
    if then.is_late:
        reason = f"{reason} {WHY_AFTER}"
    return replace(
        pair,
        before=then,
        stamps=(*pair.stamps, Stamp.EXCLUDED_AFTER if then.is_late else Stamp.EXCLUDED),
        reasons=(*pair.reasons, reason),
    )


def _describe_with_excluded(
    pair: Pair,
    before: Pair | None,
    own: Sequence[Exclusion],
    others: Sequence[Exclusion],
    problem: str,
) -> Before:
    """Return the verdict with the excluded runs, and when they were excluded."""
    moments = Counter(exclusion.moment for exclusion in own or others)
    then = before or replace(
        pair, verdict=Verdict.NO_INFERENCE, ratio=None, ci95=None, stamps=(), interim_analysis=None
    )
    known = _take_verdict(then)
    if before is None:  # what else is known of the pair is of the runs without them
        known = replace(
            known,
            size="",
            p_difference=None,
            p_difference_holm=None,
            p_equivalence=None,
            p_equivalence_holm=None,
            p_not_slower=None,
            p_not_slower_holm=None,
        )
    return replace(
        known,
        runs=len(own),
        before_verdict=moments[Moment.BEFORE],
        after_interim=moments[Moment.INTERIM],
        after_final=moments[Moment.FINAL],
        blocks=max(then.n_blocks - pair.n_blocks, 0) if pair.paired else 0,
        problem="" if before else problem.rstrip("."),
    )


def _take_verdict(pair: Pair) -> Before:
    return Before(
        runs=0,
        verdict=pair.verdict,
        stamps=pair.stamps,
        size=pair.size,
        ratio=pair.ratio,
        ci_difference=pair.ci_difference,
        level=numbers.level(1 - pair.alpha),
        p_difference=pair.p_difference,
        p_equivalence=pair.p_equivalence,
        p_difference_holm=pair.p_difference_holm,
        p_equivalence_holm=pair.p_equivalence_holm,
        p_not_slower=pair.p_not_slower,
        p_not_slower_holm=pair.p_not_slower_holm,
    )


def _differs(pair: Pair, before: Pair) -> bool:
    """Return whether exclusions elsewhere changed a pair: by Holm, or by the common warm-up cut."""
    return _take_result(pair) != _take_result(before)


def _take_result(pair: Pair) -> tuple[object, ...]:
    return pair.verdict, pair.ratio, Stamp.NOT_AFTER_HOLM in pair.stamps


def _describe_runs(exclusions: Sequence[Exclusion]) -> str:
    more = f"; and {len(exclusions) - NAMED:,} more" if len(exclusions) > NAMED else ""
    names = "; ".join(exclusion.description for exclusion in exclusions[:NAMED])
    return f"{names[0].upper()}{names[1:]}{more}."
