"""Ways to reach a machine."""

from runners.transports.base import Completed, Transport
from runners.transports.local import Local
from runners.transports.ssh import SSH, SSHAddress, fingerprint, scan_host_key

TRANSPORTS: dict[str, type[Transport]] = {"ssh": SSH, "local": Local}

__all__ = [
    "SSH",
    "TRANSPORTS",
    "Completed",
    "Local",
    "SSHAddress",
    "Transport",
    "fingerprint",
    "scan_host_key",
]
