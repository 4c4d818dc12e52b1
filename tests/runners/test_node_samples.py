"""Samples of the node beside runs: what the job script writes, and how strictly it is read."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import records
from runners.node_samples import (
    CPU,
    LONGEST_PROBLEM,
    MEMORY,
    MOST_BYTES,
    MOST_GPUS,
    MOST_POINTS,
    OTHERS_CPU,
    PAGED,
    PROCESSES,
    Samples,
    describe_run,
    read_samples,
)
from runners.records import read_record
from runners.scripts import TEMPLATE, choose_interval
from tests.runners.direct_jobs import finished, make_job, says, until

SPAN = re.DOTALL | re.MULTILINE
NODE = "samples/node.txt"
GPUS = "samples/gpus.csv"
GPU_LINE = "2026/11/23 12:00:0{}.250, {}, 80, 1024, 250.50, 1980, 61, 0x0000000000000004\n"
NOON = 1795435200.0  # 2026-11-23 12:00:00 UTC


def node_lines(*lines: str) -> Samples:
    return read_samples({NODE: "".join(f"{line}\n" for line in lines).encode()})


def gpu_lines(*lines: str) -> Samples:
    return read_samples({GPUS: "".join(lines).encode()})


# --- Reading


def test_figures_of_the_node_become_tracks() -> None:
    samples = node_lines(
        "100.5 1000 4000 2048 8192 0 7 0.50",
        "105.5 1500 5000 4096 8192 1024 9 1.25",
    )
    assert samples.tracks[CPU, None] == [(105.5, 50.0)]
    assert samples.tracks[MEMORY, None] == [(100.5, 2048 * 1024), (105.5, 4096 * 1024)]
    assert (samples.odd_lines, samples.problem) == (0, "")


def test_cpu_use_by_others_is_that_of_the_node_less_the_job_s_own() -> None:
    """Four CPUs: in 10 s there are 4,000 ticks; the job used 5 s of them, and 2,000 were busy."""
    samples = node_lines(
        "100 1000 4000 2048 8192 0 7 0.50 7000000",
        "110 3000 8000 2048 8192 0 7 0.50 12000000",
        "120 3400 12000 2048 8192 0 7 0.50 16100000",
        "130 3500 16000 2048 8192 0 7 0.50 9",
    )
    assert samples.tracks[CPU, None] == [(110, 50.0), (120, 10.0), (130, 2.5)]
    # The kernel counts both on its own, so a little below 0 is 0; a counter set back is nothing.
    assert samples.tracks[OTHERS_CPU, None] == [(110, 37.5), (120, 0.0)]
    assert samples.odd_lines == 0
    document = describe_run(samples, 100, 130)
    (track,) = [each for each in document["tracks"] if each["name"] == OTHERS_CPU]
    assert (track["count"], track["mean"]) == (1, 0.0), "the first counts from before the run"


def test_lines_without_the_job_s_own_time_are_read_as_ever() -> None:
    samples = node_lines("100 1 2 3 4 5 6 0.5", "105 2 4 3 4 5 6 0.5", "110 3 6 3 4 5 6 0.5 77")
    assert (samples.odd_lines, len(samples.times)) == (0, 3)
    assert (OTHERS_CPU, None) not in samples.tracks
    for odd in ("-", "1.5", "-7", "x", "9" * 30, ""):
        assert node_lines(f"100 1 2 3 4 5 6 0.5 {odd}").odd_lines == 1
    assert node_lines("100 1 2 3 4 5 6 0.5 7 8").odd_lines == 1


def test_figures_that_an_old_kernel_lacks_are_left_out() -> None:
    samples = node_lines("100 1 2 - 8192 - - 0.50", "105 2 4 - 8192 - - 0.75")
    assert {name for name, _ in samples.tracks} == {CPU, "load"}


def test_lines_of_the_node_s_tool_become_tracks_of_each_gpu() -> None:
    samples = gpu_lines(GPU_LINE.format(0, 0), GPU_LINE.format(0, 1), GPU_LINE.format(5, 0))
    assert samples.tracks["GPU power", 0] == [(NOON + 0.25, 250.5), (NOON + 5.25, 250.5)]
    assert samples.tracks["GPU clock", 1] == [(NOON + 0.25, 1.98e9)]
    assert samples.tracks["GPU memory", 1] == [(NOON + 0.25, 2.0**30)]
    assert samples.reasons[1] == [(NOON + 0.25, 4.0)]


def test_what_a_gpu_does_not_know_is_no_damage() -> None:
    line = "2026/11/23 12:00:00.000, 0, [N/A], 9, [Not Supported], 1980, N/A, [Unknown Error]\n"
    samples = gpu_lines(line)
    assert {name for name, _ in samples.tracks} == {"GPU memory", "GPU clock"}
    assert samples.odd_lines == 0


def test_odd_lines_are_counted_and_stop_no_other() -> None:
    content = (
        b"100 1 2 3 4 5 6 0.5\n"
        b"\xff\xfe\0\n"
        b"nan 1 2 3 4 5 6 7\n"
        b"1e9 1 2 3 4 5 6 7\n"
        b"-5 1 2 3 4 5 6 7\n"
        b"101 - 2 3 4 5 6 7\n"
        b"102 1 2 3\n"
        b"99999999999999 1 2 3 4 5 6 7\n"
        b"103 1.5 2 3 4 5 6 7\n" + b"x" * 10_000 + b"\n"
        b"110 2 4 3 4 5 6 0.5\n"
        b"115 3 6 3 4"
    )
    samples = read_samples({NODE: content})
    assert samples.times == [100, 110]
    assert samples.tracks[CPU, None] == [(110, 50)]
    assert samples.odd_lines == 9


@pytest.mark.parametrize(
    "line",
    [
        "2026/02/30 12:00:00.000, 0, 1, 1, 1, 1, 1, 0x0\n",
        "2026/11/23 12:00:00.000, 9999, 1, 1, 1, 1, 1, 0x0\n",
        "2026/11/23 12:00:00.000, 0, nan, 1, 1, 1, 1, 0x0\n",
        "2026/11/23 12:00:00.000, 0, 1, 1, 1, 1\n",
        "9999/11/23 12:00:00.000, 0, 1, 1, 1, 1, 1, 0x0\n",
        'Field "clocks" is not a valid field to query.\n',
    ],
)
def test_odd_lines_about_gpus_are_counted(line: str) -> None:
    samples = gpu_lines(line, GPU_LINE.format(1, 0))
    assert (samples.odd_lines, samples.problem) == (1, "")
    assert len(samples.tracks["GPU use", 0]) == 1


def test_what_the_tool_says_in_place_of_samples_is_kept() -> None:
    samples = gpu_lines("Unable to determine the device handle for GPU: Unknown Error\n")
    assert samples.problem == "Unable to determine the device handle for GPU: Unknown Error"
    assert len(gpu_lines("\x1b[31m" + "x" * 400 + "\n").problem) <= LONGEST_PROBLEM


def test_times_that_run_backwards_are_put_in_order() -> None:
    samples = node_lines("105 5 10 9 9 0 0 1", "100 1 2 8 9 0 0 1", "110 6 12 7 9 0 0 1")
    assert samples.times == [100, 105, 110]
    assert [time for time, _ in samples.tracks[MEMORY, None]] == [100, 105, 110]
    assert all(0 <= share <= 100 for _, share in samples.tracks[CPU, None])


def test_of_a_huge_file_the_beginning_is_read() -> None:
    line = b"100 1 2 3 4 5 6 0.5\n"
    samples = read_samples({NODE: line + b"\0" * (40 << 20)})
    assert samples.times == [100]
    of_the_end = read_record({f"{GPUS}/end": GPU_LINE.format(1, 0).encode()}).samples
    assert read_samples(of_the_end).tracks, "of a file that was too large to be fetched whole"


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_no_content_raises(node: bytes, gpus: bytes) -> None:
    samples = read_samples({NODE: node + b"\n", GPUS: gpus + b"\n"})
    json.dumps(describe_run(samples, 0, 4e9), allow_nan=False)


figures = st.sampled_from(["0", "1", "-", "7.5", "1e5", "nan", "inf", "-3", "9" * 18, "9" * 30, ""])


@given(st.lists(st.lists(figures, min_size=8, max_size=8).map(" ".join), max_size=20))
def test_any_figures_make_a_document(lines: list[str]) -> None:
    samples = node_lines(*lines)
    assert samples.odd_lines + len(samples.times) == len(lines)
    json.dumps(describe_run(samples, 0, 1e18), allow_nan=False)


# --- One run's part


def test_samples_belong_to_the_run_in_whose_time_they_were_taken() -> None:
    samples = node_lines(*(f"{time} {time} {2 * time} 4 9 0 {time} 1" for time in range(0, 100, 5)))
    document = describe_run(samples, 20, 41)
    tracks = {track["name"]: track for track in document["tracks"]}
    assert document["samples"] == 5  # 20, 25, 30, 35, 40
    assert tracks[CPU]["count"] == 4, "the first one tells of the time before the run"
    assert tracks[PAGED] == {"name": PAGED, "gpu": None, "count": 5, "low": 0, "high": 20}
    assert describe_run(samples, 41, 44) == {}, "a run shorter than the interval has none"
    assert describe_run(samples, 44, 41) == {}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=800), st.integers(1, 4))
def test_thinned_tracks_keep_extremes_and_means(values: list[float], gpus: int) -> None:
    samples = Samples()
    for gpu in range(gpus):
        samples.tracks["GPU power", gpu] = [(5.0 * k, value) for k, value in enumerate(values)]
    document = describe_run(samples, 0, 5.0 * len(values))
    assert len(document["tracks"]) == gpus
    for track in document["tracks"]:
        points = track["points"]
        assert len(points) == document["points"] <= MOST_POINTS
        lows = [p[0] if isinstance(p, list) else p for p in points if p is not None]
        assert min(lows) == track["low"] == pytest.approx(min(values), rel=1e-3)
        assert track["high"] == pytest.approx(max(values), rel=1e-3)
        assert track["count"] == len(values)


def test_reasons_for_lower_clocks_are_counted_but_not_idleness() -> None:
    samples = Samples(reasons={0: [(1, 0x1), (2, 0x24), (3, 0x4), (9, 0x8)]})
    samples.tracks["GPU use", 0] = [(1, 0.0), (2, 9.0)]
    document = describe_run(samples, 0, 5)
    assert document["reasons"] == {"0": {"power cap": 2, "software thermal slowdown": 1}}


def test_a_stored_document_is_small() -> None:
    samples = Samples()
    for gpu in range(8):
        samples.tracks["GPU power", gpu] = [(5.0 * k, 700 - k / 7) for k in range(5000)]
    assert len(json.dumps(describe_run(samples, 0, 25_000))) < 30_000
    assert MOST_GPUS >= 16


# --- What the script writes


def test_the_interval_bounds_how_many_samples_there_are() -> None:
    job = make_job()
    assert choose_interval(job) == 5
    for limit in (60, 3600, 86_400, 30 * 86_400):
        resources = replace(job.resources, time_limit_seconds=limit)
        interval = choose_interval(replace(job, resources=resources))
        assert interval >= 5
        assert limit / interval <= 5000


def tool(tmp_path: Path, home: Path, text: str) -> None:
    """Put an nvidia-smi on the job's PATH, which lists a GPU and then does `text`."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/bash\nif [ \"$1\" = -q ]; then echo 'GPU 00000000:00:06.0'; exit; fi\n" + text
    )
    program.chmod(0o755)
    (home / ".bash_profile").write_text(f"PATH='{program.parent}':$PATH\n")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_job_leaves_samples_of_its_node_with_the_clock_of_its_journal(runner, block, program):
    job = block(program("exit 0"))
    record = finished(runner, job, runner.submit(job))
    samples = read_samples(record.samples)
    journal = {line["event"]: line["time"] for line in record.journal}
    assert samples.odd_lines == 0
    assert (record.exit_code, record.bad_checksums, record.missing) == (0, [], [])
    assert record.is_verified
    for time in samples.times:
        assert journal["job started"] <= time <= journal["job ended"] + 1


