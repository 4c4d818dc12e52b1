"""The verdicts keep their promises about known truths, and the calibration would notice if not."""

import io
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from experiments.management.commands import calibrate as command
from experiments.statistics import Sample, Verdict, compare, vectorised
from experiments.statistics.calibration.bands import QUICK, Band
from experiments.statistics.calibration.error_rates import calibrate, list_parts
from experiments.statistics.margins import Goal, Margin

SMALL = replace(QUICK, data_sets=200, heavy_data_sets=500, runs=6)


NOT_SLOWER = Margin.make(Goal.NOT_SLOWER, 0.02)
MARGINS = {Margin.of(0.02): "2 %", NOT_SLOWER: "not slower", Margin(0.03, 0.01): "uneven"}


@pytest.fixture(scope="module")
def quick_bands():
    return calibrate(QUICK)


def test_every_band_holds_and_every_control_fails(quick_bands):
    assert [band.promise for band in quick_bands if not band.ok] == []
    assert sum(band.control for band in quick_bands) == 19


def test_the_calibration_notices_a_method_that_is_too_sure_of_itself(monkeypatch):
    honest = vectorised.Estimates.log_interval

    def narrow(self, level):
        return honest(self, level - 0.05)

    monkeypatch.setattr(vectorised.Estimates, "log_interval", narrow)
    effort = replace(SMALL, data_sets=4_000)
    violated = [band.promise for band in calibrate(effort) if not band.ok]
    assert "coverage of the 95 % interval, like environments" in violated
    assert "EQUIVALENT although the ratio is at the margin" in violated


