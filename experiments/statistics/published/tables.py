"""Read a published table: a CSV of means with their spread, or of single runs.

`columns` says what each column is, `sheets` what a table is at all. Rows are counted as a
spreadsheet does: the header is row 1.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from experiments.statistics.published import printed
from experiments.statistics.published.columns import (
    NOTHING_CHOSEN,
    Reading,
    check,
    match_spreads,
    normalize_unit,
    recognise,
    split_column_name,
)
from experiments.statistics.published.formats import read_sheet
from experiments.statistics.published.printed import Place, Printed, TableError
from experiments.statistics.published.sheets import Sheet, decode_text
from experiments.statistics.published.spreads import spread_from_cv, spread_from_interval
from experiments.statistics.values import Better

SUCCEEDED = {"succeeded", "success", "finished", "completed", "pass", "passed"}
"""States of a run that counts, as Tare, MLPerf, MLflow, Weights & Biases and ReFrame write it."""
NUMERIC = {"mean", "value", "sd", "se", "cv", "ci_low", "ci_high", "n", "steps", "precision", "arm"}
"""Roles of columns whose cells are numbers."""
MOST_ERRORS = 10
"""Faults of so many rows are named together."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One environment in one configuration: a mean, or (`Table.single_runs`) one run."""

    place: Place
    """The place of the mean or value in the file."""
    label_values: tuple[str, ...]
    """The values of `Table.labels`: they name the configuration."""
    environment: str
    mean: Printed
    sd: Printed | None = None
    se: Printed | None = None
    n: int | None = None
    steps: int | None = None
    """The number of steps of a single run, if the table has that instead of n."""
    unit: str = ""
    better: Better | None = None
    block: str = ""
    run: str = ""
    node: str = ""
    began: float | None = None
    """The start of the run, in seconds since the epoch."""


@dataclass(frozen=True)
class Table:
    """A published table: rows in the order of the file; `columns` is role -> column."""

    labels: tuple[str, ...]
    rows: list[Row]
    columns: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    """The number of rows of runs that did not succeed."""
    one_process: str = ""
    """Why the values of an environment share a process, as a sentence; "" if they do not."""

    @property
    def single_runs(self) -> bool:
        wide = "environment" not in self.columns
        return "value" in self.columns or (wide and bool(self.columns.keys() & {"block", "run"}))

    @property
    def paired(self) -> bool:
        return "block" in self.columns

    @property
    def measured(self) -> str:
        """Return the column that is compared; "" where each environment has a column."""
        return self.columns.get("mean") or self.columns.get("value") or ""

    @property
    def environments(self) -> list[str]:
        """Return the environments in the order of the file."""
        return list(dict.fromkeys(row.environment for row in self.rows))


def read_table(
    content: bytes | str | Sheet, *, baseline: str = "", reading: Reading = NOTHING_CHOSEN
) -> Table:
    """Read a table: bytes of a file, its text, or the sheet that `read_sheet` made of it.

    What `reading` does not say is recognised. `baseline` is looked at only to recognise a table
    with a column for each environment. TableError: not such a table, too large, or a number that
    cannot be compared.
    """
    if isinstance(content, bytes):
        content = decode_text(content)
    sheet = read_sheet(content, reading.decimal) if isinstance(content, str) else content
    roles = recognise(sheet, reading.roles)
    if baseline in roles and "environment" not in roles.values():
        reading_of_baseline = {baseline: "arm", **reading.roles}
        roles = recognise(sheet, reading_of_baseline)
    columns = check(sheet, roles, reading.roles)
    _check_doubts(sheet, roles)
    sheet, left_out = _succeeded(sheet, columns)
    labels = tuple(name for name, role in roles.items() if role == "label")
    arms = [name for name, role in roles.items() if role == "arm"]
    lines = _Lines(sheet, columns, match_spreads(roles), labels, reading)
    rows, errors = [], []
    for read in lines.of_arms(arms) if arms else lines.of_one(columns):
        try:
            rows.append(read())
        except TableError as error:
            errors.append(str(error))
        if len(errors) == MOST_ERRORS:
            break
    if errors:
        raise TableError(errors[0], errors[1:])
    return Table(labels, rows, columns, left_out, sheet.one_process)


def _check_doubts(sheet: Sheet, roles: Mapping[str, str]) -> None:
    """Raise a TableError for a column that is needed and whose numbers can be read in two ways."""
    for name, doubt in sheet.doubts.items():
        if roles.get(name) in NUMERIC:
            raise TableError(
                f"Row 1, column {name}: {doubt}. Write a decimal point, and nothing between "
                "thousands, or say how the numbers are written."
            )


def _succeeded(sheet: Sheet, columns: dict[str, str]) -> tuple[Sheet, int]:
    """Return the rows that may be compared, and how many may not."""
    if "state" not in columns:
        return sheet, 0
    place = sheet.header.index(columns["state"])
    rows = [row for row in sheet.rows if row[1][place].casefold() in SUCCEEDED]
    if not rows:
        raise TableError(f"Column {columns['state']}: no row is succeeded, finished or pass.")
    return replace(sheet, rows=rows), len(sheet.rows) - len(rows)


