"""The container runtimes that Tare can use, and bare metal."""

from runners.runtimes.apptainer import Apptainer, Singularity
from runners.runtimes.bare_metal import BareMetal
from runners.runtimes.base import Inside, Runtime
from runners.runtimes.charliecloud import Charliecloud
from runners.runtimes.docker import Docker
from runners.runtimes.enroot import Enroot, Pyxis
from runners.runtimes.podman import Podman
from runners.runtimes.sarus import Sarus
from runners.runtimes.shifter import Shifter
from runners.runtimes.udocker import UDocker

RUNTIMES: dict[str, type[Runtime]] = {
    "bare_metal": BareMetal,
    "apptainer": Apptainer,
    "singularity": Singularity,
    "udocker": UDocker,
    "podman": Podman,
    "charliecloud": Charliecloud,
    "docker": Docker,
    "shifter": Shifter,
    "sarus": Sarus,
    "enroot": Enroot,
    "pyxis": Pyxis,
}

__all__ = ["RUNTIMES", "Inside", "Runtime"]
