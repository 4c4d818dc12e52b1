"""Software bills of materials of images: SPDX 2.3 and CycloneDX 1.6, both in JSON.

The same inventory gives the same bytes: no number is drawn, and no clock is read.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from experiments.images.sbom_components import Inventory, make_image_purl, read_inventory
from experiments.models import Image

Document = dict[str, Any]

SCOPE = (
    "What the lists of installed packages in the image say (dpkg, rpm, apk, Python, conda). "
    "Files that belong to no package are not listed, and licences were not looked for."
)
NAMESPACE = uuid.UUID("d2f1a6f4-6f0e-5c55-9d0a-6d4c2b7a6f15")
"""Of the serial numbers of CycloneDX, each of which follows from what is listed."""
UNNAMED = "(a package without a name)"


def write_spdx(image: Image) -> bytes | None:
    """Return an image's software as SPDX 2.3 in JSON; None if it was not inspected yet."""
    inventory = read_inventory(image)
    return _write(describe_as_spdx(inventory, image.created_at)) if inventory else None


def write_cyclonedx(image: Image) -> bytes | None:
    """Return an image's software as CycloneDX 1.6 in JSON; None if it was not inspected yet."""
    inventory = read_inventory(image)
    return _write(describe_as_cyclonedx(inventory, image.created_at)) if inventory else None


WRITERS = {"spdx": write_spdx, "cdx": write_cyclonedx}
"""What writes a bill of materials, by the part of a file's name before `.json`."""


def describe_as_spdx(inventory: Inventory, added_at: datetime) -> Document:
    """Return the document of SPDX; `added_at` is when the image came into the catalogue."""
    purl = make_image_purl(inventory.name, inventory.digest)
    packages: list[Document] = [
        {
            "SPDXID": "SPDXRef-Image",
            "name": inventory.name or UNNAMED,
            "versionInfo": inventory.digest,
            "primaryPackagePurpose": "CONTAINER",
            **_describe_package(purl),
        }
    ]
    for component in inventory.components:
        packages.append(
            {
                "SPDXID": f"SPDXRef-Package-{component.key}",
                "name": component.name or UNNAMED,
                **({"versionInfo": component.version} if component.version else {}),
                "comment": f"From the image's list of {component.source} packages.",
                **_describe_package(component.purl),
            }
        )
    described = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image")]
    contained = [("SPDXRef-Image", "CONTAINS", row["SPDXID"]) for row in packages[1:]]
    digits = inventory.digest.rpartition(":")[2]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": inventory.name or UNNAMED,
        "documentNamespace": "https://spdx.org/spdxdocs/tare-"
        f"{digits}-{inventory.fingerprint[:32]}",
        "creationInfo": {"created": _write_time(added_at), "creators": ["Tool: Tare"]},
        "comment": " ".join([SCOPE, *_list_unread(inventory)]),
        "packages": packages,
        "relationships": [
            {"spdxElementId": left, "relationshipType": kind, "relatedSpdxElement": right}
            for left, kind, right in (*described, *contained)
        ],
    }


def _describe_package(purl: str) -> Document:
    reference = {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": purl,
    }
    return {
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        **({"externalRefs": [reference]} if purl else {}),
    }


def describe_as_cyclonedx(inventory: Inventory, added_at: datetime) -> Document:
    """Return the document of CycloneDX; `added_at` is when the image came into the catalogue."""
    purl = make_image_purl(inventory.name, inventory.digest)
    components: list[Document] = []
    if inventory.system_name:
        version = inventory.system_version
        components.append(
            {
                "type": "operating-system",
                "bom-ref": "operating-system",
                "name": inventory.system_name,
                **({"version": version} if version else {}),
            }
        )
    for component in inventory.components:
        components.append(
            {
                "type": "library",
                "bom-ref": f"package-{component.key}",
                "name": component.name or UNNAMED,
                **({"version": component.version} if component.version else {}),
                **({"purl": component.purl} if component.purl else {}),
                "properties": [{"name": "tare:source", "value": component.source}],
            }
        )
    notes = [("tare:scope", SCOPE), *(("tare:not_read", row) for row in inventory.not_read)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(NAMESPACE, inventory.fingerprint).urn,
        "version": 1,
        "metadata": {
            "timestamp": _write_time(added_at),
            "tools": {"components": [{"type": "application", "name": "Tare"}]},
            "component": {
                "type": "container",
                "bom-ref": "image",
                "name": inventory.name or UNNAMED,
                "version": inventory.digest,
                **({"purl": purl} if purl else {}),
            },
            "properties": [{"name": name, "value": value} for name, value in notes],
        },
        "components": components,
        "dependencies": [
            {"ref": "image", "dependsOn": [component["bom-ref"] for component in components]}
        ],
        "compositions": [
            {
                "aggregate": "incomplete" if inventory.not_read else "unknown",
                "assemblies": ["image"],
            }
        ],
    }


def _list_unread(inventory: Inventory) -> Iterator[str]:
    for problem in inventory.not_read:
        yield f"Not read: {problem}."


def _write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(document: Document) -> bytes:
    return f"{json.dumps(document, indent=1, ensure_ascii=False)}\n".encode()
