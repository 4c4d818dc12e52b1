"""What an image's manifest and configuration say, read from JSON that nobody has checked before.

Each name, digest and size is checked; BadImage says what is wrong.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Dict, Iterator, List

JSON_LIMIT = 16 << 20  # bytes of one manifest or configuration
JSON_DEPTH = 64  # lists and objects inside one another
UNPACKED_LIMIT = 1 << 38  # bytes of one image: 256 GiB
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class BadImage(Exception):
    """An error for a file that is not the image that it should be; people read the message."""


def parse_json(content: bytes, name: str) -> Any:
    """Return the value of a JSON document. Raises BadImage, which calls the document `name`."""
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=reject_constant)
        level, depth = [document], 0
        while level:  # writing it again must not exceed the recursion limit either
            depth += 1
            if depth > JSON_DEPTH:
                raise RecursionError
            level = [child for value in level for child in list_nested_values(value)]
    except RecursionError:
        raise BadImage("%s is nested too deeply." % name) from None
    except ValueError:
        raise BadImage("%s is no JSON." % name) from None
    return document


def reject_constant(name: str) -> Any:
    raise ValueError("JSON has no %s" % name)


def list_nested_values(value: Any) -> List[Any]:
    """Return the lists and objects that a value of a JSON document holds directly."""
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)):
        return []
    return [item for item in items if isinstance(item, (dict, list))]


def parse_digest(digest: Any) -> str:
    """Return the hex digits of "sha256:...". Raises BadImage for anything else."""
    algorithm, _, value = str(digest).partition(":")
    if algorithm != "sha256" or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise BadImage("%.100r is no sha256 digest." % (digest,))
    return value


def parse_size(descriptor: Dict[str, Any]) -> int:
    """Return the size in bytes that a descriptor promises. Raises BadImage for an absurd one."""
    size = descriptor["size"]
    if type(size) is not int or not 0 <= size <= UNPACKED_LIMIT:
        raise BadImage("%.100r is no size of a blob." % (size,))
    return size


def choose_manifest(manifests: List[Dict[str, Any]], architecture: str, system: str) -> str:
    """Return the digest of the entry for this platform. Entries without platform fit any."""
    images = [
        manifest
        for manifest in manifests
        if manifest.get("annotations", {}).get("vnd.docker.reference.type")
        != "attestation-manifest"
    ]
    platforms = []
    for image in images:
        platform = image.get("platform") or {}
        names = (platform.get("os", system), platform.get("architecture", architecture))
        platforms.append("/".join(names))
    requested = system + "/" + architecture
    fitting = [image for image, platform in zip(images, platforms) if platform == requested]
    if not fitting:
        others = ", ".join(sorted(set(platforms))) or "nothing"
        raise BadImage("There is no image for %s/%s, only for %s." % (system, architecture, others))
    if len({image["digest"] for image in fitting}) > 1:
        raise BadImage("The archive holds %d images: save one at a time." % len(fitting))
    return str(fitting[0]["digest"])


def check_platform(config: Dict[str, Any], architecture: str, system: str) -> None:
    platform = (config.get("os", system), config.get("architecture", architecture))
    if platform != (system, architecture):
        raise BadImage("The image is for %s/%s, not for %s/%s." % (*platform, system, architecture))


def check_digest(name: str, expected: str, actual: str) -> None:
    expected = expected.rpartition(":")[2]
    if expected and expected != actual:
        raise BadImage("The digest of %s is sha256:%s, not sha256:%s." % (name, actual, expected))


@contextlib.contextmanager
def explain_bad_manifest() -> Iterator[None]:
    """Raise BadImage, which explains it, where JSON does not have the shape of a manifest."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadImage("The archive's manifest is not understood (%.200r)." % error) from None
