"""The runtime that changes nothing."""

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import Inside, Runtime


class BareMetal(Runtime):
    """Runs the program as it is."""

    label = "Bare metal"
    command = ""
    formats = ()
    data_read_only = False

    def wrap(self, inside: Inside) -> list[str]:
        return []

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        return ["true"]

    def build_version_command(self, executable: str) -> list[str]:
        return ["true"]
