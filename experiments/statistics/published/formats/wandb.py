"""Runs as Weights & Biases exports them: the CSV of the runs table. Its charts are refused."""

from experiments.statistics.published.formats.base import Format
from experiments.statistics.published.formats.delimited import read_cells, read_header
from experiments.statistics.published.formats.tracked_runs import choose_roles, separate_metrics
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet

TABLE = {"Name", "State", "Created", "Runtime"}
FIXED = {"Name": "run", "State": "state", "Created": "began_at", "Runtime": "Runtime (s)"}
ROLES_OF = {"run": "run", "state": "state", "began_at": "began"}
IGNORED = {"ID", "Notes", "User", "Tags", "Sweep", "Group", "Job Type", "Description", "Commit",
           "GitHub", "GPU Type", "GPU Count", "Hostname", "Github", "End Time", "Updated",
           "_step", "_timestamp", "_runtime"}  # fmt: skip


def _recognise(text: str) -> bool:
    names = read_header(text)
    return set(names) >= TABLE or any(name.endswith("__MIN") for name in names)


def _read(text: str, decimal: str) -> Sheet:
    names, rows = read_cells(text)
    if not set(names) >= TABLE:
        raise TableError(
            "This is the CSV of a chart of Weights & Biases: a row for each step, and steps are "
            "no runs. Export the table of runs instead (Runs, then the arrow for CSV), with a "
            "row for each run."
        )
    columns = {name: [fields[k] for _, fields in rows] for k, name in enumerate(names)}
    others = [name for name in names if name not in FIXED and name not in IGNORED]
    parameters, metrics = separate_metrics(columns, others)
    new_names = dict.fromkeys(names, "") | {name: name for name in names} | FIXED
    for name in others:
        if name in FIXED.values():
            new_names[name] = f"{name} (own)"
    shown = {new_names[name]: columns[name] for name in names}
    roles = choose_roles(
        shown,
        [new_names[name] for name in parameters],
        [*(new_names[name] for name in metrics), FIXED["Runtime"]],
    )
    header = [new_names[name] for name in names]
    return Sheet(
        header,
        rows,
        format=FORMAT.name,
        roles=roles | ROLES_OF,
        metrics=(*(new_names[name] for name in metrics), FIXED["Runtime"]),
        notes=(
            "Each row is one run, with the summary of its metrics; runs that are not finished do "
            "not count.",
            "Unit of Runtime: seconds. Other metrics have the unit that their name ends with.",
        ),
    )


FORMAT = Format("the table of runs of Weights & Biases", "each row is one run", _recognise, _read)
