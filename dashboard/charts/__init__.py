"""Figures as plain JSON for plotly.js: pure functions of the statistics' dataclasses.

Figures carry the light theme's colours on a transparent ground. For another theme the page sets,
before it draws: `layout.font.color` and `.family`; `gridcolor` of each axis; `marker.color`,
`line.color` and `fillcolor` of each trace
with `meta.environment` (its index; 0 is also `meta.role` "baseline"),
but `marker.line.color`, a thin rim, to the page's ground; those of traces with `meta.role` "ink"
to the colour of its text; `fillcolor` of shapes named "band" and
`line.color` of those named "reference"; the colours of traces with `meta.role` "muted" and the
`font.color` of annotations named "muted" to its quiet colour; `bgcolor` of
annotations that have one to its ground.
A point's `customdata` is the uid of its run; its trace's `name` says what it is. An axis that has
no title has names at its ticks; `layout.meta.x` says then what they are, and `layout.meta.rows` has
longer names for those of y. From these the page makes the table of a figure.
"""

from dashboard.charts.bars import draw_bars
from dashboard.charts.curves import draw_accuracy_curves, draw_loss_curves
from dashboard.charts.equivalence import draw_equivalence
from dashboard.charts.forest import Row, draw_forest
from dashboard.charts.intervals import draw_interval_trace
from dashboard.charts.paired_curves import draw_paired_curves
from dashboard.charts.quantiles import draw_quantiles
from dashboard.charts.runs import draw_run_order, strip
from dashboard.charts.scaling import draw_efficiency, draw_scaling
from dashboard.charts.slopes import draw_slopes
from dashboard.charts.steps import draw_step_trace
from dashboard.charts.style import COLOURS, SYMBOLS, Figure, Marks
from dashboard.charts.tails import draw_tails
from dashboard.charts.thinning import MOST_POINTS

__all__ = [
    "COLOURS",
    "MOST_POINTS",
    "SYMBOLS",
    "Figure",
    "Marks",
    "Row",
    "draw_accuracy_curves",
    "draw_bars",
    "draw_efficiency",
    "draw_equivalence",
    "draw_forest",
    "draw_interval_trace",
    "draw_loss_curves",
    "draw_paired_curves",
    "draw_quantiles",
    "draw_run_order",
    "draw_scaling",
    "draw_slopes",
    "draw_step_trace",
    "draw_tails",
    "strip",
]
