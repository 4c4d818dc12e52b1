"""Facts about the environment, as far as the program inside it can see.

`take_before` runs before the workload imports anything; `take_after` adds the libraries that it
loaded. Facts that cannot be read are left out: the snapshot never ends a run.
"""

from __future__ import annotations

import csv
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from importlib import metadata
from typing import Any

from . import blas_libraries

VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|FLEXIBLAS|NVBLAS|TF|KERAS|XLA|CUDA|NVIDIA|NCCL|SLURMD?)_"
    r"|PYTHON[A-Z]+$|TARE_((LOCAL_)?(RANK|SIZE)|INSTANCES?)$"
    r"|(LD_LIBRARY_PATH|LD_PRELOAD|PATH|HOME|TMPDIR|TZ|LANG|LC_[A-Z]+"
    r"|(APPTAINER|SINGULARITY)_(CONTAINER|NAME|BIND))$"
)
SECRETS = re.compile(r"TOKEN|SECRET|PASS|KEY(_|$)|JWT|CREDENTIAL|AUTH")
LIBRARIES = re.compile(
    r"blas|lapack|mkl|blis|flexiblas|gomp|iomp|cuda|cudnn|cublas|nccl|nvidia"
    r"|tensorflow|libtorch|xla|^libc[.-]|^libm[.-]|libstdc"
)
GPU_FIELDS = (
    "index,name,uuid,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
)


def take_before() -> dict[str, Any]:
    """Return facts about the machine, the system, Python, its packages and variables."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return {
        "schema": 1,
        "hostname": socket.gethostname(),
        "kernel": " ".join((platform.system(), platform.release(), platform.version())),
        "machine": platform.machine(),
        "os": read_os_release(),
        "libc": " ".join(platform.libc_ver()),
        "cpu": read_field("/proc/cpuinfo", "model name"),
        "cpus": cpus,
        "memory_bytes": count_memory_bytes(),
        "cgroup": read_cgroup_limits(),
        "gpus": list_gpus(),
        "gpu_driver": "".join(read_lines("/proc/driver/nvidia/version")[:1]).strip(),
        "python": describe_python(),
        "file_systems": find_file_systems(),
        "packages": find_packages(),
        "variables": select_variables(os.environ),
    }


def take_after() -> dict[str, Any]:
    """Return the libraries that the workload has loaded."""
    return {
        "blas": describe_blas(),
        "blas_loaded": blas_libraries.list_loaded(),
        "libraries": list_libraries(),
    }


def describe_python() -> dict[str, str]:
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "compiler": platform.python_compiler(),
        "build_flags": sysconfig.get_config_var("CONFIG_ARGS") or "",
    }


def select_variables(environ: Any) -> dict[str, str]:
    """Return the variables that can change a measurement; none that could hold a secret."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if VARIABLES.match(name) and not SECRETS.search(name)
    }


def find_packages() -> dict[str, str]:
    """Return name and version of every Python package that this interpreter can import."""
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        fields = distribution.metadata
        if "Name" in fields and "Version" in fields:  # a half-removed package leaves a bare folder
            name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
            versions.setdefault(name, fields["Version"])  # the first on the path is imported
    return versions


def find_file_systems() -> dict[str, str]:
    """Return the kinds of file system of the run's directory, Python and temporary files."""
    paths = {"run": os.getcwd(), "python": os.__file__, "temporary": os.environ.get("TMPDIR")}
    kinds = {name: find_file_system(path or "/tmp") for name, path in paths.items()}
    return {name: kind for name, kind in kinds.items() if kind}


def find_file_system(path: str) -> str:
    """Return the kind of the mount that holds a path, such as "ext4" or "fuse.squashfuse_ll"."""
    path, kind, longest = os.path.realpath(path), "", -1
    for line in read_lines("/proc/self/mountinfo"):
        mount, _, source = line.partition(" - ")
        # Octal escapes stand for spaces and the like: man 5 proc.
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount.split(" ")[4])
        within = path == point or path.startswith(point.rstrip("/") + "/")
        if within and len(point) >= longest:  # the last of several mounts on a path is on top
            kind, longest = source.split(" ")[0], len(point)
    return kind


def describe_blas() -> dict[str, Any]:
    """Return the BLAS and LAPACK that NumPy was built with, if the workload imported NumPy."""
    config = getattr(sys.modules.get("numpy"), "__config__", None)
    dependencies = getattr(config, "CONFIG", {}).get(
        "Build Dependencies", {}
    )  # NumPy 1.25 and later
    fields = ("name", "version", "openblas configuration")
    return {
        library: {key: dependencies[library][key] for key in fields if key in dependencies[library]}
        for library in ("blas", "lapack")
        if library in dependencies
    }


def list_libraries() -> list[str]:
    """Return the paths of the loaded shared libraries that matter for a measurement."""
    paths = {
        line.split(None, 5)[-1].strip() for line in read_lines("/proc/self/maps") if "/" in line
    }
    return sorted(path for path in paths if LIBRARIES.search(os.path.basename(path)))


def list_gpus() -> list[dict[str, str]]:
    """Return the GPUs that nvidia-smi shows in this environment; none without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return []
    argv = ["nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(argv, stdout=subprocess.PIPE, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = answer.stdout.decode("utf-8", "replace").splitlines()
    return list(csv.DictReader(rows, GPU_FIELDS.split(","), skipinitialspace=True))


def read_cgroup_limits() -> dict[str, str]:
    """Return memory and CPU limits as the kernel writes them (cgroup 2 and 1), where readable."""
    limits: dict[str, str] = {}
    for line in read_lines("/proc/self/cgroup"):
        _, controllers, path = line.strip().split(":", 2)
        for controller in controllers.split(","):
            for name in ("memory.max", "cpu.max", "memory.limit_in_bytes", "cpu.cfs_quota_us"):
                file = os.path.join("/sys/fs/cgroup", controller, path.lstrip("/"), name)
                for value in read_lines(file):
                    limits[name] = value.strip()
    return limits


def read_os_release() -> str:
    name = read_field("/etc/os-release", "PRETTY_NAME", separator="=")
    return name.strip('"')


def count_memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def read_field(path: str, name: str, separator: str = ":") -> str:
    for line in read_lines(path):
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return ""


def read_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []
