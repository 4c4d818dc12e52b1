"""The steps that stage an image on a cluster, from a source to a form for a runtime. No I/O.

A form is made beside its location and moved there when it is complete. If a step ends early, only
`PLACE.part` can be left, which the step itself, the next staging or the removal delete. Locations
depend on the image's digest alone, so they contain nothing that people typed.
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
    """A file on the cluster from which forms are made; an archive is one of `convert_to_oci`."""

    kind: str  # "oci", "rootfs" or "sif"
    path: str
    digest: str  # of the image, "sha256:..."


@dataclass(frozen=True)
class Staging:
    """The steps that make one form. `location` becomes EnvironmentSpec.image_path."""

    location: str
    needs: tuple[str, ...]  # programs that the node must have
    steps: tuple[Step, ...]


class Format(ABC):
    """One form of images on a cluster.

    `tools` are the cluster's runtimes: kind -> executable, empty for the usual name on PATH. The
    format chooses the one that makes the form, so a new runtime needs nothing here.
    """

    label: ClassVar[str]
    made_by: ClassVar[tuple[str, ...]] = ()  # kinds of runtimes that can make it, the best first
    by_mode: ClassVar[bool] = False  # each mode of the runtime changes it and needs its own form
    on_node: ClassVar[bool] = False  # each node stores it for itself
    by_site: ClassVar[str] = ""  # why Tare does not make it; then making and removing it is refused

    @abstractmethod
    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        """Return the path of an image's form below `folder`, or its name in a store."""

    @abstractmethod
    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        """Return the steps; `executable` is that of the first in `made_by` that the cluster has."""

    @abstractmethod
    def is_made_by_tare(self, location: str) -> bool:
        """Return whether Tare has made the form at this place, by its path or name."""

    @abstractmethod
    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        """Return the steps that remove it, and do nothing if it is gone."""

    def stage(
        self, source: Source, folder: str, tools: Mapping[str, str], mode: str = ""
    ) -> Staging:
        """Return how to make an image's form below `folder`, an absolute path. Raises Refused."""
        executable = self.find_maker(tools, source)
        location = self.choose_location(source.digest, folder, mode)
        steps = tuple(self.list_making_steps(source, location, executable, mode))
        needs = {"python3" for step in steps if UNPACK in step.argv}
        needs |= {"mksquashfs" for step in steps if "mksquashfs" in step.argv}
        return Staging(location, tuple(sorted({*needs, executable} - {""})), steps)

    def unstage(self, location: str, tools: Mapping[str, str]) -> tuple[Step, ...]:
        """Return the steps that remove a form. Raises Refused if Tare has not made it."""
        if not self.is_made_by_tare(location):
            raise Refused(f"{location} was not staged by Tare, which removes nothing else.")
        return tuple(self.list_removal_steps(location, self.find_maker(tools)))

    def find_maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        """Return the program that makes this form. Raises Refused if the cluster has none."""
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

    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        return f"{folder.rstrip('/')}/{parse_hex_digest(source_digest)}{self.suffix}"

    def is_made_by_tare(self, location: str) -> bool:
        return bool(re.fullmatch(rf"/.*/[0-9a-f]{{64}}{re.escape(self.suffix)}", location))

    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        return [Step("Removing it", ("sh", "-c", scripts.REMOVE, "remove", location))]


class Named(Format):
    """A form in the runtime's own store, identified by a name."""

    pattern: ClassVar[str] = r"tare-[0-9a-f]{16}(-[a-z0-9]+)?"

    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        return "-".join(filter(None, ["tare", parse_hex_digest(source_digest)[:16], mode.lower()]))

    def is_made_by_tare(self, location: str) -> bool:
        return bool(re.fullmatch(self.pattern, location))


class Sif(File):
    label = "A SIF file"
    made_by = ("apptainer", "singularity")
    suffix = ".sif"

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        if source.kind == "sif":
            copy = make_guarded_step(
                "Copying the SIF file", location, "cp", source.path, partial_path(location)
            )
            return [copy, make_final_step(location)]
        steps, content = [], f"oci-archive:{source.path}"
        if source.kind == "rootfs":
            steps, content = (
                [make_unpack_step(source, location, executable)],
                partial_root(location),
            )
        command = ("sh", "-c", scripts.BUILD_SIF, executable, partial_path(location), content)
        return [
            *steps,
            make_guarded_step("Making the SIF file", location, *command),
            make_final_step(location),
        ]


class Sandbox(File):
    """A folder. Apptainer, where there is one, keeps the image's variables in it."""

    label = "A sandbox"
    suffix = ".sandbox"

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        folder = location.rpartition("/")[0]
        return [
            make_unpack_step(source, location, executable, keep_variables=True),
            # Folders that sites bind need a mount point; empty folders do not change the survey.
            make_guarded_step(
                "Making a mount point", location, "mkdir", "-p", partial_root(location) + folder
            ),
            make_final_step(location, partial_root(location)),
        ]

    def find_maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        return find_unpacker(tools, source)


