"""A data set's digest, and whether a copy still has it: what runs on the node, on real files."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runners import payload
from runners.payload import data_files
from runners.shapes import DATA_FILES
from runners.untrusted import parse_document

PROGRAM = Path(payload.__file__).with_name("data_files.py")
ODD = (b"line\nfeed", b"caf\xe9", b"tab\tand \xf0\x9f\x92\xbe")
"""Names that are no UTF-8, or no one line."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set of some files, one in a folder, others with odd names."""
    made = tmp_path / "set"
    (made / "train" / "empty folder").mkdir(parents=True)
    (made / "train" / "0").write_bytes(b"first")
    (made / "last").write_bytes(b"")
    for name in ODD:
        Path(os.fsdecode(os.fsencode(made) + b"/" + name)).write_bytes(name)
    return made


def run(what: str, folder: Path, digest: str = "", *more: str) -> tuple[int, dict[str, Any], str]:
    """Run the program as a job does; return its exit code, what it left, and what it printed."""
    there = folder.parent
    output = there / "result.json"
    output.unlink(missing_ok=True)
    command = [sys.executable, PROGRAM, what, folder, there / "work/m", output]
    done = subprocess.run(
        [*command, "--digest", digest, *more],
        cwd=there,
        capture_output=True,
        text=True,
        check=False,
    )
    left = parse_document(output.read_bytes(), DATA_FILES) if output.exists() else {}
    return done.returncode, left, (done.stdout + done.stderr).strip()


def read(folder: Path) -> str:
    """Read a data set for the first time; return its digest."""
    code, left, printed = run("hash", folder)
    assert code == 0, printed
    return str(left["digest"])


def define_digest(folder: Path) -> str:
    """Work out a folder's digest by what the documents say, with other means."""
    names = subprocess.run(
        ["find", ".", "-type", "f", "-print0"], cwd=folder, capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    whole = hashlib.sha256()
    for name in sorted(name.removeprefix(b"./") for name in names):
        content = Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).read_bytes()
        sum_of_it = hashlib.sha256(content).hexdigest().encode()
        whole.update(name + b"\0" + str(len(content)).encode() + b"\0" + sum_of_it + b"\n")
    return f"sha256:{whole.hexdigest()}"


def test_the_digest_is_that_of_the_documents(folder: Path) -> None:
    code, left, _ = run("hash", folder)
    assert (code, left["digest"], left["files"]) == (0, define_digest(folder), 5)
    assert left["bytes"] == 5 + sum(map(len, ODD))
    assert not left["is_file"]
    assert run("check", folder, left["digest"])[0] == 0
    assert run("prove", folder, left["digest"], "--full")[0] == 0


def test_that_of_one_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "set").write_bytes(b"one")
    _, left, _ = run("hash", tmp_path / "set")
    assert left["digest"] == f"sha256:{hashlib.sha256(b'one').hexdigest()}"
    assert left["is_file"]
    assert run("prove", tmp_path / "set", left["digest"])[0] == 0


def test_times_and_where_it_lies_do_not_count(folder: Path, tmp_path: Path) -> None:
    digest = read(folder)
    os.utime(folder / "last", (1, 1))
    assert read(folder.rename(tmp_path / "elsewhere")) == digest


