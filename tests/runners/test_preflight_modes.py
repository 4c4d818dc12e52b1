"""Which modes of a runtime work here, from what a trial prints: udocker 1.3.17 in the lab."""

from __future__ import annotations

import pytest

from runners.jobs import Resources
from runners.preflight.asking import list_node_probes
from runners.preflight.checks import Check, PartitionSpec, RuntimeSpec, Site, find_changes
from runners.preflight.modes import WORKS, check_modes
from runners.probes import Answer
from runners.schedulers import Slurm

UDOCKER = RuntimeSpec("udocker", "udocker", "/usr/local/bin/udocker", "1.3.17")
PRINTED = b"""P1 ok
F1 Error: libfakechroot not found ['libfakechroot-Debian-13-x86_64.so', 'libfakechroot.so']
F2 \n\
F3 Error: container setup failed
R1 ok
R2 exec /.udocker/bin/proot-x86_64-4_8_0: no such file or directory <Popen: ...>
R3 \xff\xfe\x00 what is this
X9 ok
"""


# What udocker 1.3.17 prints where something is missing: seen in the lab, a line each.
WORDS = {
    "P1": "Error: proot executable not found  t UDOCKER_TARBALL=/tmp/filename  2) run udocker with",
    "F1": "sh: /lib/libc.so.6: version `GLIBC_2.38' not found (required by libfakechroot.so)",
    "F3": "Error: patchelf executable not found Info: Host architecture might not be supported",
    "R1": "Error: runc or crun executable not found",
    "R2": "runc run failed: unable to start container process: clone: no space left on device",
    "S1": "Error: apptainer or singularity executable not found",
    "P2": "proot error: ptrace(TRACEME): Operation not permitted",
}


def checks(printed: bytes) -> dict[str, tuple[str, str, str]]:
    answer = Answer(0, printed, b"", seconds=40)
    rows = check_modes(answer, UDOCKER)
    return {check.name: (check.outcome, check.value, check.found) for check in rows}


def test_each_mode_that_was_tried_has_its_answer() -> None:
    by_name = checks(PRINTED)
    assert set(by_name) == {
        f"udocker {mode}" for mode in ("P1", "F1", "F2", "F3", "R1", "R2", "R3")
    }
    assert by_name["udocker P1"][:2] == ("ok", WORKS)
    assert by_name["udocker F3"][:2] == ("not applicable", "no")


@pytest.mark.parametrize(
    ("mode", "cause"),
    [
        ("F1", "libfakechroot for the container's system is missing."),
        ("F2", "It starts, but does not see the folders that a run needs."),
        ("F3", "its own build of patchelf is missing"),
        ("R2", "PRoot cannot be started inside the container"),
        ("R3", "A container of this machine's own shell does not start in it."),
    ],
)
def test_a_mode_that_does_not_work_says_why(mode: str, cause: str) -> None:
    assert cause in checks(PRINTED)[f"udocker {mode}"][2]


@pytest.mark.parametrize(
    ("mode", "cause", "cure"),
    [
        ("P1", "PRoot for this kind of processor is missing", "UDOCKER_USE_PROOT_EXECUTABLE"),
        ("P2", "lets no process trace another", "kernel.yama.ptrace_scope"),
        ("F1", "built for a newer C library", "one for each system"),
        ("F3", "cannot patch the container's programs", "UDOCKER_TARBALL"),
        ("R1", "Neither runc nor crun is on the node", "UDOCKER_USE_RUNC_EXECUTABLE"),
        ("R2", "lets nobody but root make a container", "user.max_user_namespaces"),
        ("S1", "Neither Apptainer nor Singularity", "UDOCKER_USE_SINGULARITY_EXECUTABLE"),
    ],
)
def test_each_cause_has_its_cure(mode: str, cause: str, cure: str) -> None:
    answer = Answer(0, f"{mode} {WORDS[mode]}\n".encode(), b"", seconds=40)
    (row,) = check_modes(answer, UDOCKER)
    assert cause in row.found
    assert cure in row.cure
    assert row.cure.endswith("Then check the cluster again.")
    assert row.words == WORDS[mode]


def test_a_mode_that_works_needs_no_cure() -> None:
    assert {check.cure for check in check_modes(Answer(0, b"P1 ok\nF2 ok\n", b"", 1), UDOCKER)} == {
        ""
    }


def test_a_trial_that_did_not_start_says_nothing_of_modes() -> None:
    assert checks(b"") == {}


def test_modes_are_tried_once_and_never_beside_runs() -> None:
    resources = Resources(60, gpus_per_node=1, partition="gpu")
    site = Site("/work", partitions=(PartitionSpec(1, resources),), runtimes=(UDOCKER,))

    def asked(site: Site, first: str = "") -> list[str]:
        probes = list_node_probes(site, Slurm(), gpus=0, token="", first=first)
        return [probe.name for probe in probes if probe.name.startswith("modes")]

    measuring = Site("/work", runtimes=(UDOCKER,), is_measuring=True)
    assert asked(site) == ["modes 0"]
    assert asked(site, first="another partition") == []
    assert asked(measuring) == []


def test_a_check_that_left_modes_out_has_changed_nothing() -> None:
    tried = list(check_modes(Answer(0, PRINTED, b"", seconds=40), UDOCKER))
    node = Check("Partition gpu", "Node", "ok", "Ran on node1.")
    assert find_changes([node, *tried], [node]) == []
    assert find_changes([node], [node, *tried]) == []
