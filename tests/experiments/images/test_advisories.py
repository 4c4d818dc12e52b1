"""Known vulnerabilities come from a list with a day, by versions as Python compares them."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import date
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.images import advisories
from experiments.images.advisories import find_vulnerabilities, read_installed_list
from experiments.models import Advisory, Image
from tests.factories import AdvisoryFactory, ImageFactory

pytestmark = pytest.mark.django_db


def make_image(**packages: str) -> Image:
    image: Image = ImageFactory(facts={"packages": {"python": packages, "system": {"numpy": "1"}}})
    return image


def update(*arguments: str) -> str:
    written = StringIO()
    call_command("update_advisories", *arguments, stdout=written)
    return written.getvalue()


def test_the_installed_list_is_read_with_its_day() -> None:
    """The one real source that PyPI packages: safety-db, whose last day is long ago."""
    written = update()
    assert "safety-db 2021.7.17, as of 2021-07-01" in written
    assert "Python packages alone" in written
    known = find_vulnerabilities(make_image(numpy="1.16.0", Pillow="2.3.0", nothing="1"))
    assert (known.source, known.known_on) == ("safety-db 2021.7.17", date(2021, 7, 1))
    assert (known.looked_up, known.packages) == (3, 2)
    assert "CVE-2019-6446" in {row.advisory.identifier for row in known.vulnerabilities}
    fine = find_vulnerabilities(make_image(numpy="2.4.6"))
    assert (fine.vulnerabilities, fine.looked_up, fine.source) == ((), 1, "safety-db 2021.7.17")


def test_the_installed_list_is_read_almost_whole() -> None:
    made = read_installed_list()
    assert len(made.rows) + made.left_out == 2948
    assert made.left_out < 60


def test_without_a_list_nothing_is_said_of_holes() -> None:
    known = find_vulnerabilities(make_image(numpy="1.0"))
    assert (known.source, known.known_on, known.vulnerabilities) == ("", None, ())


@pytest.mark.parametrize(
    ("version", "affected", "is_hit"),
    [
        ("1.9", ["<1.10"], True),
        ("1.10", ["<1.10"], False),
        ("1.10rc1", ["<1.10"], False),
        ("2.1.0+cu118", ["<2.2"], True),
        ("1!1.0", ["<2"], False),
        ("1.5", [">=1.0,<1.4", ">=1.5,<1.6"], True),
        ("1.4", [">=1.0,<1.4", ">=1.5,<1.6"], False),
        ("1.0, 2.0", ["<2"], True),
    ],
)
def test_versions_are_compared_as_python_compares_them(
    version: str, affected: list[str], is_hit: bool
) -> None:
    AdvisoryFactory(package="x-y", affected=affected)
    assert bool(find_vulnerabilities(make_image(X_Y=version)).vulnerabilities) == is_hit


@pytest.mark.parametrize("version", ["", "\ufffd", "1.0\n2", "unknown", "9" * 5000])
def test_a_version_that_cannot_be_read_is_named(version: str) -> None:
    AdvisoryFactory(package="x")
    AdvisoryFactory(package="y")
    known = find_vulnerabilities(make_image(x=version, y="1"))
    assert [row.package for row in known.vulnerabilities] == ["y"]
    assert known.not_compared == ("x",)


def test_5000_packages_take_one_query() -> None:
    AdvisoryFactory(package="p7")
    image = make_image(**{f"p{number}": "1" for number in range(5000)})
    with CaptureQueriesContext(connection) as queries:
        known = find_vulnerabilities(image)
    assert (len(queries), known.looked_up, len(known.vulnerabilities)) == (1, 5000, 1)


OSV: list[dict[str, Any]] = [
    {
        "id": "PYSEC-1",
        "modified": "2026-11-01T10:00:00Z",
        "aliases": ["GHSA-x", "CVE-2026-1"],
        "details": "It reads \u0000 what it should not.",
        "affected": [
            {
                "package": {"ecosystem": "PyPI", "name": "Foo.Bar"},
                "ranges": [
                    {"type": "GIT", "events": [{"introduced": "0"}]},
                    {
                        "type": "ECOSYSTEM",
                        "events": [
                            {"introduced": "0"},
                            {"fixed": "1.2"},
                            {"introduced": "2.0"},
                            {"last_affected": "2.3"},
                            {"introduced": "3.0"},
                        ],
                    },
                ],
            },
            {"package": {"ecosystem": "npm", "name": "other"}, "versions": ["1"]},
        ],
    },
    {
        "id": "PYSEC-2",
        "modified": "2026-10-01T10:00:00Z",
        "affected": [
            {"package": {"ecosystem": "PyPI", "name": "listed"}, "versions": ["1.0", "1.1"]}
        ],
    },
    {
        "id": "PYSEC-3",
        "modified": "2026-10-02T10:00:00Z",
        "withdrawn": "2026-10-03T10:00:00Z",
        "affected": [{"package": {"ecosystem": "PyPI", "name": "gone"}, "versions": ["1.0"]}],
    },
]


def write_zip(path: Path, *contents: bytes) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"{number}.json", content)
    return str(path)


def test_a_file_of_osv_is_read_and_replaces_the_list(tmp_path: Path) -> None:
    AdvisoryFactory(package="old")
    odd = [b"[" * 100_000, b"\xff", b"{}", b'{"modified": "2026-01-01", "affected": 5}']
    documents = [json.dumps(row).encode() for row in OSV]
    written = update(write_zip(tmp_path / "all.zip", *documents, *odd))
    assert "2 known vulnerabilities of all.zip, as of 2026-11-01. 4 could not be" in written
    assert {row.package for row in Advisory.objects.all()} == {"foo-bar", "listed"}
    assert Advisory.objects.get(package="foo-bar").identifier == "CVE-2026-1"
    hit = [
        version
        for version in ("1.1", "1.2", "2.0", "2.3", "2.4", "3.0", "9")
        if find_vulnerabilities(make_image(foo_bar=version)).vulnerabilities
    ]
    assert hit == ["1.1", "2.0", "2.3", "3.0", "9"]
    assert find_vulnerabilities(make_image(listed="1.1")).vulnerabilities
    assert not find_vulnerabilities(make_image(listed="1.2")).vulnerabilities


def test_advisories_that_are_too_large_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisories, "MOST_ENTRY_BYTES", 2000)
    documents = [json.dumps(row).encode() for row in (*OSV, OSV[0] | {"details": "x" * 2000})]
    path = write_zip(tmp_path / "all.zip", *documents)
    assert "1 could not be compared" in update(path)
    monkeypatch.setattr(advisories, "MOST_UNPACKED", 3000)
    with pytest.raises(CommandError, match="holds more than"):
        update(path)


def write_bad_files() -> Any:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt"), "x")  # dated 1980: names of tests repeat
    yield b"", "is no list of safety-db"
    yield b"\xff\x00", "is no list of safety-db"
    yield b"[]", "is no list of safety-db"
    yield b'{"$meta": {"timestamp": 1e300}}', "is no list of safety-db"
    yield b'{"$meta": {"timestamp": NaN}}', "is no list of safety-db"
    yield (
        b'{"$meta": {"timestamp": 1}, "x": [{"id": "1", "specs": [5, "<<"], "advisory": ""}]}',
        ("lists nothing that can be compared"),
    )
    for specs in (b"5", b"null", b"true"):
        entry = b'{"id": "1", "specs": ' + specs + b', "advisory": ""}'
        content = b'{"$meta": {"timestamp": 1}, "x": [' + entry + b"]}"
        yield content, "is no list of safety-db"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"0" * 1000)
    start = len(b"PK..") + 26 + len("a.json")  # of what is packed
    damaged = bytearray(packed.getvalue())
    damaged[start : start + 4] = b"\xff" * 4
    yield bytes(damaged), "is damaged: a.json: "
    yield b"[" * 100_000, "is no list of safety-db"
    yield made.getvalue(), "holds no advisories"
    yield made.getvalue()[:-10], "is no list of safety-db"


@pytest.mark.parametrize(("content", "words"), list(write_bad_files()))
def test_a_file_that_is_no_list_leaves_the_list_that_there_was(
    content: bytes, words: str, tmp_path: Path
) -> None:
    AdvisoryFactory(package="old")
    path = tmp_path / "list"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=words):
        update(str(path))
    assert Advisory.objects.get().package == "old"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        update(str(tmp_path / "none"))
