"""ORCID identifiers: sixteen digits, the last of which is a check digit by ISO 7064 (11, 2)."""

from __future__ import annotations

import re

ADDRESS = "https://orcid.org/"
_WRITTEN = re.compile(
    r"(?:https?://(?:www\.)?orcid\.org/)?(\d{4})-?(\d{4})-?(\d{4})-?(\d{3}[\dX])/?", re.A | re.I
)


def parse_orcid(text: str) -> str:
    """Return an ORCID as 0000-0002-1825-0097; ValueError with the reason if it is none.

    Its address is taken too, and digits without hyphens.
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        raise ValueError("An ORCID has sixteen digits, such as 0000-0002-1825-0097.")
    orcid = "-".join(match.groups()).upper()
    if compute_check_digit(orcid[:-1]) != orcid[-1]:
        raise ValueError(f"{orcid} is no ORCID: its check digit does not fit. Is a digit wrong?")
    return orcid


def compute_check_digit(digits: str) -> str:
    """Return the check digit of the first fifteen digits; hyphens mean nothing."""
    total = 0
    for digit in digits.replace("-", ""):
        total = (total + int(digit)) * 2
    result = (12 - total % 11) % 11
    return "X" if result == 10 else str(result)