def test_a_link_to_a_file_inside_counts_as_that_file(folder: Path) -> None:
    (folder / "same").symlink_to("train/0")
    assert run("hash", folder)[1]["files"] == 6
    assert read(folder) != define_digest(folder), "find does not follow it"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("out", "set/out is a link that leads out of the folder"),
        ("up", "set/up is a link that leads out of the folder"),
        ("broken", "set/broken: No such file or directory"),
        ("to a folder", "set/to a folder is a link to a folder"),
        ("pipe", "set/pipe is no file, but a pipe, a socket or a device"),
        ("socket", "set/socket is no file, but a pipe, a socket or a device"),
    ],
)
def test_what_a_container_would_not_show_is_refused(
    folder: Path, name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("of somebody else")
    targets = {"out": str(tmp_path / "secret"), "up": "../secret", "broken": "nothing"}
    targets["to a folder"] = "train"
    if name in targets:
        (folder / name).symlink_to(targets[name])
    elif name == "pipe":
        os.mkfifo(folder / name)
    else:
        monkeypatch.chdir(folder)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    code, left, printed = run("hash", folder)
    assert (code, left["state"]) == (1, "failed")
    assert problem in left["problem"]
    assert printed == left["problem"], "the job's output names it too"


@pytest.mark.parametrize("what", ["hash", "check"])
def test_a_folder_that_is_gone_is_missing(folder: Path, what: str) -> None:
    digest = read(folder)
    folder.rename(folder.parent / "away")
    code, left, _ = run(what, folder, digest)
    assert (code, left["state"]) == (1, "missing")
    assert left["problem"].endswith("set: No such file or directory")


def test_a_folder_without_files_is_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "set" / "more").mkdir(parents=True)
    assert run("hash", tmp_path / "set")[1]["problem"].endswith("holds no file")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda folder: (folder / "last").unlink(), "last is gone"),
        (lambda folder: (folder / "new").touch(), "new is new"),
        (lambda folder: (folder / "last").write_text("x"), "last has 1 bytes, not 0"),
        (lambda folder: os.utime(folder / "last", (1, 1)), "last was written to since"),
    ],
)
def test_a_quick_check_names_what_changed(folder: Path, change: Any, problem: str) -> None:
    digest = read(folder)
    change(folder)
    code, left, _ = run("check", folder, digest)
    assert (code, left["state"], left["problem"]) == (1, "changed", problem)


def test_many_changes_are_counted_and_some_named(folder: Path) -> None:
    digest = read(folder)
    for number in range(9):
        (folder / f"new{number}").touch()
    assert run("check", folder, digest)[1]["problem"].endswith("new4 is new; and 4 more")


def test_other_content_of_the_same_size_and_time_is_seen_by_reading_it(folder: Path) -> None:
    digest, file = read(folder), folder / "train" / "0"
    before = file.stat()
    file.write_bytes(b"FIRST")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run("check", folder, digest)[0] == 0, "which is what a quick check cannot see"
    code, left, printed = run("prove", folder, digest, "--full")
    assert (code, left, printed) == (1, {}, "train/0 has other content")
    code, left, _ = run("hash", folder, digest)
    assert (code, left["state"]) == (1, "changed")
    assert left["problem"].endswith(f"and that of the data set is {digest}")
    assert run("check", folder, digest)[0] == 0, "the list of the files is that of the data set"


def test_reading_again_takes_note_of_new_times(folder: Path) -> None:
    digest = read(folder)
    os.utime(folder / "last", (1, 1))
    assert run("check", folder, digest)[0] == 1
    assert run("hash", folder, digest)[0] == 0
    assert run("check", folder, digest)[0] == 0


