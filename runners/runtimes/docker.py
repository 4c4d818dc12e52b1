"""Docker: containers that a daemon starts, root's own or one of the user's."""

from typing import ClassVar

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import SHARED_MEMORY, Inside, Runtime

# Root's daemon would start the program as root: the shell's $0 is the client, $@ its options.
AS_THE_USER = 'exec "$0" run --user="$(id -u):$(id -g)" "$@"'


class Docker(Runtime):
    """`docker run`. The daemon starts the program: the job's cgroup does not hold it."""

    label = "Docker"
    command = "docker"
    formats = ("docker",)
    modes: ClassVar = {
        "group": "root's daemon, for members of the group docker; without a mode too",
        "rootless": "a daemon of the user's own, in which root is the user",
    }

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [self.choose_executable(environment), "run"]
        if environment.mode != "rootless":
            command = ["sh", "-c", AS_THE_USER, self.choose_executable(environment)]
        command += ["--rm", "--init", "--pull=never", "--log-driver=none", "--network=host"]
        command += ["--uts=host", "--entrypoint=", f"--workdir={inside.directory}"]
        if inside.gpus:
            command.append("--gpus=all")
        command += [f"--volume={mount}" for mount in (SHARED_MEMORY, *inside.list_mounts(":ro"))]
        return [*command, *environment.options, environment.image_path]

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        return [self.choose_executable(environment), "image", "inspect", environment.image_path]
