"""Reading the file of a study: what its experiments have in common, and what each of them changes.

What stands beside `experiments` is common to all; what stands in an entry replaces the common field
as a whole. Each entry is then read as the file of one experiment is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.definitions import definition_fields as fields
from experiments.definitions.definition import Definition, Place, find_place
from experiments.definitions.definition_problems import BadDefinition, Problem
from experiments.definitions.definition_reading import read_root
from experiments.definitions.part_reader import PartReader
from experiments.definitions.yaml_tree import Node, decode_text, scan_tree

MOST_EXPERIMENTS = 50
STUDY, EXPERIMENTS = "study", "experiments"
LONGEST_NAME = 200
OWN_KEYS = ("tare", STUDY, "notes", EXPERIMENTS)
"""Names at the top of the file that no experiment takes over; notes there are the study's."""
STUDY_KEYS = (
    *("tare", STUDY),
    *(name for name in fields.TOP_KEYS if name != "tare"),
    EXPERIMENTS,
)
"""All names at the top of the file, in the order in which Tare writes them."""
ENTRY_KEYS = tuple(name for name in fields.TOP_KEYS if name != "tare")
IS_STUDY = "This is the file of a study: several experiments."


@dataclass(frozen=True, kw_only=True)
class StudyDefinition:
    """A study, as its file defines it."""

    name: str
    question: str
    notes: str
    visibility: str
    """ "" for what is usual."""
    groups: tuple[str, ...]
    experiments: tuple[Definition, ...]
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)

    def says_the_same(self, other: StudyDefinition) -> bool:
        """Return whether both define one study; how the file parts it does not matter."""
        return (
            self.list_own_values() == other.list_own_values()
            and len(self.experiments) == len(other.experiments)
            and all(map(Definition.says_the_same, self.experiments, other.experiments))
        )

    def list_own_values(self) -> tuple[Any, ...]:
        """Return what it says of the study itself."""
        return self.name, self.question, self.notes, self.visibility, self.groups

    def lead_back(self, number: int, problem: Problem) -> Problem:
        """Return a problem of an experiment with the entry of the file that it is about.

        Its line is where the value stands, which may be beside all entries.
        """
        path = f"{EXPERIMENTS}[{number}]"
        inner = f"{path}.{problem.field}" if problem.field else path
        if problem.field and problem.line is not None:
            return Problem(inner, problem.message, problem.line, problem.column)
        return Problem(inner, problem.message, *(find_place(self.places, path) or (None, None)))


def is_study(content: str | bytes) -> bool:
    """Return whether the text is the file of a study, by the names at its top."""
    try:
        root, _ = scan_tree(content)
    except BadDefinition:
        return False
    return isinstance(root.value, dict) and bool(root.value.keys() & {STUDY, EXPERIMENTS})


def read_study(content: str | bytes) -> StudyDefinition | tuple[Problem, ...]:
    """Return what the file defines, or all its problems in the order of the lines."""
    try:
        return parse_study(content)
    except BadDefinition as error:
        return error.problems


def parse_study(content: str | bytes) -> StudyDefinition:
    """Return what the file defines. Raises BadDefinition with all problems."""
    text = decode_text(content)
    reader = PartReader()
    root, reader.problems = scan_tree(content)
    reader.note_places(root, "")
    table = reader.read_table(root, "", STUDY_KEYS)
    if isinstance(root.value, dict):
        _check_top(reader, table)
    entries = _list_entries(reader, root, table)
    common = {name: node for name, node in table.items() if name not in OWN_KEYS}
    definitions = _read_entries(reader, root, common, entries, text)
    values = _read_own_values(reader, table)
    if reader.problems:
        raise BadDefinition(reader.problems)
    return StudyDefinition(
        **values,
        experiments=tuple(definitions),
        places=dict(reader.places),
        text=text,
    )


def _check_top(reader: PartReader, table: Mapping[str, Node]) -> None:
    number = table["tare"].value if "tare" in table else None
    if number is None:
        reader.add("tare", "The file has to begin with “tare: 1”, its format.")
    elif number != fields.FORMAT or isinstance(number, bool):
        reader.add("tare", f"This Tare reads the format 1, not {str(number)[:60]}.")
    if STUDY not in table:
        reader.add(STUDY, "“study” is missing: the name of the study.")


