"""JSON of pytest-benchmark: `pytest --benchmark-json=FILE`. Its rounds share one process."""

import re
from collections.abc import Mapping
from typing import Any

from experiments.statistics.published.formats.base import (
    Format,
    get_object,
    is_json,
    load_json,
    make_text,
    name_parameters,
    require_list,
    require_object,
    roles_of_parameters,
    rows_from,
)
from experiments.statistics.published.sheets import Sheet

MOST_ROUNDS = 1000
TAKEN = ("group", "test", "round", "rounds", "time (s)", "mean (s)", "sd (s)")
ONE_PROCESS = (
    "pytest-benchmark takes all rounds of a test in one process: what differs between processes "
    "is not in these values. To see it, start the program several times: one mean a start is a run."
)


def _recognise(text: str) -> bool:
    return is_json(text) and '"benchmarks"' in text and '"stats"' in text and '"fullname"' in text


def _read(text: str, decimal: str) -> Sheet:
    document = require_object(load_json(text), "This JSON of pytest-benchmark")
    benchmarks = [
        require_object(benchmark, f"benchmarks[{k}]")
        for k, benchmark in enumerate(require_list(document.get("benchmarks"), "benchmarks"))
    ]
    stats = [require_object(each.get("stats"), "The stats of a benchmark") for each in benchmarks]
    column_of = name_parameters(
        (name for each in benchmarks for name in get_object(each.get("params"))), TAKEN
    )
    columns = [_describe(each, column_of) for each in benchmarks]
    parameters = list(column_of.values())
    has_rounds = all(
        isinstance(each.get("data"), list) and 0 < len(each["data"]) <= MOST_ROUNDS
        for each in stats
    )
    names = ["round", "time (s)"] if has_rounds else ["mean (s)", "sd (s)", "rounds"]
    header = ["group", "test", *parameters, *names]
    rows = []
    for row, each in zip(columns, stats, strict=True):
        if has_rounds:
            rows += [
                row | {"round": f"{row['test']} {k}", "time (s)": make_text(value)}
                for k, value in enumerate(each["data"], 1)
            ]
        else:
            texts = (make_text(each.get(name)) for name in ("mean", "stddev", "rounds"))
            rows.append(row | dict(zip(names, texts, strict=True)))
    roles = {"group": "label"}
    roles |= roles_of_parameters(parameters, "test", {row["test"] for row in columns})
    roles |= (
        {"round": "run", "time (s)": "value"}
        if has_rounds
        else {"mean (s)": "mean", "sd (s)": "sd", "rounds": "n"}
    )
    note = (
        "Each round is read as a run."
        if has_rounds
        else "Means, SD and the number of rounds are read: the file has no data of its rounds, or "
        f"more than {MOST_ROUNDS:,} of a test."
    )
    return Sheet(
        header,
        rows_from(header, rows),
        format=FORMAT.name,
        roles=roles,
        notes=(note, ONE_PROCESS, "Unit: seconds, in which pytest-benchmark stores times."),
        one_process=ONE_PROCESS,
    )


def _describe(benchmark: dict[str, Any], column_of: Mapping[str, str]) -> dict[str, str]:
    """Return the cells that name a benchmark: its group, its test, and the test's parameters."""
    parameters = get_object(benchmark.get("params"))
    name = make_text(benchmark.get("name"))
    row = {"group": make_text(benchmark.get("group")), "test": name}
    if parameters:
        row["test"] = re.sub(r"\[.*\]$", "", name)
    for key, value in parameters.items():
        row[column_of[" ".join(key.split()) or "parameter"]] = make_text(value)
    return row


FORMAT = Format(
    "JSON of pytest-benchmark",
    "each round of `data` is one run, stamped ONE PROCESS; without `data`, mean, SD and rounds",
    _recognise,
    _read,
)
