"""JSON of hyperfine: `hyperfine --export-json FILE`. Each of its times is a process of its own."""

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

TAKEN = ("command", "run", "state", "time (s)", "mean (s)", "sd (s)")


def _recognise(text: str) -> bool:
    return is_json(text) and '"results"' in text and '"command"' in text


def _read(text: str, decimal: str) -> Sheet:
    document = require_object(load_json(text), "This JSON of hyperfine")
    results = [
        require_object(result, f"results[{k}]")
        for k, result in enumerate(require_list(document.get("results"), "results"))
    ]
    column_of = name_parameters(
        (name for result in results for name in get_object(result.get("parameters"))), TAKEN
    )
    parameters = list(column_of.values())
    commands = {make_text(result.get("command")) for result in results}
    roles = roles_of_parameters(parameters, "command", commands)
    if len(parameters) == 1 and len(results) > 1 and len(commands) == len(results):
        # Each value of the only parameter gives a command of its own.
        roles[parameters[0]] = "environment"
    if any(roles[name] == "environment" for name in parameters):
        roles["command"] = "ignore"  # it holds the parameters' values and tells nothing more
    has_times = all(isinstance(result.get("times"), list) for result in results)
    names = ["run", "state", "time (s)"] if has_times else ["mean (s)", "sd (s)"]
    header = ["command", *parameters, *names]
    rows = [row for result in results for row in _rows(result, has_times, column_of)]
    roles |= (
        {"run": "run", "state": "state", "time (s)": "value"}
        if has_times
        else {"mean (s)": "mean", "sd (s)": "sd"}
    )
    note = (
        "Each of the times is one run, of a process of its own; those with another exit code than "
        "0 do not count. All runs of a command were before all of the next: drift is part of the "
        "difference."
        if has_times
        else "It has no times, so means and SD are read; enter the runs behind each mean."
    )
    return Sheet(
        header,
        rows_from(header, rows),
        format=FORMAT.name,
        roles=roles,
        notes=(note, "Unit: seconds, in which hyperfine stores times."),
    )


def _rows(
    result: dict[str, Any], has_times: bool, column_of: Mapping[str, str]
) -> list[dict[str, str]]:
    row = {"command": make_text(result.get("command"))}
    for name, value in get_object(result.get("parameters")).items():
        row[column_of[" ".join(name.split()) or "parameter"]] = make_text(value)
    if not has_times:
        return [
            row
            | {"mean (s)": make_text(result.get("mean")), "sd (s)": make_text(result.get("stddev"))}
        ]
    codes = result.get("exit_codes")
    codes = codes if isinstance(codes, list) and len(codes) == len(result["times"]) else None
    return [
        row
        | {
            "run": f"{row['command']} {k + 1}",
            "state": "succeeded" if codes is None or make_text(codes[k]) == "0" else "failed",
            "time (s)": make_text(value),
        }
        for k, value in enumerate(result["times"])
    ]


FORMAT = Format(
    "JSON of hyperfine", "each of the `times` of a command is one run", _recognise, _read
)