def wait_for_line(job, name: str) -> None:
    path = Path(job.directory) / name
    until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 1)


def test_samples_of_gpus_are_asked_for_by_one_process(runner, block, program, tmp_path, home):
    line = GPU_LINE.format(1, 0).strip()
    tool(tmp_path, home, f"echo \"$*\" >>'{tmp_path}/asked'; echo '{line}'; exec sleep 100\n")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = block(program(f"echo began; cat '{gate}'"), gpus_per_node=1)
    job_id = runner.submit(job)
    wait_for_line(job, GPUS)
    wait_for_line(job, NODE)
    gate.write_text("go\n")
    record = finished(runner, job, job_id)
    samples = read_samples(record.samples)
    assert samples.tracks["GPU power", 0] == [(NOON + 1.25, 250.5)]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 1
    assert "--id=0" in asked[0].split()
    assert "--loop=5" in asked[0].split()
    assert "left behind" not in [entry["event"] for entry in record.journal]


def test_a_tool_that_hangs_or_fails_changes_nothing(runner, block, program, tmp_path, home):
    tool(
        tmp_path,
        home,
        "trap '' TERM\necho 'Unable to open device' >&2\nread -r -t 999 <>/dev/zero\n",
    )
    job = block(program("echo ran"), gpus_per_node=1)
    record = finished(runner, job, runner.submit(job))
    assert (record.exit_code, record.runs["r0"].output_tail) == (0, "ran")
    tools = subprocess.run(["pgrep", "-f", f"{tmp_path}/bin/nvidia-smi"], capture_output=True)
    assert tools.stdout == b""


