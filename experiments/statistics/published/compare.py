"""Comparison of a published table's environments, with stamps for what tables leave open."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from experiments.statistics.arms import Arms
from experiments.statistics.compare_samples import compare, compute_p_values
from experiments.statistics.estimates import Estimate, Summary, estimate_from_summary
from experiments.statistics.multiple_comparisons import correct_by_holm
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.tables import Row, Table
from experiments.statistics.stamps import list_stamps
from experiments.statistics.values import Better, Pair, Sample, Stamp, Verdict
from experiments.statistics.verdict_sentences import claim_and_evidence
from experiments.statistics.verdicts import MOST, decide

Configuration = tuple[dict[str, str], dict[str, list[Row]]]
"""The labels of a configuration, and the rows of each environment in it."""
FLOOR_TOLERANCE = 0.01
ORDER_UNKNOWN = "The table does not say when the runs ran: drift may be part of the difference."


@dataclass(frozen=True)
class Compared:
    """One environment against the baseline in one configuration of the table."""

    configuration: dict[str, str]
    """Its labels."""
    rows: tuple[int, ...]
    """Row numbers in the file, the baseline's first."""
    pair: Pair


def compare_table(table: Table, *, baseline: str, margin: float) -> list[Compared]:
    """Compare every environment with the baseline in each configuration; Holm over all of them.

    A configuration without the baseline is left out (see `left_out`) unless that leaves nothing.
    TableError names the rows of a missing or doubled environment, of mixed units, of steps given
    as runs. One run, or values without spread, are an answer: NO INFERENCE.
    """
    if not 0 < margin < math.inf:
        raise TableError(f"A margin is a positive fraction such as 0.02, not {margin}.")
    if baseline not in table.environments:
        raise TableError(
            f"No row has the baseline {baseline!r}; the environments are "
            f"{', '.join(table.environments)}."
        )
    compared = [
        comparison
        for labels, arms in group_by_configuration(table)
        if baseline in arms
        for comparison in _compare_configuration(table, labels, arms, baseline, margin)
    ]
    if not compared:
        if table.environments == [baseline]:
            raise TableError(f"There is no environment to compare with {baseline}.")
        apart = [
            (labels, arms) for labels, arms in group_by_configuration(table) if baseline not in arms
        ]
        raise TableError(_no_baseline(apart[:1], baseline))
    adjusted = correct_by_holm([comparison.pair for comparison in compared])
    return [
        replace(comparison, pair=pair) for comparison, pair in zip(compared, adjusted, strict=True)
    ]


def group_by_configuration(table: Table) -> list[Configuration]:
    """Return the labels of each configuration and its environments' rows, in the file's order."""
    arms_by_values: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in table.rows:
        arms_by_values.setdefault(row.label_values, {}).setdefault(row.environment, []).append(row)
    return [
        (dict(zip(table.labels, values, strict=True)), arms)
        for values, arms in arms_by_values.items()
    ]


def describe_left_out(table: Table, *, baseline: str) -> list[str]:
    """Return a sentence for each group of rows that is not compared: which rows, and why."""
    sentences = []
    if table.left_out:
        rows = (
            "1 row of a run that did not succeed is"
            if table.left_out == 1
            else f"{table.left_out:,} rows of runs that did not succeed are"
        )
        sentences.append(f"{rows} left out.")
    lonely = [
        (labels, arms) for labels, arms in group_by_configuration(table) if set(arms) == {baseline}
    ]
    if lonely:
        sentences.append(f"{_rows_of(lonely)}: only the baseline {baseline}{_where_of(lonely)}.")
    if apart := [
        (labels, arms) for labels, arms in group_by_configuration(table) if baseline not in arms
    ]:
        sentences.append(_no_baseline(apart, baseline))
    return sentences


def _no_baseline(configurations: Sequence[Configuration], baseline: str) -> str:
    return (
        f"{_rows_of(configurations)}: no row of the baseline {baseline} has the same labels"
        f"{_where_of(configurations)}. Any column that is not recognised is a label, unless it is "
        "ignored."
    )


def _rows_of(configurations: Sequence[Configuration]) -> str:
    rows = sorted(
        row.place.row for _, arms in configurations for arm in arms.values() for row in arm
    )
    return _listed("Row", rows)


def _where_of(configurations: Sequence[Configuration]) -> str:
    places = list(filter(None, (_format_labels(labels) for labels, _ in configurations)))
    more = ["..."] if len(places) > 5 else []
    return f" ({'; '.join([*places[:5], *more])})" if places else ""


def _format_labels(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name} {value}" for name, value in labels.items() if value)


def make_samples(rows: Iterable[Row]) -> list[Sample]:
    """Return single runs as samples; a run without a name gets that of its row."""
    return [
        Sample(
            run=row.run or f"of row {row.place.row}",
            block=row.block,
            environment=row.environment,
            value=row.mean.value,
            node=row.node,
            started=row.began,
        )
        for row in rows
    ]


