"""The table behind a chart is written by the server, where it is no larger than a page may be."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from dashboard.charts.point_table import MOST_CELLS, make_point_table
from dashboard.charts.style import Figure
from dashboard.templatetags import comparisons as tags
from experiments.models import Experiment
from tests.dashboard.conftest import People, Site, measured
from tests.factories import SeriesFactory


def make_figure(*traces: dict[str, Any], x: str = "Step", y: str = "Loss (1)") -> Figure:
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    return {"data": list(traces), "layout": axes}


def test_a_point_is_a_row_and_a_gap_is_none() -> None:
    trace = {"name": "bare &lt;metal&gt;", "x": [1, None, 3], "y": [0.1234567, None, None]}
    table = make_point_table(make_figure(trace, y="Loss<br>of &amp; <b>all</b>"))
    assert table
    assert table.headings == ("series", "Step", "Loss, of & all")
    assert [row.series for row in table.rows] == ["bare <metal>"] * 2
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["1", "0.123457"],
        ["3", ""],
    ]


def test_on_an_axis_of_names_the_nearest_one_is_the_value() -> None:
    figure = make_figure({"name": "runs", "x": [20.1, 20.2], "y": [0.2, 0.9]}, y="")
    figure["layout"]["yaxis"] |= {"tickvals": [0, 1], "ticktext": ["bare metal", "Apptainer"]}
    table = make_point_table(figure)
    assert table
    assert [row.cells[1].text for row in table.rows] == ["bare metal", "Apptainer"]
    assert not table.rows[0].cells[1].is_number
    figure["layout"]["meta"] = {"x": "Ratio", "rows": ["a: bare metal", "a: Apptainer"]}
    table = make_point_table(figure)
    assert table
    assert table.headings == ("series", "Ratio", "of")
    assert table.rows[1].cells[1].text == "a: Apptainer"


@given(st.integers(0, 200), st.booleans())
def test_no_table_is_larger_than_asked_for(points: int, has_runs: bool) -> None:
    trace = {"name": "x", "x": [*range(points)], "y": [*range(points)]}
    trace |= {"customdata": ["run"] * points} if has_runs else {}
    table = make_point_table(make_figure(trace))
    cells = points * (4 if has_runs else 3)
    assert (table is not None) == (0 < cells <= MOST_CELLS)
    assert table is None or table.count == cells


def read_tables(client: Client, address: str, chart: str = "") -> list[Any]:
    """Return the folded tables of a page's charts whose names begin with `chart`."""
    page = BeautifulSoup(client.get(address).content, "html.parser")
    charts = [
        each for each in page.select("[data-chart]") if str(each["data-chart"]).startswith(chart)
    ]
    figures = [each.find_parent("figure") for each in charts]
    return [figure.select_one("details.points") for figure in figures if figure]


@pytest.mark.django_db
def test_without_scripts_the_runs_of_a_comparison_are_in_the_page(
    results: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = reverse("comparison", args=[results.pk]) + "?section=runs"
    (fold,) = read_tables(as_owner, address, "strip-")
    assert not fold.has_attr("open")
    rows = fold.select("tbody tr")
    runs = set(results.runs.values_list("uid", flat=True))
    assert {str(link["href"]).split("/")[2] for link in fold.select("tbody a")} == runs
    assert len(rows) == len(runs) + 2, "a median of each environment"
    assert rows[1].th.text == "bare metal"
    assert fold.noscript is None
    monkeypatch.setattr(tags, "MOST_CELLS_OF_PAGE", 8)
    (fold,) = read_tables(as_owner, address, "strip-")
    assert fold.table is None
    links = [str(link["href"]) for link in fold.noscript.select("a")]
    assert links == [reverse(name, args=[results.pk]) for name in ("runs_csv", "series_csv")]


@pytest.mark.django_db
def test_all_tables_of_a_page_together_have_a_limit(
    site: Site, people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tags, "MOST_CELLS_OF_PAGE", 100)
    made = measured(site, people.owner, scales=["1x1", "1x2", "1x3", "1x4"])
    folds = read_tables(
        as_owner, reverse("comparison", args=[made.pk]) + "?section=runs&configuration=0"
    )
    cells = [len(fold.select("tbody td, tbody th")) for fold in folds]
    assert sum(cells) <= 100
    assert cells[0]


@pytest.mark.django_db
def test_series_of_a_run_are_a_table_or_a_link_to_the_file(
    results: Experiment, as_owner: Client
) -> None:
    run = results.runs.order_by("pk")[0]
    SeriesFactory(run=run, metric="loss", unit="1", values=[2.0, 1.0, 0.5])
    SeriesFactory(run=run, metric="step_time", values=[0.1] * 400)
    folds = read_tables(as_owner, run.get_absolute_url())
    assert sorted(bool(fold.table) for fold in folds) == [False, True]
    assert [bool(fold.noscript) for fold in folds] == [not fold.table for fold in folds]
