"""A pytest plug-in: which tests stay in one process when `-n 2` spreads them over several.

pytest-xdist's own marker for this does nothing with pytest 9.2
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from xdist.scheduler import LoadScopeScheduling

LAB = PurePosixPath("tests/lab")
# Each starts labs of its own, beside which the shared one goes on.
LABS_APART = {"test_demo.py", "test_grid_engine.py", "test_labs.py"}
# What they share takes as long to make as all their tests.
TOGETHER = {PurePosixPath("tests/experiments/statistics/test_calibration.py")}


class Together(LoadScopeScheduling):
    """Groups with most tests come first: the labs. Then every other test for itself."""

    def _split_scope(self, nodeid: str) -> str:
        path = PurePosixPath(nodeid.partition("::")[0])
        if path.parent == LAB and path.name not in LABS_APART:
            return "the shared lab"
        return str(path) if path.parent == LAB or path in TOGETHER else nodeid


def pytest_xdist_make_scheduler(config: Any, log: Any) -> Together:
    return Together(config, log)
