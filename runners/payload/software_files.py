"""List the software of an environment without Python: `python3 software_files.py PREFIX --output
FILE [--mark TEXT]`, on the node, from what software.sh has left there.

The fields are those of software.py, with no Python; `packages` are those of conda in folders of
/opt or $CONDA_PREFIX, and `system_packages` those that dpkg, apk or rpm have installed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Dict

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import inventory, snapshot
from .software import SCHEMA

LISTS = {
    "dpkg": "var/lib/dpkg/status",
    "apk": "lib/apk/db/installed",
    "rpm": "var/lib/rpm/rpmdb.sqlite",
}
"""The end of a copy's name -> the file's place in the environment."""


def list_software(prefix: str) -> Dict[str, Any]:
    """Return all fields but `mark`."""
    contents = {path: read(prefix, name) for name, path in LISTS.items()}
    texts = {path: content.decode("utf-8", "replace") for path, content in contents.items()}
    present = [path for path, content in contents.items() if content]
    packages, _ = inventory.find_installed_packages(present, texts, contents)
    packages.update(read_table(prefix, "rpm-list"))
    return {
        "schema": SCHEMA,
        "os": snapshot.read_field("%s-os-release" % prefix, "PRETTY_NAME", "=").strip("\"'"),
        "libc": read_text(prefix, "libc"),
        "machine": read_text(prefix, "machine"),
        "python": {},
        "packages": find_conda_packages(read_text(prefix, "conda")),
        "system_packages": dict(sorted(packages.items())),
        "programs": read_table(prefix, "programs"),
    }


def find_conda_packages(text: str) -> Dict[str, str]:
    """Return the versions of packages whose records are called NAME-VERSION-BUILD, a line each."""
    rows = [line.rsplit("-", 2) for line in sorted(text.split("\n"))]
    return {row[0]: row[1] for row in rows if len(row) == 3}


def read(prefix: str, name: str) -> bytes:
    try:
        with open("%s-%s" % (prefix, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def read_text(prefix: str, name: str) -> str:
    return read(prefix, name).decode("utf-8", "replace").strip("\n ")


def read_table(prefix: str, name: str) -> Dict[str, str]:
    """Return lines of two texts with a tab between them; others are left out."""
    rows = [line.split("\t") for line in read_text(prefix, name).split("\n")]
    return {row[0]: row[1] for row in rows if len(row) == 2}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("prefix")
    parser.add_argument("--output", required=True, help="where the JSON goes")
    parser.add_argument("--mark", default="", help="repeated in it")
    options = parser.parse_args()
    facts = {**list_software(options.prefix), "mark": options.mark}
    with open(options.output + ".part", "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1, sort_keys=True)
    os.replace(options.output + ".part", options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
