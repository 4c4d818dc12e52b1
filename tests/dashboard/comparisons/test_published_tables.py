"""Published tables: from a pasted text to its verdicts, kept, changed and found again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparisons.figures import draw_sections, forest_plot
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.panels import latex_file
from experiments.comparisons import list_comparison_rows, list_everywhere_rows
from experiments.comparisons.published_tables import (
    compare_published,
    dump_reading,
    preview_table,
)
from experiments.models import PublishedTable
from experiments.statistics.published.columns import ROLES, Reading
from tests.dashboard.conftest import People, show_all_sections
from tests.dashboard.published_tables import (
    CLOCK,
    LAUNCHERS,
    NEW,
    TABLE_3,
    WIDE,
    chosen,
    document,
    fields,
    kept,
    kept_from,
    problem,
    said_on,
    shown,
)
from tests.experiments.statistics.test_tables_reading import RUNS, SCRAP
from tests.factories import TABLE, PublishedTableFactory

pytestmark = pytest.mark.django_db


def test_a_pasted_table_becomes_its_verdicts_in_two_clicks(as_owner: Client) -> None:
    row = kept(as_owner, TABLE_3)
    assert row.baseline == "baremetal", "the one that is called like bare metal"
    assert row.question == "What does uDocker cost compared with baremetal?"
    assert row.reading["roles"] == {}, "nothing was mapped by hand"
    page = as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    page = page.replace("\N{NO-BREAK SPACE}", " ")
    for words in (
        "uDocker is equivalent to baremetal within 2 %",
        "ROUNDING-SENSITIVE",
        "PROVISIONAL",
        "ORDER OF RUNS UNKNOWN",
        "is not shown to be equivalent to baremetal within 2 % in all 3 configurations compared",
        'data-chart="forest"',
        'data-chart="equivalence-0"',
        "delta method",
    ):
        assert words in page
    assert 'data-chart="strip-0"' not in page, "means are no runs"


def test_the_export_has_the_reference_values(as_owner: Client) -> None:
    """To four significant digits: ratio, degrees of freedom, intervals, p, margins, Holm."""
    found = document(as_owner, kept(as_owner, TABLE_3))
    close: dict[str, Any] = {"rel": 5e-4}
    expected = [
        (1.0054, 4.000, (0.9948, 1.0161, 0.9973, 1.0136), 0.2302, 0.009596, 0.01357, 0.02879),
        (0.9874, 3.075, (0.9442, 1.0327, 0.9552, 1.0208), 0.4397, 0.3245, 0.04694, 0.6490),
        (1.0108, 2.244, (0.9274, 1.1016, 0.9518, 1.0734), 0.6723, 0.3585, 0.07340, 0.6490),
    ]
    for row, (ratio, df, ends, p, tost, smallest, holm) in zip(
        found["comparison"], expected, strict=True
    ):
        assert row["ratio"] == pytest.approx(ratio, abs=5.1e-5)
        assert row["df"] == pytest.approx(df, abs=5.1e-4)
        names = ("ci95_low", "ci95_high", "ci90_low", "ci90_high")
        assert [row[name] for name in names] == pytest.approx(list(ends), abs=5.1e-5)
        assert row["p_difference"] == pytest.approx(p, **close)
        assert row["p_equivalence"] == pytest.approx(tost, **close)
        assert row["smallest_margin"] == pytest.approx(smallest, **close)
        assert row["p_equivalence_holm"] == pytest.approx(holm, **close)
    assert [row["gpus"] for row in found["comparison"]] == ["1", "2", "4"]
    (all_cells,) = found["all_cells"]
    assert all_cells["largest_p_equivalence"] == pytest.approx(0.3585, **close)
    assert all_cells["geometric_mean_ratio"] == pytest.approx(1.0011, abs=5.1e-5)
    assert all_cells["df"] == pytest.approx(4.156, abs=5.1e-4)
    ends = [all_cells[name] for name in ("ci95_low", "ci95_high", "ci90_low", "ci90_high")]
    assert ends == pytest.approx([0.9771, 1.0258, 0.9826, 1.0201], abs=5.1e-5)
    assert all_cells["p_difference"] == pytest.approx(0.9032, **close)
    assert all_cells["p_equivalence"] == pytest.approx(0.0504, abs=5.1e-5)


def test_every_export_says_the_same_and_holds_the_table(as_owner: Client) -> None:
    row = kept(as_owner, TABLE, question="From a paper?", source="A. Author, 2019")
    comparison = compare_published(row)
    found = document(as_owner, row)
    assert found["table"]["text"].splitlines() == TABLE.splitlines()
    assert found["table"]["source"] == "A. Author, 2019"
    text = b"".join(as_owner.get(reverse("table_csv", args=[row.pk])).streaming_content).decode()  # type: ignore[attr-defined]
    assert str(comparison.pairs[0].ratio) in text
    assert str(comparison.everywhere[0].ratio) in text
    tex = as_owner.get(reverse("table_tex", args=[row.pk])).content.decode()
    assert tex == latex_file(comparison)
    assert "A. Author, 2019" in tex
    assert "All configurations: the geometric mean" in tex
    assert rf"\label{{tab:tare-table-{row.pk}}}" in tex
    given = as_owner.get(reverse("table_text", args=[row.pk]))
    assert given.content.decode().splitlines() == TABLE.splitlines()
    assert f'filename="tare-table-{row.pk}-from-a-paper-table.csv"' in given["Content-Disposition"]


def test_a_column_an_environment_gives_ratios_and_no_inference(as_owner: Client) -> None:
    row = kept(as_owner, WIDE, unit="images/s")
    page = as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    assert "NO INFERENCE" in page
    assert "no spread and no number of runs" in page
    assert "ResNet50 · gpus 1" in page
    rows = document(as_owner, row)["comparison"]
    assert [row["ratio"] for row in rows] == pytest.approx([56 / 51, 604 / 639])
    assert [row["cost"] for row in rows] == pytest.approx([51 / 56 - 1, 639 / 604 - 1])
    assert {row["ci95_low"] for row in rows} == {None}
    assert document(as_owner, row)["all_cells"] == []


def test_without_a_direction_no_cost_is_shown(as_owner: Client) -> None:
    row = kept(as_owner, WIDE)
    assert {one["cost"] for one in document(as_owner, row)["comparison"]} == {None}
    page = as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    assert "faster" not in page
    assert "no interval, no test and no verdict" in page
    assert "Holm" not in page.partition("<h2>Methods</h2>")[2]


def test_a_column_is_mapped_by_hand_and_stays_so(as_owner: Client) -> None:
    page = shown(as_owner, CLOCK)
    assert "no row of the baseline" in problem(page)
    sent = chosen(page, epochs="ignore", top_1="ignore")
    again = as_owner.post(NEW, fields(CLOCK, action="preview", **sent))
    preview = again.context["form"].preview
    assert preview.problem == ""
    assert preview.first[0][2:] == ("one", "33.75 h")
    row = kept_from(as_owner, again, CLOCK)
    assert row.reading["roles"] == {"epochs": "ignore", "top_1": "ignore"}
    (pair,) = compare_published(row).pairs
    assert pair.ratio == pytest.approx((30 * 60 + 23) / (33 * 60 + 45))
    assert pair.verdict == "NO INFERENCE"


def test_what_was_mapped_can_be_mapped_back(as_owner: Client) -> None:
    page = shown(as_owner, TABLE)
    sent = chosen(page, gpus="ignore")
    page = as_owner.post(NEW, fields(TABLE, action="preview", **sent))
    assert "which counts?" in page.context["form"].preview.problem
    page = as_owner.post(NEW, fields(TABLE, action="preview", **chosen(page, gpus="label")))
    assert page.context["form"].preview.problem == ""


def test_cells_without_the_baseline_are_named_and_left_out(as_owner: Client) -> None:
    page = shown(as_owner, LAUNCHERS)
    assert "Needed: environment" in problem(page)
    sent = chosen(page, launcher="environment", data="ignore")
    text = LAUNCHERS + "other,4,b,492\n"
    page = as_owner.post(NEW, fields(text, action="preview", **sent))
    row = kept_from(as_owner, page, text)
    assert [pair.ratio for pair in compare_published(row).pairs] == [pytest.approx(252 / 225)]
    answer = as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    assert "Row 5: no row of the baseline plain has the same labels (gpus 4)" in answer
    assert "there is no row of plain to compare with" in answer
    assert document(as_owner, row)["left_out"][0] == "Row 2: only the baseline plain (gpus 1)."
    assert 'data-chart="strip' not in answer, "one figure a cell is no distribution"


def test_our_own_runs_can_be_compared_by_another_metric(
    as_owner: Client, results: Any, people: People
) -> None:
    answer: Any = as_owner.get(reverse("runs_csv", args=[results.pk]))
    text = b"".join(answer.streaming_content).decode()
    row = kept(as_owner, text)
    comparison = compare_published(row)
    (pair,) = comparison.pairs
    assert (pair.paired, pair.n_blocks, comparison.groups[0].metric.name) == (
        True,
        5,
        "step_time (s)",
    )
    page = as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    for plot in ("strip", "slopes", "order", "equivalence"):
        assert f'data-chart="{plot}-0"' in page
    assert "data-runs" not in page, "these runs may be another site's"


def test_single_runs_are_looked_at_by_other_tests_too(as_owner: Client) -> None:
    lines = [f"{e},{10 + (7 * k) % 5 / 10}\n" for k in range(8) for e in ("bare", "box")]
    row = kept(as_owner, "environment,time_s\n" + "".join(lines))
    address = reverse("table_robustness", args=[row.pk])
    assert (
        f'hx-get="{address}"'
        in as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    )
    assert "Mann" in as_owner.get(address).content.decode()
    assert document(as_owner, row)["robustness"][0]["companions"]


def test_of_means_fieller_s_interval_is_the_one_other_test(as_owner: Client) -> None:
    row = kept(as_owner, TABLE_3)
    page = as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    assert 'id="robustness"' in page
    panel = as_owner.get(reverse("table_robustness", args=[row.pk])).content.decode()
    assert "Fieller’s interval" in panel
    assert "Mann-Whitney" not in panel
    tests = [
        companion["name"] for companion in document(as_owner, row)["robustness"][0]["companions"]
    ]
    assert tests == ["Fieller’s interval"]


def test_of_several_metrics_one_is_chosen(as_owner: Client) -> None:
    page = shown(as_owner, RUNS)
    preview = page.context["form"].preview
    assert preview.metrics == ["loss (1)", "step_time (s)", "time_to_first_step (s)"]
    sent = said_on(page) | {"shown-metric": preview.measured, "metric": "time_to_first_step (s)"}
    page = as_owner.post(NEW, fields(RUNS, action="preview", **sent))
    assert page.context["form"].preview.measured == "time_to_first_step (s)"
    sent = said_on(page) | {"shown-metric": "time_to_first_step (s)", "metric": "loss (1)"}
    page = as_owner.post(NEW, fields(RUNS, action="preview", **sent))
    assert "whether lower or higher is better is not said" in problem(page)
    assert "What no column says”" in page.context["form"].hint
    sent = said_on(page) | {"shown-metric": "loss (1)", "metric": "step_time (s)"}
    page = as_owner.post(NEW, fields(RUNS, action="preview", **sent))
    row = kept_from(as_owner, page, RUNS)
    assert [group.metric.name for group in compare_published(row).groups] == ["step_time (s)"]
    assert (
        "1 row of a run that did not succeed is left out."
        in as_owner.get(show_all_sections(row.get_absolute_url())).content.decode()
    )


@given(
    text=st.one_of(
        st.text(max_size=200),
        st.lists(st.lists(SCRAP, min_size=3, max_size=3), min_size=1, max_size=6).map(
            lambda rows: "\n".join(map(",".join, rows))
        ),
    ),
    roles=st.dictionaries(SCRAP, st.sampled_from(sorted(ROLES)), max_size=3),
    unit=st.sampled_from(["", "s", "hh:mm", "images/s", "points"]),
    better=st.sampled_from([None, "lower", "higher"]),
    n=st.sampled_from([None, 1, 5]),
)
def test_whatever_is_shown_without_a_problem_can_be_kept_and_exported(
    text: str, roles: dict[str, str], unit: str, better: Any, n: int | None
) -> None:
    reading = Reading(roles, unit, better, n)
    seen = preview_table(text, reading=reading, baseline="bare", margin=0.02)
    assert all(column.role in {*ROLES, ""} for column in seen.columns)
    if seen.problem:
        return
    row = PublishedTable(
        pk=1, text=text, baseline=seen.baseline, margin=0.02, reading=dump_reading(reading)
    )
    comparison = compare_published(row)
    rows = [*list_comparison_rows(comparison), *list_everywhere_rows(comparison)]
    json.dumps([rows, forest_plot(comparison).figure], allow_nan=False)
    assert draw_sections(comparison)
    assert describe_methods(comparison)
    assert latex_file(comparison)


def test_a_table_is_changed(as_owner: Client, people: People) -> None:
    row = PublishedTableFactory(owner=people.owner, reading={"roles": {}, "n": None})
    address = reverse("table_edit", args=[row.pk])
    page = as_owner.get(address)
    assert "1,bare metal,100,1.0,5" in page.content.decode()
    sent = {**said_on(page), "baseline": "Apptainer", "margin": "5", "question": "And back?"}
    answer = as_owner.post(address, fields(TABLE) | sent | {"action": "save"})
    assert answer["Location"] == row.get_absolute_url()
    row.refresh_from_db()
    assert (row.baseline, row.margin, row.question) == ("Apptainer", 0.05, "And back?")
    assert row.owner == people.owner


def test_a_table_that_can_no_longer_be_read_is_not_lost(as_owner: Client, people: People) -> None:
    row = PublishedTableFactory(owner=people.owner, text=TABLE, baseline="gone")
    page = as_owner.get(row.get_absolute_url())
    assert page.status_code == 200
    assert "No row has the baseline" in page.content.decode()
    assert reverse("table_text", args=[row.pk]) in page.content.decode()
    for name in ("table_csv", "table_json", "table_tex"):
        assert as_owner.get(reverse(name, args=[row.pk])).status_code == 404


def test_a_comparison_asks_the_database_as_often_for_many_rows(as_owner: Client) -> None:
    small = PublishedTableFactory()
    lines = [f"{k},{e},{100 + k},1.0,5\n" for k in range(50) for e in ("bare metal", "Apptainer")]
    large = PublishedTableFactory(text=TABLE.splitlines()[0] + "\n" + "".join(lines))
    counts = []
    for row in (small, small, large):
        with CaptureQueriesContext(connection) as captured:
            assert as_owner.get(row.get_absolute_url()).status_code == 200
        counts.append(len(captured))
    assert counts[1] == counts[2] <= 5


def test_the_list_shows_verdicts_in_brief(as_owner: Client) -> None:
    row = kept(as_owner, TABLE, question="From a paper?")
    page = as_owner.get("/compare/?tab=tables").content.decode()
    assert "From a paper?" in page
    assert f'hx-get="{row.get_absolute_url()}"' in page
    brief = as_owner.get(row.get_absolute_url(), headers={"HX-Request": "true"}).content.decode()
    assert "INCONCLUSIVE" in brief
    assert "<html" not in brief


def test_a_search_finds_it(as_owner: Client) -> None:
    PublishedTableFactory(question="What did Table 3 show?")
    assert "What did Table 3 show?" in as_owner.get("/search/?q=table+3").content.decode()


def test_a_member_comes_to_it_from_the_first_page(as_owner: Client) -> None:
    assert NEW in as_owner.get("/compare/").content.decode()
    assert NEW in as_owner.get("/").content.decode()
