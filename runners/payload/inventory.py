"""Facts about the software in a tree of files, from all paths and the contents of a few of them.

The tree may be a folder or the layers of an archive: the facts are the same. Nothing is read here.
Fields of `gather_facts`:

- system: id, name, version (os-release), libc, architecture
- pythons: for each, path, version, build_flags (where a sysconfig says) and its own packages
- packages: python (all of them; several versions joined by ", "), system (dpkg, apk, rpm), conda,
  and spack where there are any (several versions joined by ", ")
- frameworks: name -> version of TensorFlow, PyTorch, JAX...
- cuda, cudnn, nccl: a version, or ""
- mpi, blas: name -> version, "" where no file has it
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
APK = ("lib/apk/db/installed", "usr/lib/apk/db/installed")
SPACK = re.compile(
    r"(?:^|/)([a-z0-9_][\w.-]*?)-(\d[^/-]*|[^/-]+)-[a-z0-9]{32}/\.spack/spec\.(?:json|yaml)$"
)
"""What Spack writes beside each package that it has installed."""
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
# Pattern of a path -> the largest such file that is read, in bytes.
READ_FILES: Tuple[Tuple["re.Pattern[str]", int], ...] = (
    (re.compile(r"(etc|usr/lib)/os-release$"), MIB),
    (re.compile(r"var/lib/dpkg/status(\.d/[^/]+)?$"), 32 * MIB),
    (re.compile(r"^(usr/)?lib/apk/db/installed$"), 32 * MIB),
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


def needs_content(path: str, size: int) -> bool:
    """Return whether `gather_facts` needs the content of this file."""
    return any(size <= limit and pattern.search(path) for pattern, limit in READ_FILES)


def reduce_content(path: str, content: bytes) -> bytes:
    """Return the part of a file that facts need: of an interpreter its exact version, else all."""
    interpreter = PYTHON.search(path)
    if interpreter:
        version = re.escape(interpreter["version"] or interpreter["library"]).encode()
        exact = re.search(rb"\0(" + version + rb"\.\d+(?:[abc]\d+|rc\d+)?\+?)\0", content)
        return exact[1] if exact else b""
    return content


def gather_facts(paths: Set[str], contents: Mapping[str, bytes]) -> Dict[str, Any]:
    """Return all fields, from all paths and the contents of those that `needs_content` names."""
    texts = {
        path: content.decode("utf-8", "replace")
        for path, content in contents.items()
        if not RPM.search(path)
    }
    python, by_prefix = find_python_packages(texts)
    conda = {
        name: version
        for name, version, _ in (
            path.rpartition("/")[2][: -len(".json")].rsplit("-", 2)
            for path in sorted(paths)
            if re.search(r"(^|/)conda-meta/[^/]+-[^/-]+-[^/-]+\.json$", path)
        )
    }
    spack = find_spack_packages(paths)
    system_packages, not_read = find_installed_packages(paths, texts, contents)
    libraries = sorted(path for path in paths if re.search(r"\.so(\.|$)", path))
    versions = dict(conda, **python)
    return {
        "system": describe_system(paths, texts),
        "pythons": list_pythons(paths, texts, by_prefix),
        "packages": {
            "python": python,
            "system": system_packages,
            "conda": conda,
            **({"spack": spack} if spack else {}),
        },
        "frameworks": {
            name: versions[package]
            for name, packages in FRAMEWORKS.items()
            for package in reversed(packages)
            if package in versions
        },
        "cuda": find_cuda(texts, libraries, versions),
        "cudnn": find_header_version(texts, "cudnn", "CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL")
        or find_library_version(libraries, r"libcudnn\.so")
        or find_package_version(versions, r"nvidia-cudnn-cu\d+|cudnn"),
        "nccl": find_header_version(texts, "nccl", "NCCL_MAJOR NCCL_MINOR NCCL_PATCH")
        or find_library_version(libraries, r"libnccl\.so")
        or find_package_version(versions, r"nvidia-nccl-cu\d+|nccl"),
        "mpi": find_mpi(texts, libraries),
        "blas": find_blas(texts, libraries),
        "not_read": not_read,
    }


def describe_system(paths: Iterable[str], texts: Mapping[str, str]) -> Dict[str, str]:
    """Return the distribution, its C library and the architecture, "" where no file tells."""
    text = texts.get("etc/os-release") or texts.get("usr/lib/os-release") or ""
    lines = [line.partition("=") for line in text.splitlines() if "=" in line]
    fields = {name: unquote(value.strip()) for name, _, value in lines}
    loaders = [os.path.basename(path) for path in paths if re.search(r"(^|/)ld-[^/]+\.so", path)]
    loader = " ".join(sorted(loaders))
    machine = re.search(r"ld-(?:linux|musl)-(x86[-_]64|aarch64|riscv64|ppc64le|s390x)", loader)
    architecture = machine[1].replace("-", "_") if machine else ""
    if not machine and "ld-linux" in loader:
        architecture = {"64": "ppc64le"}.get(loader[8:10], "")
    libc = "musl" if "musl" in loader else ""
    names = " ".join(os.path.basename(path) for path in paths if "/libc-2." in path)
    version = re.search(r"libc-(2\.\d+)\.so", names)
    package = read_dpkg_packages(texts).get("libc6", "")
    if version or package:
        libc = "glibc " + (version[1] if version else package.partition("-")[0])
    return {
        "id": fields.get("ID", ""),
        "name": fields.get("PRETTY_NAME", ""),
        "version": fields.get("VERSION_ID", ""),
        "libc": libc,
        "architecture": architecture,
    }


def unquote(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] in "\"'" else value


def find_python_packages(
    texts: Mapping[str, str],
) -> Tuple[Dict[str, str], Dict[str, Dict[str, str]]]:
    """Return versions by name, of the whole tree and of each folder with Python packages."""
    versions: Dict[str, List[str]] = {}
    folders: Dict[str, Dict[str, str]] = {}
    for path in sorted(texts):
        metadata = PACKAGE.search(path)
        if not metadata:
            continue
        head = texts[path].partition("\n\n")[0]
        fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", head, re.MULTILINE))
        parts = metadata["name"].split("-")  # the folder's name, if the file lacks the fields
        name = re.sub(r"[-_.]+", "-", fields.get("Name", parts[0])).lower()
        version = fields.get("Version", parts[1] if len(parts) > 1 else "")
        if version not in versions.setdefault(name, []):
            versions[name].append(version)
        folder = SITE.match(path)
        if folder:
            folders.setdefault(folder[0], {}).setdefault(name, version)
    return {name: ", ".join(versions[name]) for name in sorted(versions)}, folders


def list_pythons(
    paths: Set[str], texts: Mapping[str, str], folders: Mapping[str, Dict[str, str]]
) -> List[Dict[str, Any]]:
    """Return every interpreter; a virtual environment gets the exact version of the one it uses."""
    exact: Dict[str, str] = {}
    for path in sorted(texts):
        interpreter = PYTHON.search(path)
        if interpreter and texts[path]:
            exact.setdefault(interpreter["version"] or interpreter["library"], texts[path])
    flags = {path: FLAGS.search(texts[path]) for path in texts if "_sysconfigdata" in path}
    rows = []
    for path in sorted(paths):
        program = re.match(r"(?P<prefix>(?:.*/)?)bin/python(?P<version>[23]\.\d+)$", path)
        if not program:
            continue
        prefix, version = program["prefix"], program["version"]
        own = {}
        for folder, packages in sorted(folders.items(), reverse=True):
            site = SITE.match(folder)
            fits = site and site["version"] in (version, version.partition(".")[0])
            if site and fits and site["prefix"] in (prefix, prefix + "local/"):
                own.update(packages)
        build_flags = [
            match[1]
            for name, match in sorted(flags.items())
            if match and "lib/python%s/" % version in name
        ]
        rows.append(
            {
                "path": path,
                "version": exact.get(version, version),
                "build_flags": evaluate_text(build_flags[0]) if build_flags else "",
                "packages": dict(sorted(own.items())),
            }
        )
    return rows


def evaluate_text(text: str) -> str:
    """Return the value of Python's string literals, such as 'a' "b"; "" if it is none."""
    try:
        return str(ast.literal_eval("(" + text.strip() + ")"))
    except (ValueError, SyntaxError):
        return ""


