"""The result of an inspection of an image or environment, as columns of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runners.interpreters import NO_PYTHON, has_python
from runners.shapes import SURVEY
from runners.untrusted import clean_text, validate


def make_columns(survey: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of `Image` that an inspection fills; none if nothing was inspected.

    Raises Damaged if `survey` has not the shape of an inspection's result.
    """
    if not survey:
        return {}
    survey = validate(survey, SURVEY)
    packages = survey.get("packages") or {}
    frameworks = survey.get("frameworks") or {}
    return {
        "tree": survey.get("tree") or "",
        "operating_system": _cut((survey.get("system") or {}).get("name"), 100),
        "python_version": _cut(_python(survey).get("version"), 30),
        "framework": _cut(_pairs(frameworks), 100),
        "cuda_version": _cut(survey.get("cuda"), 30),
        "cudnn_version": _cut(survey.get("cudnn"), 30),
        "mpi": _cut(_pairs(survey.get("mpi") or {}), 60),
        "packages": (packages.get("spack") or {})
        | (packages.get("python") or {})
        | (packages.get("conda") or {}),
        "facts": {name: value for name, value in survey.items() if name != "schema"},
    }


def make_storable(value: Any) -> Any:
    """Return a value from a file or a host as PostgreSQL can hold it.

    NUL becomes U+FFFD, a byte that is no UTF-8 its number, in names and in values.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {make_storable(name): make_storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_storable(item) for item in value]
    return value


def find_interpreter(facts: Mapping[str, Any]) -> str:
    """Return the path of the image's main Python: of 3.8 or later, the one with most packages.

    NO_PYTHON where its files are known and have none; "python3" where they are not.
    """
    if not facts.get("tree"):
        path = _python(facts).get("path", "")
        return f"/{path.lstrip('/')}" if path else "python3"
    pythons = [row for row in facts.get("pythons") or () if _is_new_enough(row)]
    path = _python({"pythons": pythons}).get("path", "")
    return f"/{path.lstrip('/')}" if path else NO_PYTHON


def find_older_interpreter(facts: Mapping[str, Any]) -> str:
    """Return the path of the image's Python before 3, the one with most packages; or NO_PYTHON."""
    pythons = [row for row in facts.get("pythons") or () if not _is_new_enough(row)]
    path = _python({"pythons": pythons}).get("path", "")
    interpreter = f"/{path.lstrip('/')}"
    return interpreter if path and not has_python(interpreter) else NO_PYTHON


def _is_new_enough(python: Mapping[str, Any]) -> bool:
    match = re.match(r"(\d+)\.(\d+)", str(python.get("version", "")))
    return not match or (int(match[1]), int(match[2])) >= (3, 8)


def _python(survey: Mapping[str, Any]) -> Mapping[str, Any]:
    pythons = survey.get("pythons") or [{}]
    return max(pythons, key=lambda python: len(python.get("packages") or ()))


def _pairs(versions: Mapping[str, str] | str) -> str:
    if isinstance(versions, str):
        return versions
    return ", ".join(f"{name} {version}".strip() for name, version in sorted(versions.items()))


def _cut(text: Any, length: int) -> str:
    return str(text or "")[:length]
