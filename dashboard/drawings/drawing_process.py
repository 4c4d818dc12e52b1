"""Figures drawn in a process of their own, within a time limit, and kept until they change."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.core.cache import caches

from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.axes_json import write_axes_figure
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_json import write_forest
from dashboard.drawings.turns import TooMany, Turns

Ending = Literal["svg", "png", "pdf"]
SECONDS = 30
"""How long a drawing may take: usually two, and five more where the fonts are made first."""
AT_ONCE, FOR_VISITORS, WAITING = 2, 1, 1
"""Processes at the same time, each of about 100 MB; those of them for visitors; and requests that
wait: together fewer than the threads of the web server, which answers others with the rest."""
WAIT_SECONDS = 20
FAILURE_SECONDS = 600
"""What ran into the time limit is drawn again no sooner, unless a person asks for it."""
BUSY_SECONDS = 60
"""Nor sooner than this where it is the server that was busy, and not the drawing that took long."""
PROGRAM = "dashboard.drawings.draw_figure_file"
SHOWN_OF_ERRORS = 2000
turns = Turns(AT_ONCE, FOR_VISITORS, WAITING)
log = logging.getLogger(__name__)


class NotDrawn(Exception):
    """A figure that could not be drawn; the message says why in words for its reader."""


class Busy(NotDrawn):
    """A figure that may be drawn later: too many others are."""


class TookTooLong(NotDrawn):
    """A figure that ran into the time limit, now or a short time ago."""

    def __init__(self, seconds: float, remembered_seconds: float = FAILURE_SECONDS) -> None:
        super().__init__(f"Drawing it took more than {seconds:g} s and was given up.")
        self.remembered_seconds = remembered_seconds


@contextmanager
def take_turn(*, is_visitor: bool) -> Iterator[None]:
    """Wait for a turn at drawing and hold it; Busy where none is to be had."""
    with ExitStack() as held:
        try:
            held.enter_context(turns.take(is_visitor=is_visitor, seconds=WAIT_SECONDS))
        except TooMany:
            raise Busy(
                "Too many figures are being drawn at the moment; try again in a minute."
            ) from None
        yield


def draw(
    figure: Forest | AxesFigure,
    *,
    width: int,
    theme: str,
    ending: Ending,
    page: int = 0,
    is_visitor: bool = False,
) -> bytes:
    """Return the file of a figure, a kept one if nothing has changed since.

    `page` counts from 1 and is one that the figure has; 0 is all of them, as a PDF. NotDrawn if the
    process ends without a figure, or takes too long; Busy if none can be started now.
    """
    order = prepare_order(figure, width=width, theme=theme, ending=ending, page=page)
    file = find_drawn(order.key)
    if file is None:
        with take_turn(is_visitor=is_visitor):
            file = draw_in_turn(order)
    return file


@dataclass(frozen=True)
class DrawingOrder:
    """One file to be drawn: what the program is told, and the name under which it is kept."""

    content: dict[str, Any]
    key: str


def prepare_order(
    figure: Forest | AxesFigure, *, width: int, theme: str, ending: Ending, page: int
) -> DrawingOrder:
    """Return what is to be drawn; the same figure with the same choices has the same key."""
    if isinstance(figure, Forest):
        kind, described = "forest", write_forest(figure)
    else:
        kind, described = "axes", write_axes_figure(figure)
    order = {
        "kind": kind,
        "figure": described,
        "width": width,
        "theme": theme,
        "ending": ending,
        "page": page,
    }
    key = hashlib.sha256(f"{json.dumps(order)}{_hash_renderer()}".encode()).hexdigest()
    return DrawingOrder(order, key)


def find_drawn(key: str, *, again: bool = False) -> bytes | None:
    """Return the file that is kept under a key, None where it has to be drawn.

    TookTooLong where that has been tried a short time ago; with `again` it may be tried again.
    """
    file = _find_kept(key)
    if file is None and not again and _find_kept(_name_failure(key)) is not None:
        raise TookTooLong(SECONDS)
    return file


def draw_in_turn(order: DrawingOrder) -> bytes:
    """Draw and keep a file; the caller holds a turn. NotDrawn where that fails."""
    limits = {"seconds": SECONDS, "folder": str(Path(settings.FIGURE_FOLDER) / "fonts")}
    try:
        file = _run_program(json.dumps(order.content | limits))
    except TookTooLong as gave_up:
        _keep(_name_failure(order.key), b"", gave_up.remembered_seconds)
        raise
    _keep(order.key, file)
    return file


def _name_failure(key: str) -> str:
    # With the limit: where it is raised, all are tried again.
    return f"gave-up-after-{SECONDS}-{key}"


def find_order(name: str) -> KnownOrder | None:
    """Return which file answers a request, by a name that `keep_order` was given."""
    try:
        return KnownOrder(**json.loads(_find_kept(f"order-{name}") or b"{}"))
    except (TypeError, ValueError):  # there is none, or one of another version
        return None


def keep_order(name: str, known: KnownOrder) -> None:
    """Keep which file answers a request, so that the figure need not be described to find it."""
    _keep(f"order-{name}", json.dumps(asdict(known)).encode())


@dataclass(frozen=True)
class KnownOrder:
    """The file that answers a request, and of how many pages it is one."""

    key: str
    pages: int


def _run_program(order: str) -> bytes:
    try:
        ended = subprocess.run(
            [sys.executable, "-m", PROGRAM],
            input=order.encode(),
            capture_output=True,
            cwd=settings.BASE_DIR,
            env=_make_environment(),
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        log.warning("A figure took more than %s s and was given up.", SECONDS)
        raise TookTooLong(SECONDS, BUSY_SECONDS) from None
    except OSError as error:
        log.warning("No process could be started to draw a figure: %s", error)
        raise NotDrawn("The server could not start the program that draws it.") from error
    if ended.returncode == -signal.SIGXCPU:
        log.warning("A figure took more than %s s of the processor and was given up.", SECONDS)
        raise TookTooLong(SECONDS)
    if ended.returncode or not ended.stdout:
        said = ended.stderr.decode(errors="replace")[-SHOWN_OF_ERRORS:]
        log.warning("Drawing a figure ended with %s: %s", ended.returncode, said)
        raise NotDrawn("The program that draws it ended before it was done.")
    return ended.stdout


def _make_environment() -> dict[str, str]:
    """Return what the process may know: no passwords, and one thread for its arithmetic."""
    kept = ("PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "OPENBLAS_NUM_THREADS": "1",
        "MPLCONFIGDIR": str(Path(settings.FIGURE_FOLDER) / "matplotlib"),
    }


@cache
def _hash_renderer() -> str:
    """Return a digest of all that decides how a figure looks, beside its data."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    for package in ("matplotlib", "fontpkg-arimo"):
        digest.update(version(package).encode())
    return digest.hexdigest()


def _find_kept(key: str) -> bytes | None:
    try:
        kept: bytes | None = caches["figures"].get(key)
    except Exception:  # of a damaged file: from pickle, zlib or anything that they call
        log.warning("A kept figure cannot be read.", exc_info=True)
        return None
    return kept


def _keep(key: str, file: bytes, seconds: float | None = None) -> None:
    try:
        cache = caches["figures"]
        cache.set(key, file, cache.default_timeout if seconds is None else seconds)
    except OSError as error:
        log.warning("A figure cannot be kept: %s", error)