def read_dpkg_packages(texts: Mapping[str, str]) -> Dict[str, str]:
    """Return Debian's installed packages: name -> version."""
    versions = {}
    for path, text in texts.items():
        if re.match(r"var/lib/dpkg/status", path):
            for block in text.split("\n\n"):
                fields = dict(
                    re.findall(r"^(Package|Version|Status):[ \t]*(.*)$", block, re.MULTILINE)
                )
                if "Package" in fields and fields.get("Status", "installed").endswith("installed"):
                    versions[fields["Package"]] = fields.get("Version", "")
    return versions


def find_installed_packages(
    paths: Iterable[str], texts: Mapping[str, str], contents: Mapping[str, bytes]
) -> Tuple[Dict[str, str], List[str]]:
    """Return the distribution's packages, and a message for each list that cannot be read."""
    versions, not_read = read_dpkg_packages(texts), []
    apk = next((texts[path] for path in APK if path in texts), "")
    for block in apk.split("\n\n"):
        fields = dict(re.findall(r"^([PV]):(.*)$", block, re.MULTILINE))
        if "P" in fields:
            versions[fields["P"]] = fields.get("V", "")
    for path in sorted(paths):
        if RPM.search(path):
            try:
                versions.update(read_rpm_packages(contents.get(path, b"")))
            except Exception as error:  # noqa: BLE001 - a damaged database is only not listed
                not_read.append("%s: %s" % (path, error or type(error).__name__))
        elif re.match(r"(var/lib/rpm|usr/lib/sysimage/rpm)/Packages(\.db)?$", path):
            not_read.append("%s: only rpm itself reads this list" % path)
    return dict(sorted(versions.items())), not_read


