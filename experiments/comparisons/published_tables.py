"""Published tables: the preview before one is saved, and the comparison of one that is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.comparisons import Comparison, Group
from experiments.models import PublishedTable
from experiments.statistics import Measured, numbers
from experiments.statistics.published.columns import (
    Reading,
    list_metrics,
    recognise,
    split_column_name,
)
from experiments.statistics.published.compare import (
    Compared,
    compare_table,
    describe_left_out,
    group_by_configuration,
    make_samples,
)
from experiments.statistics.published.formats import read_sheet
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet
from experiments.statistics.published.tables import Row, Table, read_table

MOST_BYTES = 2_000_000
"""Of a saved table: it is read again each time it is shown."""
MOST_ROWS = 10_000
MOST_COMPARISONS = 200
FIRST_ROWS = 10
BARE = re.compile(r"(bare.?metal|bare|native|host|baseline|no.?container|without.*)", re.IGNORECASE)
"""Usual names of the environment with which the others are compared."""


@dataclass(frozen=True)
class TableComparison(Comparison):
    """The comparison of the environments of a published table."""

    row: PublishedTable
    sheet: Sheet
    """The table as a person entered it."""
    table: Table
    left_out: list[str]
    """Sentences on what is not compared, and why."""

    @property
    def about(self) -> dict[str, Any]:
        return {"table": self.row.pk, **super().about, "source": self.row.source}


def compare_published(row: PublishedTable) -> TableComparison:
    """Compare every environment of a table with its baseline.

    TableError, if the text can no longer be compared: it could when it was saved.
    """
    reading = load_reading(row.reading)
    sheet = read_sheet(row.text, reading.decimal)
    table = read_table(sheet, baseline=row.baseline, reading=reading)
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
        left_out=describe_left_out(table, baseline=row.baseline),
    )


def load_reading(stored: Mapping[str, Any]) -> Reading:
    """Return how a table is to be read, from what its row has stored."""
    return Reading(**stored)


def dump_reading(reading: Reading) -> dict[str, Any]:
    """Return how a table is to be read, as its row stores it."""
    return asdict(reading) | {"roles": dict(reading.roles)}


def _groups(table: Table, compared: Sequence[Compared], baseline: str) -> list[Group]:
    """Return a group for each configuration with any environment beside the baseline."""
    groups = []
    for configuration, arms in group_by_configuration(table):
        if set(arms) == {baseline}:
            continue
        rows = [row for arm in arms.values() for row in arm]
        pairs = [
            comparison.pair for comparison in compared if comparison.configuration == configuration
        ]
        metric = Measured(table.measured, rows[0].unit, rows[0].better, _label(table.measured))
        samples = make_samples(rows) if table.single_runs else []
        problem = "" if baseline in arms else f"there is no row of {baseline} to compare with."
        groups.append(Group(configuration, metric, samples, pairs, problem))
    return groups


def _label(column: str) -> str:
    """Return the name of a column without its unit: "step_time (s)" -> "step time"."""
    return split_column_name(column)[0].replace("_", " ") or column or "value"


@dataclass(frozen=True)
class Column:
    """A column of a previewed table; `texts` are its fields in the rows shown."""

    name: str
    role: str
    texts: list[str]
    amiss: list[bool]
    """For each of the fields, whether a problem is about it."""


@dataclass(frozen=True)
class Preview:
    """A table as far as it could be read, and the problems that prevent its comparison."""

    columns: list[Column] = field(default_factory=list)
    row_numbers: list[int] = field(default_factory=list)
    """Numbers of the rows shown, as in a spreadsheet: the first, and those with problems."""
    rows: int = 0
    environments: list[str] = field(default_factory=list)
    baseline: str = ""
    """The requested one, else the one whose name is most like bare metal."""
    first: list[tuple[int, str, str, str]] = field(default_factory=list)
    """The first rows as they are read: number, configuration, environment and value as text."""
    summary: str = ""
    understood: list[str] = field(default_factory=list)
    """What the text was taken for, and what of it was assumed: formats, units, notes."""
    missing: str = ""
    """What the table lacks for a verdict, as a question; "" if nothing."""
    problem: str = ""
    further: list[str] = field(default_factory=list)
    """Problems of other rows."""
    left_out: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    """Columns of which one can be compared, where several have a number for each run."""

    @property
    def measured(self) -> str:
        """Return the name of the column that is compared."""
        return next(
            (column.name for column in self.columns if column.role in {"mean", "value"}), ""
        )

    @property
    def rest(self) -> int:
        """Return how many rows are not shown."""
        return self.rows - len(self.row_numbers)


def preview_table(text: str, *, reading: Reading, baseline: str, margin: float) -> Preview:
    """Read a table as far as it can be read; never raises."""
    try:
        sheet = read_sheet(text, reading.decimal)
        if len(sheet.rows) > MOST_ROWS:
            raise TableError(
                f"The table has {len(sheet.rows):,} rows; a page takes {MOST_ROWS:,}. One row a "
                "run is due: the steps of a run are one value, their mean."
            )
    except TableError as error:
        return Preview(problem=str(error))
    shown: dict[str, Any] = {
        **_columns_shown(sheet, reading, []),
        "rows": len(sheet.rows),
        "metrics": list_metrics(sheet),
        "understood": [f"Read as {sheet.format}.", *sheet.notes],
    }
    try:
        table = read_table(sheet, baseline=baseline, reading=reading)
    except TableError as error:
        problems = [str(error), *error.others]
        shown |= _columns_shown(sheet, reading, problems)
        return Preview(**shown, problem=problems[0], further=problems[1:])
    if baseline not in table.environments:
        baseline = suggest_baseline(table.environments)
    shown |= {
        "environments": table.environments,
        "baseline": baseline,
        "first": [_describe_row(row) for row in table.rows[:FIRST_ROWS]],
    }
    try:
        comparisons = sum(
            len(arms) - 1 for _, arms in group_by_configuration(table) if baseline in arms
        )
        if comparisons > MOST_COMPARISONS:  # checked before the work is done
            raise TableError(
                f"These are {comparisons:,} comparisons; a page shows {MOST_COMPARISONS} at most. "
                "Is a column a label that should be ignored?"
            )
        compared = compare_table(table, baseline=baseline, margin=margin)
    except TableError as error:
        shown |= _columns_shown(sheet, reading, [str(error)])
        return Preview(**shown, problem=str(error))
    return Preview(
        **shown,
        summary=_summary(table, compared),
        missing=_ask_for_missing(table),
        left_out=describe_left_out(table, baseline=baseline),
    )


def _ask_for_missing(table: Table) -> str:
    """Return a question for the number of runs or the spread of means that have none."""
    if table.single_runs:
        return ""
    if any(row.n is None and not row.steps for row in table.rows):
        return "How many runs stand behind each mean? Without that nothing can be inferred."
    if any(row.n != 1 and not (row.sd or row.se) for row in table.rows):
        return "Some means have neither an SD nor an SE: without a spread nothing can be inferred."
    return ""


def suggest_baseline(environments: Sequence[str]) -> str:
    """Return the environment whose name means bare metal, else the first."""
    return next((name for name in environments if BARE.fullmatch(name)), environments[0])


def _columns_shown(sheet: Sheet, reading: Reading, problems: Sequence[str]) -> dict[str, Any]:
    """Return the columns and row numbers of a preview: the first rows, and those with problems."""
    named = {number for problem in problems for number in _row_numbers_in(problem)}
    rows = [row for i, row in enumerate(sheet.rows) if i < FIRST_ROWS or row[0] in named]
    roles = recognise(sheet, reading.roles)

    def has_problem(number: int, name: str) -> bool:
        return any(problem.startswith(f"Row {number}, column {name}:") for problem in problems)

    columns = [
        Column(
            name,
            roles[name],
            [fields[column] for _, fields in rows],
            [has_problem(number, name) for number, _ in rows],
        )
        for column, name in enumerate(sheet.header)
    ]
    return {"columns": columns, "row_numbers": [number for number, _ in rows]}


def _row_numbers_in(problem: str) -> list[int]:
    """Return the rows that a problem begins with: "Row 3, column n: ...", "Rows 2 and 3 ..."."""
    numbers_at_start = re.match(r"Rows? ((?:\d+(?:, | and )?)+)", problem)
    return (
        [int(number) for number in re.findall(r"\d+", numbers_at_start[1])]
        if numbers_at_start
        else []
    )


def _describe_row(row: Row) -> tuple[int, str, str, str]:
    value = f"{row.mean.value:.10g}"
    if spread := row.sd or row.se:
        value += f" ± {spread.value:.10g}"
    details = [
        "SD" if row.sd else "SE" if row.se else "",
        f"n = {row.n}" if row.n else numbers.count(row.steps, "step") if row.steps else "",
    ]
    detail_text = ", ".join(filter(None, details))
    value_text = " ".join(
        filter(None, [value, row.unit, f"({detail_text})" if detail_text else ""])
    )
    return row.place.row, ", ".join(filter(None, row.label_values)), row.environment, value_text


def _summary(table: Table, compared: Sequence[Compared]) -> str:
    """Return a sentence that says how the table was read."""
    kind = "single runs" if table.single_runs else "means"
    paired = f", paired by {table.columns['block']}" if table.paired else ""
    first = table.rows[0]
    unit = f" in {first.unit}" if first.unit else ""
    better = f", {first.better} is better" if first.better else ""
    configurations = len({tuple(comparison.configuration.items()) for comparison in compared})
    return (
        f"{numbers.count(len(table.rows), 'value')} read as {kind}{unit}{better}{paired}: "
        f"{numbers.count(len(compared), 'comparison')} in "
        f"{numbers.count(configurations, 'configuration')}."
    )
