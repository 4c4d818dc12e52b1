"""Published tables: the numbers and reservations that a reviewer would come to."""

import json
import math

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from scipy import stats
from statsmodels.stats.multitest import multipletests

from experiments.statistics.published.compare import compare_table
from experiments.statistics.published.printed import Place, read_mean, read_spread
from experiments.statistics.published.report import format_text, make_json
from experiments.statistics.published.tables import read_table
from experiments.statistics.values import Stamp, Verdict

# Training times of a container study, mean ± SE of 3 runs (BIDS'19, Table 3).
TABLE_3 = """gpus,environment,mean_s,standard_error_s,runs
1,baremetal,3710,10,3
1,uDocker,3730,10,3
2,baremetal,2390,30,3
2,uDocker,2360,16,3
4,baremetal,1860,40,3
4,uDocker,1880,10,3
"""
# Ratio, df, 95 % and 90 % interval, p, smallest margin: reference values, 4 digits.
REFERENCE = [
    (1.0054, 4.000, (0.9948, 1.0161), (0.9973, 1.0136), 0.2302, 0.01357),
    (0.9874, 3.075, (0.9442, 1.0327), (0.9552, 1.0208), 0.4397, 0.04694),
    (1.0108, 2.244, (0.9274, 1.1016), (0.9518, 1.0734), 0.6723, 0.07340),
]
TOST = {
    0.01: [0.1476, 0.5687, 0.5120],
    0.02: [0.009596, 0.3245, 0.3585],
    0.05: [0.0001678, 0.04152, 0.1069],
}
TOST_HOLM = {
    0.01: [0.4429, 1, 1],
    0.02: [0.02879, 0.6490, 0.6490],
    0.05: [0.0005033, 0.08304, 0.1069],
}
E, I = Verdict.EQUIVALENT, Verdict.INCONCLUSIVE  # noqa: E741
VERDICTS = {0.01: [I, I, I], 0.02: [E, I, I], 0.05: [E, E, I]}
ROUNDING = {0.01: [False] * 3, 0.02: [True, False, False], 0.05: [False, True, False]}


def compared(text, *, baseline="bare", margin=0.02):
    return compare_table(
        read_table(text.encode(), baseline=baseline), baseline=baseline, margin=margin
    )


def pair(text, **options):
    (one,) = compared(text, **options)
    return one.pair


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.05])
def test_table_3_gives_the_reference_values(margin):
    cells = compared(TABLE_3, baseline="baremetal", margin=margin)
    close = {"rel": 5e-4}
    for one, (ratio, df, ci95, ci90, p, smallest) in zip(cells, REFERENCE, strict=True):
        assert one.pair.ratio == pytest.approx(ratio, abs=5.1e-5)
        assert one.pair.df == pytest.approx(df, abs=5.1e-4)
        assert one.pair.ci95 == pytest.approx(ci95, abs=5.1e-5)
        assert one.pair.ci90 == pytest.approx(ci90, abs=5.1e-5)
        assert one.pair.p_difference == pytest.approx(p, **close)
        assert one.pair.smallest_margin == pytest.approx(smallest, **close)
    pairs = [one.pair for one in cells]
    assert [pair.p_equivalence for pair in pairs] == pytest.approx(TOST[margin], **close)
    assert [pair.p_equivalence_holm for pair in pairs] == pytest.approx(TOST_HOLM[margin], **close)
    holm = [pair.p_difference_holm for pair in pairs]
    assert holm == pytest.approx([0.6906, 0.8794, 0.8794], **close)
    for ps, adjusted in (
        ([pair.p_difference for pair in pairs], holm),
        ([pair.p_equivalence for pair in pairs], [pair.p_equivalence_holm for pair in pairs]),
    ):
        assert adjusted == pytest.approx(multipletests(ps, method="holm")[1].tolist())
    assert [pair.verdict for pair in pairs] == VERDICTS[margin]


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.05])
def test_table_3_carries_the_stamps_it_deserves(margin):
    pairs = [one.pair for one in compared(TABLE_3, baseline="baremetal", margin=margin)]
    for one, rounding in zip(pairs, ROUNDING[margin], strict=True):
        assert {Stamp.PROVISIONAL, Stamp.ORDER_UNKNOWN} <= set(one.stamps)
        assert (Stamp.ROUNDING_SENSITIVE in one.stamps) is rounding
    assert (Stamp.NOT_AFTER_HOLM in pairs[1].stamps) is (margin == 0.05)
    assert all(len(one.stamps) == len(one.reasons) for one in pairs)


