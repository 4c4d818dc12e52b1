"""Checks of a runtime's modes: which of them can start a container on a machine. No I/O."""

import re
from collections.abc import Iterator

from runners.preflight.checks import MESSAGE_LIMIT, Check, RuntimeSpec
from runners.probes import Answer
from runners.runtimes import RUNTIMES

WORKS = "works"  # the value of the check of a mode that works
INSTALL_ENGINES = (
    "Run `udocker install --force` where there is a network: it downloads udocker's own engines. "
    "Where there is none, set UDOCKER_TARBALL to a file of them"
)
# Patterns of the tools' messages, the first that fits counts: the cause, and its cure.
CAUSES = (
    (
        r"proot executable not found",
        "PRoot for this kind of processor is missing.",
        f"{INSTALL_ENGINES}, or set UDOCKER_USE_PROOT_EXECUTABLE to a PRoot that is there.",
    ),
    (
        r"proot\S*: no such file",
        "PRoot cannot be started inside the container: it is a script, or needs libraries that "
        "are not there.",
        f"{INSTALL_ENGINES}: its PRoot is one file that needs no other.",
    ),
    (
        r"ptrace",
        "The kernel lets no process trace another, which PRoot needs.",
        "Ask the site for kernel.yama.ptrace_scope below 3, and for ptrace in the limits of jobs.",
    ),
    (
        r"patchelf executable not found|container setup failed",
        "udocker cannot patch the container's programs: its own build of patchelf is missing, or "
        "another is in its place, which has no --set-root-prefix.",
        f"{INSTALL_ENGINES}.",
    ),
    (
        r"GLIBC_[\d.]+['`]? not found",
        "libfakechroot was built for a newer C library than that of the container.",
        f"{INSTALL_ENGINES}: they have one for each system.",
    ),
    (
        r"libfakechroot not found",
        "libfakechroot for the container's system is missing.",
        f"{INSTALL_ENGINES}, or set UDOCKER_FAKECHROOT_SO to the library.",
    ),
    (
        r"runc or crun executable not found|(runc|crun)\S* not found",
        "Neither runc nor crun is on the node.",
        "Ask the site to install one of them, or set UDOCKER_USE_RUNC_EXECUTABLE to its path.",
    ),
    (
        r"(singularity|apptainer)\S* (executable )?not found",
        "Neither Apptainer nor Singularity is on the node.",
        "Load its module in the runtime's set-up lines, or set "
        "UDOCKER_USE_SINGULARITY_EXECUTABLE to its path.",
    ),
    (
        r"namespace|uid_map|not permitted|clone: no space left",
        "The kernel lets nobody but root make a container.",
        "Ask the site for user namespaces: user.max_user_namespaces above 0, and no "
        "kernel.apparmor_restrict_unprivileged_userns; or use a P or F mode, which need none.",
    ),
)
BLIND = (
    "It starts, but does not see the folders that a run needs.",
    "libfakechroot is not udocker's own, which knows bound folders (FAKECHROOT_DIR_MAP). "
    f"{INSTALL_ENGINES}.",
)
UNKNOWN = (
    "A container of this machine's own shell does not start in it.",
    "Read udocker's own words; another mode may do.",
)
AGAIN = "Then check the cluster again."


def name_mode_check(runtime_label: str, mode: str) -> str:
    """Return the name of a mode's check, which never changes."""
    return f"{runtime_label} {mode}"


def check_modes(answer: Answer, spec: RuntimeSpec) -> Iterator[Check]:
    """Yield a check for each mode that the trial came to; none if it did not start at all."""
    # An area of its own: beside runs modes are not tried, and an area left out is no change.
    area = f"Modes of {spec.label}"
    lines = re.findall(r"^(\w+) (.*)$", answer.stdout.decode(errors="replace"), re.MULTILINE)
    message_by_mode = dict(lines)
    for mode, meaning in RUNTIMES[spec.kind].modes.items():
        if mode not in message_by_mode:
            continue
        name, message = name_mode_check(spec.label, mode), message_by_mode[mode].strip()
        if message == "ok":
            yield Check(area, name, "ok", f"Works: {meaning}.", value=WORKS)
            continue
        cause, cure = _explain_failure(message)
        yield Check(
            area,
            name,
            "not applicable",
            f"Not possible here. {cause}",
            cure=f"{cure} {AGAIN}",
            words=message[:MESSAGE_LIMIT],
            value="no",
        )


def _explain_failure(message: str) -> tuple[str, str]:
    """Return the cause of a failure and its cure, by the tools' own message."""
    if not message:
        return BLIND
    matching = (
        (cause, cure)
        for pattern, cause, cure in CAUSES
        if re.search(pattern, message, re.IGNORECASE)
    )
    return next(matching, UNKNOWN)
