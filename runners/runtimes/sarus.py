"""Sarus: images of the user's own repository on the cluster, started by a set-uid program."""

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import CLEAN, Inside, Runtime


class Sarus(Runtime):
    """`sarus run`. Its GPU hook shows the GPUs of the caller's CUDA_VISIBLE_DEVICES, as 0, 1..."""

    label = "Sarus"
    command = "sarus"
    formats = ("sarus",)
    data_read_only = False
    numbers_gpus = True

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = ["sh", "-c", CLEAN, self.choose_executable(environment), "run"]
        command += ["--entrypoint", "", f"--workdir={inside.directory}"]
        for mount in inside.list_mounts():
            outside, _, destination = mount.partition(":")
            command.append(f"--mount=type=bind,source={outside},destination={destination}")
        return [*command, *environment.options, environment.image_path]

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        return ["true"]  # Sarus cannot be asked for one image; without it the run itself fails
