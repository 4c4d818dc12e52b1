"""Which GPUs of a node are sampled for a job: those that CUDA shows to it, and no others'.

What CUDA and nvidia-smi (580.159) make of a name was tried on a node with an H200, but for
instances (MIG), of which the documentation and printed lists of `nvidia-smi -L` tell.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runners.node_rules import LEAST_MHZ, OTHERS, THROTTLED, judge
from runners.node_samples import PROCESSES, SAMPLES, describe_run, read_samples
from runners.scripts import TEMPLATE
from tests.runners.direct_jobs import finished

FIRST = "GPU-fa3c25d5-73a5-2e43-54c2-7569f64d640a"
SECOND = "GPU-fa3c9999-73a5-2e43-54c2-7569f64d640b"
THIRD = "GPU-0b1e22d5-11a5-4e43-a4c2-7569f64d640c"
PARTS = (
    "MIG-23de08f7-6fcc-5be3-9094-cc3b4162f0bb",
    "MIG-9d822d55-dc61-5acb-8c24-544828b47b03",
)
"""Both of the third GPU."""


def describe_gpu(number: int, uuid: str, *, is_divided: bool = False) -> str:
    """Return what `nvidia-smi -q` says of a GPU, with another mode beside that of MIG."""
    mode = "Enabled" if is_divided else "Disabled"
    return (
        f"GPU 00000000:0{number}:06.0\n    Product Name          : NVIDIA H200\n"
        f"    Persistence Mode      : Enabled\n    MIG Mode\n        Current           : {mode}\n"
        f"        Pending           : {mode}\n    GPU UUID              : {uuid}\n"
        "    Minor Number          : 0\n    ECC Mode\n        Current           : Enabled\n"
    )


WHOLE = "Attached GPUs : 3\n" + "".join(map(describe_gpu, range(3), (FIRST, SECOND, THIRD)))
DIVIDED = WHOLE.replace(describe_gpu(2, THIRD), describe_gpu(2, THIRD, is_divided=True))
LIST = "\n".join(
    [
        f"GPU 0: NVIDIA H200 (UUID: {FIRST})",
        f"GPU 1: NVIDIA H200 (UUID: {SECOND})",
        f"GPU 2: NVIDIA H200 (UUID: {THIRD})",
        *(f"  MIG 2g.20gb     Device  {at}: (UUID: {uuid})" for at, uuid in enumerate(PARTS)),
    ]
)


def put_tool(folder: Path, description: str, sampling: str = "exit 1") -> None:
    """Put an nvidia-smi into a folder which says this of its GPUs, and then does `sampling`."""
    program = folder / "nvidia-smi"
    program.write_text(
        f"#!/bin/bash\nif [ \"$1\" = -q ]; then cat <<'E'\n{description}\nE\nexit; fi\n"
        f"if [ \"$1\" = -L ]; then cat <<'E'\n{LIST}\nE\nexit; fi\n{sampling}\n"
    )
    program.chmod(0o755)


def choose(tmp_path: Path, variable: str | None, description: str = WHOLE) -> tuple[str, str, str]:
    """Return the options for nvidia-smi, whether the job was given GPUs, whether one is divided."""
    names = r"find_uuid|find_instance|find_gpu|choose_gpus"
    functions = re.findall(
        rf"^(?:{names})\(\) \{{.*?^\}}[^\n]*\n", TEMPLATE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(functions) == 4
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "nvidia-smi").write_text(description)
    put_tool(tmp_path, description)
    script = (
        f"PATH='{tmp_path}':$PATH job='{tmp_path}'\n{''.join(functions)}choose_gpus\n"
        'echo "${chosen[*]}"; echo "$given"; echo "$divided"'
    )
    variables = {"PATH": "/usr/bin:/bin"}
    if variable is not None:
        variables["CUDA_VISIBLE_DEVICES"] = variable
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=20, env=variables
    )
    assert (done.returncode, done.stderr) == (0, "")
    options, given, divided = done.stdout.split("\n")[:3]
    return options, given, divided


ALL, NONE = ("", "yes", ""), ("", "no", "")


def named(*numbers: int) -> tuple[str, str, str]:
    return f"--id={','.join(map(str, numbers))}", "yes", ""


@pytest.mark.parametrize(
    ("variable", "chosen"),
    [
        (None, ALL),
        ("0", named(0)),
        ("2,0", named(2, 0)),
        ("00", named(0)),
        (" 1", named(1)),
        ("+1", named(1)),
        ("1abc", named(1)),
        ("08", NONE),
        (FIRST, named(0)),
        (f"{THIRD},{FIRST}", named(2, 0)),
        (f"1,{THIRD}", named(1, 2)),
        (f"GPU-{FIRST[4:].upper()}", named(0)),
        (f"{SECOND}x", named(1)),
        ("GPU-0b", named(2)),
        ("GPU-fa3c2", named(0)),
    ],
)
def test_gpus_are_chosen_by_number_and_by_uuid(tmp_path, variable, chosen):
    assert choose(tmp_path, variable) == chosen


@pytest.mark.parametrize(
    "variable",
    [
        *("", "-1", "NoDevFiles", "  ", ",", "3", "7,0", "GPU", "GPU-", "none", "99999999999"),
        *(f"x,{FIRST}", f" {FIRST}", FIRST[4:], f"gpu-{FIRST[4:]}", "GPU-fa3c", "GPU-*"),
    ],
)
def test_a_job_without_a_gpu_of_its_own_is_given_none_of_the_others(tmp_path, variable):
    assert choose(tmp_path, variable) == NONE


@pytest.mark.parametrize(
    ("variable", "chosen"),
    [
        ("0,2,-1,1", named(0, 2)),
        ("1,3,0", named(1)),
        ("0,,1", named(0)),
        (f"{THIRD},GPU-fa3c,0", named(2)),
        (f"0,{FIRST[4:]},1", named(0)),
    ],
)
def test_the_list_ends_before_the_first_name_of_no_gpu(tmp_path, variable, chosen):
    assert choose(tmp_path, variable) == chosen


@pytest.mark.parametrize("variable", ["0,0", f"{FIRST},{FIRST}", f"1,0,{FIRST}"])
def test_cuda_shows_none_where_one_is_named_twice(tmp_path, variable):
    assert choose(tmp_path, variable) == NONE


@pytest.mark.parametrize(
    ("variable", "number"),
    [
        (PARTS[0], "2"),
        (",".join(PARTS), "2"),
        (f"0,{PARTS[1]}", "0,2"),
        (f"MIG-{THIRD}/1/0", "2"),
        ("2", "2"),
        (THIRD, "2"),
    ],
)
def test_of_an_instance_the_gpu_is_chosen_and_said_to_be_divided(tmp_path, variable, number):
    assert choose(tmp_path, variable, DIVIDED) == (f"--id={number}", "yes", "yes")


def test_a_whole_gpu_beside_a_divided_one_is_not_divided(tmp_path):
    assert choose(tmp_path, "0,1", DIVIDED) == named(0, 1)


def test_where_all_are_shown_one_may_be_divided(tmp_path):
    assert choose(tmp_path, None, DIVIDED) == ("", "yes", "yes")


def test_an_instance_that_nobody_knows_is_none(tmp_path):
    assert choose(tmp_path, "MIG-00000000-6fcc-5be3-9094-cc3b4162f0bb", DIVIDED) == NONE


# --- Whole jobs


LINE = "$(date -u +%Y/%m/%d\\ %T.000), {gpu}, 97, {memory}, {power}, 1830, 71, 0x0000000000000008"


def run_job(runner, block, environment, tmp_path, home, variable, description=WHOLE):
    """Run a job that counts processes on its GPUs, which the login names; record what was asked.

    As the tool itself does, the one here answers for GPUs that are named by number or whole UUID.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    line = LINE.format(gpu=2, memory="40536", power="612.31")
    if description == DIVIDED:
        line = LINE.format(gpu=2, memory="Enabled", power="Enabled")
    put_tool(
        folder,
        description,
        f"echo \"$*\" >>'{tmp_path}/asked'\n"
        f'case "$*" in *--loop*) echo "{line}"; touch \'{tmp_path}/sampled\'; exec sleep 100\n'
        ";; esac\nif [[ $* != *--id=2* ]]; then echo '4194303, of-another-job'; fi",
    )
    (home / ".bash_profile").write_text(
        f"PATH='{folder}':$PATH\nexport CUDA_VISIBLE_DEVICES='{variable}'\n"
    )
    job = replace(block(environment, gpus_per_node=1), counts_gpu_processes=True)
    record = finished(runner, job, runner.submit(job))
    assert record.exit_code == 0
    asked = tmp_path / "asked"
    return record, asked.read_text().splitlines() if asked.exists() else []


