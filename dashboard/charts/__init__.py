"""Figures as plain JSON for plotly.js: pure functions of the statistics' dataclasses.

Figures carry the light theme's colours on a transparent ground. For another theme the page sets,
before it draws: `layout.font.color` and `.family`; `gridcolor` of each axis; `marker.color` and
`line.color` of each trace with `meta.environment` (its index; 0 is also `meta.role` "baseline"),
but `marker.line.color`, a thin rim, to the page's ground; `fillcolor` of shapes named "band" and
`line.color` of those named "reference"; the colours of traces with `meta.role` "muted" and the
`font.color` of annotations named "muted" to its quiet colour.
A point's `customdata` is the uid of its run; its trace's `name` says what it is. An axis that has
no title has names at its ticks. From these the page makes the table of a figure.
"""

from dashboard.charts.equivalence import equivalence
from dashboard.charts.forest import Row, forest
from dashboard.charts.intervals import interval_trace
from dashboard.charts.runs import run_order, strip
from dashboard.charts.slopes import slopes
from dashboard.charts.steps import step_trace
from dashboard.charts.style import COLOURS, SYMBOLS, Figure, Marks

__all__ = [
    "COLOURS",
    "SYMBOLS",
    "Figure",
    "Marks",
    "Row",
    "equivalence",
    "forest",
    "interval_trace",
    "run_order",
    "slopes",
    "step_trace",
    "strip",
]
