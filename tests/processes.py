"""A pytest plug-in: which tests are slow, and which stay in one process when `-n 4` spreads them.

Tests on a lab mostly wait: in three processes of their own, from the start, they cost the fourth
little, which has all the others. pytest-xdist's own marker for groups does nothing with pytest 9.2
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.thorough import is_costly, is_left_to_all

LAB = PurePosixPath("tests/lab")
EXPERIMENTS, JOBS, APART = "a lab for experiments", "a lab for jobs", "labs of their own"
# The files of two groups share a lab each; any other file of `tests/lab` is for the second.
LABS = {
    "test_anatomy.py": EXPERIMENTS,
    "test_by_forms.py": EXPERIMENTS,
    "test_parity.py": EXPERIMENTS,
    "test_pauses.py": EXPERIMENTS,
    "test_presets.py": EXPERIMENTS,
    "test_demo.py": APART,
    "test_grid_engine.py": APART,
    "test_labs.py": APART,
}
# What the tests of each of these files share takes as long to make as all of them.
TOGETHER = (
    "tests/faults/test_workers.py",
    "tests/experiments/statistics/test_calibration.py",
    "tests/runners/test_training_networks.py",
    "tests/dashboard/docs/test_documents.py",
)
# What takes longest begins first.
ORDER = (EXPERIMENTS, JOBS, APART, *TOGETHER)


def group_of(nodeid: str) -> str:
    """Return the name of the group whose tests stay in one process; most tests are one alone."""
    path = PurePosixPath(nodeid.partition("::")[0])
    if path.parent == LAB:
        return LABS.get(path.name, JOBS)
    return str(path) if str(path) in TOGETHER else nodeid


def list_share(folders: list[Path], number: int, count: int) -> list[Path]:
    """Return every `count`-th test file below the folders, beginning with the one of `number`."""
    return sorted(path for folder in folders for path in folder.rglob("test_*.py"))[number::count]


def import_share(config: pytest.Config) -> None:
    """Import the files of this process's share, before all processes import all of them.

    In a fresh clone pytest has to rewrite and compile each of them, which takes longer than all
    else until the first test: so it is done once a file and not once a process. What cannot be
    imported is reported when it is collected.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    root = config.rootpath
    folders = [path for argument in config.args if (path := root / argument).is_dir()]
    number = int(worker["workerid"].removeprefix("gw"))
    for path in list_share(folders, number, worker["workercount"]):
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without looking for garbage: almost all that is made stays until the end."""
    gc.disable()
    try:
        import_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class Together(LoadScopeScheduling):
    """Hands out whole groups, in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_itemcollected(item: pytest.Item) -> None:
    if is_costly(item.nodeid):
        item.add_marker("slow")
    if is_left_to_all(item.nodeid):
        item.add_marker("thorough")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups first, and file by file: what is made for a file is made once."""
    ranks = {group: rank for rank, group in enumerate(ORDER)}
    files: dict[str, int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        rank = ranks.get(group_of(item.nodeid), len(ORDER))
        file = item.nodeid.partition("::")[0]
        return rank, files.setdefault(file, len(files)) if rank < len(ORDER) else 0

    items.sort(key=place)


def pytest_xdist_make_scheduler(config: Any, log: Any) -> Together:
    config.option.loadscopereorder = False
    return Together(config, log)