def wait_for(path: Path) -> str:
    return f"until [ -e '{path}' ]; do sleep 0.05; done"


@pytest.mark.parametrize("variable", [THIRD, "GPU-0b1e", "2"])
def test_a_job_is_sampled_and_judged_by_its_own_gpu(
    runner, block, program, tmp_path, home, variable
):
    environment = program(wait_for(tmp_path / "sampled"))
    record, asked = run_job(runner, block, environment, tmp_path, home, variable)
    assert {word for call in asked for word in call.split() if "--id" in word} == {"--id=2"}
    assert len(asked) == 3, asked
    samples = read_samples(record.samples)
    assert [(count.others, count.unknown) for count in samples.process_counts] == [(0, 0)] * 2
    assert samples.divided == set()
    assert samples.tracks["GPU power", 2][0][1] == 612.31


def test_a_job_that_cuda_shows_no_gpu_is_judged_by_none(runner, block, program, tmp_path, home):
    record, asked = run_job(runner, block, program("true"), tmp_path, home, "GPU-fa3c")
    assert asked == []
    assert PROCESSES not in record.samples
    samples = read_samples(record.samples)
    assert samples.problem == "CUDA_VISIBLE_DEVICES names no GPU of this node: GPU-fa3c"
    run = record.runs["r0"]
    judgement = judge({OTHERS: True, THROTTLED: True}, samples, run.began, run.ended)
    assert judgement.violations == ()
    assert judgement.not_applied == ("slowed GPUs", "other processes on GPUs")


