"""udocker: containers that an ordinary user unpacks and runs without any help of root."""

from collections.abc import Sequence

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import Runtime

# Without a terminal, udocker 1.3.17's R modes lose output and end with 1 whatever happened.
WITH_TERMINAL = """import pty, sys
status = pty.spawn(sys.argv[1:])
sys.exit(status >> 8 or status % 128 and 128 + status % 128)"""


class UDocker(Runtime):
    """`udocker run` of a container that was made, under its name, when the image was staged."""

    label = "udocker"
    formats = ("udocker",)

    def wrap(
        self,
        argv: Sequence[str],
        environment: EnvironmentSpec,
        *,
        directory: str,
        binds: Sequence[str],
        gpus: bool,
    ) -> list[str]:
        command = [environment.executable or "udocker", "--quiet", "run", "--nobanner"]
        if environment.mode:
            # Only a default: a mode that `udocker setup` gave to the container wins.
            variable = f"UDOCKER_DEFAULT_EXECUTION_MODE={environment.mode}"
            command = ["/usr/bin/env", variable, *command]
        if environment.mode.startswith("R"):
            command = ["python3", "-c", WITH_TERMINAL, *command]
        command.append(f"--workdir={directory}")
        command += [f"--volume={bind}" for bind in (*binds, *environment.binds)]
        return [*command, *environment.options, environment.image_path, *argv]

    def present(self, environment: EnvironmentSpec) -> list[str]:
        return [environment.executable or "udocker", "inspect", "-p", environment.image_path]

    def version(self, executable: str) -> list[str]:
        return [executable or "udocker", "version"]
