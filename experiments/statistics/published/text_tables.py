"""From rows of text to a sheet: titles and notes, index columns, two numbers in one cell."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from experiments.statistics.published import cells
from experiments.statistics.published.columns import split_column_name, tells_decimals
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import MOST_COLUMNS, SPREAD, Sheet
from experiments.statistics.published.systems import gather_systems

Rows = list[tuple[int, list[str]]]
TWO_NUMBERS = re.compile(
    r"(?P<mean>.+?)\s*(?:(?:±|\+/-|\+-)\s*(?P<spread>.+)|\((?P<inside>[\d.,]+)\))"
)
CONCISE = re.compile(r"[\d.,]*[.,]\d+\s*\(\d+\)")
INDEX_NAMES = re.compile(r"(?:Unnamed: ?\d+|index)?", re.IGNORECASE)
NOTE_START = re.compile(
    r"\W*(?:notes?|sources?|legend|values?|all|means?|each|where|times?|table|n\s*=|\d+ runs)\b"
    r"|[*#†‡]",
    re.IGNORECASE,
)
# N of a matrix, and "n = 2 nodes", count no runs: what else stands behind the number is asked for.
RUNS_IN_NOTE = re.compile(
    r"\bn\s*=\s*(\d+)(?=\s*(?:(?:runs?|repetitions?|repeats?|times|each|for (?:every|each|all)"
    r"|per (?:mean|value|cell|row))\b|[;:)\]±*†]|\+/-|\.?\s*$))"
)
SPREAD_IN_NOTE = re.compile(
    r"(?:±|\+/-|\()\s*(?:(?P<sd>sd\b|s\.d\.|std|standard deviation)"
    r"|(?P<se>sem?\b|s\.e\.|standard error))",
    re.IGNORECASE,
)


def make_sheet(rows: Rows, *, decimal: str = "", kind: str = "a table") -> Sheet:
    """Return the sheet of a table's rows as they stand, of which the first ones may be titles.

    TableError: a row that does not fit its header, names that are missing or there twice.
    """
    rows, notes = separate_notes(rows)
    names = rows.pop(0)[1] if rows else []
    if not names:
        raise TableError("The file is empty.")
    if len(names) > MOST_COLUMNS:
        raise TableError(f"Row 1 has more than {MOST_COLUMNS} columns.")
    for number, fields in rows:
        if len(fields) != len(names):
            raise TableError(f"Row {number} has {len(fields)} fields, the header has {len(names)}.")
    if not rows:
        raise TableError("The file has a header and no rows.")
    names, rows, index_notes = _without_index(names, rows)
    if repeated := [name for i, name in enumerate(names) if not name or name in names[:i]]:
        raise TableError(f"Row 1: the column {repeated[0]!r} is nameless or there twice.")
    columns = {name: [fields[k] for _, fields in rows] for k, name in enumerate(names)}
    columns = _split_cells(columns)
    columns, unit_notes = _name_units(columns, rows)
    columns, doubts, number_notes = _read_numbers(columns, decimal)
    sheet = Sheet(
        list(columns),
        [
            (number, list(fields))
            for (number, _), fields in zip(rows, zip(*columns.values(), strict=True), strict=True)
        ],
        format=kind,
        notes=(*index_notes, *unit_notes, *number_notes),
        doubts=doubts,
    )
    return gather_systems(_apply_notes(sheet, notes))


def holds_number(text: str) -> bool:
    """Return whether a cell is a number, perhaps with its unit or its spread, and no name."""
    mean = _split_cell(text)[0]
    return bool(
        cells.NUMBER.fullmatch(cells.SPACES.sub("", mean)) or cells.WITH_UNIT.fullmatch(mean)
    )


def separate_notes(rows: Rows) -> tuple[Rows, list[str]]:
    """Return the rows of the table itself, and the text of the lines above and below it."""
    widths = Counter(len(fields) for _, fields in rows)
    width = max(widths, key=lambda each: (widths[each], each), default=0)
    notes: list[str] = []
    start = 0
    while start < len(rows) - 1 and _is_title(rows[start][1], width):
        notes.append(_join(rows[start][1]))
        start += 1
    rows = rows[start:]
    below: list[str] = []
    while len(rows) > 1 and _is_note(rows[-1][1], width):
        below.append(_join(rows.pop()[1]))
    return rows, [*notes, *reversed(below)]


def _is_title(fields: Sequence[str], width: int) -> bool:
    filled = [text for text in fields if text]
    if len(fields) == width:
        is_alone = width > 2 and len(filled) == 1 and bool(fields[0])
        # A header may begin with #gpus; a comment seldom fills as many columns as the table has.
        return is_alone or (fields[0].startswith("#") and len(filled) < width)
    return len(filled) < width and not any(map(cells.find_decimal, filled))


def _is_note(fields: Sequence[str], width: int) -> bool:
    filled = [text for text in fields if text]
    if len(fields) == width and len(filled) > 1:
        return False
    return (len(filled) == 1 and len(fields[0].split()) > 1) or bool(NOTE_START.match(fields[0]))


def _join(fields: Sequence[str]) -> str:
    return ", ".join(filter(None, fields))


def _without_index(names: list[str], rows: Rows) -> tuple[list[str], Rows, list[str]]:
    """Leave out the index that pandas writes as the first column; name one that says something."""
    if len(names) < 2 or not INDEX_NAMES.fullmatch(names[0]):
        return names, rows, []
    index = [fields[0] for _, fields in rows]
    if all(text.isascii() and text.isdigit() for text in index):
        note = f"The first column, {names[0] or 'without a name'}, is an index and left out."
        return names[1:], [(number, fields[1:]) for number, fields in rows], [note]
    return [names[0] or "index", *names[1:]], rows, []


def _split_cells(columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Give the spreads that are in one cell with their mean a column of their own."""
    result: dict[str, list[str]] = {}
    for name, texts in columns.items():
        parts = [_split_cell(text) for text in texts]
        if not any(spread for _, spread in parts) or name + SPREAD in columns:
            result[name] = texts
            continue
        result[name] = [mean for mean, _ in parts]
        result[name + SPREAD] = [spread for _, spread in parts]
    return result


