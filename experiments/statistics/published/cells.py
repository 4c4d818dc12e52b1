"""Numbers in the cells of a table: decimal points or commas, thousands, and units beside them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Decimal = Literal["point", "comma"]
"""What stands before the decimals: 1,234.5 has a point, 1.234,5 a comma."""
LONGEST = 100
"""No number that is measured has more characters."""
SPACES = re.compile(r"(?<=\d)[  ’'\u2009\u202f](?=\d{3}(?!\d))")
"""What may stand between thousands and is never a decimal sign."""
NUMBER = re.compile(r"[+-]?(\d[\d.,]*|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE)
GROUPS = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")
WITH_UNIT = re.compile(
    r"([+-]?[\d.,]+(?:e[+-]?\d+)?)\s*"
    r"(ns|us|µs|μs|ms|s|sec|min|h|%|images/s|img/s|samples/s|tokens/s|items/s)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Numbers:
    """The texts of a column with decimal points, as far as they could be told.

    `doubt` says why a number of the column may be two: "'1,234' may be 1234 or 1.234".
    """

    texts: list[str]
    decimal: Decimal | None = None
    doubt: str = ""


def find_decimal(text: str) -> Decimal | Literal["either"] | None:
    """Return which decimal sign a text must have; None where it has no sign or is no number."""
    plain = SPACES.sub("", text) if len(text) <= LONGEST else text
    if len(text) > LONGEST or not NUMBER.fullmatch(plain):
        return None
    signs = [character for character in plain if character in ".,"]
    if not signs:
        return None
    last = signs[-1]
    decimal: Decimal = "point" if last == "." else "comma"
    thousands: Decimal = "comma" if last == "." else "point"
    if len(set(signs)) == 2:
        return decimal if signs.count(last) == 1 else None
    if GROUPS.fullmatch(plain.lstrip("+-")):
        return "either" if len(signs) == 1 else thousands
    return decimal if len(signs) == 1 else None


def to_plain(text: str, decimal: Decimal) -> str:
    """Return a number as Python reads it; the text itself where it does not fit `decimal`."""
    plain = SPACES.sub("", text)
    if not NUMBER.fullmatch(plain):
        return text
    sign, thousands = (".", ",") if decimal == "point" else (",", ".")
    whole, _, rest = plain.partition(sign)
    if thousands in rest or sign in rest:
        return text
    if thousands in whole and not re.fullmatch(rf"[+-]?\d{{1,3}}(\{thousands}\d{{3}})+", whole):
        return text
    return plain.replace(thousands, "").replace(sign, ".")


def read_numbers(
    texts: Sequence[str], *, chosen: Decimal | None = None, beside: Iterable[Decimal] = ()
) -> Numbers:
    """Return a column's numbers with decimal points.

    What a person has `chosen` decides, then the column's own cells, then what the columns
    `beside` it have. 1.234 alone has a decimal point, as everywhere else in Tare.
    """
    seen = {text: find_decimal(text) for text in texts}
    certain = {decimal for decimal in seen.values() if decimal in ("point", "comma")}
    unclear = [text for text, decimal in seen.items() if decimal == "either"]
    if len(certain) > 1 and not chosen:
        first, second = (
            next(text for text, decimal in seen.items() if decimal == sign)
            for sign in ("point", "comma")
        )
        doubt = f"{first!r} has a decimal point and {second!r} a decimal comma"
        return Numbers(list(texts), doubt=doubt)
    decimals_beside = set(beside)
    decimal: Decimal | None = chosen
    if not decimal and certain:
        decimal = "comma" if "comma" in certain else "point"
    if not decimal and unclear:
        has_comma = any("," in text for text in unclear)
        if len(decimals_beside) == 1 and has_comma and all("," in text for text in unclear):
            decimal = next(iter(decimals_beside))
        elif has_comma or "comma" in decimals_beside:
            return Numbers(list(texts), doubt=_describe_doubt(unclear[0]))
        else:
            decimal = "point"
    if not decimal:
        return Numbers([_without_spaces(text) for text in texts])
    return Numbers([to_plain(text, decimal) for text in texts], decimal)


def _describe_doubt(text: str) -> str:
    whole, point = (re.sub("[.,]", sign, text) for sign in ("", "."))
    return f"{text!r} may be {whole} or {point}"


def _without_spaces(text: str) -> str:
    plain = SPACES.sub("", text)
    return plain if NUMBER.fullmatch(plain) else text


def split_units(texts: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return the texts without the units behind their numbers, and these units.

    The texts themselves and no unit, unless every text that is not empty has one.
    """
    matches = [WITH_UNIT.fullmatch(text) for text in texts]
    if not any(matches) or any(
        text and not match for text, match in zip(texts, matches, strict=True)
    ):
        return list(texts), set()
    units = {match[2].replace("µ", "u").replace("μ", "u") for match in matches if match}
    return [match[1] if match else "" for match in matches], units
