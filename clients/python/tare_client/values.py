"""What the API answers, as values with types. `raw` has the whole answer, newer fields too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tare_client.answer_parts import Document, get_document, get_documents, get_number, get_text
from tare_client.errors import UnexpectedAnswer
from tare_client.exit_codes import choose_exit_code

ENDED = ("succeeded", "excluded", "failed", "cancelled")
"""The states that a run does not leave."""


@dataclass(frozen=True)
class Person:
    """The person who asks, and what the token may be used for."""

    username: str
    role: str
    scopes: tuple[str, ...]
    expires_at: str
    raw: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Person:
        """Return the person of an answer. Raises UnexpectedAnswer."""
        if not isinstance(document.get("username"), str):
            raise UnexpectedAnswer("The answer does not name a person.")
        scopes = document.get("scopes")
        return cls(
            document["username"],
            get_text(document, "role"),
            tuple(str(scope) for scope in scopes) if isinstance(scopes, list) else (),
            get_text(document, "expires_at"),
            document,
        )


@dataclass(frozen=True)
class Experiment:
    """An experiment, without its runs."""

    id: int
    question: str
    state: str
    is_draft: bool
    cluster: str
    owner: str
    created_at: str
    launched_at: str
    page: str
    """The path of its page on the site."""
    raw: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Experiment:
        """Return the experiment of an answer. Raises UnexpectedAnswer."""
        key = document.get("id")
        if not isinstance(key, int) or isinstance(key, bool):
            raise UnexpectedAnswer("The answer does not name an experiment.")
        return cls(
            id=key,
            question=get_text(document, "question"),
            state=get_text(document, "state"),
            is_draft=document.get("is_draft") is True,
            cluster=get_text(document, "cluster"),
            owner=get_text(document, "owner"),
            created_at=get_text(document, "created_at"),
            launched_at=get_text(document, "launched_at"),
            page=get_text(document, "page") or f"/experiments/{key}/",
            raw=document,
        )


@dataclass(frozen=True)
class Check:
    """What a site says about an experiment file: its plan, where it is valid."""

    valid: bool
    plan: Document
    raw: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Check:
        """Return the check of an answer."""
        plan = document.get("plan")
        return cls(document.get("valid") is True, plan if isinstance(plan, dict) else {}, document)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be known before a launch, in sentences; it refuses nothing."""
        rows = self.raw.get("warnings")
        return tuple(str(row) for row in rows) if isinstance(rows, list) else ()

    def describe_plan(self) -> str:
        """Return the plan as a phrase: "20 runs, 10 blocks, 10 jobs, at most 3.5 GPU-hours".

        Without GPUs it has node-hours instead, where the site sends them.
        """
        names = ("runs", "blocks", "jobs")
        parts = [
            f"{self.plan[name]:,} {name[:-1] if self.plan[name] == 1 else name}"
            for name in names
            if isinstance(self.plan.get(name), int)
        ]
        for name, unit in (("gpu_hours_at_most", "GPU"), ("node_hours_at_most", "node")):
            if hours := get_number(self.plan, name):
                parts.append(f"at most {hours:.3g} {unit}-hours")
                break
        return ", ".join(parts)


