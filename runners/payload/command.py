"""Any program of the user's: started in the run's folder, its output the run's, its time taken.

Beside the payload lies `files/` with what the user sent and `tare.py`, the recorder. The program
reports into the file that $TARE_RESULT names; what it reports is read at home.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from time import perf_counter
from typing import Any, Dict, List

from .frameworks import Failure
from .place import Place
from .programs import inspect
from .recorder import Recorder

QUIET = True
"""Nothing but the program prints: its output may be searched by patterns."""


def run(parameters: dict[str, Any], recorder: Recorder, place: Place) -> Dict[str, Any]:
    """Return which files the program consists of, for the snapshot.

    Raises Failure if the program cannot be started, SystemExit with its code if it fails.
    """
    files = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "files")
    variables = surroundings(parameters, files, place)
    argv = words(parameters, files, place)
    if parameters["argv"][0] in parameters["files"]:
        with contextlib.suppress(OSError):  # what was sent has lost that it may be started
            os.chmod(argv[0], 0o755)
    program = shutil.which(argv[0], path=variables.get("PATH"))
    if program is None:
        raise missing(argv[0], sorted(parameters["files"]), variables["PATH"])
    recorder.phase("program")
    began = perf_counter()
    code = wait_for(argv, program, variables, place)
    recorder.metric("wall_time", perf_counter() - began, "s")
    recorder.phase("end")
    if code:
        raise SystemExit(code if code > 0 else 128 - code)
    return {"program": inspect(parameters["argv"], argv, program, sys.executable, variables)}


def words(parameters: dict[str, Any], files: str, place: Place) -> List[str]:
    """The command with what its placeholders stand for; other braces stay as they are."""
    known = {
        "{python}": sys.executable,
        "{files}": files,
        "{run}": place.own,
        "{gpus}": str(place.gpus // max(1, min(place.gpus, place.local_size))),
        "{nodes}": str(place.nodes),
    }
    found = []
    for word in parameters["argv"]:
        for name, value in known.items():
            word = word.replace(name, value)
        found.append(os.path.join(files, word) if word in parameters["files"] else word)
    return found


def surroundings(parameters: dict[str, Any], files: str, place: Place) -> Dict[str, str]:
    """The variables of the program: those of the run, and where to find and leave things."""
    variables = dict(os.environ)
    known = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([files, known] if known else [files])
    variables["TARE_FILES"] = files
    variables["TARE_RESULT"] = os.path.join(place.own, "tare-result.json")
    variables["TARE_BURN_IN"] = str(parameters["burn_in"])
    ours = os.path.dirname(sys.executable)
    path = variables.get("PATH", os.defpath)
    if shutil.which(os.path.basename(sys.executable), path=path) != sys.executable:
        # `python3` and what is installed beside it are to be those of the environment.
        path = os.pathsep.join([ours, path])
    variables["PATH"] = path
    return variables


def wait_for(argv: List[str], program: str, variables: Dict[str, str], place: Place) -> int:
    """The program's exit code; minus n: ended by signal n. What ends us is passed on to it."""
    started: List[subprocess.Popen[bytes]] = []
    early: List[int] = []  # signals that come while it is being started

    def pass_on(number: int, frame: Any) -> None:
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    try:
        started.append(
            subprocess.Popen(
                argv, executable=program, cwd=place.own, env=variables, stdin=subprocess.DEVNULL
            )
        )
    except OSError as error:
        why = f"program does not start: {argv[0]}: {error.strerror or error}."
        if error.errno == errno.ENOEXEC:
            why += " Does it begin with #!, or is {python} to start it?"
        raise Failure(why) from error
    for missed in early:
        started[0].send_signal(missed)
    return started[0].wait()


def missing(program: str, files: List[str], path: str) -> Failure:
    sent = f"; sent were {', '.join(files)}" if files else "; no file was sent"
    searched = "" if os.path.dirname(program) else f" on its PATH ({path})"
    if os.path.exists(program):
        return Failure(f"program missing: {program} is there, but is not executable{sent}")
    return Failure(f"program missing: this environment has no {program}{searched}{sent}")
