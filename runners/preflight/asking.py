"""The probes of a check: which commands run on the login node, and which on nodes. No I/O."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from runners.interpreters import NO_PYTHON
from runners.jobs import EnvironmentSpec, JobSpec, Resources
from runners.preflight.checks import PartitionSpec, RuntimeSpec, Site
from runners.preflight.node import OUTPUT_PREFIX
from runners.probes import Probe, build_command, compute_time_limit, login_node
from runners.runtimes import RUNTIMES, Inside
from runners.schedulers import Scheduler

MOST_PARTITIONS = 4  # in which containers are started, all at the same time
MOST_ENVIRONMENTS = 12
WAIT_SECONDS = 5  # for a free node
START_SECONDS = 15  # for a container
TRIAL_SECONDS = 8
MODES_SECONDS = 40  # for a container in each mode of a runtime
GRACE_SECONDS = 5  # for the scheduler to start and end what runs on a node
# A start writes into the container's own folder: two at a time break each other, and a run.
ALONE = ("udocker",)
ANYWHERE = "/tmp"  # noqa: S108 - every machine has it, and nothing is written there

CGROUP = """case $(stat -f -c %T /sys/fs/cgroup) in
cgroup2fs) echo 2 ;;
tmpfs) if [ -e /sys/fs/cgroup/unified/cgroup.procs ]; then echo hybrid; else echo 1; fi ;;
esac"""
NODE = 'echo "${SLURMD_NODENAME:-$(uname -n)}"; uname -r; uname -m'
# 66: the file that the login node has written is not here.
SHARED = '[ -e "$1" ] || exit 66; rm "$(mktemp "$1-XXXXXX")" || exit 73'
# Runs on any Python: prints its version, the system's name and how many GPUs CUDA's driver sees.
INSIDE = f"""import json, platform
facts = {{"python": platform.python_version(), "gpus": 0}}
try:
    for line in open("/etc/os-release"):
        if line.startswith("PRETTY_NAME="):
            facts["os"] = line.partition("=")[2].strip().strip(chr(34))
except (IOError, OSError):
    pass
try:
    import ctypes
    cuda = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    facts["gpus"] = count.value
    if code:
        facts["driver"] = "the CUDA driver answers %d" % code
except (ImportError, OSError, AttributeError) as problem:
    facts["driver"] = str(problem)
print("{OUTPUT_PREFIX}" + json.dumps(facts))"""


# The same by a shell, for an environment without Python: how many GPUs have a device there.
SHELL_INSIDE = """if [ -r /etc/os-release ]; then . /etc/os-release; fi
gpus=0
for file in /dev/nvidia[0-9]*; do if [ -e "$file" ]; then gpus=$((gpus + 1)); fi; done
printf '%s{"python": "%s", "os": "%s", "gpus": %d}\\n' "$1" "$2" "$PRETTY_NAME" "$gpus"
"""


def list_login_node_probes(site: Site, scheduler: Scheduler) -> list[Probe]:
    """Return the probes of the machine that Tare logs in to."""
    where = site.work_directory
    probes = [
        Probe("system", ["sh", "-c", login_node.SYSTEM]),
        Probe("python", ["python3", "--version"]),
        Probe("clock", ["date", "+%s"]),
        Probe(
            "work directory", ["sh", "-c", login_node.WORK_DIRECTORY, "check", where], TRIAL_SECONDS
        ),
        Probe("space", ["sh", "-c", login_node.SPACE, "df", where]),
        Probe("inodes", ["sh", "-c", login_node.INODES, "df", where]),
        Probe("file system", ["sh", "-c", login_node.FILE_SYSTEM, "stat", where]),
        Probe("quota", ["sh", "-c", login_node.QUOTA, "quota", where]),
    ]
    for name, argv in (
        ("version", scheduler.build_version_command()),
        ("partitions", scheduler.build_partitions_command()),
    ):
        if argv:
            probes.append(Probe(name, argv, TRIAL_SECONDS))
    for partition in site.partitions:
        if argv := scheduler.build_trial_command(make_unsent_job(site, partition.resources)):
            probes.append(Probe(f"trial {partition.name}", argv, TRIAL_SECONDS))
    return probes


def make_unsent_job(site: Site, resources: Resources) -> JobSpec:
    """Return a job that is never sent: only its header is used."""
    directory = f"{site.work_directory.rstrip('/')}/jobs/check"
    return JobSpec("check", "tare-check", directory, (), resources)


def why_options_are_wrong(site: Site, scheduler: Scheduler, partition: PartitionSpec) -> str:
    """Return why this partition's options cannot be given to the scheduler, or ""."""
    job = make_unsent_job(site, partition.resources)
    try:
        scheduler.render_header(job)
        scheduler.build_immediate_command(job, [], seconds=WAIT_SECONDS)
    except ValueError as problem:
        return str(problem)
    return ""


