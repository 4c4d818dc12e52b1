"""Streaming an image to a cluster beside `scp`: one sshd, the same file, turn by turn."""

from __future__ import annotations

import hashlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners.transports import SSH
from tests.runners.sshd import Server, serve

SIZE = 1 << 29  # bytes
ROUNDS = 5
SHARED = Path("/dev/shm")  # a disk would be the bottleneck


def seconds(command: Callable[[], object]) -> float:
    began = time.perf_counter()
    command()
    return time.perf_counter() - began


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def scp(server: Server, folder: Path, *paths: str) -> None:
    known = ("-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder}/known")
    login = ("-P", str(server.address.port), "-i", str(folder / "user_key"))
    subprocess.run(["scp", "-q", *login, *known, *paths], check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    base = SHARED if SHARED.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="tare-bench-", dir=base) as name:
        folder = Path(name)
        source, target = folder / "source", folder / "there"
        with source.open("wb") as file:
            subprocess.run(["head", "-c", str(SIZE), "/dev/urandom"], stdout=file, check=True)
        with source.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        with serve(folder) as server, SSH(server.address) as transport:
            remote = f"{server.address.user}@127.0.0.1:{target}"
            transport.run(["true"])
            before = peak_mb()

            def upload() -> None:
                target.unlink(missing_ok=True)
                with source.open("rb") as file:
                    transport.upload(str(target), file, SIZE, sha256)

            def download() -> None:
                with (folder / "back").open("wb") as file:
                    assert transport.download(str(source), file) == sha256

            rows: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                for label, command in {
                    "scp there": lambda: scp(server, folder, str(source), remote),
                    "Tare there, and checked": upload,
                    "scp back": lambda: scp(server, folder, remote, str(folder / "back")),
                    "Tare back, and checked": download,
                }.items():
                    rows.setdefault(label, []).append(SIZE / seconds(command) / 1e6)
            print(f"{SIZE / 1e6:.0f} MB, MB/s: median of {ROUNDS}, and each")
            for label, rates in rows.items():
                each = " ".join(f"{rate:.0f}" for rate in rates)
                print(f"{label:26}{statistics.median(rates):8.0f}   {each}")
            for direction in ("there", "back"):
                pairs = zip(
                    rows[f"Tare {direction}, and checked"], rows[f"scp {direction}"], strict=True
                )
                ratio = statistics.median(tare_rate / scp_rate for tare_rate, scp_rate in pairs)
                print(f"{direction}: {ratio:.2f} of scp's rate (goal 0.80)")
            print(f"memory: {before:.0f} MB before, at most {peak_mb():.0f} MB")


if __name__ == "__main__":
    main()
