"""What the files of a tree tell about its software. Pure: names and a few contents in, facts out.

The same from a folder that is walked and from the layers of an archive. Fields of `facts`:

- system: id, name, version (os-release), libc, architecture
- pythons: for each, path, version, build_flags (where a sysconfig says) and its own packages
- packages: python (all of them; several versions joined by ", "), system (dpkg, apk, rpm), conda
- frameworks: name -> version of TensorFlow, PyTorch, JAX...
- cuda, cudnn, nccl: a version, or ""
- mpi, blas: name -> version, "" where no file tells it
- not_read: package lists that are there and cannot be read, and why
"""

from __future__ import annotations

import ast
import json
import os
import re
import tempfile
from typing import Any, Dict, Iterable, List, Mapping, Set, Tuple

MIB = 1 << 20
RPM = re.compile(r"(var/lib/rpm|usr/lib/sysimage/rpm)/rpmdb\.sqlite$")
PYTHON = re.compile(
    r"((^|/)bin/python(?P<version>[23]\.\d+)|(^|/)libpython(?P<library>[23]\.\d+)\S*)$"
)
PACKAGE = re.compile(r"(^|/)(?P<name>[^/]+)\.(dist-info/METADATA|egg-info/PKG-INFO|egg-info)$")
SITE = re.compile(
    r"(?P<prefix>.*?/?)lib(64)?/python(?P<version>[23](\.\d+)?)/(site|dist)-packages/"
)
FLAGS = re.compile(
    r"""['"]CONFIG_ARGS['"]: *\(?((?:\s*(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))+)"""
)
# Pattern of a path -> how much of such a file may be read, in bytes.
WANTED: Tuple[Tuple["re.Pattern[str]", int], ...] = (
    (re.compile(r"(etc|usr/lib)/os-release$"), MIB),
    (re.compile(r"var/lib/dpkg/status(\.d/[^/]+)?$"), 32 * MIB),
    (re.compile(r"lib/apk/db/installed$"), 32 * MIB),
    (RPM, 256 * MIB),
    (PACKAGE, 4 * MIB),
    (PYTHON, 64 * MIB),
    (re.compile(r"(^|/)_sysconfigdata[^/]*\.py$"), 4 * MIB),
    (re.compile(r"(^|/)cuda[^/]*/version\.(json|txt)$"), MIB),
    (re.compile(r"(^|/)(cudnn(_version)?|nccl|mpi)\.h$"), 4 * MIB),
    (re.compile(r"(^|/)pkgconfig/(ompi|ompi-c|mpich|mvapich2?|openblas|blis)\.pc$"), MIB),
    (re.compile(r"(^|/)numpy/__config__\.py$"), MIB),
)
FRAMEWORKS = {
    "tensorflow": (
        "tensorflow",
        "tensorflow-cpu",
        "tensorflow-gpu",
        "tensorflow-rocm",
        "tf-nightly",
    ),
    "keras": ("keras",),
    "torch": ("torch", "pytorch"),
    "jax": ("jax",),
    "jaxlib": ("jaxlib",),
    "mxnet": ("mxnet", "mxnet-cu112"),
    "horovod": ("horovod",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
}
BLAS = {
    "openblas": r"lib\w*openblas\w*(?:-r([\d.]+\d)|-[0-9a-f]+)?\.so",
    "mkl": r"libmkl_rt\.so(?:\.([\d.]+))?",
    "blis": r"libblis(?:-mt)?\.so(?:\.([\d.]+))?",
    "atlas": r"lib(?:sat|tat)las\.so(?:\.([\d.]+))?",
    "flexiblas": r"libflexiblas\.so(?:\.([\d.]+))?",
    "reference": r"blas/libblas\.so(?:\.([\d.]+))?",
}


def wanted(path: str, size: int) -> bool:
    """Whether facts need the content of this file."""
    return any(size <= limit and pattern.search(path) for pattern, limit in WANTED)


def essence(path: str, content: bytes) -> bytes:
    """What is to be kept of it: of large files the one thing that they are read for."""
    found = PYTHON.search(path)
    if found:
        version = re.escape(found["version"] or found["library"]).encode()
        exact = re.search(rb"\0(" + version + rb"\.\d+(?:[abc]\d+|rc\d+)?\+?)\0", content)
        return exact[1] if exact else b""
    return content


def facts(paths: Set[str], contents: Mapping[str, bytes]) -> Dict[str, Any]:
    """All fields, from the names of everything in the tree and the contents that were wanted."""
    texts = {
        path: content.decode("utf-8", "replace")
        for path, content in contents.items()
        if not RPM.search(path)
    }
    python, by_prefix = python_packages(texts)
    conda = {
        name: version
        for name, version, _ in (
            path.rpartition("/")[2][: -len(".json")].rsplit("-", 2)
            for path in sorted(paths)
            if re.search(r"(^|/)conda-meta/[^/]+-[^/-]+-[^/-]+\.json$", path)
        )
    }
    system_packages, not_read = installed(paths, texts, contents)
    libraries = sorted(path for path in paths if re.search(r"\.so(\.|$)", path))
    known = dict(conda, **python)
    return {
        "system": system(paths, texts),
        "pythons": pythons(paths, texts, by_prefix),
        "packages": {"python": python, "system": system_packages, "conda": conda},
        "frameworks": {
            name: known[package]
            for name, packages in FRAMEWORKS.items()
            for package in reversed(packages)
            if package in known
        },
        "cuda": cuda(texts, libraries, known),
        "cudnn": header(texts, "cudnn", "CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL")
        or library(libraries, r"libcudnn\.so")
        or of_package(known, r"nvidia-cudnn-cu\d+|cudnn"),
        "nccl": header(texts, "nccl", "NCCL_MAJOR NCCL_MINOR NCCL_PATCH")
        or library(libraries, r"libnccl\.so")
        or of_package(known, r"nvidia-nccl-cu\d+|nccl"),
        "mpi": mpi(texts, libraries),
        "blas": blas(texts, libraries),
        "not_read": not_read,
    }


def system(paths: Iterable[str], texts: Mapping[str, str]) -> Dict[str, str]:
    text = texts.get("etc/os-release") or texts.get("usr/lib/os-release") or ""
    lines = [line.partition("=") for line in text.splitlines() if "=" in line]
    fields = {name: unquoted(value.strip()) for name, _, value in lines}
    loaders = [os.path.basename(path) for path in paths if re.search(r"(^|/)ld-[^/]+\.so", path)]
    loader = " ".join(sorted(loaders))
    found = re.search(r"ld-(?:linux|musl)-(x86[-_]64|aarch64|riscv64|ppc64le|s390x)", loader)
    architecture = found[1].replace("-", "_") if found else ""
    if not found and "ld-linux" in loader:
        architecture = {"64": "ppc64le"}.get(loader[8:10], "")
    libc = "musl" if "musl" in loader else ""
    names = " ".join(os.path.basename(path) for path in paths if "/libc-2." in path)
    version = re.search(r"libc-(2\.\d+)\.so", names)
    packages = dpkg(texts).get("libc6", "")
    if version or packages:
        libc = "glibc " + (version[1] if version else packages.partition("-")[0])
    return {
        "id": fields.get("ID", ""),
        "name": fields.get("PRETTY_NAME", ""),
        "version": fields.get("VERSION_ID", ""),
        "libc": libc,
        "architecture": architecture,
    }


def unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] in "\"'" else value


