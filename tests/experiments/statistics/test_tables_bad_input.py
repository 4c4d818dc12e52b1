"""Tables that cannot be compared are refused as a whole, in words that name row and column."""

import contextlib
import gzip
import json
import re

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.published import sheets
from experiments.statistics.published.compare import compare_table
from experiments.statistics.published.report import format_text, make_json
from experiments.statistics.published.tables import TableError, read_table

MEANS = "gpus,environment,mean_s,sd_s,n,unit,direction\n"
GOOD = "1,bare,100,1.5,3,s,lower\n"


def refusal(content, *, baseline="bare", margin=0.02):
    if isinstance(content, str):
        content = content.encode()
    with pytest.raises(TableError) as caught:
        compare_table(read_table(content, baseline=baseline), baseline=baseline, margin=margin)
    return str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,box,NaN,1.5,3,s,lower", "Row 3, column mean_s: NaN is not a finite number."),
        ("1,box,inf,1.5,3,s,lower", "Row 3, column mean_s: inf is not a finite number."),
        ("1,box,-100,1.5,3,s,lower", "Row 3, column mean_s: -100 is negative."),
        ("1,box,0,1.5,3,s,lower", "Row 3, column mean_s: 0 is zero."),
        ("1,box,,1.5,3,s,lower", "Row 3, column mean_s: it is empty."),
        ("1,box,1e99,1.5,3,s,lower", "beyond anything that is measured"),
        ("1,box,1e999999,1.5,3,s,lower", "Row 3, column mean_s: 1e999999 is not a finite number."),
        ('1,box,"3,7,10",1.5,3,s,lower', "Write a decimal point"),
        ("1,box,fast,1.5,3,s,lower", "Row 3, column mean_s: 'fast' is not a number."),
        ("1,box,100,-1,3,s,lower", "Row 3, column sd_s: -1 is negative."),
        ("1,box,100,nan,3,s,lower", "Row 3, column sd_s: nan is not a finite number."),
        ("1,box,100,1.5,0,s,lower", "Row 3, column n: 0 is zero."),
        ("1,box,100,1.5,2.5,s,lower", "Row 3, column n: 2.5 is not a whole number."),
        ("1,box,100,1.5,3,ms,lower", "Row 3, column unit: mixed units"),
        ("1,box,100,1.5,3,s,sideways", "Row 3, column direction: 'sideways' is neither"),
        ("1,box,100,1.5,3,s,higher", "Row 3, column direction: not the direction of row 2."),
        ("1,,100,1.5,3,s,lower", "Row 3, column environment: it is empty."),
        ("2,box,100,1.5,3,s,lower", "Row 3: no row of the baseline bare has the same labels"),
        ("1,bare,100,1.5,3,s,lower", "Rows 2 and 3 are both bare gpus 1"),
        ("1,box,100,1.5", "Row 3 has 4 fields, the header has 7."),
    ],
)
def test_a_bad_row_is_named(row, message):
    assert message in refusal(MEANS + GOOD + row + "\n")


def test_a_missing_baseline_is_told_with_the_environments_that_are_there():
    said = refusal(MEANS + GOOD, baseline="Bare metal")
    assert said == "No row has the baseline 'Bare metal'; the environments are bare."
    assert "no environment to compare" in refusal(MEANS + GOOD)


def test_units_that_only_a_column_tells_must_agree_too():
    said = refusal("environment,mean,unit\nbare,1,s\nbox,1000,ms\n")
    assert "Row 3, column unit: mixed units, ms here and s in row 2." in said
    assert "mixed units" in refusal("environment,mean_s,sd_ms,n\nbare,1,1,3\nbox,1,1,3\n")


@pytest.mark.parametrize(
    "header",
    [
        "machine,epochs,gpus,top_1,top_5,training_time_hh_mm",
        "nodes,launcher,gpus,images_per_second",
        "environment,gpus,loss",
    ],
)
def test_an_unknown_header_lists_the_columns_found_and_those_needed(header):
    said = refusal(f"{header}\n{','.join('1' for _ in header.split(','))}\n")
    assert f"Columns found: {header.replace(',', ', ')}." in said
    assert "Needed: environment and mean" in said


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("environment,mean,error,n", "column error: name it sd or se"),
        ("environment,mean,±,n", "column ±: name it sd or se"),
        ("environment,mean,sd,se", "sd and se cannot both count"),
        ("environment,env,mean,n", "environment and env are both read as environment"),
        ("environment,time_s,mean_s,n", "cannot both count"),
        ("environment,mean,mean,n", "the column 'mean' is nameless or there twice"),
        ("environment,mean,,n", "nameless"),
    ],
)
def test_an_ambiguous_header_is_refused(header, message):
    assert message in refusal(f"{header}\nbare,1,1,3\nbox,1,1,3\n")


