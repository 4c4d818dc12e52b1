"""The text of what has changed in a checkout: real repositories, whose patches git applies."""

from __future__ import annotations

import os
import random
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from runners.payload import git_changes
from runners.payload.checkouts import describe_checkouts
from runners.payload.git_objects import LARGEST, Unreadable, read_blob
from runners.shapes import PROGRAM
from runners.untrusted import validate
from tests.runners.test_payload_checkouts import git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "net"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def write(path: Path, content: str | bytes) -> None:
    """Write a file that is later than any commit of this test."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (time.time() + 10, time.time() + 10))


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "next")


def describe(folder: Path) -> dict[str, Any]:
    facts = describe_checkouts([str(folder / "train.py")])[str(folder)]
    assert validate({"checkouts": {"/x": facts}}, PROGRAM) == {"checkouts": {"/x": facts}}
    return facts


def list_left_out(facts: dict[str, Any]) -> dict[str, str]:
    return {row["file"]: row["reason"] for row in facts.get("left_out", [])}


def apply(folder: Path, patch: str) -> Path:
    """Return a clean clone of the checkout in which git has applied the patch."""
    clone = folder.with_name("clone")
    git(folder.parent, "clone", "-q", str(folder), str(clone))
    path = folder.with_name("changes.patch")
    path.write_bytes(patch.encode())
    git(clone, "apply", str(path))
    return clone


@pytest.mark.parametrize("seed", range(8))
def test_git_applies_the_patch_of_any_text(checkout: Path, seed: int) -> None:
    """Of files in packs, too, where git keeps them as differences to one another."""
    chance = random.Random(seed)

    def make_line() -> str:
        return chance.choice(["a", "b", "", "é", "x\ry", "-- c", str(chance.random())])

    def make_text(lines: list[str]) -> str:
        return "\n".join(lines) + chance.choice(["", "\n"])

    lines = [make_line() for _ in range(chance.choice([0, 1, 3, 20, 200, 1500]))]
    write(checkout / "train.py", make_text(lines))
    write(checkout / "with a space.txt", "gone\n")
    commit(checkout)
    for _ in range(4 * (seed % 2)):
        lines.insert(chance.randrange(len(lines) + 1), make_line())
        write(checkout / "train.py", make_text(lines))
        git(checkout, "commit", "-q", "-a", "-m", "next")
    if seed % 2:
        git(checkout, "gc", "-q")
    for _ in range(chance.choice([1, 3, 600])):
        place = chance.randrange(len(lines) + 1)
        lines[place : place + chance.randrange(2)] = [make_line() + "!"]
    write(checkout / "train.py", make_text(lines))
    (checkout / "with a space.txt").unlink()

    facts = describe(checkout)
    assert "left_out" not in facts
    clone = apply(checkout, facts["patch"])
    assert (clone / "train.py").read_bytes() == (checkout / "train.py").read_bytes()
    assert not (clone / "with a space.txt").exists()


def test_two_files_with_nothing_in_common_are_replaced(checkout: Path) -> None:
    """Which lines fit best would take seconds to find."""
    write(checkout / "train.py", "".join(f"old {number}\n" for number in range(5000)) + "end\n")
    commit(checkout)
    write(checkout / "train.py", "".join(f"new {number}\n" for number in range(5000)) + "end\n")
    clone = apply(checkout, describe(checkout)["patch"])
    assert (clone / "train.py").read_bytes() == (checkout / "train.py").read_bytes()


def test_what_is_no_text_or_may_be_a_secret_is_named_without_its_text(checkout: Path) -> None:
    names = (".env", "deploy/id_ed25519", "api_token.txt", "server.key", "Passwords.py")
    for name in ("train.py", "binary", "latin.txt", "quoted\t.py", *names):
        write(checkout / name, "before\n")
    commit(checkout)
    for name in ("train.py", "quoted\t.py", *names):
        write(checkout / name, "sesame\n")
    write(checkout / "binary", b"\0\1")
    write(checkout / "latin.txt", b"caf\xe9\n")
    facts = describe(checkout)
    assert list_left_out(facts) == {
        **dict.fromkeys(names, "by its name it may hold a secret"),
        "binary": "it is no text",
        "latin.txt": "it is no UTF-8",
        "quoted\t.py": "its name would have to be quoted",
    }
    assert facts["patch"].count("sesame") == 1
    assert facts["changed"] == 9


def test_the_tokenizer_of_a_model_is_no_secret(checkout: Path) -> None:
    write(checkout / "tokenizer.py", "a\n")
    commit(checkout)
    write(checkout / "tokenizer.py", "b\n")
    assert "+b\n" in describe(checkout)["patch"]


def test_nothing_is_read_through_links(checkout: Path, tmp_path: Path) -> None:
    write(checkout / "part" / "x.py", "a\n")
    write(checkout / "own.py", "a\n")
    commit(checkout)
    write(tmp_path / "elsewhere" / "x.py", "private\n")
    (checkout / "part" / "x.py").unlink()
    (checkout / "part").rmdir()
    (checkout / "part").symlink_to(tmp_path / "elsewhere")
    (checkout / "own.py").unlink()
    (checkout / "own.py").symlink_to(tmp_path / "elsewhere" / "x.py")
    facts = describe(checkout)
    assert "patch" not in facts
    assert set(list_left_out(facts)) >= {"part/x.py"}


def test_what_is_too_much_is_left_out_whole_and_said(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py", "large.py", *(f"part{number:02}.py" for number in range(60))):
        write(checkout / name, "before\n")
    commit(checkout)
    write(checkout / "a.py", "x" * git_changes.MOST_BYTES)
    write(checkout / "b.py", "small\n")
    write(checkout / "large.py", "y" * (LARGEST + 1))
    facts = describe(checkout)
    assert list_left_out(facts) == {
        "a.py": "there was no room for it",
        "large.py": "it is too large",
    }
    assert "+small" in facts["patch"]
    monkeypatch.setattr(git_changes, "MOST_SECONDS", -1.0)
    for number in range(60):
        write(checkout / f"part{number:02}.py", "after\n")
    facts = describe(checkout)
    assert "patch" not in facts
    assert (len(facts["left_out"]), facts["left_out_count"]) == (50, 63)
    assert set(list_left_out(facts).values()) == {"there was no time to compare it"}


def test_worktrees_and_borrowed_objects_are_read(checkout: Path, tmp_path: Path) -> None:
    write(checkout / "train.py", "before\n")
    commit(checkout)
    git(checkout, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(tmp_path, "clone", "-q", "--shared", str(checkout), str(tmp_path / "shared"))
    for folder in (tmp_path / "side", tmp_path / "shared"):
        write(folder / "train.py", "after\n")
        assert "-before\n+after\n" in describe(folder)["patch"]


def test_a_file_that_is_changed_within_the_second_of_its_commit_is_seen(checkout: Path) -> None:
    path = checkout / "train.py"
    path.write_text("print(1)\n")
    os.utime(path, ns=(10**18 + 7, 10**18 + 7))
    commit(checkout)
    path.write_text("print(2)\n")
    os.utime(path, ns=(10**18 + 9, 10**18 + 9))
    assert "+print(2)" in describe(checkout)["patch"]


def test_a_repository_without_its_objects_says_so(checkout: Path) -> None:
    write(checkout / "train.py", "before\n")
    commit(checkout)
    write(checkout / "train.py", "after\n")
    for path in (checkout / ".git" / "objects").glob("??/*"):
        path.unlink()
    reasons = list_left_out(describe(checkout))
    assert reasons == {"train.py": "git's copy: git does not have it as it was"}


@given(data=st.data())
def test_no_content_of_a_pack_gives_anything_but_the_file(data: st.DataObject) -> None:
    """Whatever bytes of it are changed, the file comes out as it was, or a reason."""
    folder = Path(f"/tmp/tare-objects-{os.getpid()}")
    if not folder.exists():
        folder.mkdir()
        git(folder, "init", "-q")
        for number in range(3):
            (folder / "x").write_text("".join(f"line {n * number}\n" for n in range(200)))
            commit(folder)
        git(folder, "gc", "-q")
    digest = bytes.fromhex(git(folder, "rev-parse", "HEAD~1:x"))
    kept = read_blob(str(folder / ".git"), digest)
    place = folder / ".git" / "objects" / "pack"
    path = data.draw(st.sampled_from(sorted([*place.glob("*.pack"), *place.glob("*.idx")])))
    content = path.read_bytes()
    position = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[position] = data.draw(st.integers(0, 255))
    path.chmod(0o644)
    try:
        path.write_bytes(bytes(changed)[: data.draw(st.sampled_from([len(content), position]))])
        assert read_blob(str(folder / ".git"), digest) == kept
    except Unreadable:
        event("unreadable")
    finally:
        path.write_bytes(content)


def test_a_bomb_is_not_unpacked(checkout: Path) -> None:
    bomb = zlib.compress(b"blob 9\0" + b"0" * (50 * LARGEST))
    digest = bytes(range(20))
    path = checkout / ".git" / "objects" / digest.hex()[:2] / digest.hex()[2:]
    write(path, bomb)
    with pytest.raises(Unreadable, match="too large"):
        read_blob(str(checkout / ".git"), digest)
