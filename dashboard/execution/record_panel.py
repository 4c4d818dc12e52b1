"""The panel of a run's page that says what ran, of what it consisted, and what is kept of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.execution.record_documents import (
    list_inside_command,
    list_missing,
    list_modules,
    list_modules_outside,
)
from experiments.loaded_files import LoadedFile, LoadedFiles, describe_in_a_sentence, read_loaded
from experiments.models import Run, StoredRecord
from experiments.snapshots import list_patches
from experiments.statistics import numbers

MOST_NAMED = 5
"""Changed files of a checkout; the document has more."""


@dataclass(frozen=True)
class ProgramFile:
    """A file that the program of a run consists of."""

    word: str
    path: str
    size_bytes: int | None
    sha256: str
    note: str


@dataclass(frozen=True)
class LoadedRow:
    """A loaded library with what is to be noticed of it."""

    file: LoadedFile
    marks: str


@dataclass(frozen=True)
class RecordPanel:
    """What the panel shows of one run."""

    command: str
    """As it was started inside the environment."""
    program: list[ProgramFile]
    linked_count: int
    checkouts: list[str]
    """A sentence for each git checkout that a file of the program lies in."""
    patch_bytes: int
    """Of the text of what had changed in these; 0 if there is none."""
    loaded: list[LoadedRow]
    loaded_sentence: str
    reading_sentence: str
    unlisted_count: int
    """Loaded files that the page does not list; the document has them."""
    modules: list[str]
    """Environment modules by their variables inside the environment."""
    modules_outside: list[str]
    stored: StoredRecord | None
    missing: list[str]


def describe_record_panel(run: Run, content: Mapping[str, Any]) -> RecordPanel | None:
    """Return the panel of a run that has ended; None where nothing was recorded of it.

    `content` is what its snapshots say of both sides of the container wall.
    """
    stored: StoredRecord | None = getattr(run, "stored_record", None)
    inside = content.get("inside") or {}
    if not run.is_final or run.experiment.imported_at or not (stored or inside):
        return None
    in_container = bool(run.spec.get("environment", {}).get("image_path"))
    loaded = read_loaded(inside, in_container=in_container)
    listed = loaded.listed if loaded else []
    program = _take_table(inside.get("program"))
    return RecordPanel(
        command=shlex.join(list_inside_command(stored)),
        program=_list_program_files(program.get("files")),
        linked_count=len(_take_table(program.get("libraries"))),
        checkouts=describe_checkouts(program.get("checkouts") or {}),
        patch_bytes=sum(len(patch.encode()) for patch in list_patches(inside).values()),
        loaded=[LoadedRow(file, "; ".join(loaded.list_marks(file))) for file in listed]
        if loaded
        else [],
        loaded_sentence=describe_in_a_sentence(loaded) if loaded else "",
        reading_sentence=_describe_readings(stored, loaded),
        unlisted_count=len(loaded.files) - len(listed) if loaded else 0,
        modules=list_modules(inside),
        modules_outside=list_modules_outside(content),
        stored=stored,
        missing=list_missing(run, content, stored),
    )


def _take_table(value: Any) -> Mapping[str, Any]:
    """Return a part of a snapshot; an empty one if an older or an imported one has another type."""
    return value if isinstance(value, Mapping) else {}


def _list_program_files(files: Any) -> list[ProgramFile]:
    rows = []
    for file in files if isinstance(files, list) else []:
        if isinstance(file, Mapping):
            size = file.get("bytes")
            is_python = "the environment’s Python" if file.get("is_python") else ""
            rows.append(
                ProgramFile(
                    str(file.get("word", "")),
                    str(file.get("path", "")),
                    size if isinstance(size, int) else None,
                    str(file.get("sha256") or ""),
                    str(file.get("problem") or is_python),
                )
            )
    return rows


def leave_out_checkouts(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a snapshot without git checkouts, whose commits tell who made them."""
    inside = content.get("inside")
    program = inside.get("program") if isinstance(inside, Mapping) else None
    if not isinstance(inside, Mapping) or not isinstance(program, Mapping):
        return dict(content)
    others = {name: value for name, value in program.items() if name != "checkouts"}
    return {**content, "inside": {**inside, "program": others}}


def describe_checkouts(checkouts: Any) -> list[str]:
    """Return of each checkout its commit, and whether its files were as they were committed."""
    sentences = []
    for folder, facts in sorted(_take_table(checkouts).items()):
        facts = _take_table(facts)
        commit = str(facts.get("commit") or "unknown")[:12]
        branch = f" ({facts['branch']})" if facts.get("branch") else ""
        count = facts.get("changed")
        if not isinstance(count, int):
            state = f"not compared: {facts.get('not_compared', 'no reason')}"
        elif count:
            listed = facts.get("changed_files")
            names = [str(name) for name in listed if name] if isinstance(listed, list) else []
            names = names[:MOST_NAMED]
            more = f" and {count - len(names)} more" if count > len(names) else ""
            state = f"{numbers.count(count, 'file')} changed since: {', '.join(names)}{more}"
            state += _describe_left_out(facts)
        else:
            state = "no file changed since"
        sentences.append(f"{folder} at commit {commit}{branch}, {state}.")
    return sentences


def _describe_left_out(facts: Mapping[str, Any]) -> str:
    """Return which changes are not in the recorded text, and why; "" if all are."""
    rows = facts.get("left_out")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    if not rows:
        return ""
    texts = [f"{row.get('file')} ({row.get('reason')})" for row in rows[:MOST_NAMED]]
    count = facts.get("left_out_count")
    more = count - len(texts) if isinstance(count, int) else 0
    return f"; without the text of {', '.join(texts)}" + (f" and {more} more" if more > 0 else "")


def _describe_readings(stored: StoredRecord | None, loaded: LoadedFiles | None) -> str:
    """Return when it was read what was loaded: what came and went in between was not seen."""
    facts = (stored.facts.get("loaded") if stored else None) or {}
    if not loaded:
        return ""
    if facts.get("own"):
        return "Read at the end of the measuring process, and of its children that still ran."
    count, last = facts.get("readings"), facts.get("last_reading_seconds")
    if not count or last is None:
        return ""
    return f"Read {count} times while the program ran, last after {last:,.1f} s."