def test_a_direction_that_nothing_tells_is_asked_for():
    said = refusal("environment,mean,sd,n\nbare,10,1,3\nbox,11,1,3\n")
    assert "Row 3, column mean: whether lower or higher is better is not said" in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty."),
        (b" \n\n", "The file is empty."),
        (b"environment,mean_s\n", "a header and no rows"),
        (b"PK\x03\x04\x00\x00", "not a CSV but an Excel workbook (.xlsx)"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "not a CSV but an old Excel workbook (.xls)"),
        (gzip.compress(b"environment,mean_s\nbare,1\n", mtime=0), "not a CSV but compressed (.gz)"),
        (b"%PDF-1.7 ...", "not a CSV but a PDF"),
        (b"environment,mean_s\nbare\0,1\n", "it holds bytes that are not text"),
        (b"environment,mean_s\nbare\x07,1\n", "it holds bytes that are not text"),
        ("environment,mean_s\nbare,1\n".encode("utf-16-le"), "bytes that are not text"),
        (b"\xff\xfee", "it holds bytes that are not text"),
        (b"<html>\n<p>no</p>\n", "row 1 has no comma, semicolon or tab"),
        (b"environment,mean_s\n" + b'"' + b"x" * 200_000, "not a CSV: field larger than"),
        (b"," * 1_000_000, "more than 100 columns"),
    ],
)
def test_what_is_no_table_is_refused(content, message):
    assert message in refusal(content)


@pytest.mark.parametrize("margin", [0, -0.02, float("nan"), float("inf")])
def test_a_margin_is_a_positive_fraction(margin):
    assert "A margin is a positive fraction" in refusal(
        MEANS + GOOD + GOOD.replace("bare", "box"), margin=margin
    )


def test_ten_million_rows_are_refused(tmp_path):
    path = tmp_path / "huge.csv"
    with path.open("w") as file:
        file.write("environment,time_s\n")
        file.writelines(["bare,1\n" * 100_000] * 100)
    with pytest.raises(CommandError, match="larger than 20 MB"):
        call_command("compare_table", path, baseline="bare")
    said = refusal("environment,time_s\n" + "bare,1\n" * (sheets.MOST_ROWS + 1))
    assert "more than 100,000 rows" in said


pieces = st.sampled_from(
    [*'0123456789.,;\n\t"e-+', "bare", "box", "nan", "inf", "1e999", "environment", "mean_s", "n"]
)


@given(st.one_of(st.binary(), st.lists(pieces).map(lambda p: (MEANS + GOOD + "".join(p)).encode())))
def test_whatever_the_file_holds_the_answer_is_a_comparison_or_a_refusal_in_words(content):
    with contextlib.suppress(TableError):
        compare_table(read_table(content, baseline="bare"), baseline="bare", margin=0.02)


number_texts = st.one_of(
    st.floats(1e-29, 1e29).map(str), st.sampled_from(["0", "10", "1e-29", "9.99e29", "1.0"])
)


@given(*[number_texts] * 4, st.integers(1, 10**9), st.integers(1, 10**9))
def test_no_number_that_is_read_breaks_a_comparison(mean_b, sd_b, mean_e, sd_e, n_b, n_e):
    text = f"environment,mean_s,sd,n\nbare,{mean_b},{sd_b},{n_b}\nbox,{mean_e},{sd_e},{n_e}\n"
    with contextlib.suppress(TableError):
        compared = compare_table(
            read_table(text.encode(), baseline="bare"), baseline="bare", margin=0.02
        )
        json.dumps(make_json(compared), allow_nan=False)
        assert format_text(compared)


def test_steps_given_as_runs_are_refused():
    said = refusal("environment,time_s\nbox,1\n" + "bare,1.5\n" * 1001)
    assert re.match(r"Row 1003: over 1,000 runs of bare\. If these are steps", said)


def test_a_paired_run_without_its_block_is_named():
    said = refusal("environment,time_s,block\nbare,1,1\nbox,1,\n")
    assert said == "Row 3, column block: it is empty."
