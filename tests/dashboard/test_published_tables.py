"""Published tables: from a pasted text to its verdicts, and whatever may be wrong with it."""

from __future__ import annotations

import gzip
import io
import json
import time
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from dashboard.figures import overall, sections
from dashboard.latex import comparison_tex
from dashboard.methods import methods
from experiments.comparisons import comparison_rows, everywhere_rows
from experiments.comparisons.tables import (
    MOST_BYTES,
    MOST_COMPARISONS,
    MOST_ROWS,
    as_kept,
    compare_published,
    preview,
)
from experiments.models import PublishedTable
from experiments.statistics.columns import ROLES, Reading
from tests.dashboard.conftest import People
from tests.experiments.test_tables_reading import RUNS, SCRAP
from tests.factories import TABLE, PublishedTableFactory

pytestmark = pytest.mark.django_db
NEW = "/compare/tables/new/"

# BIDS'19, Table 3: training times of a container study, mean and SE of 3 runs.
TABLE_3 = """gpus,environment,mean_s,standard_error_s,runs
1,baremetal,3710,10,3
1,uDocker,3730,10,3
2,baremetal,2390,30,3
2,uDocker,2360,16,3
4,baremetal,1860,40,3
4,uDocker,1880,10,3
"""
WIDE = "model,gpus,official,udocker\nResNet50,1,51,56\nAlexNet,1,639,604\n"
CLOCK = "machine,epochs,gpus,top_1,time_hh_mm\none,5,1,0.36,33:45\ntwo,10,1,0.53,30:23\n"
LAUNCHERS = "launcher,gpus,data,images_per_second\nplain,1,a,118\nplain,2,a,225\nother,2,b,252\n"


def fields(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "margin": "2", "visibility": "members", **more}


def shown(client: Client, text: str, **more: Any) -> Any:
    """Return the page that shows what is read."""
    return client.post(NEW, fields(text, action="preview", **more))


def said_on(page: Any) -> dict[str, str]:
    """Return what a browser would send back of the columns as they are shown."""
    found = page.context["form"]
    sent = {"said": found.said, "baseline": found.preview.baseline}
    for place, column in enumerate(found.preview.columns):
        sent |= {
            f"name-{place}": column.name,
            f"shown-{place}": column.role,
            f"role-{place}": column.role,
        }
    return sent


def chosen(page: Any, **roles: str) -> dict[str, str]:
    """Return the same with other roles for the columns named."""
    sent = said_on(page)
    for place, column in enumerate(page.context["form"].preview.columns):
        if column.name in roles:
            sent[f"role-{place}"] = roles[column.name]
    return sent


def kept(client: Client, text: str, **more: Any) -> PublishedTable:
    """Show, then keep."""
    sent = said_on(shown(client, text, **more)) | more
    answer = client.post(NEW, fields(text, **{"action": "save", **sent}))
    assert answer.status_code == 302, answer.context["form"].errors
    row = PublishedTable.objects.get()
    assert answer["Location"] == row.get_absolute_url()
    return row


def document(client: Client, row: PublishedTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get(reverse("table_json", args=[row.pk])).content)
    return found


def problem(page: Any) -> str:
    """Return what the page says is wrong; it is on the page, and nothing was kept."""
    found: str = page.context["form"].preview.problem
    assert 'class="problem mb-1"' in page.content.decode()
    assert not PublishedTable.objects.exists()
    return found


