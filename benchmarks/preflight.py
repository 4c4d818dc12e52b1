"""How long the check of a real cluster takes, and how much of it is waiting for what."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lab.client import Lab, ensure_lab, stop_lab
from runners.jobs import EnvironmentSpec, Resources
from runners.preflight import PartitionSpec, RuntimeSpec, Site, check_cluster
from runners.preflight.login import log_in
from runners.schedulers import Slurm
from runners.transports import SSH, SSHAddress

COUNT = 5
GOAL_SECONDS = 15
RUNTIMES = {
    "sif": "apptainer",
    "sandbox": "apptainer",
    "udocker": "udocker",
    "podman": "podman",
    "squashfs": "charliecloud",
}


def environments(lab: Lab) -> tuple[EnvironmentSpec, ...]:
    software = lab.images["numpy"]
    containers = (
        EnvironmentSpec(
            f"{form.format} {form.mode}".strip(),
            RUNTIMES[form.format],
            executable=lab.runtimes[RUNTIMES[form.format]].executable,
            mode=form.mode,
            image_path=form.path,
            python=software.image.python,
        )
        for form in software.staged
        if form.format in RUNTIMES
    )
    return (
        EnvironmentSpec("bare metal", "bare_metal", python=software.bare_metal.python),
        *containers,
    )


def site(lab: Lab, partitions: int) -> Site:
    rows = (
        PartitionSpec(
            row.nodes,
            Resources(row.time_limit_seconds, gpus_per_node=row.gpus_per_node, partition=row.name),
        )
        for row in lab.partitions[:partitions]
    )
    kinds = dict.fromkeys(RUNTIMES.values())
    runtimes = (RuntimeSpec(kind, kind, lab.runtimes[kind].executable) for kind in kinds)
    return Site(lab.work_directory, (), tuple(rows), tuple(runtimes), environments(lab))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tare-bench-"))
    lab = ensure_lab(folder / "lab", images=("numpy",))
    try:
        address = SSHAddress(
            lab.host, lab.port, lab.user, lab.host_key, lab.private_key.read_text()
        )
        print(f"{'':38}{'median':>8}{'longest':>9}   s of {COUNT}; goal {GOAL_SECONDS}")
        times = []
        for _ in range(COUNT):
            began = time.perf_counter()
            with SSH(address) as transport:
                log_in(transport)
            times.append(time.perf_counter() - began)
        print(f"{'log-in alone':38}{statistics.median(times):8.2f}{max(times):9.2f}")
        for count in (0, 1, 2):
            what = site(lab, count)
            times = []
            for _ in range(COUNT):
                began = time.perf_counter()
                with SSH(address) as transport:
                    checks = check_cluster(transport, Slurm(), what)
                times.append(time.perf_counter() - began)
                assert not [check for check in checks if check.outcome == "failed"], checks
            label = f"{len(checks)} checks, " + (
                f"{len(what.environments)} environments on {count} node{'s' if count > 1 else ''}"
                if count
                else "all on the login node"
            )
            print(f"{label:38}{statistics.median(times):8.2f}{max(times):9.2f}")
    finally:
        stop_lab(folder / "lab")


if __name__ == "__main__":
    main()
