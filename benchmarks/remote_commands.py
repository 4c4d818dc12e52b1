"""Milliseconds per remote command over one connection to a real sshd, beside OpenSSH."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lab.client import Lab, ensure_lab, stop_lab
from runners.transports import SSH, SSHAddress

COUNT = 100
COMMANDS = (["true"], ["squeue", "-h"])


def median_ms(command: Callable[[], object], count: int) -> float:
    command()  # the first one connects
    times = []
    for _ in range(count):
        began = time.perf_counter()
        command()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def succeed(argv: list[str]) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def openssh(lab: Lab, folder: Path, *options: str) -> list[str]:
    known = folder / "known_hosts"
    known.write_text(f"[{lab.host}]:{lab.port} {lab.host_key}\n")
    return [
        *("ssh", "-p", str(lab.port), "-i", str(lab.private_key), "-o", "BatchMode=yes"),
        *("-o", f"UserKnownHostsFile={known}", *options, f"{lab.user}@{lab.host}"),
    ]


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tare-bench-"))
    lab = ensure_lab(folder / "lab")
    try:
        address = SSHAddress(
            lab.host, lab.port, lab.user, lab.host_key, lab.private_key.read_text()
        )
        shared = (
            "-o",
            "ControlMaster=auto",
            "-o",
            f"ControlPath={folder}/c",
            "-o",
            "ControlPersist=30",
        )
        print(f"{'':24}{'true':>10}{'squeue -h':>12}   ms, median of {COUNT}")
        with SSH(address) as transport:
            tare_times = [median_ms(partial(transport.run, argv), COUNT) for argv in COMMANDS]
        print(f"{'Tare, one connection':24}{tare_times[0]:10.1f}{tare_times[1]:12.1f}")
        for label, options, count in (
            ("OpenSSH ControlMaster", shared, COUNT),
            ("OpenSSH, a new one each", (), 20),
        ):
            base = openssh(lab, folder, *options)
            ssh_times = [median_ms(partial(succeed, [*base, *argv]), count) for argv in COMMANDS]
            ratio = ssh_times[0] / tare_times[0]
            print(f"{label:24}{ssh_times[0]:10.1f}{ssh_times[1]:12.1f}   {ratio:.1f} x Tare's")
    finally:
        stop_lab(folder / "lab")


if __name__ == "__main__":
    main()
