"""An image's programs outside of a container, without Python: launchers, and what is recorded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runners.payload import launchers, own_tree, pack, programs, survey
from runners.payload.elf import read_elf

ECHO, SHELL = Path("/bin/echo").resolve(), Path("/bin/sh").resolve()


def copy_program(root: Path, program: Path, name: str) -> None:
    """Copy a program of this machine, its loader and its libraries into an image's files."""
    with program.open("rb") as file:
        elf = read_elf(file)
    assert elf
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    libraries = [word for word in listed.stdout.split() if word.startswith("/")]
    for source, path in [(str(program), name), *((row, row) for row in libraries)]:
        target = root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(source).resolve(), target)
        target.chmod(0o755)
    loader = root / elf.interpreter[1:]
    if not loader.exists():
        loader.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(elf.interpreter).resolve(), loader)
        loader.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a tree with `echo`, a shell, a script, and what is no program."""
    root = tmp_path / "root"
    copy_program(root, ECHO, "/usr/bin/echo")
    copy_program(root, SHELL, "/usr/bin/dash")
    (root / "bin").symlink_to("usr/bin")
    (root / "usr/bin/sh").symlink_to("/usr/bin/dash")
    script = root / "usr/bin/say it"
    script.write_text('#!/bin/sh -e\necho "$0" "$@"\n')
    script.chmod(0o755)
    for name, content in (("data", b"1"), ("odd", b"#!/no/such\n"), ("damaged", b"\x7fELF\xff")):
        (root / "usr/bin" / name).write_bytes(content)
        (root / "usr/bin" / name).chmod(0o755)
    (root / "usr/bin/endless").symlink_to("endless")
    (root / "opt/own").mkdir(parents=True)
    shutil.copy(root / "usr/bin/echo", root / "opt/own/mine")
    return tmp_path


def run(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout + done.stderr


def test_each_program_is_started_by_its_own_loader(folder: Path) -> None:
    root = folder / "root"
    tree = str(survey.survey_folder(str(root))["tree"])
    assert own_tree.main([str(folder), "none", "--tree", tree]) == 0
    assert {path.name for path in (folder / "bin").iterdir()} == {"dash", "echo", "say it", "sh"}
    assert run(folder / "bin" / "echo", "a b", "*") == "a b *\n"
    assert run(folder / "bin" / "sh", "-c", "echo $0") == f"{root}/usr/bin/sh\n"
    assert run(folder / "bin" / "say it", "x") == f"{root}/usr/bin/say it x\n"
    text = (folder / "bin" / "echo").read_text()
    assert f"{root}/" in text
    assert "--library-path" in text


def test_a_record_has_the_program_and_its_libraries_and_not_the_launcher(folder: Path) -> None:
    assert own_tree.main([str(folder), "none"]) == 0
    path = str(folder / "bin" / "echo")
    place = programs.OwnFiles({"PATH": f"{folder}/bin"})
    facts = programs.inspect(["echo", "x"], ["echo", "x"], path, "", place)
    (file,) = facts["files"]
    assert file["path"] == str(folder / "root/usr/bin/echo")
    assert facts["libraries"], "by the image's own loader"
    for library in facts["libraries"].values():
        assert library["path"].startswith(f"{folder}/root/"), library
    script = str(folder / "bin" / "say it")
    facts = programs.inspect(["say it"], ["say it"], script, "", place)
    assert [row["word"] for row in facts["files"]] == ["say it", "#! of say it"]
    assert facts["files"][0]["path"] == str(folder / "root/usr/bin/say it")
    same = programs.describe_files([("{python}", path)], path, place)
    assert same["files"][0]["is_python"] is True


def test_the_path_of_the_image_comes_first(folder: Path) -> None:
    archive = folder / "image.tar"
    with archive.open("wb") as file:
        config = {"Env": ["A=b", "PATH=/opt/own:relative"]}
        pack.write(file, [pack.Source(str(folder / "root"))], config, {}, "x:1")
    assert launchers.read_path(str(archive))[:2] == ["/opt/own", "/usr/local/sbin"]
    assert own_tree.main([str(folder), "none", "--archive", str(archive)]) == 0
    assert run(folder / "bin" / "mine", "here") == "here\n"


def test_a_static_program_is_a_link(folder: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing, which compiles the program: install gcc and libc6-dev")
    source = folder / "one.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("static"); return 0; }\n')
    target = folder / "root/usr/bin/one"
    subprocess.run(["gcc", "-static", "-o", target, source], check=True, timeout=60)
    assert own_tree.main([str(folder), "none"]) == 0
    assert os.readlink(folder / "bin" / "one") == "../root/usr/bin/one"
    assert run(folder / "bin" / "one") == "static\n"


@pytest.mark.parametrize("archive", ["", "/no/such", "damaged"])
def test_an_archive_that_says_nothing_leaves_the_usual_folders(
    archive: str, tmp_path: Path
) -> None:
    (tmp_path / "damaged").write_bytes(b"\xff\xfe" * 600)
    path = str(tmp_path / archive) if archive == "damaged" else archive
    assert launchers.read_path(path) == launchers.USUAL_PATH.split(":")


def test_an_image_without_programs_or_with_a_foreign_loader_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ECHO.open("rb") as file:
        elf = read_elf(file)
    assert elf
    (folder / "root" / elf.interpreter[1:]).write_bytes(b"\x7fELF")
    assert own_tree.main([str(folder), "none"]) == 1
    assert "The image's loader does not start on this node" in capsys.readouterr().out
    empty = folder / "empty"
    (empty / "root").mkdir(parents=True)
    assert own_tree.main([str(empty), "none"]) == 1
    assert "There is no program on the image's PATH." in capsys.readouterr().out


def test_names_and_scripts_that_lead_astray_get_no_launcher(folder: Path) -> None:
    programs = folder / "root/usr/bin"
    broken = programs / "x\ntouch ran"
    shutil.copy(programs / "echo", broken)
    (programs / "link").symlink_to(broken.name)
    for name, interpreter in (("one", "two"), ("two", "one"), ("piped", "pipe")):
        (programs / name).write_text(f"#!/usr/bin/{interpreter}\n")
        (programs / name).chmod(0o755)
    os.mkfifo(programs / "pipe")
    assert own_tree.main([str(folder), "none"]) == 0
    names = {path.name for path in (folder / "bin").iterdir()}
    assert names == {"echo", "dash", "sh", "say it"}


def test_5000_programs_have_a_launcher_each(folder: Path) -> None:
    for number in range(5000):
        (folder / "root/usr/bin" / f"p{number}").symlink_to("echo")
    assert own_tree.main([str(folder), "none"]) == 0
    assert len(list((folder / "bin").iterdir())) == 5004
    assert run(folder / "bin" / "p4999", "x") == "x\n"
