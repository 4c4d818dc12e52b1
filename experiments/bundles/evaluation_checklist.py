"""A checklist for the evaluation of an artefact, by ACM's badges, filled from what Tare knows.

Each line has a function of its own, which says what is known and what a person must still do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from experiments.bundles.checklist_facts import ArtefactFacts
from experiments.statistics import numbers
from experiments.statistics.reproductions import Outcome


class State(StrEnum):
    """How far a line of the checklist is."""

    SHOWN = "shown"
    PARTLY = "partly shown"
    NOT_STATED = "not stated"
    TO_DO = "for a person"


class Badge(StrEnum):
    """ACM's badges of version 1.1."""

    AVAILABLE = "Artifacts Available"
    FUNCTIONAL = "Artifacts Evaluated – Functional"
    REUSABLE = "Artifacts Evaluated – Reusable"
    REPRODUCED = "Results Reproduced"
    REPLICATED = "Results Replicated"


NISO = {
    Badge.AVAILABLE: "Open Research Objects (ORO)",
    Badge.FUNCTIONAL: "Research Objects Reviewed (ROR)",
    Badge.REUSABLE: "Research Objects Reviewed (ROR)",
    Badge.REPRODUCED: "Results Reproduced (ROR-R)",
    Badge.REPLICATED: "Results Replicated (RER)",
}
"""The names of NISO RP-31-2021."""


@dataclass(frozen=True)
class Line:
    """A question of an evaluation: what Tare shows, and what a person must still do."""

    question: str
    state: State
    known: str
    to_do: str = ""


@dataclass(frozen=True)
class Section:
    """A badge with its lines."""

    badge: Badge
    lines: list[Line] = field(default_factory=list)

    @property
    def niso(self) -> str:
        """Return what NISO calls this badge."""
        return NISO[self.badge]


def make_checklist(facts: ArtefactFacts) -> list[Section]:
    """Return the checklist of an experiment."""
    return [Section(badge, [check(facts) for check in checks]) for badge, checks in CHECKS.items()]


def check_deposit(facts: ArtefactFacts) -> Line:
    """Return whether the bundle was deposited: a DOI that is only reserved is none."""
    question = "Is the artefact in a public archive, with a DOI?"
    if facts.deposit_doi:
        return Line(question, State.SHOWN, f"Deposited: {facts.deposit_doi}.")
    to_do = "Deposit the bundle in an archive such as Zenodo and state its DOI."
    return Line(question, State.NOT_STATED, "No deposit is stated.", to_do)


def check_licence(facts: ArtefactFacts) -> Line:
    """Return whether a licence is stated, and which."""
    question = "Is a licence stated?"
    if facts.licence:
        return Line(question, State.SHOWN, f"Licence: {facts.licence}.")
    return Line(question, State.NOT_STATED, "No licence is stated.", "State a licence.")


def check_authors(facts: ArtefactFacts) -> Line:
    """Return whether authors are stated, and who."""
    question = "Are the authors stated?"
    if facts.authors:
        return Line(question, State.SHOWN, f"Authors: {numbers.listed(facts.authors)}.")
    to_do = "State the authors, with ORCID."
    return Line(question, State.NOT_STATED, "No authors are stated.", to_do)


def check_documented(facts: ArtefactFacts) -> Line:
    """Documented: an inventory, and how it was measured."""
    known = (
        "The bundle has an inventory of its files, the plan, the methods in words, and the events."
    )
    to_do = "Refer to the paper, and say which of its claims rests on which result."
    return Line("Is it documented?", State.PARTLY, known, to_do)


def check_consistent(facts: ArtefactFacts) -> Line:
    """Consistent: what is there is what the results rest on."""
    question = "Is it consistent: are these the data of the results?"
    if facts.is_imported:
        known = (
            "The runs were imported from logs: no plan was frozen before them. The sum of the logs "
            f"is {facts.hash}."
        )
        return Line(question, State.PARTLY, known, "Say how the runs were planned.")
    known = f"The plan was frozen before the first run; its sha256 is {facts.hash}."
    if facts.excluded:
        known += (
            f" Persons have excluded {numbers.count(facts.excluded, 'run')}, with cause and date; "
            "verdicts with and without them are shown."
        )
    return Line(question, State.SHOWN, known)


def check_complete(facts: ArtefactFacts) -> Line:
    """Complete: all runs, whether they succeeded or not."""
    question = "Is it complete: is every run of the plan in it?"
    if facts.alive:
        count = numbers.count(facts.alive, "run")
        have = "has" if facts.alive == 1 else "have"
        known = f"{count} {have} not ended: there is no bundle yet."
        return Line(question, State.TO_DO, known, "Wait for the end, or cancel the rest.")
    known = f"All {numbers.count(facts.runs, 'run')} of the plan are in the bundle"
    if lacking := facts.runs - facts.succeeded:
        known += f", also the {lacking:,} that gave no number or are excluded"
    return Line(question, State.SHOWN, f"{known}.")


def check_exercisable(facts: ArtefactFacts) -> Line:
    """Exercisable: the scripts that were run, and a program that computes the results again."""
    question = "Can it be exercised: do its programs run?"
    if facts.is_imported:
        known = "verify.py in the bundle computes the results again. The runs' scripts are unknown."
        return Line(question, State.PARTLY, known, "Add the scripts that made the logs.")
    known = (
        f"{numbers.count(facts.scripts, 'job script')} as sent; verify.py in the bundle computes "
        "the results again with Python alone."
    )
    return Line(question, State.SHOWN, known)


