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


def choose_exit_code(word: str) -> int:
    """Return the exit code of an `exit_word`; 3 for one that this version does not know."""
    return CODE_OF_WORD.get(word, NO_VERDICT)