def python_packages(texts: Mapping[str, str]) -> Tuple[Dict[str, str], Dict[str, Dict[str, str]]]:
    """Versions by name, of the whole tree and of each folder with Python packages."""
    versions: Dict[str, List[str]] = {}
    folders: Dict[str, Dict[str, str]] = {}
    for path in sorted(texts):
        found = PACKAGE.search(path)
        if not found:
            continue
        head = texts[path].partition("\n\n")[0]
        fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", head, re.MULTILINE))
        parts = found["name"].split("-")  # what the name of the folder says, without a good file
        name = re.sub(r"[-_.]+", "-", fields.get("Name", parts[0])).lower()
        version = fields.get("Version", parts[1] if len(parts) > 1 else "")
        if version not in versions.setdefault(name, []):
            versions[name].append(version)
        folder = SITE.match(path)
        if folder:
            folders.setdefault(folder[0], {}).setdefault(name, version)
    return {name: ", ".join(versions[name]) for name in sorted(versions)}, folders


def pythons(
    paths: Set[str], texts: Mapping[str, str], folders: Mapping[str, Dict[str, str]]
) -> List[Dict[str, Any]]:
    """Every interpreter, and every virtual environment, which has the version of another one."""
    exact: Dict[str, str] = {}
    for path in sorted(texts):
        found = PYTHON.search(path)
        if found and texts[path]:
            exact.setdefault(found["version"] or found["library"], texts[path])
    flags = {path: FLAGS.search(texts[path]) for path in texts if "_sysconfigdata" in path}
    rows = []
    for path in sorted(paths):
        found = re.match(r"(?P<prefix>(?:.*/)?)bin/python(?P<version>[23]\.\d+)$", path)
        if not found:
            continue
        prefix, version = found["prefix"], found["version"]
        own = {}
        for folder, packages in sorted(folders.items(), reverse=True):
            site = SITE.match(folder)
            fits = site and site["version"] in (version, version.partition(".")[0])
            if site and fits and site["prefix"] in (prefix, prefix + "local/"):
                own.update(packages)
        built = [
            match[1]
            for name, match in sorted(flags.items())
            if match and "lib/python%s/" % version in name
        ]
        rows.append(
            {
                "path": path,
                "version": exact.get(version, version),
                "build_flags": literal(built[0]) if built else "",
                "packages": dict(sorted(own.items())),
            }
        )
    return rows


