"""The forms of images that runtimes start, each with the steps that make and remove it. No I/O.

Locations depend on the image's digest alone, so they contain nothing that people typed.
"""

from collections.abc import Mapping

from runners.errors import Refused
from runners.images import scripts
from runners.images.format_base import File, Format, Named, Staging
from runners.images.staging_steps import (
    Source,
    choose_partial_path,
    choose_partial_root,
    find_unpacker,
    make_final_step,
    make_guarded_step,
    make_unpack_step,
    parse_hex_digest,
)
from runners.jobs import Step


class Sif(File):
    label = "A SIF file"
    made_by = ("apptainer", "singularity")
    suffix = ".sif"
    read_outside = scripts.READ_SIF

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        if source.kind == "sif":
            copy = make_guarded_step(
                "Copying the SIF file", location, "cp", source.path, choose_partial_path(location)
            )
            return [copy, make_final_step(location)]
        steps, content = [], f"oci-archive:{source.path}"
        if source.kind == "rootfs":
            steps, content = (
                [make_unpack_step(source, location, executable)],
                choose_partial_root(location),
            )
        command = (
            "sh",
            "-c",
            scripts.BUILD_SIF,
            executable,
            choose_partial_path(location),
            content,
        )
        return [
            *steps,
            make_guarded_step("Making the SIF file", location, *command),
            make_final_step(location),
        ]


class Sandbox(File):
    """A folder. Apptainer, where there is one, keeps the image's variables in it."""

    label = "A sandbox"
    suffix = ".sandbox"
    read_outside = scripts.READ_FOLDER

    def list_making_steps(
        self, source: Source, location: str, executable: str, mode: str
    ) -> list[Step]:
        folder = location.rpartition("/")[0]
        return [
            make_unpack_step(source, location, executable, keep_variables=True),
            # Folders that sites bind need a mount point; empty folders do not change the survey.
            make_guarded_step(
                "Making a mount point",
                location,
                "mkdir",
                "-p",
                choose_partial_root(location) + folder,
            ),
            make_final_step(location, choose_partial_root(location)),
        ]

    def find_maker(self, tools: Mapping[str, str], source: Source | None = None) -> str:
        return find_unpacker(tools, source)


class Squashfs(File):
    label = "A squashfs file"
    suffix = ".sqfs"
    read_outside = scripts.READ_SQUASHFS

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
            choose_partial_root(location),
            choose_partial_path(location),
        )
        return [
            make_unpack_step(source, location, executable),
            make_guarded_step("Making the squashfs file", location, *command),
        ]


class UDockerContainer(Named):
    """A container for each mode: some modes change its files."""

    label = "A container of udocker"
    made_by = ("udocker",)
    read_outside = scripts.READ_UDOCKER
    by_mode = True

    def changes_programs(self, mode: str) -> bool:
        return mode.startswith("F")

    def list_change_steps(self, result: str) -> list[Step]:
        doing = "Noting which files udocker has changed"
        return [Step(doing, ("sh", "-c", scripts.TELL_CHANGES, "changes", result))]

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
    read_outside = scripts.READ_PODMAN
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