def why_not_started(site: Site, scheduler: Scheduler, number: int, *, first: str) -> str:
    """Return why this environment is not started, or "" if it is.

    `first` is the partition in which environments are started that may start only once at a time;
    empty: it is this partition.
    """
    if number >= MOST_ENVIRONMENTS:
        return f"a check starts {MOST_ENVIRONMENTS} at most"
    spec = site.environments[number]
    is_alone = spec.runtime in ALONE
    if site.is_measuring and (is_alone or not scheduler.has_partitions):
        return "Tare's jobs are under way here, and a start beside them could disturb a run"
    earlier = (
        (environment.runtime, environment.image_path) for environment in site.environments[:number]
    )
    if is_alone and (spec.runtime, spec.image_path) in earlier:
        return "the same container is started in another mode, and two at a time break each other"
    if is_alone and first:
        return f"it is started in partition {first}, and two starts at a time break each other"
    return ""


def list_node_probes(
    site: Site, scheduler: Scheduler, *, gpus: int, token: str, first: str = ""
) -> list[Probe]:
    """Return the probes of a node. `token` is a file that the login node has written, or ""."""
    probes = [
        Probe("node", ["sh", "-c", NODE]),
        Probe("namespaces", ["unshare", "--user", "--map-root-user", "true"]),
        Probe("fuse", ["sh", "-c", ": 3<>/dev/fuse"]),
        Probe("cgroup", ["sh", "-c", CGROUP]),
    ]
    if token:
        probes.append(Probe("shared", ["sh", "-c", SHARED, "check", token]))
    if gpus:
        probes.append(Probe("gpus", ["nvidia-smi", "-L"], TRIAL_SECONDS))
    for number, runtime in enumerate(site.runtimes):
        probes.append(Probe(f"runtime {number}", _build_version_command(runtime), TRIAL_SECONDS))
        # A trial takes all cores for some seconds, and its result is the same in every partition.
        trial = [] if first or site.is_measuring else _build_modes_command(runtime)
        if trial:
            probes.append(Probe(f"modes {number}", trial, MODES_SECONDS))
    directory = str(PurePosixPath(token).parent) if token else ANYWHERE
    for number, spec in enumerate(site.environments):
        if not why_not_started(site, scheduler, number, first=first):
            start = _start_command(spec, directory, gpus > 0)
            probes.append(Probe(f"environment {number}", start, START_SECONDS))
    return probes


def plan_node_probes(
    site: Site, scheduler: Scheduler, *, token: str
) -> list[tuple[PartitionSpec, list[Probe], Probe]]:
    """Return each partition to try, with a node's probes and the probe that runs them there."""
    plans: list[tuple[PartitionSpec, list[Probe], Probe]] = []
    chosen = sorted(
        site.partitions,
        key=lambda partition: (
            -partition.resources.gpus_per_node,
            -partition.resources.time_limit_seconds,
        ),
    )
    for partition in chosen[:MOST_PARTITIONS]:
        resources = _limit_to_one_gpu(partition.resources)
        first = plans[0][0].name if plans else ""
        gpus = resources.gpus_per_node
        probes = list_node_probes(site, scheduler, gpus=gpus, token=token, first=first)
        inner = ["bash", "-lc", *build_command(probes, setup_lines=site.setup_lines)]
        argv = scheduler.build_immediate_command(
            make_unsent_job(site, resources), inner, seconds=WAIT_SECONDS
        )
        if argv:
            seconds = WAIT_SECONDS + compute_time_limit(probes) + GRACE_SECONDS
            plans.append((partition, probes, Probe(partition.name, argv, seconds, 1 << 20)))
    return plans


def _limit_to_one_gpu(resources: Resources) -> Resources:
    return replace(resources, gpus_per_node=min(1, resources.gpus_per_node), time_limit_seconds=60)


def _build_version_command(runtime: RuntimeSpec) -> list[str]:
    return _prepend_setup_lines(
        runtime.setup_lines, RUNTIMES[runtime.kind]().build_version_command(runtime.executable)
    )


def _build_modes_command(runtime: RuntimeSpec) -> list[str]:
    trial = RUNTIMES[runtime.kind]().build_modes_command(runtime.executable)
    return _prepend_setup_lines(runtime.setup_lines, trial) if trial else []


def _start_command(spec: EnvironmentSpec, directory: str, gpus: bool) -> list[str]:
    """Return the command that starts the environment's Python, else its shell, as a job would."""
    variables = [f"{name}={value}" for name, value in spec.variables]
    has_none = spec.python == NO_PYTHON
    by_shell = ["/bin/sh", "-c", SHELL_INSIDE, "inside", OUTPUT_PREFIX, NO_PYTHON]
    starter = by_shell if has_none else [spec.python, "-c", INSIDE]
    program = ["/usr/bin/env", *variables, *starter]
    container_command = RUNTIMES[spec.runtime]().wrap(
        Inside(spec, directory, binds=(directory,), gpus=gpus)
    )
    return _prepend_setup_lines(spec.setup_lines, [*container_command, *program])


def _prepend_setup_lines(setup_lines: Sequence[str], argv: Sequence[str]) -> list[str]:
    """Return the command, run after set-up lines: those are shell, written by administrators."""
    if not setup_lines:
        return list(argv)
    return ["bash", "-c", "\n".join([*setup_lines, '"$@"']), "setup", *argv]
