"""Read a published table: a CSV of means with their spread, or of single runs.

Columns are recognised by their names (`ROLES`), units by the end of a name ("mean_s"); whatever is
not recognised is a label, and rows with the same labels are compared with each other. Without a
column for the environment each environment may have a column of its own. Rows are counted as a
spreadsheet does: the header is row 1.
"""

import csv
import io
import re
from dataclasses import dataclass, field

from experiments.statistics import printed
from experiments.statistics.printed import Place, Printed, TableError
from experiments.statistics.values import Better

MOST_BYTES = 20_000_000
MOST_ROWS = 100_000
MOST_COLUMNS = 100

ROLES = {
    "environment": "environment env container runtime",
    "mean": "mean average mean_value mean_time average_time",
    "value": "value time seconds training_time total_time step_time wall_time elapsed duration "
    "throughput",
    "sd": "sd std stdev stddev std_dev standard_deviation",
    "se": "se sem stderr std_err standard_error standard_error_of_the_mean",
    "n": "n runs n_runs number_of_runs repeats repetitions",
    "steps": "steps n_steps number_of_steps batches n_batches iterations",
    "unit": "unit units",
    "direction": "direction better",
    "precision": "precision rounded_to",
    "block": "block pair",
    "run": "run run_id repeat repetition",
    "node": "node host hostname",
}
SAY_WHICH = {"error", "err", "uncertainty", "spread", "plus_minus", "pm"}
"""Names of a spread that do not say whether it is an SD or an SE."""
LABELS = {"gpus", "gpu", "nodes", "scale", "model", "workload", "epochs", "batch_size", "data"}
"""In a table with a column an environment these are never one."""
RATE = re.compile(r"(?:(.+)_)?([a-z]+)_per_(?:s|sec|second)")
TIME = re.compile(r"(?:(.+)_)?(ns|us|ms|s|sec|seconds|min|minutes|h|hours)")
SPELT = {"sec": "s", "seconds": "s", "minutes": "min", "hours": "h", "img/s": "images/s"}
NEEDED = (
    "Needed: environment and mean (with sd or se, and n) for a table of means; environment and "
    "value (and perhaps block) for single runs; or one column an environment, the baseline's name "
    "among them"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One environment of one cell: a mean, or (`Table.single_runs`) one run."""

    place: Place
    """Where the mean or value stands."""
    cell: tuple[str, ...]
    environment: str
    mean: Printed
    sd: Printed | None = None
    se: Printed | None = None
    n: int | None = None
    steps: int | None = None
    """Over how many steps of a single run, where the table says that instead of n."""
    unit: str = ""
    better: Better | None = None
    block: str = ""
    run: str = ""
    node: str = ""


@dataclass(frozen=True)
class Table:
    """Rows in the order of the file; `columns` says which name plays which role."""

    labels: tuple[str, ...]
    rows: list[Row]
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def single_runs(self) -> bool:
        return "value" in self.columns

    @property
    def paired(self) -> bool:
        return "block" in self.columns


def read_table(content: bytes, *, baseline: str) -> Table:
    """Parse a CSV (UTF-8; comma, semicolon or tab).

    `baseline` is looked at only to recognise a table with a column for each environment.
    TableError: not such a table, too large, or a number that cannot be compared.
    """
    header, lines = _lines(content)
    roles = _roles(header)
    found = f"Columns found: {', '.join(header)}."
    has_numbers = "mean" in roles or "value" in roles
    if has_numbers and "environment" in roles:
        return _long(header, roles, lines)
    if not has_numbers and "environment" not in roles and baseline in header:
        return _wide(header, baseline, lines)
    raise TableError(f"{found} {NEEDED}.")


def _lines(content: bytes) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and each further line with its number."""
    if len(content) > MOST_BYTES:
        raise TableError(f"The file is larger than {MOST_BYTES // 10**6} MB; one row a run is due.")
    if not content.strip():
        raise TableError("The file is empty.")
    if b"\0" in content:
        raise TableError("This is not a CSV: it holds bytes that are not text.")
    stream = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")
    try:
        first = stream.readline()
        stream.seek(0)
        delimiter = max(",;\t", key=first.count)
        if delimiter not in first:
            raise TableError("This is not a CSV: row 1 has no comma, semicolon or tab.")
        if first.count(delimiter) >= MOST_COLUMNS:
            raise TableError(f"Row 1 has more than {MOST_COLUMNS} columns.")
        reader = csv.reader(stream, delimiter=delimiter)
        header = [name.strip() for name in next(reader)]
        lines: list[tuple[int, list[str]]] = []
        for fields in reader:
            if not any(map(str.strip, fields)):
                continue
            if len(lines) == MOST_ROWS:
                raise TableError(
                    f"The file has more than {MOST_ROWS:,} rows. One row a run is due; the steps "
                    "of a run are one value, their mean."
                )
            if len(fields) != len(header):
                raise TableError(
                    f"Row {reader.line_num} has {len(fields)} fields, the header has {len(header)}."
                )
            lines.append((reader.line_num, [text.strip() for text in fields]))
    except UnicodeDecodeError:
        raise TableError("This is not a CSV: it is not text in UTF-8.") from None
    except csv.Error as error:
        raise TableError(f"This is not a CSV: {error}.") from None
    if repeated := [name for i, name in enumerate(header) if not name or name in header[:i]]:
        raise TableError(f"Row 1: the column {repeated[0]!r} is nameless or there twice.")
    if not lines:
        raise TableError("The file has a header and no rows.")
    return header, lines


def _roles(header: list[str]) -> dict[str, int]:
    """Role -> index of its column."""
    roles: dict[str, int] = {}
    for i, name in enumerate(header):
        base, unit, _ = _unit_of(name)
        if base in SAY_WHICH or "±" in name:
            raise TableError(f"Row 1, column {name}: name it sd or se, so that it says which.")
        role = next((role for role, names in ROLES.items() if base in names.split()), "")
        if not base and unit:
            role = "value"  # "images_per_second"
        if role in roles:
            raise TableError(
                f"Row 1: the columns {header[roles[role]]} and {name} are both read as {role}; "
                f"which counts? Columns found: {', '.join(header)}."
            )
        if role:
            roles[role] = i
    for one, other in (("sd", "se"), ("mean", "value"), ("n", "steps")):
        if one in roles and other in roles:
            raise TableError(
                f"Row 1: {header[roles[one]]} and {header[roles[other]]} cannot both count; "
                f"leave out one. Columns found: {', '.join(header)}."
            )
    if "value" in roles and roles.keys() & {"sd", "se", "n", "steps"}:
        roles["mean"] = roles.pop("value")  # a value with a spread is a mean
    return roles


def _unit_of(name: str) -> tuple[str, str, Better | None]:
    """ "Mean (s)" -> "mean", "s", "lower"; "mean_images_per_second" -> ..., "higher"."""
    spelt = re.sub("[µμ]", "u", name.casefold()).replace("/", "_per_")
    plain = re.sub(r"[^a-z0-9]+", "_", spelt).strip("_")
    if rate := RATE.fullmatch(plain):
        unit = f"{rate[2]}/s"
        return rate[1] or "", SPELT.get(unit, unit), "higher"
    time = TIME.fullmatch(plain)
    if time and (time[1] or len(plain) > 4):  # "min" alone may be a minimum
        return time[1] or "", SPELT.get(time[2], time[2]), "lower"
    return plain, "", None


def _long(header: list[str], roles: dict[str, int], lines: list[tuple[int, list[str]]]) -> Table:
    columns = {role: header[i] for role, i in roles.items()}
    labels = [i for i in range(len(header)) if i not in roles.values()]
    measured = "mean" if "mean" in roles else "value"
    _, unit, _ = _unit_of(columns[measured])
    _check_units(columns, measured, unit)
    step = printed.finest(fields[roles[measured]] for _, fields in lines)
    rows = []
    for number, fields in lines:
        texts = {role: fields[i] for role, i in roles.items() if fields[i]}
        places = {role: Place(number, name) for role, name in columns.items()}
        for role in ("environment", "block"):
            if role in roles and role not in texts:
                raise TableError(f"{places[role]}: it is empty.")
        _, own_unit, own_better = _unit_of(f"in {texts.get('unit', unit)}")
        own_unit = own_unit or texts.get("unit", unit)
        if unit and own_unit != unit:
            raise TableError(
                f"{places['unit']}: mixed units, {own_unit} here and {unit} in the name of the "
                f"column {columns[measured]}."
            )
        if "direction" in texts:
            own_better = printed.direction(texts["direction"], places["direction"])
        rounded = None
        if "precision" in texts:
            rounded = printed.number(texts["precision"], places["precision"], zero=True)
        rows.append(
            Row(
                place=places[measured],
                cell=tuple(fields[i] for i in labels),
                environment=texts["environment"],
                mean=printed.mean(
                    texts.get(measured, ""),
                    places[measured],
                    step=step if rounded is None else rounded,
                ),
                sd=printed.spread(texts.get("sd", ""), places.get("sd"), step=rounded),
                se=printed.spread(texts.get("se", ""), places.get("se"), step=rounded),
                n=printed.count(texts.get("n", ""), places.get("n")),
                steps=printed.count(texts.get("steps", ""), places.get("steps")),
                unit=own_unit,
                better=own_better,
                block=texts.get("block", ""),
                run=texts.get("run", ""),
                node=texts.get("node", ""),
            )
        )
    return Table(tuple(header[i] for i in labels), rows, columns)


def _check_units(columns: dict[str, str], measured: str, unit: str) -> None:
    for role in ("sd", "se"):
        _, other, _ = _unit_of(columns.get(role, ""))
        if unit and other and unit != other:
            raise TableError(
                f"Row 1: mixed units, {columns[measured]} is in {unit} and {columns[role]} in "
                f"{other}."
            )


def _wide(header: list[str], baseline: str, lines: list[tuple[int, list[str]]]) -> Table:
    """A column an environment: means without spread or n."""
    environments = [
        i
        for i, name in enumerate(header)
        if name == baseline
        or (
            name.casefold() not in LABELS
            and any(printed.is_number(fields[i]) for _, fields in lines)
        )
    ]
    labels = [i for i in range(len(header)) if i not in environments]
    steps = {i: printed.finest(fields[i] for _, fields in lines) for i in environments}
    rows = []
    for number, fields in lines:
        for i in filter(fields.__getitem__, environments):  # an empty field was not measured
            place = Place(number, header[i])
            rows.append(
                Row(
                    place=place,
                    cell=tuple(fields[label] for label in labels),
                    environment=header[i],
                    mean=printed.mean(fields[i], place, step=steps[i]),
                )
            )
    return Table(tuple(header[i] for i in labels), rows)
