"""Podman without root: images in the user's own storage on the node."""

from typing import ClassVar

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import SHARED_MEMORY, Inside, Runtime

# Podman copies an image for the user's numbers into folders beside those that it names: diff1,
# diff2. Only the user namespace of its containers can look there.
LAYERS = """podman=$0
container=$("$podman" create --pull=never --userns=keep-id "$@" true) || exit
layers=$("$podman" inspect --format '{{.GraphDriver.Data.LowerDir}}' "$container")
"$podman" rm "$container" >&2
"$podman" unshare sh -c 'IFS=:
for layer in $1; do
    for folder in "$layer" "$layer"[0-9]*; do
        if [ -d "$folder" ]; then printf "%s\\n" "$folder"; fi
    done
done' layers "$layers"
"""


class Podman(Runtime):
    """`podman run`, as the same user, in the host's network, PID and host name.

    A PID namespace of its own would make the program its first process, which no TERM ends.
    """

    label = "Podman"
    command = "podman"
    formats = ("podman",)
    formats_of_files: ClassVar = frozenset({"podman"})

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

    def build_place_command(self, environment: EnvironmentSpec) -> list[str]:
        podman = self.choose_executable(environment)
        return ["sh", "-c", LAYERS, podman, *environment.options, environment.image_path]

    def build_reading_command(self, environment: EnvironmentSpec) -> list[str]:
        return [self.choose_executable(environment), "unshare"]