def check_verified(facts: ArtefactFacts) -> Line:
    """Evidence of verification: the check of the bundle, which is for whoever receives it."""
    question = "Is there evidence of verification?"
    if facts.alive:
        return Line(question, State.TO_DO, "There is no bundle yet.", "Wait for the end.")
    known = "The bundle has a check sum of each file, and a program that checks all of them."
    to_do = "Run python3 verify.py in the bundle, and keep what it prints."
    return Line(question, State.PARTLY, known, to_do)


def check_images(facts: ArtefactFacts) -> Line:
    """Images by digest, and the hashes of the files in them."""
    question = "Are the container images known by digest?"
    if not facts.images:
        return Line(question, State.SHOWN, "No environment has an image.")
    count = numbers.count(facts.images, "image")
    known = f"{count} by digest, {facts.images_with_tree} with the hash of the files inside."
    if facts.images_with_tree == facts.images:
        to_do = "Say where each image can be fetched by its digest."
        return Line(question, State.PARTLY, known, to_do)
    to_do = "Have the images without that hash inspected, and say where each can be fetched."
    return Line(question, State.PARTLY, known, to_do)


def check_machines(facts: ArtefactFacts) -> Line:
    """What the machines were: snapshots of the runs."""
    question = "Are hardware and software of the machines described?"
    known = (
        f"{facts.runs_with_snapshot:,} of {numbers.count(facts.succeeded, 'run')} with a number "
        f"have a snapshot of their machine; {numbers.count(facts.nodes, 'node')}."
    )
    is_whole = facts.succeeded > 0 and facts.runs_with_snapshot >= facts.succeeded
    to_do = "" if is_whole else "Describe the machines of the other runs."
    return Line(question, State.SHOWN if is_whole else State.PARTLY, known, to_do)


def check_programs(facts: ArtefactFacts) -> Line:
    """The programs that were measured: Tare's own, or those of the experimenter."""
    question = "Are the measured programs part of it?"
    if not facts.own_programs:
        known = "They are Tare's own workloads, with all parameters in the plan."
        return Line(question, State.PARTLY, known, "Say which version of Tare has them.")
    names = numbers.listed(facts.own_programs)
    known = f"{names}: commands of your own. Snapshots have the check sums of their files."
    return Line(question, State.TO_DO, known, "Add their source, or say where it is archived.")


def check_structured(facts: ArtefactFacts) -> Line:
    """Structured for reuse: formats that other programs read."""
    known = (
        "The bundle is a BagIt bag with a Workflow Run RO-Crate and a PROV graph; numbers are JSON."
    )
    to_do = "Say for what else it can be used, and how."
    return Line("Is it structured for reuse?", State.PARTLY, known, to_do)


def check_reproduced(facts: ArtefactFacts) -> Line:
    """Return whether others have done the study again, and whether its results came out again."""
    question = "Have others reproduced the results with this artefact?"
    to_do = "Let persons other than the authors run the plan again and compare the results."
    if not facts.reproductions:
        return Line(question, State.NOT_STATED, "No reproduction is stated.", to_do)
    known = " ".join(row.sentence for row in facts.reproductions)
    outcomes = {row.outcome for row in facts.reproductions}
    if Outcome.REPRODUCED in outcomes and Outcome.NOT_REPRODUCED not in outcomes:
        return Line(question, State.SHOWN, known)
    return Line(question, State.PARTLY, known, to_do)


def check_replicated(facts: ArtefactFacts) -> Line:
    """A replication does without this artefact, so that Tare cannot know of it by itself."""
    to_do = "Let others reach the results without this artefact, and cite their study."
    known = "Tare cannot know this: a replication uses nothing of the artefact."
    return Line("Have others replicated the results?", State.TO_DO, known, to_do)


Check = Callable[[ArtefactFacts], Line]
CHECKS: Mapping[Badge, Sequence[Check]] = {
    Badge.AVAILABLE: (check_deposit, check_licence, check_authors),
    Badge.FUNCTIONAL: (
        *(check_documented, check_consistent, check_complete, check_exercisable, check_verified),
    ),
    Badge.REUSABLE: (check_images, check_machines, check_programs, check_structured),
    Badge.REPRODUCED: (check_reproduced,),
    Badge.REPLICATED: (check_replicated,),
}


def count_states(sections: Sequence[Section]) -> dict[State, int]:
    """Return how many lines are in each state."""
    states = [line.state for section in sections for line in section.lines]
    return {state: states.count(state) for state in State if state in states}


def write_markdown(sections: Sequence[Section], about: Mapping[str, Any]) -> bytes:
    """Return the checklist as Markdown, for the bundle and for a submission."""
    return ("\n".join(_list_lines(sections, about)) + "\n").encode()


def _list_lines(sections: Sequence[Section], about: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Artefact evaluation: {_make_plain(str(about['question']))}"
    yield ""
    yield (
        "By ACM's badges (version 1.1) and their names in NISO RP-31-2021. Filled by Tare from the "
        "data; a reviewer decides. [x] is shown, [ ] needs a person."
    )
    for section in sections:
        yield ""
        yield f"## {section.badge} ({section.niso})"
        yield ""
        for line in section.lines:
            mark = "x" if line.state is State.SHOWN else " "
            yield f"- [{mark}] **{line.question}** {_make_plain(line.known)}"
            if line.to_do:
                yield f"  To do: {line.to_do}"


def _make_plain(text: str) -> str:
    """Return a text in one line, in which no character is a mark of Markdown."""
    return "".join(f"\\{c}" if c in r"\`*_[]<>#|" else c for c in " ".join(text.split()))
