"""A client of Tare: experiments, their runs and their verdicts, from Python and from a shell.

Everything is imported when it is first used, so that the command starts quickly.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tare_client.client import Client
    from tare_client.errors import (
        FieldProblem,
        NotReachable,
        NotTrusted,
        Refused,
        TareError,
        UnexpectedAnswer,
        UsageError,
    )
    from tare_client.rows import Rows
    from tare_client.shortcuts import comparison, experiment, experiments, runs
    from tare_client.studies import MemberProgress, Study, StudyProgress
    from tare_client.values import (
        Check,
        Comparison,
        ComparisonRow,
        Experiment,
        Person,
        Progress,
        RunningRun,
        Series,
    )

MODULE_OF = {
    "Client": "client",
    "comparison": "shortcuts",
    "experiment": "shortcuts",
    "experiments": "shortcuts",
    "runs": "shortcuts",
    "FieldProblem": "errors",
    "NotReachable": "errors",
    "NotTrusted": "errors",
    "Refused": "errors",
    "TareError": "errors",
    "UnexpectedAnswer": "errors",
    "UsageError": "errors",
    "Rows": "rows",
    "Check": "values",
    "Comparison": "values",
    "ComparisonRow": "values",
    "Experiment": "values",
    "Person": "values",
    "Progress": "values",
    "RunningRun": "values",
    "Series": "values",
    "Study": "studies",
    "StudyProgress": "studies",
    "MemberProgress": "studies",
}
__all__ = [  # noqa: RUF022  in the order of use
    "Client",
    "runs",
    "comparison",
    "experiment",
    "experiments",
    "Rows",
    "Check",
    "Comparison",
    "ComparisonRow",
    "Experiment",
    "Person",
    "Progress",
    "RunningRun",
    "Series",
    "Study",
    "StudyProgress",
    "MemberProgress",
    "FieldProblem",
    "NotReachable",
    "NotTrusted",
    "Refused",
    "TareError",
    "UnexpectedAnswer",
    "UsageError",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *MODULE_OF])
