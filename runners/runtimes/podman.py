"""Podman without root: images in the user's own storage on the node."""

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import SHARED_MEMORY, Inside, Runtime


class Podman(Runtime):
    """`podman run`, as the same user, in the host's network, PID and host name.

    A PID namespace of its own would make the program its first process, which no TERM ends.
    """

    label = "Podman"
    command = "podman"
    formats = ("podman",)

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [self.choose_executable(environment), "run", "--rm", "--pull=never"]
        command += ["--log-driver=none", "--network=host", "--pid=host", "--uts=host"]
        command += ["--http-proxy=false", "--userns=keep-id", "--entrypoint="]
        command.append(f"--workdir={inside.directory}")
        if inside.gpus:
            command.append("--device=nvidia.com/gpu=all")
        command += [f"--volume={mount}" for mount in (SHARED_MEMORY, *inside.list_mounts(":ro"))]
        return [*command, *environment.options, environment.image_path]

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        return [self.choose_executable(environment), "image", "exists", environment.image_path]
