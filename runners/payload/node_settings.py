"""Settings of the node and limits of the process that change how fast a program runs.

All are read from /proc and /sys, so that they are what the program meets inside its environment.
What cannot be read is left out. Nothing here starts a program.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Iterable

CPU_FOLDER = "/sys/devices/system/cpu"
LIMITS = {
    "Max locked memory": "memlock",
    "Max address space": "address_space",
    "Max stack size": "stack",
    "Max open files": "open_files",
    "Max processes": "processes",
}
"""Lines of /proc/self/limits, and how the snapshot names them."""
OF_DISKS = re.compile(
    r"^(BOOT_IMAGE|initrd|(rd)?init|root|rootflags|resume|ip|nfsroot|ostree|rd\.|cryptdevice)"
)
"""Words of the kernel's command line that name disks and addresses, and no setting."""
SECRETS = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
MOST_CPUS = 1024
LONGEST = 4000
UNLIMITED = 2**60
"""Limits of cgroup 1 from here on are none: it writes the largest number of pages."""


def describe_node(cpus: Iterable[int]) -> dict[str, Any]:
    """Return the settings that a run on these CPUs meets; what cannot be read is left out."""
    chosen = list(cpus)[:MOST_CPUS]
    facts: dict[str, Any] = {}
    readers: dict[str, Callable[[], Any]] = {
        "cpu_governor": lambda: read_of_cpus(chosen, "cpufreq/scaling_governor"),
        "cpu_max_clock": lambda: read_of_cpus(chosen, "cpufreq/scaling_max_freq"),
        "cpu_boost": read_boost,
        "smt": lambda: read_text(f"{CPU_FOLDER}/smt/active"),
        "mitigations": read_mitigations,
        "kernel_command_line": read_command_line,
        "clock_source": lambda: read_text(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "scheduling": describe_scheduling,
        "numa": lambda: describe_numa(chosen),
        "cgroup_limits": find_cgroup_limits,
        "swap_bytes": count_swap_bytes,
        "huge_pages": describe_huge_pages,
        "overcommit": lambda: read_text("/proc/sys/vm/overcommit_memory"),
        "limits": read_limits,
        "isolation": describe_isolation,
    }
    for name, read in readers.items():
        try:
            value = read()
        except (OSError, ValueError, IndexError, AttributeError):  # another kernel's form
            continue
        if value not in (None, "", {}):
            facts[name] = value
    return facts


def read_of_cpus(cpus: Iterable[int], file: str) -> str:
    """Return what a file says of these CPUs: one value, or all that differ."""
    values = {read_text(f"{CPU_FOLDER}/cpu{cpu}/{file}") for cpu in cpus}
    return ", ".join(sorted(values - {""}))


def read_boost() -> str:
    """Return whether CPUs may exceed their nominal clocks: "1" or "0"."""
    no_turbo = read_text(f"{CPU_FOLDER}/intel_pstate/no_turbo")
    if no_turbo:
        return str(1 - int(no_turbo))
    return read_text(f"{CPU_FOLDER}/cpufreq/boost")


def read_mitigations() -> dict[str, str]:
    """Return what the kernel does against each flaw of the processor."""
    folder = f"{CPU_FOLDER}/vulnerabilities"
    return {name: read_text(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


def read_command_line() -> str:
    """Return the kernel's command line without names of disks, addresses and secrets."""
    words = read_text("/proc/cmdline").partition(" -- ")[0].split()  # the rest is for `init`
    return " ".join(word for word in words if not OF_DISKS.match(word) and not SECRETS.search(word))


def describe_scheduling() -> str:
    """Return the scheduling policy and the nice value: "other, nice 0"."""
    names = {
        getattr(os, f"SCHED_{name}"): name.lower()
        for name in ("OTHER", "BATCH", "IDLE", "FIFO", "RR")
        if hasattr(os, f"SCHED_{name}")
    }
    policy = os.sched_getscheduler(0)
    return f"{names.get(policy, policy)}, nice {os.getpriority(os.PRIO_PROCESS, 0)}"


def describe_numa(cpus: Iterable[int]) -> dict[str, str]:
    """Return the NUMA nodes of the CPUs and of the memory, the policy, and who moves pages."""
    numa = {
        "memory_nodes": read_status_field("Mems_allowed_list"),
        "balancing": read_text("/proc/sys/kernel/numa_balancing"),
    }
    folder, chosen, nodes = "/sys/devices/system/node", set(cpus), []
    if os.path.isdir(folder):
        for name in os.listdir(folder):
            match = re.match(r"node([0-9]+)$", name)
            if match and chosen & parse_ranges(read_text(os.path.join(folder, name, "cpulist"))):
                nodes.append(int(match.group(1)))
    numa["cpu_nodes"] = ",".join(map(str, sorted(nodes)))
    try:
        with open("/proc/self/numa_maps", encoding="utf-8", errors="replace") as file:
            numa["policy"] = file.readline().split()[1]
    except (OSError, IndexError):
        pass
    return {name: value for name, value in numa.items() if value}


def find_cgroup_limits() -> dict[str, str]:
    """Return the least limits of memory and CPU of the process's group and all above it.

    A process in a namespace of cgroups sees itself at the top, and not what its job may use: then
    no limit is not known to be none.
    """
    limits: dict[str, str] = {}
    for line in read_text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, memory_file = "/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(",") or "cpu" in controllers.split(","):
            folder, memory_file = f"/sys/fs/cgroup/{controllers}", "memory.limit_in_bytes"
        else:
            continue
        sees_all = path.strip("/") != "" and ".." not in path.split("/")
        folders = list_folders_above(folder, path)
        for name, value in (
            ("memory", find_least([read_text(f"{one}/{memory_file}") for one in folders])),
            ("cpu", find_least_quota([read_quota(one) for one in folders])),
        ):
            if value or (sees_all and any(map(os.path.isdir, folders))):
                limits[name] = value or limits.get(name) or "none"
    return limits


def list_folders_above(folder: str, path: str) -> list[str]:
    """Return the folders of a control group and of all those above it, the lowest first."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return ["/".join([folder, *parts[:count]]) for count in range(len(parts), -1, -1)]


def find_least(texts: Iterable[str]) -> str:
    """Return the least of limits in bytes; "" where there is none."""
    numbers = [int(text) for text in texts if text.isdigit()]
    return str(min(numbers)) if numbers and min(numbers) < UNLIMITED else ""


def read_quota(folder: str) -> str:
    """Return quota and period of a control group, such as "200000 100000"; "" for none."""
    quota = read_text(f"{folder}/cpu.max")
    if not quota:
        quota = (
            f"{read_text(f'{folder}/cpu.cfs_quota_us')} {read_text(f'{folder}/cpu.cfs_period_us')}"
        )
    return quota if re.match(r"[0-9]+ [1-9][0-9]*$", quota) else ""


def find_least_quota(quotas: Iterable[str]) -> str:
    """Return the least quota as a number of CPUs: "2 CPUs"; "" where there is none."""
    shares = [int(quota.split()[0]) / int(quota.split()[1]) for quota in quotas if quota]
    return f"{min(shares):g} CPUs" if shares else ""


def count_swap_bytes() -> str:
    """Return the size of all swap in bytes."""
    match = re.search(r"^SwapTotal:\s+([0-9]+) kB", read_text("/proc/meminfo"), re.MULTILINE)
    return str(int(match.group(1)) * 1024) if match else ""


def describe_huge_pages() -> dict[str, str]:
    """Return when the kernel gives huge pages, and what it does to make room for them."""
    folder = "/sys/kernel/mm/transparent_hugepage"
    chosen = {name: read_text(f"{folder}/{name}") for name in ("enabled", "defrag")}
    matches = {name: re.search(r"\[([^]]+)\]", text) for name, text in chosen.items()}
    return {name: match.group(1) for name, match in matches.items() if match}


def read_limits() -> dict[str, str]:
    """Return the soft limits of the process: "8388608 bytes", "unlimited"."""
    limits = {}
    for line in read_text("/proc/self/limits").splitlines():
        for title, name in LIMITS.items():
            if line.startswith(title):
                rest = line[len(title) :].split()
                unit = f" {rest[2]}" if len(rest) > 2 and rest[0] != "unlimited" else ""
                limits[name] = rest[0] + unit
    return limits


def describe_isolation() -> dict[str, str]:
    """Return what a runtime of containers changes: namespaces, seccomp, and the root folder's file
    system is told by the snapshot."""
    isolation = {
        "seccomp": read_status_field("Seccomp"),
        "no_new_privileges": read_status_field("NoNewPrivs"),
    }
    mapped = read_text("/proc/self/uid_map").split()
    if mapped:
        isolation["user_namespace"] = "no" if mapped == ["0", "0", "4294967295"] else "yes"
    return {name: value for name, value in isolation.items() if value}


def read_status_field(name: str) -> str:
    match = re.search(rf"^{name}:\s*(.*)$", read_text("/proc/self/status"), re.MULTILINE)
    return match.group(1).strip() if match else ""


def parse_ranges(text: str) -> set[int]:
    """Return the numbers of a list as Linux writes it: "0-3,8"."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        numbers.update(range(int(low), int(high or low) + 1))
    return numbers


def read_text(path: str) -> str:
    """Return the beginning of a file without white space around it; "" where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(LONGEST).strip()
    except (OSError, ValueError):
        return ""
