"""The environment modules that were loaded where a run was started, outside its container. No I/O.

The job script leaves what LOADEDMODULES and _LMFILES_ say after all set-up lines: names with
versions in the first line, the files that define them in the second, separated by colons.
"""

from __future__ import annotations

from typing import Any

from runners.untrusted import clean_text

FILE = "loaded_modules"
MOST = 300
LONGEST = 300
"""Characters of a name; of a path ten times as many."""
MOST_BYTES = 200_000


def read_modules(content: bytes) -> dict[str, Any]:
    """Return what a snapshot says of the modules in such a file; {} of none.

    Where there are too many the rest is counted under `more`.
    """
    lines = content[:MOST_BYTES].split(b"\n")
    names = _split(lines[0], LONGEST)
    files = _split(lines[1], 10 * LONGEST) if len(lines) > 1 else []
    if not names:
        return {}
    more = {"more": len(names) - MOST} if len(names) > MOST else {}
    return {"names": names[:MOST], "files": files[:MOST], **more}


def _split(line: bytes, longest: int) -> list[str]:
    texts = (clean_text(part).strip()[:longest] for part in line.split(b":"))
    return ["".join(filter(str.isprintable, text)) for text in texts if text]
