"""Bills of materials are valid for others' readers, whatever an image holds."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from experiments.images.sbom_components import make_purl
from experiments.images.sbom_documents import SCOPE, write_cyclonedx, write_spdx
from experiments.models import Image
from tests.factories import NOON, ImageFactory

ODD = {
    "caf\\xe9": "1\ufffd",
    "nu\ufffdl": "\x01\x1b[1m",
    "": "1",
    "a/b c": "",
    "\n": "2\n3",
    "-dash": None,
    "@scope/x?y#z%41": "1:2~3+4@5",
    "numpy": "2.4.6, 1.26.4",
    "Zope_Interface": "6.0",
}


def make_image(packages: Any, system: str = "debian", **more: Any) -> Image:
    facts = {"system": {"id": system, "name": "Toy 7", "version": "7"}, "packages": packages}
    image = ImageFactory.build(
        reference="registry.example.org/lab/training:2@sha256:" + "a" * 64,
        facts=facts | more,
        operating_system="Toy Linux 7",
        owner=None,
    )
    image.created_at = NOON
    return image


# The validators compare each entry with all others, which takes them minutes for MANY.
MANY = {"system": {f"lib{number}": f"{number}.0-1" for number in range(5000)}}
CASES = {
    "none": {},
    "no packages": {"python": {}, "system": None, "conda": {}},
    "odd names": {"python": ODD, "system": ODD, "conda": ODD, "so\nmething else": ODD},
    "100": {"system": dict(list(MANY["system"].items())[:100])},
}


@pytest.mark.parametrize("case", CASES)
def test_spdx_is_valid_by_its_own_reader(case: str, tmp_path: Path) -> None:
    content = write_spdx(make_image(CASES[case], not_read=["var/lib/rpm/Packages: damaged"]))
    assert content
    path = tmp_path / "image.spdx.json"
    path.write_bytes(content)
    document = parse_file(str(path))
    problems = [problem.validation_message for problem in validate_full_spdx_document(document)]
    assert problems == []
    assert document.creation_info.document_comment.startswith(SCOPE)
    assert "damaged" in document.creation_info.document_comment
    kinds = Counter(row.relationship_type.name for row in document.relationships)
    assert kinds["DESCRIBES"] == 1
    assert kinds["CONTAINS"] == len(document.packages) - 1


def test_5000_packages_are_listed_once_each_and_belong_to_the_image() -> None:
    document = json.loads(write_spdx(make_image(MANY)) or b"")
    names = [row["SPDXID"] for row in document["packages"]]
    assert len(set(names)) == 5001
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in names)
    assert [row["relatedSpdxElement"] for row in document["relationships"]] == names
    document = json.loads(write_cyclonedx(make_image(MANY)) or b"")
    names = [row["bom-ref"] for row in document["components"]]
    assert len(set(names)) == 5001
    assert document["dependencies"][0]["dependsOn"] == names


@pytest.mark.parametrize("case", CASES)
def test_cyclonedx_is_valid_by_its_schema(case: str) -> None:
    content = write_cyclonedx(make_image(CASES[case], not_read=["var/lib/rpm/Packages: damaged"]))
    assert content
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode()) is None
    document = json.loads(content)
    names = [component["bom-ref"] for component in document["components"]]
    assert len(names) == len(set(names))
    assert document["dependencies"] == [{"ref": "image", "dependsOn": names}]
    assert document["compositions"][0]["aggregate"] == "incomplete"


def test_the_validators_do_refuse_what_is_not_valid(tmp_path: Path) -> None:
    """Or the two tests above would show nothing."""
    image = make_image(CASES["odd names"])
    document = json.loads(write_cyclonedx(image) or b"")
    document["components"][1]["type"] = "thing"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    document = json.loads(write_spdx(image) or b"")
    document["relationships"][1]["relatedSpdxElement"] = "SPDXRef-nothing"
    path = tmp_path / "image.spdx.json"
    path.write_text(json.dumps(document))
    assert validate_full_spdx_document(parse_file(str(path)))


def test_every_package_is_listed_with_each_of_its_versions() -> None:
    packages = {"python": {"numpy": "2.4.6, 1.26.4"}, "system": {"libc6": "2.36-9"}, "conda": {}}
    document = json.loads(write_spdx(make_image(packages)) or b"")
    listed = {(row["name"], row.get("versionInfo")) for row in document["packages"][1:]}
    assert listed == {("numpy", "2.4.6"), ("numpy", "1.26.4"), ("libc6", "2.36-9")}
    purls = [row["externalRefs"][0]["referenceLocator"] for row in document["packages"]]
    digest = document["packages"][0]["versionInfo"]
    assert f"pkg:oci/training@{digest}" in purls
    assert "pkg:pypi/numpy@1.26.4" in purls
    assert "pkg:deb/debian/libc6@2.36-9" in purls


def test_the_same_inventory_gives_the_same_bytes() -> None:
    forwards = {"python": {"a": "1", "b": "2"}, "system": {"c": "3"}}
    backwards = {"system": {"c": "3"}, "python": {"b": "2", "a": "1"}}
    for write in (write_spdx, write_cyclonedx):
        assert write(make_image(forwards)) == write(make_image(backwards))
        assert write(make_image(forwards)) != write(make_image(MANY))


def test_names_of_documents_follow_from_what_they_list() -> None:
    one, other = make_image({"python": {"a": "1"}}), make_image({"python": {"a": "2"}})
    for write, name in ((write_spdx, "documentNamespace"), (write_cyclonedx, "serialNumber")):
        assert json.loads(write(one) or b"")[name] != json.loads(write(other) or b"")[name]


def test_an_image_that_was_not_inspected_has_no_bill_of_materials() -> None:
    image = ImageFactory.build(owner=None)
    assert write_spdx(image) is None
    assert write_cyclonedx(image) is None


@pytest.mark.parametrize(
    ("source", "system", "name", "version", "expected"),
    [
        ("python", "debian", "Foo_Bar", "1.0+cu12", ("pypi", None, "foo-bar")),
        ("system", "debian", "libstdc++6", "1:2~rc1-1", ("deb", "debian", "libstdc++6")),
        ("system", "rocky", "NetworkManager", "1-2.el9", ("rpm", "rocky", "NetworkManager")),
        ("system", "alpine", "musl", "1.2.5-r0", ("apk", "alpine", "musl")),
        ("conda", "", "numpy", "2.4", ("conda", None, "numpy")),
        ("python", "", "numpy", "", ("pypi", None, "numpy")),
    ],
)
def test_package_urls_are_those_of_the_reference(
    source: str, system: str, name: str, version: str, expected: tuple[str, str | None, str]
) -> None:
    """By packageurl-python, the library of those who keep the specification."""
    reference = PackageURL(*expected, version=version or None).to_string()
    assert make_purl(source, name, version, system) == reference


@pytest.mark.parametrize("name", ["", "a/b", "caf\\xe9", "a b", "\n", "@x"])
def test_what_no_package_url_can_hold_has_none(name: str) -> None:
    assert make_purl("python", name, "1", "debian") == ""


def test_packages_of_a_distribution_that_is_not_known_have_no_url() -> None:
    assert make_purl("system", "x", "1", "toy") == ""
