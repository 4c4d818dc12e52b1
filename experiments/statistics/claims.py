"""The words of claims: what was shown, or was not, of one environment against another.

Of times and rates one says slower and faster, of memory and energy more and less, and of both
together worse and better. Sentences, figures and files take these words from here, whether they
speak of one pair, of all configurations or of all decisive metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from experiments.statistics.margins import Goal, Margin
from experiments.statistics.values import Verdict
from experiments.statistics.verdicts import PROVED


@dataclass(frozen=True)
class Wording:
    """How metrics of one kind are compared."""

    more: str
    """What costs more: "slower"."""
    less: str
    cost: str
    """What a cost of +4 % says, as part of a sentence."""
    is_need: bool = False
    """Whether an environment needs more of it, and is not itself more."""

    @property
    def verb(self) -> str:
        return "needs" if self.is_need else "is"

    @property
    def sides(self) -> tuple[str, str]:
        """Return what is less and what is more."""
        return self.less, self.more


SPEED = Wording("slower", "faster", "how much longer the job takes")
AMOUNTS = Wording("more", "less", "how much more a run needs", is_need=True)
"""Of memory and energy."""
MIXED = Wording("worse", "better", f"{SPEED.cost}, or {AMOUNTS.cost}")
"""Of metrics of both kinds together."""


class Compared(Protocol):
    """A metric, or a pair of one."""

    @property
    def is_of_amounts(self) -> bool: ...


def choose_wording(compared: Iterable[Compared]) -> Wording:
    """Return the words for all of these together."""
    kinds = {each.is_of_amounts for each in compared}
    if len(kinds) > 1:
        return MIXED
    return AMOUNTS if kinds == {True} else SPEED


def describe_margin(margin: Margin, wording: Wording) -> str:
    """Return the margin as part of a sentence: "2 %", "2 % less to 5 % more"."""
    return margin.describe(less=wording.less, more=wording.more)


def claim_shown(
    who: str,
    baseline: str,
    goal: Goal,
    wording: Wording,
    *,
    margin: Margin | None = None,
    is_shown: bool = True,
    are_many: bool = False,
) -> str:
    """Return the claim of what was to be shown: "podman is not slower than ... by more than 2 %".

    Without a margin it is left out, as where metrics have one each. `is_shown` False says that it
    is not shown. `are_many`: `who` are several environments.
    """
    text = f"{who} {_say_goal(goal, wording, is_shown=is_shown, are_many=are_many)} {baseline}"
    if margin is None:
        return text
    bound = "by more than" if goal is Goal.NOT_SLOWER else "within"
    return f"{text} {bound} {describe_margin(margin, wording)}"


def _say_goal(goal: Goal, wording: Wording, *, is_shown: bool, are_many: bool) -> str:
    be = "are" if are_many else "is"
    shown = be if is_shown else f"{be} not shown to be"
    if goal is Goal.EQUIVALENCE:
        return f"{shown} equivalent to"
    if not wording.is_need:
        return f"{shown} not {wording.more} than"
    do = "do" if are_many else "does"
    need = f"{do} not need" if is_shown else f"{be} not shown not to need"
    return f"{need} {wording.more} than"


def claim_difference(verdict: Verdict, wording: Wording, extent: str = "") -> str:
    """Return what SLOWER or FASTER says: "is 4.1 % slower", "needs 3 % less", "is slower"."""
    return " ".join(filter(None, (wording.verb, extent, name_verdict(verdict, wording))))


def name_verdict(verdict: Verdict, wording: Wording) -> str:
    """Return the verdict as a word inside a text: "equivalent", "not slower", "more"."""
    match verdict:
        case Verdict.SLOWER:
            return wording.more
        case Verdict.FASTER:
            return wording.less
        case Verdict.NOT_SLOWER:
            return f"not {wording.more}"
        case Verdict.NOT_JUDGED:
            return "not judged"
    return verdict.lower()


def quote_goal(goal: Goal, wording: Wording) -> str:
    """Return what is to be shown as a noun: "equivalence", "“not slower”", "“not more”"."""
    return "equivalence" if goal is Goal.EQUIVALENCE else f"“{name_goal(goal, wording)}”"


def name_goal(goal: Goal, wording: Wording) -> str:
    """Return what is to be shown as a word inside a text: "equivalent", "not slower"."""
    return name_verdict(PROVED[goal], wording)
