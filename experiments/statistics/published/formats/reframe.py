"""ReFrame's performance log, `perflogs/SYSTEM/PARTITION/TEST.log`. Each line is a run."""

import re
from collections.abc import Sequence

from experiments.statistics.published.columns import ROLES
from experiments.statistics.published.formats.base import Format, rows_from
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet

PLACES = ("environ", "partition", "system")
"""Columns of which the first that varies is the environment."""
USUAL = re.compile(
    r"result|job_.*|descr|env_vars|environ|exclusive_access|extra_resources|jobid|modules|name|"
    r"num_.*|partition|short_name|system|unique_name|use_multithreading|version|"
    r".*_(?:value|unit|ref|lower_thres|upper_thres|result)|display_name|info|tags|hashcode"
)
"""Columns that every log has; any other one is a parameter or variable of the test."""


def _first_line(text: str) -> list[str]:
    line = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    return [name.strip() for name in line.split("|")]


def _recognise(text: str) -> bool:
    names = set(_first_line(text))
    return {"environ", "system"} <= names and any(name.endswith("_value") for name in names)


def _read(text: str, decimal: str) -> Sheet:
    names = _first_line(text)
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = [field.strip() for field in line.split("|")]
        if not line.strip() or fields == names:
            continue
        if len(fields) != len(names):
            raise TableError(
                f"Line {number} has {len(fields)} fields, the first has {len(names)}. A log whose "
                "format changed is two logs: cut it there."
            )
        lines.append(dict(zip(names, fields, strict=True)))
    if not lines:
        raise TableError("The log of ReFrame has a header and no runs.")
    metric_names = [name.removesuffix("_value") for name in names if name.endswith("_value")]
    metrics = {name: f"{name} ({_unit(name, lines)})" for name in metric_names}
    places = [name for name in PLACES if name in names]
    varying = [name for name in places if _varies(name, lines)]
    environment = (varying or places)[0]
    own = [name for name in names if not USUAL.fullmatch(name)]
    runs = [name for name in own if name.casefold() in ROLES["run"].split()]
    labels = [name for name in own if name not in runs and _varies(name, lines)]
    labels += [name for name in varying if name != environment]
    header = ["test", *labels, environment, "run", "state", "node", *metrics.values()]
    rows = []
    for number, facts in enumerate(lines, 1):
        row = {name: facts[name] for name in [*labels, environment]}
        row |= {
            "test": re.split(r"\s*[%@]", facts.get("name", ""))[0],
            "run": facts.get("jobid") or str(number),
            "state": facts.get("result", "pass"),
            "node": facts.get("job_nodelist", ""),
        }
        rows.append(row | {metrics[name]: facts[f"{name}_value"] for name in metric_names})
    columns = tuple(metrics.values())
    roles = {"test": "label", **dict.fromkeys(labels, "label"), environment: "environment"}
    return Sheet(
        header,
        rows_from(header, rows),
        format=FORMAT.name,
        roles=roles | {"run": "run", "state": "state", "node": "node", columns[0]: "value"},
        metrics=columns,
        notes=(
            f"Each line is one run; what is compared is {environment}. Lines whose result is not "
            "pass do not count. Units are those of the log.",
        ),
    )


def _unit(name: str, lines: Sequence[dict[str, str]]) -> str:
    units = {line.get(f"{name}_unit", "") for line in lines} - {"", "None", "null"}
    if len(units) > 1:
        raise TableError(f"Mixed units: {name} is in {' and in '.join(sorted(units))}.")
    return units.pop() if units else "1"


def _varies(name: str, lines: Sequence[dict[str, str]]) -> bool:
    return len({line[name] for line in lines}) > 1


FORMAT = Format("ReFrame's performance log", "each line is one run", _recognise, _read)
