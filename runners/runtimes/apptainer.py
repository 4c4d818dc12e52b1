"""Apptainer, and SingularityCE before it: images as SIF files or sandbox directories."""

from collections.abc import Sequence

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import Runtime


class Apptainer(Runtime):
    """`apptainer exec`, with neither the user's variables nor home directory inside."""

    label = "Apptainer"
    formats = ("sif", "sandbox")

    def wrap(
        self,
        argv: Sequence[str],
        environment: EnvironmentSpec,
        *,
        directory: str,
        binds: Sequence[str],
        gpus: bool,
    ) -> list[str]:
        command = [environment.executable or "apptainer", "--silent", "exec"]
        command += ["--cleanenv", "--no-home", "--pwd", directory]
        if gpus:
            command.append("--nv")
        for bind in (*binds, *environment.binds):
            command += ["--bind", bind]
        return [*command, *environment.options, environment.image_path, *argv]

    def present(self, environment: EnvironmentSpec) -> list[str]:
        return ["test", "-e", environment.image_path]

    def version(self, executable: str) -> list[str]:
        return [executable or "apptainer", "--version"]
