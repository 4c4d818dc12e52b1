"""A lock becomes a virtual environment, or words: for real, with wheels of the test's own."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from runners.payload import install
from tests.wheels import wheel

PROGRAM = Path(install.__file__)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the node keeps of pip, with a folder of wheels for an index."""
    folder = tmp_path_factory.mktemp("kept")
    wheel(folder / "wheels", "probe", "1.0")
    (folder / "home").mkdir()
    (folder / "pip.conf").write_text(
        "[global]\nno-index = true\ncert = /nowhere.pem\n"
        f"[install]\nfind-links =\n    {folder}/wheels\n"
    )
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "PIP_CONFIG_FILE": str(folder / "pip.conf"),
        "https_proxy": "http://proxy.invalid:1",
    }
    python = Path(sys.base_prefix) / "bin" / "python3"
    command = [str(python), str(PROGRAM), "settings", str(folder / "settings")]
    subprocess.run(command, env=variables, check=True, timeout=60)
    return folder


def installed(kept: Path, prefix: Path, lock: str) -> tuple[int, str]:
    """Exit code, and the last line, which people read."""
    (kept / "lock").write_text(lock)
    command = [sys.executable, str(PROGRAM), "install", str(prefix), str(kept / "lock")]
    done = subprocess.run(
        [*command, str(kept / "settings")],
        env={"PATH": os.environ["PATH"], "HOME": str(kept / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, (done.stdout.strip().splitlines() or [""])[-1]


def test_settings_travel_and_nobody_else_reads_them(kept: Path) -> None:
    folder = kept / "settings"
    variables = json.loads((folder / "variables.json").read_text())
    assert variables["https_proxy"] == "http://proxy.invalid:1"
    assert variables["PIP_CONFIG_FILE"] == str(folder / "pip.conf")
    text = (folder / "pip.conf").read_text()
    assert "no-index = true" in text
    assert f"{kept}/wheels" in text
    assert "nowhere.pem" not in text, "certificates lie elsewhere inside"
    assert {(folder / name).stat().st_mode & 0o777 for name in ("pip.conf", "variables.json")} == {
        0o600
    }
    assert (folder / "pip" / "pip" / "__init__.py").is_file()


def test_the_copy_of_pip_reads_the_certificates_that_travel_with_it(kept: Path) -> None:
    (kept / "certificates").write_text("none")
    variables = {"PATH": os.environ["PATH"], "HOME": str(kept / "home")}
    variables["PIP_CERT"] = str(kept / "certificates")
    python = Path(sys.base_prefix) / "bin" / "python3"
    command = [str(python), str(PROGRAM), "settings", str(kept / "again")]
    subprocess.run(command, env=variables, check=True, timeout=60)
    code = "from pip._vendor.certifi import contents, where; print(where(), contents())"
    printed = subprocess.check_output(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(kept / "again" / "pip")},
        text=True,
        timeout=60,
    )
    assert printed == f"{kept}/again/certificates.pem none\n"


def test_what_the_lock_names_is_installed_and_nothing_else(kept: Path, tmp_path: Path) -> None:
    line = wheel(kept / "wheels", "probe", "1.0")
    assert installed(kept, tmp_path / "env", line)[0] == 0
    python = tmp_path / "env" / "bin" / "python"
    code = (
        "import probe, importlib.metadata as m; print(probe.VERSION, len(list(m.distributions())))"
    )
    printed = subprocess.check_output([python, "-I", "-c", code], text=True, timeout=60)
    assert printed == "1.0 1\n"
    assert list((tmp_path / "env").rglob("probe.*.pyc")), "compiled beforehand"
    assert (tmp_path / "env" / install.MARKER).is_file()


@pytest.mark.parametrize(
    ("lock", "explanation"),
    [
        ("probe==1.0\n", "The lock has no hash for probe==1.0."),
        (
            f"probe==1.0 --hash=sha256:{'0' * 64}\n",
            "What the index sent for probe==1.0 has another hash than the lock says.",
        ),
        (
            f"nowhere==1.0 --hash=sha256:{'0' * 64}\n",
            "The index has no wheel of nowhere==1.0 for "
            f"Python {platform.python_version()} on {platform.machine()}.",
        ),
    ],
)
def test_what_fails_is_told_in_words_and_leaves_nothing(
    kept: Path, tmp_path: Path, lock: str, explanation: str
) -> None:
    prefix = tmp_path / "env"
    prefix.mkdir()
    code, last = installed(kept, prefix, lock)
    assert code == 1
    assert last.startswith(explanation[:-1]), last
    assert list(prefix.iterdir()) == []


def test_a_full_disk_is_called_one() -> None:
    output = (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    )
    assert (
        install.explain_failure(output)
        == "The disk is full, or the quota: nothing of this was kept."
    )


def test_an_index_that_does_not_answer_is_named_with_the_cure() -> None:
    output = "WARNING: Retrying after connection broken by 'NewConnectionError(...): Failed'"
    assert "set-up lines" in install.explain_failure(output)


def test_the_interpreter_of_exactly_this_version_is_found_or_what_there_is_told() -> None:
    assert install.read_version(install.find_interpreter(platform.python_version()))
    with pytest.raises(install.NotInstalled, match=r"has no Python 2\.7\.5.*Found: /"):
        install.find_interpreter("2.7.5")


def test_configuration_of_several_files_is_one(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    first.write_text("[global]\nindex-url = a\ntimeout = 5\n# index-url = c\n")
    second.write_text("[global]\nindex-url: b\n[install]\nfind-links =\n    /x\n    /y\n")
    assert install.merge_configuration([str(first), str(second), str(tmp_path / "none")]) == (
        "[global]\nindex-url = b\ntimeout = 5\n[install]\nfind-links = \n    /x\n    /y\n"
    )