@dataclass(frozen=True)
class ComparisonRow:
    """One environment against the baseline, in one configuration and one metric."""

    workload: str
    scale: str
    metric: str
    baseline: str
    environment: str
    unit: str
    ratio: float | None
    """Environment divided by baseline; 1 is no difference."""
    ci90_low: float | None
    ci90_high: float | None
    ci95_low: float | None
    ci95_high: float | None
    margin: float | None
    verdict: str
    sentence: str
    raw: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> ComparisonRow:
        """Return the row of an answer."""
        texts = {
            name: get_text(document, name)
            for name in (
                "workload", "scale", "metric", "baseline", "environment", "unit", "verdict",
                "sentence",
            )
        }  # fmt: skip
        numbers = {
            name: get_number(document, name)
            for name in ("ratio", "ci90_low", "ci90_high", "ci95_low", "ci95_high", "margin")
        }
        return cls(**texts, **numbers, raw=document)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Comparison:
    """The comparison of an experiment: all that its page says, by configuration."""

    experiment: int
    exit_word: str
    """equivalent, not_slower, faster, slower, inconclusive, failed or unfinished."""
    waiting: str
    """When the verdict comes, where there is none yet."""
    rows: tuple[ComparisonRow, ...]
    raw: Document = field(repr=False, compare=False)

    @property
    def exit_code(self) -> int:
        """The exit code of `tare compare`."""
        return choose_exit_code(self.exit_word)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the comparison says, over all configurations where there are several."""
        everywhere = [get_text(row, "sentence") for row in self.over_all]
        texts = everywhere or [row.sentence for row in self.rows]
        return tuple(text for text in texts or [get_text(self.raw, "sentence")] if text)

    @property
    def over_all(self) -> list[Document]:
        """One row for each environment over all configurations; empty where there is but one."""
        return get_documents(self.raw, "all_configurations")

    @classmethod
    def read(cls, experiment: int, document: Document) -> Comparison:
        """Return the comparison of an answer. Raises UnexpectedAnswer."""
        if not isinstance(document.get("exit_word"), str):
            raise UnexpectedAnswer("The answer is no comparison: it has no exit_word.")
        rows = [ComparisonRow.read(row) for row in get_documents(document, "comparison")]
        waiting = get_text(document, "waiting")
        return cls(experiment, document["exit_word"], waiting, tuple(rows), document)


@dataclass(frozen=True)
class RunningRun:
    """A run that is running now."""

    run: str
    environment: str
    phase: str
    step: int | None
    of_steps: int | None
    output_tail: str


@dataclass(frozen=True)
class Progress:
    """How far an experiment is."""

    state: str
    is_alive: bool
    """Whether anything may still happen; False: it has ended."""
    runs: Mapping[str, int]
    """How many runs are in each state: planned, running, succeeded, failed, ..."""
    seconds_left: float | None
    running: tuple[RunningRun, ...]
    problems: tuple[str, ...]
    """What it waits for, in sentences."""
    verdict: str
    """The sentence of the verdict, or when there will be one."""
    raw: Document = field(repr=False, compare=False)

    @property
    def n_runs(self) -> int:
        """How many runs the plan has."""
        return sum(self.runs.values())

    @property
    def n_ended(self) -> int:
        """How many of them have ended, however."""
        return sum(self.runs.get(state, 0) for state in ENDED)

    @classmethod
    def read(cls, document: Document) -> Progress:
        """Return the progress of an answer. Raises UnexpectedAnswer."""
        if not isinstance(document.get("is_alive"), bool):
            raise UnexpectedAnswer("The answer does not say how far the experiment is.")
        counts = get_document(document, "runs").items()
        problems = document.get("waiting_for", document.get("problems"))
        verdict = get_text(get_document(document, "verdict"), "sentence")
        return cls(
            state=get_text(document, "state"),
            is_alive=document["is_alive"],
            runs={name: n for name, n in counts if isinstance(n, int)},
            seconds_left=get_number(document, "seconds_left"),
            running=tuple(_read_running(row) for row in get_documents(document, "running")),
            problems=tuple(
                get_text(problem, "message") if isinstance(problem, dict) else str(problem)
                for problem in (problems if isinstance(problems, list) else ())
            ),
            verdict=get_text(document, "sentence") or verdict,
            raw=document,
        )


@dataclass(frozen=True)
class Series:
    """What a run recorded step by step in one metric."""

    run: str
    metric: str
    unit: str
    values: tuple[float | None, ...]
    steps: tuple[int, ...]
    """The number of the step of each value."""
    warm_up: int | None
    """How many values at the beginning are warm-up."""

    @classmethod
    def read(cls, run: str, document: Document) -> Series:
        """Return a series of an answer. Raises UnexpectedAnswer."""
        values, steps = document.get("values"), document.get("steps") or []
        warm_up = get_number(document, "warm_up")
        if not isinstance(values, list) or not isinstance(steps, list):
            raise UnexpectedAnswer("The answer has no series.")
        return cls(
            run,
            get_text(document, "metric"),
            get_text(document, "unit"),
            tuple(values),
            tuple(steps),
            None if warm_up is None else int(warm_up),
        )


def _read_running(document: Document) -> RunningRun:
    step, of_steps = get_number(document, "step"), get_number(document, "of_steps")
    return RunningRun(
        run=get_text(document, "run"),
        environment=get_text(document, "environment"),
        phase=get_text(document, "phase"),
        step=None if step is None else int(step),
        of_steps=None if of_steps is None else int(of_steps),
        output_tail=get_text(document, "output_tail"),
    )
