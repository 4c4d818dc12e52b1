"""What all sentences about numbers have in common, whatever the numbers are."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics import Sample, Verdict, compare, compare_points, numbers
from experiments.statistics.across_configurations import summarise_environments
from experiments.statistics.robust import compute_robustness
from experiments.statistics.step_spread import RunSpread, compare_packed
from experiments.statistics.steps import Trained, compare_losses, describe_agreements
from experiments.statistics.training.equivalence import compare_trainings
from experiments.statistics.training.outcomes import Ending
from experiments.statistics.training.sentences import write_sentence

NOUNS = "runs|blocks|seeds|steps|cells|configurations|comparisons|looks|repeats|values|rows|points"
ONE_OF_MANY = re.compile(rf"(?<![\d.,] )(?<![\d.,−])\b1 ({NOUNS})\b(?! (differ|packed))")
TWO_AS_ALL = re.compile(r"\ball [12]\b")
LONG_ZERO = re.compile(r"0\.000000")
INTERVAL = re.compile(r"\[[−\d.e+]+, [−\d.e+]+\]|CI [−\d.e+]+ to|% CI to|between [\d.]+ %")


def check(text):
    """What no sentence may hold."""
    assert not ONE_OF_MANY.search(re.sub(r"\d+ of \d+ ", "", text)), text
    assert not re.search(r"\b1 of 1 \w", text), text
    assert not TWO_AS_ALL.search(text), text
    assert not LONG_ZERO.search(text), text
    for one in re.split(r"(?<=[.;]) (?=[A-Z])", text):
        assert len(INTERVAL.findall(one)) <= 1, one
        if INTERVAL.search(one):
            assert re.search(r"\d % CI", one), one


scales = st.floats(1e-9, 1e9)
logs = st.lists(st.tuples(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3)), min_size=1, max_size=9)
tight = st.floats(1e-7, 1)


def samples_of(pairs, scale, spread):
    return [
        Sample(f"{name}{k}", str(k), name, scale * math.exp(spread * log))
        for k, values in enumerate(pairs)
        for name, log in zip(("bare", "box"), values, strict=True)
    ]


def compared(pairs, scale, spread, *, paired, better, shift=0.0, margin=0.02):
    samples = [
        Sample(s.run, s.block, s.environment, s.value * math.exp(shift * (s.environment == "box")))
        for s in samples_of(pairs, scale, spread)
    ]
    (found,) = compare(
        samples,
        baseline="bare",
        environments=["box"],
        margin=margin,
        better=better,
        paired=paired,
        unit="s",
    )
    return found, samples


directions = st.sampled_from(["lower", "higher"])


@given(logs, scales, tight, st.booleans(), directions, st.floats(-0.8, 0.8))
def test_verdicts(pairs, scale, spread, paired, better, shift):
    found, samples = compared(pairs, scale, spread, paired=paired, better=better, shift=shift)
    check(found.sentence)
    for reason in found.reasons:
        check(reason)
    check(compute_robustness(found, samples).sentence)
    in_words = re.search(
        r"is ([\d.]+) % (slower|faster) than bare \(ratio ([\d.]+),", found.sentence
    )
    if found.verdict in (Verdict.SLOWER, Verdict.FASTER):
        assert in_words, found.sentence
        per_cent, side, ratio = in_words.groups()
        assert float(per_cent) == pytest.approx(abs(100 * (float(ratio) - 1)), abs=1e-9)
        assert (side == "slower") == ((float(ratio) > 1) == (better == "lower"))


def test_a_throughput_is_faster_by_what_its_ratio_says():
    pairs = [(0.001 * k, 0.001 * k + 0.0002 * (k % 2)) for k in range(6)]
    found, _ = compared(pairs, 100, 1, paired=True, better="higher", shift=math.log(1.761))
    assert found.claim == "box is 76.12 % faster than bare"
    assert "(ratio 1.7612, 95 % CI " in found.evidence
    assert found.cost == pytest.approx(1 / 1.761 - 1, abs=1e-3)


@given(st.lists(st.tuples(logs, st.floats(-0.5, 0.5)), min_size=2, max_size=3), directions)
def test_all_configurations(cells, better):
    found = [compared(p, 1, 1, paired=True, better=better, shift=shift)[0] for p, shift in cells]
    for one in summarise_environments(found):
        check(one.sentence)


runs = st.lists(
    st.tuples(st.integers(1, 3), st.floats(1e-12, 5), st.sampled_from(["bare", "box"])),
    min_size=1,
    max_size=8,
)


@given(runs, st.booleans(), st.sampled_from(["loss", "accuracy"]))
def test_trainings(rows, known, what):
    endings = [
        Ending(f"r{k}", name, f"seed {seed}", last, 5.0, f"{last}")
        for k, (seed, last, name) in enumerate(rows)
    ]
    better = "lower" if what == "loss" else "higher"
    for one in compare_trainings(
        endings,
        baseline="bare",
        environments=["bare", "box"],
        what=what,
        better=better,
        seeds_known=known,
    ):
        check(write_sentence(one))


@given(runs)
def test_steps(rows):
    trained = [Trained(f"r{k}", n, seed, [5.0, last]) for k, (seed, last, n) in enumerate(rows)]
    found = compare_losses(trained, environments=["bare", "box"], runs=len(rows), steps=2)
    for words in describe_agreements(found.agreements, baseline="bare"):
        check(words)


spreads = st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.001, 0.1)), min_size=1, max_size=4)


@given(spreads, spreads)
def test_packed_runs(alone, together):
    arms = [
        [RunSpread(f"r{k}", str(k), "bare", *each) for k, each in enumerate(arm)]
        for arm in (alone, together)
    ]
    for one in compare_packed(*arms, environments=["bare"], instances=4):
        check(one.sentence)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5))
def test_points(pairs):
    samples = [
        Sample(f"{name}{k}", str(k), name, value)
        for k, values in enumerate(pairs)
        for name, value in zip(("bare", "box"), values, strict=True)
    ]
    (one,) = compare_points(samples, baseline="bare", environments=["box"], paired=True, unit="1")
    check(one.sentence)


@given(
    st.floats(-1e12, 1e12), st.floats(0, 1e6), st.integers(0, 5), st.sampled_from(["s", "1", ""])
)
def test_quantities_have_no_row_of_zeros(mean, sd, n, unit):
    for text in (numbers.quantity(mean, unit), numbers.spread(mean, sd, n, unit)):
        assert not LONG_ZERO.search(text), text
        assert not re.search(r"\d\.\d{9}", text), text


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (22.94, 3.6e-15, "22.94000 ± 3.6e−15 (SD, n = 5)"),
        (22.94, 0.0, "22.94 ± 0.00 (SD, n = 5)"),
        (22.94, 0.31, "22.94 ± 0.31 (SD, n = 5)"),
        (1e-20, 2e-21, "1.000e−20 ± 2.0e−21 (SD, n = 5)"),
        (0.0, 1e-12, "0 ± 1.0e−12 (SD, n = 5)"),
        (0.7391301, 6.83e-8, "0.7391301 ± 6.8e−08 (SD, n = 5)"),
        (0.00078384, 0.0, "0.0007838 ± 0.00000 (SD, n = 5)"),
        (-0.000112186, 4.5e-13, "−0.00011219 ± 4.5e−13 (SD, n = 5)"),
        (-0.0, 0.25, "0 ± 0.25 (SD, n = 5)"),
        (0.0, 0.0, "0 ± 0 (SD, n = 5)"),
    ],
)
def test_a_spread_that_its_digits_would_hide_is_written_as_a_power_of_ten(mean, sd, text):
    assert numbers.spread(mean, sd, 5, "") == text
    assert numbers.quantity(1e-20, "") == "1.000e−20"


@given(st.floats(1e-9, 1e3))
def test_a_provable_margin_is_rounded_up_and_never_zero(margin):
    text = numbers.provable(margin)
    printed = float(text.removesuffix(" %").replace("−", "-")) / 100
    assert printed >= margin * (1 - 1e-6)
    assert printed <= margin * 1.11


def test_a_provable_margin():
    assert numbers.provable(0.01357) == "1.4 %"
    assert numbers.provable(0.000421) == "0.043 %"
    assert numbers.provable(None) == "–"


def test_counts_and_names():
    assert [numbers.count(n, "repeat") for n in (0, 1, 2, 4000)] == [
        "0 repeats",
        "1 repeat",
        "2 repeats",
        "4,000 repeats",
    ]
    assert [numbers.all_of(n, "run") for n in (1, 2, 3)] == [
        "the only run",
        "both runs",
        "all 3 runs",
    ]
    assert [numbers.listed(list(names)) for names in ("a", "ab", "abc")] == [
        "a",
        "a and b",
        "a, b and c",
    ]
