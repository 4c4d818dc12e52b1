"""Dockerfiles as builds take them: which base they name, and the file that is sent. No I/O.

The base is named by its digest, so that the file says what it was built from. Everything else is
Podman's to read: it pulls nothing, so an image that is named in another place fails there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

MOST_CHARACTERS = 200_000
DIGEST = re.compile(r"(?:[^\s@]+@)?(sha256:[0-9a-f]{64})")
FROM = re.compile(r"\s*from(?:\s+(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)
REST = re.compile(r"(?P<image>\S+)(?:\s+as\s+(?P<stage>\S+))?\s*", re.IGNORECASE)
HEREDOC = re.compile(r"<<(?P<strip>-?)\s*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)")
SPACK = re.compile(r'spack\s*:|\{\s*"(_meta|roots|concrete_specs|spack)"\s*:')
CONDA = re.compile(r"(name|channels|dependencies|prefix)\s*:\s*(\S.*)?$", re.MULTILINE)
ABOUT_SPACK = (
    "This is an environment file of Spack, and Tare has no Spack. Where one is, it makes an image "
    "of its packages for a registry (spack buildcache push), or writes a Dockerfile or a "
    "definition file of the environment (spack containerize)."
)
ABOUT_CONDA = (
    "This is an environment file of conda. Build it by a recipe, which lays it over a base."
)
BYTE_ORDER_MARK = "\ufeff"
"""What editors on Windows put before a text; Podman leaves it out as well."""
ESCAPE = re.compile(r"#\s*escape\s*=\s*`", re.IGNORECASE)


class BuildFileError(Exception):
    """The file cannot be built from; the message says where and why."""


def read_base(text: str) -> str:
    """Return the digest of the one base that a Dockerfile names. Raises BuildFileError."""
    return _read(text, "")[0]


def point_to(text: str, local_name: str) -> str:
    """Return the file with this name for its base in place of the digest. BuildFileError."""
    return _read(text, local_name)[1]


def check_text(text: str, what: str) -> None:
    """Raise BuildFileError for what no file of a build can hold."""
    if len(text) > MOST_CHARACTERS:
        raise BuildFileError(
            f"The {what} has {len(text):,} characters; {MOST_CHARACTERS:,} are the most."
        )
    if "\0" in text:
        raise BuildFileError(f"The {what} holds a NUL: it is no text.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BuildFileError(f"The {what} holds half a character: it is no text.") from None
    refuse_environment_files(text)


def refuse_environment_files(text: str) -> None:
    """Raise BuildFileError for a file of Spack or of conda in place of a build file."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    start = "\n".join(lines[:3]).removeprefix("---").lstrip()
    if SPACK.match(start):
        raise BuildFileError(ABOUT_SPACK)
    if CONDA.match(start):
        raise BuildFileError(ABOUT_CONDA)


def find_digest(image: str, number: int) -> str:
    """Return the digest by which line `number` names an image. Raises BuildFileError."""
    match = DIGEST.fullmatch(image)
    if match is None:
        raise BuildFileError(
            f"Line {number} names {image[:80]}. Name the base by the digest of an image of the "
            "catalogue, as in debian@sha256:... A name can mean another image tomorrow."
        )
    return match[1]


def require_one(digests: list[str], what: str) -> str:
    """Return the one digest of several mentions. Raises BuildFileError for none or several."""
    if not digests:
        raise BuildFileError(f"The {what} names no base.")
    if len(set(digests)) > 1:
        raise BuildFileError(
            f"The {what} names {len(set(digests))} bases, and a build can take one: copy what it "
            "needs of the others by a build of their own."
        )
    return digests[0]


def _read(text: str, local_name: str) -> tuple[str, str]:
    check_text(text, "Dockerfile")
    digests: list[str] = []
    stages = {"scratch"}
    lines = []
    count = 0  # of stages until now: each has its number as a name too
    for number, instruction in _list_instructions(text):
        written = [line for line in instruction.split("\n") if not _is_comment(line)]
        match = FROM.fullmatch("\n".join(written)) if _is_from(instruction) else None
        if match is None:
            lines.append(instruction)
            continue
        joined = re.sub(r"\\[ \t]*\n", " ", match["rest"] or "").strip()
        if joined.startswith("--"):
            raise BuildFileError(
                f"Line {number}: FROM takes no options here: the digest of the base says for which "
                "processors it is."
            )
        rest = REST.fullmatch(joined)
        if rest is None:
            raise BuildFileError(f"Line {number} is not understood: {instruction.strip()[:80]}")
        image, stage = rest["image"], rest["stage"]
        if image.lower() not in stages:
            digests.append(find_digest(image, number))
            image = local_name
        stages |= {str(count), stage.lower()} if stage else {str(count)}
        count += 1
        lines.append(f"FROM {image}" + (f" AS {stage}" if stage else ""))
    digest = require_one(digests, "Dockerfile")
    return digest, "\n".join(lines) + "\n"


def _is_from(instruction: str) -> bool:
    return bool(re.match(r"\s*from(\s|$)", instruction, re.IGNORECASE))


def _list_instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield each instruction or comment as it is written, with the number of its first line."""
    lines = text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n").split("\n")
    ends = _list_heredoc_ends(lines)
    at = 0
    while at < len(lines):
        first = at
        if ESCAPE.match(lines[at]):
            raise BuildFileError(f"Line {at + 1}: lines are continued by a backslash here.")
        if not _is_comment(lines[at]):
            while lines[at].rstrip().endswith("\\") and at + 1 < len(lines):
                at += 1
                while _is_comment(lines[at]) and at + 1 < len(lines):
                    at += 1
        at += 1
        head = "\n".join(lines[first:at])
        if re.match(r"\s*(run|copy|add)\s", head, re.IGNORECASE):
            for heredoc in HEREDOC.finditer(head):
                at = _skip_heredoc(ends, at, heredoc)
        yield first + 1, "\n".join(lines[first:at])


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _list_heredoc_ends(lines: Sequence[str]) -> Mapping[tuple[str, str], list[int]]:
    """Return the numbers of lines that can end a text, by its mark (`-` or not) and its word."""
    ends: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(lines):
        for mark, word in (("", line), ("-", line.lstrip("\t"))):
            ends.setdefault((mark, word), []).append(number)
    return ends


def _skip_heredoc(
    ends: Mapping[tuple[str, str], list[int]], at: int, heredoc: re.Match[str]
) -> int:
    """Return the line after the end of a text that begins at line `at`; `at` if it has no end."""
    numbers = ends.get((heredoc["strip"], heredoc["word"]), [])
    next_end = bisect_left(numbers, at)
    return numbers[next_end] + 1 if next_end < len(numbers) else at
