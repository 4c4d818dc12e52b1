"""The forest plot as a description: every number and word of it, before anything has a place."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from dashboard.drawings.typeface import clean
from experiments.statistics import Pair, Verdict, numbers
from experiments.statistics.claims import (
    Wording,
    choose_wording,
    describe_margin,
    name_goal,
    name_verdict,
)
from experiments.statistics.margins import Margin
from experiments.statistics.pooling import Pooled
from experiments.statistics.values import ALPHA, Interval

WIDEST = 2.0
"""Beyond this ratio (or its inverse) a single odd comparison does not stretch the axis of all."""
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ROUND = (1, 2, 5)
MOST_TICKS, FEW_TICKS = 8, 4
MOST_BLOCKS = 500
"""Of more blocks those at equal distances are drawn; the file of runs has all."""
MOST_REASONS = 6
"""More different reasons than this are left to the table beside the figure."""
BEYOND = "interval beyond the axis; see its numbers"
SEE_TABLE = "not compared; the table of the figure says why"
POOLED = "Pooled over {}"
DECIDED_BY = {
    Verdict.EQUIVALENT: "thick",
    Verdict.NOT_SLOWER: "thick",
    Verdict.SLOWER: "thin",
    Verdict.FASTER: "thin",
}


@dataclass(frozen=True)
class ComparedPair:
    """A pair with what the figure says beside it."""

    group: str
    """The heading above it, such as "ResNet-50, 1x4"."""
    pair: Pair
    nodes: int = 0
    """How many nodes its runs were on; 0 where nobody knows."""
    block_ratios: tuple[float, ...] = ()
    """The ratio of each block in their order, of a verdict on a partition that of each node: shown
    of a pair that is alone in its figure."""


@dataclass(frozen=True)
class ForestRow:
    """A comparison: the numbers that are drawn, and the texts of its columns."""

    group: str
    environment: str
    mark: int
    """The index of the environment's colour and symbol."""
    ratio: float | None
    thick: Interval | None
    """The interval that decides about equivalence."""
    thin: Interval | None
    """The interval that decides about a difference."""
    decided_by: str
    """"thick", "thin", or "" where neither decides."""
    cut_low: bool
    """Whether the thin interval goes on beyond the lower end of the axis."""
    cut_high: bool
    is_outside: bool
    """Whether the ratio itself is beyond the axis."""
    verdict: str
    """The word for it: "Slower", of memory and energy "More"."""
    is_decided: bool
    ratio_text: str
    low_text: str
    high_text: str
    thin_low_text: str
    thin_high_text: str
    cost_text: str
    size_text: str
    nodes_text: str
    letters: str
    """Of its notes: "a,c"."""
    notes: tuple[str, ...]
    """The same in full; where nothing is inferred, the reason is among them."""
    is_pooled: bool = False
    """Whether it is a mean over configurations: a diamond as wide as `thick`."""
    prediction: Interval | None = None
    """Of a pooled row: where one more configuration would lie."""
    sign: str = ""
    """The verdict, which chooses what is drawn beside its word; empty where there is none."""
    block_ratios: tuple[float, ...] = ()
    """Of the only row of a figure: the ratios of its blocks, drawn above its interval."""
    has_ratios_of_nodes: bool = False
    """Whether these are the means of nodes, of which the ratio is the mean."""
    has_ratios_of_sets: bool = False
    """Whether these nodes are sets, of jobs on several that had some in common."""
    margin: Interval | None = None
    """Its own margin as ratios within the axis, where rows have different ones."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """Return its columns of numbers as a table has them, both intervals in two each."""
        texts = (self.low_text, self.high_text, self.thin_low_text, self.thin_high_text)
        return (
            self.ratio_text,
            *(text or numbers.MISSING for text in texts),
            self.cost_text,
            self.size_text,
            self.nodes_text,
        )


@dataclass(frozen=True)
class Forest:
    """A forest plot without places: ratios to the baseline on a log axis from `low` to `high`."""

    title: str
    description: str
    axis_title: str
    sides: tuple[str, str]
    """What lies left and right of 1; empty where rows have different directions."""
    band: Interval
    """The margin's ends as ratios, 1/1.02 and 1.02; where it has no end, that of the axis. Both 1
    where it has not the same ends for all rows."""
    margin_text: str
    proved: str
    """What it is called if the thick interval lies inside the band: "equivalent"."""
    detected: tuple[str, ...]
    """What it is called if the thin interval is clear of 1: "slower" and "faster"."""
    thick_level: str
    thin_level: str
    size_heading: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    few_ticks: tuple[tuple[float, str], ...]
    """For a narrow figure."""
    rows: tuple[ForestRow, ...]
    notes: tuple[tuple[str, str], ...]
    """Letters with what they stand for."""

    @property
    def has_verdicts(self) -> bool:
        """Return whether anything is inferred of any row."""
        return any(row.sign != Verdict.NO_INFERENCE for row in self.rows)

    @property
    def has_band(self) -> bool:
        return self.band[0] < self.band[1]


def describe_forest(
    compared: Sequence[ComparedPair],
    *,
    baseline: str,
    metric: str,
    margin: float | Margin,
    marks: Mapping[str, int],
    pooled: Sequence[Pooled] = (),
    hide: Callable[[str], str] = str,
) -> Forest:
    """Describe the forest plot of these pairs, in their order, and of what is pooled below them.

    `metric` is its name in words; "" where the pairs have several. Intervals are those that
    decide: of 95 % and 90 %, unless several interim analyses were planned. `hide` returns a text
    without the names that this reader may not see. Texts are as they are drawn: how long they are
    decides where pages end.
    """
    pairs = [each.pair for each in compared]
    alphas = {pair.alpha for pair in pairs} or {ALPHA}
    pooled = [mean for mean in pooled if mean.ratio is not None]
    ends = [
        end
        for mean in pooled
        for interval in (mean.interval, mean.prediction)
        for end in interval or ()
    ]
    block_ratios = _choose_block_ratios(compared)
    margin = Margin.of(margin)
    bounds = margin.find_common_bounds({pair.better for pair in pairs})
    low, high = choose_range(pairs, bounds, [*ends, *block_ratios])
    decimals = _choose_decimals(pairs)
    wordings = list(dict.fromkeys(choose_wording([pair]) for pair in pairs))
    letters, notes = _letter_notes(pairs, low, high)
    if pooled:
        pooled_letter = _letter(len(notes))
        notes = (*notes, (pooled_letter, _describe_diamond(pooled)))
    subject = f"{metric}, ratio" if metric else "Ratio"
    forest = Forest(
        title=f"{metric or 'Ratios'} relative to {baseline}",
        description=_describe_verdicts(pairs),
        axis_title=f"{subject} to {baseline} (log)",
        sides=_name_sides(pairs),
        band=(max(bounds[0], low), min(bounds[1], high)) if bounds else (1.0, 1.0),
        margin_text=_describe_margin(margin, bounds, choose_wording(pairs)),
        proved=" or ".join(dict.fromkeys(name_goal(margin.goal, each) for each in wordings)),
        detected=tuple(word for each in wordings for word in (each.more, each.less)),
        thick_level=numbers.levels(alphas, sides=2),
        thin_level=numbers.levels(alphas),
        size_heading="Blocks" if all(pair.paired for pair in pairs) else "Runs",
        low=low,
        high=high,
        ticks=tuple(choose_ticks(low, high, MOST_TICKS)),
        few_ticks=tuple(choose_ticks(low, high, FEW_TICKS)),
        rows=(
            *(
                replace(
                    _describe_row(each, marks, low, high, decimals, letters[index]),
                    block_ratios=block_ratios,
                    has_ratios_of_nodes=bool(block_ratios) and each.pair.by_node,
                    has_ratios_of_sets=each.pair.has_sets_of_nodes,
                )
                for index, each in enumerate(compared)
            ),
            *(
                _describe_pooled(mean, marks, low, high, decimals, pairs[0], pooled_letter)
                for mean in pooled
            ),
        ),
        notes=notes,
    )
    # Names first: they are known as they are written, and `clean` may write them otherwise.
    return change_names(forest, lambda text: clean(hide(text)))


def _describe_margin(margin: Margin, bounds: Interval | None, wording: Wording) -> str:
    """Return the ends of the margin: "1/1.02 to 1.02", "up to 1.02", "from 1/1.02 on".

    Without the same ends for all rows, as in plans: "2 % faster to 20 % slower, not shaded".
    """
    if bounds is None:
        return f"{describe_margin(margin, wording)}, not shaded"
    low, high = (f"1/{1 / end:.6g}" if 0 < end < 1 else f"{end:.6g}" for end in bounds)
    if bounds[0] == 0:
        return f"up to {high}"
    return f"from {low} on" if bounds[1] == math.inf else f"{low} to {high}"


def _choose_block_ratios(compared: Sequence[ComparedPair]) -> tuple[float, ...]:
    """Return the ratios of blocks where one pair has the figure for itself: at most `MOST_BLOCKS`.

    Among more rows they would hide the intervals.
    """
    if len(compared) != 1:
        return ()
    ratios = [ratio for each in compared[0].block_ratios if (ratio := _known(each)) is not None]
    most = min(len(ratios), MOST_BLOCKS)
    return tuple(ratios[place * len(ratios) // most] for place in range(most))


def change_names(forest: Forest, change: Callable[[str], str]) -> Forest:
    """Return the description with every text changed in which there may be a name."""
    change = cache(change)  # rows have many texts in common
    rows = (
        replace(
            row,
            group=change(row.group),
            environment=change(row.environment),
            notes=tuple(change(note) for note in row.notes),
        )
        for row in forest.rows
    )
    return replace(
        forest,
        title=change(forest.title),
        axis_title=change(forest.axis_title),
        rows=tuple(rows),
        notes=tuple((letter, change(note)) for letter, note in forest.notes),
    )


def _describe_row(
    compared: ComparedPair,
    marks: Mapping[str, int],
    low: float,
    high: float,
    decimals: int,
    letters: str,
) -> ForestRow:
    pair = compared.pair
    ratio = _known(pair.ratio)
    thick, thin = _known_interval(pair.ci_equivalence), _known_interval(pair.ci_difference)
    widest = thin or thick
    return ForestRow(
        group=compared.group,
        environment=pair.environment,
        mark=marks.get(pair.environment, 0),
        ratio=ratio,
        thick=thick,
        thin=thin,
        decided_by=DECIDED_BY.get(pair.verdict, ""),
        cut_low=widest is not None and widest[0] < low,
        cut_high=widest is not None and widest[1] > high,
        is_outside=ratio is not None and not low <= ratio <= high,
        verdict=_name_verdict(pair).capitalize(),
        sign=pair.verdict,
        is_decided=pair.verdict in DECIDED_BY,
        ratio_text=write_ratio(ratio, decimals),
        low_text=write_ratio(thick[0], decimals) if thick else "",
        high_text=write_ratio(thick[1], decimals) if thick else "",
        thin_low_text=write_ratio(thin[0], decimals) if thin else "",
        thin_high_text=write_ratio(thin[1], decimals) if thin else "",
        cost_text=_write_cost(pair) if ratio is not None else numbers.MISSING,
        size_text=_write_size(pair),
        nodes_text=str(compared.nodes) if compared.nodes else numbers.MISSING,
        letters=letters,
        notes=tuple(_list_notes(pair, low, high)),
    )


def _describe_pooled(
    pooled: Pooled,
    marks: Mapping[str, int],
    low: float,
    high: float,
    decimals: int,
    pair: Pair,
    letter: str,
) -> ForestRow:
    """Return the row of a mean over configurations; `pair` tells what a ratio costs."""
    thick, prediction = _known_interval(pooled.interval), _known_interval(pooled.prediction)
    widest = prediction or thick or (1.0, 1.0)
    ratio = _known(pooled.ratio)
    level = numbers.level(pooled.level)
    predicted = [write_ratio(end, decimals) for end in prediction or ()]
    of_mean = [f"mean over {pooled.configurations} {pooled.nouns}, random effects"]
    if predicted:
        of_mean.append(f"{level} prediction interval {predicted[0]} to {predicted[1]}")
    return ForestRow(
        group=POOLED.format(f"all {pooled.configurations} {pooled.nouns}"),
        environment=pooled.environment,
        mark=marks.get(pooled.environment, 0),
        ratio=ratio,
        thick=thick,
        thin=None,
        decided_by="",
        cut_low=widest[0] < low,
        cut_high=widest[1] > high,
        is_outside=ratio is not None and not low <= ratio <= high,
        verdict="",
        is_decided=False,
        ratio_text=write_ratio(ratio, decimals),
        low_text=write_ratio(thick[0], decimals) if thick else "",
        high_text=write_ratio(thick[1], decimals) if thick else "",
        thin_low_text="",
        thin_high_text="",
        cost_text=_write_cost(replace(pair, ratio=ratio)),
        size_text=str(pooled.blocks) if pooled.blocks else numbers.MISSING,
        nodes_text=numbers.MISSING,
        letters=letter,
        notes=tuple(of_mean),
        is_pooled=True,
        prediction=prediction,
    )


def _describe_diamond(pooled: Sequence[Pooled]) -> str:
    """Return what the shapes of pooled rows stand for."""
    level, first = numbers.level(pooled[0].level), pooled[0]
    text = f"diamond: {level} interval of the mean over {first.nouns}, random effects"
    if any(mean.prediction for mean in pooled):
        text += f"; dashed: {level} prediction interval, where one more {first.noun} would lie"
    return text


def choose_range(
    pairs: Sequence[Pair], bounds: Interval | None, more: Sequence[float] = ()
) -> Interval:
    """Return the ends of the axis: the margin, the ratios and the thick intervals with some room.

    `more` are other ends that it should show.
    What lies beyond a factor of `WIDEST` is cut, unless most ratios do.
    """
    ratios = [ratio for pair in pairs if (ratio := _known(pair.ratio)) is not None]
    ends = [end for pair in pairs for end in _known_interval(pair.ci_equivalence) or ()]
    ends += [end for end in map(_known, more) if end is not None]
    band = [end for end in bounds or () if 0 < end < math.inf]
    # A band without an end is as wide on the other side, so that 1 is not at the axis's end.
    band += [1 / end for end in band] if len(band) == 1 else []
    far = sorted(abs(math.log(ratio)) for ratio in ratios)
    limit = math.log(WIDEST)
    if far and far[len(far) // 2] > limit:
        limit = 1.1 * far[-1]
    limit = max([limit, *(abs(math.log(end)) for end in band)])
    logs = [min(max(math.log(value), -limit), limit) for value in (*band, *ratios, *ends)]
    lowest, highest = min(logs), max(logs)
    room = 0.06 * (highest - lowest)
    return math.exp(lowest - room), math.exp(highest + room)


def choose_ticks(low: float, high: float, most: int) -> Iterator[tuple[float, str]]:
    """Yield at most so many round ratios between both ends, each with its label; 1 among them."""
    for step in STEPS:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        # Multiples of a step are evenly spread on a log axis only where it is short.
        if last - first < most and high / low < 3:
            decimals = max(2, -math.floor(math.log10(step)))
            yield from ((i * step, f"{i * step:.{decimals}f}") for i in range(first, last + 1))
            return
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in (ROUND, (1,)):
        values = [digit * 10.0**decade for decade in decades for digit in digits]
        values = [value for value in values if low <= value <= high]
        if len(values) <= most:
            break
    every = math.ceil(len(values) / most)
    for value in values[values.index(1.0) % every :: every] if 1.0 in values else values[::every]:
        yield value, f"{value:g}"


def write_ratio(ratio: float | None, decimals: int) -> str:
    """Return a ratio for a narrow column; odd ones as powers of ten: "1.004", "2.3e+07"."""
    if ratio is None:
        return numbers.MISSING
    if not 0.5 * 10**-decimals <= ratio < 1000:
        return f"{ratio:.1e}".replace("-", "−")
    return numbers.fixed(ratio, decimals if ratio < 10 else max(decimals - 2, 0))


def _choose_decimals(pairs: Sequence[Pair]) -> int:
    """Return the least decimals, three to five, that tell apart both ends of every interval."""
    intervals = [_known_interval(pair.ci_equivalence) for pair in pairs]
    for decimals in (3, 4):
        texts = [[write_ratio(end, decimals) for end in ends] for ends in intervals if ends]
        if all(low != high for low, high in texts):
            return decimals
    return 5 if any(intervals) else 3


def _write_cost(pair: Pair) -> str:
    if pair.cost is None:
        return numbers.MISSING
    if abs(pair.cost) >= 10:
        return f"+{100 * pair.cost:,.0f}" if pair.cost < 1000 else f"+{100 * pair.cost:.1e}"
    return numbers.cost(pair.cost).removesuffix(" %")


def _write_size(pair: Pair) -> str:
    if pair.paired:
        return str(pair.n_blocks) if pair.n_blocks else numbers.MISSING
    if not (pair.n_baseline and pair.n_environment):
        return numbers.MISSING
    if pair.n_baseline == pair.n_environment:
        return str(pair.n_baseline)
    return f"{pair.n_baseline}/{pair.n_environment}"


def _list_notes(pair: Pair, low: float, high: float) -> Iterator[str]:
    """Yield what is to be said of a row beside its numbers."""
    for stamp in pair.stamps:
        yield _say_stamp(stamp.label)
    if pair.before:
        yield f"with excluded runs: {pair.before.description}"
    if pair.verdict in (Verdict.NO_INFERENCE, Verdict.NOT_ATTRIBUTABLE) and pair.detail:
        yield pair.detail
    ends = _known_interval(pair.ci_difference)
    if ends and (ends[0] < low or ends[1] > high):
        yield BEYOND


def _letter_notes(
    pairs: Sequence[Pair], low: float, high: float
) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Return the letters of each pair's notes, and the notes in the order in which they occur."""
    verdicts = (Verdict.NO_INFERENCE, Verdict.NOT_ATTRIBUTABLE)
    reasons = {pair.detail for pair in pairs if pair.verdict in verdicts}
    too_many = reasons if len(reasons) > MOST_REASONS else set()
    letters: dict[str, str] = {}
    of_pairs: list[str] = []
    for pair in pairs:
        notes = [SEE_TABLE if note in too_many else note for note in _list_notes(pair, low, high)]
        for note in notes:
            letters.setdefault(note, _letter(len(letters)))
        of_pairs.append(",".join(letters[note] for note in notes))
    return of_pairs, tuple((letter, note) for note, letter in letters.items())


