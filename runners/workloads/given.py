"""Parameters of `command` that are more than a value: the files that are sent, and the metrics."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.workloads import patterns
from runners.workloads.parameters import Parameter, Value
from runners.workloads.results import Metric

MOST_METRICS, LONGEST_METRIC, LONGEST_UNIT = 20, 60, 30
MOST_FILES, LARGEST_FILE, LARGEST_TOGETHER = 20, 1_000_000, 4_000_000
LAST, MEAN, SERIES, RUNNING_RATE = "last", "mean", "series", "running_rate"
TAKES = (LAST, MEAN, SERIES, RUNNING_RATE)
"""Of several numbers: the last, the mean after the burn-in, or that and each as a step. Of rates
that are means of all steps so far: the last, and as steps the rates between them."""
OURS = "tare.py"
"""The recorder, under the name by which users import it."""
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
READS_A_FILE = {"csv", "json"}


def why_no_file_name(name: str) -> str:
    """What stands against sending a file of this name; empty if nothing does."""
    if not FILE_NAME.fullmatch(name):
        return (
            f"A file that is sent has a plain name of letters, digits and . _ -, not {name[:80]!r}."
        )
    return f"{OURS} is Tare’s own recorder: name yours otherwise." if name == OURS else ""


@dataclass(frozen=True, kw_only=True)
class FilesParameter(Parameter):
    """Name -> sha256 of what is sent; the contents lie elsewhere."""

    def clean(self, given: object) -> Value:
        if not isinstance(given, Mapping):
            raise ValueError(f"must be a table of names and check sums; got {given!r}")
        if len(given) > MOST_FILES:
            raise ValueError(f"must be at most {MOST_FILES}; there are {len(given)}")
        for name, sha256 in given.items():
            if why := why_no_file_name(str(name)):
                raise ValueError(f"cannot be so: {why}")
            if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
                raise ValueError(f"must have a sha256 each; {name} has {sha256!r}")
        return {str(name): str(sha256) for name, sha256 in sorted(given.items())}

    def in_words(self, value: Any) -> str:
        return "\n".join(f"{name} (sha256 {sha256[:12]}…)" for name, sha256 in value.items())


@dataclass(frozen=True, kw_only=True)
class MetricsParameter(Parameter):
    """Rows with name, unit, better, find and take, each a text."""

    def clean(self, given: object) -> Value:
        if not isinstance(given, list | tuple):
            raise ValueError(f"must be a list of metrics; got {given!r}")
        if len(given) > MOST_METRICS:
            raise ValueError(f"must be at most {MOST_METRICS}; there are {len(given)}")
        rows = [_row(row) for row in given]
        names = [row["name"] for row in rows]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"must have a name each; {twice[0]} is there twice")
        return rows

    def in_words(self, value: Any) -> str:
        return "\n".join(metric_in_words(row) for row in value)


def metric_in_words(row: Mapping[str, str]) -> str:
    take = row["take"].replace("_", " ")
    found = f" = {take} of {row['find']}" if row["find"] else f", {take}"
    return f"{row['name']} in {row['unit']} ({row['better']} is better){found}"


def _row(row: object) -> dict[str, str]:
    """A row with all its texts. Raises ValueError with the metric's name."""
    if not isinstance(row, Mapping) or not all(isinstance(one, str) for one in row.values()):
        raise ValueError(f"must be tables of texts; got {row!r}")
    filled = {"name": "", "unit": "1", "better": "lower", "find": "", "take": LAST, **row}
    problems = row_refusals(filled)
    if problems:
        raise ValueError(f"cannot be so: {filled['name'] or 'a metric'}: {problems[0][1]}")
    return filled


def row_refusals(row: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is wrong with a metric: pairs of which part it is and why."""
    found = []
    for name in row.keys() - {"name", "unit", "better", "find", "take"}:
        found.append(("", f"there is no {name!r} of a metric"))
    if not METRIC_NAME.fullmatch(row["name"]) or len(row["name"]) > LONGEST_METRIC:
        what = f"a name is letters, digits and _, at most {LONGEST_METRIC} of them"
        found.append(("name", f"{what}; not {row['name']!r}"))
    if not row["unit"] or not row["unit"].isprintable() or len(row["unit"]) > LONGEST_UNIT:
        found.append(("unit", f"a unit has 1 to {LONGEST_UNIT} characters; a plain number has 1"))
    if row["better"] not in ("lower", "higher"):
        found.append(("better", f"better is lower or higher, not {row['better']!r}"))
    if row["take"] not in TAKES:
        found.append(("take", f"what is taken is one of {', '.join(TAKES)}, not {row['take']!r}"))
    if len(row["find"]) > patterns.LONGEST or not row["find"].isprintable():
        found.append(("find", f"it is one line of at most {patterns.LONGEST} characters"))
    return found


def why_no_running_rate(row: Mapping[str, str], reads: str) -> str:
    """What a rate lacks that is to be taken as a mean of all steps so far; empty: nothing.

    Raises PatternError.
    """
    if row["take"] != RUNNING_RATE:
        return ""
    if reads == "patterns" and patterns.names_steps(row["find"]):
        return ""
    return (
        "a running rate needs a pattern with two groups, the step and the rate, such as "
        r"(?P<step>\d+) images/sec: (\S+)"
    )


def metrics(rows: Sequence[Mapping[str, str]]) -> list[Metric]:
    return [
        Metric(
            row["name"],
            row["unit"],
            "higher" if row["better"] == "higher" else "lower",
            row["name"].replace("_", " ").capitalize(),
        )
        for row in rows
    ]


def refusals(cleaned: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with parameters that are right one by one, by name."""
    found: dict[str, str] = {}
    if not cleaned["argv"]:
        found["argv"] = "must say which program to start; it is empty"
    elif not cleaned["argv"][0]:
        found["argv"] = "must begin with the program; its first word is empty"
    reads, file = cleaned["read"], cleaned["file"]
    if reads in READS_A_FILE and not file:
        found["file"] = "must name the file that the program writes"
    if file and (file.startswith("/") or {"", ".", ".."} & set(file.split("/"))):
        found["file"] = f"must be a path inside the run’s folder; got {file!r}"
    if reads in {*READS_A_FILE, "patterns"} and not cleaned["metrics"]:
        found["metrics"] = "must name at least one number that is to be read"
    if reads == "patterns":
        for row in cleaned["metrics"]:
            try:
                patterns.check(row["find"])
            except patterns.PatternError as error:
                found.setdefault("metrics", f"must have patterns that work: {row['name']}: {error}")
    for row in cleaned["metrics"]:
        if "metrics" not in found and (why := why_no_running_rate(row, reads)):
            found["metrics"] = f"cannot be so: {row['name']}: {why}"
    return found
