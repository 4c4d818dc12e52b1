"""Ways to put a program behind a wall, and the one that puts up none."""

from runners.runtimes.apptainer import Apptainer
from runners.runtimes.bare_metal import BareMetal
from runners.runtimes.base import Runtime
from runners.runtimes.udocker import UDocker

RUNTIMES: dict[str, type[Runtime]] = {
    "bare_metal": BareMetal,
    "apptainer": Apptainer,
    "udocker": UDocker,
}

__all__ = ["RUNTIMES", "Apptainer", "BareMetal", "Runtime", "UDocker"]
