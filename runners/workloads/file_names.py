"""File names in a command that no file sent along answers to. Pure functions.

A program starts in the run's folder, which is empty, and a word that is the name of a file sent
stands for that file. Whatever an interpreter is to start by a relative name is therefore among the
files sent, or nowhere. Any other word may name what the program writes: it is refused only where it
is all but the name of a file sent.
"""

import difflib
import re
from collections.abc import Iterator, Sequence

FILE_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.[A-Za-z][A-Za-z0-9]{0,7}")
"""What looks like a file by its ending; a version such as python3.11 does not."""
IN_FILES = re.compile(r"(?:-{0,2}[\w-]+=)?\{files\}/([A-Za-z0-9_][A-Za-z0-9_.-]*)")
INTERPRETERS = re.compile(
    r"\{python\}|(.*/)?(python[\d.]*|pypy[\d.]*|(ba|da|k|z)?sh|perl|ruby|Rscript|julia|node|lua)"
)
PYTHONS = re.compile(r"\{python\}|(.*/)?(python|pypy)[\d.]*")
STARTS_NO_FILE = re.compile(r"-[A-Za-z]*[cem]")
"""Options after which an interpreter starts no file, but a text or a module."""
OUTPUT_OPTION = re.compile(r"-o|--?(\w+[-_])*(out|output|log|save|write|dump|result|results)\w*")
NEAR, NEAR_FOR_A_SCRIPT = 0.85, 0.6
"""Likeness, as `difflib` measures it, from which on a name is taken for a misspelt one."""


def explain_unsent_file(argv: Sequence[str], names: Sequence[str]) -> str:
    """Return why a word of the command cannot be found among the files sent; "" if all can.

    `names` are those of the files sent. The text goes on after the field's label.
    """
    for word in _list_words_in_files(argv):
        if word not in names and word != "tare.py":
            return f"names {{files}}/{word}, {_suggest(word, names, NEAR_FOR_A_SCRIPT)}"
    script = _find_script(argv)
    if script is not None and argv[script] not in names:
        return f"starts {argv[script]}, {_suggest(argv[script], names, NEAR_FOR_A_SCRIPT)}"
    for index, word in enumerate(argv):
        if index == script or word in names or not FILE_WORD.fullmatch(word):
            continue
        if index and OUTPUT_OPTION.fullmatch(argv[index - 1]):
            continue
        near = _find_near(word, names, NEAR)
        if near and _leave_out_digits(near) != _leave_out_digits(word):
            hint = f". If the program makes {word} itself, write ./{word}" if index else ""
            return f"names {word}, which is not among the files sent; the nearest is {near}{hint}"
    return ""


def _list_words_in_files(argv: Sequence[str]) -> Iterator[str]:
    return (match[1] for word in argv if (match := IN_FILES.fullmatch(word)))


def _find_script(argv: Sequence[str]) -> int | None:
    """Return the place of the relative path that is to be started; None where none is."""
    if not argv:
        return None
    if not INTERPRETERS.fullmatch(argv[0]):
        return 0 if argv[0].startswith(("./", "../")) else None
    is_python = bool(PYTHONS.fullmatch(argv[0]))
    is_value = False
    for index, word in enumerate(argv[1:], start=1):
        if is_value:
            is_value = False
        elif STARTS_NO_FILE.fullmatch(word):
            return None
        elif word.startswith("-"):
            is_value = is_python and word in ("-W", "-X")
        else:
            is_relative = not word.startswith(("/", "~", "{", "$"))
            return index if is_relative and FILE_WORD.fullmatch(word.rpartition("/")[2]) else None
    return None


def _suggest(word: str, names: Sequence[str], cutoff: float) -> str:
    near = _find_near(word.rpartition("/")[2], names, cutoff)
    if near:
        return f"which is not among the files sent; the nearest is {near}"
    if names:
        return f"which is not among the files sent: {', '.join(names)}"
    return "but no file is sent: add it, or write its whole path on the cluster"


def _find_near(word: str, names: Sequence[str], cutoff: float) -> str:
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else ""


def _leave_out_digits(name: str) -> str:
    return re.sub(r"\d", "", name)
