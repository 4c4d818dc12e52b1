"""What the API answers about studies, as values with types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tare_client.answer_parts import Document, get_documents, get_number, get_text
from tare_client.errors import UnexpectedAnswer
from tare_client.exit_codes import choose_exit_code
from tare_client.values import Progress

STUDY_FILE = "/docs/api/#studies"
NAMES_TABLE = "/docs/experiment-files/#names"
"""The type of the problem by which a site says that a file is that of a study."""


@dataclass(frozen=True)
class Study:
    """A study: several experiments that answer one question."""

    id: int
    name: str
    question: str
    owner: str
    created_at: str
    experiments: tuple[int, ...]
    """Those that one may view, in their order."""
    page: str
    """The path of its page on the site."""
    raw: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Study:
        """Return the study of an answer. Raises UnexpectedAnswer."""
        key, keys = document.get("id"), document.get("experiments")
        if not isinstance(key, int) or isinstance(key, bool) or not isinstance(keys, list):
            raise UnexpectedAnswer("The answer does not name a study.")
        return cls(
            id=key,
            name=get_text(document, "name"),
            question=get_text(document, "question"),
            owner=get_text(document, "owner"),
            created_at=get_text(document, "created_at"),
            experiments=tuple(one for one in keys if isinstance(one, int)),
            page=get_text(document, "page") or f"/studies/{key}/",
            raw=document,
        )


@dataclass(frozen=True)
class MemberProgress:
    """How far one experiment of a study is."""

    id: int
    question: str
    cluster: str
    exit_word: str
    progress: Progress


@dataclass(frozen=True)
class StudyProgress:
    """How far the experiments of a study are."""

    is_alive: bool
    """Whether anything may still happen; False: all of them have ended, or are drafts."""
    seconds_left: float | None
    exit_word: str
    """The word that weighs most of all experiments."""
    experiments: tuple[MemberProgress, ...]
    runs: Mapping[str, int]
    raw: Document = field(repr=False, compare=False)

    @property
    def exit_code(self) -> int:
        """The exit code of `tare compare` and `tare follow`."""
        return choose_exit_code(self.exit_word)

    @property
    def total(self) -> Progress:
        """The runs of all experiments together."""
        n_alive = sum(row.progress.is_alive for row in self.experiments)
        return Progress(
            state=f"{n_alive} of {len(self.experiments)} experiments under way",
            is_alive=self.is_alive,
            runs=self.runs,
            seconds_left=self.seconds_left,
            running=(),
            problems=(),
            verdict="",
            raw=self.raw,
        )

    @classmethod
    def read(cls, document: Document) -> StudyProgress:
        """Return the progress of an answer. Raises UnexpectedAnswer."""
        if not isinstance(document.get("is_alive"), bool) or "experiments" not in document:
            raise UnexpectedAnswer("The answer does not say how far the study is.")
        counts = document.get("runs")
        return cls(
            is_alive=document["is_alive"],
            seconds_left=get_number(document, "seconds_left"),
            exit_word=get_text(document, "exit_word"),
            experiments=tuple(
                MemberProgress(
                    int(get_number(row, "id") or 0),
                    get_text(row, "question"),
                    get_text(row, "cluster"),
                    get_text(row, "exit_word"),
                    Progress.read(row),
                )
                for row in get_documents(document, "experiments")
            ),
            runs={
                name: n
                for name, n in (counts.items() if isinstance(counts, dict) else ())
                if isinstance(n, int)
            },
            raw=document,
        )
