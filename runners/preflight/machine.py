"""What the machine that we log in to answers: texts of tools in, checks out. Pure."""

import re
from collections.abc import Iterator, Mapping

from runners.preflight.checks import WORDS_LIMIT, Check, Outcome
from runners.preflight.probes import Answer

GIB = 1024**3
FREE_LEAST, FREE_ENOUGH = 1 * GIB, 10 * GIB  # bytes in the work directory's file system
NEARLY_FULL = 0.95
SKEW_SECONDS = 10


def unanswered(area: str, name: str, tool: str, answer: Answer, cure: str = "") -> Check | None:
    """The check of a tool that hung, is missing or printed rubbish; None if it answered."""
    if not answer.silence:
        return None
    cure = cure or f"Log in as Tare's user and try {tool} by hand; ask the centre if it fails."
    found = f"{tool} {answer.silence}."
    return Check(area, name, "failed", found, cure, answer.words[:WORDS_LIMIT])


def login_node(answers: Mapping[str, Answer], noise: str, *, area: str) -> Iterator[Check]:
    """Operating system, clock and what log-in prints."""
    lines = answers["system"].text.splitlines()
    if answers["system"].silence or len(lines) < 3:
        yield Check(
            area,
            "System",
            "warning",
            "uname and /etc/os-release could not be read.",
            "Look whether this login node is a Linux with a POSIX shell.",
            answers["system"].words[:WORDS_LIMIT],
        )
    else:
        name, kernel, user = lines[-3:]
        found = f"{name or 'an unnamed Linux'}, kernel {kernel}, as user {user}."
        yield Check(area, "System", "ok", found, value=found)
    python = re.search(r"Python (\d[\w.+]*)", answers["python"].text or answers["python"].words)
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
            "warning",
            "The account's start-up files print something before every command.",
            "Let .bashrc or .profile print for people only: [ -t 1 ] && echo ...",
            noise[:WORDS_LIMIT],
            "noisy",
        )


def clock(text: str, began: float, ended: float, *, area: str) -> Check:
    """Its clock held against ours, which read `began` and `ended` (seconds) around the question."""
    if not text.isdecimal():
        return Check(area, "Clock", "warning", "The clock could not be read.", words=text[:200])
    there = int(text)
    ahead = max(there - ended, 0) - max(began - 1 - there, 0)  # `date` cuts off the fraction
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


def work_directory(answer: Answer, directory: str, *, area: str) -> Check:
    """Whether the account can write, link and rename where jobs live."""
    name, lines = "Work directory", answer.text.splitlines()
    if answer.code == 0 and lines:
        where = lines[-1]
        found = (
            f"{directory} can be written; hard links and renames work."
            if where == directory
            else f"{directory} is not there yet; {where}, where Tare will make it, can be written."
        )
        return Check(area, name, "ok", found, value=found)
    if silent := unanswered(
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
    words = answer.words
    if "No space left" in words or "quota exceeded" in words.lower():
        problem, cure = "is full", "Delete what is no longer needed there, or ask for more space."
    else:
        problem, cure = problems.get(
            answer.code,
            (
                "cannot be written",
                "Name a directory that belongs to Tare's user, or have its owner or mode changed.",
            ),
        )
    return Check(area, name, "failed", f"{directory} {problem}.", cure, words[:WORDS_LIMIT])


def disk(space: Answer, inodes: Answer, kind: Answer, *, area: str) -> Iterator[Check]:
    """Free space and free inodes of the work directory's file system, by `df -P`."""
    cure = "Delete what is no longer needed, or ask for more space."
    row = _last_row(space, 6)
    if row is None:
        yield unanswered(area, "Disk space", "df", space) or Check(
            area, "Disk space", "warning", "df printed no numbers.", words=space.words[:WORDS_LIMIT]
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
    counts = _last_row(inodes, 6)
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


def quota(answer: Answer, *, area: str) -> Check:
    """The account's quota, in the nine columns that `quota -wp` and `lfs quota -q` share."""
    name = "Quota"
    if answer.code in (126, 127):
        return Check(area, name, "not applicable", "Neither quota nor lfs is there.")
    if silent := unanswered(area, name, "quota", answer):
        return silent
    worst: tuple[float, str] | None = None
    for line in answer.text.splitlines():
        row = line.split()
        if len(row) != 9 or not all(re.fullmatch(r"\d+[*]?", row[i]) for i in (1, 2, 3, 5, 6, 7)):
            continue
        for used, soft, hard, what in ((*row[1:4], "space"), (*row[5:8], "files")):
            limit = int(soft.rstrip("*")) or int(hard.rstrip("*"))
            if limit:
                share = int(used.rstrip("*")) / limit
                worst = max(worst or (0.0, ""), (share, f"{what} on {row[0]}"))
    if worst is None:
        return Check(area, name, "ok", "No quota is set for this account.", value="none")
    share, what = worst
    outcome: Outcome = "failed" if share >= 1 else "warning" if share > NEARLY_FULL else "ok"
    return Check(
        area,
        name,
        outcome,
        f"{share:.0%} of the quota of {what} is used.",
        "" if outcome == "ok" else "Delete what is no longer needed, or ask for a larger quota.",
        value=f"{outcome} {what}",
    )


def _last_row(answer: Answer, columns: int) -> list[str] | None:
    """The last line of df, if it has numbers where they belong."""
    lines = answer.text.splitlines()
    row = lines[-1].split() if answer.code == 0 and lines else []
    if len(row) < columns or not all(cell.isdecimal() for cell in (row[-5], row[-4], row[-3])):
        return None
    return row
