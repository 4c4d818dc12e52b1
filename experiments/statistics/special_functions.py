"""The special functions that the statistics need, of SciPy, without what SciPy imports beside them.

SciPy can work on arrays of other libraries, and takes all of NumPy for it as one of those: its
random numbers, polynomials, masked arrays, tests, and a compiler of Fortran. Nothing here needs
them; they are 7 MB of each process that compares, and half of the time that the import takes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["chdtr", "chdtri", "fdtrc", "lambertw", "ndtr", "ndtri", "stdtr", "stdtrit"]

HELPERS = "scipy._lib.array_api_compat._internal"


def _copy_imported(name: str, names: dict[str, Any]) -> list[str]:
    """Copy the public names of a module into `names`, but nothing that it would import for this."""
    module = importlib.import_module(name)
    imported: dict[str, Any] = vars(module)
    public = {key for key in imported if not key.startswith("_")}
    public.update(getattr(module, "__all__", ()))
    copied = {key: imported[key] for key in public if key in imported}
    names.update(copied)
    return list(copied)


@contextmanager
def _leave_out_parts_of_numpy() -> Iterator[None]:
    """Keep SciPy from importing parts of NumPy only to copy their names.

    It changes a private function of SciPy 1.17 and 1.18. Where that is missing all is imported.
    """
    try:
        helpers: Any = importlib.import_module(HELPERS)
        clone_module = helpers.clone_module
    except (ImportError, AttributeError):
        yield
        return
    helpers.clone_module = _copy_imported
    try:
        yield
    finally:
        helpers.clone_module = clone_module


with _leave_out_parts_of_numpy():
    from scipy.special import chdtr, chdtri, fdtrc, lambertw, ndtr, ndtri, stdtr, stdtrit
