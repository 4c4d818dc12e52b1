"""Runs that a person has excluded, and what the verdicts were before that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.db.models import Q

from experiments.models import Event, Experiment, Run
from experiments.statistics import Pair, Stamp, numbers
from experiments.statistics.values import Before, Verdict

EXCLUDED_AFTER = "excluded after a verdict"
"""The event of a run that is excluded although a verdict on it could be read."""
ByAndAt = tuple[str, datetime | None]
UNKNOWN: ByAndAt = ("", None)
"""For a run that was excluded without a page, such as in a shell."""
NAMED = 5
"""More runs than this are counted, not named, in the reason of a stamp."""


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
    after_verdict: bool = False
    """Whether a verdict that rested on the run could be read at that time."""

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


def filter_counted(also: Collection[int] = (), prefix: str = "run__") -> Q:
    """Return the filter for runs that count: those that succeeded, and `also` (primary keys)."""
    succeeded = Q(**{f"{prefix}state": Run.State.SUCCEEDED})
    return succeeded | Q(**{f"{prefix}pk__in": also}) if also else succeeded


def list_exclusions(experiment: Experiment) -> list[Exclusion]:
    """Return the runs that persons have excluded, in the order of the plan; one query, or two."""
    rows = list(
        experiment.runs.filter(state=Run.State.EXCLUDED)
        .order_by("job__block", "position")
        .values_list(
            "pk",
            "uid",
            "workload",
            "scale",
            "environment__name",
            "job__block",
            "repeat",
            "message",
        )
    )
    if not rows:
        return []
    excluded_by_and_at: dict[int | None, ByAndAt] = {}
    late = set()
    events = Event.objects.filter(
        experiment=experiment,
        run__state=Run.State.EXCLUDED,
        what__in=(f"{Run.State.SUCCEEDED} → {Run.State.EXCLUDED}", EXCLUDED_AFTER),
    ).values_list("run", "what", "actor__username", "at")
    for run, what, actor, time in events:
        if what == EXCLUDED_AFTER:
            late.add(run)
        else:
            excluded_by_and_at[run] = (actor or "", time)
    exclusions_in_order = []
    for pk, uid, workload, scale, environment, block, repeat, why in rows:
        by, at = excluded_by_and_at.get(pk, UNKNOWN)
        exclusions_in_order.append(
            Exclusion(
                pk=pk,
                run=uid,
                place=(workload, scale),
                environment=environment,
                block=block + 1,
                repeat=repeat,
                why=why,
                by=by,
                at=at,
                after_verdict=pk in late,
            )
        )
    return exclusions_in_order


def stamp_excluded(
    pair: Pair, before: Pair | None, late: Sequence[Exclusion], *, problem: str = ""
) -> Pair:
    """Return the pair, stamped if exclusions after a verdict took part in it.

    `late` are those of its own runs, and `before` is the pair as it is with all late exclusions
    undone, or None where nothing could be compared then, because of `problem`. Without exclusions
    of its own a pair is stamped where those of other configurations change the result of Holm's
    correction for it.
    """
    holm_changed = before is not None and _after_holm(pair) != _after_holm(before)
    if not late and not holm_changed:
        return pair
    then = _before(before or replace(pair, verdict=Verdict.NO_INFERENCE, ratio=None), len(late))
    known = ", ".join(filter(None, (then.description, problem)))
    whose = _describe_runs(late) if late else "They are runs of other configurations."
    runs = numbers.count(len(late), "run") if late else "Runs"
    was = "was" if len(late) == 1 else "were"
    reason = (
        f"{runs} {was} excluded when a verdict could be read. Before: {known}. "
        f"Now: {_before(pair).description}. {whose}"
    )
    return replace(
        pair,
        before=then,
        stamps=(*pair.stamps, Stamp.EXCLUDED_AFTER),
        reasons=(*pair.reasons, reason),
    )


def _before(pair: Pair, runs: int = 0) -> Before:
    return Before(
        runs=runs,
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
    )


def _after_holm(pair: Pair) -> bool:
    return Stamp.NOT_AFTER_HOLM not in pair.stamps


def _describe_runs(late: Sequence[Exclusion]) -> str:
    more = f"; and {len(late) - NAMED} more" if len(late) > NAMED else ""
    names = "; ".join(exclusion.description for exclusion in late[:NAMED])
    return f"{names[0].upper()}{names[1:]}{more}."
