"""Rules of a plan on nodes: what they reject, what they let be, and what they cannot know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.node_rules import (
    LEAST_MHZ,
    SWAP,
    THROTTLED,
    Judgement,
    describe_rules,
    judge,
    name_violated_rules,
)
from runners.node_samples import PAGED, Samples

ALL = {SWAP: True, THROTTLED: True, LEAST_MHZ: 1500}
GOOD = Judgement()


def samples(
    *,
    pages: list[float] | None = None,
    reasons: list[float] | None = None,
    clocks: list[float] | None = None,
    uses: list[float] | None = None,
) -> Samples:
    """A sample each 5 s from 0 on, of GPU 0."""

    def track(values: list[float]) -> list[tuple[float, float]]:
        return [(5.0 * number, value) for number, value in enumerate(values)]

    return Samples(
        tracks={
            (PAGED, None): track(pages or [7.0] * 4),
            ("GPU clock", 0): [(time, 1e6 * mhz) for time, mhz in track(clocks or [1900.0] * 4)],
            ("GPU use", 0): track(uses or [99.0] * 4),
        },
        reasons={0: track(reasons or [0x4] * 4)},
    )


def test_a_quiet_node_breaks_no_rule() -> None:
    assert judge(ALL, samples(), 0, 20) == GOOD
    assert judge({}, Samples(), 0, 20) == GOOD


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (samples(pages=[7, 7, 1041, 1041]), "1,034 pages went to swap or came from it"),
        (
            samples(reasons=[0x4, 0x24, 0x48, 0]),
            "GPU 0: software thermal slowdown and hardware thermal slowdown"
            " and hardware slowdown in 2 of 4 samples",
        ),
        (
            samples(clocks=[1900, 1200, 1200, 1200]),
            "GPU 0 had a mean clock of 1,375 MHz while in use, less than 1,500 MHz",
        ),
    ],
)
def test_each_rule_names_what_it_found(odd: Samples, why: str) -> None:
    (found,) = judge(ALL, odd, 0, 20).violations
    assert sorted(found.split()) == sorted(why.split())


def test_the_message_of_a_run_tells_its_rules() -> None:
    odd = samples(pages=[7, 7, 41, 41], reasons=[8, 8, 0x60, 4], clocks=[900, 900, 900, 900])
    broken = judge(ALL, odd, 0, 20).violations
    names = ["swap", "slowed GPUs", "clocks of GPUs in use"]
    assert name_violated_rules("; ".join(broken)) == names
    assert [name_violated_rules(violation) for violation in broken] == [[name] for name in names]
    assert name_violated_rules("") == name_violated_rules("<b>x</b>") == ["another rule"]


def test_what_happened_before_or_after_the_run_does_not_count() -> None:
    odd = samples(pages=[1, 99, 99, 500], reasons=[8, 4, 4, 8], clocks=[9, 1900, 1900, 9])
    assert judge(ALL, odd, 4, 11) == GOOD


def test_an_idle_gpu_may_lower_its_clock() -> None:
    idle = samples(clocks=[345, 1900, 1900, 345], uses=[0, 99, 60, 49])
    assert judge(ALL, idle, 0, 20) == GOOD


def test_without_samples_rules_reject_nothing_and_say_so() -> None:
    judgement = judge(ALL, samples(), 6, 9)
    assert judgement.violations == ()
    assert judgement.not_applied == ("swap", "slowed GPUs", "clocks of GPUs in use")
    never_used = samples(uses=[0.0, 0.0, 0.0, 0.0], clocks=[1.0] * 4)
    assert judge({LEAST_MHZ: 1500}, never_used, 0, 20).not_applied == ("clocks of GPUs in use",)


values = st.lists(st.sampled_from([0.0, 1.0, 8.0, 50.0, 1500.0, 1e9]), min_size=4, max_size=4)
rules = st.fixed_dictionaries(
    {}, optional={SWAP: st.booleans(), THROTTLED: st.booleans(), LEAST_MHZ: st.integers(1, 5000)}
)


@given(rules, values, values, values, values, st.floats(0, 30), st.floats(0, 30))
def test_each_rule_alone_finds_what_all_find_together(
    asked: dict[str, Any], pages: Any, reasons: Any, clocks: Any, uses: Any, a: float, b: float
) -> None:
    node = samples(pages=pages, reasons=reasons, clocks=clocks, uses=uses)
    together = judge(asked, node, min(a, b), max(a, b))
    alone = [judge({name: value}, node, min(a, b), max(a, b)) for name, value in asked.items()]
    assert sorted(together.violations) == sorted(v for one in alone for v in one.violations)
    assert sorted(together.not_applied) == sorted(v for one in alone for v in one.not_applied)


def test_rules_are_described_in_words() -> None:
    assert describe_rules({}) == []
    assert describe_rules(ALL)[2] == "a GPU in use had a mean clock below 1,500 MHz"
    assert len(describe_rules(ALL)) == len(ALL)