def _list_entries(reader: PartReader, root: Node, table: Mapping[str, Node]) -> list[Node]:
    """Return the entries that are tables; what is wrong goes to `reader`."""
    if EXPERIMENTS not in table:
        if isinstance(root.value, dict):
            reader.add(EXPERIMENTS, "“experiments” is missing: a list, an entry for each.")
        return []
    rows = table[EXPERIMENTS].value
    if not isinstance(rows, list):
        reader.add(EXPERIMENTS, "This is to be a list: each entry begins with a dash.")
        return []
    if not rows:
        reader.add(EXPERIMENTS, "The study has no experiment: list at least one.")
    if len(rows) > MOST_EXPERIMENTS:
        message = f"There are {len(rows):,}; a study has at most {MOST_EXPERIMENTS} experiments."
        reader.add(EXPERIMENTS, message)
        return []
    tables = []
    for number, row in enumerate(rows):
        reader.read_table(row, f"{EXPERIMENTS}[{number}]", ENTRY_KEYS)
        if isinstance(row.value, dict):
            tables.append(row)
    return tables if len(tables) == len(rows) else []


def _read_entries(
    reader: PartReader,
    root: Node,
    common: Mapping[str, Node],
    entries: list[Node],
    text: str,
) -> list[Definition]:
    definitions: list[Definition] = []
    absent: list[Problem] = []
    for number, entry in enumerate(entries):
        own = {name: node for name, node in entry.value.items() if name in ENTRY_KEYS}
        merged = Node(
            {"tare": Node(fields.FORMAT, entry.line, entry.column), **common, **own},
            entry.line,
            entry.column,
            {
                "tare": (entry.line, entry.column),
                **{name: root.keys[name] for name in common},
                **{name: entry.keys[name] for name in own},
            },
        )
        inner = PartReader()
        definitions.append(read_root(inner, merged, text))
        for problem in inner.problems:
            name = problem.field.partition(".")[0].partition("[")[0]
            if name in own or name not in common:
                path = f"{EXPERIMENTS}[{number}].{problem.field}".rstrip(".")
                problem = Problem(path, problem.message, problem.line, problem.column)
            if name in own or name in common:  # of what is common it is said once
                reader.problems.append(problem)
            else:
                absent.append(problem)
    reader.problems += _join_absent(absent, len(entries), reader.places.get(""))
    return definitions


def _join_absent(
    problems: Iterable[Problem], entries: int, place: Place | None
) -> Iterable[Problem]:
    """Return what is missing: once, for the file, where it is missing in all entries."""
    rows = [(row, row.field.partition("].")[2], row.message) for row in problems]
    counts = Counter((field, message) for _, field, message in rows)
    joined = {
        (name, message): Problem(name, message, *(place or (None, None)))
        for (name, message), count in counts.items()
        if count == entries and entries > 1
    }
    return dict.fromkeys(joined.get((name, message), row) for row, name, message in rows)


def _read_own_values(reader: PartReader, table: Mapping[str, Node]) -> dict[str, Any]:
    """Return what the file says of the study itself; values that entries share are judged there."""
    written = table[STUDY].value if STUDY in table else ""
    name = " ".join(written.split()) if isinstance(written, str) else ""
    if STUDY in table and not isinstance(written, str):
        reader.add(STUDY, "This is to be a text: the name of the study.")
    elif STUDY in table and not name:
        reader.add(STUDY, "The study has no name.")
    elif len(name) > LONGEST_NAME:
        reader.add(STUDY, f"It has {len(name):,} characters; {LONGEST_NAME} at most.")
    values: dict[str, Any] = {"name": name}
    for key in ("question", "notes", "visibility", "groups"):
        row = fields.BY_PATH[key]
        values[key] = row.default or ""
        if key in table:
            try:
                values[key] = row.parse(table[key].to_plain())
            except ValueError as error:
                reader.add(key, str(error))
    values["groups"] = tuple(values["groups"])
    if len(values["question"] or "") > fields.LONGEST_TEXT:
        reader.add("question", f"It has more than {fields.LONGEST_TEXT} characters.")
    return values
