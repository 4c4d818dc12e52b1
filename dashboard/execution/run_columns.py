"""The columns that a list of runs may have: what a run says, its metrics, parameters and facts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal

from django.db.models import (
    DurationField,
    Exists,
    Expression,
    ExpressionWrapper,
    F,
    JSONField,
    OuterRef,
    Value,
)
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from experiments.confounder_table import read_table
from experiments.execution.stored_values import FACT, METRIC, PARAMETER
from experiments.models import Experiment, User, Workload
from experiments.planning.workloads import make_label
from experiments.program_files import LIBRARY, PROGRAM
from runners.workloads import KNOWN_WORKLOADS

Kind = Literal["text", "number", "time", "duration", "metric", "parameter"]

OTHER_FACTS = ("package ", "variable ", "GPU ", PROGRAM, LIBRARY)
"""How facts begin of which there are too many to offer: each may be asked for by its name."""
LONGEST_NAME = 200
PARAMETERS = KeyTransform("parameters", KeyTransform("workload", "spec"))
"""Those with which a run was started."""
SHORT_PARAMETERS = ExpressionWrapper(
    F("parameters") - Value("files") - Value("argv"), output_field=JSONField()
)
"""The parameters of a workload without long ones that say nothing about its metrics."""


@dataclass(frozen=True)
class Column:
    """A column of the list; `key` is its name in addresses."""

    key: str
    label: str
    kind: Kind = "text"
    path: str = ""
    """Of a column of the run itself: the path of its field."""
    sort_path: str = ""
    """The field to sort by, where it is another one."""
    unit: str = ""
    other_units: tuple[str, ...] = ()
    """Of a metric: further units in which programs report it."""
    help: str = ""

    @property
    def name(self) -> str:
        """Return the name of the metric, the parameter or the fact."""
        return self.key.partition(".")[2]

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "duration", "metric")

    @property
    def expression(self) -> Expression | F:
        """Return what the database sorts by and shows; of a metric there is none."""
        if self.kind == "duration":
            return ExpressionWrapper(F("ended_at") - F("began_at"), output_field=DurationField())
        if self.key.startswith(PARAMETER):
            return KeyTransform(self.name, PARAMETERS)
        if self.key.startswith(FACT):
            return KeyTextTransform(self.name, "snapshot__facts")
        return F(self.path)


OWN = {
    column.key: column
    for column in (
        Column("state", "State", path="state"),
        Column("reason", "Reason", path="reason"),
        Column("question", "Experiment", path="experiment__question"),
        Column("workload", "Workload", path="workload__name", sort_path="workload__sort_name"),
        Column("scale", "Scale", path="scale"),
        Column("environment", "Environment", path="environment__name"),
        Column("cluster", "Cluster", path="experiment__cluster__name"),
        Column("owner", "Owner", path="experiment__owner__username"),
        Column("repeat", "Repeat", "number", path="repeat"),
        Column("exit_code", "Exit code", "number", path="exit_code"),
        Column("node", "Node", path="node"),
        Column("began", "Began", "time", path="began_at"),
        Column("ended", "Ended", "time", path="ended_at"),
        Column("took", "Took", "duration"),
    )
}
USUAL = (
    *("state", "question", "workload", "scale", "environment"),
    *("metric.step_time", "node", "began", "took"),
)
"""The columns of a list whose address names none; those that nothing has are left out."""
MOST_COLUMNS = 40
ABBREVIATIONS = {word.lower(): word for word in ("CPU", "FFT", "GFLOPs", "GPU", "SD", "SVD")}


class Columns:
    """The columns that a person may choose from, by their keys."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = {column.key: column for column in columns}

    def get(self, key: str) -> Column | None:
        """Return the column of a key; None if there is none."""
        if key in self._columns:
            return self._columns[key]
        name = key.removeprefix(FACT)
        if key.startswith(FACT) and name.startswith(OTHER_FACTS) and len(name) <= LONGEST_NAME:
            return Column(key, name)
        return None

    @property
    def keys(self) -> list[str]:
        return list(self._columns)

    @property
    def groups(self) -> list[tuple[str, list[Column]]]:
        """Return the columns under their headings."""
        headings = (("Run", ""), ("Metrics", METRIC), ("Parameters", PARAMETER), ("Facts", FACT))
        groups: dict[str, list[Column]] = {prefix: [] for _, prefix in headings}
        for column in self._columns.values():
            prefix = column.key.removesuffix(column.name) if "." in column.key else ""
            groups[prefix].append(column)
        return [(heading, groups[prefix]) for heading, prefix in headings if groups[prefix]]

    def list_usual(self) -> list[Column]:
        return [self._columns[key] for key in USUAL if key in self._columns]


def list_columns(user: User) -> Columns:
    """Return the columns that have a meaning for runs that `user` may view."""
    visible = Experiment.objects.visible_to(user).filter(workloads=OuterRef("pk"))
    workloads = Workload.objects.filter(Exists(visible)).order_by("pk")
    columns = dict(OWN)
    for kind_name, parameters in workloads.values_list("kind", SHORT_PARAMETERS):
        if kind_name in KNOWN_WORKLOADS:
            for column in _list_declared(kind_name, json.dumps(parameters, sort_keys=True)):
                known = columns.setdefault(column.key, column)
                if column.unit not in (known.unit, *known.other_units):
                    others = (*known.other_units, column.unit)
                    columns[column.key] = replace(known, other_units=others)
    return Columns((*columns.values(), *_list_facts()))


@cache
def _list_facts() -> tuple[Column, ...]:
    """Return the columns of facts that are offered."""
    names = (*(row.title for row in read_table().compared if not row.patterns), "GPU 0")
    return tuple(Column(FACT + name, name[:1].upper() + name[1:]) for name in names)


@lru_cache(1024)
def _list_declared(kind_name: str, parameters: str) -> tuple[Column, ...]:
    """Return the columns of a workload's metrics and parameters; `parameters` are JSON."""
    kind = KNOWN_WORKLOADS[kind_name]
    metrics = (
        Column(
            METRIC + metric.name,
            _make_label(metric.name),
            "metric",
            unit=metric.unit,
            help=metric.label,
        )
        for metric in kind.list_all_metrics(json.loads(parameters))
    )
    own_parameters = (
        Column(
            PARAMETER + parameter.name,
            make_label(parameter),
            "parameter",
            unit=parameter.unit,
            help=parameter.help,
        )
        for parameter in kind.parameters
        if parameter.type not in ("files", "metrics")  # texts of many lines
    )
    return (*metrics, *own_parameters)


def _make_label(name: str) -> str:
    """Return the name of a metric as the head of a column."""
    words = [ABBREVIATIONS.get(word, word) for word in name.split("_")]
    label = " ".join(words)
    return label[:1].upper() + label[1:]


def choose_columns(keys: Iterable[str], columns: Columns) -> tuple[list[Column], list[str]]:
    """Return the columns of these keys in their order, and a sentence for each unknown one."""
    chosen: dict[str, Column] = {}
    problems = []
    for key in dict.fromkeys(key for key in keys if key):
        if len(chosen) == MOST_COLUMNS:
            problems.append(f"A list has at most {MOST_COLUMNS} columns; the others are left out.")
            break
        if column := columns.get(key):
            chosen[key] = column
        else:
            problems.append(f"There is no column “{shorten(key)}”; it is left out.")
    return list(chosen.values()) or columns.list_usual(), problems


def shorten(text: str) -> str:
    """Return a text of the address as a sentence names it."""
    return text if len(text) <= 60 else f"{text[:60]}…"
