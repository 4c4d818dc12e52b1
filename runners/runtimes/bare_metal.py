"""The runtime that changes nothing."""

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import Inside, Runtime


class BareMetal(Runtime):
    """Runs the program as it is."""

    label = "Bare metal"
    command = ""
    formats = ()

    def wrap(self, inside: Inside) -> list[str]:
        return []

    def present(self, environment: EnvironmentSpec) -> list[str]:
        return ["true"]

    def version(self, executable: str) -> list[str]:
        return ["true"]
