r"""Tables of LaTeX: rows with & and \\, inside or without their tabular."""

import re

from experiments.statistics.published.formats.base import Format
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import MOST_COLUMNS, MOST_ROWS, Sheet
from experiments.statistics.published.text_tables import (
    Rows,
    holds_number,
    list_filled,
    make_sheet,
)

TABULAR = re.compile(r"\\begin\{(tabularx?\*?|longtable|tabulary)\}")
RULES = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|centering|small|footnotesize|endhead|endfirsthead)\b"
    r"|\\(?:cline|addlinespace|cmidrule)(?:\([^)]{0,20}\))?(?:\[[^\]]{0,40}\])?(?:\{[^}]{0,40}\})?"
)
CAPTION = re.compile(r"\\(?:caption|footnotetext|tablenote)\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
MULTICOLUMN = re.compile(r"\\multicolumn\{(\d{1,2})\}\{[^{}]*\}\{([^{}]*)\}")
MULTIROW = re.compile(r"\\multirow\{[^{}]*\}(?:\[[^\]]{0,20}\])?\{[^{}]*\}\{([^{}]*)\}")
WRAPPED = re.compile(
    r"\\(?:textbf|textit|emph|texttt|mathbf|mathrm|text|num|underline)\{([^{}]*)\}"
)
QUANTITY = re.compile(r"\\(?:SI|qty)\{([^{}]*)\}\{([^{}]*)\}")
UNITS = {r"\second": "s", r"\milli\second": "ms", r"\micro\second": "us", r"\hour": "h",
         r"\minute": "min", r"\percent": "%"}  # fmt: skip


def _recognise(text: str) -> bool:
    return bool(TABULAR.search(text)) or (r"\\" in text and text.count("&") > 1)


def _read(text: str, decimal: str) -> Sheet:
    text = re.sub(r"(?<!\\)%.*", "", text)  # comments
    notes = [_clean(note) for note in CAPTION.findall(text)]
    body, number = text, 1
    if begun := TABULAR.search(text):
        number += text[: begun.end()].count("\n")
        body = text[begun.end() :].partition(r"\end{" + begun[1] + "}")[0]
        body = re.sub(r"\A(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\[[^\]]*\]){1,3}", "", body)
    body = CAPTION.sub("", body)
    rows: Rows = []
    spans: list[int] = []
    lines = re.split(r"\\\\(?:\[[^\]]{0,40}\])?|\\tabularnewline\b", body)
    if len(lines) > MOST_ROWS:
        raise TableError(f"It has more than {MOST_ROWS:,} rows. One row a run is due.")
    for line in lines:
        plain = RULES.sub("", line)
        at = number + plain[: len(plain) - len(plain.lstrip())].count("\n")
        number += line.count("\n")
        if not plain.strip():
            continue
        fields: list[str] = []
        wide = 0
        for cell in re.split(r"(?<!\\)&", plain):
            span = MULTICOLUMN.search(cell)
            count = min(int(span[1]), 100) if span else 1
            wide += count > 1
            fields += [_clean(MULTICOLUMN.sub(r"\2", cell))] * count
            if len(fields) > MOST_COLUMNS:
                raise TableError(f"A row has more than {MOST_COLUMNS} columns.")
        rows.append((at, fields))
        spans.append(wide)
    filled = [(row, wide) for row, wide in zip(rows, spans, strict=True) if any(row[1])]
    table = list_filled(iter([row for row, _ in filled]))
    has_two_headers = len(filled) > 2 and len(table[0][1]) == len(table[1][1])
    if has_two_headers and filled[0][1] and not any(map(holds_number, table[1][1])):
        # The first row names groups of columns, the second the columns of each.
        table = [_join_headers(table[0], table[1]), *table[2:]]
    table = _fill_down(text, table)
    return make_sheet([*((0, [note]) for note in notes), *table], decimal=decimal, kind=FORMAT.name)


def _join_headers(
    groups: tuple[int, list[str]], names: tuple[int, list[str]]
) -> tuple[int, list[str]]:
    joined = [f"{group} {name}".strip() for group, name in zip(groups[1], names[1], strict=True)]
    return names[0], joined


def _fill_down(text: str, rows: Rows) -> Rows:
    r"""Repeat what a \multirow has in its first row in the empty cells below it."""
    if r"\multirow" not in text:
        return rows
    above: list[str] = []
    filled: Rows = []
    for number, fields in rows:
        if len(fields) == len(above) and not fields[0]:
            fields = [above[0], *fields[1:]]
        above = fields
        filled.append((number, fields))
    return filled


def _clean(text: str) -> str:
    plain = MULTIROW.sub(r"\1", text)
    plain = QUANTITY.sub(lambda match: f"{match[1]} {UNITS.get(match[2], match[2])}", plain)
    for _ in range(3):  # \textbf{\num{1.5}}
        plain = WRAPPED.sub(r"\1", plain)
    plain = re.sub(r"\\pm\b\s*|\\textpm\b\s*|\\textpm\{\}", "± ", plain)
    plain = plain.replace("{,}", ",").replace("~", " ").replace(r"\,", " ").replace("$", "")
    plain = re.sub(r"\\([%&_#$])", r"\1", plain)
    return " ".join(plain.replace("{", "").replace("}", "").split())


FORMAT = Format("a table of LaTeX", "means with their spread, or one run a row", _recognise, _read)
