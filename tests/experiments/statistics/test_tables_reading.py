"""What a person may say about a table, and what is recognised without."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.published.columns import ROLES, SEVERAL, Reading, recognise
from experiments.statistics.published.compare import compare_table, describe_left_out
from experiments.statistics.published.formats import read_sheet
from experiments.statistics.published.printed import Place, TableError, read_duration
from experiments.statistics.published.sheets import decode_text
from experiments.statistics.published.tables import read_table
from experiments.statistics.values import Stamp, Verdict

LONG = """machine,epochs,gpus,top_1,training_time_hh_mm
one,5,1,0.36,33:45
one,5,2,0.37,16:46
two,10,1,0.53,30:23
two,10,2,0.53,15:50
"""
LAUNCHERS = """launcher,gpus,data,images_per_second
plain,1,a,118
plain,2,a,225
other,2,b,252
other,4,b,492
"""
RUNS = """run,job,block,position,repeat,workload,environment,scale,state,reason,node,began_at,\
loss (1),step_time (s),time_to_first_step (s)
a1,j1,1,0,1,cnn,bare,1x1,succeeded,,n1,2026-11-20T12:00:00+00:00,0.5,1.00,9.0
a2,j1,1,1,1,cnn,box,1x1,succeeded,,n1,2026-11-20T12:01:00+00:00,0.53,1.10,9.9
b1,j2,2,0,2,cnn,bare,1x1,succeeded,,n1,2026-11-20T12:02:00+00:00,0.5,1.01,9.1
b2,j2,2,1,2,cnn,box,1x1,succeeded,,n1,2026-11-20T12:03:00+00:00,0.56,1.12,9.7
c1,j3,3,0,3,cnn,bare,1x1,succeeded,,n1,2026-11-20T12:04:00+00:00,0.5,1.00,9.0
c2,j3,3,1,3,cnn,box,1x1,failed,crashed,n1,,,,
"""


def roles(text, said=None):
    return recognise(read_sheet(text), said or {})


def compared(text, baseline, **reading):
    table = read_table(text, baseline=baseline, reading=Reading(**reading))
    return compare_table(table, baseline=baseline, margin=0.02), table


def test_a_column_of_words_beside_a_number_is_the_environment():
    assert roles(LONG)["machine"] == "environment"
    assert roles(LAUNCHERS)["launcher"] == "label"  # "data" might be meant as well


def test_hours_and_minutes_are_a_time():
    cells, table = compared(LONG, "one", roles={"epochs": "ignore", "top_1": "ignore"})
    assert [row.mean.value for row in table.rows][:2] == [33.75, pytest.approx(16 + 46 / 60)]
    assert {row.unit for row in table.rows} == {"h"}
    assert cells[0].pair.ratio == pytest.approx((30 * 60 + 23) / (33 * 60 + 45))
    assert cells[0].pair.better == "lower"
    assert [one.pair.verdict for one in cells] == [Verdict.NO_INFERENCE] * 2


def test_hours_and_minutes_are_a_time_if_somebody_says_so():
    text = "environment,time\nbare,1:30\nbox,1:36\n"
    with pytest.raises(TableError, match=r"Row 2, column time: '1:30' is not a number. If it is a"):
        read_table(text, baseline="bare")
    for unit, value in (("hh:mm", 1.5), ("mm:ss", 1.5)):
        (one,), table = compared(text, "bare", unit=unit)
        assert one.pair.baseline_mean == value
        assert one.pair.ratio == pytest.approx(96 / 90)
        assert table.rows[0].mean.high - value == pytest.approx(1 / 120)
    wide, _ = compared("gpus,bare,box\n1,1:30,1:36\n", "bare", unit="hh:mm", roles={"box": "arm"})
    assert wide[0].pair.ratio == pytest.approx(96 / 90)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_a_clock_counts_in_sixtieths(hours, minutes, seconds):
    place = Place(1, "time")
    text = f"{hours}:{minutes:02d}:{seconds:02d}"
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        return
    value, step = read_duration(text, place, "hh:mm:ss")
    assert value * 3600 == pytest.approx(total)
    assert step * 3600 == pytest.approx(1)


@pytest.mark.parametrize("text", ["1:60", "1:5", ":30", "1:30:00", "1.5:00", "-1:30", "1:3a"])
def test_what_no_clock_shows_is_refused(text):
    with pytest.raises(TableError, match=r"Row 2, column time_hh_mm: .* is not a time as hh:mm"):
        read_table(f"environment,time_hh_mm\nbare,{text}\nbox,1:30\n", baseline="bare")


def test_what_a_person_says_comes_before_what_is_recognised():
    said = {"launcher": "environment", "data": "ignore"}
    cells, table = compared(LAUNCHERS, "plain", roles=said)
    assert table.labels == ("gpus",)
    assert [one.pair.ratio for one in cells] == [pytest.approx(252 / 225)]
    assert describe_left_out(table, baseline="plain") == [
        "Row 2: only the baseline plain (gpus 1).",
        "Row 5: no row of the baseline plain has the same labels (gpus 4). Any column that is not "
        "recognised is a label, unless it is ignored.",
    ]


def test_unit_direction_and_number_of_runs_may_be_those_of_the_whole_table():
    text = "environment,mean,sd\nbare,10.0,0.1\nbox,12.0,0.1\n"
    (one,), _ = compared(text, "bare", unit="images/s", n=5)
    assert (one.pair.unit, one.pair.better, one.pair.verdict) == (
        "images/s",
        "higher",
        Verdict.FASTER,
    )
    (other,), _ = compared(text, "bare", unit="points", better="lower", n=5)
    assert (other.pair.unit, other.pair.verdict) == ("points", Verdict.SLOWER)
    (own,), _ = compared(text.replace("sd", "sd,n").replace("0.1", "0.1,3"), "bare", unit="s", n=9)
    assert own.pair.n_baseline == 3, "a column comes before the whole table"


def test_without_a_direction_nothing_costs():
    (one,), _ = compared("environment,mean\nbare,10\nbox,12\n", "bare")
    assert (one.pair.better, one.pair.cost, one.pair.ratio) == (None, None, pytest.approx(1.2))


def test_an_error_may_be_said_to_be_a_standard_error():
    text = "environment,mean_s,error,n\nbare,100,1,3\nbox,101,1,3\n"
    with pytest.raises(TableError, match="column error: name it sd or se"):
        read_table(text, baseline="bare")
    (one,), _ = compared(text, "bare", roles={"error": "se"})
    assert one.pair.baseline_sd == pytest.approx(3**0.5)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"cost": "mean"}, "Row 1: there is no column cost"),
        ({"data": "colour"}, "Row 1, column data: colour is no role"),
        ({"gpus": "value"}, "the columns gpus and images_per_second are both read as value"),
        ({"launcher": "arm"}, "Needed: environment and mean"),
        ({"images_per_second": "ignore"}, "Needed: environment and mean"),
    ],
)
def test_what_a_person_says_must_make_sense(said, message):
    with pytest.raises(TableError, match=message):
        compared(LAUNCHERS, "plain", roles={"launcher": "environment", **said})


def test_our_own_export_of_runs_is_known():
    found = roles(RUNS)
    assert {name for name, role in found.items() if role == "label"} == {"workload", "scale"}
    assert found["step_time (s)"] == "value"
    (one,), table = compared(RUNS, "bare")
    assert table.left_out == 1
    assert describe_left_out(table, baseline="bare") == [
        "1 row of a run that did not succeed is left out."
    ]
    assert one.pair.paired
    assert (one.pair.n_blocks, one.pair.dropped_blocks) == (2, ("3",))
    assert one.pair.ratio == pytest.approx((1.10 / 1.00 * 1.12 / 1.01) ** 0.5)
    assert Stamp.ORDER_UNKNOWN not in one.pair.stamps, "the export says when they ran"
    (other,), _ = compared(RUNS, "bare", roles={"time_to_first_step (s)": "value"})
    assert other.pair.baseline_mean == pytest.approx(9.05)


def test_runs_of_their_own_jobs_are_not_paired():
    lines = RUNS.splitlines()
    apart = [
        line.replace(f",j{k},{k},", f",j{i},{i},")
        for i, (k, line) in enumerate(zip("112233", lines[1:], strict=True), 1)
    ]
    (one,), _ = compared("\n".join([lines[0], *apart]), "bare")
    assert not one.pair.paired
    assert (one.pair.n_baseline, one.pair.n_environment) == (3, 2)


def test_a_column_an_environment_may_hold_single_runs():
    text = "block,bare,box\n1,10.0,10.1\n2,10.2,10.4\n3,10.1,10.2\n"
    (one,), _ = compared(text, "bare", unit="s")
    assert (one.pair.paired, one.pair.n_blocks) == (True, 3)
    (other,), _ = compared(text.replace("block", "run"), "bare", unit="s")
    assert (other.pair.paired, other.pair.n_baseline) == (False, 3)


def test_a_spread_in_the_same_field_is_a_column_that_must_be_named():
    text = TABLE.replace(",sd_s", "").replace("0,1.5", "0 ± 1.5").replace("1,1.5", "1 +/- 1.5")
    assert roles(text) == {"environment": "environment", "mean_s": "mean", "mean_s ±": "", "n": "n"}
    with pytest.raises(TableError, match="Row 1, column mean_s ±: name it sd or se"):
        read_table(text)
    (one,), _ = compared(text, "bäre", roles={"mean_s ±": "sd"})
    (same,), _ = compared(TABLE, "bäre")
    assert one.pair.ci95 == same.pair.ci95
    assert one.pair.stamps == same.pair.stamps


def test_a_column_an_environment_may_have_spreads_and_the_table_one_n():
    text = "gpus,bare,box\n1,3710 ± 10,3730 ± 10\n2,2390±30,2360±16\n"
    said = {"bare ±": "se", "box ±": "se"}
    cells, _ = compared(text, "bare", roles=said, unit="s", n=3)
    assert [one.pair.ci95 for one in cells] == [
        pytest.approx((0.9948, 1.0161), abs=5.1e-5),
        pytest.approx((0.9442, 1.0327), abs=5.1e-5),
    ]
    with pytest.raises(TableError, match=r"Row 3, column box ±: 'x' is not a number"):
        compared(text.replace("16", "x"), "bare", roles=said, unit="s", n=3)


TABLE = "environment,mean_s,sd_s,n\nbäre,100,1.5,3\nbox,101,1.5,3\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n\n"])
def test_encodings_and_separators_are_recognised(encoding, separator, newline):
    text = newline + TABLE.replace(",", separator).replace("\n", newline)
    (one,), _ = compared(decode_text(text.encode(encoding)), "bäre")
    assert one.pair.ratio == pytest.approx(1.01)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_table_or_refused_in_words(content):
    with contextlib.suppress(TableError):
        read_table(content)


SCRAP = st.sampled_from(
    ["environment", "mean_s", "time", "sd", "n", "block", "bare", "box", "1", "2.5", "0", "NaN", "",
     "1:30", "1 ± 2", "error", "gpus", "unit", "s", "state", "run"]
)  # fmt: skip


@given(
    st.lists(st.lists(SCRAP, min_size=3, max_size=3), min_size=1, max_size=6),
    st.dictionaries(SCRAP, st.sampled_from(sorted(ROLES)), max_size=3),
)
def test_whatever_is_said_of_a_sheet_every_column_has_one_role(rows, said):
    text = "\n".join(",".join(row) for row in rows)
    with contextlib.suppress(TableError):
        sheet = read_sheet(text)
        found = recognise(sheet, said)
        assert list(found) == sheet.header
        assert all(found[name] == role for name, role in said.items() if name in found)
        table = read_table(text, reading=Reading(said))
        played = [role for role in found.values() if role not in SEVERAL]
        assert len(played) == len(set(played))
        for baseline in table.environments:
            with contextlib.suppress(TableError):
                compare_table(table, baseline=baseline, margin=0.02)