def _compare_configuration(
    table: Table, labels: dict[str, str], arms: dict[str, list[Row]], baseline: str, margin: float
) -> Iterator[Compared]:
    rows = [row for arm in arms.values() for row in arm]
    where = _format_labels(labels)
    better = _direction_of(rows, table)
    for name, arm in arms.items():
        _check_size(table, arm, f"{name} {where}".strip())
    for name, arm in arms.items():
        if name == baseline:
            continue
        pair = Pair(
            baseline=baseline,
            environment=name,
            unit=rows[0].unit,
            better=better,
            margin=margin,
            paired=table.paired,
        )
        both = [*arms[baseline], *arm]
        pair = (
            _compare_runs(pair, make_samples(both))
            if table.single_runs
            else _compare_means(pair, arms)
        )
        if table.one_process and pair.verdict is not Verdict.NO_INFERENCE:
            pair = _add_stamps(pair, [(Stamp.ONE_PROCESS, table.one_process)])
        if better is None and pair.verdict is not Verdict.NO_INFERENCE:
            raise TableError(
                f"{arm[0].place}: whether lower or higher is better is not said; add a column "
                "direction (lower or higher), or the unit."
            )
        numbers = tuple(row.place.row for row in both)
        if pair.verdict is Verdict.NO_INFERENCE:
            columns = _listed("column", (row.place.column for row in both))
            where_from = f" ({_listed('Row', numbers)}, {columns}.)"
            pair = replace(pair, evidence=pair.evidence + where_from)
        yield Compared(labels, numbers, pair)


def _listed(name: str, values: Iterable[object]) -> str:
    """Return a list as text: "Rows 2 and 3", "column mean"; of many only the first ones."""
    *most, last = dict.fromkeys(map(str, values))
    if len(most) > 5:
        most, last = most[:5], "others"
    return f"{name}s {', '.join(most)} and {last}" if most else f"{name} {last}"


def _direction_of(rows: list[Row], table: Table) -> Better | None:
    """Return the direction of a configuration. TableError where units or directions are mixed."""
    for row in rows:
        if row.unit != rows[0].unit:
            raise TableError(
                f"Row {row.place.row}, column {table.columns.get('unit', row.place.column)}: "
                "mixed units, "
                f"{row.unit or '–'} here and {rows[0].unit or '–'} in row {rows[0].place.row}."
            )
        if row.better != rows[0].better:
            raise TableError(
                f"Row {row.place.row}, column "
                f"{table.columns.get('direction', row.place.column)}: not the direction of "
                f"row {rows[0].place.row}."
            )
    return rows[0].better


def _check_size(table: Table, arm: list[Row], name: str) -> None:
    if table.single_runs and len(arm) > MOST:
        raise TableError(
            f"Row {arm[MOST].place.row}: over {MOST:,} runs of {name}. If these are steps, give "
            "one value a run, their mean."
        )
    if not table.single_runs and len(arm) > 1:
        raise TableError(
            f"Rows {arm[0].place.row} and {arm[1].place.row} are both {name}; which counts?"
        )


def _compare_runs(pair: Pair, samples: list[Sample]) -> Pair:
    pair, *_ = compare(
        samples,
        baseline=pair.baseline,
        environments=[pair.environment],
        margin=pair.margin,
        better=pair.better,
        paired=pair.paired,
        unit=pair.unit,
    )
    if pair.verdict is Verdict.NO_INFERENCE or all(sample.started for sample in samples):
        return pair
    return _add_stamps(pair, [(Stamp.ORDER_UNKNOWN, ORDER_UNKNOWN)])


def _compare_means(pair: Pair, arms: dict[str, list[Row]]) -> Pair:
    rows = [arms[pair.baseline][0], arms[pair.environment][0]]
    moments = [_moments(row, row.mean.value, _spread(row)) for row in rows]
    pair = replace(
        pair,
        n_baseline=rows[0].n or 0,
        n_environment=rows[1].n or 0,
        baseline_mean=moments[0].mean,
        baseline_sd=moments[0].sd,
        environment_mean=moments[1].mean,
        environment_sd=moments[1].sd,
        ratio=moments[1].mean / moments[0].mean,
    )
    floors = [row for row in rows if _has_floor(row)]
    reserved = [(Stamp.OFF_BY_ONE, _floor_reason(floors))] if floors else []
    estimate = _estimate(rows, moments)
    if estimate is None:
        pair = replace(pair, detail=next(filter(None, map(_missing, rows))))
    else:
        verdict, detail = decide(estimate, pair.margin, pair.better)
        pair = replace(pair, verdict=verdict, detail=detail)
        if not estimate.flaw:
            pair = replace(
                pair,
                log_se=estimate.se,
                df=estimate.df,
                ci95=estimate.interval(0.95),
                ci90=estimate.interval(0.90),
                p_difference=estimate.p_difference,
                **compute_p_values(estimate, pair),
                smallest_margin=estimate.smallest_margin,
            )
            no_runs = Arms((), (), paired=False)
            reserved += list_stamps(
                no_runs, estimate, verdict, margin=pair.margin, better=pair.better
            )
            reserved.append((Stamp.ORDER_UNKNOWN, ORDER_UNKNOWN))
            reserved += _check_rounding(pair, rows)
    claim, evidence = claim_and_evidence(pair, estimate)
    return _add_stamps(replace(pair, claim=claim, evidence=evidence), reserved)


