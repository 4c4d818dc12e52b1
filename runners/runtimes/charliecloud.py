"""Charliecloud: a folder or a squashfs file, started in a user namespace by one small program."""

from runners.runtimes.base import WAITING, Inside, Runtime

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Charliecloud(Runtime):
    """`ch-run`, with nothing of the caller's variables.

    Mount points can be made only in an image that seems writable (`--write-fake`, Linux 5.11).
    """

    label = "Charliecloud"
    command = "ch-run"
    formats = ("sandbox", "squashfs")
    data_read_only = False

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [self.choose_executable(environment), "--write-fake"]
        command += ["--unset-env=*", f"--set-env=PATH={PATH}", f"--cd={inside.directory}"]
        command += [f"--bind={mount}" for mount in inside.list_mounts()]
        command += [*environment.options, environment.image_path, "--"]
        return [*command, *WAITING] if environment.image_format == "squashfs" else command