def test_the_export_says_which_rows_were_left_out():
    table = compared(TABLE_3, baseline="baremetal")
    exported = make_json(table, ["Row 3: why"])
    assert exported.keys() == {"comparisons", "all_cells", "left_out"}
    assert exported["left_out"] == ["Row 3: why"]
    assert len(exported["comparisons"]) == len(table)
    assert make_json(table)["left_out"] == []


def test_all_cells_together_are_the_largest_p_and_the_geometric_mean():
    values = make_json(compared(TABLE_3, baseline="baremetal"))["all_cells"][0]
    close = {"rel": 5e-4}
    assert values["largest_p_equivalence"] == pytest.approx(0.3585, **close)
    assert not values["equivalent_in_all"]
    assert values["geometric_mean_ratio"] == pytest.approx(1.0011, abs=5.1e-5)
    assert values["df"] == pytest.approx(4.156, abs=5.1e-4)
    assert values["ci95"] == pytest.approx((0.9771, 1.0258), abs=5.1e-5)
    assert values["ci90"] == pytest.approx((0.9826, 1.0201), abs=5.1e-5)
    assert values["p_difference"] == pytest.approx(0.9032, **close)
    assert values["p_equivalence"] == pytest.approx(0.0504, abs=5.1e-5)


def test_swapping_baseline_and_environment_inverts_the_ratio_and_mirrors_the_verdict():
    text = "environment,mean_s,sd,n\nbare,100.0,1.0,6\nbox,105.0,2.0,5\n"
    there, back = pair(text), pair(text, baseline="box")
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert back.ci95 == pytest.approx((1 / there.ci95[1], 1 / there.ci95[0]))
    assert (there.verdict, back.verdict) == (Verdict.SLOWER, Verdict.FASTER)
    assert back.p_difference == pytest.approx(there.p_difference)


def test_an_sd_is_the_standard_error_times_the_root_of_n():
    with_se = pair("environment,mean,se,n,unit\nbare,100,1.00,4,s\nbox,101,1.00,4,s\n")
    with_sd = pair("environment;mean (s);SD (s);n\nbare;100;2.00;4\nbox;101;2.00;4\n")
    assert with_sd.ci95 == pytest.approx(with_se.ci95)
    assert with_sd.environment_sd == pytest.approx(2)
    assert with_sd.unit == with_se.unit == "s"


def test_the_printed_digits_bound_the_number():
    place = Place(2, "se")
    assert (read_spread("10", place, step=None).low, read_spread("10", place, step=None).high) == (
        9.5,
        15,
    )
    assert (read_spread("30", place, step=None).low, read_spread("30", place, step=None).high) == (
        25,
        35,
    )
    assert read_spread("16", place, step=None).low == 15.5
    assert read_spread("2.50", place, step=None).low == pytest.approx(2.495)
    # With three digits, what lies just below 1 is printed as 0.999, and from 0.9995 on as 1.00.
    assert read_spread("1.00", place, step=None).low == pytest.approx(0.9995)
    assert read_mean("3710", place, step=10).low == 3705


def test_the_precision_of_a_row_decides_where_it_is_given():
    """±10 read as anything from 5 to 15; and exact digits leave no room at all."""
    header = "environment,mean_s,se_s,n,precision\n"
    exact = pair(f"{header}bare,3710,10,3,0\nbox,3730,10,3,0\n")
    rounded = pair(f"{header}bare,3710,10,3,10\nbox,3730,10,3,10\n", margin=0.01)
    assert Stamp.ROUNDING_SENSITIVE not in exact.stamps
    reason = rounded.reasons[rounded.stamps.index(Stamp.ROUNDING_SENSITIVE)]
    assert Verdict.SLOWER in reason  # p may be as low as 0.013


def test_the_off_by_one_floor_is_corrected_and_stamped():
    text = (
        "environment,mean_s,sd_s,n\n"
        "bare,2.1856083393096926,0.21970901277347937,100\n"
        "box,4.751113255023956,0.47758910526603937,100\n"
    )
    one = pair(text)
    assert one.baseline_mean == pytest.approx(2.207685, rel=1e-6)
    assert one.baseline_sd == pytest.approx(0.004572, abs=5.1e-7)
    assert one.environment_mean == pytest.approx(4.799104, rel=1e-6)
    assert one.environment_sd == pytest.approx(0.009016, abs=5.1e-7)
    assert Stamp.OFF_BY_ONE in one.stamps
    assert one.ratio == pytest.approx(4.751113255023956 / 2.1856083393096926)
    honest = pair(text.replace("0.2197", "0.0197").replace("0.4775", "0.0475"))
    assert Stamp.OFF_BY_ONE not in honest.stamps
    steps = pair(text.replace(",n\n", ",steps\n"))
    assert Stamp.OFF_BY_ONE in steps.stamps
    assert steps.baseline_sd == pytest.approx(0.004572, abs=5.1e-7)
    assert (steps.verdict, steps.ci95) == (Verdict.NO_INFERENCE, None)


