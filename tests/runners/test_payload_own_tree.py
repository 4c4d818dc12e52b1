"""An image's own files outside of a container: its loader and libraries by path."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from runners.payload import own_tree, survey
from runners.payload.elf import read_elf

ECHO = Path("/bin/echo").resolve()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a tree with this machine's `echo`, its loader and its C library, no more."""
    root = tmp_path / "root"
    with ECHO.open("rb") as file:
        elf = read_elf(file)
    assert elf
    listed = subprocess.run(["ldd", str(ECHO)], capture_output=True, text=True, check=True).stdout
    libraries = [word for word in listed.split() if word.startswith("/")]
    for path in (str(ECHO), elf.interpreter, *libraries):
        target = root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(path).resolve(), target)
        target.chmod(0o755)
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    (root / "opt/tare/bin").mkdir(parents=True)
    (root / "opt/tare/lib").mkdir()
    (root / "opt/tare/pyvenv.cfg").write_text("include-system-site-packages = false\n")
    (root / "opt/tare/bin/python").symlink_to("/usr/bin/python3")
    (root / "usr/bin/python3").symlink_to(f"../..{ECHO}")
    return tmp_path


def run(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)


def test_programs_of_the_tree_run_by_its_own_loader(folder: Path) -> None:
    tree = str(survey.survey_folder(str(folder / "root"))["tree"])
    assert own_tree.main([str(folder), "/opt/tare/bin/python", "--tree", tree]) == 0
    assert run(folder / "bin" / "python", "a b", "*").stdout == "a b *\n"
    assert run(folder / "run", ECHO, "c").stdout == "c\n"
    launcher = (folder / "bin" / "python").read_text()
    assert f"{folder}/root/" in launcher
    assert f"--argv0 {folder}/bin/python {folder}/root{ECHO} " in launcher
    assert (folder / "lib").resolve() == folder / "root/opt/tare/lib"
    settings = (folder / "pyvenv.cfg").read_text()
    assert settings == (
        f"home = {folder}/root{ECHO.parent}\ninclude-system-site-packages = false\n"
    )


def test_an_interpreter_is_found_by_its_name(folder: Path) -> None:
    assert own_tree.main([str(folder), "python3"]) == 0
    assert run(folder / "bin" / "python", "found").stdout == "found\n"


def test_links_from_the_root_lead_into_the_tree(folder: Path) -> None:
    root = folder / "root"
    (root / "etc").mkdir()
    (root / "etc/passwd").symlink_to("/../../opt/../etc/shadow")
    (root / "etc/shadow").write_text("the image's")
    (root / "one").symlink_to("/two")
    (root / "two").symlink_to("etc/passwd")
    assert own_tree.turn_links(str(root)) == 3
    assert (root / "one").read_text() == "the image's"
    for path in root.rglob("*"):
        if path.is_symlink():
            assert path.resolve().is_relative_to(root)


def test_other_files_than_the_images_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(folder), "/opt/tare/bin/python", "--tree", f"sha256:{'0' * 64}"]
    assert own_tree.main(arguments) == 1
    assert "not those of the image" in capsys.readouterr().out
    assert not (folder / "bin").exists()


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("/no/python3", "There is no /no/python3 in the image."),
        ("python2", "There is no python2 in the image."),
        ("/etc/script", "/etc/script in the image is no program that a loader starts."),
        ("/etc/endless", "leads from link to link"),
        ("/etc/damaged", "is no program that a loader starts"),
    ],
)
def test_what_cannot_be_run_so_is_said(
    folder: Path, python: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    etc = folder / "root" / "etc"
    etc.mkdir()
    (etc / "script").write_text("#!/bin/sh\n")
    (etc / "damaged").write_bytes(b"\x7fELF\xff\xfe")
    if python == "/etc/endless":
        (etc / "endless").symlink_to("endless")
    assert own_tree.main([str(folder), python]) == 1
    assert why in capsys.readouterr().out


def test_a_loader_that_is_too_old_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ECHO.open("rb") as file:
        elf = read_elf(file)
    assert elf
    loader = folder / "root" / elf.interpreter[1:]
    loader.write_text("#!/bin/sh\necho no such option\n")
    assert own_tree.main([str(folder), "/usr/bin/python3"]) == 1
    assert "since 2.33" in capsys.readouterr().out


def test_folders_of_libraries_are_those_of_the_images_own_configuration(folder: Path) -> None:
    root = folder / "root"
    for name in ("opt/first", "opt/second", "etc/ld.so.conf.d", "usr/local/lib"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n/opt/second # more\n")
    loop = "include /etc/ld.so.conf\n/opt/first\n/opt/none\n"
    (root / "etc/ld.so.conf.d/a.conf").write_text(loop * 5000)
    (root / "etc/ld.so.conf.d/b.conf").write_bytes(b"\xff\xfe\n")
    folders = own_tree.list_library_folders(str(root))
    assert folders[:2] == [f"{root}/opt/first", f"{root}/opt/second"]
    assert f"{root}/usr/local/lib" in folders
    assert all(path.startswith(str(root)) for path in folders)
