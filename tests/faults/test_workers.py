"""Workers, clocks and servers die, or are several: each run is executed once all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults import children
from tests.faults.points import POINTS
from tests.faults.site import Load, Site

Make = Callable[..., Load]
KILLED = -9


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_is_killed(site: Site, make_load: Make, point: str) -> None:
    load = make_load()
    if POINTS[point].is_late:
        load.gate.touch()
    first = site.start(children.visit, load.cluster.pk, point, load.work)
    first.join(60)
    assert first.exitcode == KILLED, f"{point} was not reached\n{site.read_log()}"
    site.start(children.visit, load.cluster.pk)
    account = site.finish(load)
    assert account.executions == account.runs == 4
