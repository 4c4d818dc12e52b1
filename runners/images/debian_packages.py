"""Lists of Debian packages for recipes: the parser. No I/O."""

from __future__ import annotations

import re

MOST_CHARACTERS, MOST_PACKAGES = 20_000, 500
# A name that ends in a hyphen is one that apt-get removes.
PACKAGE = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9+.-]*[a-z0-9+])(?::[a-z0-9]+)?(?:=(?P<version>[A-Za-z0-9.+:~-]+))?"
)


class PackageListError(Exception):
    """The text is no list of Debian packages; the message says where and why."""


def read_packages(text: str) -> list[str]:
    """Return the packages of a list, NAME or NAME=VERSION, without repetitions.

    Raises PackageListError. Lines hold one or several; what follows a # is a comment.
    """
    if len(text) > MOST_CHARACTERS:
        raise PackageListError(
            f"The list has {len(text):,} characters; {MOST_CHARACTERS:,} are the most."
        )
    packages: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        for word in line.partition("#")[0].replace(",", " ").split():
            if not PACKAGE.fullmatch(word):
                raise PackageListError(
                    f"Line {number}: {word[:60]} is no Debian package. Write NAME or NAME=VERSION, "
                    "as apt-get install takes them."
                )
            packages[word] = None
    if len(packages) > MOST_PACKAGES:
        raise PackageListError(f"{len(packages)} packages; {MOST_PACKAGES} are the most.")
    return list(packages)


def find_versions(packages: list[str], installed: dict[str, str]) -> list[str]:
    """Return NAME=VERSION for each package of a list, as it is installed; NAME if it is not."""
    names = [re.split("[:=]", package)[0] for package in packages]
    return [f"{name}={installed[name]}" if name in installed else name for name in names]
