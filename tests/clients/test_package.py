"""The package, as somebody gets it who has only pip: no Django, no index, Python 3.9."""

from __future__ import annotations

import ast
import html
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest
import tare_client
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from dashboard.docs.client_views import build_wheel
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


@pytest.mark.django_db(transaction=True)
def test_pip_alone_installs_the_command_from_the_site(
    tmp_path: Path, live_server: LiveServer
) -> None:
    """As the page /client/ says, word for word, where there is no Django and no index."""
    page = urllib.request.urlopen(f"{live_server.url}/client/").read().decode()
    install, login = re.findall(r"(?:pip install|tare login) [^<\n]+", page)
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    words = shlex.split(html.unescape(install))
    done = subprocess.run([folder / "bin" / words[0], *words[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    packages = {path.name for path in folder.glob("lib/python*/site-packages/*")}
    assert not {name for name in packages if name.lower().startswith("django")}
    environment = {"PATH": "/nowhere", "HOME": str(tmp_path)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [folder / "bin" / "tare", *words]
        return subprocess.run(command, input="", capture_output=True, text=True, env=environment)

    assert run("--version").stdout == f"tare {tare_client.__version__}\n"
    assert "launch" in run("--help").stdout
    assert (run("list").returncode, run("list").stdout) == (64, "")
    assert "tare login" in run("list").stderr
    asked = run(*shlex.split(html.unescape(login))[1:])
    assert (asked.returncode, "This is no token" in asked.stderr) == (64, True)


@pytest.mark.django_db
def test_the_site_sends_its_own_version_alone() -> None:
    (name, content), client = build_wheel(), Client()
    assert name in client.get("/client/").content.decode()
    answer = client.get(f"/client/{name}")
    assert answer.content == content
    assert name in answer["Content-Disposition"]
    assert client.get("/client/tare_client-0.0.0-py3-none-any.whl").status_code == 404


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
