"""The columns that the list of experiments may have, and their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.execution.experiment_value_cells import (
    VALUE_KINDS,
    draw_value,
    make_help,
    write_value,
)
from dashboard.execution.run_columns import MOST_COLUMNS, Column, Columns, shorten
from dashboard.templatetags.tare import counted_verdict, state, when
from experiments.comparisons.typed_tables import Kind
from experiments.execution.progress import Progress
from experiments.models import Experiment
from experiments.natural_order import sort_naturally
from experiments.planning.goals import get_margins

LONGEST_NAME = 20
"""Characters of a name that stays in one line, although it has hyphens."""


@dataclass(frozen=True)
class ExperimentColumn:
    """A column of the list; `key` is its name in addresses and in files."""

    key: str
    label: str
    read: Callable[[Experiment, Progress], Any]
    """Returns the value as files have it."""
    sort: str = ""
    """The path that the list is sorted by; empty where it cannot be."""
    css: str = ""
    kind: Kind = "text"
    """What its values are in files with types."""
    of_runs: Column | None = None
    """The metric, parameter or fact of its runs that it shows; None for what it says itself."""
    help: str = ""

    @property
    def heads(self) -> list[tuple[str, Kind]]:
        """Return the names and kinds of its columns in files: metrics have one for their unit."""
        heads = [(self.key, self.kind)]
        if self.of_runs and self.of_runs.kind == "metric":
            heads.append((f"{self.key} unit", "text"))
        return heads

    def write(self, row: Experiment, progress: Progress) -> list[Any]:
        """Return the values under these heads."""
        if self.of_runs:
            return write_value(row.run_values, self.of_runs)  # type: ignore[attr-defined]
        return [self.read(row, progress)]


def _read_runs(row: Experiment, progress: Progress) -> str:
    return "" if row.is_draft else f"{progress.tally.succeeded}/{progress.tally.total}"


def _list_names(rows: Iterable[Any]) -> str:
    return ", ".join(sort_naturally(str(row) for row in rows))


def _list_workloads(row: Experiment) -> str:
    """Return the names of the workloads, numbers in those of variants sorted as numbers."""
    workloads = sorted(row.workloads.all(), key=attrgetter("natural_key"))
    return ", ".join(workload.name for workload in workloads)


def _read_verdicts(row: Experiment, _: Progress) -> str:
    verdicts: dict[str, int] = getattr(row, "kept_verdicts", {})
    return ", ".join(f"{verdict}: {count}" for verdict, count in verdicts.items())


COLUMNS = {
    column.key: column
    for column in (
        ExperimentColumn("state", "State", lambda row, progress: progress.status.text),
        ExperimentColumn("runs", "Runs", _read_runs, css="num"),
        ExperimentColumn(
            "failed",
            "Failed",
            lambda row, progress: progress.tally.failed or None,
            css="num",
            kind="whole",
        ),
        ExperimentColumn("verdicts", "Verdicts", _read_verdicts),
        ExperimentColumn("cluster", "Cluster", lambda row, _: row.cluster.name, "cluster__name"),
        ExperimentColumn("owner", "Owner", lambda row, _: row.owner.username, "owner__username"),
        ExperimentColumn(
            "launched", "Launched or imported", lambda row, _: row.since, "since_when", kind="time"
        ),
        ExperimentColumn(
            "created", "Created", lambda row, _: row.created_at, "created_at", kind="time"
        ),
        ExperimentColumn(
            "changed",
            "Last change",
            lambda row, _: getattr(row, "changed_at", None),
            "changed_at",
            kind="time",
        ),
        ExperimentColumn("workloads", "Workloads", lambda row, _: _list_workloads(row)),
        ExperimentColumn(
            "environments", "Environments", lambda row, _: _list_names(row.environments.all())
        ),
        ExperimentColumn(
            "baseline", "Baseline", lambda row, _: row.baseline.name, "baseline__name"
        ),
        ExperimentColumn(
            "repeats",
            "Repeats",
            lambda row, _: row.all_repeats,
            "repeats_with_added",
            "num",
            "whole",
        ),
        ExperimentColumn("margin", "Margin", lambda row, _: row.margin, "margin", "num", "number"),
        ExperimentColumn("design", "Design", lambda row, _: row.design, "design"),
        ExperimentColumn("tags", "Tags", lambda row, _: ", ".join(row.tags)),
        ExperimentColumn("visibility", "Visibility", lambda row, _: row.visibility, "visibility"),
    )
}
MOST_PROBLEMS = 9
USUAL = ("state", "runs", "verdicts", "cluster", "owner", "launched", "created")
SORTS = {"question": "question"} | {key: row.sort for key, row in COLUMNS.items() if row.sort}


NO_COLUMNS = Columns(())


def find_column(key: str, offered: Columns) -> ExperimentColumn | None:
    """Return the column of a key, its own or one `offered` of its runs; None if there is none."""
    if key in COLUMNS:
        return COLUMNS[key]
    column = offered.get(key)
    if column is None:
        return None
    css = "num" if column.is_number else ""
    kind = VALUE_KINDS.get(column.kind, "text")
    return ExperimentColumn(
        key,
        column.label,
        lambda row, _: write_value(row.run_values, column)[0],  # type: ignore[attr-defined]
        css=css,
        kind=kind,
        of_runs=column,
        help=make_help(column),
    )


def choose_columns(
    keys: Iterable[str], offered: Columns = NO_COLUMNS
) -> tuple[list[ExperimentColumn], list[str]]:
    """Return the columns of these keys in their order, and a sentence for each unknown one.

    `offered` are those of runs that they may name.
    """
    chosen: list[ExperimentColumn] = []
    problems = []
    for key in dict.fromkeys(key for key in keys if key):
        if len(chosen) == MOST_COLUMNS:
            problems.append(f"A list has at most {MOST_COLUMNS} columns; the others are left out.")
            break
        if column := find_column(key, offered):
            chosen.append(column)
        elif len(problems) < MOST_PROBLEMS:
            problems.append(f"There is no column “{shorten(key)}”; it is left out.")
    return chosen or [COLUMNS[key] for key in USUAL], problems


def draw_cells(
    row: Experiment, progress: Progress, columns: Sequence[ExperimentColumn]
) -> SafeString:
    """Return the cells of an experiment, as HTML."""
    cells = [
        draw_value(row.run_values, column.of_runs)  # type: ignore[attr-defined]
        if column.of_runs
        else _draw(column, row, progress)
        for column in columns
    ]
    return SafeString("".join(cells))


def _draw(column: ExperimentColumn, row: Experiment, progress: Progress) -> SafeString:
    value, label = column.read(row, progress), column.label
    if column.key == "state":
        return format_html("<td>{}</td>", state(progress.status.mark, value))
    if column.key == "runs" and value and progress.tally.failed:
        failed = state("failed", progress.tally.failed)
        return format_html('<td class="num" data-label="{}">{} {}</td>', label, value, failed)
    if column.key == "verdicts" and value:
        return _draw_verdicts(row)
    if column.key == "margin":
        goal = "" if row.goal == Experiment.Goal.EQUIVALENCE else f", {row.goal}"
        value = f"{get_margins(row).text}{goal}".replace(" %", "\N{NO-BREAK SPACE}%")
    if isinstance(value, datetime):
        return format_html('<td class="nowrap" data-label="{}">{}</td>', label, when(value))
    if value in (None, ""):
        reason = "not launched yet" if row.is_draft else ""
        return format_html(
            '<td class="{} muted" data-label="{}" title="{}">–</td>', column.css, label, reason
        )
    is_name = len(str(value)) <= LONGEST_NAME and " " not in str(value)
    css = f"{column.css} nowrap".strip() if is_name else column.css  # cluster-17, in one line
    return format_html('<td class="{}" data-label="{}">{}</td>', css, label, value)


def _draw_verdicts(row: Experiment) -> SafeString:
    """Return the verdicts with how many pairs have each, as a link to what explains them."""
    verdicts: dict[str, int] = getattr(row, "kept_verdicts", {})
    counted = format_html_join(
        " ", "{}", ((counted_verdict(word, count),) for word, count in verdicts.items())
    )
    address = reverse("comparison", args=[row.pk])
    title = "Open the comparison: it has the ratios, and what qualifies them"
    return format_html(
        '<td><a class="verdicts" href="{}" title="{}">{}</a></td>', address, title, counted
    )
