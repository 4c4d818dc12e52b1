"""Logs of the demo's processes name people and places: they are for its owner alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from standalone import children


def test_a_log_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for _ in ("new", "appended to"):
        children.start(["echo", "words"], log=log).wait(10)
        assert log.stat().st_mode & 0o777 == 0o600
        log.chmod(0o644)  # as earlier versions made it
    children.open_log(log).close()
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_text() == "words\nwords\n"


def test_a_large_log_is_put_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LARGE_LOG", 3)
    log = tmp_path / "web"
    for content in (b"first", b"second", b"3", b"4"):
        with children.open_log(log) as opened:
            opened.write(content)
    assert log.read_bytes() == b"34"
    assert log.with_name("web.1").read_bytes() == b"second"
    assert {path.name for path in tmp_path.iterdir()} == {"web", "web.1"}
