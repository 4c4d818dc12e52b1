"""The one door for text of experiment files: YAML 1.2 or JSON as a tree of values with places.

Of YAML it takes what JSON can say, and comments: no anchors, aliases, merge keys or tags. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from experiments.definitions.definition_problems import BadDefinition, Problem, shorten

WRITE_OUT = "are not allowed: write the value out in each place."
MOST_BYTES = 1_000_000
MOST_NODES = 20_000
DEEPEST = 16
LONGEST_INTEGER = 30
"""Digits: far more than anything here counts."""

NULL = re.compile(r"null|Null|NULL|~|")
TRUE, FALSE = re.compile(r"true|True|TRUE"), re.compile(r"false|False|FALSE")
INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)|[-+]?Infinity|NaN")
NOT_IN_YAML = re.compile("[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON has as they are, and YAML does not."""


@dataclass(frozen=True)
class Node:
    """A value of the file, with the line and column where it begins, from 1.

    `value` is a text, number, bool or None, a list of nodes, or a dict of names and nodes.
    """

    value: Any
    line: int
    column: int
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of a mapping: where each name stands."""

    def to_plain(self) -> Any:
        """Return the value with those of all nodes inside."""
        if isinstance(self.value, dict):
            return {name: node.to_plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.to_plain() for node in self.value]
        return self.value


def decode_text(content: str | bytes) -> str:
    """Return the text of a file. Raises BadDefinition unless it is UTF-8 of at most MOST_BYTES."""
    if isinstance(content, str):
        try:
            content = content.encode()
        except UnicodeEncodeError:
            raise BadDefinition([Problem("", "The text has half a surrogate pair.")]) from None
    if len(content) > MOST_BYTES:
        most = f"{MOST_BYTES // 1_000_000} MB"
        raise BadDefinition([Problem("", f"The file is larger than {most}, the most allowed.")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"Byte {error.start + 1} is not UTF-8. Save the file as UTF-8."
        raise BadDefinition([Problem("", message, line, column)]) from None


def read_tree(content: str | bytes) -> Node:
    """Return the root of the file's tree. Raises BadDefinition with all that is wrong in it."""
    root, problems = scan_tree(content)
    if problems:
        raise BadDefinition(problems)
    return root


def scan_tree(content: str | bytes) -> tuple[Node, list[Problem]]:
    """Return the root of the file's tree, and what it has that is not allowed.

    Raises BadDefinition where there is no tree: at the first place where the text is no YAML, or
    where it passes a limit.
    """
    text = decode_text(content)
    if NOT_IN_YAML.search(text) and _is_json(text):
        text = escape_for_yaml(text.replace("\t", " "))  # in JSON, tabs stand between values only
    # “safe”: “rt” would keep the comments, in ten times the time.
    builder = _Builder(iter(YAML(typ="safe", pure=True).parse(text)))
    try:
        return builder.read_document(), builder.problems
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        parts = [str(part) for part in (error.context, error.problem) if part]
        message = f"This is no YAML: {shorten(', '.join(parts), 200)}."
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise BadDefinition([*builder.problems, Problem("", message, *place)]) from None
    except BadDefinition:
        raise
    except (YAMLError, ValueError, OverflowError) as error:
        first_line = shorten(str(error).splitlines()[0] if str(error) else "not readable", 200)
        message = f"This is no YAML: {first_line}."
        raise BadDefinition([*builder.problems, Problem("", message)]) from None


