"""Runs as MLflow exports them: `mlflow experiments csv`, or the CSV of its page of runs."""

from experiments.statistics.published.formats.base import Format
from experiments.statistics.published.formats.delimited import read_cells, read_header
from experiments.statistics.published.formats.tracked_runs import choose_roles, separate_metrics
from experiments.statistics.published.sheets import Sheet

COMMAND = {"run_id", "experiment_id", "status"}
PAGE = {"Run ID", "Source Name", "Status"}
FIXED = {
    "run_id": ("run", "run"),
    "Run ID": ("run", "run"),
    "status": ("state", "state"),
    "Status": ("state", "state"),
    "start_time": ("began_at", "began"),
    "Start Time": ("began_at", "began"),
}
"""Column of an export -> its name here and its role."""
PAGE_ONLY = {"Duration", "Name", "Source Type", "Source Name", "User"}


def _recognise(text: str) -> bool:
    names = set(read_header(text))
    return names >= COMMAND or names >= PAGE


def _read(text: str, decimal: str) -> Sheet:
    names, rows = read_cells(text)
    columns = {name: [fields[k] for _, fields in rows] for k, name in enumerate(names)}
    if set(names) >= COMMAND:
        parameters = [name for name in names if name.startswith("params.")]
        metrics = [name for name in names if name.startswith("metrics.")]
    else:
        others = [name for name in names if name not in FIXED and name not in PAGE_ONLY]
        parameters, metrics = separate_metrics(columns, others)
    new_names = {name: FIXED[name][0] for name in names if name in FIXED}
    for name in [*metrics, *parameters]:
        short = name.partition(".")[2] if name.startswith(("params.", "metrics.")) else name
        new_names[name] = name if short in new_names.values() or not short else short
    kept = [name for name in names if name in new_names]
    shown = {new_names[name]: columns[name] for name in kept}
    roles = choose_roles(
        shown, [new_names[name] for name in parameters], [new_names[name] for name in metrics]
    )
    roles |= {new_names[name]: FIXED[name][1] for name in kept if name in FIXED}
    places = [names.index(name) for name in kept]
    return Sheet(
        [new_names[name] for name in kept],
        [(number, [fields[place] for place in places]) for number, fields in rows],
        format=FORMAT.name,
        roles=roles,
        metrics=tuple(new_names[name] for name in metrics),
        notes=(
            "Each row is one run, with the last value of its metric; runs that are not FINISHED "
            "do not count.",
            "MLflow stores no units: a unit is what the name of a metric ends with, such as _s.",
        ),
    )


FORMAT = Format("MLflow's CSV of runs", "each row is one run", _recognise, _read)
