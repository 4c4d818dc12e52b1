"""Code on a cluster: archives through the strict door, git checkouts, proof and removal."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import socket
import stat
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import code_copies
from runners.payload import bounded, code_archive, code_fetch, code_tree
from runners.payload.code_archive import BadArchive, read_members
from tests.conftest import pause_longer
from tests.runners.code_archives import (
    SCRIPT,
    make_good_tar,
    make_good_zip,
    make_tar,
    make_zip,
    name_member,
)

PROGRAM = Path(code_tree.__file__)
REGULAR, LINK = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777


def run(*words: str | Path) -> tuple[int, dict[str, Any], str]:
    """Run the program as a job does; return its exit code, what it left, and what it printed."""
    done = subprocess.run(
        [sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False
    )
    left = Path(words[2]) if len(words) > 2 else Path("none")
    result = json.loads(left.read_text()) if left.exists() else {}
    return done.returncode, result, done.stderr.strip()


def unpack(place: Path, content: bytes, digest: str = "") -> tuple[int, dict[str, Any], str]:
    archive = place / "sent"
    archive.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return run("unpack", place / "code", place / "result.json", archive, sha256, digest)


@pytest.fixture
def place(tmp_path: Path) -> Any:
    yield tmp_path
    code_tree.remove(os.fsencode(tmp_path / "code"))


GOOD = {
    "tar": make_good_tar(),
    "tar.gz": make_good_tar("w:gz"),
    "tar.xz": make_good_tar("w:xz"),
    "zip": make_good_zip(),
}


@pytest.mark.parametrize("kind", GOOD)
def test_an_archive_keeps_folders_links_and_the_right_to_execute(place: Path, kind: str) -> None:
    code, result, printed = unpack(place, GOOD[kind])
    assert (code, printed) == (0, "")
    folder = place / "code"
    assert (folder / "a/b/deep.txt").read_text() == "deep"
    assert (folder / "a/to-deep").readlink() == Path("b/deep.txt")
    assert (folder / "folder-link/deep.txt").read_text() == "deep"
    assert (folder / "empty").is_dir()
    assert (folder / "same").read_bytes() == (folder / "a/run.sh").read_bytes() == SCRIPT
    assert os.access(folder / "a/run.sh", os.X_OK)
    assert os.access(folder / "same", os.X_OK)
    assert not os.access(folder / "top.txt", os.X_OK)
    assert b"odd-\xff" in os.listdir(os.fsencode(folder))
    assert not (place / "sent").exists(), "it is not kept twice"
    # The site reads the archive before any cluster does, and gets the same digest of each kind.
    members = {name: read_members(io.BytesIO(content)) for name, content in GOOD.items()}
    assert {code_archive.compute_digest(rows) for rows in members.values()} == {result["digest"]}
    assert (result["files"], result["bytes"]) == (7, 3 + 4 + 3 + 2 * len(SCRIPT))


def test_nobody_may_write_to_code(place: Path) -> None:
    unpack(place, GOOD["tar"])
    modes = {oct(path.stat().st_mode & 0o222) for path in (place / "code").rglob("*")}
    assert modes == {"0o0"}
    assert run("remove", place / "code")[0] == 0
    assert not (place / "code").exists()
    assert run("remove", place / "code")[0] == 0, "what is gone is removed"


def test_unpacking_again_takes_the_place_of_what_was_there(place: Path) -> None:
    unpack(place, GOOD["tar"])
    (place / "code.partial").mkdir()  # of an operation that was killed
    code, result, _ = unpack(place, make_tar((name_member("other"), b"1")))
    assert (code, result["files"]) == (0, 1)
    assert os.listdir(place / "code") == ["other"]
    assert not (place / "code.partial").exists()


def test_another_digest_than_expected_is_not_kept(place: Path) -> None:
    code, result, printed = unpack(place, GOOD["tar"], "sha256:" + "0" * 64)
    assert code == 1
    assert result["state"] == "changed"
    assert "its digest is" in printed
    assert not (place / "code").exists()


def test_another_archive_than_was_sent_is_not_unpacked(place: Path) -> None:
    (place / "sent").write_bytes(GOOD["tar"])
    words = ("unpack", place / "code", place / "result.json", place / "sent", "0" * 64, "")
    code, _, printed = run(*words)
    assert code == 1
    assert "the archive came with the sha256" in printed


def pax_link(name: str, target: str) -> tarfile.TarInfo:
    """Return a link whose target stands in an extended header, where it may hold anything."""
    member = name_member(name, tarfile.SYMTYPE, "elsewhere")
    member.pax_headers = {"linkpath": target}
    return member


def pack_header(records: dict[str, str], kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Return an extended header of a tar."""
    made: bytes = tarfile.TarInfo._create_pax_generic_header(records, kind, "utf-8")  # type: ignore[attr-defined]
    return made