def data_set(seed):
    """(baseline, environment) from almost no spread to a large one, some without any."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, 12))
    spread = 0.0 if seed % 25 == 0 else 10 ** draw.uniform(-3, -1)
    arms = 60 * np.exp(draw.normal(0, spread, (2, n)))
    arms[1] *= 1 + draw.choice([0, 0.01, 0.03, -0.03]) * draw.uniform(0.5, 2)
    return arms


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("paired", [True, False], ids=["paired", "independent"])
@pytest.mark.parametrize("margin", MARGINS, ids=MARGINS.get)
def test_many_at_once_are_decided_as_compare_decides_each(paired, better, margin):
    seen = set()
    for seed in range(300):
        arms = data_set(seed)
        pair = compare(
            [
                Sample(f"{name}{block}", str(block), name, value)
                for name, arm in zip(("bare", "box"), arms, strict=True)
                for block, value in enumerate(arm.tolist())
            ],
            baseline="bare",
            environments=["box"],
            margin=margin,
            better=better,
            paired=paired,
            unit="s",
        )[0]
        estimate = vectorised.estimate_paired if paired else vectorised.estimate_unpaired
        many = estimate(*(np.log(arm)[np.newaxis] for arm in arms))
        assert many.verdicts(margin, better)[0] == pair.verdict
        seen.add(pair.verdict)
        if pair.ci95:
            assert many.p_difference[0] == pytest.approx(pair.p_difference, rel=1e-7)
            if better == "lower":
                assert many.p_equivalence(margin)[0] == pytest.approx(pair.p_goal, rel=1e-7)
            low, high = many.log_interval(0.95)
            assert np.exp([low[0], high[0]]) == pytest.approx(pair.ci95, rel=1e-9)
            assert many.covers(1)[0] == (pair.ci95[0] <= 1 <= pair.ci95[1])
        else:
            assert many.p_difference[0] == 1
    proved = {Verdict.NOT_SLOWER} if margin == NOT_SLOWER else {Verdict.EQUIVALENT, Verdict.FASTER}
    assert seen == proved | {Verdict.SLOWER, Verdict.INCONCLUSIVE, Verdict.NO_INFERENCE}


def test_unequal_numbers_of_runs_are_decided_as_compare_decides_them():
    for seed in range(200):
        bare, box = data_set(seed)[0], data_set(seed + 1000)[1]
        pair = compare(
            [
                Sample(f"{name}{run}", f"{name}{run}", name, value)
                for name, arm in (("bare", bare), ("box", box))
                for run, value in enumerate(arm.tolist())
            ],
            baseline="bare",
            environments=["box"],
            margin=0.02,
            better="lower",
            paired=False,
            unit="s",
        )[0]
        many = vectorised.estimate_unpaired(np.log(bare)[np.newaxis], np.log(box)[np.newaxis])
        assert many.verdicts(0.02)[0] == pair.verdict


def test_the_same_seed_gives_the_same_numbers():
    assert calibrate(SMALL, 7) == calibrate(SMALL, 7)
    assert calibrate(SMALL, 7) != calibrate(SMALL, 8)


RECORDED = Path(__file__).with_name("calibration_bands.txt")


def describe_bands():
    """Return a line for each band of a small calibration: its limits, and what was measured."""
    return "".join(
        f"{band.promise} | {band.low} | {band.high} | {band.slack:.6f} | {band.control} | "
        f"{len(band.shares)} shares, {sum(band.shares.values()):.6f} in all | "
        f"{band.worst}: {band.value:.6f}\n"
        for band in calibrate(SMALL)
    )


def test_the_experiments_of_a_seed_stay_what_they_were():
    """The shares in docs/statistics.md can be computed again, by this seed and in this order.

    After a change that is meant, write the file anew: `describe_bands()`.
    """
    assert describe_bands() == RECORDED.read_text()


@pytest.mark.parametrize(
    ("band", "ok", "limit", "result"),
    [
        (Band("", {"a": 0.05, "b": 0.06}, high=0.055), False, "≤ 0.055", "VIOLATED"),
        (Band("", {"a": 0.06}, high=0.055, slack=0.006), True, "≤ 0.055 ± 0.0060", "ok"),
        (Band("", {"a": 0.03}, low=0.04, high=0.06), False, "0.04 to 0.06", "VIOLATED"),
        (Band("", {"a": 0.80}, low=0.85, control=True), True, "< 0.85", "fails, as it must"),
        (
            Band("", {"a": 0.05}, high=0.2, control=True),
            False,
            "> 0.2",
            "VIOLATED: passes, but must fail",
        ),
    ],
)
def test_a_band_is_judged_by_its_worst_share(band, ok, limit, result):
    assert (band.ok, command.limit(band), command.describe_result(band)) == (ok, limit, result)


def run(monkeypatch, bands, *arguments):
    monkeypatch.setattr(command, "calibrate", lambda effort, seed, note: bands)
    out = io.StringIO()
    call_command("calibrate", "--quick", *arguments, stdout=out)
    return out.getvalue()


def test_each_part_says_what_it_took(monkeypatch):
    def measure(effort, seed, note):
        return calibrate(SMALL, seed, note)

    monkeypatch.setattr(command, "calibrate", measure)
    out, errors = io.StringIO(), io.StringIO()
    with suppress(CommandError):  # so few experiments may violate a band
        call_command("calibrate", "--quick", stdout=out, stderr=errors)
    names = [name for name, _ in list_parts(SMALL, 1)]
    assert len(names) == 16
    lines = errors.getvalue().splitlines()
    assert [line.partition(": ")[0] for line in lines] == names
    assert all(re.fullmatch(r".*: \d+\.\d s", line) for line in lines)


def test_the_command_prints_a_table_and_what_the_limits_are_widened_by(monkeypatch, quick_bands):
    text = run(monkeypatch, quick_bands)
    assert text.count("fails, as it must") == 19
    assert "widened by 3 Monte-Carlo standard errors" in text
    assert all(band.promise in text and band.worst in text for band in quick_bands)


def test_the_command_gives_every_share_as_json(monkeypatch, quick_bands):
    read = json.loads(run(monkeypatch, quick_bands, "--json"))
    assert [band["shares"] for band in read] == [dict(band.shares) for band in quick_bands]


def test_a_violated_band_ends_the_command_with_an_error(monkeypatch):
    with pytest.raises(CommandError, match="1 of 1 bands violated"):
        run(monkeypatch, [Band("promise", {"a": 0.06}, high=0.055)])