def _split_cell(text: str) -> tuple[str, str]:
    """Return both numbers of "3710 ± 10" or "1234.5 (8.1)"; 1.234(5) is left as it is."""
    match = TWO_NUMBERS.fullmatch(text) if len(text) <= 2 * cells.LONGEST else None
    if not match or CONCISE.fullmatch(text):
        return text, ""
    if match["spread"]:
        return match["mean"], match["spread"]
    is_number = cells.NUMBER.fullmatch(cells.SPACES.sub("", match["mean"]))
    return (match["mean"], match["inside"]) if is_number else (text, "")


def _name_units(
    columns: Mapping[str, list[str]], rows: Rows
) -> tuple[dict[str, list[str]], list[str]]:
    """Move the unit that every cell of a column has behind its number into the column's name."""
    result: dict[str, list[str]] = {}
    notes = []
    for name, texts in columns.items():
        plain, units = cells.split_units(texts)
        if len(units) > 1:
            row = next(
                number
                for (number, _), text in zip(rows, texts, strict=True)
                if text and cells.split_units([text])[1] != cells.split_units([texts[0]])[1]
            )
            raise TableError(
                f"Row {row}, column {name}: mixed units, {' and '.join(sorted(units))} in one "
                "column. Write all of them in the same unit."
            )
        unit = next(iter(units), "")
        if unit and name.endswith(SPREAD):
            _check_spread_unit(name, unit, columns, rows)
        new = name
        if unit and not name.endswith(SPREAD):
            new = f"{name} %" if unit == "%" else f"{name} ({unit})"
        if unit and new not in columns and new not in result:
            notes.append(f"Unit of {name}: {unit}, from its cells.")
            result[new] = plain
        else:
            result[name] = plain if unit else texts
    return result, notes


