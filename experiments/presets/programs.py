"""The data of a known program for the workload `command`: how it is started and read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.presets.base import Piece

NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
"""Also matches nan and inf: the run then fails, with a message about the number."""
GROUPS = ("CPU", "memory", "disk", "network", "GPU", "machine learning")
"""What known programs measure, in the order of pages."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A known program, and what its user should know."""

    piece: Piece
    measures: str
    """One of GROUPS."""
    summary: str
    """One sentence on what it measures."""
    needs: str
    """What has to be installed in each environment."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of Tare's own that are sent with it: name -> content."""
    programs: tuple[str, ...] = ()
    """Programs that its command starts from PATH; inspections look for them."""
    is_from_documentation: bool = False
    """True if its patterns follow documented output, and nobody here has run it."""
    has_folder: bool = False
    """True if its code lies in a folder on the cluster or in the image."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters with which its form begins.

        A program that needs no Python is recorded outside, so that it runs in images without it.
        """
        parameters = dict(self.piece.parameters)
        is_pythonless = not any("{python}" in word for word in parameters["argv"])
        if is_pythonless and parameters["read"] != "recorder" and "recorded" not in parameters:
            parameters["recorded"] = "outside"
        return parameters


def make_metric(
    name: str, unit: str, find: str, *, better: str = "higher", take: str = "last"
) -> dict[str, str]:
    """Return a metric as the workload `command` has it."""
    return {"name": name, "unit": unit, "better": better, "find": find, "take": take}


def make_command(
    name: str,
    argv: Sequence[str],
    metrics: Sequence[Mapping[str, str]],
    *,
    seconds: int,
    read: str = "patterns",
    files: Mapping[str, str] | None = None,
    **parameters: Any,
) -> Piece:
    """Return a workload of the kind `command`; `parameters` are further ones of it."""
    sent = {"files": {name: compute_sha256(text) for name, text in files.items()}} if files else {}
    return Piece(
        name=name,
        kind="command",
        parameters={
            "argv": list(argv),
            "read": read,
            "metrics": [dict(row) for row in metrics],
            **sent,
            **parameters,
        },
        time_limit_seconds=seconds,
    )


def compute_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