def test_no_sampler_outlives_a_killed_script(runner, block, program, tmp_path, home):
    tool(tmp_path, home, f"echo $$ >'{tmp_path}/tool'; exec sleep 100\n")
    job = block(program("echo began; exec sleep 100"), gpus_per_node=1)
    job_id = runner.submit(job)
    until(lambda: says(job, "began"))
    until((tmp_path / "tool").exists)
    wait_for_line(job, NODE)
    script, smi = int(job_id.partition("-")[0]), int((tmp_path / "tool").read_text())
    os.kill(script, signal.SIGKILL)
    # The one who ends it is the other sampler, as its last act.
    until(lambda: not is_running(smi), seconds=20)
    os.killpg(script, signal.SIGKILL)


def sampler_script(before: str, directory: Path) -> str:
    functions = r"^powercap=.*?(?=^# Set .index. )"
    text = re.search(functions, TEMPLATE.read_text(), re.DOTALL | re.MULTILINE)
    assert text
    return f"{before}\njob='{directory}'\n{text[0]}sample_node 0.05 &\nread -r _\nkill -KILL $!\n"


@pytest.mark.parametrize("before", ["", "unset EPOCHREALTIME; LC_ALL=de_DE.UTF-8", "set -f"])
def test_the_sampler_works_by_an_old_bash_too(tmp_path: Path, before: str) -> None:
    (tmp_path / "samples").mkdir()
    path = tmp_path / NODE
    with subprocess.Popen(
        ["bash", "-c", sampler_script(before, tmp_path)], stdin=subprocess.PIPE
    ) as shell:
        until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 4)
        assert shell.stdin
        shell.stdin.write(b"\n")
        shell.stdin.close()
    samples = read_samples({NODE: path.read_bytes()})
    assert len(samples.times) >= 4
    assert samples.odd_lines == 0
    assert {name for name, _ in samples.tracks} >= {MEMORY, "swap", PAGED, "load"}


