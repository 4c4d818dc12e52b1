"""Checks of a runtime's modes: which of them can start a container on a machine. No I/O."""

import re
from collections.abc import Iterator

from runners.preflight.checks import MESSAGE_LIMIT, Check, RuntimeSpec
from runners.probes import Answer
from runners.runtimes import RUNTIMES

WORKS = "works"  # the value of the check of a mode that works
UDOCKERS_OWN = "`udocker install --force` where there is a network brings udocker's own."
# Patterns of the tool's messages, and what they mean.
CAUSES = (
    (
        r"container setup failed",
        "udocker cannot patch the container's programs: its own build of patchelf is missing, or "
        f"not the one that this version needs. {UDOCKERS_OWN}",
    ),
    (r"libfakechroot not found", f"libfakechroot for this system is missing. {UDOCKERS_OWN}"),
    (
        r"proot-\S+: no such file",
        "PRoot cannot be started inside it.",
    ),
    (r"(runc|crun|singularity|apptainer)\S* (executable )?not found", "The program is missing."),
    (r"namespace|uid_map|not permitted", "The kernel lets nobody but root make a container."),
)
BLIND = "It starts, but does not see the folders that a run needs."
UNKNOWN = "A container of this machine's own shell does not start in it."


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
        why = f"Not possible here. {_explain_failure(message)}"
        yield Check(area, name, "not applicable", why, words=message[:MESSAGE_LIMIT], value="no")


def _explain_failure(message: str) -> str:
    if not message:
        return BLIND
    matching = (cause for pattern, cause in CAUSES if re.search(pattern, message, re.IGNORECASE))
    return next(matching, UNKNOWN)
