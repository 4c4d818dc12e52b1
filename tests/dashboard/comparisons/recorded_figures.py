"""Figures that are asked for and not drawn, so that no test waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dashboard.comparisons import figure_views
from dashboard.drawings.drawing_process import DrawingOrder


def record_figures(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """Have every figure be one text; return what is drawn, each with its choices."""
    drawn: list[tuple[Any, dict[str, Any]]] = []
    turns: list[bool] = []

    @contextmanager
    def take_turn(*, is_visitor: bool) -> Iterator[None]:
        turns.append(is_visitor)
        yield

    def prepare_order(figure: Any, **options: Any) -> DrawingOrder:
        drawn.append((figure, options | {"is_visitor": turns[-1]}))
        return DrawingOrder({}, "none")

    monkeypatch.setattr(figure_views, "find_order", lambda name: None)
    monkeypatch.setattr(figure_views, "find_drawn", lambda key, again: None)
    monkeypatch.setattr(figure_views, "keep_order", lambda name, known: None)
    monkeypatch.setattr(figure_views, "take_turn", take_turn)
    monkeypatch.setattr(figure_views, "prepare_order", prepare_order)
    monkeypatch.setattr(figure_views, "draw_in_turn", lambda order: b"a figure")
    return drawn