class Squashfs(File):
    label = "A squashfs file"
    suffix = ".sqfs"

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        return [*self.list_squash_steps(source, location, executable), make_final_step(location)]

    def find_maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        return find_unpacker(tools, source) if source and source.kind == "sif" else ""

    @staticmethod
    def list_squash_steps(source: Source, location: str, executable: str) -> list[Step]:
        command = (
            "sh",
            "-c",
            scripts.SQUASH,
            "mksquashfs",
            partial_root(location),
            partial_path(location),
        )
        return [
            make_unpack_step(source, location, executable),
            make_guarded_step("Making the squashfs file", location, *command),
        ]


class UDockerContainer(Named):
    """A container for each mode: some modes change its files."""

    label = "A container of udocker"
    made_by = ("udocker",)
    by_mode = True

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        if source.kind == "sif":
            raise Refused(
                "udocker makes no container of a SIF file: add the image by its reference, its "
                "archive or its root file system."
            )
        script = scripts.UDOCKER_LOAD if source.kind == "oci" else scripts.UDOCKER_IMPORT
        command = ("sh", "-c", script, executable, source.path, location, mode or "P1")
        return [Step("Making the container of udocker", command)]

    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        command = ("sh", "-c", scripts.UDOCKER_REMOVE, executable, location)
        return [Step("Removing the container of udocker", command)]


class PodmanImage(Named):
    """In the user's storage on the node. The digest in its name is enforced by Podman."""

    label = "Podman's image"
    made_by = ("podman",)
    on_node = True
    pattern = r"localhost/tare/[0-9a-f]{16}(@sha256:[0-9a-f]{64}|:rootfs)"
    script = scripts.PODMAN_LOAD

    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        return f"localhost/tare/{parse_hex_digest(source_digest)[:16]}@{source_digest}"

    def stage(
        self, source: Source, folder: str, tools: Mapping[str, str], mode: str = ""
    ) -> Staging:
        staging = super().stage(source, folder, tools, mode)
        if source.kind == "oci":
            return staging
        return Staging(self.name_rootfs(staging.location), staging.needs, staging.steps)

    @staticmethod
    def remove_digest(location: str) -> str:
        """Return the name with a tag, the only kind that Podman can add and remove."""
        return location.partition("@")[0] + ":staged" if "@" in location else location

    @staticmethod
    def name_rootfs(location: str) -> str:
        return location.partition("@")[0] + ":rootfs"

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        if source.kind == "sif":
            raise Refused(
                "Podman takes no SIF file: add the image by its reference, its archive or its root "
                "file system."
            )
        script, name = scripts.PODMAN_LOAD, self.remove_digest(location)
        if source.kind == "rootfs":
            script, name = scripts.PODMAN_IMPORT, self.name_rootfs(location)
        command = ("sh", "-c", script, executable, source.path, name)
        return [Step("Giving Podman the image", command)]

    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        command = ("sh", "-c", scripts.PODMAN_REMOVE, executable, self.remove_digest(location))
        return [Step("Removing Podman's image", command)]


class DockerImage(Named):
    """In the daemon's storage on the node."""

    label = "Docker's image"
    made_by = ("docker",)
    on_node = True
    pattern = r"tare/[0-9a-f]{16}:staged"

    def choose_location(self, source_digest: str, folder: str, mode: str = "") -> str:
        return f"tare/{parse_hex_digest(source_digest)[:16]}:staged"  # as the archive itself says

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        if source.kind == "oci":
            return [Step("Giving Docker the image", (executable, "load", "--input", source.path))]
        if source.kind == "rootfs":
            command = (executable, "import", source.path, location)
            return [Step("Giving Docker the root file system", command)]
        raise Refused(
            "Docker takes no SIF file: add the image by its reference, its archive or its root "
            "file system."
        )

    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        command = ("sh", "-c", scripts.DOCKER_REMOVE, executable, location)
        return [Step("Removing Docker's image", command)]


class SiteFormat(Named):
    """A form that only the site's own service makes, or that is not needed."""

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        raise Refused(self.by_site)

    def list_removal_steps(self, location: str, executable: str) -> list[Step]:
        raise Refused(self.by_site)


class EnrootContainer(SiteFormat):
    label = "A container of Enroot"
    by_site = "Stage a squashfs file: Enroot starts it as it is."


class Shifter(SiteFormat):
    label = "An image of Shifter"
    by_site = (
        "Shifter's images are pulled by the site's own gateway: run `shifterimg pull` on its login "
        "node, then enter the name that `shifterimg images` shows as the staged image."
    )


class Sarus(SiteFormat):
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


def parse_hex_digest(digest: str) -> str:
    """Return the 64 letters of a digest. ValueError for anything else: no path may contain it."""
    match = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
    if not match:
        raise ValueError(f"not a digest: {digest!r}")
    return match[1]


def partial_path(location: str) -> str:
    """Return the path at which a file is made, to be moved to its location."""
    return f"{location}.part/made"


def partial_root(location: str) -> str:
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
        whole or partial_path(location),
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
    folder = partial_root(location)
    command: tuple[str, ...]
    if source.kind == "rootfs":
        command = ("sh", "-c", scripts.UNTAR, "untar", source.path, folder)
    elif source.kind == "sif" or (keep_variables and executable):
        content = source.path if source.kind == "sif" else f"oci-archive:{source.path}"
        command = (executable, "build", "--sandbox", folder, content)
    else:
        command = ("python3", UNPACK, source.path, folder)
    return make_guarded_step("Unpacking the image", location, *command)