def test_a_pasted_table_becomes_its_verdicts_in_two_clicks(as_owner: Client) -> None:
    row = kept(as_owner, TABLE_3)
    assert row.baseline == "baremetal", "the one that is called like bare metal"
    assert row.question == "What does uDocker cost compared with baremetal?"
    assert row.reading["roles"] == {}, "nothing was mapped by hand"
    page = as_owner.get(row.get_absolute_url()).content.decode()
    for words in (
        "uDocker is equivalent to baremetal within 2 %",
        "ROUNDING-SENSITIVE",
        "PROVISIONAL",
        "ORDER OF RUNS UNKNOWN",
        "is not shown to be equivalent to baremetal within 2 % in all 3 cells compared",
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
    assert tex == comparison_tex(comparison)
    assert "A. Author, 2019" in tex
    assert "All cells: the geometric mean" in tex
    assert rf"\label{{tab:tare-table-{row.pk}}}" in tex
    given = as_owner.get(reverse("table_text", args=[row.pk]))
    assert given.content.decode().splitlines() == TABLE.splitlines()
    assert f'filename="tare-table-{row.pk}-from-a-paper-table.csv"' in given["Content-Disposition"]


def test_a_column_an_environment_gives_ratios_and_no_inference(as_owner: Client) -> None:
    row = kept(as_owner, WIDE, unit="images/s")
    page = as_owner.get(row.get_absolute_url()).content.decode()
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
    page = as_owner.get(row.get_absolute_url()).content.decode()
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


def kept_from(client: Client, page: Any, text: str) -> PublishedTable:
    answer = client.post(NEW, fields(text, action="save", **said_on(page)))
    assert answer.status_code == 302, answer.context["form"].errors
    return PublishedTable.objects.get()


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
    answer = as_owner.get(row.get_absolute_url()).content.decode()
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
    page = as_owner.get(row.get_absolute_url()).content.decode()
    for plot in ("strip", "slopes", "order", "equivalence"):
        assert f'data-chart="{plot}-0"' in page
    assert "data-runs" not in page, "these runs may be another site's"


def test_single_runs_are_looked_at_by_other_tests_too(as_owner: Client) -> None:
    lines = [f"{e},{10 + (7 * k) % 5 / 10}\n" for k in range(8) for e in ("bare", "box")]
    row = kept(as_owner, "environment,time_s\n" + "".join(lines))
    address = reverse("table_robustness", args=[row.pk])
    assert f'hx-get="{address}"' in as_owner.get(row.get_absolute_url()).content.decode()
    assert "Mann" in as_owner.get(address).content.decode()
    assert document(as_owner, row)["robustness"][0]["companions"]


def test_means_have_nothing_to_be_looked_at(as_owner: Client) -> None:
    row = kept(as_owner, TABLE_3)
    assert 'id="robustness"' not in as_owner.get(row.get_absolute_url()).content.decode()
    assert document(as_owner, row)["robustness"] == []


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
        in as_owner.get(row.get_absolute_url()).content.decode()
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
    seen = preview(text, reading=reading, baseline="bare", margin=0.02)
    assert all(column.role in {*ROLES, ""} for column in seen.columns)
    if seen.problem:
        return
    row = PublishedTable(
        pk=1, text=text, baseline=seen.baseline, margin=0.02, reading=as_kept(reading)
    )
    comparison = compare_published(row)
    rows = [*comparison_rows(comparison), *everywhere_rows(comparison)]
    json.dumps([rows, overall(comparison)[0].figure], allow_nan=False)
    assert sections(comparison)
    assert methods(comparison)
    assert comparison_tex(comparison)


def test_an_uploaded_file_is_as_good_as_a_pasted_text(as_owner: Client) -> None:
    file = SimpleUploadedFile("table.csv", TABLE_3.encode("utf-16"))
    page = as_owner.post(NEW, fields("", action="preview", file=file))
    assert "3710,10,3" in page.content.decode(), "the text is in the form now"
    assert page.context["form"].table_text == TABLE_3
    row = kept_from(as_owner, page, TABLE_3)
    assert len(compare_published(row).pairs) == 3


@pytest.mark.parametrize("separator", [";", "\t"])
def test_separators_are_recognised(separator: str, as_owner: Client) -> None:
    row = kept(as_owner, TABLE_3.replace(",", separator))
    assert len(compare_published(row).pairs) == 3


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("3730,10,3", "NaN,10,3", "Row 3, column mean_s: NaN is not a finite number."),
        ("3730,10,3", "-3730,10,3", "Row 3, column mean_s: -3730 is negative."),
        ("3730,10,3", "0,10,3", "Row 3, column mean_s: 0 is zero."),
        ("3730,10,3", "3730,10,2.5", "Row 3, column runs: 2.5 is not a whole number."),
        ("3730,10,3", "3730,10", "Row 3 has 4 fields, the header has 5."),
        ("1,uDocker", "1,baremetal", "Rows 2 and 3 are both baremetal gpus 1; which counts?"),
        ("environment", "colour", "Row 3"),
        ("mean_s", "", "Row 1: the column '' is nameless or there twice."),
        ("mean_s", "gpus", "Row 1: the column 'gpus' is nameless or there twice."),
        ("mean_s", "error", "Row 1, column error: name it sd or se, so that it says which."),
        ("standard_error_s", "standard_error_ms", "Row 1: mixed units, mean_s is in s"),
        ("uDocker", "bare\0metal", "This is not a CSV: it holds bytes that are not text."),
        ("baremetal", "uDocker", "Rows 2 and 3 are both uDocker"),
    ],
)
def test_a_bad_table_is_refused_by_row_and_column_and_nothing_is_kept(
    old: str, new: str, words: str, as_owner: Client
) -> None:
    text = TABLE_3.replace(old, new)
    page = shown(as_owner, text)
    if (old, new) == ("environment", "colour"):
        # The only column of words is taken for it.
        assert page.context["form"].preview.problem == ""
        return
    assert words in problem(page)
    sent = said_on(page)
    assert words in problem(as_owner.post(NEW, fields(text, **sent, action="save")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TABLE_3.replace(",3\n", ",1\n"), "1 run each"),
        (TABLE_3.replace(",10,3", ",0,3").replace(",30,3", ",0,3"), "no spread at all"),
        ("environment,time_s\nbare,1\nbox,1\nbox,1\n", "1 and 2 runs"),
    ],
)
def test_too_little_is_an_answer(text: str, words: str, as_owner: Client) -> None:
    row = kept(as_owner, text)
    page = as_owner.get(row.get_absolute_url()).content.decode()
    assert "NO INFERENCE" in page
    assert words in page


