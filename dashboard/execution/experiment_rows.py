"""Rows of an experiment's page: configurations with their strips, and its runs.

Drawn here and not by the template, which took half of the time of a page with fifty of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.execution.matrix import Cell, Matrix, Row
from dashboard.templatetags.numbers import took
from dashboard.templatetags.states import run_state
from dashboard.templatetags.tare import environment, point, state, when
from experiments.models import Experiment, Run

UID = "0" * 32
"""In place of the name of a run, in an address."""
STRIP = '<svg class="strip env-{mark}" viewBox="0 0 240 24" role="img" aria-label="{label}">'
AXIS = '<line x1="0" x2="240" y1="12" y2="12"/>'
MEAN = '<line class="mean" x1="{mean}" x2="{mean}" y1="2" y2="22"/></svg>'


def draw_matrix_rows(matrix: Matrix, experiment: Experiment) -> SafeString:
    """Return a row for each configuration: its counts and values in each environment."""
    is_imported = bool(experiment.imported_at)
    missing = "none in the logs" if is_imported else f"{experiment.all_repeats} planned"
    return SafeString("".join(_draw_configuration(row, missing) for row in matrix.rows))


def _draw_configuration(row: Row, missing: str) -> str:
    metric = escape((row.metric.label or row.metric.name).lower())
    cells = "".join(
        f"<td>{_draw_counts(cell, missing)}{_draw_strip(cell, metric)}</td>" for cell in row.cells
    )
    return (
        f'<tr><th scope="row">{escape(str(row.workload))}<br>'
        f'<small class="muted">{metric}</small></th>'
        f'<td class="nowrap">{escape(row.scale)}</td>{cells}</tr>\n'
    )


def _draw_counts(cell: Cell, missing: str) -> str:
    """Return how many runs have succeeded, and how many are in which other state."""
    tally = cell.tally
    if not tally.total:
        return f'<span class="muted">{missing}</span>'
    mark = state("succeeded", "") if tally.succeeded else ""
    others = "".join(
        f'<span title="{count} {name}">{state(name, count)} '
        f'<span class="visually-hidden">{name}</span></span>'
        for name, count in tally.parts
        if name != Run.State.SUCCEEDED
    )
    return (
        '<span class="counts"><span>'
        f'<span class="number">{tally.succeeded:,}/{tally.total:,}</span> '
        f'{mark} <span class="visually-hidden">succeeded</span></span>{others}</span>'
    )


def _draw_strip(cell: Cell, metric: str) -> str:
    """Return the values on their scale, each as a symbol or a line; "" where there is none."""
    count = len(cell.values)
    if not count:
        return ""
    label = f"{count} value{'s' * (count != 1)} of {metric}"
    symbols = "".join(point(x, cell.mark) for x in cell.points)
    lines = f'<path d="{cell.lines}"/>' if cell.lines else ""
    opened, mean = STRIP.format(mark=cell.mark, label=label), MEAN.format(mean=cell.mean)
    return f"{opened}{AXIS}{symbols}{lines}{mean}"


def draw_run_rows(runs: Iterable[Run], marks: Mapping[str, int], *, has_places: bool) -> SafeString:
    """Return a row for each run, which shows its place in its block where it `has_places`.

    `marks` are the indices of the environments' symbols.
    """
    before, _, after = reverse("run", args=[UID]).partition(UID)

    def draw(run: Run) -> str:
        uid = escape(run.uid)
        place = f"{run.job.number}.{run.position + 1}" if has_places else str(run.job.number)
        name = run.environment.name
        return _draw_row(
            (
                ("", place),
                ("", escape(str(run.workload))),
                ("", escape(run.scale)),
                ("", environment(name, marks.get(name, 0))),
                ("num", str(run.repeat)),
                ("", run_state(run) + _draw_reason(run)),
                ("", escape(run.node) or "–"),
                ("nowrap", when(run.began_at, "seconds")),
                ("num", escape(took(run))),
            ),
            f'<th scope="row"><a href="{before}{uid}{after}"><code>{uid[:8]}</code></a></th>',
        )

    return SafeString("".join(map(draw, runs)))


def _draw_reason(run: Run) -> str:
    if not run.reason or run.reason == run.state:
        return ""
    return f' <span class="muted">{escape(run.reason)}</span>'


def _draw_row(cells: Sequence[tuple[str, str]], heading: str) -> str:
    """Return a row of these cells, classes and contents; its heading comes second."""
    first, *others = (
        f'<td class="{css}">{content}</td>' if css else f"<td>{content}</td>"
        for css, content in cells
    )
    return f"<tr>{first}{heading}{''.join(others)}</tr>\n"
