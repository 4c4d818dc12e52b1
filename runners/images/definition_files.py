"""Apptainer's definition files as builds take them: their base, and the file sent. No I/O.

As in Dockerfiles, the base is named by its digest; what else they hold is Apptainer's to read.
"""

from __future__ import annotations

import re

from runners.images.dockerfiles import (
    BYTE_ORDER_MARK,
    BuildFileError,
    check_text,
    find_digest,
    require_one,
)

KEYS = {"bootstrap", "from", "stage"}
ON_THE_NODE = ("%pre", "%setup")
"""Sections that Apptainer runs on the node, outside of the image."""


def read_base(text: str) -> str:
    """Return the digest of the one base that a definition file names. Raises BuildFileError."""
    return _read(text, "", "")[0]


def point_to(text: str, agent: str, source: str) -> str:
    """Return the file with `Bootstrap: agent` and `From: source` for its base. BuildFileError."""
    return _read(text, agent, source)[1]


def _read(text: str, agent: str, source: str) -> tuple[str, str]:
    check_text(text, "definition file")
    digests: list[str] = []
    lines: list[str] = []
    in_header = False
    text = text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        # Apptainer reads %%setup as %setup.
        section = re.match(r"\s*%*(%\w+)", line)
        # As Apptainer reads it: each such line begins a stage, wherever it stands.
        if re.match(r"bootstrap\s*:", line, re.IGNORECASE):
            in_header = True
        elif section:
            in_header = False
            if section[1].lower() in ON_THE_NODE:
                raise BuildFileError(
                    f"Line {number}: {section[1]} runs on the node, outside of the image. Use "
                    "%files and %post."
                )
        if not in_header or not line.strip() or line.lstrip().startswith("#"):
            if not digests and not in_header and line.strip() and not line.lstrip().startswith("#"):
                raise BuildFileError(
                    f"Line {number} stands before the base: a definition file begins with "
                    "Bootstrap: and From: lines."
                )
            lines.append(line)
            continue
        # In these lines, and in no others, Apptainer leaves out what follows a #.
        key, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        if key.lower() not in KEYS:
            raise BuildFileError(
                f"Line {number}: {key[:40]} cannot stand here. The base is named by Bootstrap: and "
                "From: with its digest, and a stage by Stage:."
            )
        if key.lower() == "bootstrap":
            line = f"Bootstrap: {agent}"
        elif key.lower() == "from":
            digests.append(find_digest(value.removeprefix("docker://"), number))
            line = f"From: {source}"
        lines.append(line)
    return require_one(digests, "definition file"), "\n".join(lines) + "\n"
