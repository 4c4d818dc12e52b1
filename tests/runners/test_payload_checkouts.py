"""Of which commit a program's files are: real checkouts that git has made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload import checkouts
from runners.payload.checkouts import describe_checkouts


def git(folder: Path, *argv: str) -> str:
    who = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        who |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org"}
    done = subprocess.run(
        ["git", *argv], cwd=folder, env={**os.environ, **who}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with two files in it, a link, and one that git does not know."""
    folder = tmp_path / "net"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print(1)\n")
    (folder / "caf\N{LATIN SMALL LETTER E WITH ACUTE}.txt").write_text("x")
    (folder / "link").symlink_to("src")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "new.txt").write_text("git does not know it")
    return folder


def test_a_clean_checkout_has_its_commit_and_no_change(checkout: Path) -> None:
    facts = describe_checkouts([str(checkout / "src" / "train.py")])
    assert facts == {
        str(checkout): {
            "branch": "main",
            "commit": git(checkout, "rev-parse", "HEAD"),
            "changed": 0,
            "changed_files": [],
        }
    }


def test_changed_and_missing_files_are_named_and_touched_ones_are_not(checkout: Path) -> None:
    script = checkout / "src" / "train.py"
    os.utime(script, (1, 1))
    assert describe_checkouts([str(script)])[str(checkout)]["changed"] == 0
    script.write_text("print(2)\n")  # as long as before
    os.utime(script, (2, 2))
    (checkout / "caf\N{LATIN SMALL LETTER E WITH ACUTE}.txt").unlink()
    facts = describe_checkouts([str(script)])[str(checkout)]
    assert facts["changed"] == 2
    assert sorted(facts["changed_files"]) == [
        "caf\N{LATIN SMALL LETTER E WITH ACUTE}.txt",
        "src/train.py",
    ]


def test_packed_and_detached_heads_and_worktrees_are_read(checkout: Path, tmp_path: Path) -> None:
    script = str(checkout / "src" / "train.py")
    commit = git(checkout, "rev-parse", "HEAD")
    git(checkout, "pack-refs", "--all")
    assert describe_checkouts([script])[str(checkout)]["commit"] == commit
    git(checkout, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = describe_checkouts([str(tmp_path / "side" / "src" / "train.py")])
    assert (side[str(tmp_path / "side")]["branch"], side[str(tmp_path / "side")]["commit"]) == (
        "side",
        commit,
    )
    git(checkout, "checkout", "-q", "--detach")
    facts = describe_checkouts([script])[str(checkout)]
    assert facts["commit"] == commit
    assert "branch" not in facts


def test_nothing_that_the_checkout_configures_is_started(checkout: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = tmp_path / "monitor"
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(program))
    describe_checkouts([str(checkout / "src" / "train.py")])
    assert not started.exists()


def test_files_outside_of_a_checkout_have_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert describe_checkouts([str(tmp_path / "train.py"), "/usr/bin/env", "/gone"]) == {}


def test_a_checkout_of_very_many_files_is_not_compared(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkouts, "MOST_ENTRIES", 2)
    facts = describe_checkouts([str(checkout / "src" / "train.py")])[str(checkout)]
    assert facts["not_compared"] == "its index is too large"
    assert "changed" not in facts
    assert facts["commit"]


@given(st.binary(max_size=300))
def test_no_content_of_an_index_ends_a_run(content: bytes) -> None:
    folder = Path(f"/tmp/tare-checkout-{os.getpid()}")
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    try:
        for head in (b"", b"DIRC\0\0\0\2\0\0\0\3"):
            (folder / ".git" / "index").write_bytes(head + content)
            (folder / ".git" / "HEAD").write_bytes(content)
            assert str(folder) in describe_checkouts([str(folder / "x.py")])
    finally:
        for path in (folder / ".git").iterdir():
            path.unlink()
        (folder / ".git").rmdir()
        folder.rmdir()
