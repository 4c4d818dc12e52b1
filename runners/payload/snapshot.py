"""Facts about the environment, as far as the program inside it can see.

`take_before` runs before the workload imports anything; `take_after` adds the libraries that it
loaded. Facts that cannot be read are left out: the snapshot never ends a run.

Every run pays for what this module imports, so that little is imported above: `importlib.metadata`,
`platform` and `subprocess` alone would take as long as all the rest.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Any, Iterator, Tuple

from . import node_settings
from .executables import find_executable

VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|FLEXIBLAS|NVBLAS|TF|KERAS|XLA|CUDA|NVIDIA|NCCL|SLURMD?"
    r"|MALLOC)_"
    r"|PYTHON[A-Z]+$|TARE_((LOCAL_)?(RANK|SIZE)|INSTANCES?)$"
    r"|(LD_LIBRARY_PATH|LD_PRELOAD|PATH|HOME|TMPDIR|TZ|LANG|LC_[A-Z]+"
    r"|(APPTAINER|SINGULARITY)_(CONTAINER|NAME|BIND)"
    r"|LOADEDMODULES|_LMFILES_[0-9]*|MODULEPATH|CONDA_PREFIX|VIRTUAL_ENV)$"
)
OF_ONE_JOB = re.compile(
    r"SLURM_(JOB_?ID|JOB_NAME|JOB_(START|END)_TIME|TASK_PID|STEP_LAUNCHER_PORT|SRUN_COMM_PORT)$"
)
"""Names and times of a job, which its record has: with them no two snapshots would be the same."""
OF_ONE_RUN = re.compile(OF_ONE_JOB.pattern + r"|TARE_|_$")
SECRETS = re.compile(r"TOKEN|SECRET|PASS|KEY(_|$)|JWT|CREDENTIAL|AUTH")
LIBRARIES = re.compile(
    r"blas|lapack|mkl|blis|flexiblas|gomp|iomp|cuda|cudnn|cublas|nccl|nvidia"
    r"|tensorflow|libtorch|xla|^libc[.-]|^libm[.-]|libstdc|^libomp|jemalloc|tcmalloc|mimalloc"
)
BLAS = re.compile(r"blas|blis|lapack|atlas|mkl_(rt|core)")
"""In the names of all files that `blas_libraries` knows."""
METADATA_FILES = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
GPU_FIELDS = (
    "index,name,uuid,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
)
MORE_GPU_FIELDS = (
    "persistence_mode,compute_mode,ecc.mode.current,mig.mode.current,clocks.applications.graphics"
    ",clocks.applications.memory,pcie.link.gen.max,pcie.link.width.max,vbios_version"
)
"""What a driver may not know: it then refuses the whole question."""


def take_before(data_directory: str = "") -> dict[str, Any]:
    """Return facts about the machine, the system, Python, its packages and variables."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    system = os.uname()
    return {
        "schema": 1,
        "hostname": system.nodename,
        "kernel": " ".join((system.sysname, system.release, system.version)),
        "machine": system.machine,
        "os": read_os_release(),
        "libc": describe_libc(),
        "cpu": read_field("/proc/cpuinfo", "model name"),
        "cpus": cpus,
        "memory_bytes": count_memory_bytes(),
        "cgroup": read_cgroup_limits(),
        "gpus": list_gpus(),
        "gpu_driver": "".join(read_lines("/proc/driver/nvidia/version")[:1]).strip(),
        "python": describe_python(),
        "file_systems": find_file_systems(data_directory),
        "packages": find_packages(),
        "variables": select_variables(os.environ),
        **node_settings.describe_node(cpus),
        "other_variables": name_other_variables(os.environ),
    }


def take_after() -> dict[str, Any]:
    """Return the libraries that the workload has loaded."""
    return {
        "blas": describe_blas(),
        "blas_loaded": list_loaded_blas(),
        "libraries": list_libraries(),
    }


def describe_libc() -> str:
    """Return name and version of the C library, such as "glibc 2.41"."""
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):  # another C library
        name = None
    if name:
        return name
    import platform

    return " ".join(platform.libc_ver())


def describe_python() -> dict[str, str]:
    implementation = sys.implementation.name
    return {
        "version": sys.version.split()[0],
        "implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(
            implementation, implementation
        ),
        "executable": sys.executable,
        "compiler": sys.version.rpartition("[")[2].partition("]")[0],
        "build_flags": read_build_flags(),
    }


