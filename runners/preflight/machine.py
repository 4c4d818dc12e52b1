"""Checks of the login node, from the answers of probes. No I/O."""

import re
from collections.abc import Iterator, Mapping

from runners.preflight.checks import MESSAGE_LIMIT, Check, Outcome
from runners.probes import Answer

GIB = 1024**3
FREE_LEAST, FREE_ENOUGH = 1 * GIB, 10 * GIB  # bytes in the work directory's file system
NEARLY_FULL = 0.95
SKEW_SECONDS = 10


def check_for_silence(
    area: str, name: str, tool: str, answer: Answer, cure: str = ""
) -> Check | None:
    """Return a failed check for a tool that hung, is missing or printed rubbish, else None."""
    if not answer.why_no_answer:
        return None
    cure = cure or f"Log in as Tare's user and try {tool} by hand; ask the centre if it fails."
    message = f"{tool} {answer.why_no_answer}."
    return Check(area, name, "failed", message, cure, answer.message[:MESSAGE_LIMIT])


def check_login_node(answers: Mapping[str, Answer], noise: str, *, area: str) -> Iterator[Check]:
    """Check the operating system, Python, and that log-in prints nothing."""
    lines = answers["system"].text.splitlines()
    if answers["system"].why_no_answer or len(lines) < 3:
        yield Check(
            area,
            "System",
            "warning",
            "uname and /etc/os-release could not be read.",
            "Look whether this login node is a Linux with a POSIX shell.",
            answers["system"].message[:MESSAGE_LIMIT],
        )
    else:
        name, kernel, user = lines[-3:]
        description = f"{name or 'an unnamed Linux'}, kernel {kernel}, as user {user}."
        yield Check(area, "System", "ok", description, value=description)
    python = re.search(r"Python (\d[\w.+]*)", answers["python"].text or answers["python"].message)
    yield Check(
        area,
        "Python",
        "ok" if python else "warning",
        f"python3 is {python[1]}." if python else "There is no python3 here.",
        "" if python else "udocker needs one: load a module in the cluster's set-up lines.",
        value=python[1] if python else "",
    )
    if noise:
        yield Check(
            area,
            "Quiet log-in",
            "failed",
            "The account's start-up files print something before every command: Tare could not "
            "tell it from the answers.",
            "Let .bashrc or .profile print for people only: [ -t 1 ] && echo ...",
            noise[:MESSAGE_LIMIT],
            "noisy",
        )


def check_clock(text: str, began: float, ended: float, *, area: str) -> Check:
    """Compare its clock with Tare's, which read `began` and `ended` (seconds) around the probe."""
    if not text.isdecimal():
        return Check(area, "Clock", "warning", "The clock could not be read.", words=text[:200])
    its_time = int(text)
    ahead = max(its_time - ended, 0) - max(began - 1 - its_time, 0)  # `date` cuts off the fraction
    if abs(ahead) <= SKEW_SECONDS:
        return Check(area, "Clock", "ok", f"Agrees with Tare's within {SKEW_SECONDS} s.")
    side = "ahead of" if ahead > 0 else "behind"
    return Check(
        area,
        "Clock",
        "warning",
        f"{abs(ahead):.0f} s {side} Tare's: times of runs will look odd.",
        "Ask for NTP there, or look at the clock of Tare's own machine.",
    )


def check_work_directory(answer: Answer, directory: str, *, area: str) -> Check:
    """Check that the account can write, link and rename files in the work directory."""
    name, lines = "Work directory", answer.text.splitlines()
    if answer.code == 0 and lines:
        existing = lines[-1]
        message = (
            f"{directory} can be written; hard links and renames work."
            if existing == directory
            else f"{directory} is not there yet; {existing}, where Tare will make it, can be "
            "written."
        )
        return Check(area, name, "ok", message, value=message)
    if silent := check_for_silence(
        area, name, "Writing a file there", answer, "Is the file system mounted and well?"
    ):
        return silent
    problems = {
        75: (
            "has no hard links, by which a job claims its directory",
            "Choose a directory on a "
            "file system with hard links, such as the parallel file system's scratch.",
        ),
        76: ("does not let files be renamed", "Choose another directory."),
    }
    error_text = answer.message
    if "No space left" in error_text or "quota exceeded" in error_text.lower():
        problem, cure = "is full", "Delete what is no longer needed there, or ask for more space."
    else:
        problem, cure = problems.get(
            answer.code,
            (
                "cannot be written",
                "Name a directory that belongs to Tare's user, or have its owner or mode changed.",
            ),
        )
    return Check(area, name, "failed", f"{directory} {problem}.", cure, error_text[:MESSAGE_LIMIT])