def literal(text: str) -> str:
    try:
        return str(ast.literal_eval("(" + text.strip() + ")"))
    except (ValueError, SyntaxError):
        return ""


def dpkg(texts: Mapping[str, str]) -> Dict[str, str]:
    found = {}
    for path, text in texts.items():
        if re.match(r"var/lib/dpkg/status", path):
            for block in text.split("\n\n"):
                fields = dict(
                    re.findall(r"^(Package|Version|Status):[ \t]*(.*)$", block, re.MULTILINE)
                )
                if "Package" in fields and fields.get("Status", "installed").endswith("installed"):
                    found[fields["Package"]] = fields.get("Version", "")
    return found


def installed(
    paths: Iterable[str], texts: Mapping[str, str], contents: Mapping[str, bytes]
) -> Tuple[Dict[str, str], List[str]]:
    """The distribution's packages, and which lists are there but cannot be read."""
    found, not_read = dpkg(texts), []
    for block in texts.get("lib/apk/db/installed", "").split("\n\n"):
        fields = dict(re.findall(r"^([PV]):(.*)$", block, re.MULTILINE))
        if "P" in fields:
            found[fields["P"]] = fields.get("V", "")
    for path in sorted(paths):
        if RPM.search(path):
            try:
                found.update(rpm(contents.get(path, b"")))
            except Exception as error:  # noqa: BLE001 - whatever is in there, it is only not told
                not_read.append("%s: %s" % (path, error or type(error).__name__))
        elif re.match(r"(var/lib/rpm|usr/lib/sysimage/rpm)/Packages(\.db)?$", path):
            not_read.append("%s: only rpm itself reads this list" % path)
    return dict(sorted(found.items())), not_read


def rpm(content: bytes) -> Dict[str, str]:
    """Name and version of the packages in rpm's SQLite database."""
    import sqlite3  # some Pythons have none

    found = {}
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        database = sqlite3.connect("file:%s?mode=ro&immutable=1" % file.name, uri=True)
        try:
            for (blob,) in database.execute("SELECT blob FROM Packages"):
                fields = rpm_header(bytes(blob))
                if fields.get(1000):
                    found[fields[1000]] = "%s-%s" % (fields.get(1001, ""), fields.get(1002, ""))
        finally:
            database.close()
    return found


