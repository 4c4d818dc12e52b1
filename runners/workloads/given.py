"""The structured parameters of `command`: the files that are sent, and the metrics to read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.workloads import patterns
from runners.workloads.file_names import explain_unsent_file
from runners.workloads.parameters import Parameter, Value
from runners.workloads.results import Metric

MOST_METRICS, LONGEST_METRIC, LONGEST_UNIT = 20, 60, 30
MOST_FILES, LARGEST_FILE, LARGEST_TOGETHER = 20, 1_000_000, 4_000_000
LAST, MEAN, SERIES, RUNNING_RATE = "last", "mean", "series", "running_rate"
TAKES = (LAST, MEAN, SERIES, RUNNING_RATE)
"""How several numbers become one: the last, their mean after the warm-up, or the mean with each
number as a step. For rates that are means of all steps so far: the last, with the rates between
them as steps."""
OURS = "tare.py"
"""The recorder, under the name by which users import it."""
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
READS_A_FILE = {"csv", "json"}


def why_no_file_name(name: str) -> str:
    """Return why no file of this name can be sent, or ""."""
    if not FILE_NAME.fullmatch(name):
        return (
            f"A file that is sent has a plain name of letters, digits and . _ -, not {name[:80]!r}."
        )
    return f"{OURS} is Tare’s own recorder: name yours otherwise." if name == OURS else ""


@dataclass(frozen=True, kw_only=True)
class FilesParameter(Parameter):
    """A parameter whose value is the sha256 of each file by its name, without the contents."""

    def clean(self, value: object) -> Value:
        if not isinstance(value, Mapping):
            raise ValueError(f"must be a table of names and check sums; got {value!r}")
        if len(value) > MOST_FILES:
            raise ValueError(f"must be at most {MOST_FILES}; there are {len(value)}")
        for name, sha256 in value.items():
            if why := why_no_file_name(str(name)):
                raise ValueError(f"cannot be so: {why}")
            if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
                raise ValueError(f"must have a sha256 each; {name} has {sha256!r}")
        return {str(name): str(sha256) for name, sha256 in sorted(value.items())}

    def describe(self, value: Any) -> str:
        return "\n".join(f"{name} (sha256 {sha256[:12]}…)" for name, sha256 in value.items())


@dataclass(frozen=True, kw_only=True)
class MetricsParameter(Parameter):
    """A parameter whose value is a list of rows with the texts name, unit, better, find, take."""

    def clean(self, value: object) -> Value:
        if not isinstance(value, list | tuple):
            raise ValueError(f"must be a list of metrics; got {value!r}")
        if len(value) > MOST_METRICS:
            raise ValueError(f"must be at most {MOST_METRICS}; there are {len(value)}")
        rows = [_complete_row(row) for row in value]
        names = [row["name"] for row in rows]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"must have a name each; {twice[0]} is there twice")
        return rows

    def describe(self, value: Any) -> str:
        return "\n".join(describe_metric(row) for row in value)


def describe_metric(row: Mapping[str, str]) -> str:
    """Return one line about a metric, for pages."""
    take = row["take"].replace("_", " ")
    source = f" = {take} of {row['find']}" if row["find"] else f", {take}"
    return f"{row['name']} in {row['unit']} ({row['better']} is better){source}"


def _complete_row(row: object) -> dict[str, str]:
    """Return the row with defaults filled in. Raises ValueError with the metric's name."""
    if not isinstance(row, Mapping) or not all(isinstance(text, str) for text in row.values()):
        raise ValueError(f"must be tables of texts; got {row!r}")
    filled = {"name": "", "unit": "1", "better": "lower", "find": "", "take": LAST, **row}
    problems = find_row_problems(filled)
    if problems:
        raise ValueError(f"cannot be so: {filled['name'] or 'a metric'}: {problems[0][1]}")
    return filled


def find_row_problems(row: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what is wrong with a metric: pairs of the part that is wrong and the reason."""
    problems = []
    for name in row.keys() - {"name", "unit", "better", "find", "take"}:
        problems.append(("", f"there is no {name!r} of a metric"))
    if not METRIC_NAME.fullmatch(row["name"]) or len(row["name"]) > LONGEST_METRIC:
        rule = f"a name is letters, digits and _, at most {LONGEST_METRIC} of them"
        problems.append(("name", f"{rule}; not {row['name']!r}"))
    if not row["unit"] or not row["unit"].isprintable() or len(row["unit"]) > LONGEST_UNIT:
        problems.append(
            ("unit", f"a unit has 1 to {LONGEST_UNIT} characters; a plain number has 1")
        )
    if row["better"] not in ("lower", "higher"):
        problems.append(("better", f"better is lower or higher, not {row['better']!r}"))
    if row["take"] not in TAKES:
        problems.append(
            ("take", f"what is taken is one of {', '.join(TAKES)}, not {row['take']!r}")
        )
    if len(row["find"]) > patterns.LONGEST or not row["find"].isprintable():
        problems.append(("find", f"it is one line of at most {patterns.LONGEST} characters"))
    return problems


def why_no_running_rate(row: Mapping[str, str], reads: str) -> str:
    """Return why these numbers cannot be read as means of all steps so far, or "".

    Raises PatternError.
    """
    if row["take"] != RUNNING_RATE:
        return ""
    if reads == "patterns" and patterns.has_step_group(row["find"]):
        return ""
    return (
        "a running rate needs a pattern with two groups, the step and the rate, such as "
        r"(?P<step>\d+) images/sec: (\S+)"
    )


def make_metrics(rows: Sequence[Mapping[str, str]]) -> list[Metric]:
    """Return the metrics that a user has defined in `rows`."""
    return [
        Metric(
            row["name"],
            row["unit"],
            "higher" if row["better"] == "higher" else "lower",
            row["name"].replace("_", " ").capitalize(),
        )
        for row in rows
    ]


def find_problems(cleaned: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with parameters that are valid one by one, by name."""
    problems: dict[str, str] = {}
    if not cleaned["argv"]:
        problems["argv"] = "must say which program to start; it is empty"
    elif not cleaned["argv"][0]:
        problems["argv"] = "must begin with the program; its first word is empty"
    elif why := explain_unsent_file(cleaned["argv"], list(cleaned["files"])):
        problems["argv"] = why
    reads, file = cleaned["read"], cleaned["file"]
    if reads in READS_A_FILE and not file:
        problems["file"] = "must name the file that the program writes"
    if file and (file.startswith("/") or {"", ".", ".."} & set(file.split("/"))):
        problems["file"] = f"must be a path inside the run’s folder; got {file!r}"
    if reads in {*READS_A_FILE, "patterns"} and not cleaned["metrics"]:
        problems["metrics"] = "must name at least one number that is to be read"
    if reads == "patterns":
        for row in cleaned["metrics"]:
            try:
                patterns.check_pattern(row["find"])
            except patterns.PatternError as error:
                problems.setdefault(
                    "metrics", f"must have patterns that work: {row['name']}: {error}"
                )
    for name in ("success_pattern", "failure_pattern"):
        if cleaned[name]:
            try:
                patterns.check_search_pattern(cleaned[name])
            except patterns.PatternError as error:
                problems[name] = f"cannot be used: {error}"
    for row in cleaned["metrics"]:
        if "metrics" not in problems and (why := why_no_running_rate(row, reads)):
            problems["metrics"] = f"cannot be so: {row['name']}: {why}"
    return problems
