"""The package, as somebody gets it who has only pip: no Django, no index, Python 3.9."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.clients.conftest import CLIENT

MODULES = sorted((CLIENT / "tare_client").rglob("*.py"))
OPTIONAL = {"pandas", "pyarrow"}


def build(kind: str, folder: Path) -> Path:
    """Return the wheel or source distribution, built by the back end that pip would use."""
    program = f"import sys; from flit_core.buildapi import build_{kind} as b; print(b(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, folder], cwd=CLIENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


def test_pip_alone_installs_the_command(tmp_path: Path) -> None:
    wheel = build("wheel", tmp_path)
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    subprocess.run([folder / "bin" / "python", *install, wheel], check=True)
    packages = {path.name for path in folder.glob("lib/python*/site-packages/*")}
    assert not {name for name in packages if name.lower().startswith("django")}
    environment = {"PATH": "/nowhere", "HOME": str(tmp_path)}
    run = [str(folder / "bin" / "tare")]
    done = subprocess.run([*run, "--help"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "launch" in done.stdout
    done = subprocess.run([*run, "list"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (64, "")
    assert "tare login" in done.stderr


def test_the_files_of_the_package_are_in_both_archives(tmp_path: Path) -> None:
    names = {str(path.relative_to(CLIENT)) for path in MODULES} | {"tare_client/py.typed"}
    with zipfile.ZipFile(build("wheel", tmp_path)) as archive:
        assert names <= set(archive.namelist())
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        required = [
            line
            for line in archive.read(metadata).decode().splitlines()
            if line.startswith("Requires-Dist:") and "extra ==" not in line
        ]
    assert required == []
    with tarfile.open(build("sdist", tmp_path)) as archive:
        assert names <= {name.partition("/")[2] for name in archive.getnames()}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(CLIENT)))
def test_modules_are_python_3_9_and_import_the_standard_library_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    assert len(path.read_text().splitlines()) <= 300
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        tops = {name.partition(".")[0] for name in names}
        assert tops <= {*sys.stdlib_module_names, *OPTIONAL, "tare_client"}


def test_what_it_says_of_pythons_is_what_is_tested() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    assert (project["requires-python"], project["dependencies"]) == (">=3.9", [])
    assert set(project["optional-dependencies"]) == OPTIONAL
