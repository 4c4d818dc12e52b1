"""Shifter: images that a site's gateway has pulled, mounted by a set-uid program."""

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import CLEAN, Inside, Runtime


class Shifter(Runtime):
    """`shifter`, which hands on its caller's variables and makes no mount points."""

    label = "Shifter"
    command = "shifter"
    formats = ("shifter",)

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = ["sh", "-c", CLEAN, self.choose_executable(environment)]
        command += [f"--image={environment.image_path}", f"--workdir={inside.directory}"]
        if inside.gpus:
            command.append("--module=gpu")
        command += [f"--volume={mount}" for mount in inside.list_mounts(":ro")]
        return [*command, *environment.options]

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        return ["shifterimg", "lookup", environment.image_path]

    def build_version_command(self, executable: str) -> list[str]:
        return [executable or self.command, "--help"]

    def parse_version(self, text: str) -> str:
        """Return "unknown" if it is installed: its help has no version."""
        return "unknown" if "shifter [" in text else ""
