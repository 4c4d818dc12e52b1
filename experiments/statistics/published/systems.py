"""Tables with several columns for each system: "X mean (s)", "X SD (s)" become rows of X."""

import re
from dataclasses import dataclass, replace

from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet

STATISTICS = {
    "mean": "mean average avg",
    "sd": "sd std stdev stddev std_dev standard_deviation",
    "se": "se sem stderr standard_error",
    "n": "n runs repeats repetitions",
    "cv": "cv cov",
}
"""The statistics that a column of a system may hold, with the words of each."""
WORD_OF = {word: name for name, words in STATISTICS.items() for word in words.split()}
WORDS = "|".join(sorted((word.replace("_", "[ _]") for word in WORD_OF), key=len, reverse=True))
AFTER = re.compile(
    rf"(?P<system>.+?)[\s_:,.\-(]+(?P<statistic>{WORDS})\)?(?P<unit>[\s_(\[]*[^\s_()\[\]]*[)\]]?)",
    re.IGNORECASE,
)
BEFORE = re.compile(
    rf"(?P<statistic>{WORDS})(?P<unit>\s*\([^()]*\))?[\s_:,\-]+(?:of\s+)?(?P<system>.+)",
    re.IGNORECASE,
)
LONGEST = 200
"""Characters of a name that is looked at."""
UNITS = {"", "s", "ms", "us", "µs", "ns", "min", "h", "sec", "seconds", "%", "images/s"}
ENVIRONMENT_NAMES = {"environment", "env", "container", "runtime"}


@dataclass(frozen=True)
class _Part:
    """What the name of a column says: whose number it is, which statistic, in which unit."""

    system: str
    statistic: str
    unit: str


def gather_systems(sheet: Sheet) -> Sheet:
    """Return the sheet with a row for each system, where each has columns of its own.

    Unchanged unless at least two systems have a mean, and one of them something beside it.
    """
    if ENVIRONMENT_NAMES & {name.casefold() for name in sheet.header}:
        return sheet
    parts = {name: part for name in sheet.header if (part := _parse(name))}
    systems = list(dict.fromkeys(part.system for part in parts.values()))
    with_mean = {part.system for part in parts.values() if part.statistic == "mean"}
    if len(systems) < 2 or with_mean != set(systems) or len(parts) <= len(systems):
        return sheet
    units: dict[str, str] = {}
    for name, part in parts.items():
        if units.setdefault(part.statistic, part.unit) != part.unit:
            raise TableError(
                f"Row 1, column {name}: mixed units, {part.unit or 'none'} here and "
                f"{units[part.statistic] or 'none'} in another column of the kind."
            )
    labels = [name for name in sheet.header if name not in parts]
    column_of = {(part.system, part.statistic): name for name, part in parts.items()}
    statistics = [name for name in STATISTICS if name in units]
    rows = []
    for number, fields in sheet.rows:
        texts = dict(zip(sheet.header, fields, strict=True))
        for system in systems:
            values = [texts.get(column_of.get((system, name), ""), "") for name in statistics]
            if any(values):
                rows.append((number, [*(texts[name] for name in labels), system, *values]))
    header = [_name(name, units[name]) for name in statistics]
    note = f"Columns of {len(systems)} systems are read as a row for each: {', '.join(systems)}."
    doubts = {
        new: sheet.doubts[column]
        for name, new in zip(statistics, header, strict=True)
        for system in systems
        if (column := column_of.get((system, name), "")) in sheet.doubts
    }
    return replace(
        sheet,
        header=[*labels, "environment", *header],
        rows=rows,
        notes=(*sheet.notes, note),
        doubts={**sheet.doubts, **doubts},
    )


def _parse(name: str) -> _Part | None:
    match = (AFTER.fullmatch(name) or BEFORE.fullmatch(name)) if len(name) <= LONGEST else None
    if not match:
        return None
    unit = re.sub(r"[\s_()\[\]]", "", match["unit"] or "")
    if unit not in UNITS:
        return None
    statistic = WORD_OF[re.sub(r"\s", "_", match["statistic"].casefold())]
    return _Part(match["system"].strip(" _:,-("), statistic, unit)


def _name(statistic: str, unit: str) -> str:
    return f"{statistic} ({unit})" if unit and unit != "%" else f"{statistic} {unit}".strip()
