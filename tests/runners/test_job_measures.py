"""What the job script writes about a run for its measures, in real jobs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runners.gpu_measures import COUNTER, measure_gpu_energy
from runners.node_samples import Samples
from runners.records import Record
from runners.run_measures import measure_run_time
from tests.runners.direct_jobs import events, finished


def line(record: Record, event: str, uid: str = "r0") -> dict[str, Any]:
    (found,) = (line for line in record.journal if (line["event"], line.get("run")) == (event, uid))
    return found


def bring(tmp_path: Path, home: Path, **programs: str) -> None:
    """Put programs on the job's PATH, before those of the system."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in programs.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    (home / ".bash_profile").write_text(f"PATH='{folder}':$PATH\n")


SMI = "if [ \"$1\" = -q ]; then echo 'GPU 00000000:00:06.0'; exit; fi; exec sleep 100"


def test_the_time_of_a_run_is_that_of_its_program(runner, block, program):
    job = block(program("exec sleep 0.4"), program("exit 0"))
    record = finished(runner, job, runner.submit(job))
    measure = measure_run_time(line(record, "run began"), line(record, "program ended"))
    run = record.runs["r0"]
    assert 0.4 <= measure.value <= run.ended - run.began
    other = measure_run_time(line(record, "run began", "r1"), line(record, "program ended", "r1"))
    assert other.value > 0
    for event in ("run began", "program ended"):
        assert line(record, event)["uptime"] <= float(Path("/proc/uptime").read_text().split()[0])


def test_counters_of_energy_are_read_around_the_measured_time(
    runner, block, program, tmp_path, home
):
    """The command that the script starts is the node's Python; here it prints rising numbers."""
    counter = tmp_path / "counter"
    counter.write_text("5000\n")
    python = (
        f"echo \"$*\" >>'{tmp_path}/asked'; read -r count <'{counter}'; "
        f'echo $((count + 2500)) >\'{counter}\'; echo "{{\\"0\\": $count}}"'
    )
    bring(tmp_path, home, nvidia_smi=SMI, python3=python)
    job = block(program("exit 0"), program("exit 3"), gpus_per_node=1)
    record = finished(runner, job, runner.submit(job))
    assert [event for event in events(record) if event.endswith("r0")] == [
        "counters before r0", "run began r0", "program ended r0", "counters after r0",
        "run ended r0",
    ]  # fmt: skip
    measure = measure_gpu_energy(
        Samples(), 0.0, 1.0, line(record, "counters before"), line(record, "counters after")
    )
    assert (measure.value, measure.source) == (2.5, COUNTER)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 4
    assert asked[0] == f"-I -S {job.directory}/payload/gpu_energy.py 0"


def test_counters_that_do_not_answer_are_asked_once(runner, block, program, tmp_path, home):
    python = f"echo asked >>'{tmp_path}/asked'; echo '{{\"0\": 1}} and more'; exit 1"
    bring(tmp_path, home, nvidia_smi=SMI, python3=python)
    job = block(program("exit 0"), program("exit 0"), gpus_per_node=1)
    record = finished(runner, job, runner.submit(job))
    assert record.exit_code == 0
    assert not [event for event in events(record) if event.startswith("counters")]
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_job_without_gpus_counts_no_energy(runner, block, program, tmp_path, home):
    bring(tmp_path, home, python3=f"echo asked >>'{tmp_path}/asked'")
    job = block(program("exit 0"))
    record = finished(runner, job, runner.submit(job))
    assert record.exit_code == 0
    assert not (tmp_path / "asked").exists()
