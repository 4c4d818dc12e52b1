"""What staging does on a cluster: each format's steps from a source to what a runtime starts. Pure.

A form is made beside its place and moved there when it is whole; whatever ends a step early, only
`PLACE.part` can be left, and the step itself, the next staging and the removal all clear it away.
Places follow from the image's digest alone, so nothing that people type is in them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from runners.errors import Refused
from runners.images import scripts
from runners.jobs import Step
from runners.runtimes import RUNTIMES

UNPACK = "payload/unpack.py"  # steps start in the job's directory


@dataclass(frozen=True)
class Source:
    """What forms are made from: a file on the cluster. An archive is one that `to_oci` has made."""

    kind: str  # "oci", "rootfs" or "sif"
    path: str
    digest: str  # of the image, "sha256:..."


@dataclass(frozen=True)
class Staging:
    """How one form is made. `place` is what EnvironmentSpec.image_path becomes."""

    place: str
    needs: tuple[str, ...]  # programs that the node must have
    steps: tuple[Step, ...]


class Format(ABC):
    """One form of images on a cluster.

    `tools` are the cluster's runtimes: kind -> executable, empty for the usual name on PATH. Which
    of them makes the form is the format's business, so a new runtime needs nothing here.
    """

    label: ClassVar[str]
    made_by: ClassVar[tuple[str, ...]] = ()  # kinds of runtimes that can make it, the best first
    by_mode: ClassVar[bool] = False  # each mode of the runtime changes it: one form a mode
    on_node: ClassVar[bool] = False  # kept by each node for itself
    by_site: ClassVar[str] = ""  # why Tare does not make it; then the rest refuses

    @abstractmethod
    def place(self, source_digest: str, folder: str, mode: str = "") -> str:
        """Where the form of an image lies below `folder`, or what it is called."""

    @abstractmethod
    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        """The steps; `executable` is of the first of `made_by` that the cluster has."""

    @abstractmethod
    def is_ours(self, place: str) -> bool:
        """Whether a place is one that `place` gives."""

    @abstractmethod
    def removing(self, place: str, executable: str) -> list[Step]:
        """The steps that take it away, and do nothing where it is gone."""

    def stage(
        self, source: Source, folder: str, tools: Mapping[str, str], mode: str = ""
    ) -> Staging:
        """The form of an image below `folder`, an absolute path. Raises Refused, in words."""
        executable = self.maker(tools, source)
        place = self.place(source.digest, folder, mode)
        steps = tuple(self.making(source, place, executable, mode))
        needs = {"python3" for step in steps if UNPACK in step.argv}
        needs |= {"mksquashfs" for step in steps if "mksquashfs" in step.argv}
        return Staging(place, tuple(sorted({*needs, executable} - {""})), steps)

    def unstage(self, place: str, tools: Mapping[str, str]) -> tuple[Step, ...]:
        """The steps that remove what was staged. Raises Refused for what Tare has not made."""
        if not self.is_ours(place):
            raise Refused(f"{place} was not staged by Tare, which removes nothing else.")
        return tuple(self.removing(place, self.maker(tools)))

    def maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        """The program that makes this form. Raises Refused where there is none."""
        if self.by_site:
            raise Refused(self.by_site)
        for kind in self.made_by:
            if kind in tools:
                return tools[kind] or RUNTIMES[kind].command
        if self.made_by:
            names = " or ".join(RUNTIMES[kind].label for kind in self.made_by)
            raise Refused(f"{self.label} is made by {names}, which this cluster does not have.")
        return ""


class File(Format):
    """A file or folder below the work directory."""

    suffix: ClassVar[str]

    def place(self, source_digest: str, folder: str, mode: str = "") -> str:
        return f"{folder.rstrip('/')}/{hexadecimal(source_digest)}{self.suffix}"

    def is_ours(self, place: str) -> bool:
        return bool(re.fullmatch(rf"/.*/[0-9a-f]{{64}}{re.escape(self.suffix)}", place))

    def removing(self, place: str, executable: str) -> list[Step]:
        return [Step("Removing it", ("sh", "-c", scripts.REMOVE, "remove", place))]


class Named(Format):
    """Something in a store of the runtime's own, known by a name."""

    pattern: ClassVar[str] = r"tare-[0-9a-f]{16}(-[a-z0-9]+)?"

    def place(self, source_digest: str, folder: str, mode: str = "") -> str:
        return "-".join(filter(None, ["tare", hexadecimal(source_digest)[:16], mode.lower()]))

    def is_ours(self, place: str) -> bool:
        return bool(re.fullmatch(self.pattern, place))