def read_rpm_packages(content: bytes) -> Dict[str, str]:
    """Return the packages in rpm's SQLite database: name -> version-release."""
    import sqlite3  # some Pythons have none

    versions = {}
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        database = sqlite3.connect("file:%s?mode=ro&immutable=1" % file.name, uri=True)
        try:
            for (blob,) in database.execute("SELECT blob FROM Packages"):
                fields = parse_rpm_header(bytes(blob))
                if fields.get(1000):
                    versions[fields[1000]] = "%s-%s" % (fields.get(1001, ""), fields.get(1002, ""))
        finally:
            database.close()
    return versions


def parse_rpm_header(blob: bytes) -> Dict[int, str]:
    """Return the texts of one package by tag: 1000 is the name, 1001 version, 1002 release."""
    count = int.from_bytes(blob[:4], "big")
    store = 8 + 16 * count
    fields = {}
    for at in range(8, store, 16):
        tag, kind, offset = (int.from_bytes(blob[at + k : at + k + 4], "big") for k in (0, 4, 8))
        if kind == 6:  # a text that ends with a NUL
            fields[tag] = blob[store + offset :].partition(b"\0")[0].decode("utf-8", "replace")
    return fields


def find_spack_packages(paths: Set[str]) -> Dict[str, str]:
    """Return the packages that Spack has installed, by version: each has a folder with its hash."""
    versions: Dict[str, Set[str]] = {}
    for path in paths:
        match = SPACK.search(path)
        if match:
            versions.setdefault(match[1], set()).add(match[2])
    return {name: ", ".join(sorted(found)) for name, found in sorted(versions.items())}


