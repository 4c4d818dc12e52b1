"""What software a program will find in here: `python software.py --output FILE [--mark TEXT]`.

Run by the interpreter that the runs will have, behind the same wall and after the same set-up
lines. What it looks at is read, never imported. The fields, beside those that a snapshot has too
(os, libc, machine, python, packages):

- cuda, cudnn, nccl: a version, or ""
- mpi, blas: name -> version; of BLAS the one that NumPy brings along, else the system's
- builds: framework -> what it was built with, as far as its files tell it
- mark: the TEXT that was given
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

SCHEMA = 1
MOST_BYTES = 1 << 20  # of a file that is read for a version
USUAL = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
CUDA = ("/usr/local/cuda", "/usr/local/cuda/lib64", "/usr/local/cuda/include")
# What each file of a framework says about how it was built: names and patterns.
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


def software() -> Dict[str, Any]:
    sites = [path for path in sys.path if os.path.isdir(path)]
    paths = libraries(sites)
    contents = {name: read("/" + name) for name in paths if inventory.wanted(name, 0)}
    packages = snapshot.packages()
    found = inventory.facts(paths, contents)
    known = {"cuda": r"nvidia-cuda-runtime-cu\d+", "cudnn": r"nvidia-cudnn-cu\d+"}
    known["nccl"] = r"nvidia-nccl-cu\d+"
    # A framework loads what was installed beside it before it asks the system.
    of_packages = {name: inventory.of_package(packages, key) for name, key in known.items()}
    return {
        "schema": SCHEMA,
        "os": snapshot.os_release(),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "python": snapshot.python(),
        "packages": packages,
        **{name: of_packages[name] or found[name] for name in known},
        "mpi": found["mpi"],
        "blas": blas(sites, paths),
        "builds": builds(sites),
    }


def libraries(sites: List[str]) -> Set[str]:
    """Names of the files in the folders where the loader looks, without the first slash."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *loader_folders(), *USUAL, *CUDA]
    folders += [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]
    launcher = shutil.which("mpirun") or shutil.which("mpiexec")
    if launcher:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(launcher)))
        folders += [os.path.join(prefix, "lib"), os.path.join(prefix, "lib", "pkgconfig")]
    folders += [os.path.join(folder, "blas") for folder in folders]
    found: Set[str] = set()
    for folder in filter(os.path.isabs, folders):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        found.update(os.path.join(folder, name).lstrip("/") for name in names)
    return found


def loader_folders() -> List[str]:
    lines = []
    for path in ["/etc/ld.so.conf", *sorted(glob.glob("/etc/ld.so.conf.d/*.conf"))]:
        lines += [line.strip() for line in snapshot.lines_of(path)]
    triplet = platform.machine() + "-linux-gnu"
    return [line for line in lines if line.startswith("/")] + ["/usr/lib/" + triplet]


def blas(sites: List[str], paths: Set[str]) -> Dict[str, str]:
    """The library that NumPy brought along, by what it was built with; else what the system has."""
    for site in sites:
        config = os.path.join(site, "numpy", "__config__.py")
        if os.path.isfile(config):
            own = {path.lstrip("/") for path in glob.glob(os.path.join(site, "numpy.libs", "*"))}
            paths = own or paths
            return inventory.blas({"numpy/__config__.py": text_of(config)}, sorted(paths))
    return {}


def builds(sites: List[str]) -> Dict[str, Dict[str, str]]:
    found: Dict[str, Dict[str, str]] = {}
    for name, (file, wanted) in BUILDS.items():
        text = next(filter(None, (text_of(os.path.join(site, file)) for site in sites)), "")
        for key, pattern in wanted:
            match = re.search(pattern, text, re.MULTILINE)
            if match:
                found.setdefault(name, {})[key] = match[1]
    return found


def text_of(path: str) -> str:
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
    options = parser.parse_args()
    with open(options.output + ".part", "w", encoding="utf-8") as file:
        json.dump({**software(), "mark": options.mark}, file, indent=1, sort_keys=True)
    os.replace(options.output + ".part", options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
