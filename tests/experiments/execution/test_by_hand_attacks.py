"""What may be in the place of results that a person brings, and two who bring them at once."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.execution.by_hand_results import MOST_LOOKED_UP, MOST_SHOWN
from experiments.models import Experiment
from tests.experiments.execution.test_by_hand import (
    bring,
    carry,
    find_results,
    hand_out,
    here,
    pack,
    read_members,
    run_there,
)

pytestmark = pytest.mark.django_db

__all__ = ["here"]


def test_folders_in_place_of_files_are_named_and_the_others_enter(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment(repeats=2)
    run_there(carry(made))
    members = read_members(find_results(made).read_bytes())
    first = made.jobs.order_by("block")[0]
    for name in ("identity.json", "exit_code", "sha256sums", "journal.ndjson"):
        path = f"jobs/{first.uid}-1/{name}"
        spoiled = {each: content for each, content in members.items() if each != path}
        brought = bring(made, pack({**spoiled, f"{path}/x": b"x"}))
        assert [answer.block for answer in brought.refused] == [1], name
    assert bring(made).entered_blocks == "1"
    assert not made.jobs.exclude(state="done").exists()


@pytest.mark.parametrize("name", ["caf\udce9", "nul\0", "a" * 32 + "-1\n", "a" * 5000, "\x1b[31m"])
def test_names_that_no_database_takes_are_names_of_no_job(
    experiment: Callable[..., Experiment], name: str
) -> None:
    made = experiment()
    run_there(carry(made))
    members = read_members(find_results(made).read_bytes())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in {f"jobs/{name}/x": b"x", **members}.items():
            member = tarfile.TarInfo("odd" if "\0" in path else path)
            member.size = len(content)
            if "\0" in path:
                member.pax_headers = {"path": path}
            tar.addfile(member, io.BytesIO(content))
    brought = bring(made, packed.getvalue())
    assert [answer.why for answer in brought.refused] == ["no job of this site has this name"]
    assert (brought.entered_blocks, brought.notes) == ("1", [])


def test_thousands_of_unknown_names_ask_the_database_no_more_than_some(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment()
    hand_out(made)
    count = MOST_LOOKED_UP + 500
    with CaptureQueriesContext(connection) as queries:
        brought = bring(made, pack({f"jobs/{n:032x}-1/x": b"" for n in range(count)}))
    assert len(queries) < MOST_LOOKED_UP + 50
    assert len(brought.refused) == count
    assert (len(brought.shown), brought.not_shown) == (MOST_SHOWN, count - MOST_SHOWN)
