"""Logs of the demo's processes name people and places: they are for its owner alone."""

from __future__ import annotations

from pathlib import Path

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
