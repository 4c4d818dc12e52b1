"""List the software of an environment: `python software.py --output FILE [--mark TEXT]
[--look-for WORD]...`.

Run by the interpreter that the runs will have, inside the same container and after the same set-up
lines. Files are read, never imported. The fields, beside those that a snapshot has too (os, libc,
machine, python, packages):

- cuda, cudnn, nccl: a version, or ""
- mpi, blas: name -> version; of BLAS the library that NumPy brings along, else the system's
- builds: framework -> what it was built with, as far as its files tell
- programs: WORD -> its path, or "" if there is no such program on PATH or file at that path
- mark: TEXT
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import platform
import re
import shutil
import sys
from typing import Any, Dict, List, Set

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import inventory, snapshot
from .executables import find_executable

SCHEMA = 1
MOST_BYTES = 1 << 20  # of a file that is read for a version
USUAL = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
CUDA = ("/usr/local/cuda", "/usr/local/cuda/lib64", "/usr/local/cuda/include")
# Framework -> the file that says how it was built, and a pattern for each fact in it.
BUILDS = {
    "numpy": (
        "numpy/__config__.py",
        (
            ("compiler", r'"c": \{\s*"name": "(.*?)"'),
            ("compiler version", r'"c": \{[^}]*?"version": "(.*?)"'),
            ("OpenBLAS", r'"openblas configuration": r?"(.*?)"'),
            ("BLAS", r'"blas": \{\s*"name": "(.*?)"'),
        ),
    ),
    "tensorflow": (
        "tensorflow/python/platform/build_info.py",
        tuple(
            (name, r"""\(?['"]%s['"][,:] *['"]?(.*?)['"]?\s*[,)}]""" % name)
            for name in ("cuda_version", "cudnn_version", "is_cuda_build", "is_rocm_build")
        ),
    ),
    "torch": (
        "torch/version.py",
        tuple(
            (name, r"""^%s\b[^=\n]*= *['"]?(.*?)['"]?$""" % name)
            for name in ("cuda", "hip", "debug", "git_version")
        ),
    ),
}


def list_software() -> Dict[str, Any]:
    """Return all fields but `mark`."""
    sites = [path for path in sys.path if os.path.isdir(path)]
    paths = list_library_files()
    contents = {name: read("/" + name) for name in paths if inventory.needs_content(name, 0)}
    packages = snapshot.find_packages()
    facts = inventory.gather_facts(paths, contents)
    patterns = {"cuda": r"nvidia-cuda-runtime-cu\d+", "cudnn": r"nvidia-cudnn-cu\d+"}
    patterns["nccl"] = r"nvidia-nccl-cu\d+"
    # A framework loads the packages installed beside it rather than the system's libraries.
    package_versions = {
        name: inventory.find_package_version(packages, pattern)
        for name, pattern in patterns.items()
    }
    return {
        "schema": SCHEMA,
        "os": snapshot.read_os_release(),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "python": snapshot.describe_python(),
        "packages": packages,
        **{name: package_versions[name] or facts[name] for name in patterns},
        "mpi": facts["mpi"],
        "blas": find_blas(sites, paths),
        "builds": read_builds(sites),
    }


def list_library_files() -> Set[str]:
    """Return the paths of the files where the loader searches, without the first slash."""
    folders = [
        *os.environ.get("LD_LIBRARY_PATH", "").split(":"),
        *list_loader_folders(),
        *USUAL,
        *CUDA,
    ]
    folders += [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]
    launcher = shutil.which("mpirun") or shutil.which("mpiexec")
    if launcher:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(launcher)))
        folders += [os.path.join(prefix, "lib"), os.path.join(prefix, "lib", "pkgconfig")]
    folders += [os.path.join(folder, "blas") for folder in folders]
    paths: Set[str] = set()
    for folder in filter(os.path.isabs, folders):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        paths.update(os.path.join(folder, name).lstrip("/") for name in names)
    return paths


def list_loader_folders() -> List[str]:
    lines = []
    for path in ["/etc/ld.so.conf", *sorted(glob.glob("/etc/ld.so.conf.d/*.conf"))]:
        lines += [line.strip() for line in snapshot.read_lines(path)]
    triplet = platform.machine() + "-linux-gnu"
    return [line for line in lines if line.startswith("/")] + ["/usr/lib/" + triplet]


def find_blas(sites: List[str], paths: Set[str]) -> Dict[str, str]:
    """Return name and version of the BLAS that NumPy brings along, else of the system's."""
    for site in sites:
        config = os.path.join(site, "numpy", "__config__.py")
        if os.path.isfile(config):
            own = {path.lstrip("/") for path in glob.glob(os.path.join(site, "numpy.libs", "*"))}
            paths = own or paths
            return inventory.find_blas({"numpy/__config__.py": read_text(config)}, sorted(paths))
    return {}


def read_builds(sites: List[str]) -> Dict[str, Dict[str, str]]:
    builds: Dict[str, Dict[str, str]] = {}
    for name, (file, patterns) in BUILDS.items():
        text = next(filter(None, (read_text(os.path.join(site, file)) for site in sites)), "")
        for key, pattern in patterns:
            match = re.search(pattern, text, re.MULTILINE)
            if match:
                builds.setdefault(name, {})[key] = match[1]
    return builds


def find_programs(words: List[str]) -> Dict[str, str]:
    """Return the path of each program on PATH, or of each absolute path; "" where it is missing."""
    return {
        word: (word if os.path.exists(word) else "")
        if os.path.isabs(word)
        else find_executable(word, path=search_path()) or ""
        for word in words
    }


def search_path() -> str:
    """Return PATH as the payload gives it to programs: with the environment's own Python."""
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


def read_text(path: str) -> str:
    return read(path).decode("utf-8", "replace")


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", required=True, help="where the JSON goes")
    parser.add_argument("--mark", default="", help="repeated in it")
    parser.add_argument(
        "--look-for", action="append", default=[], metavar="WORD", help="a program, or a path"
    )
    options = parser.parse_args()
    facts = {**list_software(), "programs": find_programs(options.look_for), "mark": options.mark}
    with open(options.output + ".part", "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1, sort_keys=True)
    os.replace(options.output + ".part", options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
