"""The probes by which a cluster is read: all on the login node, none on a compute node. No I/O."""

from runners.preflight.asking import TRIAL_SECONDS
from runners.probes import Probe, login_node
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS, slurm_offers

MOST_BYTES = 1 << 20  # of a list of partitions


def list_first_probes(scheduler: str) -> list[Probe]:
    """Return what is asked first: the account, and which scheduler there is.

    `scheduler` is a key of SCHEDULERS, or empty: then all are tried.
    """
    probes = [
        Probe("system", ["sh", "-c", login_node.SYSTEM]),
        Probe("python", ["python3", "--version"]),
        Probe("clock", ["date", "+%s"]),
        Probe("home", ["sh", "-c", login_node.HOME]),
        Probe("machine", ["sh", "-c", login_node.MACHINE]),
        Probe("gpus", ["nvidia-smi", "-L"], TRIAL_SECONDS),
    ]
    for kind in [scheduler] if scheduler else SCHEDULERS:
        adapter = SCHEDULERS[kind]()
        if version := adapter.build_version_command():
            probes.append(Probe(f"version {kind}", version, TRIAL_SECONDS))
        if partitions := adapter.build_partitions_command():
            probes.append(Probe(f"partitions {kind}", partitions, TRIAL_SECONDS, MOST_BYTES))
    if scheduler in ("", "slurm"):
        accounts = ["sh", "-c", slurm_offers.ASSOCIATIONS]
        probes += [
            Probe("sizes", slurm_offers.SIZES, TRIAL_SECONDS, MOST_BYTES),
            Probe("limits", slurm_offers.LIMITS, TRIAL_SECONDS, MOST_BYTES),
            Probe("accounts", accounts, TRIAL_SECONDS, MOST_BYTES),
        ]
    return probes


def list_directory_probes(directory: str) -> list[Probe]:
    """Return what is asked about the work directory."""
    return [
        Probe(
            "work directory",
            ["sh", "-c", login_node.WORK_DIRECTORY, "check", directory],
            TRIAL_SECONDS,
        ),
        Probe("space", ["sh", "-c", login_node.SPACE, "df", directory]),
        Probe("inodes", ["sh", "-c", login_node.INODES, "df", directory]),
        Probe("file system", ["sh", "-c", login_node.FILE_SYSTEM, "stat", directory]),
        Probe("quota", ["sh", "-c", login_node.QUOTA, "quota", directory]),
    ]


def list_runtime_probes() -> list[Probe]:
    """Return a question for the version of each runtime, by its usual name."""
    return [
        Probe(f"runtime {kind}", _build_version_command(kind), TRIAL_SECONDS)
        for kind, runtime in RUNTIMES.items()
        if runtime.formats and runtime.command
    ]


def _build_version_command(kind: str) -> list[str]:
    return (
        ["sh", "-c", login_node.PYXIS]
        if kind == "pyxis"
        else RUNTIMES[kind]().build_version_command("")
    )
