"""The door for files with results: every text that is pasted or uploaded becomes a sheet here.

A format is a module with `FORMAT`, and its place in `FORMATS`: page, docs and tests follow.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from experiments.statistics.published.columns import recognise
from experiments.statistics.published.formats import (
    delimited,
    google_benchmark,
    hyperfine,
    latex,
    markdown,
    mlflow,
    mlperf,
    pyperf,
    pytest_benchmark,
    reframe,
    wandb,
)
from experiments.statistics.published.formats.base import Format
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import MOST_COLUMNS, MOST_ROWS, NOT_TEXT, Sheet

FORMATS: tuple[Format, ...] = (
    hyperfine.FORMAT,
    pytest_benchmark.FORMAT,
    google_benchmark.FORMAT,
    pyperf.FORMAT,
    mlperf.FORMAT,
    reframe.FORMAT,
    mlflow.FORMAT,
    wandb.FORMAT,
    markdown.FORMAT,
    latex.FORMAT,
    delimited.FORMAT,
)
"""The first that recognises a text reads it; the last one takes any."""
FILE_LINE = re.compile(r"^==> (.{1,200}) <==[ \t]*$", re.MULTILINE)
"""The line before each of several files, as `head` and `tail` write it."""
MOST_FILES = 100


def join_files(files: Sequence[tuple[str, str]]) -> str:
    """Return several files as one text, each after a line with its name; of one its text alone."""
    if len(files) == 1:
        return files[0][1]
    return "\n".join(f"==> {name} <==\n{text.strip()}\n" for name, text in files)


def read_sheet(text: str, decimal: str = "") -> Sheet:
    """Read a text in whatever format it is; `decimal` is "point" or "comma" where a person says it.

    TableError: no format that is read, too large, or what is wrong with it, by row and column.
    """
    if not text.strip():
        raise TableError("The file is empty.")
    # A terminal's colours, or something that only looks like text.
    if any(character < " " and character not in "\t\r\n\f" for character in set(text)):
        raise TableError(NOT_TEXT)
    pieces = FILE_LINE.split(text)
    if len(pieces) == 1:
        return _check(_read_file(text, decimal))
    if pieces[0].strip():
        raise TableError(f"There is text before the first file, {pieces[1]}.")
    names, texts = pieces[1::2], pieces[2::2]
    if len(names) > MOST_FILES:
        raise TableError(f"These are {len(names)} files; {MOST_FILES} are read at most.")
    sheets = []
    for name, content in zip(names, texts, strict=True):
        try:
            sheets.append(_read_file(content, decimal))
        except TableError as error:
            raise TableError(f"{name}: {error}", error.others) from None
    return _check(_join_sheets(names, sheets))


def recognise_format(text: str) -> Format:
    """Return the format of a text of one file."""
    return next(each for each in FORMATS if each.recognise(text))


def _read_file(text: str, decimal: str) -> Sheet:
    if not text.strip():
        raise TableError("The file is empty.")
    file_format = recognise_format(text)
    try:
        return file_format.read(text, decimal)
    except TableError as error:
        message = str(error)
        if file_format is FORMATS[-1] or message.startswith("This "):
            raise
        raise TableError(f"This is {file_format.name}. {message}", error.others) from None


def _join_sheets(names: Sequence[str], sheets: Sequence[Sheet]) -> Sheet:
    """Return the rows of several files with the file as their environment.

    What was the environment inside each file tells configurations apart, unless it tells nothing.
    """
    first = sheets[0]
    if len({sheet.format for sheet in sheets}) > 1:
        kinds = ", ".join(
            f"{name} is {sheet.format}" for name, sheet in zip(names, sheets, strict=True)
        )
        raise TableError(f"The files are of several kinds: {kinds}. Choose files of one kind.")
    for attribute, words in (("n", "numbers of runs"), ("spread", "kinds of spread")):
        if len({getattr(sheet, attribute) for sheet in sheets}) > 1:
            raise TableError(
                f"The files say different {words}, or only some of them do: "
                + ", ".join(
                    f"{name} {getattr(sheet, attribute) or 'nothing'}"
                    for name, sheet in zip(names, sheets, strict=True)
                )
                + ". Give them a column in each file."
            )
    stems = [_make_stem(name, sheets[0].format) for name in names]
    if first.format != mlperf.FORMAT.name and len(set(stems)) < len(stems):
        raise TableError("Two files have the same name; the name is the environment.")
    header = list(dict.fromkeys(name for sheet in sheets for name in sheet.header))
    if "file" in header:
        raise TableError("The files have a column called file; name it otherwise.")
    rows = []
    for stem, sheet in zip(stems, sheets, strict=True):
        for _, fields in sheet.rows:
            cells = dict(zip(sheet.header, fields, strict=True))
            rows.append([stem, *(cells.get(name, "") for name in header)])
    roles = {name: role for sheet in sheets for name, role in sheet.roles.items()}
    roles = roles or _roles_by_name(sheets)
    differing: list[str] = []
    for name, role in roles.items():
        if role == "environment" and len(set(stems)) > 1:
            alone = all(len(set(sheet.column(name))) == 1 for sheet in sheets)
            roles[name] = "ignore" if alone else "label"
            values = list(dict.fromkeys(value for sheet in sheets for value in sheet.column(name)))
            if alone and len(values) > 1:
                differing.append(f"Not compared, though it differs: {name} {', '.join(values)}.")
    file_role = "environment" if len(set(stems)) > 1 else "ignore"
    return replace(
        first,
        header=["file", *header],
        rows=list(enumerate(rows, 2)),
        roles={"file": file_role, **roles},
        metrics=tuple(dict.fromkeys(name for sheet in sheets for name in sheet.metrics)),
        notes=(
            *dict.fromkeys(note for sheet in sheets for note in sheet.notes),
            f"{len(sheets)} files; the name of a file is its environment.",
            *differing,
        ),
        doubts={name: doubt for sheet in sheets for name, doubt in sheet.doubts.items()},
    )


def _roles_by_name(sheets: Sequence[Sheet]) -> dict[str, str]:
    return {name: role for sheet in sheets for name, role in recognise(sheet, {}).items()}


def _make_stem(name: str, format_name: str) -> str:
    stem = re.sub(r".*[/\\]", "", name)
    stem = re.sub(r"\.(json|csv|tsv|txt|log|md|tex)$", "", stem, flags=re.IGNORECASE) or name
    # MLPerf's rules call the log of each run result_0.txt, result_1.txt ...
    return re.sub(r"_\d+$", "", stem) if format_name == mlperf.FORMAT.name else stem


def _check(sheet: Sheet) -> Sheet:
    """Return the sheet. TableError: more rows or columns than a table may have, names twice."""
    if len(sheet.header) > MOST_COLUMNS:
        raise TableError(f"Row 1 has more than {MOST_COLUMNS} columns.")
    if len(sheet.rows) > MOST_ROWS:
        raise TableError(f"The file has more than {MOST_ROWS:,} rows. One row a run is due.")
    if len(set(sheet.header)) < len(sheet.header):
        raise TableError("Two columns have the same name.")
    return sheet
