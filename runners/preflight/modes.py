"""Which of a runtime's modes start a container here: the lines of a trial in, checks out. Pure."""

import re
from collections.abc import Iterator

from runners.preflight.checks import WORDS_LIMIT, Check, RuntimeSpec
from runners.preflight.probes import Answer
from runners.runtimes import RUNTIMES

WORKS = "works"  # the value of a check whose mode does
UDOCKERS_OWN = "`udocker install --force` where there is a network brings udocker's own."
# A pattern in what the tool says, and what that means.
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


def mode_name(runtime_label: str, mode: str) -> str:
    """Return what the check of a mode is called, the same from check to check."""
    return f"{runtime_label} {mode}"


def modes(answer: Answer, spec: RuntimeSpec) -> Iterator[Check]:
    """Yield a check for each mode that the trial came to; none if it did not start at all."""
    # An area of its own: a check that does not come to it, beside runs, has not changed anything.
    area = f"Modes of {spec.label}"
    lines = re.findall(r"^(\w+) (.*)$", answer.stdout.decode(errors="replace"), re.MULTILINE)
    tried = dict(lines)
    for mode, meaning in RUNTIMES[spec.kind].modes.items():
        if mode not in tried:
            continue
        name, words = mode_name(spec.label, mode), tried[mode].strip()
        if words == "ok":
            yield Check(area, name, "ok", f"Works: {meaning}.", value=WORKS)
            continue
        why = f"Not possible here. {_cause(words)}"
        yield Check(area, name, "not applicable", why, words=words[:WORDS_LIMIT], value="no")


def _cause(words: str) -> str:
    if not words:
        return BLIND
    matching = (cause for pattern, cause in CAUSES if re.search(pattern, words, re.IGNORECASE))
    return next(matching, UNKNOWN)
