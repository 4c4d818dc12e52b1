"""The inspection of an environment: which programs and paths it says are there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.jobs import EnvironmentSpec
from runners.payload import software, software_files
from runners.shapes import SOFTWARE
from runners.software import inspect_software
from runners.untrusted import parse_document


def test_programs_are_looked_for_on_path_and_paths_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "solve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "bin" / "notes").touch()
    words = ["solve", "notes", str(tmp_path), "/nowhere/x", "odd\x01name", "café"]
    output = tmp_path / "result.json"
    subprocess.run(
        [
            *(sys.executable, software.__file__, "--output", str(output), "--mark", "x"),
            *(f"--look-for={word}" for word in words),
        ],
        check=True,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
    )
    document = parse_document(output.read_bytes(), SOFTWARE)
    assert document["programs"] == {
        "solve": str(program),
        "notes": "",  # no program
        str(tmp_path): str(tmp_path),
        "/nowhere/x": "",
        "odd\x01name": "",
        "café": "",
    }
    assert document["mark"] == "x"


def test_programs_beside_the_environment_s_python_are_on_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    name = os.path.basename(sys.executable)
    assert software.find_programs([name, "ls"]) == {name: sys.executable, "ls": ""}


def test_words_are_arguments_of_the_step() -> None:
    environment = EnvironmentSpec("bare", "bare_metal", python="/usr/bin/python3")
    (step,) = inspect_software(environment, "/scratch/1", "m", look_for=["fio", "/a b/c.py"])
    assert step.argv[-2:] == ("--look-for=fio", "--look-for=/a b/c.py")
    (plain,) = inspect_software(environment, "/scratch/1", "m")
    assert not any("--look-for" in word for word in plain.argv)


def test_packages_of_conda_are_listed_without_python(tmp_path: Path) -> None:
    records = tmp_path / "root" / "opt" / "tare" / "conda-meta"
    records.mkdir(parents=True)
    for name in ("openblas-0.3.28-pthreads_h1.json", "python-dateutil-2.9.0-py_0.json", "history"):
        (records / name).touch()
    script = Path(software_files.__file__).with_name("software.sh")
    subprocess.run(
        ["sh", str(script), str(tmp_path / "inside"), str(tmp_path / "root")], check=True
    )
    facts = software_files.list_software(str(tmp_path / "inside"))
    assert facts["packages"] == {"openblas": "0.3.28", "python-dateutil": "2.9.0"}
    assert facts["system_packages"] == {}, "those of the root, not of this machine"
