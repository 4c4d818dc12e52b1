"""What ran is in the record of a run that is recorded outside, and what cannot start says why."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.payload.programs import OwnFiles, inspect
from runners.workloads import WORKLOADS
from tests.runners.outside_runs import SHELLS, Ran, link_shell
from tests.runners.payload_runs import run_payload

SCRIPT = b"#!/bin/sh\nexec sleep 0.2\n"
LOADER = b"/lib64/ld-linux-x86-64.so.2"


def clean(*argv: str, recorded: str = "outside", **given: Any) -> dict[str, Any]:
    parameters = {"argv": list(argv), "read": "nothing", "recorded": recorded, **given}
    return WORKLOADS["command"].clean(parameters)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_program_is_summed_up_as_where_python_records_it(tmp_path: Path, shell: str) -> None:
    argv = ("timeout", "9", "go.sh", "sleep", "/etc/passwd", "/no/such/file")
    parameters = clean(*argv, files={"go.sh": hashlib.sha256(SCRIPT).hexdigest()})
    ran = Ran(tmp_path, parameters, shell=link_shell(tmp_path, shell), sent={"go.sh": SCRIPT})
    os.chmod(tmp_path / "files/go.sh", 0o755)
    assert ran.wait() == 0, ran.output
    own = OwnFiles({"PATH": "/usr/bin:/bin"})
    sent = ["timeout", "9", str(tmp_path / "files/go.sh"), *argv[3:]]
    expected = inspect(list(argv), sent, shutil.which("timeout") or "", "", own)
    assert {file["word"] for file in expected["files"]} >= {"timeout", "go.sh", "#! of go.sh"}
    assert ran.inside["program"] == expected
    assert "libc.so.6" in ran.inside["program"]["libraries"]


def test_loaded_libraries_have_their_check_sums(tmp_path: Path) -> None:
    ran = Ran(tmp_path, clean("sleep", "0.3"))
    assert ran.wait() == 0, ran.output
    files = ran.inside["loaded"]["files"]
    library = next(path for path in files if "/libc" in path)
    content = Path(library).read_bytes()
    assert files[library]["sha256"] == hashlib.sha256(content).hexdigest()
    assert files[library]["bytes"] == len(content)
    assert files[library]["soname"] == "libc.so.6"


def test_what_was_loaded_is_recorded_of_a_program_that_failed(tmp_path: Path) -> None:
    ran = Ran(tmp_path, clean("sh", "-c", "sleep 0.3; exit 5"))
    assert ran.wait() == 5
    assert any("sha256" in facts for facts in ran.inside["loaded"]["files"].values())
    assert "program" not in ran.inside


def test_no_variable_of_the_program_is_changed(tmp_path: Path) -> None:
    names = "own marks part line file code child ended order first second go rest name"
    variables = {name: f"{name} of mine" for name in names.split()}
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    ran = Ran(tmp_path, clean(sys.executable, "-c", script), **variables)
    assert ran.wait() == 0, ran.output
    seen = json.loads(ran.output)
    assert {name: seen.get(name) for name in variables} == variables


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_by_the_name_of_something_in_the_shell_is_a_program(
    tmp_path: Path, shell: str
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("tare_mark", "echo", "wait"):
        (folder / name).write_text(f"#!/bin/sh\nprintf 'my {name}'\n")
        (folder / name).chmod(0o755)
        place = tmp_path / name
        place.mkdir()
        path = f"{folder}:/usr/bin:/bin"
        ran = Ran(place, clean(name), shell=link_shell(place, shell), PATH=path)
        assert (ran.wait(), ran.output) == (0, f"my {name}")


def make_odd_program(folder: Path, kind: str) -> tuple[list[str], bytes | None]:
    """Return a command that cannot be started, and the content of its sent file, if it has one."""
    if kind == "loader":
        content = Path("/bin/true").read_bytes()
        if LOADER not in content:
            pytest.skip("/bin/true has another loader here")
        return ["odd"], content.replace(LOADER, b"/lib64/ld-linux-elsewhere.s")
    if kind == "processor":
        content = Path("/bin/true").read_bytes()
        return ["odd"], content[:18] + b"\xf3\x00" + content[20:]  # RISC-V
    path = folder / "odd"
    if kind == "no right":
        path.write_text("#!/bin/sh\n")
        path.chmod(0o644)
        return [str(path)], None
    if kind == "folder":
        path.mkdir()
        return [str(path)], None
    return ["odd"], {
        "interpreter": b"#!/bin/nonexistent -x\n",
        "windows": b"#!/bin/sh\r\necho hello\r\n",
    }[kind]


ODD = {
    "processor": "was built for another kind of processor",
    "loader": "needs the loader /lib64/ld-linux-elsewhere.s, and this environment has no such file",
    "no right": "is there, but is not executable",
    "folder": "is there, but is not executable",
    "interpreter": "begins with #!/bin/nonexistent, and this environment has no such file",
    "windows": "ends with a carriage return, as on Windows",
}


@pytest.mark.parametrize("recorded", ["inside", *SHELLS])
@pytest.mark.parametrize("kind", ODD)
def test_what_cannot_start_says_why(tmp_path: Path, kind: str, recorded: str) -> None:
    argv, content = make_odd_program(tmp_path, kind)
    sent = {} if content is None else {"odd": content}
    hashes = {name: hashlib.sha256(text).hexdigest() for name, text in sent.items()}
    given = {"recorded": "inside" if recorded == "inside" else "outside", "files": hashes}
    parameters = clean(*argv, **given)
    place = tmp_path / "job"
    place.mkdir()
    if recorded == "inside":
        (place / "files").mkdir()
        for name, text in sent.items():
            (place / "files" / name).write_bytes(text)
        run = run_payload(place, "command", parameters)
        code, failure = run.returncode, (place / "runs/0-x/failure").read_text()
    else:
        ran = Ran(place, parameters, shell=link_shell(place, recorded), sent=sent)
        code, failure = ran.wait(), ran.files.get("failure", b"").decode()
    assert code == 4, failure
    assert ODD[kind] in failure
    assert failure.startswith(("program missing: ", "program does not start: "))


@pytest.mark.parametrize("shell", SHELLS)
def test_odd_programs_end_as_what_they_are(tmp_path: Path, shell: str) -> None:
    cases = {
        "printf '\\377\\376\\000'; exit 0": 0,
        "exec >&-; exit 3": 3,
        "exec >&- 2>&-; sleep 0.1": 0,
        "(sleep 600 &) ; exit 0": 0,
        "kill -11 $$": 139,
        "exit 127": 127,
        "exit 126": 126,
        "exit 2": 2,
    }
    for number, (script, code) in enumerate(cases.items()):
        place = tmp_path / f'it\'s "{number}" $HOME `x` ü'
        place.mkdir()
        ran = Ran(place, clean("sh", "-c", script), shell=link_shell(place, shell))
        assert ran.wait() == code, script
        assert ran.inside["run"]["argv"] == ["sh", "-c", script]
        assert ("failure" in ran.files) is False
        if not code:
            assert json.loads(ran.files["result.json"])["metrics"]["wall_time"]["value"] > 0
