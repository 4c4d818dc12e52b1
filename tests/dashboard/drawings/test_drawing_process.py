"""Figures are drawn in a process of their own, kept, and given up where that process fails."""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import count
from threading import Event, Thread

import pytest

from dashboard.drawings import drawing_process
from dashboard.drawings.drawing_process import (
    Busy,
    NotDrawn,
    TookTooLong,
    draw,
    find_drawn,
    prepare_order,
)
from dashboard.drawings.turns import TooMany, Turns
from tests.dashboard.drawings.examples import describe, make_pairs

FOREST = describe(make_pairs(1))
OPTIONS = {"width": 180, "theme": "light", "ending": "svg", "page": 1}


@pytest.fixture(autouse=True)
def _nothing_kept(settings, tmp_path) -> None:
    memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": str(tmp_path)}
    settings.CACHES = {**settings.CACHES, "figures": memory}


@pytest.fixture
def replace_program(monkeypatch, tmp_path):
    """Return a function that puts another program in the place of the one that draws."""

    def replace(source: str) -> None:
        (tmp_path / "odd_program.py").write_text(source)
        monkeypatch.setattr(drawing_process, "PROGRAM", "odd_program")
        made = drawing_process._make_environment()
        environment = {**made, "PYTHONPATH": str(tmp_path)}
        monkeypatch.setattr(drawing_process, "_make_environment", lambda: environment)

    return replace


def test_a_figure_is_drawn_once_and_kept_until_something_changes(monkeypatch) -> None:
    orders = []

    def run(order: str) -> bytes:
        orders.append(json.loads(order))
        return f"figure {len(orders)}".encode()

    monkeypatch.setattr(drawing_process, "_run_program", run)
    assert draw(FOREST, **OPTIONS) == draw(FOREST, **OPTIONS) == b"figure 1"
    for changed in ({"width": 88}, {"theme": "dark"}, {"ending": "pdf"}, {"page": 2}):
        assert draw(FOREST, **OPTIONS | changed) == f"figure {len(orders)}".encode()
    assert draw(describe(make_pairs(2)), **OPTIONS) == b"figure 6"
    monkeypatch.setattr(drawing_process, "_hash_renderer", lambda: "another version")
    assert draw(FOREST, **OPTIONS) == b"figure 7"


def test_the_program_draws_what_it_is_told() -> None:
    assert b"<svg" in draw(FOREST, **OPTIONS)
    assert draw(FOREST, **OPTIONS | {"page": 0, "ending": "pdf"}).startswith(b"%PDF")


def test_a_process_that_hangs_is_given_up(monkeypatch, replace_program) -> None:
    replace_program("import time; time.sleep(600)")
    monkeypatch.setattr(drawing_process, "SECONDS", 1)
    with pytest.raises(NotDrawn, match="took more than 1 s"):
        draw(FOREST, **OPTIONS)


def test_one_that_has_used_up_its_time_on_the_processor_took_too_long(replace_program) -> None:
    replace_program("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)")
    with pytest.raises(TookTooLong):
        draw(FOREST, **OPTIONS)


def test_what_took_too_long_is_not_started_again_unless_a_person_asks(
    monkeypatch, replace_program
) -> None:
    replace_program("import time; time.sleep(600)")
    monkeypatch.setattr(drawing_process, "SECONDS", 1)
    with pytest.raises(TookTooLong):
        draw(FOREST, **OPTIONS)
    replace_program("import sys; sys.stdin.read(); print('drawn after all', end='')")
    with pytest.raises(TookTooLong, match="took more than 1 s"):
        draw(FOREST, **OPTIONS)
    key = prepare_order(FOREST, **OPTIONS).key
    assert find_drawn(key, again=True) is None
    monkeypatch.setattr(drawing_process, "SECONDS", 2)
    assert draw(FOREST, **OPTIONS) == b"drawn after all", "with another limit it is another try"
    monkeypatch.setattr(drawing_process, "SECONDS", 1)
    assert find_drawn(key) == b"drawn after all"


