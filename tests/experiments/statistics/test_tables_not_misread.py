"""Tables that were once read wrongly without a word: each is read right, asked for or refused."""

from __future__ import annotations

import pytest

from experiments.statistics.published.columns import find_level, recognise
from experiments.statistics.published.formats import join_files, read_sheet
from experiments.statistics.published.printed import TableError


def test_a_label_named_system_or_user_keeps_machines_apart() -> None:
    sheet = read_sheet("system,environment,time_s\nfast,bare,10\nslow,bare,20\nfast,box,11\n")
    assert recognise(sheet, {})["system"] == "label"
    numbers = read_sheet("user,environment,time_s\n1,bare,10\n2,bare,20\n1,box,11\n")
    assert recognise(numbers, {})["user"] == "label"


def test_in_the_table_of_hyperfine_they_are_processor_times() -> None:
    header = "command,mean,stddev,median,user,system,min,max"
    sheet = read_sheet(
        f"{header}\nbare,1.5,0.1,1.5,1.2,0.2,1.4,1.6\nbox,1.6,0.1,1.6,1.2,0.2,1.5,1.7"
    )
    roles = recognise(sheet, {})
    assert {roles[name] for name in ("median", "user", "system", "min", "max")} == {"ignore"}


@pytest.mark.parametrize("name", ["median", "max", "cv"])
def test_a_column_of_text_is_a_label_whatever_its_name(name: str) -> None:
    sheet = read_sheet(f"{name},environment,mean,sd,n\na,bare,10,1,5\nb,box,20,1,5\n")
    assert recognise(sheet, {})[name] == "label"


def test_the_version_of_a_program_does_not_tell_how_times_are_written() -> None:
    """A decimal comma beside a version with a point: 1234 s would be a thousand times too much."""
    sheet = read_sheet("environment;pytorch;time_s\nbare;2.5;1,234\nbox;2.5;1,250\n")
    assert "time_s" in sheet.doubts


def test_other_times_do_tell() -> None:
    sheet = read_sheet("environment;mean_s;sd_s;n\nbare;1,234;0,5;5\nbox;1,250;0,5;5\n")
    assert sheet.doubts == {}
    assert [*sheet.column("mean_s")] == ["1.234", "1.250"]


@pytest.mark.parametrize(
    ("title", "count"),
    [
        ("GEMM with N = 4096 on one node", None),
        ("Times on n = 2 nodes", None),
        ("Weak scaling, n = 4096 per GPU", None),
        ("GEMM with n = 4096 and double precision", None),
        ("Means of n = 1,000 runs", None),
        ("Mean times (n = 5)", 5),
        ("Means of n = 5 runs", 5),
        ("n = 5 ± SD", 5),
        ("n = 5 for every mean", 5),
    ],
)
def test_a_note_tells_the_number_of_runs_only_where_it_means_runs(
    title: str, count: int | None
) -> None:
    sheet = read_sheet(f"{title}\nenvironment,mean_s,sd_s\nbare,3.71,0.05\nbox,3.75,0.05\n")
    assert sheet.n == count


@pytest.mark.parametrize("spread", ["50 ms", "2%"])
def test_a_spread_in_another_unit_than_its_mean_is_refused(spread: str) -> None:
    with pytest.raises(TableError, match=r"mixed units, s and (ms|%)"):
        read_sheet(f"environment,time\nbare,3.71 s ± {spread}\nbox,3.75 s ± {spread}\n")


def test_a_spread_in_the_unit_of_its_mean_is_read() -> None:
    sheet = read_sheet("environment,time\nbare,3.71 s ± 0.05 s\nbox,3.75 s ± 0.05 s\n")
    assert [row[1:] for _, row in sheet.rows] == [["3.71", "0.05"], ["3.75", "0.05"]]


TABLE = "\nworkload,time (s)\nblas,{0} ± 0.05\nfft,{0} ± 0.05\n"


@pytest.mark.parametrize("second", ["n = 3 ± SD", "n = 30 ± SE", "Times of fft"])
def test_files_with_different_notes_are_refused(second: str) -> None:
    first = "n = 30 ± SD"
    files = [("bare.csv", first + TABLE.format(3.71)), ("box.csv", second + TABLE.format(3.75))]
    with pytest.raises(TableError, match=r"different (numbers of runs|kinds of spread).*box\.csv"):
        read_sheet(join_files(files))


def test_notes_of_all_files_are_shown() -> None:
    files = [
        (f"{name}.csv", f"Times of {name} (n = 30 ± SD)" + TABLE.format(3.7)) for name in ("a", "b")
    ]
    notes = " ".join(read_sheet(join_files(files)).notes)
    assert "Times of a (n = 30" in notes
    assert "Times of b (n = 30" in notes


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("95 % CI low", 0.95),
        ("99.9 % CI low", 0.999),
        ("99.5% ci high", 0.995),
        ("ci95_low", 0.95),
        ("ci_90_upper", 0.90),
        ("95_ci_low", 0.95),
        ("a100_80gb ci low", None),
        ("ci low", None),
    ],
)
def test_the_level_of_an_interval_is_the_one_that_its_name_says(
    name: str, level: float | None
) -> None:
    assert find_level(name) == (level and pytest.approx(level))


def test_digits_in_brackets_are_asked_for_with_a_space_before_them_too() -> None:
    for text in ("1.234(5)", "1.234 (5)"):
        sheet = read_sheet(f"environment,time_s\nbare,{text}\nbox,{text}\n")
        assert "last digits" in sheet.doubts["time_s"], text


def test_a_header_may_begin_with_a_hash() -> None:
    sheet = read_sheet("#gpus,environment,mean_s,sd_s,n\n1,bare,10,1,5\n1,box,11,1,5\n")
    assert sheet.header == ["#gpus", "environment", "mean_s", "sd_s", "n"]
    assert len(sheet.rows) == 2


def test_a_wide_cell_in_the_only_header_of_latex_takes_no_row_with_it() -> None:
    text = r"""\begin{tabular}{lrr}
Env & \multicolumn{2}{c}{time (s)} \\
bare & 3.71 & 0.05 \\
box & 3.75 & 0.05 \\
\end{tabular}"""
    try:
        rows = [row for _, row in read_sheet(text).rows]
    except TableError as error:
        assert "time (s)" in str(error)  # noqa: PT017 - refused or whole, never without a row
    else:
        assert len(rows) == 2


def test_programs_that_differ_between_files_are_named() -> None:
    table = "environment,mean_s,sd_s,n\n{},10,1,5\n"
    files = [("bare.csv", table.format("train a")), ("box.csv", table.format("sort x"))]
    notes = " ".join(read_sheet(join_files(files)).notes)
    assert "Not compared, though it differs: environment train a, sort x." in notes
