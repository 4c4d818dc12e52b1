"""Rules of a plan on nodes: what they reject, what they let be, and what they cannot know."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.node_rules import (
    LEAST_MHZ,
    OTHERS_CPUS,
    SWAP,
    THROTTLED,
    Judgement,
    describe_rules,
    judge,
    name_violated_rules,
)
from runners.node_samples import PAGED, SAMPLES, Samples, read_samples

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


class TestLoadOfOthers:
    """CPUs of the node that were busy beyond all that the run may use."""

    RULE: ClassVar = {OTHERS_CPUS: 2}

    @staticmethod
    def busy(*cpus: float, of: int = 16, every: float = 5.0) -> Samples:
        """Return samples of a node on which so many CPUs were busy in each interval."""
        lines = ["0 1000 50000 1 9 0 0 1"]
        busy, total = 1000.0, 50_000.0
        for number, count in enumerate(cpus, start=1):
            busy, total = busy + 100 * every * count, total + 100 * every * of
            lines.append(f"{number * every:.2f} {busy:.0f} {total:.0f} 1 9 0 0 1")
        return read_samples({SAMPLES[0]: "".join(f"{line}\n" for line in lines).encode()})

    def test_what_is_beyond_the_runs_own_cpus_is_of_others(self) -> None:
        judgement = judge(self.RULE, self.busy(6, 7, 6.5), 0, 15, 4)
        (why,) = judgement.violations
        assert why == "others kept at least 2.5 CPUs busy beside the 4 of the run"
        assert name_violated_rules(why) == ["load of others on the node"]
        assert judge({OTHERS_CPUS: 3}, self.busy(6, 7, 6.5), 0, 15, 4) == GOOD

    def test_what_the_run_may_have_used_itself_rejects_nothing(self) -> None:
        assert judge(self.RULE, self.busy(8, 8, 8), 0, 15, 8) == GOOD
        assert judge(self.RULE, self.busy(1, 1), 0, 10, 8) == GOOD, "at least 0, not less"

    def test_only_the_time_of_the_run_counts(self) -> None:
        samples = self.busy(16, 16, 3, 3, 16)
        assert judge(self.RULE, samples, 10, 20, 4) == GOOD
        assert judge(self.RULE, samples, 0, 25, 4).violations

    @pytest.mark.parametrize("cpus", [None, 16, 64])
    def test_who_may_use_the_whole_node_cannot_be_told_from_others(self, cpus: int | None) -> None:
        judgement = judge(self.RULE, self.busy(16, 16), 0, 10, cpus)
        assert judgement == Judgement((), ("load of others on the node",))

    def test_without_two_samples_it_is_not_applied(self) -> None:
        unknown = Judgement((), ("load of others on the node",))
        assert judge(self.RULE, self.busy(16, 16), 6, 9, 4) == unknown
        assert judge(self.RULE, self.busy(16, 16), 4, 9, 4) == unknown
        assert judge(self.RULE, Samples(), 0, 10, 4) == unknown

    def test_a_counter_that_was_set_back_says_nothing(self) -> None:
        samples = Samples(ticks=[(0, 900, 9000), (5, 100, 17_000)])
        assert judge(self.RULE, samples, 0, 10, 4).not_applied
        samples = Samples(ticks=[(5, 100, 9000), (5, 200, 9000)])
        assert judge(self.RULE, samples, 0, 10, 4).not_applied
        samples = Samples(ticks=[(0, 0, 0), (5, 900, 800)])
        assert judge(self.RULE, samples, 0, 10, 4).not_applied