def test_a_floor_printed_with_few_digits_gives_no_interval():
    """The difference of two large numbers is then nothing but rounding."""
    one = pair("environment,mean_s,sd_s,n\nbare,2.20,0.22,100\nbox,4.75,0.477,100\n")
    assert Stamp.OFF_BY_ONE in one.stamps
    assert one.verdict is Verdict.NO_INFERENCE or Stamp.ROUNDING_SENSITIVE in one.stamps


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("environment,mean_s\nbare,100\nbox,110\n", "no spread and no number of runs"),
        ("environment,mean_s,n\nbare,100,3\nbox,110,3\n", "no spread"),
        ("environment,mean_s,sd\nbare,100,1\nbox,110,1\n", "no number of runs"),
        ("environment,mean_s,sd,n\nbare,100,1,3\nbox,110,,3\n", "no spread"),
        ("environment,mean_s,sd,n\nbare,100,1,1\nbox,110,1,1\n", "1 run each"),
        ("environment,mean_s,sd,n\nbare,100,0,3\nbox,110,0,3\n", "no spread at all"),
        ("environment,time_s\nbare,100\nbox,110\n", "1 run each"),
        ("model,bare,box\nResNet50,100,110\n", "no spread and no number of runs"),
    ],
)
def test_without_spread_or_number_there_is_a_ratio_and_no_inference(text, lacking):
    one = pair(text)
    assert one.ratio == pytest.approx(1.1)
    assert one.verdict is Verdict.NO_INFERENCE
    assert lacking in one.sentence
    assert "Row" in one.sentence
    assert "column" in one.sentence
    assert (one.ci95, one.ci90, one.p_difference, one.smallest_margin) == (None,) * 4


def test_no_inference_names_every_row_it_rests_on():
    few = pair(runs({"bare": [1, 1], "box": [1, 1]})).sentence
    assert "(Rows 2, 3, 4 and 5, column time_s.)" in few
    many = pair(runs({"bare": [1] * 9, "box": [1] * 9})).sentence
    assert "(Rows 2, 3, 4, 5, 6 and others, column time_s.)" in many


def test_a_column_an_environment():
    """Images per second of a study of three systems; the unit is not in the table."""
    text = "model,gpus,official,udocker,other\nResNet50,1,51,56,118\nAlexNet,1,639,604,\n"
    ratios = {
        (one.configuration["model"], one.pair.environment): one.pair.ratio
        for one in compared(text, baseline="official")
    }
    assert ratios == {
        ("ResNet50", "udocker"): pytest.approx(56 / 51),
        ("ResNet50", "other"): pytest.approx(118 / 51),
        ("AlexNet", "udocker"): pytest.approx(604 / 639),
    }


def runs(values, *, column="time_s", blocks=False):
    """CSV of single runs: (environment, values) pairs."""
    lines = [f"environment,{column}" + ",block" * blocks]
    for name, numbers in values.items():
        lines += [f"{name},{v!r}" + f",{k}" * blocks for k, v in enumerate(numbers)]
    return "\n".join(lines)


def test_single_runs_are_welch_or_with_blocks_the_paired_test_of_scipy():
    draw = np.random.default_rng(7)
    bare, box = draw.lognormal(3, 0.01, 8).tolist(), draw.lognormal(3.01, 0.02, 8).tolist()
    welch = stats.ttest_ind(np.log(box), np.log(bare), equal_var=False)
    related = stats.ttest_rel(np.log(box), np.log(bare))
    for blocks, test in ((False, welch), (True, related)):
        one = pair(runs({"bare": bare, "box": box}, blocks=blocks))
        interval = np.exp(test.confidence_interval(0.95))
        assert one.p_difference == pytest.approx(float(test.pvalue), rel=1e-10)
        assert one.ci95 == pytest.approx(tuple(interval), rel=1e-10)
        assert Stamp.ORDER_UNKNOWN in one.stamps
    unequal = pair(runs({"bare": bare, "box": box[:5]}))
    assert (unequal.n_baseline, unequal.n_environment) == (8, 5)


