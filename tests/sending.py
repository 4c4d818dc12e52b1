"""Files that tests put on a cluster, by a command that Tare itself never sends."""

from __future__ import annotations

from collections.abc import Mapping

from runners.transports import Transport
from runners.transports.base import build_archive, require_sent

UNPACK = 'mkdir -p "$1" && exec tar -xf - --no-same-owner -C "$1"'


def send_files(transport: Transport, directory: str, files: Mapping[str, bytes]) -> None:
    """Write files, by their names below `directory`; `*.sh` as executables."""
    done = transport.run(["sh", "-c", UNPACK, "unpack", directory], stdin=build_archive(files))
    require_sent(done, f"sending to {directory}")
