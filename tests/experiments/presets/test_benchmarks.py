"""Known programs: what their patterns read of what they have printed, and of runs that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.presets.commands import COMMANDS, FOLDER, SENT, group_commands, place_in_folder
from experiments.presets.programs import GROUPS
from runners.workloads import WORKLOADS, SanityError
from runners.workloads.base import RESULT
from runners.workloads.reading import OUTPUT

OUTPUTS = Path(__file__).with_name("outputs")
"""Output of the programs in Debian 12 and of PyPI's, shortened; of those that are from
documentation what it shows."""
COMMAND = WORKLOADS["command"]
FRAME = {
    "schema": 1,
    "metrics": {"wall_time": {"value": 12.5, "unit": "s"}},
    **{name: {} for name in ("series", "phases", "facts")},
}
"""What the payload leaves beside the program's own files."""
OF_OTHERS = [key for key in COMMANDS if not key.startswith("tf-cnn")]


def parameters_of(key: str) -> dict[str, Any]:
    return dict(COMMAND.clean(COMMANDS[key].piece.parameters))


def files_of(key: str, folder: Path = OUTPUTS) -> dict[str, bytes]:
    """Return the files of a run as they are fetched."""
    files = {OUTPUT: b"", RESULT: json.dumps(FRAME).encode()}
    for path in folder.glob(f"{key}.*"):
        name = path.name.removeprefix(f"{key}.")
        files[OUTPUT if name == "txt" else name] = path.read_bytes()
    assert any(files[name] for name in files if name != RESULT), "there is a file of it"
    return files


@pytest.mark.parametrize("key", OF_OTHERS)
def test_every_metric_is_read_of_real_output(key: str) -> None:
    parameters = parameters_of(key)
    result = COMMAND.read(files_of(key), parameters)
    for row in parameters["metrics"]:
        value, unit = result.measurements[row["name"]]
        assert value > 0
        assert unit == row["unit"]
    assert COMMAND.choose_primary_metric(parameters) in result.measurements


def test_values_are_those_that_the_programs_print() -> None:
    """Each of these stands in the file as it is."""
    read = {key: COMMAND.read(files_of(key), parameters_of(key)).measurements for key in OF_OTHERS}
    for key, name in (
        ("sysbench-cpu", "events_per_second"),
        ("sysbench-memory", "write_rate"),
        ("hpcc", "hpl_rate"),
        ("hpcc", "stream_triad"),
        ("fio-random", "read_operations"),
        ("pytest-benchmark", "mean_time"),
    ):
        text = b"".join(files_of(key).values()).decode()
        value = read[key][name][0]
        assert any(f in text for f in (f"{value:g}", f"{value:.2f}", f"{value:.6f}", f"{value!r}"))
    assert read["osu-latency"]["latency_8"][0] == 0.93
    assert read["nccl-tests"]["bus_bandwidth"] == (52.3146, "GB/s")
    assert read["stream"]["triad_rate"] == (12876.5, "MB/s")
    assert read["mlperf-training"]["eval_accuracy"][0] == 0.7


@pytest.mark.parametrize("path", sorted((OUTPUTS / "failed").iterdir()), ids=lambda path: path.name)
def test_a_run_that_says_it_failed_fails_whatever_its_exit_code(path: Path) -> None:
    """HPC Challenge with a residual that is too large, and iperf3 without a server, end with 0."""
    key = path.name.partition(".")[0]
    with pytest.raises(SanityError, match=r"matches the (failure|success) pattern"):
        COMMAND.read(files_of(key) | files_of(key, OUTPUTS / "failed"), parameters_of(key))


def test_output_without_the_line_of_success_fails_the_run() -> None:
    files = files_of("hpcc")
    files["hpccoutf.txt"] = files["hpccoutf.txt"].replace(b"Success=1\n", b"")
    with pytest.raises(SanityError, match=r"the success pattern \^Success=1\$ matches nothing"):
        COMMAND.read(files, parameters_of("hpcc"))


def test_each_known_program_stands_in_one_group_and_says_what_it_needs() -> None:
    grouped = [key for _, programs in group_commands() for key, _ in programs]
    assert sorted(grouped) == sorted(COMMANDS)
    for ready in COMMANDS.values():
        assert ready.measures in GROUPS
        assert ready.summary.endswith(".")
        assert not ready.needs.endswith(".")
        sent = ready.piece.parameters.get("files", {})
        assert set(sent) == set(ready.files)
        assert set(sent.values()) <= set(SENT)


def test_the_table_of_the_documentation_has_each_of_them() -> None:
    text = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text()
    for key, ready in COMMANDS.items():
        assert ready.piece.name in text, key


def test_a_program_in_another_folder_is_started_there() -> None:
    ready = place_in_folder(COMMANDS["tf-cnn-benchmarks"], "/project/tf cnn")
    argv = ready.piece.parameters["argv"]
    assert argv[:4] == [
        "env",
        "TF_USE_LEGACY_KERAS=1",
        "{python}",
        "/project/tf cnn/tf_cnn_benchmarks.py",
    ]
    assert not any(word.startswith(FOLDER) for word in argv)