def test_of_a_divided_gpu_what_the_whole_of_it_does_is_known(
    runner, block, program, tmp_path, home
):
    """Nobody can tell who computes in the job's part: the rule on others is not applied."""
    environment = program(wait_for(tmp_path / "sampled"))
    record, asked = run_job(runner, block, environment, tmp_path, home, PARTS[1], DIVIDED)
    assert len(asked) == 1
    assert "--id=2" in asked[0]
    assert "memory.used" not in asked[0]
    samples = read_samples(record.samples)
    assert samples.divided == {2}
    assert samples.odd_lines == 0
    assert ("GPU clock", 2) in samples.tracks
    assert ("GPU memory", 2) not in samples.tracks
    assert ("GPU power", 2) not in samples.tracks
    assert PROCESSES not in record.samples
    judgement = judge({OTHERS: True, THROTTLED: True}, samples, 0, 9e9)
    assert judgement.violations == ("GPU 2: hardware slowdown in 1 of 1 samples",)
    assert judgement.not_applied == ("other processes on GPUs",)


def test_use_that_is_not_known_lets_no_rule_on_clocks_reject() -> None:
    line = "2026/11/26 12:00:01.000, 2, [N/A], Enabled, Enabled, 300, 71, 0x0000000000000000\n"
    samples = read_samples({SAMPLES[1]: line.encode()})
    judgement = judge({LEAST_MHZ: 1000}, samples, 0, 9e9)
    assert judgement == type(judgement)((), ("clocks of GPUs in use",))
    time = samples.tracks["GPU clock", 2][0][0]
    assert describe_run(samples, time - 1, time + 1)["divided"] == [2]