def _letter(number: int) -> str:
    return chr(ord("a") + number % 26) * (1 + number // 26)


def _say_stamp(label: str) -> str:
    return label.lower().replace("holm", "Holm")


def _name_sides(pairs: Sequence[Pair]) -> tuple[str, str]:
    """Return what lies left and right of 1; empty where rows have different directions."""
    sides = choose_wording(pairs).sides
    match {pair.better for pair in pairs}:
        case directions if directions == {"lower"}:
            return sides
        case directions if directions == {"higher"}:
            return sides[::-1]
    return "", ""


def _name_verdict(pair: Pair) -> str:
    return name_verdict(pair.verdict, choose_wording([pair]))


def _describe_verdicts(pairs: Sequence[Pair]) -> str:
    counts = Counter((pair.verdict, _name_verdict(pair)) for pair in pairs)
    order = list(Verdict)
    known = [
        f"{counts[verdict, word]} {word}"
        for verdict, word in sorted(counts, key=lambda counted: order.index(counted[0]))
    ]
    return f"{numbers.count(len(pairs), 'comparison')}: {', '.join(known)}." if pairs else ""


def _known(value: float | None) -> float | None:
    """Return a ratio that has a place on a log axis, else None."""
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _known_interval(interval: Interval | None) -> Interval | None:
    """Return the interval with ends that have a place on a log axis; None where there is none."""
    if interval is None or any(math.isnan(end) for end in interval):
        return None
    low, high = interval
    return max(low, 1e-300), min(high, 1e300)