OF_SLURM = {
    "v2": (
        "0::/system.slice/node1_slurmstepd.scope/job_77/step_batch/user/task_0",
        "system.slice/node1_slurmstepd.scope/job_77/cpu.stat",
        "usage_usec 123456\nuser_usec 100000\nsystem_usec 23456\n",
    ),
    "both": (
        "4:cpu,cpuacct:/slurm_node1/uid_1000/job_77/step_batch\n0::/system.slice/slurmd.service",
        "cpu,cpuacct/slurm_node1/uid_1000/job_77/cpuacct.usage",
        "123456789\n",
    ),
    "v1": (
        "9:memory:/slurm/job_77\n4:cpuacct,cpu:/slurm/uid_1000/job_77/step_0",
        "cpuacct/slurm/uid_1000/job_77/cpuacct.usage",
        "123456789\n",
    ),
}
NO_OWN = {
    "of all jobs": "0::/system.slice/slurmd.service",
    "of another job": "0::/system.slice/slurmstepd.scope/job_771/step_batch",
    "of the session": "0::/user.slice/user-1000.slice/session-3.scope",
    "of memory alone": "9:memory:/slurm/uid_1000/job_77/step_batch",
}


def read_own_time(folder: Path, cgroups: str, *, job: str = "77") -> str:
    """Return what the job script adds to a line, where the kernel lists these cgroups."""
    (folder / "own").write_text(f"{cgroups}\n")
    text = re.search(r"^choose_own_counter.*?(?=^# Append)", TEMPLATE.read_text(), SPAN)
    assert text
    script = (
        f"cgroups='{folder}' own_cgroups='{folder}/own' own_counter=''\n{text[0]}\n"
        "choose_own_counter\nread_own_time\nprintf '%s' \"$own\"\n"
    )
    environment = {"PATH": os.environ["PATH"], **({"SLURM_JOB_ID": job} if job else {})}
    answer = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, check=True
    )
    assert answer.stderr == b""
    return answer.stdout.decode()