def read_build_flags() -> str:
    """Return the options with which this Python was configured."""
    multiarch = getattr(sys.implementation, "_multiarch", "")
    abi_flags = getattr(sys, "abiflags", "")
    try:  # where `sysconfig` reads them, which takes longer
        name = f"_sysconfigdata_{abi_flags}_{sys.platform}_{multiarch}"
        variables = importlib.import_module(name).build_time_vars
    except (ImportError, AttributeError):
        import sysconfig

        variables = sysconfig.get_config_vars()
    return variables.get("CONFIG_ARGS") or ""


def select_variables(environ: Any) -> dict[str, str]:
    """Return the variables that can change a measurement; none that could hold a secret."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if VARIABLES.match(name) and not SECRETS.search(name) and not OF_ONE_JOB.match(name)
    }


def name_other_variables(environ: Any) -> list[str]:
    """Return the names alone of variables that are not recorded: their values may be secrets."""
    known = select_variables(environ)
    names = [name for name in environ if name not in known and not OF_ONE_RUN.match(name)]
    return [name[:200] for name in sorted(names)[:500]]


def find_packages() -> dict[str, str]:
    """Return name and version of every Python package that this interpreter can import."""
    versions: dict[str, str] = {}
    for name, version in list_distributions():
        if name and version:  # a half-removed package leaves a bare folder
            name = re.sub(r"[-_.]+", "-", name).lower()
            versions.setdefault(name, version)  # the first on the path is imported
    return versions


def list_distributions() -> Iterator[Tuple[str, str]]:
    """Yield name and version of each distribution, as `importlib.metadata` does."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    is_usual = all(getattr(finder, "__name__", "") == "PathFinder" for finder in finders)
    others = [path for path in sys.path if path.endswith(".egg") or os.path.isfile(path)]
    if others or not is_usual:  # packages inside archives, or wherever other finders look
        from importlib import metadata

        for distribution in metadata.distributions():
            fields = distribution.metadata
            if "Name" in fields and "Version" in fields:
                yield fields["Name"], fields["Version"]
        return
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            file = METADATA_FILES.get(name[-len(".dist-info") :].lower()) or METADATA_FILES.get(
                name[-len(".egg-info") :].lower()
            )
            if file:
                yield read_name_and_version(os.path.join(folder, name), file)


def read_name_and_version(path: str, file: str) -> Tuple[str, str]:
    """Return what a package's metadata say: this file of its folder, or the file `path` itself."""
    fields = {"name": "", "version": ""}
    for line in read_lines(os.path.join(path, file)) or read_lines(path):
        if not line.strip() or all(fields.values()):
            break
        key, _, value = line.partition(":")
        if fields.get(key.lower()) == "":
            fields[key.lower()] = value.strip()
    return fields["name"], fields["version"]


def find_file_systems(data_directory: str = "") -> dict[str, str]:
    """Return the kinds of file system of the run's directory, Python, data and temporary files."""
    paths = {"run": os.getcwd(), "python": os.__file__, "data": data_directory}
    paths["temporary"] = os.environ.get("TMPDIR") or "/tmp"
    kinds = {name: find_file_system(path) for name, path in paths.items() if path}
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


def list_loaded_blas() -> list[dict[str, Any]]:
    """Return the BLAS and LAPACK libraries of this process, by what they tell of themselves."""
    names = (os.path.basename(path) for path in list_mapped_files())
    if not any(BLAS.search(name) for name in names):
        return []
    from . import blas_libraries

    return blas_libraries.list_loaded()


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
    paths = list_mapped_files()
    return sorted(path for path in paths if LIBRARIES.search(os.path.basename(path)))


def list_mapped_files() -> set[str]:
    """Return the paths of the files that are mapped into this process."""
    lines = read_lines("/proc/self/maps")
    return {line.split(None, 5)[-1].strip() for line in lines if "/" in line}


def list_gpus() -> list[dict[str, str]]:
    """Return the GPUs that nvidia-smi shows in this environment; none without nvidia-smi."""
    if not find_executable("nvidia-smi"):
        return []
    import csv
    import subprocess

    for fields in (f"{GPU_FIELDS},{MORE_GPU_FIELDS}", GPU_FIELDS):
        argv = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        try:
            answer = subprocess.run(argv, stdout=subprocess.PIPE, timeout=30, check=True)
        except subprocess.CalledProcessError:  # an older driver does not know some of the fields
            continue
        except (OSError, subprocess.SubprocessError):
            return []
        rows = answer.stdout.decode("utf-8", "replace").splitlines()
        gpus = csv.DictReader(rows, fields.split(","), restkey="", skipinitialspace=True)
        # What a GPU does not have stands there as "[N/A]" or "[Not Supported]".
        return [
            {name: text for name, text in gpu.items() if name and text and text[0] != "["}
            for gpu in gpus
        ]
    return []


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
