"""What is read of running programs: their output, and the lines of their reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runners.live_files import MOST_OUTPUT_BYTES, MOST_REPORT_BYTES, LiveFiles, read_live_files
from runners.payload import read_payload_files
from runners.runner import Runner
from runners.schedulers import Direct
from runners.transports import Local
from runners.workloads.live_reports import MOST_CURVES, MOST_STRETCHES, LiveReport, restore_report


def read(directory: Path, offset: int = 0) -> LiveFiles:
    return read_live_files(Local(), {str(directory): offset})[str(directory)]


def report_of(*lines: object) -> LiveReport:
    report = LiveReport()
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    assert report.add_lines(content) == len(content)
    return report


# --- Files


def test_a_run_that_has_written_nothing_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path) == LiveFiles(0, b"", "")
    assert read(tmp_path / "gone", 400) == LiveFiles(0, b"", "")


def test_the_end_of_its_output_and_what_its_report_has_gained_are_read(tmp_path: Path) -> None:
    (tmp_path / "output.txt").write_bytes(b"x" * 20_000 + b"epoch 3\n")
    (tmp_path / "result.jsonl").write_bytes(b'{"a": 1}\n{"b": 2}\n')
    live = read(tmp_path, offset=9)
    assert (live.offset, live.report) == (9, b'{"b": 2}\n')
    assert len(live.output) == MOST_OUTPUT_BYTES
    assert live.output.endswith("xepoch 3\n")


def test_a_report_that_was_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "tare-result.jsonl").write_bytes(b"{}\n")
    assert read(tmp_path, offset=5000) == LiveFiles(0, b"{}\n", "")


def test_a_long_report_comes_in_portions(tmp_path: Path) -> None:
    content = b"".join(b'{"step": {"loss": %d}}\n' % number for number in range(30_000))
    (tmp_path / "tare-result.jsonl").write_bytes(content)
    report, offset = LiveReport(), 0
    while (live := read(tmp_path, offset)).report:
        is_all = len(live.report) < MOST_REPORT_BYTES
        offset += report.add_lines(live.report, is_all=is_all)
    assert offset == len(content)
    curve = report.curves["loss"]
    assert (curve.count, curve.stretches[0].low, curve.stretches[-1].high) == (30_000, 0, 29_999)


def test_files_that_are_no_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "output.txt")
    os.mkfifo(tmp_path / "result.jsonl")
    assert read(tmp_path) == LiveFiles(0, b"", "")


def test_links_to_what_lies_elsewhere_are_not_followed(tmp_path: Path) -> None:
    run, secret = tmp_path / "run", tmp_path / "id_ed25519"
    run.mkdir()
    secret.write_text("secret\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "output.txt").write_text("secret\n")
    (run / "output.txt").symlink_to(secret)
    (run / "result.jsonl").symlink_to(secret)
    (run / "rank-0").symlink_to(tmp_path / "elsewhere")
    assert read(run) == LiveFiles(0, b"", "")
    assert Runner(Local(), Direct()).read_tail(str(run / "output.txt")) == ""
    linked = tmp_path / "linked"
    linked.symlink_to(run)
    (run / "output.txt").unlink()
    (run / "output.txt").write_text("own\n")
    assert read(linked).output == "own\n", "the directory itself may lie behind a link"


def test_of_several_processes_the_first_is_read(tmp_path: Path) -> None:
    (tmp_path / "rank-0").mkdir()
    (tmp_path / "output.txt").write_text("launched\n")
    (tmp_path / "rank-0" / "output.txt").write_text("step 1\n")
    (tmp_path / "rank-0" / "result.jsonl").write_text("{}\n")
    assert read(tmp_path) == LiveFiles(0, b"{}\n", "step 1\n")


def test_many_runs_with_odd_names_and_bytes_are_read_by_one_command(tmp_path: Path) -> None:
    names = ["a b", "-x", "$(id)", "caf\udce9", "'q'", *map(str, range(40))]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "output.txt").write_bytes(f"of {len(name)}".encode() + b"\xff\0")
    found = read_live_files(Local(), {str(tmp_path / name): 0 for name in names})
    assert [found[str(tmp_path / name)].output for name in names] == [
        f"of {len(name)}\N{REPLACEMENT CHARACTER}" for name in names
    ]


def test_the_last_samples_of_its_jobs_node_come_with_a_run(tmp_path: Path) -> None:
    run, folder = tmp_path / "runs" / "0-r0", tmp_path / "samples"
    run.mkdir(parents=True)
    folder.mkdir()
    (run / "output.txt").write_text("printed\n")
    line = b"100 1 2 3 4 5 6 0.5\n"
    (folder / "node.txt").write_bytes(line * 2000 + b"105 2")
    live = read(run)
    assert live.output == "printed\n"
    assert set(live.samples) == {"samples/node.txt"}
    lines = live.samples["samples/node.txt"].split(b"\n")
    assert len(lines) > 500
    assert {*lines[:-1]} == {line[:-1]}, "the first one, which was cut, is left out"
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    (folder / "gpus.csv").symlink_to(secret)
    assert "samples/gpus.csv" not in read(run).samples
    (folder / "gpus.csv").unlink()
    (folder / "gpus.csv").write_bytes(b"a\n\xff\0")
    assert read(run).samples["samples/gpus.csv"] == b"a\n\xff"


# --- Reports


def test_what_the_recorder_has_written_so_far_can_be_drawn(tmp_path: Path) -> None:
    lines = b"""\
{"series": "step_time", "unit": "s", "from": 0, "values": [0.5, 0.02, 0.03]}
{"series": "loss", "unit": "1", "from": 0, "values": [2.5, 2.25, null]}
{"phases": {"start": 0.3, "steady state": 2.0}}
{"facts": {"burn_in": 2, "time_to_first_step": 0.8}}
{"series": "step_time", "unit": "s", "from": 3, "values": [0.01]}
"""
    report = LiveReport()
    assert report.add_lines(lines + b'{"series": "st') == len(lines)
    assert (report.curves["step_time"].unit, report.curves["step_time"].count) == ("s", 4)
    assert [stretch.total for stretch in report.curves["step_time"].stretches] == [
        0.5,
        0.02,
        0.03,
        0.01,
    ]
    assert [stretch.count for stretch in report.curves["loss"].stretches] == [1, 1, 0]
    assert (report.warm_up, report.phases["steady state"], report.odd_lines) == (2, 2.0, 0)


def test_odd_lines_are_counted_and_stop_no_other() -> None:
    report = LiveReport()
    content = b"""\
