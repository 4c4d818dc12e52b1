"""A pytest plug-in: how much processor time each test takes, for `make test-costs`.

A test's time is what its process and the children it waited for took from its set-up to its
tear-down. What it shares with others (a lab, a database, a module's rows) is not counted: which
test of a process comes first is chance. What was not tried keeps its old figure.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from os import times
from pathlib import Path
from typing import Any

import pytest

from tests.thorough import CHEAP_S, COSTS, read_costs, write_costs

PROPERTY = "processor time in s"


def read_processor_time() -> float:
    """Return the processor time in s of this process and of the children it has waited for."""
    taken = times()
    return time.process_time() + taken.children_user + taken.children_system


class Costs:
    """Measures in the processes that run tests, and collects in the one that hears of all."""

    def __init__(self) -> None:
        self.before = self.shared = 0.0
        self.measured: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        self.before, self.shared = read_processor_time(), 0.0
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        began, shared_before = read_processor_time(), self.shared
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":  # with those that it asked for itself
                self.shared = shared_before + read_processor_time() - began

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        taken = read_processor_time()
        try:
            return (yield)
        finally:
            if nextitem is not None and nextitem.path == item.path:
                taken = read_processor_time()  # else what is shared may have been taken down too
            item.user_properties.append((PROPERTY, taken - self.before - self.shared))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name, seconds in report.user_properties:
                if name == PROPERTY:
                    self.measured[report.nodeid] = float(str(seconds))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        file = Path(session.config.getoption("--costs"))
        before = read_costs(file) if file.exists() else {}
        not_tried = {name: cost for name, cost in before.items() if name not in self.measured}
        costs = {name: cost for name, cost in self.measured.items() if cost >= CHEAP_S}
        write_costs(not_tried | costs, file)
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(f"{len(costs)} of {len(self.measured)} tests take {CHEAP_S} s or more")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", default=str(COSTS), help="the file to write what tests take to")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(), "costs of tests")
