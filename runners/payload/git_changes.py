"""The text of what has changed in a git checkout since it was last staged, as a patch.

Each file is compared with what git keeps of it, which is read without git. What is no text, may be
a secret by its name, lies behind a link, or is too much is named with the reason instead.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, Iterable, List, Tuple

from .git_objects import LARGEST, Unreadable, read_blob
from .loaded import measure_own_seconds

MOST_BYTES = 256 << 10
"""Of the patches of all checkouts of a run together."""
MOST_SECONDS = 0.1
"""For all of these."""
MOST_LEFT_OUT = 50
MOST_COMPARED = 250_000
"""Lines of one side times lines of the other, of the part that differs: beyond, all is replaced."""
CONTEXT = 3
SECRETS = re.compile(
    r"(^|/)(\.env(\..*)?|\.netrc|\.pgpass|id_[a-z0-9]+|\.aws/.*|\.ssh/.*)$"
    r"|secret|passw|credential|token(?!i)|apikey|api_key|\.(pem|key|p12|pfx|jks|kdbx|keytab)$",
    re.IGNORECASE,
)
"""In names of files whose text is not recorded."""
Change = Tuple[str, int, bytes]
"""A changed file: its name, its mode and its hash in git's index."""


class LeftOut(Exception):
    """The text of a file's changes is not recorded; the message says why."""


def write_patch(
    root: str, common: str, changes: Iterable[Change], room: int, seconds: float
) -> Dict[str, Any]:
    """Return the patch of these changed files in at most `room` bytes, and what is not in it."""
    began = measure_own_seconds()
    parts: List[str] = []
    left_out: List[Dict[str, str]] = []
    count = 0
    for name, mode, digest in changes:
        try:
            if measure_own_seconds() - began > seconds:
                raise LeftOut("there was no time to compare it")
            part = _compare(root, common, name, mode, digest)
            if len(part.encode()) > room:
                raise LeftOut("there was no room for it")
        except (LeftOut, OSError, ValueError) as why:
            count += 1
            reason = getattr(why, "strerror", None) or str(why)
            if len(left_out) < MOST_LEFT_OUT:
                left_out.append({"file": _show(name), "reason": reason[:200]})
            continue
        room -= len(part.encode())
        parts.append(part)
    facts: Dict[str, Any] = {"patch": "".join(parts)} if parts else {}
    if left_out:
        facts["left_out"] = left_out
        facts["left_out_count"] = count
    return facts


def _compare(root: str, common: str, name: str, mode: int, digest: bytes) -> str:
    if SECRETS.search(name):
        raise LeftOut("by its name it may hold a secret")
    if stat.S_IFMT(mode) != stat.S_IFREG:
        raise LeftOut("it is a link or a submodule")
    try:
        name.encode()
    except UnicodeError:
        raise LeftOut("its name is no UTF-8") from None
    if name.startswith("/") or ".." in name.split("/"):
        raise LeftOut("it lies outside of the checkout")
    if not name.isprintable() or '"' in name or "\\" in name:
        raise LeftOut("its name would have to be quoted")
    now = _read_now(os.path.join(root, name), os.path.join(os.path.realpath(root), name))
    try:
        before = read_blob(common, digest)
    except Unreadable as error:
        raise LeftOut("git's copy: %s" % error) from error
    texts = [_decode(content) for content in (before, b"" if now is None else now)]
    head = "diff --git a/%s b/%s\n" % (name, name)
    if now is None:
        head += "deleted file mode %o\n" % mode
    target = "/dev/null" if now is None else "b/" + name
    hunks = _write_hunks(*map(_split_lines, texts))
    if not hunks and now is not None:
        return ""  # git's index had no time of it that can be relied on
    tab = "\t" if " " in name else ""  # as git ends names with spaces
    names = "--- a/%s%s\n+++ %s%s\n" % (name, tab, target, tab if now is not None else "")
    return head + (names + hunks if hunks else "")


def _read_now(path: str, expected: str) -> Any:
    """Return what a file holds now; None for one that is gone."""
    try:
        now = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(now.st_mode) or os.path.realpath(path) != expected:
        raise LeftOut("it is a file no longer, or lies behind a link")
    if now.st_size > LARGEST:
        raise LeftOut("it is too large")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise LeftOut("it is too large")
    return content


def _decode(content: bytes) -> str:
    if b"\0" in content:
        raise LeftOut("it is no text")
    try:
        return content.decode()
    except UnicodeError:
        raise LeftOut("it is no UTF-8") from None


def _split_lines(text: str) -> List[str]:
    """Return lines with their ends: only "\\n" ends one, as for git."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _write_hunks(before: List[str], now: List[str]) -> str:
    """Return the changed places with the lines around them, as `diff -u` writes them."""
    begin, end = 0, 0
    shorter = min(len(before), len(now))
    while begin < shorter and before[begin] == now[begin]:
        begin += 1
    while end < shorter - begin and before[-1 - end] == now[-1 - end]:
        end += 1
    first, second = before[begin : len(before) - end], now[begin : len(now) - end]
    if not first and not second:
        return ""
    above = min(CONTEXT, begin)
    below = min(CONTEXT, end)
    if len(first) * len(second) > MOST_COMPARED:
        lines = [" " + line for line in before[begin - above : begin]]
        lines += ["-" + line for line in first] + ["+" + line for line in second]
        lines += [" " + line for line in before[len(before) - end : len(before) - end + below]]
        sizes = [above + len(part) + below for part in (first, second)]
        numbers = [begin - above + (1 if size else 0) for size in sizes]
        head = "@@ -%d,%d +%d,%d @@\n" % (numbers[0], sizes[0], numbers[1], sizes[1])
        return head + "".join(map(_end_line, lines))
    import difflib

    # Numbers of lines are right in whole files alone; what both have around is not compared.
    matcher = difflib.SequenceMatcher(None, first, second)
    codes = [(tag, *(place + begin for place in places)) for tag, *places in matcher.get_opcodes()]
    equal_above = [("equal", begin - above, begin, begin - above, begin)] if above else []
    ends = (len(before) - end, len(now) - end)
    equal_below = [("equal", ends[0], ends[0] + below, ends[1], ends[1] + below)] if below else []
    return "".join(
        _write_hunk(group, before, now) for group in _group(equal_above + codes + equal_below)
    )


def _group(codes: List[Any]) -> List[List[Any]]:
    """Return the differences in groups, apart by more lines than stand around both."""
    groups: List[List[Any]] = [[]]
    for tag, a, b, c, d in codes:
        if tag == "equal" and b - a > 2 * CONTEXT and groups[-1]:
            groups[-1].append((tag, a, a + CONTEXT, c, c + CONTEXT))
            groups.append([(tag, b - CONTEXT, b, d - CONTEXT, d)])
        else:
            groups[-1].append((tag, a, b, c, d))
    return [group for group in groups if any(code[0] != "equal" for code in group)]


def _write_hunk(group: List[Any], before: List[str], now: List[str]) -> str:
    sizes = group[-1][2] - group[0][1], group[-1][4] - group[0][3]
    begins = [place + (1 if size else 0) for place, size in zip((group[0][1], group[0][3]), sizes)]
    lines = ["@@ -%d,%d +%d,%d @@\n" % (begins[0], sizes[0], begins[1], sizes[1])]
    for tag, a, b, c, d in group:
        if tag == "equal":
            lines += [_end_line(" " + line) for line in before[a:b]]
        else:
            lines += [_end_line("-" + line) for line in before[a:b]]
            lines += [_end_line("+" + line) for line in now[c:d]]
    return "".join(lines)


def _end_line(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _show(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()[:500]
