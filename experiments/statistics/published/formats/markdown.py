"""Tables of Markdown: lines with bars, of which the second has dashes."""

import re

from experiments.statistics.published.formats.base import Format
from experiments.statistics.published.sheets import Sheet
from experiments.statistics.published.text_tables import Rows, list_filled, make_sheet

RULE = re.compile(r"(\|\s*)?:?-+:?\s*(\|\s*:?-+:?\s*)+\|?")
"""The line below the header, without spaces at its ends."""
LONGEST_CELL = 1000
EMPHASIS = re.compile(r"(\*\*|__|`)(.+?)\1")


def _recognise(text: str) -> bool:
    return any(RULE.fullmatch(line.strip()) for line in text.splitlines())


def _read(text: str, decimal: str) -> Sheet:
    rows: Rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if RULE.fullmatch(line.strip()):
            continue
        fields = re.split(r"(?<!\\)\|", line.strip().removeprefix("|"))
        if len(fields) > 1 and not fields[-1].strip():
            fields.pop()
        rows.append((number, [_clean(text) for text in fields]))
    return make_sheet(list_filled(iter(rows)), decimal=decimal, kind=FORMAT.name)


def _clean(text: str) -> str:
    if len(text) > LONGEST_CELL:
        return text
    plain = EMPHASIS.sub(r"\2", text.replace("\\|", "|").replace("&nbsp;", " "))
    return re.sub(r"<br\s*/?>", " ", plain).replace("&plusmn;", "±")


FORMAT = Format(
    "a table of Markdown", "means with their spread, or one run a row", _recognise, _read
)