def find_cuda(texts: Mapping[str, str], libraries: List[str], versions: Mapping[str, str]) -> str:
    for path in sorted(texts):
        if path.endswith("/version.json") and "/cuda" in "/" + path:
            try:
                components = json.loads(texts[path])
                return str(components["cuda"]["version"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        line = re.match(r"CUDA Version (\S+)", texts[path])
        if line and path.endswith("/version.txt"):
            return line[1]
    return find_library_version(libraries, r"libcudart\.so") or find_package_version(
        versions, r"nvidia-cuda-runtime-cu\d+|cudatoolkit|cuda-cudart|cuda-version"
    )


def find_header_version(texts: Mapping[str, str], name: str, numbers: str) -> str:
    """Return the version that a C header defines in parts, "" if there is none."""
    for path in sorted(texts):
        if re.search(r"(^|/)%s(_version)?\.h$" % name, path):
            parts = [
                re.search(r"#define\s+%s\s+(\d+)" % part, texts[path]) for part in numbers.split()
            ]
            if all(parts):
                return ".".join(part[1] for part in parts if part)
    return ""


def find_library_version(libraries: List[str], name: str) -> str:
    """Return the longest version that ends the name of such a library, "" if there is none."""
    pattern = re.compile(r"(^|/)%s\.(\d[\d.]*)$" % name)
    versions = [match[2] for match in map(pattern.search, libraries) if match]
    return max(versions, key=lambda version: (version.count("."), version), default="")


def find_package_version(versions: Mapping[str, str], pattern: str) -> str:
    """Return the version of the first package whose name matches, "" if none does."""
    return next((versions[name] for name in sorted(versions) if re.fullmatch(pattern, name)), "")


def find_mpi(texts: Mapping[str, str], libraries: List[str]) -> Dict[str, str]:
    """Return the MPI libraries: name -> version, "" where only the library's file is there."""
    versions = {}
    for path, text in sorted(texts.items()):
        pkgconfig = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
        for name, files in (("openmpi", ("ompi.pc", "ompi-c.pc")), ("mpich", ("mpich.pc",))):
            if pkgconfig and os.path.basename(path) in files:
                versions[name] = pkgconfig[1]
        if os.path.basename(path) == "mpi.h":
            parts = re.findall(r"#define OMPI_(?:MAJOR|MINOR|RELEASE)_VERSION (\d+)", text)
            if len(parts) == 3:
                versions["openmpi"] = ".".join(parts)
            mpich = re.search(r'#define MPICH_VERSION "([^"]+)"', text)
            if mpich:
                versions["mpich"] = mpich[1]
    for path in libraries:
        name = os.path.basename(path)
        if re.match(r"libopen-(rte|pal)\.so", name):
            versions.setdefault("openmpi", "")
        elif name.startswith(("libmpich.so", "libmpi.so.12")):
            versions.setdefault("mpich", "")
    return versions


def find_blas(texts: Mapping[str, str], libraries: List[str]) -> Dict[str, str]:
    """Return the BLAS libraries: name -> version, "" where no file has it."""
    versions = {}
    for path, text in sorted(texts.items()):
        if path.endswith("numpy/__config__.py"):  # what NumPy was built with, NumPy 1.25 and later
            name_in = re.search(r'"blas": \{\s*"name": "([^"]+)"', text)
            # In two steps: one pattern for both would search the whole text from each beginning.
            version = name_in and re.compile(r'"version": "([^"]+)"').search(text, name_in.end())
            if name_in and version:
                versions[name_in[1]] = version[1]
    for path in libraries:
        for name, pattern in BLAS.items():
            match = re.search(r"(^|/)(?:%s)" % pattern, path)
            if match and not any(name in known for known in versions if versions[known]):
                versions[name] = match[2] or versions.get(name, "")
    return dict(sorted(versions.items()))