def test_unequal_numbers_of_runs_are_compared(as_owner: Client) -> None:
    row = kept(as_owner, TABLE_3.replace("3730,10,3", "3730,10,7"))
    assert (compare_published(row).pairs[0].size) == "3 and 7 runs"


def test_all_bad_rows_are_named_together(as_owner: Client) -> None:
    text = TABLE_3.replace("3730", "NaN").replace(",16,", ",x,")
    page = shown(as_owner, text)
    assert problem(page) == "Row 3, column mean_s: NaN is not a finite number."
    assert "Row 5, column standard_error_s: &#x27;x&#x27; is not a number." in page.content.decode()
    amiss = {
        (column.name, number)
        for column in page.context["form"].preview.columns
        for number, bad in zip(page.context["form"].preview.row_numbers, column.amiss, strict=True)
        if bad
    }
    assert amiss == {("mean_s", 3), ("standard_error_s", 5)}
    far = "environment,mean_s\n" + "bare,1\n" * 50 + "box,x\n" + "bare,1\n" * 9
    assert shown(as_owner, far).context["form"].preview.row_numbers == [*range(2, 12), 52]
    many = "environment,mean_s\n" + "bare,NaN\n" * 1000
    assert len(shown(as_owner, many).context["form"].preview.further) == 9


def test_mixed_units_are_refused(as_owner: Client) -> None:
    text = "environment,mean,unit\nbare,1,s\nbox,1000,ms\n"
    assert problem(shown(as_owner, text)).startswith("Row 3, column unit: mixed units, ms here")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04....", "This is not a CSV but an Excel workbook (.xlsx)"),
        (gzip.compress(TABLE_3.encode()), "This is not a CSV but compressed (.gz)"),
        (b"\x89PNG\r\n", "This is not a CSV but a picture"),
        (TABLE_3.replace("3730", "37\x0030").encode(), "bytes that are not text"),
        (b"just words\n", "row 1 has no comma, semicolon or tab"),
        (b"a,b\n", "a header and no rows"),
    ],
)
def test_a_file_that_is_no_table_is_called_what_it_is(
    content: bytes, words: str, as_owner: Client
) -> None:
    file = SimpleUploadedFile("table.csv", content)
    page = as_owner.post(NEW, fields("", action="save", baseline="x", file=file))
    assert words in problem(page)


def test_an_empty_form_asks_for_a_table(as_owner: Client) -> None:
    page = as_owner.post(NEW, fields("  \n", action="save"))
    assert "Paste a table, or choose a file." in page.content.decode()
    quiet = as_owner.post(NEW, fields(""), headers={"HX-Request": "true"})
    assert "Paste a table" not in quiet.content.decode(), "while it is being filled in"


