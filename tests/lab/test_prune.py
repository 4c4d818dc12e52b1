"""The cache keeps what is used, and forgets what no version has used for a while."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from lab import prune

DAY = 86400


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Made 20 days ago: three versions, one never finished, and what is no version's."""
    monkeypatch.setenv("TARE_CACHE", str(tmp_path))
    for name in (
        *("rootfs-a", "rootfs-b", "base-a", "rootfs-c.partial"),
        *("software/numpy-a", "software/numpy-b", "software/.numpy-c", "software/.uv"),
    ):
        (tmp_path / name / "bin").mkdir(parents=True)
    (tmp_path / "ports").mkdir()
    (tmp_path / "rootfs-b.log").touch()
    (tmp_path / "rootfs.lock").touch()
    for path in [*tmp_path.glob("*"), *tmp_path.glob("software/*")]:
        os.utime(path, (time.time() - 20 * DAY,) * 2)
    return tmp_path


def left(cache: Path) -> set[str]:
    found = [*cache.glob("*"), *cache.glob("software/*")]
    return {path.name for path in found} - {"software", "ports", "used", "prune.lock"}


def test_what_was_marked_stays_and_the_rest_goes_and_is_named(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prune.mark_used(cache / "rootfs-b", cache / "software" / "numpy-b")
    removed = prune.prune()
    assert left(cache) == {"rootfs-b", "rootfs-b.log", "rootfs.lock", "numpy-b", ".uv"}
    said = capsys.readouterr().out
    assert len(removed) == 5
    for path in removed:
        assert f"removing {path} from the cache: not used for 20 days" in said


def test_nothing_goes_before_its_time(cache: Path) -> None:
    assert prune.prune(days=21) == []
    used = cache / "used"
    prune.mark_used(cache / "rootfs-a")
    os.utime(used / "rootfs-a", (time.time() - 15 * DAY,) * 2)
    assert cache / "rootfs-a" in prune.prune(days=14)


def test_nothing_goes_while_a_lab_runs(cache: Path) -> None:
    with (cache / "ports" / "27000").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert prune.prune() == []
    assert prune.prune()