@pytest.mark.parametrize(
    "source",
    [
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "raise SystemExit(3)",
        "raise MemoryError",
        "pass",
        "import no_such_package",
    ],
)
def test_a_process_that_ends_badly_is_said_and_nothing_is_kept(replace_program, source) -> None:
    replace_program(f"{source}\n")
    with pytest.raises(NotDrawn, match="ended before it was done"):
        draw(FOREST, **OPTIONS)
    replace_program("import sys; sys.stdin.read(); print('drawn after all', end='')")
    assert draw(FOREST, **OPTIONS) == b"drawn after all"


def test_a_process_that_cannot_be_started_is_said(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(NotDrawn, match="could not start"):
        draw(FOREST, **OPTIONS)


def test_the_process_knows_no_secret(replace_program) -> None:
    replace_program("import os, sys; sys.stdin.read(); print(sorted(os.environ), end='')")
    known = draw(FOREST, **OPTIONS).decode()
    assert "SECRET_KEY" in os.environ
    for name in ("SECRET", "DATABASE", "REDIS", "CREDENTIAL"):
        assert name not in known


def test_only_so_many_processes_are_at_work(monkeypatch) -> None:
    monkeypatch.setattr(drawing_process, "turns", turns := Turns(1, 1, 1))
    monkeypatch.setattr(drawing_process, "WAIT_SECONDS", 0.01)
    turn = turns.take(is_visitor=False, seconds=0)
    with turn, pytest.raises(Busy, match="Too many figures"):
        draw(FOREST, **OPTIONS)


def test_figures_leave_threads_for_other_requests(settings) -> None:
    """The web server has four in a process (Dockerfile)."""
    threads = re.search(r"--threads[\", ]+(\d+)", (settings.BASE_DIR / "Dockerfile").read_text())
    assert threads
    most = drawing_process.AT_ONCE + drawing_process.WAITING
    assert most < int(threads[1])


def test_a_visitor_leaves_room_for_others() -> None:
    turns = Turns(at_once=2, for_visitors=1, waiting=0)
    with turns.take(is_visitor=True, seconds=60):
        with pytest.raises(TooMany), turns.take(is_visitor=True, seconds=60):
            pass
        with turns.take(is_visitor=False, seconds=60):
            pass
    with turns.take(is_visitor=True, seconds=60):
        pass


def test_who_waits_is_next_and_nobody_waits_behind() -> None:
    turns = Turns(at_once=1, for_visitors=1, waiting=1)
    first, drawn = turns.take(is_visitor=False, seconds=60), Event()

    def wait() -> None:
        with turns.take(is_visitor=False, seconds=60):
            drawn.set()

    with first:
        waiting = Thread(target=wait)
        waiting.start()
        while not turns.waiting:
            waiting.join(0.001)
        with pytest.raises(TooMany), turns.take(is_visitor=False, seconds=60):
            pass
        assert not drawn.is_set()
    waiting.join(60)
    assert drawn.is_set()


@pytest.mark.parametrize("damage", ["", "cut off", "odd bytes"])
def test_a_kept_file_that_is_damaged_is_drawn_again(
    settings, tmp_path, monkeypatch, damage: str
) -> None:
    files = {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": str(tmp_path / "drawn"),
    }
    settings.CACHES = {**settings.CACHES, "figures": files}
    numbers = count(1)
    monkeypatch.setattr(
        drawing_process, "_run_program", lambda order: f"figure {next(numbers)}".encode()
    )
    assert draw(FOREST, **OPTIONS) == b"figure 1"
    (file,) = (tmp_path / "drawn").iterdir()
    content = file.read_bytes()
    damaged = {"": b"", "cut off": content[:-4], "odd bytes": content[:-4] + bytes(4)}
    file.write_bytes(damaged[damage])
    assert draw(FOREST, **OPTIONS) == b"figure 2"
    assert draw(FOREST, **OPTIONS) == b"figure 2", "the new one is kept"


def test_a_folder_that_cannot_be_written_costs_time_and_no_figure(settings, tmp_path) -> None:
    folder = tmp_path / "file"
    folder.write_text("no folder")
    files = {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": str(folder / "drawn"),
    }
    settings.CACHES = {**settings.CACHES, "figures": files}
    assert b"<svg" in draw(FOREST, **OPTIONS)
