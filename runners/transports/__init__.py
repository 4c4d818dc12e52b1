"""The transports by which Tare reaches a machine."""

from runners.transports.base import Completed, Transport
from runners.transports.by_hand import ByHand
from runners.transports.certificates import Certificate, parse_certificate
from runners.transports.keys import fingerprint_public_key, format_public_key, load_private_key
from runners.transports.known_hosts import parse_known_hosts_line
from runners.transports.local import Local
from runners.transports.ssh import SSH, SSHAddress, scan_host_key

TRANSPORTS: dict[str, type[Transport]] = {"ssh": SSH, "local": Local, "by_hand": ByHand}

__all__ = [
    "SSH",
    "TRANSPORTS",
    "ByHand",
    "Certificate",
    "Completed",
    "Local",
    "SSHAddress",
    "Transport",
    "fingerprint_public_key",
    "format_public_key",
    "load_private_key",
    "parse_certificate",
    "parse_known_hosts_line",
    "scan_host_key",
]
