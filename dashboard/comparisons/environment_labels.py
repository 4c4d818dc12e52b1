"""What stands for the same environment in different studies: the kind of its runtime, or its name.

Environments of different experiments are different rows, and those of a table are names only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.comparisons.published_tables import BARE
from experiments.models import Environment
from runners.runtimes import RUNTIMES

BARE_METAL = RUNTIMES["bare_metal"].label.lower()


def label_environment(row: Environment) -> str:
    """Return the kind of an environment's runtime: "Apptainer", "bare metal"."""
    if row.runtime:
        return row.runtime.get_kind_display()
    return label_name(row.recorded_tool) if row.recorded_tool else BARE_METAL


def label_name(name: str) -> str:
    """Return the kind of runtime that a name speaks of, else the name itself."""
    if BARE.fullmatch(name.strip()):
        return BARE_METAL
    letters = "".join(filter(str.isalnum, name.lower()))
    for kind, runtime in RUNTIMES.items():
        # "udocker" holds "docker", and stands before it.
        if kind != "bare_metal" and kind in letters:
            return runtime.label
    return name


def choose_label(labels_by_study: Sequence[Sequence[str]]) -> str:
    """Return the label that most studies have, the first one of equals; "" if there is none."""
    counts = Counter(label for labels in labels_by_study for label in dict.fromkeys(labels))
    return counts.most_common(1)[0][0] if counts else ""


def propose_environment(names: Sequence[str], usual_names: Counter[str]) -> str:
    """Return which of these environments of one label is meant: the name that most studies have.

    "" where there is none.
    """
    return max(names, key=lambda name: usual_names[name], default="")