class Sif(File):
    label = "A SIF file"
    made_by = ("apptainer", "singularity")
    suffix = ".sif"

    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        if source.kind == "sif":
            copy = guarded("Copying the SIF file", place, "cp", source.path, made(place))
            return [copy, put(place)]
        steps, content = [], f"oci-archive:{source.path}"
        if source.kind == "rootfs":
            steps, content = [unpacked(source, place, executable)], root(place)
        command = ("sh", "-c", scripts.BUILD_SIF, executable, made(place), content)
        return [*steps, guarded("Making the SIF file", place, *command), put(place)]


class Sandbox(File):
    """A folder. Apptainer, where there is one, keeps the image's variables in it."""

    label = "A sandbox"
    suffix = ".sandbox"

    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        folder = place.rpartition("/")[0]
        return [
            unpacked(source, place, executable, keep_variables=True),
            # What sites bind must have a place to be bound to; empty folders are no part of a tree.
            guarded("Making a mount point", place, "mkdir", "-p", root(place) + folder),
            put(place, root(place)),
        ]

    def maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        return unpacker(tools, source)


class Squashfs(File):
    label = "A squashfs file"
    suffix = ".sqfs"

    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        return [*self.squash(source, place, executable), put(place)]

    def maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        return unpacker(tools, source) if source and source.kind == "sif" else ""

    @staticmethod
    def squash(source: Source, place: str, executable: str) -> list[Step]:
        command = ("sh", "-c", scripts.SQUASH, "mksquashfs", root(place), made(place))
        return [
            unpacked(source, place, executable),
            guarded("Making the squashfs file", place, *command),
        ]


class UDockerContainer(Named):
    """A container for each mode: some modes change its files."""

    label = "A container of udocker"
    made_by = ("udocker",)
    by_mode = True

    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        if source.kind == "sif":
            raise Refused(
                "udocker makes no container of a SIF file: add the image by its reference, its "
                "archive or its root file system."
            )
        script = scripts.UDOCKER_LOAD if source.kind == "oci" else scripts.UDOCKER_IMPORT
        command = ("sh", "-c", script, executable, source.path, place, mode or "P1")
        return [Step("Making the container of udocker", command)]

    def removing(self, place: str, executable: str) -> list[Step]:
        command = ("sh", "-c", scripts.UDOCKER_REMOVE, executable, place)
        return [Step("Removing the container of udocker", command)]


class PodmanImage(Named):
    """In the user's storage on the node. The digest in its name is enforced by Podman."""

    label = "Podman's image"
    made_by = ("podman",)
    on_node = True
    pattern = r"localhost/tare/[0-9a-f]{16}(@sha256:[0-9a-f]{64}|:rootfs)"
    script = scripts.PODMAN_LOAD

    def place(self, source_digest: str, folder: str, mode: str = "") -> str:
        return f"localhost/tare/{hexadecimal(source_digest)[:16]}@{source_digest}"

    def stage(
        self, source: Source, folder: str, tools: Mapping[str, str], mode: str = ""
    ) -> Staging:
        staging = super().stage(source, folder, tools, mode)
        if source.kind == "oci":
            return staging
        return Staging(self.of_files(staging.place), staging.needs, staging.steps)

    @staticmethod
    def tagged(place: str) -> str:
        """Podman gives and takes away names with a tag only."""
        return place.partition("@")[0] + ":staged" if "@" in place else place

    @staticmethod
    def of_files(place: str) -> str:
        return place.partition("@")[0] + ":rootfs"

    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        if source.kind == "sif":
            raise Refused(
                "Podman takes no SIF file: add the image by its reference, its archive or its root "
                "file system."
            )
        script, name = scripts.PODMAN_LOAD, self.tagged(place)
        if source.kind == "rootfs":
            script, name = scripts.PODMAN_IMPORT, self.of_files(place)
        command = ("sh", "-c", script, executable, source.path, name)
        return [Step("Giving Podman the image", command)]

    def removing(self, place: str, executable: str) -> list[Step]:
        command = ("sh", "-c", scripts.PODMAN_REMOVE, executable, self.tagged(place))
        return [Step("Removing Podman's image", command)]