def escape_for_yaml(text: str) -> str:
    """Return JSON with what YAML takes for ends of lines, or not at all, written as escapes."""
    return NOT_IN_YAML.sub(
        lambda match: " " if match[0] == "\t" else f"\\u{ord(match[0]):04x}", text
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class _Builder:
    """Makes the tree from the parser's events, and stops as soon as a limit is passed."""

    def __init__(self, parsed: Iterator[Any]) -> None:
        self.events = parsed
        self.problems: list[Problem] = []
        self.nodes = 0

    def read_document(self) -> Node:
        root: Node | None = None
        for event in self.events:
            if isinstance(event, events.DocumentStartEvent):
                if root is not None:
                    self._stop(event, "", "The file has a second document: keep one.")
                if event.version not in (None, (1, 2)):
                    self._add(event, "", "Only YAML 1.2 is read: leave the %YAML line out.")
                if event.tags:
                    self._add(event, "", "Tags are not allowed: leave the %TAG line out.")
            elif isinstance(event, events.NodeEvent):
                root = self._read_node(event, "", 0)
        if root is None:
            raise BadDefinition([Problem("", "The file is empty.", 1, 1)])
        return root

    def _read_node(self, event: Any, path: str, depth: int) -> Node:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            self._stop(event, path, f"The file has more than {MOST_NODES:,} values.")
        if depth > DEEPEST:
            self._stop(event, path, f"Values are nested deeper than {DEEPEST} levels.")
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, events.AliasEvent):
            self._add(event, path, f"Aliases (*{shorten(event.anchor)}) {WRITE_OUT}")
            return Node(None, line, column)
        if event.anchor:
            self._add(event, path, f"Anchors (&{shorten(event.anchor)}) {WRITE_OUT}")
        if event.tag is not None or event.ctag is not None:
            self._add(event, path, f"Tags ({shorten(event.tag or event.ctag)}) are not allowed.")
        if isinstance(event, events.ScalarEvent):
            return Node(self._read_scalar(event, path), line, column)
        if isinstance(event, events.SequenceStartEvent):
            items: list[Node] = []
            for inner in self.events:
                if isinstance(inner, events.SequenceEndEvent):
                    break
                items.append(self._read_node(inner, f"{path}[{len(items)}]", depth + 1))
            return Node(items, line, column)
        return self._read_mapping(path, depth, line, column)

    def _read_mapping(self, path: str, depth: int, line: int, column: int) -> Node:
        values: dict[str, Node] = {}
        keys: dict[str, tuple[int, int]] = {}
        for event in self.events:
            if isinstance(event, events.MappingEndEvent):
                break
            key = self._read_node(event, path, depth + 1)
            name = key.value
            if isinstance(event, events.ScalarEvent) and not isinstance(name, str):
                name = event.value  # 64: [..] names the text "64"
            if not isinstance(name, str):
                self._add(event, path, "A name has to be a text.")
                name = f"?{len(values)}"
            if name == "<<" and not event.style:
                self._add(event, path, "Merge keys (<<) are not allowed: write the values out.")
            inner = join_path(path, name)
            if name in keys:
                self._add(event, inner, f"“{shorten(name)}” stands here twice.")
            keys[name] = (key.line, key.column)
            values[name] = self._read_node(next(self.events), inner, depth + 1)
        return Node(values, line, column, keys)

    def _read_scalar(self, event: Any, path: str) -> Any:
        """Return a scalar's value by the core schema of YAML 1.2."""
        text = event.value
        if event.style in ("'", '"', "|", ">"):
            return self._read_text(event, path, text)
        if NULL.fullmatch(text):
            return None
        if TRUE.fullmatch(text) or FALSE.fullmatch(text):
            return bool(TRUE.fullmatch(text))
        if NOT_FINITE.fullmatch(text):
            self._add(event, path, f"{text} is no number that can be used.")
            return None
        if INTEGER.fullmatch(text) or OTHER_BASE.fullmatch(text):
            if len(text) > LONGEST_INTEGER:
                self._add(event, path, f"A number has at most {LONGEST_INTEGER} digits.")
                return None
            return int(text, 10 if INTEGER.fullmatch(text) else 0)
        if FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                self._add(event, path, f"{shorten(text)} is too large a number.")
                return None
            return number
        return self._read_text(event, path, text)

    def _read_text(self, event: Any, path: str, text: str) -> str:
        """Return the text with the pairs that JSON writes for one letter joined."""
        if "\0" in text:
            self._add(event, path, "The text has a NUL character.")
            return ""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._add(event, path, "The text has half a surrogate pair.")
            return ""

    def _add(self, event: Any, path: str, message: str) -> None:
        mark = event.start_mark
        self.problems.append(Problem(path, message, mark.line + 1, mark.column + 1))

    def _stop(self, event: Any, path: str, message: str) -> None:
        self._add(event, path, message)
        raise BadDefinition(self.problems)


def join_path(path: str, name: str) -> str:
    """Return the path of a member: `design.repeats`."""
    return f"{path}.{name}" if path else name


def is_plain_text(text: str) -> bool:
    """Return whether the core schema reads a text that stands without quotes as this text."""
    patterns = (NULL, TRUE, FALSE, NOT_FINITE, INTEGER, OTHER_BASE, FLOAT)
    return not any(pattern.fullmatch(text) for pattern in patterns)
