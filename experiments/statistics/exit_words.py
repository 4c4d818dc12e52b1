"""One word for programs on all verdicts of an experiment: continuous integration acts on it."""

from collections.abc import Collection

from experiments.statistics.values import Verdict

AGAINST_IT = {
    Verdict.SLOWER: "slower",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOT_SHOWN: "inconclusive",
}
"""Verdicts that weigh against an environment, the gravest first, with their words."""
IN_FAVOUR = {
    Verdict.EQUIVALENT: "equivalent",
    Verdict.NOT_SLOWER: "not_slower",
    Verdict.FASTER: "faster",
}
"""Verdicts in its favour, the weakest claim first."""


def choose_exit_word(verdicts: Collection[str], *, is_alive: bool) -> str:
    """Return the word of the verdict that weighs most against the environments.

    slower, then inconclusive, then failed (some have no verdict) and, where all are good, the
    weakest claim: equivalent, not_slower or faster. While runs live and one is missing: unfinished.
    """
    for verdict, word in AGAINST_IT.items():
        if verdict in verdicts:
            return word
    if not verdicts or not set(verdicts) <= IN_FAVOUR.keys():
        return "unfinished" if is_alive else "failed"
    return next(word for verdict, word in IN_FAVOUR.items() if verdict in verdicts)


GRAVEST_FIRST = (*AGAINST_IT.values(), "failed", "unfinished", *IN_FAVOUR.values())


def choose_gravest_word(words: Collection[str]) -> str:
    """Return the word of several experiments together: the one that weighs most; none: failed."""
    return next((word for word in GRAVEST_FIRST if word in words), "failed")
