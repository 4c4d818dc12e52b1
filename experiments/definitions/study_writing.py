"""Writing the file of a study: what all experiments have in common stands once, beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from experiments.definitions.definition_fields import BY_PATH, FORMAT
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.definition_writing import (
    dump_yaml,
    make_yaml,
    merge_value,
    to_commented,
    to_document,
)
from experiments.definitions.study_reading import (
    ENTRY_KEYS,
    EXPERIMENTS,
    STUDY,
    STUDY_KEYS,
    StudyDefinition,
    parse_study,
)
from experiments.definitions.yaml_tree import escape_for_yaml

Document = Mapping[str, Any]
OF_THE_STUDY = ("question", "visibility", "groups")
"""What the study says of itself, and of each experiment that says nothing else."""
PLACE = ("cluster", "partition")
"""What each entry says, also where there is one entry only."""


def to_study_document(study: StudyDefinition) -> dict[str, Any]:
    """Return the study as plain values, in the order of the file."""
    documents = [to_document(row) for row in study.experiments]
    top: dict[str, Any] = {"tare": FORMAT, STUDY: study.name, **_write_own_values(study)}
    for name in ENTRY_KEYS:
        if name in (*OF_THE_STUDY, "notes") or (name in PLACE and len(documents) == 1):
            continue
        first = documents[0].get(name) if documents else None
        if first is not None and all(row.get(name) == first for row in documents):
            top[name] = first
    top[EXPERIMENTS] = [_write_entry(row, top) for row in documents]
    return {name: top[name] for name in STUDY_KEYS if name in top}


def write_study_json(study: StudyDefinition) -> str:
    """Return the study as JSON."""
    text = json.dumps(to_study_document(study), indent=2, ensure_ascii=False)
    return escape_for_yaml(text) + "\n"


def write_study_yaml(study: StudyDefinition, *, heading: str = "") -> str:
    """Return the study as YAML; `heading` becomes comments at its top."""
    lines = "".join(f"# {line}\n" for line in heading.splitlines())
    return lines + dump_yaml(to_commented(to_study_document(study)))


def rewrite_study_yaml(text: str, study: StudyDefinition) -> str:
    """Return `text` changed to say what `study` says, with the comments that can stay.

    Where that does not succeed, as with another number of experiments, it is written anew.
    """
    is_json = text.lstrip().startswith("{")
    try:
        before = parse_study(text)
        stored = make_yaml().load(text)
        if not is_json and len(before.experiments) == len(study.experiments):
            _merge_study(stored, before, study)
            changed = dump_yaml(stored)
            if parse_study(changed).says_the_same(study):
                return changed
    except (YAMLError, BadDefinition, ValueError, TypeError, AttributeError, KeyError):
        pass  # an odd text: it was kept for its comments alone
    return write_study_json(study) if is_json else write_study_yaml(study)


def _write_own_values(study: StudyDefinition) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in (*OF_THE_STUDY, "notes"):
        value = getattr(study, name)
        if value:
            values[name] = BY_PATH[name].write(value)
    return values


def _write_entry(document: Document, top: Document) -> dict[str, Any]:
    entry = {
        name: document[name]
        for name in ENTRY_KEYS
        if name in document and (name == "notes" or top.get(name) != document[name])
    }
    if "visibility" in entry and "groups" in top:
        entry.setdefault("groups", [])
    return entry


def _merge_study(stored: CommentedMap, before: StudyDefinition, after: StudyDefinition) -> None:
    """Change in the table of a file what differs between what it says and what it is to say."""
    entries: CommentedSeq = stored[EXPERIMENTS]
    old_rows = [to_document(row) for row in before.experiments]
    new_rows = [to_document(row) for row in after.experiments]
    stored_names = set(stored)
    _set(stored, STUDY, before.name, after.name)
    own_before, own_after = _write_own_values(before), _write_own_values(after)
    _set(stored, "notes", own_before.get("notes"), own_after.get("notes"))
    for name in ENTRY_KEYS:
        if name == "notes":
            inheriting: list[int] = []
        else:
            inheriting = [
                number
                for number, entry in enumerate(entries)
                if name in stored_names and name not in entry
            ]
        if name in OF_THE_STUDY:
            _set(stored, name, own_before.get(name), own_after.get(name))
            common = own_after.get(name)
        else:
            common = _choose_common([new_rows[number].get(name) for number in inheriting])
            if common is None and inheriting:
                common = old_rows[inheriting[0]].get(name)
            elif inheriting:
                _set(stored, name, old_rows[inheriting[0]].get(name), common)
        for number, entry in enumerate(entries):
            old, new = old_rows[number].get(name), new_rows[number].get(name)
            if number in inheriting:
                if new != common:
                    entry[name] = to_commented(new)
            elif old != new:
                _set(entry, name, old, new, is_common=name in stored)


def _choose_common(values: Sequence[Any]) -> Any:
    """Return the value that all of these are; None where they differ, or are not there."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _set(table: CommentedMap, name: str, old: Any, new: Any, *, is_common: bool = False) -> None:
    """Set a value of a table; one that is gone leaves it, or hides the one beside the entries."""
    if old == new:
        return
    if new is None and is_common:
        table[name] = None
    elif new is None:
        table.pop(name, None)
    elif name in table and old is not None:
        table[name] = merge_value(table[name], old, new)
    else:
        table[name] = to_commented(new)