@dataclass(frozen=True)
class _Lines:
    """The lines of a sheet, with what is known about its columns."""

    sheet: Sheet
    columns: dict[str, str]
    spreads: dict[str, tuple[str, str]]
    """Environment with a column of its own -> the column of its spread, and its role, sd or se."""
    labels: tuple[str, ...]
    reading: Reading

    def of_one(self, columns: dict[str, str]) -> Iterator[Callable[[], Row]]:
        """Yield a reader of each row; one column holds the numbers of every environment."""
        measured = columns.get("mean") or columns["value"]
        unit, _ = self._unit(measured)
        for role in ("sd", "se", "ci_low", "ci_high"):
            other = split_column_name(columns.get(role, ""))[1]
            if unit and other and unit != other:
                raise TableError(
                    f"Row 1: mixed units, {measured} is in {unit} and {columns[role]} in {other}."
                )
        step = printed.find_finest_step(self.sheet.column(measured))
        for number, texts in self._texts():
            environment = texts.get(columns["environment"], "")
            yield partial(self._row, number, texts, measured, environment, step)

    def of_arms(self, arms: list[str]) -> Iterator[Callable[[], Row]]:
        """Yield a reader of each row and environment; each environment has its own column."""
        steps = {name: printed.find_finest_step(self.sheet.column(name)) for name in arms}
        for number, texts in self._texts():
            for name in filter(texts.get, arms):  # an empty field was not measured
                yield partial(self._row, number, texts, name, name, steps[name])

    def _texts(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield each row's number, and its fields by their columns; empty ones are left out."""
        for number, fields in self.sheet.rows:
            pairs = zip(self.sheet.header, fields, strict=True)
            yield number, {name: text for name, text in pairs if text}

    def _unit(self, measured: str) -> tuple[str, Better | None]:
        """Return unit and direction: those a person chose for the table, else by column name."""
        return (
            normalize_unit(self.reading.unit)
            if self.reading.unit
            else split_column_name(measured)[1:]
        )

    def _row(
        self, number: int, texts: dict[str, str], measured: str, environment: str, step: float
    ) -> Row:
        by_role = {role: texts[name] for role, name in self.columns.items() if name in texts}
        places = {role: Place(number, name) for role, name in self.columns.items()}
        if measured in self.spreads:
            column, role = self.spreads[measured]
            by_role[role], places[role] = texts.get(column, ""), Place(number, column)
        for role in ("environment", "block"):
            if role in places and role not in by_role:
                raise TableError(f"{places[role]}: it is empty.")
        unit, better = self._unit_of_row(by_role, places, measured)
        precision = None
        if "precision" in by_role:
            precision = printed.read_number(by_role["precision"], places["precision"], zero=True)
        clock = unit if unit in printed.CLOCKS else ""
        place = Place(number, measured)
        mean = printed.read_mean(
            texts.get(measured, ""),
            place,
            step=step if precision is None else precision,
            clock=clock,
        )
        count = printed.count(by_role.get("n", ""), places.get("n"))
        if count is None and not {"n", "steps"} & self.columns.keys():
            count = self.reading.n or self.sheet.n
        spreads = {
            role: printed.read_spread(
                by_role.get(role, ""), places.get(role), step=precision, clock=clock
            )
            for role in ("sd", "se")
        }
        if by_role.get("cv"):
            spreads["sd"] = spread_from_cv(mean, by_role["cv"], places["cv"])
        if "ci_low" in by_role and "ci_high" in by_role:
            bounds = (by_role["ci_low"], by_role["ci_high"])
            spreads["se"] = spread_from_interval(
                mean, bounds, (places["ci_low"], places["ci_high"]), count
            )
        return Row(
            place=place,
            label_values=tuple(texts.get(name, "") for name in self.labels),
            environment=environment,
            mean=mean,
            **spreads,
            n=count,
            steps=printed.count(by_role.get("steps", ""), places.get("steps")),
            unit=printed.CLOCKS.get(unit, unit),
            better=better,
            block=by_role.get("block", ""),
            run=by_role.get("run", ""),
            node=by_role.get("node", ""),
            began=_moment(by_role.get("began", ""), places.get("began")),
        )

    def _unit_of_row(
        self, by_role: dict[str, str], places: dict[str, Place], measured: str
    ) -> tuple[str, Better | None]:
        """Return unit and direction: the row's own, else the table's, else the column's."""
        unit, better = self._unit(measured)
        if "unit" in by_role:
            own, better = normalize_unit(by_role["unit"])
            if unit and own != unit:
                raise TableError(
                    f"{places['unit']}: mixed units, {own} here and {unit} in the name of the "
                    f"column {measured}."
                )
            unit = own
        better = self.reading.better or better
        if "direction" in by_role:
            better = printed.read_direction(by_role["direction"], places["direction"])
        return unit, better


def _moment(text: str, place: Place | None) -> float | None:
    """Return when a run began, in seconds since the epoch; a time without a zone is UTC."""
    if not text or place is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise TableError(
            f"{place}: {text!r} is not a time such as 2026-11-20T12:00:00+00:00."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