class Counting(io.BytesIO):
    """A body of 10 million rows that was never in memory."""

    def __init__(self, row: bytes, rows: int) -> None:
        super().__init__()
        self.row, self.left, self.largest = row, len(row) * rows, 0

    def read(self, size: int | None = -1) -> bytes:
        count = self.left if size is None or size < 0 else min(size, self.left)
        self.left -= count
        self.largest = max(self.largest, count)
        return (self.row * (count // len(self.row) + 1))[:count]


@pytest.mark.parametrize("htmx", [False, True])
def test_ten_million_rows_are_refused_fast_in_flat_memory(htmx: bool, as_owner: Client) -> None:
    body = Counting(b"bare,1\n", 10_000_000)
    headers = {"HX-Request": "true"} if htmx else {}
    began = time.process_time()
    page = as_owner.generic(
        "POST",
        NEW,
        b"",
        content_type="multipart/form-data; boundary=x",
        headers=headers,
        **{"wsgi.input": body, "CONTENT_LENGTH": str(body.left)},  # type: ignore[arg-type]
    )
    assert time.process_time() - began < 2
    assert page.status_code == (200 if htmx else 413)
    assert "more than the 2 MB that a page takes" in problem(page)
    assert body.left == 0, "a browser that may not finish shows no answer"
    assert body.largest <= 1 << 16


def test_a_text_of_too_many_rows_is_refused_at_once(as_owner: Client) -> None:
    text = "a,b\n" + "1,2\n" * (MOST_BYTES // 4 - 10)
    began = time.process_time()
    assert "more than 100,000 rows" in problem(shown(as_owner, text))
    assert time.process_time() - began < 2


def test_more_comparisons_than_a_page_can_show_are_refused(as_owner: Client) -> None:
    rows = [f"{k},{name},{k + 1}\n" for k in range(MOST_COMPARISONS + 1) for name in ("a", "b")]
    page = shown(as_owner, "id,environment,mean_s\n" + "".join(rows))
    many = [f"{k},{name},{k + 1},1,5\n" for k in range(MOST_ROWS // 2) for name in ("a", "b")]
    began = time.process_time()
    shown(as_owner, "id,environment,mean_s,sd,n\n" + "".join(many))
    assert time.process_time() - began < 5, "nothing is compared before it is counted"
    assert problem(page).startswith("These are 201 comparisons; a page shows 200 at most.")


def test_more_rows_than_a_page_reads_are_refused(as_owner: Client) -> None:
    page = shown(as_owner, "environment,time_s\n" + "bare,1\n" * (MOST_ROWS + 1))
    assert problem(page).startswith("The table has 10,001 rows; a page takes 10,000.")


def test_a_form_without_the_token_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    person = PublishedTableFactory().owner
    client.force_login(person)
    assert client.post(NEW, fields(TABLE, action="save", baseline="bare metal")).status_code == 403
    assert PublishedTable.objects.count() == 1


@pytest.mark.parametrize(
    "said",
    ["{", "[]", "1", '{"mean_s": 1}', '{"mean_s": "colour"}', '{"nobody": "mean"}', "null"],
)
def test_what_a_browser_would_not_send_is_no_error(said: str, as_owner: Client) -> None:
    page = as_owner.post(NEW, fields(TABLE, said=said, action="preview", **{"name-0": "gpus"}))
    assert page.context["form"].preview.problem == ""


EVIL = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"


def test_headers_and_cells_are_text_and_nothing_else(as_owner: Client) -> None:
    evil = '"' + EVIL.replace('"', '""') + '"'
    text = TABLE.replace("gpus", evil).replace("Apptainer", evil).replace("\n1,", f"\n{evil},")
    page = shown(as_owner, text, source=EVIL, question=EVIL, unit=EVIL[:30])
    row = kept(as_owner, text, source=EVIL, question=EVIL)
    for address in (
        row.get_absolute_url(),
        "/compare/?tab=tables",
        f"{row.get_absolute_url()}edit/",
    ):
        for html in (as_owner.get(address).content.decode(), page.content.decode()):
            assert "<script>alert" not in html
            assert "<img src=x" not in html
    tex = as_owner.get(reverse("table_tex", args=[row.pk])).content.decode()
    assert "<script>" not in tex


def test_labels_called_like_our_own_columns_lose_nothing(as_owner: Client) -> None:
    text = TABLE.replace("gpus", "ratio")
    (first, _) = document(as_owner, kept(as_owner, text))["comparison"]
    assert first["ratio (label)"] == "1"
    assert first["ratio"] == pytest.approx(1.01)


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
