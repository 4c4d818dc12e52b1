"""The files of a comparison, each kind of data with its formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FORMATS = {
    "csv": "CSV",
    "json": "JSON",
    "parquet": "Parquet",
    "tex": "LaTeX",
    "pdf": "PDF",
    "svg": "SVG",
    "png": "PNG",
}
FOREST = "Forest plot"


@dataclass(frozen=True)
class Files:
    """What is exported, and the names of the views that send it, by format."""

    label: str
    about: str
    views: Mapping[str, str]

    @property
    def formats(self) -> list[tuple[str, str]]:
        """Return the label of each format with the name of its view."""
        return [(FORMATS[ending], view) for ending, view in self.views.items()]


def _name_views(prefix: str, endings: Sequence[str]) -> dict[str, str]:
    return {ending: f"{prefix}_{ending}" for ending in endings}


RESULTS = "every number of the full results"
DRAWN = "two columns, 180 mm; more widths below the figure"
OF_EXPERIMENTS = (
    Files("Comparison", RESULTS, _name_views("comparison", ("csv", "json", "parquet", "tex"))),
    Files(FOREST, DRAWN, _name_views("forest", ("pdf", "svg", "png"))),
    Files("Runs", "a row for each run", _name_views("runs", ("csv", "json", "parquet"))),
    Files(
        "Measurements",
        "a row for each metric of each run",
        _name_views("measurements", ("csv", "parquet")),
    ),
    Files("Steps", "a row for each recorded step", _name_views("series", ("csv", "parquet"))),
)
OF_TABLES = (
    Files("Comparison", RESULTS, _name_views("table", ("csv", "json", "parquet", "tex"))),
    Files(FOREST, DRAWN, _name_views("table_forest", ("pdf", "svg", "png"))),
    Files("The table as given", "its text", {"csv": "table_text"}),
)


def list_files(*, of_table: bool, pages: int) -> list[Files]:
    """Return the files that there are; a forest plot of several pages is whole in a PDF only."""
    files = OF_TABLES if of_table else OF_EXPERIMENTS
    return [
        Files(row.label, row.about, {"pdf": row.views["pdf"]})
        if row.label == FOREST and pages > 1
        else row
        for row in files
        if row.label != FOREST or pages
    ]