class DockerImage(Named):
    """In the daemon's storage on the node."""

    label = "Docker's image"
    made_by = ("docker",)
    on_node = True
    pattern = r"tare/[0-9a-f]{16}:staged"

    def place(self, source_digest: str, folder: str, mode: str = "") -> str:
        return f"tare/{hexadecimal(source_digest)[:16]}:staged"  # as the archive itself says

    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        if source.kind == "oci":
            return [Step("Giving Docker the image", (executable, "load", "--input", source.path))]
        if source.kind == "rootfs":
            command = (executable, "import", source.path, place)
            return [Step("Giving Docker the root file system", command)]
        raise Refused(
            "Docker takes no SIF file: add the image by its reference, its archive or its root "
            "file system."
        )

    def removing(self, place: str, executable: str) -> list[Step]:
        command = ("sh", "-c", scripts.DOCKER_REMOVE, executable, place)
        return [Step("Removing Docker's image", command)]


class OfTheSite(Named):
    """What the site's own service makes, or nobody needs."""

    def making(self, source: Source, place: str, executable: str, mode: str) -> list[Step]:
        raise Refused(self.by_site)

    def removing(self, place: str, executable: str) -> list[Step]:
        raise Refused(self.by_site)


class EnrootContainer(OfTheSite):
    label = "A container of Enroot"
    by_site = "Stage a squashfs file: Enroot starts it as it is."


class Shifter(OfTheSite):
    label = "An image of Shifter"
    by_site = (
        "Shifter's images are pulled by the site's own gateway: run `shifterimg pull` on its login "
        "node, then enter the name that `shifterimg images` shows as the staged image."
    )


class Sarus(OfTheSite):
    label = "An image of Sarus"
    by_site = (
        "Sarus keeps a repository of its own: run `sarus pull`, or `sarus load` of an archive, on "
        "the cluster, then enter the name that `sarus images` shows as the staged image."
    )


FORMATS: dict[str, Format] = {
    "sif": Sif(),
    "sandbox": Sandbox(),
    "squashfs": Squashfs(),
    "udocker": UDockerContainer(),
    "podman": PodmanImage(),
    "docker": DockerImage(),
    "enroot": EnrootContainer(),
    "shifter": Shifter(),
    "sarus": Sarus(),
}


def hexadecimal(digest: str) -> str:
    """The 64 letters of a digest; ValueError for anything else, which no path should hold."""
    found = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
    if not found:
        raise ValueError(f"not a digest: {digest!r}")
    return found[1]


def made(place: str) -> str:
    """Where a file is made, to be moved to its place."""
    return f"{place}.part/made"


def root(place: str) -> str:
    """Where a root file system is unpacked."""
    return f"{place}.part/root"


def guarded(doing: str, place: str, *command: str) -> Step:
    """A step that works in PLACE.part, and clears it away if it fails."""
    return Step(doing, ("sh", "-c", scripts.BESIDE, "beside", f"{place}.part", *command))


def put(place: str, whole: str = "") -> Step:
    """The last step: what is whole takes its place."""
    command = ("sh", "-c", scripts.PUT, "put", f"{place}.part", whole or made(place), place)
    return Step("Moving it into its place", command)


def unpacker(tools: Mapping[str, str], source: Source | None) -> str:
    """Apptainer or Singularity if there is one; nothing else opens a SIF file."""
    for kind in ("apptainer", "singularity"):
        if kind in tools:
            return tools[kind] or RUNTIMES[kind].command
    if source and source.kind == "sif":
        raise Refused("Only Apptainer or Singularity opens SIF files; this cluster has neither.")
    return ""


def unpacked(source: Source, place: str, executable: str, *, keep_variables: bool = False) -> Step:
    """The root file system in a folder."""
    folder = root(place)
    command: tuple[str, ...]
    if source.kind == "rootfs":
        command = ("sh", "-c", scripts.UNTAR, "untar", source.path, folder)
    elif source.kind == "sif" or (keep_variables and executable):
        content = source.path if source.kind == "sif" else f"oci-archive:{source.path}"
        command = (executable, "build", "--sandbox", folder, content)
    else:
        command = ("python3", UNPACK, source.path, folder)
    return guarded("Unpacking the image", place, *command)