@dataclass(frozen=True)
class _Moments:
    mean: float
    sd: float | None


def _moments(row: Row, mean: float, spread: float | None) -> _Moments:
    """Return mean and SD of the runs if `mean` and `spread` were the numbers before rounding."""
    if row.n == 1:
        return _Moments(mean, 0.0)
    if spread is None:
        return _Moments(mean, None)
    count = row.n or row.steps or 1
    sd = spread if row.sd else spread * math.sqrt(count)
    if _has_floor(row):
        factor = count / (count - 1)
        square = ((sd / mean) ** 2 + 1) * factor - factor**2
        # Of the difference of two large numbers too few digits may be left.
        return _Moments(mean * factor, mean * math.sqrt(square) if square > 0 else None)
    return _Moments(mean, sd)


def _spread(row: Row) -> float | None:
    spread = row.sd or row.se
    return None if spread is None else spread.value


def _has_floor(row: Row) -> bool:
    """Return whether the SD is mean / sqrt(N - 1): that of a sum of N - 1 steps divided by N."""
    spread, count = _spread(row), row.n or row.steps or 1
    if spread is None or count < 2:
        return False
    sd = spread if row.sd else spread * math.sqrt(count)
    return abs(sd / row.mean.value * math.sqrt(count - 1) - 1) <= FLOOR_TOLERANCE


def _floor_reason(rows: list[Row]) -> str:
    return (
        f"{_listed('Row', (row.place.row for row in rows))}: the spread is the mean divided "
        "by √(n − 1), the mark of a script that sums n − 1 times and divides by n. Mean and "
        "spread are corrected. Such scripts average the steps of one run: if n counts steps, "
        "this is one run, and nothing can be inferred."
    )


def _missing(row: Row) -> str:
    """Return what a row lacks for an inference, or ""."""
    if row.steps and not row.n:
        return "no number of runs (steps of one run are not runs)"
    lacks = ["no spread"] * (_spread(row) is None) + ["no number of runs"] * (row.n is None)
    if not lacks and _moments(row, row.mean.value, _spread(row)).sd is None:
        lacks = ["no spread that could be recovered from so few digits"]
    return "" if row.n == 1 else " and ".join(lacks)


def _estimate(rows: list[Row], moments: list[_Moments]) -> Estimate | None:
    summaries = [_summary(row, moment) for row, moment in zip(rows, moments, strict=True)]
    return _estimate_from(*summaries)


def _summary(row: Row, moments: _Moments) -> Summary | None:
    if not row.n or moments.sd is None:
        return None
    return Summary(moments.mean, moments.sd / math.sqrt(row.n), row.n)


def _estimate_from(baseline: Summary | None, environment: Summary | None) -> Estimate | None:
    return estimate_from_summary(baseline, environment) if baseline and environment else None


def _check_rounding(pair: Pair, rows: list[Row]) -> Iterator[tuple[Stamp, str]]:
    """Yield a stamp if the numbers before rounding may have had another verdict."""
    verdicts = set()
    for baseline, environment in product(*map(_unrounded, rows)):
        estimate = _estimate_from(baseline, environment)
        verdicts.add(
            decide(estimate, pair.margin, pair.better)[0] if estimate else Verdict.NO_INFERENCE
        )
    if others := sorted(verdicts - {pair.verdict}):
        yield (
            Stamp.ROUNDING_SENSITIVE,
            f"Unrounded, these numbers could have the verdict {' or '.join(others)}.",
        )


def _unrounded(row: Row) -> list[Summary | None]:
    """Return summaries of a row, with each number at either end of its rounding range."""
    spread = row.sd or row.se
    levels = product(row.mean.levels, spread.levels if spread else ())
    return [_summary(row, _moments(row, *each)) for each in levels]


def _add_stamps(pair: Pair, reserved: Sequence[tuple[Stamp, str]]) -> Pair:
    return replace(
        pair,
        stamps=(*pair.stamps, *(stamp for stamp, _ in reserved)),
        reasons=(*pair.reasons, *(reason for _, reason in reserved)),
    )
