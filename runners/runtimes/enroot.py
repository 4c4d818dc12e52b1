"""Enroot, and Pyxis, which lets Slurm's own srun start it: images as squashfs files."""

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import Inside, Runtime

# NVIDIA's hook shows no GPU and no driver unless it is asked to.
GPUS = ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all")
START_IN = 'cd -- "$0" && exec "$@"'


class Enroot(Runtime):
    """`enroot start` of a squashfs file, or of a container that `enroot create` has unpacked."""

    label = "Enroot"
    command = "enroot"
    formats = ("squashfs", "enroot")

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [self.choose_executable(environment), "start"]
        for variable in GPUS if inside.gpus else ():
            command += ["--env", variable]
        for mount in inside.list_mounts(":none:x-create=auto,bind,ro"):
            command += ["--mount", mount]
        command += [*environment.options, environment.image_path]
        return [*command, "/bin/sh", "-c", START_IN, inside.directory]

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        if environment.image_format == "squashfs":
            return super().build_presence_command(environment)
        listed = '"$0" list | grep -qxF -e "$1"'
        return ["sh", "-c", listed, self.choose_executable(environment), environment.image_path]

    def build_version_command(self, executable: str) -> list[str]:
        return [executable or self.command, "version"]


class Pyxis(Runtime):
    """`srun` with Pyxis's options: a step that has all that the job has."""

    label = "Pyxis"
    command = "srun"
    formats = ("squashfs",)
    under_launchers = False  # its own srun is a step by itself, on the job's first node

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [
            self.choose_executable(environment),
            "--ntasks=1",
            "--overlap",
            "--cpu-bind=none",
        ]
        command.append("--no-container-mount-home")
        command.append(f"--export={','.join(GPUS) if inside.gpus else 'NONE'}")
        command += ["--no-container-remap-root", "--no-container-entrypoint"]
        command.append(f"--container-workdir={inside.directory}")
        mounts = ",".join(inside.list_mounts(":ro"))
        command.append(f"--container-mounts={mounts}")
        return [*command, *environment.options, f"--container-image={environment.image_path}"]
