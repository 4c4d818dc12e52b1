"""Forest plots in millimetres: comparison by comparison, or environments across where many are."""

from __future__ import annotations

from dashboard.drawings.elements import Drawing
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_layout import Layout
from dashboard.drawings.forest_matrix import MatrixLayout
from dashboard.drawings.forest_pages import is_matrix
from dashboard.drawings.themes import Theme
from dashboard.drawings.typeface import Typeface


def lay_out_forest(forest: Forest, *, width: int, theme: Theme, type_: Typeface) -> list[Drawing]:
    """Return the pages of a figure that is so many millimetres wide: a key of `MEASURES`."""
    layout = MatrixLayout if is_matrix(forest, width) else Layout
    return layout(forest, width, theme, type_).make_pages()
