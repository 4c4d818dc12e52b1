"""Which BLAS answers: the libraries that are loaded, by what their own functions say.

What NumPy was built with is known to NumPy; what the loader found in this environment is known to
the process alone. `/proc/self/maps` names the files, and each library is asked for its version and
the threads that it will use. One that does not answer is told by its file's name.
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
# OpenBLAS is built with names of its own, so that several can live in one process.
DECORATIONS = [(before, after) for before in ("", "scipy_") for after in ("", "64_", "_64", "64__")]
NUMBER = re.compile(r"\d+(?:\.\d+)+")


def loaded(maps: str = "/proc/self/maps") -> List[Dict[str, Any]]:
    """Name, version, threads, build and file of every BLAS and LAPACK in this process.

    What is not known is left out. Empty where there is no /proc.
    """
    found: Dict[Tuple[str, str], Dict[str, Any]] = {}
    for name, path in _files(maps):
        library = _find(path)
        if library is None:
            continue
        answer = _ask(name, library) or {"name": name, **_by_file(path)}
        known = found.setdefault((answer["name"], answer.get("version", "")), answer)
        known.setdefault("file", path)
    named = list(found.values())
    # Debian's libblas.so.3 may be a door to another one, which has been told by then.
    others = [one for one in named if one["name"] != "BLAS"]
    return others or named


def _files(maps: str) -> Iterator[Tuple[str, str]]:
    try:
        with open(maps, encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[-1].strip() for line in file if "/" in line}
    except OSError:
        return
    for name, pattern in NAMES:
        for path in sorted(paths):
            if ".so" in path and re.search(pattern, os.path.basename(path)):
                yield name, path


def _find(path: str) -> Optional[ctypes.CDLL]:
    """A library that is loaded, without loading anything.

    Under PRoot `maps` names files as the host does: in here only the end of the path is true.
    """
    parts = path.split("/")
    for first in range(1, len(parts)):
        try:
            return ctypes.CDLL("/" + "/".join(parts[first:]), os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:  # no such file in here, or not one that is loaded
            continue
    return None


def _ask(name: str, library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    """What the library says of itself; None if it has none of the functions that we know."""
    if name == "MKL":
        return _mkl(library)
    if name == "BLIS":
        return _blis(library)
    if name == "FlexiBLAS":
        return _flexiblas(library)
    return _openblas(library)


def _openblas(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    for before, after in DECORATIONS:
        config = _text(library, f"{before}openblas_get_config{after}")
        if config:
            # "OpenBLAS 0.3.29  USE64BITINT DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64"
            words = config.split()
            version = next((word for word in words if NUMBER.match(word)), "")
            answer = {"name": "OpenBLAS", "version": version, "build": " ".join(words)}
            core = _text(library, f"{before}openblas_get_corename{after}")
            threads = _number(library, f"{before}openblas_get_num_threads{after}")
            return _known({**answer, "kernels": core, "threads": threads})
    return None


def _mkl(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    tell = getattr(library, "MKL_Get_Version_String", None)
    if tell is None:
        return None
    buffer = ctypes.create_string_buffer(256)
    tell(buffer, len(buffer))
    text = buffer.value.decode("utf-8", "replace").strip()
    version = NUMBER.search(text)
    threads = _number(library, "MKL_Get_Max_Threads")
    return _known(
        {
            "name": "MKL",
            "version": version[0] if version else "",
            "build": text,
            "threads": threads,
        }
    )


def _blis(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    version = _text(library, "bli_info_get_version_str")
    if not version:
        return None
    threads = _number(library, "bli_thread_get_num_threads")  # -1: nobody has chosen
    return _known({"name": "BLIS", "version": version, "threads": max(threads, 0)})


def _flexiblas(library: ctypes.CDLL) -> Optional[Dict[str, Any]]:
    tell = getattr(library, "flexiblas_get_version", None)
    if tell is None:
        return None
    parts = [ctypes.c_int() for _ in range(3)]
    tell(*(ctypes.byref(part) for part in parts))
    answer = {"name": "FlexiBLAS", "version": ".".join(str(part.value) for part in parts)}
    backend = getattr(library, "flexiblas_current_backend", None)
    if backend is not None:
        buffer = ctypes.create_string_buffer(256)
        backend(buffer, ctypes.c_size_t(len(buffer)))
        answer["build"] = "calls " + buffer.value.decode("utf-8", "replace")
    return _known({**answer, "threads": _number(library, "flexiblas_get_num_threads")})


def _by_file(path: str) -> Dict[str, Any]:
    """The version that the file's name ends with: libblas.so.3.12.0."""
    real = os.path.basename(os.path.realpath(path))
    version = NUMBER.search(real.partition(".so.")[2])
    return {"version": version[0]} if version else {}


def _text(library: ctypes.CDLL, name: str) -> str:
    function = getattr(library, name, None)
    if function is None:
        return ""
    function.restype = ctypes.c_char_p
    return (function() or b"").decode("utf-8", "replace").strip()


def _number(library: ctypes.CDLL, name: str) -> int:
    function = getattr(library, name, None)
    return 0 if function is None else int(function())


def _known(answer: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in answer.items() if value}
