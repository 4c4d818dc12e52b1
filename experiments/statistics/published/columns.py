"""Roles of the columns of a published table: recognised by name, unless a person chooses them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from experiments.statistics.published import printed
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import SPREAD, Sheet
from experiments.statistics.values import Better

ROLES = {
    "environment": "environment env container runtime",
    "mean": "mean average mean_value mean_time average_time",
    "value": "value time seconds training_time total_time step_time wall_time elapsed duration "
    "throughput",
    "sd": "sd std stdev stddev std_dev standard_deviation",
    "se": "se sem stderr std_err standard_error standard_error_of_the_mean",
    "cv": "cv cov cv_percent coefficient_of_variation",
    "ci_low": "",
    "ci_high": "",
    "n": "n runs n_runs number_of_runs repeats repetitions",
    "steps": "steps n_steps number_of_steps batches n_batches iterations",
    "unit": "unit units",
    "direction": "direction better",
    "precision": "precision rounded_to",
    "block": "block pair",
    "run": "run run_id repeat repetition",
    "node": "node host hostname",
    "began": "began_at started_at",
    "state": "",
    "arm": "",
    "label": "",
    "ignore": "median min max minimum maximum",
}
"""Role -> the names by which it is recognised.

Columns in the role "arm" hold the numbers of an environment of their own name; of rows with a
"state" only those that succeeded count; rows with the same labels are compared with each other.
"""
SEVERAL = {"arm", "label", "ignore"}
"""Roles that any number of columns may have; every other one belongs to a single column."""
OF_ONE_COLUMN = {
    "environment",
    "mean",
    "value",
    "sd",
    "se",
    "cv",
    "ci_low",
    "ci_high",
    "n",
    "steps",
}
HYPERFINE = {"command", "mean", "stddev", "median", "user", "system", "min", "max"}
"""The header of hyperfine's CSV, in which user and system are processor times."""
SPREADS = ("sd", "se", "cv", "ci_low")
"""Roles of a spread; ci_high belongs to ci_low."""
CI_WORDS = {"ci", "ci90", "ci95", "ci99", "confidence"}
CI_BOUNDS = {"low": "ci_low", "lower": "ci_low", "lo": "ci_low"} | dict.fromkeys(
    ("high", "upper", "hi"), "ci_high"
)
"""Roles that make no sense in a table with a column for each environment."""
SAY_WHICH = {"error", "err", "uncertainty", "spread", "plus_minus", "pm"}
"""Names of a spread that do not say whether it is an SD or an SE."""
LABELS = {"gpus", "gpu", "nodes", "scale", "model", "workload", "epochs", "batch_size", "data"}
"""Columns that are never an environment in a table with a column for each environment."""
LEVEL = re.compile(
    r"(?<![\w.])([5-9]\d(?:\.\d+)?)\s*(?:%|pct|percent|(?=_?\s?ci\b|_?\s?ci_))"
    r"|(?<![a-z])ci\s?_?([5-9]\d(?:\.\d+)?)(?![\d.])"
)
"""The level in the name of a bound: "95 % CI low", "ci95_low", "95 CI upper"."""
RATE = re.compile(r"(?:(.+)_)?([a-z]+)_per_(?:s|sec|second)")
TIME = re.compile(r"(?:(.+)_)?(ns|us|ms|s|sec|seconds|min|minutes|h|hours)")
CLOCK = re.compile(r"(?:(.+)_)?(hh_mm_ss|hh_mm|mm_ss)")
SPELT = {"sec": "s", "seconds": "s", "minutes": "min", "hours": "h", "img/s": "images/s"}
OUR_RUNS = {"run", "job", "block", "position", "workload", "environment", "scale", "state"}
"""The columns by which Tare's own export of runs is recognised."""
OUR_ROLES = {
    "run": "run",
    "block": "block",
    "environment": "environment",
    "state": "state",
    "node": "node",
    "began_at": "began",
    "workload": "label",
    "scale": "label",
}
OUR_METRIC = re.compile(r".+ \(.+\)")
OUR_FIRST_CHOICE = "step_time (s)"
NEEDED = (
    "Needed: environment and mean (with sd or se, and n) for a table of means; environment and "
    "value (and perhaps block) for single runs; or one column an environment, the baseline's name "
    "among them"
)


@dataclass(frozen=True)
class Reading:
    """A person's choices about a table; whatever is not chosen is recognised by name.

    `roles` is column name -> role. Unit, direction and number of runs are those of the whole
    table, where no column has them.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    better: Better | None = None
    n: int | None = None
    decimal: str = ""
    """"point" or "comma": what stands before the decimals of the table's numbers."""


