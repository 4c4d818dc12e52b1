"""Published tables: whatever is pasted or uploaded, and whatever may be wrong with it."""

from __future__ import annotations

import gzip
import io
from unittest import mock

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from experiments.comparisons import published_tables
from experiments.comparisons.published_tables import (
    MOST_BYTES,
    MOST_COMPARISONS,
    MOST_ROWS,
    compare_published,
)
from experiments.models import PublishedTable
from tests.dashboard.published_tables import (
    NEW,
    TABLE_3,
    document,
    fields,
    kept,
    kept_from,
    problem,
    said_on,
    shown,
)
from tests.factories import TABLE, PublishedTableFactory

pytestmark = pytest.mark.django_db


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
        (gzip.compress(TABLE_3.encode(), mtime=0), "This is not a CSV but compressed (.gz)"),
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
def test_ten_million_rows_are_refused_in_flat_memory(htmx: bool, as_owner: Client) -> None:
    body = Counting(b"bare,1\n", 10_000_000)
    headers = {"HX-Request": "true"} if htmx else {}
    page = as_owner.generic(
        "POST",
        NEW,
        b"",
        content_type="multipart/form-data; boundary=x",
        headers=headers,
        **{"wsgi.input": body, "CONTENT_LENGTH": str(body.left)},  # type: ignore[arg-type]
    )
    assert page.status_code == (200 if htmx else 413)
    assert "more than the 2 MB that a page takes" in problem(page)
    assert body.left == 0, "a browser that may not finish shows no answer"
    assert body.largest <= 1 << 16


def test_a_text_of_too_many_rows_is_refused_before_any_is_understood(
    as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_table = mock.Mock(side_effect=AssertionError("read"))
    monkeypatch.setattr(published_tables, "read_table", read_table)
    text = "a,b\n" + "1,2\n" * (MOST_BYTES // 4 - 10)
    assert "more than 100,000 rows" in problem(shown(as_owner, text))
    read_table.assert_not_called()


def test_more_comparisons_than_a_page_can_show_are_refused_before_they_are_made(
    as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_table = mock.Mock(side_effect=AssertionError("compared"))
    monkeypatch.setattr(published_tables, "compare_table", compare_table)
    rows = [f"{k},{name},{k + 1}\n" for k in range(MOST_COMPARISONS + 1) for name in ("a", "b")]
    page = shown(as_owner, "id,environment,mean_s\n" + "".join(rows))
    many = [f"{k},{name},{k + 1},1,5\n" for k in range(MOST_ROWS // 2) for name in ("a", "b")]
    shown(as_owner, "id,environment,mean_s,sd,n\n" + "".join(many))
    compare_table.assert_not_called()
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