@pytest.mark.parametrize("kind", OF_SLURM)
def test_the_job_s_own_time_is_that_of_its_cgroup(tmp_path: Path, kind: str) -> None:
    cgroups, counter, content = OF_SLURM[kind]
    (tmp_path / counter).parent.mkdir(parents=True)
    (tmp_path / counter).write_text(content)
    assert read_own_time(tmp_path, cgroups) == " 123456"
    assert read_own_time(tmp_path, cgroups, job="7") == ""
    assert read_own_time(tmp_path, cgroups, job="") == "", "of a scheduler other than Slurm"
    (tmp_path / counter).unlink()
    assert read_own_time(tmp_path, cgroups) == ""


@pytest.mark.parametrize("kind", NO_OWN)
def test_a_cgroup_with_others_in_it_tells_nothing(tmp_path: Path, kind: str) -> None:
    path = NO_OWN[kind].rpartition(":")[2].strip("/")
    for name in ("cpu.stat", "cpuacct.usage"):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / path / name).write_text("usage_usec 5\n")
    assert read_own_time(tmp_path, NO_OWN[kind]) == ""


def test_a_full_disk_stops_no_sampler(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / NODE).symlink_to("/dev/full")
    with subprocess.Popen(
        ["bash", "-c", sampler_script("exec 2>/dev/null", tmp_path)], stdin=subprocess.PIPE
    ) as shell:
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children")
        until(lambda: children.read_text().split() != [])
        (tmp_path / "elsewhere").touch()
        (tmp_path / NODE).unlink()
        until((tmp_path / NODE).exists)
        assert shell.stdin
        shell.stdin.write(b"\n")
        shell.stdin.close()
    assert read_samples({NODE: (tmp_path / NODE).read_bytes()}).odd_lines == 0


def test_whoever_has_the_number_of_a_tool_that_has_ended_is_left_alone() -> None:
    text = re.search(r"^end_samples\(\) \{.*?^\} 2>/dev/null\n", TEMPLATE.read_text(), re.S | re.M)
    assert text
    bystander = subprocess.Popen(["sleep", "60"])
    script = f"{text[0]}\nsleep 60 &\nown=$!\nsamplers=($own {bystander.pid})\nend_samples\n"
    subprocess.run(["bash", "-c", f"{script}! kill -0 $own"], check=True, timeout=30)
    try:
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("name", [NODE, GPUS, PROCESSES])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_line_without_end_is_left_out_by_name_and_costs_no_copy(name: str, end: str) -> None:
    content = b"1" * MOST_BYTES
    content = content[: -len(end) or None] + end.encode()
    tracemalloc.start()
    samples = read_samples({name: content})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert samples.odd_lines == 1
    assert samples.left_out == [f"a line of {name} longer than 500 characters"]
    assert peak_bytes < 2**20


def test_what_is_too_much_is_named() -> None:
    samples = read_samples({PROCESSES: b"1 0 0 0\n" * (MOST_BYTES // 8 + 1)})
    assert len(samples.process_counts) == 100_000
    assert samples.left_out == [f"what follows the first 100,000 lines of {PROCESSES}"]
    samples = read_samples({NODE: b"1" * 600 + b"\n" + b"x\n" * 9})
    assert (samples.odd_lines, len(samples.left_out)) == (10, 1)
    samples = read_samples({NODE: b"x" * 400 + b"\n" + b"x" * MOST_BYTES})
    assert samples.left_out[-1] == f"what follows the first 32 MiB of {NODE}"


def test_samples_are_read_once_for_all_runs_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    monkeypatch.setattr(records, "read_samples", lambda files: reads.append(files) or Samples())
    record = records.read_record({})
    assert record.node_samples is record.node_samples
    assert len(reads) == 1
