"""Which files a program consists of: read inside, executed never."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runners.payload.programs import OwnFiles, inspect

TRUE = shutil.which("true") or ""


def look(*argv: str, written_argv: tuple[str, ...] = (), **variables: str) -> dict[str, Any]:
    program = shutil.which(argv[0]) or argv[0]
    environment = {"PATH": "/usr/bin:/bin", **variables}
    return inspect(
        list(written_argv or argv), list(argv), program, sys.executable, OwnFiles(environment)
    )


def named(facts: dict[str, Any]) -> dict[str, str]:
    return {file["word"]: Path(file["path"]).name for file in facts["files"]}


def sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_a_program_is_known_by_its_content_and_its_libraries(tmp_path: Path) -> None:
    facts = look("true")
    (file,) = facts["files"]
    assert (file["word"], file["sha256"]) == ("true", sha256(TRUE))
    assert file["bytes"] == Path(TRUE).stat().st_size
    assert facts["libraries"]["libc.so.6"]["sha256"] == sha256(
        facts["libraries"]["libc.so.6"]["path"]
    )
    other = shutil.copy(TRUE, tmp_path / "true")
    with open(other, "ab") as added:
        added.write(b"!")
    assert look(str(other))["files"][0]["sha256"] != file["sha256"]


def test_scripts_and_programs_among_the_arguments_are_found(tmp_path: Path) -> None:
    for name, text in (("go.py", ""), ("go", "#!/usr/bin/env -S sh -e\n"), ("data.bin", "123")):
        (tmp_path / name).write_text(text)
    folder = str(tmp_path)
    argv = ("timeout", "9", "cat", f"{folder}/go.py", f"{folder}/go", f"{folder}/data.bin", folder)
    written_argv = ("timeout", "9", "cat", "go.py", "{files}/go", "data.bin", "{files}")
    assert named(look(*argv, written_argv=written_argv)) == {
        "timeout": "timeout",
        "cat": "cat",
        "go.py": "go.py",
        "{files}/go": "go",
        "#! of {files}/go": Path(os.path.realpath("/bin/sh")).name,
    }


def test_arguments_of_other_programs_are_no_programs(tmp_path: Path) -> None:
    assert named(look("echo", "cat", "--file=x", "", "\0", "x" * 5000)) == {"echo": "echo"}


def test_the_environment_s_own_python_is_named_as_such() -> None:
    facts = look(sys.executable, "-c", "pass", written_argv=("{python}", "-c", "pass"))
    assert facts["files"][0]["is_python"]
    assert facts["libraries"] == {}


def test_the_loader_lists_what_it_would_load_and_starts_nothing(tmp_path: Path) -> None:
    libc = look("true")["libraries"]["libc.so.6"]["path"]
    own = tmp_path / "libc.so.6"
    shutil.copy(libc, own)
    facts = look("true", LD_LIBRARY_PATH=str(tmp_path))
    assert facts["libraries"]["libc.so.6"]["path"] == str(own)
    program = tmp_path / "touches"
    shutil.copy(shutil.which("touch") or "", program)
    look(str(program), str(tmp_path / "touched"))
    assert not (tmp_path / "touched").exists()


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    facts = look(str(tmp_path / "gone"))
    assert facts["files"][0]["problem"] == "No such file or directory"
    assert "sha256" not in facts["files"][0]


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"\x7fELF\x02\x01", b"\x7fELF\x01\x02", b"#!"])
)
def test_no_content_of_a_file_ends_a_run(content: bytes, head: bytes) -> None:
    path = Path(f"/tmp/tare-program-{os.getpid()}.sh")
    path.write_bytes(head + content)
    try:
        facts = look("cat", str(path))
        assert facts["files"][1]["sha256"] == hashlib.sha256(head + content).hexdigest()
    finally:
        path.unlink()
