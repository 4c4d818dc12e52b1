"""Licences by their identifiers of SPDX, as the package `packaging` knows them."""

from __future__ import annotations

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

OFFERED = {
    "CC-BY-4.0": "Creative Commons Attribution 4.0: use it, and name the authors",
    "CC0-1.0": "Creative Commons Zero 1.0: no rights reserved",
    "CC-BY-SA-4.0": "Creative Commons Attribution-ShareAlike 4.0: pass it on alike",
    "CC-BY-NC-4.0": "Creative Commons Attribution-NonCommercial 4.0",
    "ODbL-1.0": "Open Database Licence 1.0",
    "MIT": "MIT",
    "Apache-2.0": "Apache 2.0",
}
"""Those that a form offers. Others are typed."""
ADDRESS = "https://spdx.org/licenses/"


def parse_licence(text: str) -> str:
    """Return the identifier as SPDX spells it; ValueError with the reason if it has none such."""
    typed = text.strip()
    try:
        known = str(canonicalize_license_expression(typed))
    except (InvalidLicenseExpression, ValueError, RecursionError, SyntaxError):
        known = ""
    if not known or " " in known or "(" in known or known.startswith("LicenseRef-"):
        raise ValueError(
            f"SPDX has no licence {typed[:80]!r}. Identifiers stand on spdx.org/licenses, such as "
            "CC-BY-4.0."
        )
    return known
