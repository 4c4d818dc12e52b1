"""Known vulnerabilities of the Python packages in images, by a list that an administrator brings.

Nothing is asked of the network: `manage.py update_advisories` reads what is installed (safety-db
of PyPI) or a file in the format of OSV, and the day of that list is said wherever it is used.
"""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Q
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from experiments.models import Advisory, Image
from runners.untrusted import Damaged, clean_text, parse_document

PACKAGE = "safety-db"
PACKAGED_FILE = "safety_db/insecure_full.json"
MOST_BYTES = 64 << 20  # of a list in one file
MOST_ENTRY_BYTES = 4 << 20  # of one advisory in a zip file
MOST_UNPACKED = 2 << 30  # of all advisories in a zip file
MOST_ADVISORIES = 200_000
LONGEST_SUMMARY = 2000
COVERS = (
    "Python packages alone. The system's packages, conda's, libraries inside of wheels and the "
    "program that is measured are not looked up."
)


class NoList(Exception):
    """There is no list of advisories, or it cannot be read; the message says why."""


@dataclass(frozen=True)
class AdvisoryList:
    """What a source knows, on its day."""

    source: str
    known_on: date
    rows: tuple[Advisory, ...]
    left_out: int  # entries without a version that can be compared


@dataclass(frozen=True)
class Vulnerability:
    """A known vulnerability of a package of an image."""

    package: str
    version: str
    advisory: Advisory


@dataclass(frozen=True)
class KnownVulnerabilities:
    """What the list says of an image. Without a source there is no list."""

    source: str = ""
    known_on: date | None = None
    looked_up: int = 0
    not_compared: tuple[str, ...] = ()
    """Packages whose version cannot be compared."""
    vulnerabilities: tuple[Vulnerability, ...] = ()

    @property
    def packages(self) -> int:
        """Return how many packages have a known vulnerability."""
        return len({row.package for row in self.vulnerabilities})


