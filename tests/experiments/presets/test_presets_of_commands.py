"""The numbers that the presets read in what tf_cnn_benchmarks prints."""

from __future__ import annotations

import pytest

from experiments.imports import list_files, read_logs
from experiments.presets.commands import NUMBERS, make_tf_cnn
from runners.workloads import WORKLOADS, SanityError
from runners.workloads.reading import OUTPUT, READERS
from tests import tf_cnn_logs as logs

COMMAND = WORKLOADS["command"]
PARAMETERS = COMMAND.clean(make_tf_cnn("tf_cnn_benchmarks", 5).parameters)


def read(log: str) -> dict[str, float]:
    found = READERS["patterns"]({OUTPUT: log.encode()}, PARAMETERS)
    return {name: value for name, (value, _) in found.measurements.items()}


def test_the_same_log_gives_the_same_numbers_as_when_it_is_imported() -> None:
    """Steps that grow slower: the mean of the running means would be 15 % too high."""
    steps = tuple(range(10, 110, 10))
    rates = logs.cumulated(steps, [0.1 * (1 + step / 50) for step in steps], 64)
    log = logs.output(rates=rates, steps=steps)
    (imported,) = read_logs(list_files(logs.as_zip({"a/stdout": log}))).runs
    names = {row["name"] for row in NUMBERS}
    assert read(log) == {name: imported.measurements[name] for name in names}


@pytest.mark.parametrize("said", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "line",
    [
        "10\timages/sec: {} +/- 0.3 (jitter = 0.5)\t7.9",
        "10\timages/sec: {} +/- nan (jitter = nan)\t7.9",
        "10\timages/sec: 128.0 +/- 0.3 (jitter = 0.5)\t{}",
        "total images/sec: {}",
    ],
)
def test_a_number_that_is_none_fails_the_run(line: str, said: str) -> None:
    log = logs.output(steps=(1,), rates=(128.0,)) + line.format(said) + "\n"
    with pytest.raises(SanityError, match=f"is {said}, which is not a finite number"):
        read(log)


def test_patterns_of_plans_from_before_do_not_pass_over_it_either() -> None:
    row = {**NUMBERS[1], "find": r"^\d+\s+images/sec: ([\d.]+) \+/-", "take": "series"}
    log = "1\timages/sec: 5.0 +/- 0.3\n10\timages/sec: nan +/- nan\n"
    with pytest.raises(SanityError, match="step_images_per_second: the pattern passes over line 2"):
        READERS["patterns"]({OUTPUT: log.encode()}, {**PARAMETERS, "metrics": [row]})