def check_disk(space: Answer, inodes: Answer, kind: Answer, *, area: str) -> Iterator[Check]:
    """Check free space and free inodes of the work directory's file system, by `df -P`."""
    cure = "Delete what is no longer needed, or ask for more space."
    row = _read_last_row(space, 6)
    if row is None:
        yield check_for_silence(area, "Disk space", "df", space) or Check(
            area,
            "Disk space",
            "warning",
            "df printed no numbers.",
            words=space.message[:MESSAGE_LIMIT],
        )
    else:
        total, free = int(row[-5]) * 1024, int(row[-3]) * 1024
        outcome: Outcome = "ok"
        if free < FREE_ENOUGH:
            outcome = "failed" if free < FREE_LEAST else "warning"
        system = f", {kind.text}" if kind.code == 0 and kind.text else ""
        yield Check(
            area,
            "Disk space",
            outcome,
            f"{free / GIB:.1f} of {total / GIB:.1f} GiB are free (mounted at {row[-1]}{system}).",
            "" if outcome == "ok" else cure,
            value=f"{outcome}, {row[-1]}{system}",
        )
    counts = _read_last_row(inodes, 6)
    if counts and int(counts[-5]) > 0:
        total, free = int(counts[-5]), int(counts[-3])
        short = free < 1000 or free < total * (1 - NEARLY_FULL)
        yield Check(
            area,
            "Inodes",
            ("failed" if free < 1000 else "warning") if short else "ok",
            f"Room for {free:,} more files.".replace(",", " "),
            cure if short else "",
            value="short" if short else "enough",
        )


def check_quota(answer: Answer, *, area: str) -> Check:
    """Check the account's quota, in the nine columns that `quota -wp` and `lfs quota -q` share."""
    name = "Quota"
    if answer.code in (126, 127):
        return Check(area, name, "not applicable", "Neither quota nor lfs is there.")
    if silent := check_for_silence(area, name, "quota", answer):
        return silent
    worst: tuple[float, str] | None = None
    for line in answer.text.splitlines():
        row = line.split()
        if len(row) != 9 or not all(re.fullmatch(r"\d+[*]?", row[i]) for i in (1, 2, 3, 5, 6, 7)):
            continue
        for used, soft, hard, resource in ((*row[1:4], "space"), (*row[5:8], "files")):
            limit = int(soft.rstrip("*")) or int(hard.rstrip("*"))
            if limit:
                share = int(used.rstrip("*")) / limit
                worst = max(worst or (0.0, ""), (share, f"{resource} on {row[0]}"))
    if worst is None:
        return Check(area, name, "ok", "No quota is set for this account.", value="none")
    share, resource = worst
    outcome: Outcome = "failed" if share >= 1 else "warning" if share > NEARLY_FULL else "ok"
    return Check(
        area,
        name,
        outcome,
        f"{share:.0%} of the quota of {resource} is used.",
        "" if outcome == "ok" else "Delete what is no longer needed, or ask for a larger quota.",
        value=f"{outcome} {resource}",
    )


def _read_last_row(answer: Answer, columns: int) -> list[str] | None:
    """Return the columns of df's last line, or None if numbers are missing."""
    lines = answer.text.splitlines()
    row = lines[-1].split() if answer.code == 0 and lines else []
    if len(row) < columns or not all(cell.isdecimal() for cell in (row[-5], row[-4], row[-3])):
        return None
    return row