\xff\xfe
[1]
{"series": "loss", "from": true, "values": [1]}
{"series": "loss", "from": -1, "values": [1]}
{"series": "loss", "values": 3}
{"series": "a\\u0000b", "values": [1]}
{"series": "loss", "values": [NaN]}
{"phases": {"x": "long"}}
{"series": "loss", "values": [1, "two", null, true, 1e300, 4]}
"""
    assert report.add_lines(content) == len(content)
    assert report.odd_lines == 8
    (curve,) = report.curves.values()
    assert (curve.count, sum(stretch.count for stretch in curve.stretches)) == (6, 2)


def test_a_line_that_fits_into_no_answer_is_given_up() -> None:
    report = LiveReport()
    assert report.add_lines(b"x" * MOST_REPORT_BYTES) == 0, "more of it may come"
    assert report.add_lines(b"x" * MOST_REPORT_BYTES, is_all=False) == MOST_REPORT_BYTES
    line = {"series": "loss", "from": 7, "values": [1]}
    report.add_lines(b"rest\n" + json.dumps(line).encode() + b"\n")
    assert (report.curves["loss"].count, report.odd_lines) == (8, 2)


def test_a_series_too_many_is_left_out_and_is_no_damage() -> None:
    report = report_of(*({"step": {f"s{number}": 1}} for number in range(MOST_CURVES + 3)))
    assert (len(report.curves), report.odd_lines) == (MOST_CURVES, 0)
    report.add_lines(json.dumps({"step": {"one too many": 1, "s0": 2}}).encode() + b"\n")
    assert (report.curves["s0"].count, report.odd_lines) == (2, 0)


def test_a_position_far_ahead_takes_no_memory() -> None:
    report = report_of(
        {"series": "loss", "from": 0, "values": [1]},
        {"series": "loss", "from": 10**11, "values": [2]},
    )
    curve = report.curves["loss"]
    assert curve.count == 10**11 + 1
    assert len(curve.stretches) <= MOST_STRETCHES
    assert (curve.stretches[0].total, curve.stretches[-1].total) == (1, 2)


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(numbers, max_size=1500), st.lists(st.integers(0, 1500), max_size=4))
def test_a_thinned_curve_keeps_extremes_sums_and_places(
    values: list[float], cuts: list[int]
) -> None:
    ends = [*sorted(min(cut, len(values)) for cut in cuts), len(values)]
    report, first = LiveReport(), 0
    for end in ends:
        line = {"series": "x", "from": first, "values": values[first:end]}
        report.add_lines(json.dumps(line).encode() + b"\n")
        report = restore_report(json.loads(json.dumps(report.build_document())))
        first = end
    curve = report.curves["x"]
    assert curve.count == len(values)
    assert len(curve.stretches) <= MOST_STRETCHES
    for place, stretch in enumerate(curve.stretches):
        own = values[place * curve.width : (place + 1) * curve.width]
        assert (stretch.low, stretch.high, stretch.count) == (min(own), max(own), len(own))
        assert abs(stretch.total - sum(own)) < 1e-3


def test_lines_that_come_twice_count_once() -> None:
    line = {"series": "loss", "from": 0, "values": [1, 2, 3]}
    longer = {"series": "loss", "from": 1, "values": [9, 9, 4]}
    curve = report_of(line, line, longer).curves["loss"]
    assert (curve.count, [stretch.total for stretch in curve.stretches]) == (4, [1, 2, 3, 4])


def test_a_real_program_is_watched_while_it_runs(tmp_path: Path) -> None:
    program = """
import os, time
from tare import Recorder
recorder = Recorder(path="tare-result.json")
for number in recorder.steps(5, burn_in=2):
    recorder.step(loss=1 / (number + 1))
print("five steps are done", flush=True)
recorder.save()
os.kill(os.getpid(), 9)
"""
    (tmp_path / "tare.py").write_bytes(read_payload_files()["recorder.py"])
    with (tmp_path / "output.txt").open("wb") as output:
        argv = [sys.executable, "-S", "-c", program]
        subprocess.run(argv, cwd=tmp_path, stdout=output, timeout=60)
    live = read(tmp_path)
    report = LiveReport()
    assert report.add_lines(live.report) == len(live.report)
    assert live.output == "five steps are done\n"
    assert (report.curves["step_time"].count, report.curves["loss"].stretches[4].total) == (5, 0.2)
    assert (report.warm_up, report.odd_lines) == (2, 0)
    assert "steady state" in report.phases
