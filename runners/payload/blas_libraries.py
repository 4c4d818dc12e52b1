"""The BLAS and LAPACK libraries that are loaded, described by their own functions.

NumPy knows the library that it was built with; only the process knows which one the loader has
taken in this environment. `/proc/self/maps` names the files, and each library is asked for its
version and the threads that it will use. Of a library without such functions the file's name is
used.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

# In this order: a wrapper before what it calls. Names of files, without their folders.
NAMES = (
    ("NVBLAS", r"^libnvblas\."),
    ("FlexiBLAS", r"^libflexiblas\."),
    ("MKL", r"^libmkl_(rt|core)\b"),
    ("BLIS", r"^libblis"),
    ("OpenBLAS", r"openblas"),
    ("ATLAS", r"^lib(t|s)?atlas\."),
    ("BLAS", r"^lib(c?blas|lapack)[.\d-]"),  # whatever an administrator's links lead to
)
# OpenBLAS may be built with other names of functions, so that one process can have several.
DECORATIONS = [(before, after) for before in ("", "scipy_") for after in ("", "64_", "_64", "64__")]
NUMBER = re.compile(r"\d+(?:\.\d+)+")


def list_loaded() -> List[Dict[str, Any]]:
    """Return name, version, threads, build and file of every BLAS and LAPACK in this process.

    Unknown fields are left out. Empty without /proc.
    """
    by_version: Dict[Tuple[str, str], Dict[str, Any]] = {}
    for name, path in _list_files():
        library = _open_loaded(path)
        if library is None:
            continue
        facts = _describe(name, library) or {"name": name, **_parse_file_version(path)}
        known = by_version.setdefault((facts["name"], facts.get("version", "")), facts)
        known.setdefault("file", path)
    libraries = list(by_version.values())
    # Debian's libblas.so.3 may only forward to another library, which is in the list, too.
    specific = [library for library in libraries if library["name"] != "BLAS"]
    return specific or libraries


def _list_files() -> Iterator[Tuple[str, str]]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[-1].strip() for line in file if "/" in line}
    except OSError:
        return
    for name, pattern in NAMES:
        for path in sorted(paths):
            if ".so" in path and re.search(pattern, os.path.basename(path)):
                yield name, path


def _open_loaded(path: str) -> Optional[ctypes.CDLL]:
    """Return a library that is loaded already; None if it is not, for nothing is loaded here.

    Under PRoot `maps` has the host's paths, of which only the end is right in the environment.
    """
    parts = path.split("/")
    for first in range(1, len(parts)):
        try:
            return ctypes.CDLL("/" + "/".join(parts[first:]), os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:  # no such file, or not a loaded one
            continue
    return None


def _describe(name: str, library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    """Return what the library's own functions tell; None if it has none of the known ones."""
    if name == "MKL":
        return _describe_mkl(library)
    if name == "BLIS":
        return _describe_blis(library)
    if name == "FlexiBLAS":
        return _describe_flexiblas(library)
    return _describe_openblas(library)


def _describe_openblas(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    for before, after in DECORATIONS:
        config = _call_for_text(library, f"{before}openblas_get_config{after}")
        if config:
            # "OpenBLAS 0.3.29  USE64BITINT DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64"
            parts = config.split()
            version = next((part for part in parts if NUMBER.match(part)), "")
            facts = {"name": "OpenBLAS", "version": version, "build": " ".join(parts)}
            core = _call_for_text(library, f"{before}openblas_get_corename{after}")
            threads = _call_for_number(library, f"{before}openblas_get_num_threads{after}")
            return _drop_unknown({**facts, "kernels": core, "threads": threads})
    return None


def _describe_mkl(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    get_version = getattr(library, "MKL_Get_Version_String", None)
    if get_version is None:
        return None
    buffer = ctypes.create_string_buffer(256)
    get_version(buffer, len(buffer))
    text = buffer.value.decode("utf-8", "replace").strip()
    version = NUMBER.search(text)
    threads = _call_for_number(library, "MKL_Get_Max_Threads")
    return _drop_unknown(
        {
            "name": "MKL",
            "version": version[0] if version else "",
            "build": text,
            "threads": threads,
        }
    )


def _describe_blis(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    version = _call_for_text(library, "bli_info_get_version_str")
    if not version:
        return None
    threads = _call_for_number(library, "bli_thread_get_num_threads")  # -1: nobody has chosen
    return _drop_unknown({"name": "BLIS", "version": version, "threads": max(threads, 0)})


def _describe_flexiblas(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    get_version = getattr(library, "flexiblas_get_version", None)
    if get_version is None:
        return None
    parts = [ctypes.c_int() for _ in range(3)]
    get_version(*(ctypes.byref(part) for part in parts))
    facts = {"name": "FlexiBLAS", "version": ".".join(str(part.value) for part in parts)}
    get_backend = getattr(library, "flexiblas_current_backend", None)
    if get_backend is not None:
        buffer = ctypes.create_string_buffer(256)
        get_backend(buffer, ctypes.c_size_t(len(buffer)))
        facts["build"] = "calls " + buffer.value.decode("utf-8", "replace")
    return _drop_unknown(
        {**facts, "threads": _call_for_number(library, "flexiblas_get_num_threads")}
    )


def _parse_file_version(path: str) -> Dict[str, Any]:
    """Return the version at the end of the file's name, such as libblas.so.3.12.0."""
    real = os.path.basename(os.path.realpath(path))
    version = NUMBER.search(real.partition(".so.")[2])
    return {"version": version[0]} if version else {}


def _call_for_text(library: ctypes.CDLL, name: str) -> str:
    function = getattr(library, name, None)
    if function is None:
        return ""
    function.restype = ctypes.c_char_p
    return (function() or b"").decode("utf-8", "replace").strip()


def _call_for_number(library: ctypes.CDLL, name: str) -> int:
    function = getattr(library, name, None)
    return 0 if function is None else int(function())


def _drop_unknown(facts: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in facts.items() if value}