def make_sparse(holes: int) -> bytes:
    """Return a tar with a file that has so many holes, whose table is packed well."""
    records = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}
    table = b"%d\n" % holes + b"1\n" * 2 * holes
    table += bytes(-len(table) % tarfile.BLOCKSIZE)
    member = name_member("x")
    member.size = len(table)
    return gzip.compress(pack_header(records) + member.tobuf() + table + bytes(1024), 1)


FIFO, DEVICE = tarfile.FIFOTYPE, tarfile.CHRTYPE
BAD = {
    "absolute": (make_tar((name_member("/etc/x"), b"1")), "/etc/x is an absolute path"),
    "above": (make_tar((name_member("a/../../x"), b"1")), "has '..' in it"),
    "above in a zip": (make_zip([("../x", b"1", REGULAR)]), "has '..' in it"),
    "link out": (
        make_tar(name_member("a/l", tarfile.SYMTYPE, "../../x"), (name_member("b"), b"")),
        "a/l is a link to ../../x, which leads out of the folder",
    ),
    "link out in a zip": (make_zip([("l", b"/etc", LINK)]), "leads out of the folder"),
    "links that lead out together": (
        make_tar(
            name_member("a/b/c", tarfile.DIRTYPE),
            name_member("a/b/c/up", tarfile.SYMTYPE, "../../.."),
            name_member("out", tarfile.SYMTYPE, "a/b/c/up/.."),
        ),
        "out is a link to a/b/c/up/.., which leads out of the folder",
    ),
    "a file below a link": (
        make_tar(name_member("l", tarfile.SYMTYPE, "."), (name_member("l/x"), b"1")),
        "l/x lies below l, which is no folder",
    ),
    "circle": (
        make_tar(name_member("l", tarfile.SYMTYPE, "m"), name_member("m", tarfile.SYMTYPE, "l")),
        "leads round in a circle",
    ),
    "hard link out": (
        make_tar(name_member("l", tarfile.LNKTYPE, "/etc/passwd")),
        "/etc/passwd is an absolute path",
    ),
    "hard link to nothing": (
        make_tar(name_member("l", tarfile.LNKTYPE, "x")),
        "l is another name of x, which is no file before it",
    ),
    "link with a NUL": (
        make_tar(pax_link("l", "x\0y"), (name_member("b"), b"")),
        "l is a link to a path with a NUL in it",
    ),
    "link with a NUL in a zip": (
        make_zip([("l", b"x\0y", LINK), ("b", b"", REGULAR)]),
        "l is a link to a path with a NUL in it",
    ),
    "link through too many folders": (
        make_tar(name_member("l", tarfile.SYMTYPE, "x/" * 45), (name_member("b"), b"")),
        "l is a link to x/x/x/",
    ),
    "sparse": (make_sparse(1), "is a sparse file"),
    "device": (make_tar(name_member("null", DEVICE)), "is a device or a pipe"),
    "pipe": (make_tar(name_member("pipe", FIFO)), "is a device or a pipe"),
    "pipe in a zip": (make_zip([("p", b"", stat.S_IFIFO | 0o644)]), "is a device or a pipe"),
    "twice": (make_tar((name_member("x"), b"1"), (name_member("./x"), b"2")), "x is there twice"),
    "file and folder": (
        make_tar((name_member("x"), b"1"), (name_member("x/y"), b"2")),
        "x/y lies below x, which is no folder",
    ),
    "nothing": (make_tar(name_member("empty", tarfile.DIRTYPE)), "holds no file"),
    "no archive": (b"print('hello')\n", "neither a tar, a tar.gz, a tar.xz nor a zip"),
    "empty": (b"", "neither a tar, a tar.gz, a tar.xz nor a zip"),
    "cut off": (GOOD["tar.gz"][:-200], "damaged or cut off"),
    "cut off tar": (make_good_tar()[:1024], "cut off"),
    "cut off xz": (GOOD["tar.xz"][:-30], "damaged or cut off"),
    "cut off zip": (GOOD["zip"][:-30], "damaged or cut off"),
    "long name": (make_tar((name_member("x" * 256), b"1")), "has too long a name"),
    "deep": (make_tar((name_member("d/" * 50 + "x"), b"1")), "too long or too deep"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_unpacked_is_named_and_leaves_nothing(place: Path, case: str) -> None:
    content, problem = BAD[case]
    code, result, printed = unpack(place, content)
    assert code == 1
    assert problem in printed
    assert result["problem"] == printed
    assert sorted(path.name for path in place.iterdir()) == ["result.json"]


def test_a_zip_with_a_false_check_sum_is_damaged() -> None:
    whole = make_zip([("x", b"content", REGULAR)], compress=False)
    with pytest.raises(BadArchive, match="Bad CRC-32"):
        read_members(io.BytesIO(whole.replace(b"content", b"contents"[:7].upper(), 1)))


def test_what_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    many = make_tar(*((name_member(f"d/{number}"), b"x" * 10) for number in range(20)))
    monkeypatch.setattr(code_archive, "MOST_ENTRIES", 20)
    with pytest.raises(BadArchive, match="more than 20 files and folders"):
        read_members(io.BytesIO(many))
    monkeypatch.setattr(code_archive, "MOST_ENTRIES", 21)
    assert len(read_members(io.BytesIO(many))) == 20
    monkeypatch.setattr(code_archive, "MOST_BYTES", 199)
    with pytest.raises(BadArchive, match="unpacked it has more than"):
        read_members(io.BytesIO(many))


def test_hard_links_count_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name_member(f"{number}", tarfile.LNKTYPE, "x") for number in range(20)]
    monkeypatch.setattr(code_archive, "MOST_BYTES", 200)
    with pytest.raises(BadArchive, match="unpacked it has more than"):
        read_members(io.BytesIO(make_tar((name_member("x"), b"x" * 10), *names)))


def read_refusal(content: bytes) -> str:
    """Return why an archive is refused, after it took little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(BadArchive) as refusal:
            read_members(io.BytesIO(content))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    return str(refusal.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_is_unpacked_at_once_is_refused(method: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("x", bytes(50_000_000))
    assert "x is not packed by deflate" in read_refusal(file.getvalue())


def test_xz_that_asks_for_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 128 << 20}]
    packed = lzma.LZMACompressor(filters=filters)
    content = packed.compress(make_good_tar()) + packed.flush()
    assert "pack it with xz -9 or less" in read_refusal(content)


def test_xz_of_several_streams_with_zeros_between_is_read() -> None:
    whole = make_good_tar()
    parts = lzma.compress(whole[:700]), lzma.compress(whole[700:], preset=9)
    members = read_members(io.BytesIO(bytes(8).join(parts) + bytes(4)))
    assert members == read_members(io.BytesIO(whole))


def test_the_table_of_a_sparse_file_takes_no_memory() -> None:
    assert "sparse file" in read_refusal(make_sparse(2_000_000))


def test_headers_for_all_files_do_not_pile_up() -> None:
    content = b"".join(
        pack_header({f"{number}-{key}": "v" * 20 for key in range(60)}, tarfile.XGLTYPE)
        + name_member(f"{number}").tobuf()
        for number in range(4)
    )
    assert "headers that are for all files" in read_refusal(content + bytes(1024))


def test_a_number_of_thousands_of_digits_is_refused_before_it_is_read() -> None:
    odd = pack_header({"comment": "1" * 60_000}) + name_member("x").tobuf() + bytes(1024)
    assert "longer number than any" in read_refusal(odd)


def test_one_folder_over_and_over_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_archive, "MOST_ENTRIES", 10)
    content = name_member("d", tarfile.DIRTYPE).tobuf() * 21 + bytes(1024)
    assert read_refusal(content) == "it has more than 20 entries"


def test_links_through_links_are_followed_for_some_seconds_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_archive, "MOST_STEPS", 10_000)
    far = "/".join(["d/.."] * 190)
    chain = [
        name_member(f"{number}", tarfile.SYMTYPE, f"{far}/{number + 1}") for number in range(38)
    ]
    content = make_tar(*chain, (name_member("38"), b""), (name_member("d/x"), b""))
    assert "too many links" in read_refusal(content)


@given(st.binary(max_size=2000), st.integers(0, 5000), st.sampled_from(sorted(GOOD)))
def test_damage_anywhere_is_refused_or_harmless(noise: bytes, at: int, kind: str) -> None:
    whole = GOOD[kind]
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    members = {}
    with contextlib.suppress(BadArchive):
        members = read_members(io.BytesIO(damaged))
    assert all(not path.startswith(b"/") and b".." not in path.split(b"/") for path in members)


# Checking


def test_a_tree_that_has_changed_is_noticed(place: Path) -> None:
    _, kept, _ = unpack(place, GOOD["tar"])
    check = ("check", place / "code", place / "result.json", kept["digest"])
    code, result, _ = run(*check)
    assert (code, result["digest"]) == (0, kept["digest"])
    (place / "code").chmod(0o700)
    (place / "code/new").write_text("left by a run")
    code, result, printed = run(*check)
    assert (code, result["state"]) == (1, "changed")
    assert "its digest is" in printed
    (place / "code/new").unlink()
    (place / "code/top.txt").chmod(0o555)
    assert run(*check)[1]["state"] == "changed", "the right to execute counts"
    code_tree.remove(os.fsencode(place / "code"))
    assert run(*check)[1]["state"] == "missing"


def test_a_proof_is_only_left_of_good_code(place: Path) -> None:
    _, kept, _ = unpack(place, GOOD["tar"])
    assert run("prove", place / "code", place / "code.json", kept["digest"])[0] == 0
    assert json.loads((place / "code.json").read_text())["digest"] == kept["digest"]
    code, _, printed = run("prove", place / "code", place / "other.json", "sha256:" + "0" * 64)
    assert (code, (place / "other.json").exists()) == (1, False)
    assert "its digest is" in printed


def test_paths_are_named_unless_they_are_too_many(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, kept, _ = unpack(place, GOOD["tar"])
    assert {"a/b/deep.txt", "a/run.sh", "folder-link/", "a/to-deep/"} <= set(kept["paths"])
    members = code_tree.read_tree(os.fsencode(place / "code"))
    for limit in ("MOST_PATHS", "LONGEST_PATHS"):
        with monkeypatch.context() as patched:
            patched.setattr(code_tree, limit, 3)
            assert code_tree.list_paths(members) == []


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("{code}/a/b/deep.txt", ""),
        ("{code}/a/b", ""),
        ("{code}/a/b/", ""),
        ("{code}/link", ""),
        ("{code}/link/anything/below", ""),
        ("--data={code}/none", ""),
        ("{code}/", ""),
        ("{code}/.", ""),
        ("{code}/a//b/./deep.txt", ""),
        ("{code}/link/../x", ""),
        ("{code}/a/b/deep.txt::test_one", ""),
        ("{code}/a:{code}/b", ""),
        ("{code}/{gpus}.yaml", ""),
        ("{code}/*.yaml", ""),
        ("/none", ""),
        ("{code}/ü", ""),
        (
            "{code}/deep.txt",
            "names {code}/deep.txt, which commit x does not have; there is a/b/dee",
        ),
        (
            "{code}/a/c",
            "names {code}/a/c, which commit x does not have; at its top there are a, li",
        ),
        ("{code}/linked", "names {code}/linked, "),
    ],
)
def test_a_path_that_code_does_not_have_is_named(word: str, problem: str) -> None:
    paths = ["a/b/deep.txt", "link/", "ü"]
    said = code_copies.explain_missing_path(["x", word], paths, "commit x")
    assert said.startswith(problem)
    assert bool(said) == bool(problem)


# Git


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(place: Path) -> Path:
    """A repository with two commits, an executable, a link, attributes and a submodule."""
    other, made = place / "other", place / "repository"
    for folder in (other, made):
        folder.mkdir()
        git(folder, "init", "--quiet", "-b", "main")
    (other / "x").write_text("x")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "one")
    (made / "scripts").mkdir()
    (made / "scripts/run.sh").write_bytes(SCRIPT)
    (made / "scripts/run.sh").chmod(0o755)
    (made / "link").symlink_to("scripts/run.sh")
    (made / ".gitattributes").write_text("hidden export-ignore\nwhat export-subst\n")
    (made / "hidden").write_text("hidden")
    (made / "what").write_text("$Format:%H$")
    (made / "big").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    git(made, "submodule", "--quiet", "add", str(other), "third/party")
    git(made, "add", ".")
    git(made, "commit", "--quiet", "-m", "one")
    (made / "later").write_text("later")
    git(made, "add", ".")
    git(made, "commit", "--quiet", "-m", "two")
    return made


def fetch(place: Path, url: str, commit: str, digest: str = "") -> tuple[int, Any, str]:
    return run("fetch", place / "code", place / "result.json", url, commit, digest)


def test_a_commit_is_fetched_as_a_checkout_has_it(place: Path, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD~")
    code, result, printed = fetch(place, f"file://{repository}", first)
    assert (code, printed) == (0, "")
    folder = place / "code"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert names == {
        *(".gitattributes", ".gitmodules", "big", "hidden", "link", "scripts", "scripts/run.sh"),
        *("third", "third/party", "what"),
    }
    assert (folder / "what").read_text() == "$Format:%H$"
    assert os.access(folder / "scripts/run.sh", os.X_OK)
    assert result["submodules"] == ["third/party"], "which are not fetched"
    assert result["pointers"] == ["big"]
    assert result["paths"] == sorted(
        names - {"link", "scripts", "third", "third/party"} | {"link/"}
    )
    assert not (place / "code.git-partial").exists()
    assert fetch(place, f"file://{repository}", first, result["digest"])[0] == 0


def test_a_commit_that_no_branch_has_is_named(place: Path, repository: Path) -> None:
    code, result, printed = fetch(place, f"file://{repository}", "0" * 39 + "1")
    assert code == 1
    assert printed.startswith("the repository has no such commit")
    assert result["state"] == "failed"


def test_a_file_of_a_commit_is_no_commit(place: Path, repository: Path) -> None:
    blob = git(repository, "rev-parse", "HEAD:later")
    assert "no" in fetch(place, f"file://{repository}", blob)[2]
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    assert fetch(place, f"file://{repository}", tree)[0] == 1


def test_a_repository_that_is_not_there_is_named(place: Path) -> None:
    code, _, printed = fetch(place, f"file://{place}/none", "1" * 40)
    assert code == 1
    assert "does not appear to be a git repository" in printed


def test_without_a_network_an_archive_is_recommended(place: Path) -> None:
    code, _, printed = fetch(place, "https://127.0.0.1:9/x.git", "1" * 40)
    assert code == 1
    assert "this node does not reach the repository" in printed
    assert "send an archive instead" in printed


LAST = """\
fatal: Could not read from remote repository.

Please make sure you have the correct access rights
and the repository exists.
"""


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (
            f"Host key verification failed.\n{LAST}",
            "the cluster’s account does not know the host of the repository: log in",
        ),
        (
            "@@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@@@@\n"
            f"Someone could be eavesdropping on you!\nHost key verification failed.\n{LAST}",
            "the host of the repository has another key than the cluster’s account knows of it: ",
        ),
        (
            f"git@a.org: Permission denied (publickey).\r\n{LAST}",
            "the host of the repository takes no key of the cluster’s account: give the account",
        ),
        (
            "error: cannot run ssh: No such file or directory\nfatal: unable to fork\n",
            "there is no ssh on this node's PATH",
        ),
        (
            f"fatal: '/x.git' does not appear to be a git repository\n{LAST}",
            "git fetch: fatal: '/x.git' does not appear to be a git repository",
        ),
        (
            "Connection timed out during banner exchange\r\nConnection to 127.0.0.1 port 2 timed "
            f"out\r\n{LAST}",
            "this node does not reach the repository (git: Connection timed out during banner exch",
        ),
        (
            f"ssh: Could not resolve hostname x: Name or service not known\r\n{LAST}",
            "this node does not reach the repository (git: ssh: Could not resolve hostname x",
        ),
        (
            "fatal: detected dubious ownership in repository at '/x/y.git'\nTo add an exception "
            f"for this directory, call:\n{LAST}",
            "the repository belongs to another account than the one that reads it",
        ),
        (LAST, "git fetch: fatal: Could not read from remote repository."),
        ("", "git fetch: it ended with exit code 128"),
        ("\x1b[31m\n", "git fetch: \\x1b[31m"),
    ],
)
def test_what_git_and_ssh_print_becomes_a_sentence(printed: str, message: str) -> None:
    said = code_fetch.explain("fetch", printed.encode(), 128)
    assert said.startswith(message)
    assert "\n" not in said


def test_a_host_that_says_nothing_is_given_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_fetch, "CONNECT_SECONDS", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"ssh://git@127.0.0.1:{silent.getsockname()[1]}/x.git"
        with pytest.raises(code_fetch.NotFetched, match="this node does not reach the repository"):
            code_fetch.fetch(str(place / "repository"), address, "1" * 40)


def test_what_git_has_started_ends_with_its_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place / "programs" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nsleep 600 & echo $! >{place}/started\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(code_fetch, "FETCH_SECONDS", 1)
    with pytest.raises(code_fetch.NotFetched, match="took longer than 1 s: send an archive"):
        code_fetch.fetch(str(place / "repository"), "https://example.org/x.git", "1" * 40)
    process = int((place / "started").read_text())
    pauses = pause_longer()
    while (status := bounded.read_stat(str(process))) and status[0] != "Z":
        next(pauses)


def test_without_git_it_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place))
    code, _, printed = fetch(place, f"file://{place}/none", "1" * 40)
    assert code == 1
    assert printed.startswith("there is no git on this node's PATH")


def test_the_settings_of_the_account_do_not_count(
    place: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / "home"
    home.mkdir()
    (home / ".gitconfig").write_text('[url "file:///elsewhere/"]\n\tinsteadOf = file:///\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.autocrlf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    commit = git_without(repository, "rev-parse", "HEAD")
    assert fetch(place, f"file://{repository}", commit)[0] == 0
    assert (place / "code/scripts/run.sh").read_bytes() == SCRIPT


def git_without(folder: Path, *words: str) -> str:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *words], cwd=folder, env=clean, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_a_link_of_a_commit_that_leads_out_is_refused(place: Path, repository: Path) -> None:
    (repository / "out").symlink_to("/etc/passwd")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "three")
    code, _, printed = fetch(place, f"file://{repository}", git(repository, "rev-parse", "HEAD"))
    assert code == 1
    assert printed == "out is a link to /etc/passwd, which leads out of the folder"


def test_other_ways_to_a_repository_are_not_taken(place: Path) -> None:
    # The strict door for addresses is elsewhere; git itself gets one protocol.
    with pytest.raises(code_fetch.NotFetched, match="not allowed"):
        code_fetch.Git(str(place / "x"), "https://a/b").run(
            "ls-remote", "ext::sh -c 'touch /tmp/never'"
        )
