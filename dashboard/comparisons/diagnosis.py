"""One sentence on all verdicts of a comparison: which environments cost how much, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dashboard.comparisons.together import describe_together
from experiments.comparisons import Comparison, Group
from experiments.statistics import Pair, Verdict, numbers
from experiments.statistics.claims import (
    choose_wording,
    claim_difference,
    claim_shown,
    name_verdict,
)
from experiments.statistics.verdicts import PROVED

MOST_NAMED = 3
"""Environments that each have a part of the sentence; of more, the verdicts are counted."""
MOST_LABELS = 3
"""Values of a label that are named to say where something holds."""
ORDER = (
    Verdict.NOT_ATTRIBUTABLE,
    Verdict.SLOWER,
    Verdict.FASTER,
    Verdict.INCONCLUSIVE,
    Verdict.NO_INFERENCE,
    Verdict.EQUIVALENT,
    Verdict.NOT_SLOWER,
    Verdict.NOT_SHOWN,
    Verdict.NOT_JUDGED,
)
"""Of verdicts that are as frequent: what is said first."""
Placed = tuple[Group, Pair]


@dataclass(frozen=True)
class Diagnosis:
    """The sentence in two parts: the claim, which a page prints bold, and the rest."""

    claim: str
    rest: str = ""

    @property
    def sentence(self) -> str:
        return self.claim + self.rest


def diagnose(comparison: Comparison) -> Diagnosis | None:
    """Return the sentence on all pairs of a comparison; None where there is no pair.

    One pair has a sentence of its own, which says more. Of several decisive metrics it is about all
    of them together.
    """
    if comparison.decisive:
        return Diagnosis(*describe_together(list(comparison.decisive.values())))
    pairs = comparison.pairs
    if not pairs:
        return None
    if len(pairs) == 1:
        return Diagnosis(pairs[0].claim, pairs[0].evidence)
    by_environment: dict[str, list[Placed]] = {}
    for group in comparison.groups:
        for pair in group.pairs:
            by_environment.setdefault(pair.environment, []).append((group, pair))
    first, *others = _list_parts(by_environment)
    rest = "".join(f"; {part}" for part in others) + "."
    return Diagnosis(first[0].upper() + first[1:], rest)


def _list_parts(by_environment: Mapping[str, Sequence[Placed]]) -> Iterator[str]:
    """Yield the parts of the sentence: those that are equivalent everywhere go first, together."""
    everywhere = {
        name: placed
        for name, placed in by_environment.items()
        if all(pair.verdict in PROVED.values() for _, pair in placed)
    }
    by_count: dict[int, list[str]] = {}
    for name, placed in everywhere.items():
        by_count.setdefault(len(placed), []).append(name)
    for count, names in by_count.items():
        shown = [pair for name in names for _, pair in everywhere[name]]
        # Names may hold anything, an "and" as well: more than a few are counted.
        who = numbers.listed(names) if len(names) <= MOST_NAMED else f"{len(names)} environments"
        yield f"{_claim_shown(who, shown, are_many=len(names) > 1)}{_in_all(count)}"
    others = {name: placed for name, placed in by_environment.items() if name not in everywhere}
    if len(others) > MOST_NAMED:
        yield _count_verdicts(others)
        return
    for name, placed in others.items():
        yield _describe_environment(name, placed)


def _describe_environment(name: str, placed: Sequence[Placed]) -> str:
    """Return what holds for one environment, and in how many configurations."""
    by_verdict = {
        verdict: [(group, pair) for group, pair in placed if pair.verdict is verdict]
        for verdict in ORDER
    }
    lead = max(ORDER, key=lambda verdict: len(by_verdict[verdict]))
    leading, total = by_verdict.pop(lead), len(placed)
    pairs = [pair for _, pair in leading]
    if lead in PROVED.values():
        text = _claim_shown(name, pairs)
    elif lead in (Verdict.SLOWER, Verdict.FASTER):
        difference = claim_difference(lead, choose_wording(pairs), _describe_extent(pairs))
        text = f"{name} {difference} than {pairs[0].baseline}"
    else:
        text = f"{name} is {_name_verdict(lead, pairs)} against {pairs[0].baseline}"
    if len(leading) == total:
        return text + _in_all(total)
    rest = [
        _count_verdict(verdict, [pair for _, pair in others])
        for verdict, others in by_verdict.items()
        if others
    ]
    where = f" in {len(leading)} of {total} configurations{_describe_place(leading, placed)}"
    return f"{text}{where}, {numbers.listed(rest)}"


def _claim_shown(who: str, pairs: Sequence[Pair], *, are_many: bool = False) -> str:
    """Return the claim that all of these pairs have in common."""
    first, wording = pairs[0], choose_wording(pairs)
    return claim_shown(
        who, first.baseline, first.goal, wording, margin=first.margins, are_many=are_many
    )


def _count_verdict(verdict: Verdict, pairs: Sequence[Pair]) -> str:
    """Return in how many configurations a verdict is: "3.9 % to 6.3 % slower in 2"."""
    word = _name_verdict(verdict, pairs)
    if verdict in (Verdict.SLOWER, Verdict.FASTER):
        word = f"{_describe_extent(pairs)} {word}"
    return f"{word} in {len(pairs)}"


def _name_verdict(verdict: Verdict, pairs: Sequence[Pair]) -> str:
    if verdict is Verdict.NO_INFERENCE:
        return "without an inference"
    return name_verdict(verdict, choose_wording(pairs))


def _describe_extent(pairs: Sequence[Pair]) -> str:
    """Return from how much to how much: "3.9 % to 6.3 %", with digits that all intervals allow."""
    decimals = min(numbers.ratio_decimals(pair.ci_difference) for pair in pairs)
    extents = sorted(abs(round(pair.ratio or 1.0, decimals) - 1) for pair in pairs)
    low, high = (numbers.percent(end, decimals=decimals - 2) for end in (extents[0], extents[-1]))
    return low if low == high else f"{low} to {high}"


def _describe_place(leading: Sequence[Placed], placed: Sequence[Placed]) -> str:
    """Return which values of one label the leading configurations have, and no other one has."""
    leading_groups = [group for group, _ in leading]
    others = [group for group, _ in placed if not any(group is lead for lead in leading_groups)]
    for label in leading_groups[0].configuration:
        values = list(dict.fromkeys(group.configuration.get(label, "") for group in leading_groups))
        elsewhere = {group.configuration.get(label, "") for group in others}
        if len(values) <= MOST_LABELS and not elsewhere.intersection(values) and all(values):
            named = [f"{label} {value}" if value.isdigit() else value for value in values]
            return f" (those with {numbers.listed(named)})"
    return ""


def _count_verdicts(others: Mapping[str, Sequence[Placed]]) -> str:
    pairs = [pair for placed in others.values() for _, pair in placed]
    counts = Counter(pair.verdict for pair in pairs)
    parts = [
        f"{_name_verdict(verdict, pairs)} in {counts[verdict]}"
        for verdict in ORDER
        if counts[verdict]
    ]
    return f"{len(others)} environments are {numbers.listed(parts)} of {len(pairs)} comparisons"


def _in_all(configurations: int) -> str:
    if configurations == 1:
        return ""
    return f" in {numbers.all_of(configurations, 'configuration')}"