NOTHING_CHOSEN = Reading()


def recognise(sheet: Sheet, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return every column's role, in the order of the columns; "" where a person must choose."""
    if sheet.roles:
        return _roles_of_format(sheet, chosen)
    if set(sheet.header) >= OUR_RUNS:
        return _roles_of_our_export(sheet, chosen)
    roles = {name: chosen.get(name) or _role_by_name(name) for name in sheet.header}
    # A column of text is a label, whatever its name; what was one before is read as one again.
    names_of_texts = [
        name
        for name, role in roles.items()
        if role in ("ignore", "cv") and name not in chosen and _has_text(sheet, name)
    ]
    roles |= dict.fromkeys(names_of_texts, "label")
    if set(sheet.header) >= HYPERFINE:
        roles |= {name: "ignore" for name in ("user", "system") if name not in chosen}
    if sheet.spread:
        roles |= {
            name: sheet.spread
            for name in sheet.header
            if name.endswith(SPREAD) and name not in chosen
        }
    if "sd" in roles.values() or "se" in roles.values():
        # The other spreads follow from the first.
        roles = {
            name: "ignore" if role in ("cv", "ci_low", "ci_high") and name not in chosen else role
            for name, role in roles.items()
        }
    taken = set(roles.values())
    if "value" in taken and "mean" not in taken and taken & {"", *SPREADS, "n", "steps"}:
        # A value with a spread is a mean.
        roles = {
            name: "mean" if role == "value" and name not in chosen else role
            for name, role in roles.items()
        }
    free = [name for name, role in roles.items() if role == "label" and name not in chosen]
    if not taken & {"environment", "mean", "value"}:
        arms = [name for name in free if _is_arm(sheet, name)]
        roles |= dict.fromkeys(arms, "arm")
    elif not taken & {"environment", "arm"}:
        # If only one column holds text, it names the environments.
        texts = [name for name in free if not any(map(printed.is_number, sheet.column(name)))]
        if len(texts) == 1 and len(set(sheet.column(texts[0]))) > 1:
            roles[texts[0]] = "environment"
    return roles


def check(sheet: Sheet, roles: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return role -> column for roles of a single column. TableError says what is wrong."""
    columns_found = f"Columns found: {', '.join(sheet.header)}."
    for name in chosen:
        if name not in sheet.header:
            raise TableError(f"Row 1: there is no column {name}. {columns_found}")
    spreads = {column for column, _ in match_spreads(roles).values()}
    columns: dict[str, str] = {}
    for name, role in roles.items():
        if not role:
            raise TableError(f"Row 1, column {name}: name it sd or se, so that it says which.")
        if role not in ROLES:
            raise TableError(f"Row 1, column {name}: {role} is no role. Roles: {', '.join(ROLES)}.")
        if role in SEVERAL or name in spreads:
            continue
        if role in columns:
            raise TableError(
                f"Row 1: the columns {columns[role]} and {name} are both read as {role}; "
                f"which counts? {columns_found}"
            )
        columns[role] = name
    for first, second in (
        ("sd", "se"),
        *((spread, other) for spread in ("sd", "se") for other in ("cv", "ci_low")),
        ("cv", "ci_low"),
        ("mean", "value"),
        ("n", "steps"),
    ):
        if first in columns and second in columns:
            raise TableError(
                f"Row 1: {columns[first]} and {columns[second]} cannot both count; leave out one. "
                f"{columns_found}"
            )
    if ("ci_low" in columns) != ("ci_high" in columns):
        raise TableError(
            f"Row 1: an interval has two bounds, and only one is named. {columns_found}"
        )
    has_arms = "arm" in roles.values()
    is_long = "environment" in columns and columns.keys() & {"mean", "value"}
    if has_arms == bool(is_long) or (has_arms and columns.keys() & OF_ONE_COLUMN):
        raise TableError(f"{_ask_for_column(columns)}{columns_found} {NEEDED}.")
    return columns


def match_spreads(roles: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return, by environment with a column of its own, the column of its spread and its role."""
    pairs = ((name, name + SPREAD) for name, role in roles.items() if role == "arm")
    return {
        name: (spread, roles[spread]) for name, spread in pairs if roles.get(spread) in {"sd", "se"}
    }


@lru_cache(maxsize=1024)  # called for every row of a table
def split_column_name(name: str) -> tuple[str, str, Better | None]:
    """Return the base name, unit and direction in a column's name: "mean", "s", "lower".

    "Mean (s)" -> "mean", "s", "lower"; "mean_images_per_second" -> ..., "higher".

    A clock's unit is its form: "time_hh_mm" -> "time", "hh:mm", "lower".
    """
    spelt = re.sub("[µμ]", "u", name.casefold()).replace("/", "_per_")
    plain = re.sub(r"[^a-z0-9]+", "_", spelt).strip("_")
    if clock := CLOCK.fullmatch(plain):
        return clock[1] or "", clock[2].replace("_", ":"), "lower"
    if rate := RATE.fullmatch(plain):
        unit = f"{rate[2]}/s"
        return rate[1] or "", SPELT.get(unit, unit), "higher"
    time = TIME.fullmatch(plain)
    if time and (time[1] or len(plain) > 4):  # "min" alone may be a minimum
        return time[1] or "", SPELT.get(time[2], time[2]), "lower"
    return plain, "", None


def normalize_unit(text: str) -> tuple[str, Better | None]:
    """Return a unit written by a person in its standard spelling, and the direction it implies."""
    _, unit, better = split_column_name(f"in {text}")
    return unit or text, better


def _role_by_name(name: str) -> str:
    base, unit, _ = split_column_name(name)
    if base in SAY_WHICH or "±" in name:
        return ""
    if not base and unit:
        return "value"  # "images_per_second"
    words = base.split("_")
    if CI_WORDS & set(words):
        return next((CI_BOUNDS[word] for word in words if word in CI_BOUNDS), "label")
    return next((role for role, names in ROLES.items() if base in names.split()), "label")


def _ask_for_column(columns: Mapping[str, str]) -> str:
    """Return the question to ask where one column is all that is missing, else ""."""
    if "environment" not in columns and columns.keys() & {"mean", "value"}:
        return "Which column names the environment? "
    if "environment" in columns and not columns.keys() & {"mean", "value"}:
        return "Which column holds the means, or the values of single runs? "
    return ""


def _is_arm(sheet: Sheet, name: str) -> bool:
    return name.casefold() not in LABELS and any(map(printed.is_number, sheet.column(name)))


def _roles_of_our_export(sheet: Sheet, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the roles in Tare's export of runs: other columns and further metrics are ignored."""
    roles = {name: chosen.get(name) or OUR_ROLES.get(name, "ignore") for name in sheet.header}
    metrics = [name for name in list_metrics(sheet) if name not in chosen]
    if "value" not in chosen.values() and metrics:
        roles[OUR_FIRST_CHOICE if OUR_FIRST_CHOICE in metrics else metrics[0]] = "value"
    if "block" not in chosen and not _has_several(sheet, "block", "environment"):
        roles["block"] = "ignore"  # every run was a job of its own
    return roles


def _roles_of_format(sheet: Sheet, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the roles that a format says; a role of one column goes to the one that is chosen."""
    taken = {role for role in chosen.values() if role not in SEVERAL}
    own = {
        name: "ignore"
        if sheet.roles.get(name, "ignore") in taken
        else sheet.roles.get(name, "ignore")
        for name in sheet.header
    }
    return {name: chosen.get(name) or own[name] for name in sheet.header}


def find_level(name: str) -> float | None:
    """Return the level of a confidence interval in a column's name: 0.95 of "95 % CI low"."""
    matches = LEVEL.findall(name.casefold())
    levels = {float(digits) / 100 for match in matches for digits in match if digits}
    return levels.pop() if len(levels) == 1 else None


def tells_decimals(names: Sequence[str]) -> list[str]:
    """Return the columns whose numbers were measured, by their names: no label is among them."""
    roles = {name: _role_by_name(name) for name in names}
    if {"environment", "mean", "value"} & set(roles.values()):
        measured = ("mean", "value", *SPREADS, "ci_high", "")
        return [name for name, role in roles.items() if role in measured or name.endswith(SPREAD)]
    return [name for name in names if name.casefold() not in LABELS]


def _has_text(sheet: Sheet, name: str) -> bool:
    texts = (text.removesuffix("%").strip() for text in sheet.column(name))
    return any(text and not printed.is_number(text) for text in texts)


def list_metrics(sheet: Sheet) -> list[str]:
    """Return the columns of which one is compared, where a format has several; else none."""
    if sheet.metrics:
        return list(sheet.metrics)
    if not set(sheet.header) >= OUR_RUNS:
        return []
    return [name for name in sheet.header if OUR_METRIC.fullmatch(name)]


def _has_several(sheet: Sheet, column: str, other: str) -> bool:
    """Return whether any value of `column` occurs with several values of `other`."""
    pairs = set(zip(sheet.column(column), sheet.column(other), strict=True))
    return len(pairs) > len(set(sheet.column(column)))
