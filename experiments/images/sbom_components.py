"""What a software bill of materials lists: an image, and the packages of its inventory."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from experiments.models import Image

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._~-]*")
"""A name that a package URL can hold; what is named otherwise has none."""
SYSTEM_KINDS = {
    "alpine": "apk",
    "chainguard": "apk",
    "postmarketos": "apk",
    "wolfi": "apk",
    "debian": "deb",
    "devuan": "deb",
    "kali": "deb",
    "linuxmint": "deb",
    "pop": "deb",
    "raspbian": "deb",
    "ubuntu": "deb",
    "almalinux": "rpm",
    "amzn": "rpm",
    "azurelinux": "rpm",
    "centos": "rpm",
    "fedora": "rpm",
    "mariner": "rpm",
    "ol": "rpm",
    "openeuler": "rpm",
    "opensuse-leap": "rpm",
    "opensuse-tumbleweed": "rpm",
    "rhel": "rpm",
    "rocky": "rpm",
    "scientific": "rpm",
    "sles": "rpm",
}
"""The kind of packages of a distribution, by the ID of its os-release."""

PURL_KINDS = {"python": "pypi", "conda": "conda"}


@dataclass(frozen=True)
class Component:
    """A package of an image."""

    name: str
    version: str  # "" where no file says it
    source: str  # python, conda or system
    purl: str  # its package URL; "" where it has none
    key: str  # of its source, name and version alone: the same in every image


@dataclass(frozen=True)
class Inventory:
    """The software of an image, as bills of materials list it."""

    name: str
    digest: str
    system_name: str
    system_version: str
    components: tuple[Component, ...]
    not_read: tuple[str, ...] = field(default=())
    """Lists of packages that are there and could not be read, and why."""

    @property
    def fingerprint(self) -> str:
        """Return a sha256 of all that is listed, by which documents get names without chance."""
        rows = [(row.source, row.name, row.version) for row in self.components]
        content = [self.name, self.digest, self.system_name, self.system_version, rows]
        return hashlib.sha256(json.dumps([*content, self.not_read]).encode()).hexdigest()


def read_inventory(image: Image) -> Inventory | None:
    """Return the software of an image; None if it was not inspected yet."""
    packages = image.facts.get("packages")
    if not isinstance(packages, Mapping):
        return None
    system = image.facts.get("system") or {}
    return Inventory(
        image.reference,
        image.digest,
        image.operating_system or system.get("name") or "",
        system.get("version") or "",
        tuple(_list_components(packages, system.get("id") or "")),
        tuple(image.facts.get("not_read") or ()),
    )


def _list_components(packages: Mapping[str, Any], system: str) -> Iterator[Component]:
    for source in sorted(packages):
        for name, versions in sorted((packages[source] or {}).items()):
            # The inventory joins the versions of a Python package that is there several times.
            separate = (versions or "").split(", ") if source == "python" else [versions or ""]
            for version in sorted(set(separate)):
                content = json.dumps([source, name, version]).encode()
                yield Component(
                    name,
                    version,
                    source,
                    make_purl(source, name, version, system),
                    hashlib.sha256(content).hexdigest()[:24],
                )


def make_purl(source: str, name: str, version: str, system: str) -> str:
    """Return a package's URL (github.com/package-url), "" if it can have none."""
    kind = SYSTEM_KINDS.get(system, "") if source == "system" else PURL_KINDS.get(source, "")
    if not kind or not NAME.fullmatch(name):
        return ""
    namespace = f"{system}/" if source == "system" else ""
    if kind in ("apk", "deb", "pypi"):
        name = name.lower()
    if kind == "pypi":
        name = name.replace("_", "-")
    ending = f"@{quote(version, safe=':')}" if version.strip() else ""
    return f"pkg:{kind}/{namespace}{quote(name, safe='')}{ending}"


def make_image_purl(name: str, digest: str) -> str:
    """Return the package URL of an image that has a name, and a digest of a manifest."""
    last = name.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
    return f"pkg:oci/{last}@{quote(digest, safe=':')}" if NAME.fullmatch(last) else ""
