"""Published tables: what a person sees before keeping one, and its comparison ever after."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.comparisons import Comparison, Group
from experiments.models import PublishedTable
from experiments.statistics import Measured, numbers
from experiments.statistics.published.columns import Reading, metrics_of, recognise, unit_of
from experiments.statistics.published.compare import (
    Compared,
    cells_of,
    compare_table,
    left_out,
    samples_of,
)
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet, read_sheet
from experiments.statistics.published.tables import Row, Table, read_table

MOST_BYTES = 2_000_000
"""Of a table that is kept: it is read anew whenever somebody looks."""
MOST_ROWS = 10_000
MOST_COMPARISONS = 200
FIRST_ROWS = 10
BARE = re.compile(r"(bare.?metal|bare|native|host|baseline|no.?container|without.*)", re.IGNORECASE)
"""What people call the environment that the others are compared with."""


@dataclass(frozen=True)
class TableComparison(Comparison):
    """What a published table can show."""

    row: PublishedTable
    sheet: Sheet
    """The table as it was given."""
    table: Table
    left_out: list[str]
    """What has no part in it, and why."""

    @property
    def about(self) -> dict[str, Any]:
        return {"table": self.row.pk, **super().about, "source": self.row.source}


def compare_published(row: PublishedTable) -> TableComparison:
    """Compare every environment of a table with its baseline.

    TableError, if the text cannot be compared (any more): it was when it was kept.
    """
    sheet = read_sheet(row.text)
    table = read_table(sheet, baseline=row.baseline, reading=reading_of(row.reading))
    compared = compare_table(table, baseline=row.baseline, margin=row.margin)
    others = [name for name in table.environments if name != row.baseline]
    return TableComparison(
        key=row.key,
        question=row.question,
        margin=row.margin,
        paired=table.paired,
        environments=[row.baseline, *others],
        groups=_groups(table, compared, row.baseline),
        row=row,
        sheet=sheet,
        table=table,
        left_out=left_out(table, baseline=row.baseline),
    )


def reading_of(said: Mapping[str, Any]) -> Reading:
    """What a row keeps about its table, as the statistics take it."""
    return Reading(**said)


def as_kept(reading: Reading) -> dict[str, Any]:
    """The same, as a row keeps it."""
    return asdict(reading) | {"roles": dict(reading.roles)}


def _groups(table: Table, compared: Sequence[Compared], baseline: str) -> list[Group]:
    """Return a group for each cell with something beside the baseline."""
    groups = []
    for cell, arms in cells_of(table):
        if set(arms) == {baseline}:
            continue
        rows = [row for arm in arms.values() for row in arm]
        pairs = [one.pair for one in compared if one.cell == cell]
        metric = Measured(table.measured, rows[0].unit, rows[0].better, _label(table.measured))
        samples = samples_of(rows) if table.single_runs else []
        problem = "" if baseline in arms else f"there is no row of {baseline} to compare with."
        groups.append(Group(cell, metric, samples, pairs, problem))
    return groups


def _label(column: str) -> str:
    """What is compared, without its unit: "step_time (s)" -> "step time"."""
    return unit_of(column)[0].replace("_", " ") or column or "value"


@dataclass(frozen=True)
class Column:
    """A column of a table that is being looked at; `texts` are its fields in the rows shown."""

    name: str
    role: str
    texts: list[str]
    amiss: list[bool]
    """Which of them a problem is about."""


@dataclass(frozen=True)
class Preview:
    """A table as it is read so far, and what stands against comparing it."""

    columns: list[Column] = field(default_factory=list)
    row_numbers: list[int] = field(default_factory=list)
    """Of the rows shown, as a spreadsheet counts them: the first, and those with a problem."""
    rows: int = 0
    environments: list[str] = field(default_factory=list)
    baseline: str = ""
    """The one asked for, else the one that looks most like bare metal."""
    first: list[tuple[int, str, str, str]] = field(default_factory=list)
    """The first rows as they are read: number, cell, environment and value in words."""
    summary: str = ""
    problem: str = ""
    further: list[str] = field(default_factory=list)
    """What is wrong with other rows."""
    left_out: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    """Columns of which one is compared, where there are several and all are numbers of runs."""

    @property
    def measured(self) -> str:
        """The column that is compared."""
        return next((one.name for one in self.columns if one.role in {"mean", "value"}), "")

    @property
    def rest(self) -> int:
        """How many rows are not shown."""
        return self.rows - len(self.row_numbers)


def preview(text: str, *, reading: Reading, baseline: str, margin: float) -> Preview:
    """Read a table as far as it can be read; never raises."""
    try:
        sheet = read_sheet(text)
        if len(sheet.rows) > MOST_ROWS:
            raise TableError(
                f"The table has {len(sheet.rows):,} rows; a page takes {MOST_ROWS:,}. One row a "
                "run is due: the steps of a run are one value, their mean."
            )
    except TableError as error:
        return Preview(problem=str(error))
    found: dict[str, Any] = {
        **_rows_shown(sheet, reading, []),
        "rows": len(sheet.rows),
        "metrics": metrics_of(sheet),
    }
    try:
        table = read_table(sheet, baseline=baseline, reading=reading)
    except TableError as error:
        problems = [str(error), *error.others]
        found |= _rows_shown(sheet, reading, problems)
        return Preview(**found, problem=problems[0], further=problems[1:])
    if baseline not in table.environments:
        baseline = suggested_baseline(table.environments)
    found |= {
        "environments": table.environments,
        "baseline": baseline,
        "first": [_in_words(row) for row in table.rows[:FIRST_ROWS]],
    }
    try:
        comparisons = sum(len(arms) - 1 for _, arms in cells_of(table) if baseline in arms)
        if comparisons > MOST_COMPARISONS:  # looked at before the work is done
            raise TableError(
                f"These are {comparisons:,} comparisons; a page shows {MOST_COMPARISONS} at most. "
                "Is a column a label that should be ignored?"
            )
        compared = compare_table(table, baseline=baseline, margin=margin)
    except TableError as error:
        found |= _rows_shown(sheet, reading, [str(error)])
        return Preview(**found, problem=str(error))
    return Preview(
        **found,
        summary=_summary(table, compared),
        left_out=left_out(table, baseline=baseline),
    )


def suggested_baseline(environments: Sequence[str]) -> str:
    """Return the environment that is called like bare metal, else the first."""
    return next((name for name in environments if BARE.fullmatch(name)), environments[0])


def _rows_shown(sheet: Sheet, reading: Reading, problems: Sequence[str]) -> dict[str, Any]:
    """The first rows, and whichever a problem is about, column by column."""
    named = {number for problem in problems for number in _rows_named(problem)}
    rows = [row for i, row in enumerate(sheet.rows) if i < FIRST_ROWS or row[0] in named]
    roles = recognise(sheet, reading.roles)

    def amiss(number: int, name: str) -> bool:
        return any(problem.startswith(f"Row {number}, column {name}:") for problem in problems)

    columns = [
        Column(
            name,
            roles[name],
            [fields[place] for _, fields in rows],
            [amiss(number, name) for number, _ in rows],
        )
        for place, name in enumerate(sheet.header)
    ]
    return {"columns": columns, "row_numbers": [number for number, _ in rows]}


def _rows_named(problem: str) -> list[int]:
    """The rows at the beginning of a problem: "Row 3, column n: ...", "Rows 2 and 3 are ..."."""
    found = re.match(r"Rows? ((?:\d+(?:, | and )?)+)", problem)
    return [int(number) for number in re.findall(r"\d+", found[1])] if found else []


def _in_words(row: Row) -> tuple[int, str, str, str]:
    value = f"{row.mean.value:.10g}"
    if spread := row.sd or row.se:
        value += f" ± {spread.value:.10g}"
    known = [
        "SD" if row.sd else "SE" if row.se else "",
        f"n = {row.n}" if row.n else numbers.count(row.steps, "step") if row.steps else "",
    ]
    said = ", ".join(filter(None, known))
    words = " ".join(filter(None, [value, row.unit, f"({said})" if said else ""]))
    return row.place.row, ", ".join(filter(None, row.cell)), row.environment, words


def _summary(table: Table, compared: Sequence[Compared]) -> str:
    """What was understood, in a sentence."""
    kind = "single runs" if table.single_runs else "means"
    paired = f", paired by {table.columns['block']}" if table.paired else ""
    first = table.rows[0]
    unit = f" in {first.unit}" if first.unit else ""
    better = f", {first.better} is better" if first.better else ""
    cells = len({tuple(one.cell.items()) for one in compared})
    return (
        f"{numbers.count(len(table.rows), 'value')} read as {kind}{unit}{better}{paired}: "
        f"{numbers.count(len(compared), 'comparison')} in {numbers.count(cells, 'cell')}."
    )
