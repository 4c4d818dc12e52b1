"""Steps that several forms of images are made by: in PLACE.part, and moved when it is whole.

If a step ends early, only `PLACE.part` can be left, which the step itself, the next staging or the
removal delete.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runners.errors import Refused
from runners.images import scripts
from runners.jobs import Step
from runners.runtimes import RUNTIMES

UNPACK = "payload/unpack.py"  # steps start in the job's directory


@dataclass(frozen=True)
class Source:
    """A file on the cluster from which forms are made; an archive is one of `convert_to_oci`."""

    kind: str  # "oci", "rootfs" or "sif"
    path: str
    digest: str  # of the image, "sha256:..."


def parse_hex_digest(digest: str) -> str:
    """Return the 64 letters of a digest. ValueError for anything else: no path may contain it."""
    match = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
    if not match:
        raise ValueError(f"not a digest: {digest!r}")
    return match[1]


def choose_partial_path(location: str) -> str:
    """Return the path at which a file is made, to be moved to its location."""
    return f"{location}.part/made"


def choose_partial_root(location: str) -> str:
    """Return the folder into which a root file system is unpacked."""
    return f"{location}.part/root"


def make_guarded_step(doing: str, location: str, *command: str) -> Step:
    """Return a step that works in PLACE.part, and removes it if it fails."""
    return Step(doing, ("sh", "-c", scripts.BESIDE, "beside", f"{location}.part", *command))


def make_final_step(location: str, whole: str = "") -> Step:
    """Return the last step, which moves the complete form to its location."""
    command = (
        "sh",
        "-c",
        scripts.PUT,
        "put",
        f"{location}.part",
        whole or choose_partial_path(location),
        location,
    )
    return Step("Moving it into its place", command)


def find_unpacker(tools: Mapping[str, str], source: Source | None) -> str:
    """Return Apptainer or Singularity, or "". Raises Refused if a SIF file needs one of them."""
    for kind in ("apptainer", "singularity"):
        if kind in tools:
            return tools[kind] or RUNTIMES[kind].command
    if source and source.kind == "sif":
        raise Refused("Only Apptainer or Singularity opens SIF files; this cluster has neither.")
    return ""


def make_unpack_step(
    source: Source, location: str, executable: str, *, keep_variables: bool = False
) -> Step:
    """Return the step that unpacks the root file system into a folder."""
    folder = choose_partial_root(location)
    command: tuple[str, ...]
    if source.kind == "rootfs":
        command = ("sh", "-c", scripts.UNTAR, "untar", source.path, folder)
    elif source.kind == "sif" or (keep_variables and executable):
        content = source.path if source.kind == "sif" else f"oci-archive:{source.path}"
        command = (executable, "build", "--sandbox", folder, content)
    else:
        command = ("python3", UNPACK, source.path, folder)
    return make_guarded_step("Unpacking the image", location, *command)