def _check_spread_unit(name: str, unit: str, columns: Mapping[str, list[str]], rows: Rows) -> None:
    """Raise TableError where a spread has another unit than its mean: 3.71 s ± 50 ms."""
    mean = name.removesuffix(SPREAD)
    _, units = cells.split_units(columns.get(mean, []))
    of_mean = next(iter(units), "") or split_column_name(mean)[1]
    if unit == of_mean:
        return
    advice = (
        "Give the coefficient of variation a column of its own, CV %."
        if unit == "%"
        else "Write both in the same unit."
    )
    raise TableError(
        f"Row {rows[0][0]}, column {mean}: mixed units, {of_mean or 'none'} and {unit} in one "
        f"column. {advice}"
    )


def _read_numbers(
    columns: Mapping[str, list[str]], decimal: str
) -> tuple[dict[str, list[str]], dict[str, str], list[str]]:
    """Return the columns with decimal points, why some are in doubt, and what was understood."""
    chosen: cells.Decimal | None = decimal if decimal in ("point", "comma") else None  # type: ignore[assignment]
    measured = tells_decimals([*columns])
    signs = {name: cells.read_numbers(texts).decimal for name, texts in columns.items()}
    certain: set[cells.Decimal] = {
        sign
        for name, sign in signs.items()
        if sign
        and name in measured
        and any(cells.find_decimal(text) == sign for text in columns[name])
    }
    result, doubts = {}, {}
    changed = ""
    for name, texts in columns.items():
        numbers = cells.read_numbers(texts, chosen=chosen, beside=certain)
        result[name] = numbers.texts
        concise = next((text for text in texts if CONCISE.fullmatch(text)), "")
        if concise:
            doubts[name] = (
                f"in {concise!r} the number in brackets may be counted in the last digits or in "
                "full; write it as 3.71 ± 0.05"
            )
        elif numbers.doubt:
            doubts[name] = numbers.doubt
        for before, after in zip(texts, numbers.texts, strict=True):
            if not changed and before != after:
                changed = f"Numbers as {before} are read as {after}."
    return result, doubts, [changed] if changed else []


def _apply_notes(sheet: Sheet, notes: Sequence[str]) -> Sheet:
    """Take the number of runs and what the spreads are from titles and notes, where they say it."""
    if not notes:
        names = [*sheet.header]
        spread = _find_spread(names)
        return _replaced(sheet, None, spread, []) if spread else sheet
    reading_notes = [f"Read as a title or note: {_shorten(note)}" for note in notes]
    counts = {int(count) for note in notes for count in RUNS_IN_NOTE.findall(note)[:99]}
    count = counts.pop() if len(counts) == 1 else None
    if count:
        reading_notes.append(f"Runs behind each mean: {count}, from a note (n = {count}).")
    elif counts:
        reading_notes.append("The notes name several n; enter the runs behind each mean.")
    spread = _find_spread([*notes, *sheet.header])
    if spread:
        reading_notes.append(f"Spreads are {spread.upper()}, as the text beside the table says.")
    return _replaced(sheet, count, spread, reading_notes)


def _find_spread(texts: Sequence[str]) -> str:
    kinds = {
        str(kind)
        for text in texts
        for match in SPREAD_IN_NOTE.finditer(text)
        for kind, word in match.groupdict().items()
        if word
    }
    return kinds.pop() if len(kinds) == 1 else ""


def _replaced(sheet: Sheet, n: int | None, spread: str, notes: Sequence[str]) -> Sheet:
    return replace(sheet, n=n or None, spread=spread, notes=(*sheet.notes, *notes))


def _shorten(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."


def list_filled(rows: Iterator[tuple[int, list[str]]]) -> Rows:
    """Return the rows in which anything is written, their texts without spaces at the ends."""
    return [
        (number, [text.strip() for text in fields])
        for number, fields in rows
        if any(map(str.strip, fields))
    ]
