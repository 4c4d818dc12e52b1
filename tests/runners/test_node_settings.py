"""Settings of a node that a run's snapshot holds, read from /proc and /sys."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload import main, node_settings, snapshot
from tests.runners.test_payload_snapshot import put_nvidia_smi

GPU = "0, NVIDIA H100, GPU-1, 550.54, 81559 MiB, 1980 MHz, 2619 MHz, 700.00 W"
MORE = "Enabled, Default, Enabled, Disabled, 1980 MHz, [N/A], 5, 16, 96.00.61.00.01"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the files of another node hold, by path; all others cannot be read."""
    held: dict[str, str] = {}
    monkeypatch.setattr(node_settings, "read_text", lambda path: held.get(path, ""))
    monkeypatch.setattr(os.path, "isdir", lambda path: any(name.startswith(path) for name in held))
    return held


def test_this_node_is_described_quickly() -> None:
    began = time.perf_counter()
    facts = node_settings.describe_node(sorted(os.sched_getaffinity(0)))
    assert time.perf_counter() - began < 0.3
    assert facts["scheduling"].startswith("other, nice ")
    assert facts["limits"]["stack"]
    assert facts["clock_source"]
    assert facts["isolation"]["seccomp"] in "012"


def test_the_kernel_s_command_line_names_no_disks_addresses_or_secrets(
    texts: dict[str, str],
) -> None:
    texts["/proc/cmdline"] = (
        "BOOT_IMAGE=/vmlinuz root=UUID=77-ab ro ip=10.0.0.7::eth0 isolcpus=2-7 mitigations=off "
        "inst.rootpw_PASSWORD=s3cret rd.luks.uuid=1 transparent_hugepage=never -- --addr 10.0.0.8"
    )
    assert node_settings.read_command_line() == (
        "ro isolcpus=2-7 mitigations=off transparent_hugepage=never"
    )


@pytest.mark.parametrize(
    ("files", "limits"),
    [
        # cgroup 2: the least of the job's, the step's and the task's.
        (
            {
                "/proc/self/cgroup": "0::/system.slice/job_7/step_0",
                "/sys/fs/cgroup/system.slice/job_7/step_0/memory.max": "max",
                "/sys/fs/cgroup/system.slice/job_7/memory.max": "8589934592",
                "/sys/fs/cgroup/system.slice/memory.max": "17179869184",
                "/sys/fs/cgroup/system.slice/job_7/cpu.max": "250000 100000",
                "/sys/fs/cgroup/system.slice/cpu.max": "max 100000",
            },
            {"memory": "8589934592", "cpu": "2.5 CPUs"},
        ),
        # Without any limit, and it can be seen.
        (
            {
                "/proc/self/cgroup": "0::/user.slice",
                "/sys/fs/cgroup/user.slice/memory.max": "max",
                "/sys/fs/cgroup/user.slice/cpu.max": "max 100000",
            },
            {"memory": "none", "cpu": "none"},
        ),
        # In a namespace of cgroups only what the container was given is seen.
        ({"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/memory.max": "max"}, {}),
        (
            {"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/memory.max": "1073741824"},
            {"memory": "1073741824"},
        ),
        # cgroup 1, where no limit is the largest number of pages.
        (
            {
                "/proc/self/cgroup": "3:memory:/slurm/job_7\n2:cpu,cpuacct:/slurm/job_7\n1:pids:/x",
                "/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes": "2147483648",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "/sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us": "-1",
                "/sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_period_us": "100000",
            },
            {"memory": "2147483648", "cpu": "none"},
        ),
        ({"/proc/self/cgroup": "rubbish"}, ValueError),
        ({}, {}),
    ],
)
def test_limits_are_the_least_of_all_groups_above(
    files: dict[str, str], limits: Any, texts: dict[str, str]
) -> None:
    texts |= files
    if limits is ValueError:
        assert "cgroup_limits" not in node_settings.describe_node([0])
    else:
        assert node_settings.find_cgroup_limits() == limits


def test_settings_of_the_chosen_cpus_alone(texts: dict[str, str]) -> None:
    for cpu, governor in enumerate(("performance", "performance", "powersave")):
        texts[f"{node_settings.CPU_FOLDER}/cpu{cpu}/cpufreq/scaling_governor"] = governor
    texts[f"{node_settings.CPU_FOLDER}/intel_pstate/no_turbo"] = "1"
    texts["/sys/kernel/mm/transparent_hugepage/enabled"] = "always [madvise] never"
    facts = node_settings.describe_node([0, 1])
    assert facts["cpu_governor"] == "performance"
    assert facts["cpu_boost"] == "0"
    assert facts["huge_pages"] == {"enabled": "madvise"}
    assert node_settings.describe_node([1, 2])["cpu_governor"] == "performance, powersave"


@given(st.text(st.sampled_from("0123-,: []/\nabSwapTotal_max"), max_size=40))
def test_no_file_of_any_form_ends_a_run(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_settings, "read_text", lambda path: text[:2000])
        patch.setattr(node_settings, "parse_ranges", shorten(node_settings.parse_ranges))
        node_settings.describe_node([0, 1])


def shorten(parse: Callable[[str], set[int]]) -> Callable[[str], set[int]]:
    """Return a reader of ranges for texts that name no millions of CPUs."""
    return lambda text: parse(text if all(len(part) < 5 for part in text.split("-")) else "")


def test_more_is_asked_of_gpus_where_the_driver_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    put_nvidia_smi(tmp_path, f"echo '{GPU}, {MORE}'")
    (gpu,) = snapshot.list_gpus()
    assert gpu["mig.mode.current"] == "Disabled"
    assert gpu["power.limit"] == "700.00 W"
    assert "clocks.applications.memory" not in gpu, "what it does not have is not known"
    # An older driver refuses the whole question.
    put_nvidia_smi(
        tmp_path, f'case "$1" in *mig*) echo Field is not valid; exit 2 ;; esac; echo "{GPU}"'
    )
    (gpu,) = snapshot.list_gpus()
    assert gpu["power.limit"] == "700.00 W"
    assert "mig.mode.current" not in gpu


@pytest.mark.parametrize(
    ("parameters", "directory"),
    [({"data_directory": "/data"}, "/data"), ({"data_directory": 7}, ""), ({}, ""), ([], "")],
)
def test_the_folder_of_the_data_is_that_of_the_parameters(parameters: Any, directory: str) -> None:
    assert main.find_data_directory(parameters) == directory
    assert ("data" in snapshot.find_file_systems(directory)) == bool(directory)
