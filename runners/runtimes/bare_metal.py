"""The runtime that changes nothing."""

from collections.abc import Sequence

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import Runtime


class BareMetal(Runtime):
    """Runs the program as it is."""

    label = "Bare metal"
    formats = ()

    def wrap(
        self,
        argv: Sequence[str],
        environment: EnvironmentSpec,
        *,
        directory: str,
        binds: Sequence[str],
        gpus: bool,
    ) -> list[str]:
        return list(argv)

    def present(self, environment: EnvironmentSpec) -> list[str]:
        return ["true"]

    def version(self, executable: str) -> list[str]:
        return ["true"]