def test_throughput_and_time_give_the_same_p_and_verdict():
    seconds = {"bare": [10, 10.1, 9.9, 10.05], "box": [11, 11.1, 10.9, 11.05]}
    rates = {name: [640 / value for value in values] for name, values in seconds.items()}
    slower = pair(runs(seconds))
    same = pair(runs(rates, column="images_per_second"))
    assert slower.verdict is same.verdict is Verdict.SLOWER
    assert (same.better, same.unit) == ("higher", "images/s")
    assert same.p_difference == pytest.approx(slower.p_difference)


@pytest.mark.parametrize(
    ("column", "unit", "better"),
    [
        ("mean_s", "s", "lower"),
        ("Mean (µs)", "us", "lower"),
        ("average minutes", "min", "lower"),
        ("mean_images_per_second", "images/s", "higher"),
        ("mean (img/s)", "images/s", "higher"),
        ("Mean (samples/s)", "samples/s", "higher"),
        ("mean GFLOP/s", "gflop/s", "higher"),
    ],
)
def test_unit_and_direction_come_with_the_name_or_in_a_column(column, unit, better):
    named = pair(f"environment,{column},sd,n\nbare,10.0,0.1,3\nbox,12.0,0.1,3\n")
    said = column.casefold().replace("mean", "").replace("average", "").strip(" _()")
    table = f"environment,mean,sd,n,unit\nbare,10.0,0.1,3,{said}\nbox,12.0,0.1,3,{said}\n"
    for one in (named, pair(table)):
        assert (one.unit, one.better) == (unit, better)
        assert one.verdict is (Verdict.SLOWER if better == "lower" else Verdict.FASTER)


def test_each_cell_is_a_question_and_every_environment_is_compared():
    lines = [
        f"{model},{environment},{100 + k + shift}"
        for model in ("AlexNet", "ResNet50")
        for shift, environment in enumerate(("bare", "udocker", "apptainer"))
        for k in range(3)
    ]
    cells = compared("model,runtime,time_s\n" + "\n".join(lines))
    assert [(one.configuration["model"], one.pair.environment) for one in cells] == [
        ("AlexNet", "udocker"),
        ("AlexNet", "apptainer"),
        ("ResNet50", "udocker"),
        ("ResNet50", "apptainer"),
    ]
    assert all(one.pair.p_difference_holm >= one.pair.p_difference for one in cells)


def test_36_cells_of_10_runs_in_two_environments_are_36_comparisons():
    draw = np.random.default_rng(1)
    lines = [
        f"{cell},{environment},{draw.lognormal(3, 0.01)}"
        for cell in range(36)
        for environment in ("bare", "box")
        for _ in range(10)
    ]
    text = "cell,environment,time_s\n" + "\n".join(lines)
    assert len(compared(text)) == 36


def test_the_command_prints_verdicts_or_every_number(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(TABLE_3)
    call_command("compare_table", path, baseline="baremetal", margin=0.02)
    text = capsys.readouterr().out
    assert "uDocker is equivalent to baremetal within 2 %" in text
    assert "ROUNDING-SENSITIVE" in text
    assert "INCONCLUSIVE" in text
    call_command("compare_table", path, "--json", baseline="baremetal", margin=0.02)
    first = json.loads(capsys.readouterr().out)["comparisons"][0]
    assert first["cell"] == {"gpus": "1"}
    assert first["rows"] == [2, 3]
    assert first["p_equivalence"] == pytest.approx(0.009596, rel=5e-4)
    assert math.exp(first["log_ratio"]) == pytest.approx(first["ratio"])
    assert first["stamps"][0]["stamp"] == "PROVISIONAL"


def test_the_command_refuses_in_words(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE_3.replace("2360", "NaN"))
    with pytest.raises(CommandError, match=r"Row 5, column mean_s: NaN is not a finite number"):
        call_command("compare_table", path, baseline="baremetal")
    path.write_text(TABLE_3.replace("2360", "NaN").replace("3730", "-1"))
    with pytest.raises(
        CommandError, match=r"(?s)Row 3, .*negative\.\nRow 5, .*not a finite number"
    ):
        call_command("compare_table", path, baseline="baremetal")
    with pytest.raises(CommandError, match="No such file"):
        call_command("compare_table", tmp_path / "none.csv", baseline="baremetal")


def test_text_shows_a_dash_where_nothing_is_known():
    text = format_text(compared("environment,mean_s\nbare,100\nbox,110\n"))
    assert "1.100" in text
    assert "–" in text