def rpm_header(blob: bytes) -> Dict[int, str]:
    """The texts of one package by tag: 1000 is its name, 1001 its version, 1002 its release."""
    count = int.from_bytes(blob[:4], "big")
    store = 8 + 16 * count
    fields = {}
    for at in range(8, store, 16):
        tag, kind, offset = (int.from_bytes(blob[at + k : at + k + 4], "big") for k in (0, 4, 8))
        if kind == 6:  # a text that ends with a NUL
            fields[tag] = blob[store + offset :].partition(b"\0")[0].decode("utf-8", "replace")
    return fields


def cuda(texts: Mapping[str, str], libraries: List[str], known: Mapping[str, str]) -> str:
    for path in sorted(texts):
        if path.endswith("/version.json") and "/cuda" in "/" + path:
            try:
                about = json.loads(texts[path])
                return str(about["cuda"]["version"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        found = re.match(r"CUDA Version (\S+)", texts[path])
        if found and path.endswith("/version.txt"):
            return found[1]
    return library(libraries, r"libcudart\.so") or of_package(
        known, r"nvidia-cuda-runtime-cu\d+|cudatoolkit|cuda-cudart|cuda-version"
    )


def header(texts: Mapping[str, str], name: str, numbers: str) -> str:
    """A version in parts, as a header of C defines it."""
    for path in sorted(texts):
        if re.search(r"(^|/)%s(_version)?\.h$" % name, path):
            parts = [
                re.search(r"#define\s+%s\s+(\d+)" % part, texts[path]) for part in numbers.split()
            ]
            if all(parts):
                return ".".join(part[1] for part in parts if part)
    return ""


def library(libraries: List[str], name: str) -> str:
    """The longest version in the name of such a file."""
    pattern = re.compile(r"(^|/)%s\.(\d[\d.]*)$" % name)
    found = [match[2] for match in map(pattern.search, libraries) if match]
    return max(found, key=lambda version: (version.count("."), version), default="")


def of_package(known: Mapping[str, str], name: str) -> str:
    return next((known[one] for one in sorted(known) if re.fullmatch(name, one)), "")


def mpi(texts: Mapping[str, str], libraries: List[str]) -> Dict[str, str]:
    found = {}
    for path, text in sorted(texts.items()):
        told = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
        for name, files in (("openmpi", ("ompi.pc", "ompi-c.pc")), ("mpich", ("mpich.pc",))):
            if told and os.path.basename(path) in files:
                found[name] = told[1]
        if os.path.basename(path) == "mpi.h":
            parts = re.findall(r"#define OMPI_(?:MAJOR|MINOR|RELEASE)_VERSION (\d+)", text)
            if len(parts) == 3:
                found["openmpi"] = ".".join(parts)
            of_mpich = re.search(r'#define MPICH_VERSION "([^"]+)"', text)
            if of_mpich:
                found["mpich"] = of_mpich[1]
    for path in libraries:
        name = os.path.basename(path)
        if re.match(r"libopen-(rte|pal)\.so", name):
            found.setdefault("openmpi", "")
        elif name.startswith(("libmpich.so", "libmpi.so.12")):
            found.setdefault("mpich", "")
    return found


def blas(texts: Mapping[str, str], libraries: List[str]) -> Dict[str, str]:
    found = {}
    for path, text in sorted(texts.items()):
        if path.endswith("numpy/__config__.py"):  # what NumPy was built with, NumPy 1.25 and later
            name_in = re.search(r'"blas": \{\s*"name": "([^"]+)"', text)
            # In two steps: one pattern for both would search the whole text from each beginning.
            told = name_in and re.compile(r'"version": "([^"]+)"').search(text, name_in.end())
            if name_in and told:
                found[name_in[1]] = told[1]
    for path in libraries:
        for name, pattern in BLAS.items():
            match = re.search(r"(^|/)(?:%s)" % pattern, path)
            if match and not any(name in one for one in found if found[one]):
                found[name] = match[2] or found.get(name, "")
    return dict(sorted(found.items()))
