"""How the command ends: by verdict, for continuous integration."""

from __future__ import annotations

FINE, SLOWER, INCONCLUSIVE, NO_VERDICT, REFUSED = 0, 1, 2, 3, 4
USAGE, MISTAKE, INTERRUPTED = 64, 70, 130
CODE_OF_WORD = {
    "equivalent": FINE,
    "not_slower": FINE,
    "faster": FINE,
    "slower": SLOWER,
    "inconclusive": INCONCLUSIVE,
    "failed": NO_VERDICT,
    "unfinished": NO_VERDICT,
}

GRAVEST_FIRST = (
    *("slower", "inconclusive", "failed", "unfinished"),
    *("equivalent", "not_slower", "faster"),
)


def choose_gravest_word(words: list[str]) -> str:
    """Return the word of several experiments together; failed where one is not known, or none."""
    known = [word if word in GRAVEST_FIRST else "failed" for word in words] or ["failed"]
    return min(known, key=GRAVEST_FIRST.index)


def choose_exit_code(word: str) -> int:
    """Return the exit code of an `exit_word`; 3 for one that this version does not know."""
    return CODE_OF_WORD.get(word, NO_VERDICT)
