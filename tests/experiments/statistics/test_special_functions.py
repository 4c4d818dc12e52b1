"""The special functions are SciPy's own, and SciPy works as ever for who imports more of it."""

from __future__ import annotations

import ast
import subprocess
import sys

import scipy.special

from experiments.comparisons.comparison_keys import BASE
from experiments.statistics import special_functions

LIGHT = """
import sys
from experiments.statistics.special_functions import lambertw, stdtrit
assert 0 < stdtrit(3, 0.9) and 0 < lambertw(1.0).real
print(*sorted(sys.modules.keys() & {*sys.argv[1:]}))
import numpy as np
from scipy import integrate, optimize, signal, stats
from scipy._lib.array_api_compat import numpy as copied
assert stats.t.ppf(0.9, 3) == stdtrit(3, 0.9)
assert copied.__version__ == np.__version__ and copied.linalg.svd and copied.fft.fft
assert np.random.default_rng(1).random() and np.ma.array([1]) and np.polynomial and np.testing
assert optimize.brentq(lambda x: x - 1, 0, 3) == 1
assert stats.bootstrap(([1.0, 2.0, 4.0],), np.mean, rng=1).confidence_interval
assert stats.Normal().cdf(0.0) == 0.5
"""
LEFT_OUT = (
    *("numpy.f2py", "numpy.testing", "numpy.ma", "numpy.random", "numpy.polynomial"),
    *("charset_normalizer", "unittest"),
)


def test_they_are_those_of_scipy() -> None:
    for name in special_functions.__all__:
        assert getattr(special_functions, name) is getattr(scipy.special, name)


def test_no_other_part_of_numpy_is_imported_for_them_and_all_of_scipy_works_afterwards() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", LIGHT, *LEFT_OUT],
        cwd=BASE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.stdout.strip(), answer.returncode) == ("", 0), answer.stderr


def test_no_module_that_a_web_process_imports_takes_them_from_elsewhere() -> None:
    for path in [*(BASE / "experiments").rglob("*.py"), *(BASE / "dashboard").rglob("*.py")]:
        if path.name == "special_functions.py" or "calibration" in path.parts:
            continue  # these are for the commands that simulate
        for node in ast.walk(ast.parse(path.read_text())):
            module = getattr(node, "module", "") if isinstance(node, ast.ImportFrom) else ""
            assert not (module or "").startswith("scipy"), path
