"""CSV of runs as MLflow and Weights & Biases export them: a row a run, parameters and metrics."""

from collections.abc import Mapping, Sequence

from experiments.statistics.published import printed
from experiments.statistics.published.columns import LABELS, ROLES, split_column_name
from experiments.statistics.published.formats.base import ENVIRONMENT_NAME
from experiments.statistics.published.printed import TableError

NEVER_LABELS = {"seed", "run", "run_id", "id", "name", "lr_scheduler", "date"}


def choose_roles(
    columns: Mapping[str, Sequence[str]], parameters: Sequence[str], metrics: Sequence[str]
) -> dict[str, str]:
    """Return the roles of parameters and metrics of exported runs.

    Parameters that are the same in all runs, or another one in each, tell nothing apart. The
    metric whose name has a unit is compared first.
    """
    roles: dict[str, str] = {}
    for name in parameters:
        values = [text for text in columns[name] if text]
        different = len(set(values))
        is_telling = 1 < different < len(values) and name.casefold() not in NEVER_LABELS
        roles[name] = "label" if is_telling else "ignore"
    named = [name for name in parameters if _is_environment(name)]
    words = [
        name
        for name in parameters
        if roles[name] == "label" and not any(map(printed.is_number, columns[name]))
    ]
    if named or len(words) == 1:
        roles[(named or words)[0]] = "environment"
    if not metrics:
        raise TableError("The export has no column with numbers of a metric.")
    with_unit = [name for name in metrics if split_column_name(name)[1]]
    return roles | {(with_unit or metrics)[0]: "value"}


def separate_metrics(
    columns: Mapping[str, Sequence[str]], names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return parameters and metrics where an export does not say which is which.

    A metric has numbers for the most part, which vary, under a name that is not a usual label: a
    cell that is none is refused later, by its row.
    """
    metrics = []
    for name in names:
        values = [text for text in columns[name] if text]
        numbers = sum(map(printed.is_number, values))
        if (
            name.casefold() not in LABELS | NEVER_LABELS
            and numbers > len(values) / 2
            and len(set(values)) > 1
        ):
            metrics.append(name)
    return [name for name in names if name not in metrics], metrics


def _is_environment(name: str) -> bool:
    words = ROLES["environment"].split()
    return name.casefold() in words or bool(ENVIRONMENT_NAME.fullmatch(name))