def normalise_name(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_installed_list() -> AdvisoryList:
    """Return the list of the package safety-db, if it is installed. Raises NoList.

    Its file is read, and the package is not imported.
    """
    try:
        distribution = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise NoList(
            f"{PACKAGE} is not installed: `pip install {PACKAGE}` (its data may not be used "
            "commercially), or name a file."
        ) from None
    path = Path(str(distribution.locate_file(PACKAGED_FILE)))
    return read_safety_db(path, f"{PACKAGE} {distribution.version}")


def read_list(path: Path) -> AdvisoryList:
    """Return the list in a file: OSV's advisories in a zip, or safety-db's JSON. Raises NoList."""
    try:
        if zipfile.is_zipfile(path):
            return read_osv(path)
        return read_safety_db(path, path.name)
    except OSError as problem:
        raise NoList(f"{path} cannot be read: {problem.strerror}.") from None


def read_safety_db(path: Path, source: str) -> AdvisoryList:
    """Return the advisories of a JSON file as safety-db has it. Raises NoList."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise NoList(f"{path.name} is larger than {MOST_BYTES >> 20} MiB.")
        document = parse_document(content)
        known_on = datetime.fromtimestamp(document["$meta"]["timestamp"], UTC).date()
        entries = [
            (name, [entry.get("cve") or entry["id"]], list(entry["specs"]), entry["advisory"])
            for name, rows in document.items()
            if name != "$meta"
            for entry in rows
        ]
    except OSError as problem:
        raise NoList(f"{path} cannot be read: {problem.strerror}.") from None
    except (Damaged, LookupError, TypeError, AttributeError, ValueError, OverflowError):
        raise NoList(f"{path.name} is no list of safety-db.") from None
    return _make_list(source, known_on, entries)


def read_osv(path: Path) -> AdvisoryList:
    """Return the advisories for PyPI of a zip file of OSV (PyPI/all.zip). Raises NoList."""
    entries: list[tuple[str, list[str], list[str], str]] = []
    newest, damaged = date.min, 0
    try:
        with zipfile.ZipFile(path) as archive:
            members = [row for row in archive.infolist() if row.filename.endswith(".json")]
            if sum(row.file_size for row in members) > MOST_UNPACKED:
                raise NoList(f"{path.name} holds more than {MOST_UNPACKED >> 30} GiB.")
            damaged = max(0, len(members) - MOST_ADVISORIES)
            for member in members[:MOST_ADVISORIES]:
                if member.file_size > MOST_ENTRY_BYTES:
                    damaged += 1
                    continue
                try:
                    document = parse_document(_read_member(archive, member))
                    changed = datetime.fromisoformat(document["modified"]).date()
                    entries += _list_osv_entries(document)
                    newest = max(newest, changed)
                except (Damaged, LookupError, TypeError, AttributeError, ValueError):
                    damaged += 1
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as problem:
        raise NoList(f"{path.name} is damaged: {clean_text(str(problem))}.") from None
    if newest == date.min:
        raise NoList(f"{path.name} holds no advisories in the format of OSV.")
    made = _make_list(path.name, newest, entries)
    return AdvisoryList(made.source, made.known_on, made.rows, made.left_out + damaged)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a file of a zip. Raises BadZipFile for content that cannot be unpacked."""
    try:
        return archive.read(member)
    except (zlib.error, lzma.LZMAError, OSError) as problem:
        raise zipfile.BadZipFile(f"{member.filename}: {problem}") from None


def _list_osv_entries(document: dict[str, Any]) -> Iterator[tuple[str, list[str], list[str], str]]:
    if document.get("withdrawn"):
        return
    aliases = [name for name in document.get("aliases") or () if name.startswith("CVE-")]
    summary = document.get("summary") or document.get("details") or ""
    for affected in document.get("affected") or ():
        if affected["package"]["ecosystem"] != "PyPI":
            continue
        specifiers: list[str] = []
        for row in affected.get("ranges") or ():
            if row.get("type") == "ECOSYSTEM":
                specifiers += _list_ranges(row["events"])
        if not specifiers:
            specifiers = [f"=={version}" for version in affected.get("versions") or ()]
        yield affected["package"]["name"], [*aliases, document["id"]], specifiers, summary


def _list_ranges(events: Iterable[dict[str, str]]) -> Iterator[str]:
    """Yield the ranges of versions between events that introduce and that end a vulnerability."""
    begin, is_open = "", False
    for event in events:
        if "introduced" in event:
            begin = "" if event["introduced"] == "0" else f">={event['introduced']}"
            is_open = True
        else:
            last = event.get("last_affected")
            end = f"<={last}" if last else f"<{event['fixed']}"
            yield ",".join(filter(None, [begin, end]))
            is_open = False
    if is_open:
        yield begin or ">=0"


def _make_list(
    source: str, known_on: date, entries: Iterable[tuple[str, list[str], list[str], str]]
) -> AdvisoryList:
    rows: list[Advisory] = []
    left_out = 0
    for name, identifiers, specifiers, summary in entries:
        affected = [text for text in specifiers if _is_specifier(text)]
        if not affected or len(rows) >= MOST_ADVISORIES:
            left_out += 1
            continue
        rows.append(
            Advisory(
                package=clean_text(normalise_name(str(name)))[:200],
                identifier=clean_text(str(identifiers[0]))[:100],
                affected=affected,
                summary=clean_text(str(summary))[:LONGEST_SUMMARY],
                source=clean_text(source)[:200],
                known_on=known_on,
            )
        )
    if not rows:
        raise NoList(f"{source} lists nothing that can be compared.")
    return AdvisoryList(source, known_on, tuple(rows), left_out)


def _is_specifier(text: Any) -> bool:
    if not isinstance(text, str) or not text.strip():
        return False
    try:
        _fits("1", text)
    except ValueError:
        return False
    return True


def _fits(version: str, specifier: str) -> bool:
    """Return whether a version is one of these. Raises ValueError if one cannot be read."""
    return Version(version) in SpecifierSet(specifier, prereleases=True)


def replace_list(made: AdvisoryList) -> None:
    """Store a list in the place of the one that there was."""
    with transaction.atomic():
        Advisory.objects.all().delete()
        Advisory.objects.bulk_create(made.rows, batch_size=1000)


def find_vulnerabilities(image: Image) -> KnownVulnerabilities:
    """Return what the list says of the Python packages in an image. One query."""
    packages = (image.facts.get("packages") or {}).get("python") or image.packages or {}
    versions: dict[str, list[str]] = {}
    for name, joined in packages.items():
        versions.setdefault(normalise_name(name), []).extend((joined or "").split(", "))
    # Any one row tells the source and its day, also where no package is listed.
    first = Advisory.objects.order_by("pk").values("pk")[:1]
    rows = list(Advisory.objects.filter(Q(package__in=versions) | Q(pk__in=first)))
    if not rows:
        return KnownVulnerabilities()
    vulnerabilities, not_compared = [], set[str]()
    for row in sorted(rows, key=lambda row: (row.package, row.identifier)):
        for text in versions.get(row.package, ()):
            try:
                is_affected = any(_fits(text, part) for part in row.affected)
            except ValueError:  # also of a number with more digits than Python reads
                not_compared.add(row.package)
                continue
            if is_affected:
                vulnerabilities.append(Vulnerability(row.package, text, row))
    return KnownVulnerabilities(
        source=rows[0].source,
        known_on=rows[0].known_on,
        looked_up=len(versions),
        not_compared=tuple(sorted(not_compared)),
        vulnerabilities=tuple(vulnerabilities),
    )
