"""Environments whose values come from different sources are not compared."""

from __future__ import annotations

import pytest

from experiments.comparisons.companions import compute_robustness
from experiments.statistics import Pair, Sample, Verdict, compare

VALUES = {
    "bare": [100.0, 101.0, 99.0, 100.5, 99.5, 100.2],
    "box": [104.0, 105.0, 103.0, 104.5, 103.5, 104.1],
}


def samples_by(sources: dict[str, list[str]]) -> list[Sample]:
    return [
        Sample(f"{name}{k}", str(k), name, value, source=sources[name][k])
        for name, values in VALUES.items()
        for k, value in enumerate(values)
    ]


def compared(sources: dict[str, list[str]], *, unit: str = "J", paired: bool = True) -> Pair:
    (pair,) = compare(
        samples_by(sources),
        baseline="bare",
        environments=["box"],
        margin=0.02,
        better="lower",
        paired=paired,
        unit=unit,
    )
    return pair


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    "sources",
    [
        {"bare": ["counter"] * 6, "box": ["samples"] * 6},
        {"bare": ["counter"] * 6, "box": [*["counter"] * 5, "samples"]},
        {"bare": ["counter", "samples"] * 3, "box": ["counter", "samples"] * 3},
        {"bare": [""] * 6, "box": ["counter"] * 6},
    ],
)
def test_different_sources_give_no_verdict(sources: dict[str, list[str]], paired: bool) -> None:
    pair = compared(sources, paired=paired)
    assert pair.verdict is Verdict.NO_INFERENCE
    assert (pair.ratio, pair.ci95, pair.p_difference, pair.p_equivalence) == (None,) * 4
    assert pair.sentence.startswith(
        "No inference: there is no common source of the values: bare by "
    )
    assert compute_robustness(pair, samples_by(sources)).companions == ()


def test_the_sentence_says_which_and_how_many() -> None:
    pair = compared({"bare": ["counter"] * 6, "box": [*["counter"] * 5, "samples"]})
    assert pair.sentence == (
        "No inference: there is no common source of the values: bare by counter (6), "
        "box by counter (5) and samples (1)."
    )
    pair = compared({"bare": [""] * 6, "box": ["counter"] * 6})
    assert "bare by the program's report (6), box by counter (6)" in pair.sentence


@pytest.mark.parametrize("source", ["", "counter"])
def test_one_source_gives_the_verdict_that_there_is_without_sources(source: str) -> None:
    one = {name: [source] * 6 for name in VALUES}
    pair = compared(one)
    assert pair.verdict is Verdict.SLOWER
    assert pair.ratio == pytest.approx(1.04, abs=0.002)


@pytest.mark.parametrize(("unit", "claim"), [
    ("J", "box needs 3.98 % more than bare"),
    ("B", "box needs 3.98 % more than bare"),
    ("s", "box is 3.98 % slower than bare"),
])  # fmt: skip
def test_memory_and_energy_are_needed_and_not_slow(unit: str, claim: str) -> None:
    assert compared({name: ["x"] * 6 for name in VALUES}, unit=unit).claim == claim


def test_an_environment_without_values_is_told_from_one_without_runs() -> None:
    samples = [
        s for s in samples_by({name: ["x"] * 6 for name in VALUES}) if s.environment == "box"
    ]
    (pair,) = compare(
        samples,
        baseline="bare",
        environments=["box"],
        margin=0.02,
        better="lower",
        paired=False,
        unit="J",
        counted="measured gpu_energy",
    )
    assert pair.sentence == "No inference: there is no measured gpu_energy of bare."