ODD_LINES = {
    "odd": "[1, 2]",
    "a number": "5",
    "no size": '["x", null, 1, "%s"]' % ("a" * 64),
    "endless": '["x", Infinity, 1, "%s"]' % ("a" * 64),
    "no hash": '["x", 1, 1, "%s"]' % ("\\ud800" * 64),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("damage", ["gone", "cut", "of another", *ODD_LINES])
def test_a_list_of_files_that_is_not_this_one_proves_nothing(folder: Path, damage: str) -> None:
    digest, manifest = read(folder), folder.parent / "work" / "m"
    lines = manifest.read_text().splitlines(keepends=True)
    texts = {
        "cut": "".join(lines)[:-30],
        "of another": "".join(lines[:-1]),
    } | {name: f"{lines[0]}{line}\n" for name, line in ODD_LINES.items()}
    manifest.write_text(texts[damage]) if damage in texts else manifest.unlink()
    for what in ("check", "prove"):
        code, left, printed = run(what, folder, digest)
        assert code == 1
        assert "the list of its files" in printed
        assert "Traceback" not in printed
        assert left.get("state") in ("failed", None)


@pytest.mark.parametrize("line", ODD_LINES.values())
def test_odd_notes_of_an_interrupted_reading_are_read_again(folder: Path, line: str) -> None:
    digest, manifest = read(folder), folder.parent / "work" / "m"
    first = manifest.read_text().splitlines()[0]
    manifest.with_name("m.part").write_text(f"{first}\n{line}\n")
    assert run("hash", folder, digest)[0] == 0


def test_a_file_that_grows_while_it_is_read_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = data_files.list_files(os.fsencode(folder))
    (folder / "train" / "0").write_bytes(b"first and more")
    monkeypatch.setattr(data_files, "list_files", lambda root: seen)
    with pytest.raises(data_files.Unusable, match="train/0 changed while it was read") as refusal:
        data_files.hash_files(os.fsencode(folder), str(tmp_path / "part"), data_files.Progress())
    assert refusal.value.state == "", "nothing is known: trying again may help"


def test_a_file_that_is_added_while_others_are_read_is_noticed(
    folder: Path, tmp_path: Path
) -> None:
    class Adding(data_files.Progress):
        def count_file(self) -> None:
            (folder / "late").touch()

    with pytest.raises(data_files.Unusable, match="added, removed or changed while it was read"):
        data_files.hash_files(os.fsencode(folder), str(tmp_path / "part"), Adding())


def test_reading_goes_on_where_it_was_ended(folder: Path, tmp_path: Path) -> None:
    class Ended(data_files.Progress):
        def count_file(self) -> None:
            super().count_file()
            if self.files == 3:
                raise KeyboardInterrupt

    root, partial = os.fsencode(folder), str(tmp_path / "part")
    with pytest.raises(KeyboardInterrupt):
        data_files.hash_files(root, partial, Ended())
    with Path(partial).open("a") as notes:
        notes.write('["train/0", 5')  # a line that was cut
    assert list(data_files.read_partial(root, partial)) == sorted((*ODD, b"last"))[:3]
    hashed: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        hash_file = data_files.hash_file

        def note(path: bytes, *more: Any) -> str:
            hashed.append(path)
            return hash_file(path, *more)

        patch.setattr(data_files, "hash_file", note)
        entries = data_files.hash_files(root, partial, data_files.Progress())
    assert len(hashed) == 2
    assert data_files.compute_digest(entries) == define_digest(folder)


def test_notes_of_another_folder_are_not_believed(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_text(json.dumps("/elsewhere") + '\n["last", 0, 1, "' + "0" * 64 + '"]\n')
    assert data_files.read_partial(os.fsencode(folder), str(part)) == {}


def test_progress_is_a_step_of_the_journal(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "PAUSE", 0.0)
    journal = tmp_path / "journal.ndjson"
    progress = data_files.Progress(str(journal))
    data_files.hash_files(os.fsencode(folder), str(tmp_path / "part"), progress)
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["event"] == "step"
    assert last["doing"].startswith("Reading its files: 4 of 5, ")


def test_a_path_is_printed_on_one_line_and_not_for_ever() -> None:
    assert data_files.show(b"a\nb\xe9") == "a\\nb\\udce9"
    assert len(data_files.show(b"x" * 5000)) == 300


def test_more_files_than_are_allowed_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "MOST_FILES", 4)
    with pytest.raises(data_files.Unusable, match="more than 4 files"):
        data_files.list_files(os.fsencode(folder))


def test_folders_deeper_than_allowed_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "MOST_DEPTH", 1)
    with pytest.raises(data_files.Unusable, match="more than 1 folders deep"):
        data_files.list_files(os.fsencode(folder))
