"""`command`: any program of the user's, started and timed in the run's folder.

Beside the payload lies `files/` with the user's files and `tare.py`, the recorder. The program may
report metrics into the file that $TARE_RESULT names, which the server reads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from .elf import read_elf
from .executables import find_executable
from .frameworks import Failure, StartError, Unfinished
from .loaded import Readings
from .memory import Tree
from .place import RunProcess
from .programs import OwnFiles, inspect, split_first_line
from .recorder import Recorder

if TYPE_CHECKING:
    from .own_checkpoints import OwnCheckpoints

QUIET = True
"""The payload itself prints nothing: patterns may search the program's output."""


class ProgramFailed(SystemExit):
    """The program has failed: this process ends with its exit code, once that is recorded."""

    def __init__(self, code: int, argv: List[str], readings: Readings) -> None:
        super().__init__(code)
        self.facts = {"argv": argv, "readings": readings}


def run(parameters: dict[str, Any], recorder: Recorder, process: RunProcess) -> Dict[str, Any]:
    """Run the program; return the files that it consists of, and what its processes held together.

    Raises Failure if the program cannot be started, ProgramFailed with its code if it fails.
    """
    files = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "files")
    checkpoints = open_checkpoints(parameters, recorder, process)
    variables = make_variables(parameters, files, process)
    if checkpoints:
        variables["TARE_CHECKPOINTS"] = checkpoints.folder
    argv = expand_placeholders(parameters, files, process, variables=variables)
    let_be_executed(parameters, argv)
    program = find_executable(argv[0], path=variables.get("PATH"))
    if program is None:
        sent, is_there = sorted(parameters["files"]), os.path.exists(argv[0])
        raise explain_missing_program(argv[0], sent, variables["PATH"], is_there=is_there)
    recorder.phase("program")
    began = perf_counter()
    tree = Tree()
    watch = checkpoints.watch if checkpoints else None
    code = wait_for(argv, program, variables, process, tree, watch)
    seconds = perf_counter() - began
    if checkpoints:
        try:
            seconds = checkpoints.finish(code)
        except (Failure, Unfinished) as error:
            error.facts = {"argv": argv, "readings": tree.loaded}  # type: ignore[union-attr]
            raise
    recorder.metric("wall_time", seconds, "s")
    recorder.phase("record")
    if code:
        raise ProgramFailed(code if code > 0 else 128 - code, argv, tree.loaded)
    return {
        "argv": argv,
        "readings": tree.loaded,
        "program": inspect(
            parameters["argv"],
            argv,
            program,
            sys.executable,
            OwnFiles(variables),
            with_patches=not (process.rank or process.instance),  # all processes have the same
        ),
        "together": tree.describe(),
    }


def open_checkpoints(
    parameters: Dict[str, Any], recorder: Recorder, process: RunProcess
) -> Optional[OwnCheckpoints]:
    """Return the checkpoints of a program that may take several jobs; None where it has one."""
    if not process.segment:
        return None
    if process.size > 1 or process.instances > 1:
        raise StartError("a run over several jobs has one process: choose segments=1")
    from .own_checkpoints import OwnCheckpoints  # not above: few runs need it

    return OwnCheckpoints(parameters, process, process.segment, recorder)


def let_be_executed(parameters: dict[str, Any], argv: List[str]) -> None:
    """Give a sent file the right to be executed, which it has lost, if it is the program."""
    if parameters["argv"][0] in parameters["files"]:
        with contextlib.suppress(OSError):
            os.chmod(argv[0], 0o755)


def expand_placeholders(
    parameters: dict[str, Any],
    files: str,
    process: RunProcess,
    *,
    python: str = sys.executable,
    variables: Mapping[str, str] = os.environ,
) -> List[str]:
    """Return the command with values for its placeholders; other braces stay as they are.

    `python` and `variables` are the environment's.
    """
    values = {
        "{python}": python,
        "{files}": files,
        "{run}": process.own_directory,
        "{gpus}": str(process.gpus // max(1, min(process.gpus, process.local_size))),
        "{nodes}": str(process.nodes),
        "{data}": variables.get("TARE_DATA", "{data}"),
        "{code}": variables.get("TARE_CODE", "{code}"),
        "{checkpoints}": variables.get("TARE_CHECKPOINTS", "{checkpoints}"),
    }
    argv = []
    for argument in parameters["argv"]:
        for placeholder, value in values.items():
            argument = argument.replace(placeholder, value)
        is_sent = argument in parameters["files"]
        argv.append(os.path.join(files, argument) if is_sent else argument)
    return argv


def make_variables(parameters: dict[str, Any], files: str, process: RunProcess) -> Dict[str, str]:
    """Return the program's environment: the run's, with the paths of its files and its result."""
    variables = dict(os.environ)
    python_path = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([files, python_path] if python_path else [files])
    variables.update(name_places(parameters, files, process))
    python_folder = os.path.dirname(sys.executable)
    path = variables.get("PATH", os.defpath)
    if find_executable(os.path.basename(sys.executable), path=path) != sys.executable:
        # `python3` and what is installed beside it are to be those of the environment.
        path = os.pathsep.join([python_folder, path])
    variables["PATH"] = path
    return variables


def name_places(parameters: dict[str, Any], files: str, process: RunProcess) -> Dict[str, str]:
    """Return the variables that tell a program where its files are, and where to report."""
    return {
        "TARE_FILES": files,
        "TARE_RESULT": os.path.join(process.own_directory, "tare-result.json"),
        "TARE_BURN_IN": str(parameters["burn_in"]),
    }


def wait_for(
    argv: List[str],
    program: str,
    variables: Dict[str, str],
    process: RunProcess,
    tree: Tree,
    watch: Optional[Callable[[subprocess.Popen[bytes]], None]] = None,
) -> int:
    """Run the program and return its exit code; -n if signal n ended it. `tree` samples it.

    SIGTERM and SIGINT are passed on to it. `watch` gets it once it has started.
    """
    started: List[subprocess.Popen[bytes]] = []
    early: List[int] = []  # signals that arrive before it has started

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
                argv,
                executable=program,
                cwd=process.own_directory,
                env=variables,
                stdin=subprocess.DEVNULL,
            )
        )
    except OSError as error:
        files = OwnFiles(variables)
        reason = explain_not_started(argv[0], program, files) or (
            f"program does not start: {argv[0]}: {error.strerror or error}."
        )
        if error.errno == errno.ENOEXEC:
            reason += " Does it begin with #!, or is {python} to start it?"
        raise Failure(reason) from error
    for early_signal in early:
        started[0].send_signal(early_signal)
    tree.begin()
    if watch:
        watch(started[0])
    return started[0].wait()


def explain_not_started(program: str, path: str, place: Any) -> str:
    """Return why the kernel cannot start a program, of which it says no more than "not found".

    "" if nothing is wrong with its interpreter or its loader. `place` has the files: an OwnFiles.
    """
    start = place.read_start(path, 256)
    words = split_first_line(start)
    if words and start.partition(b"\n")[0].endswith(b"\r"):
        return (
            f"program does not start: the first line of {program} ends with a carriage return, as "
            "on Windows: save it with line ends of Unix"
        )
    if words and not place.is_file(words[0]):
        return (
            f"program does not start: {program} begins with #!{words[0]}, and this environment has "
            "no such file"
        )
    if start.startswith(b"\x7fELF"):
        if start[4:6] + start[18:20] != _read_own_kind():
            return (
                f"program does not start: {program} was built for another kind of processor than "
                "this node's"
            )
        try:
            with place.open(path) as file:
                elf = read_elf(file)
        except (OSError, ValueError):
            return ""
        if elf and elf.interpreter and not place.is_file(elf.interpreter):
            return (
                f"program does not start: {program} needs the loader {elf.interpreter}, and this "
                "environment has no such file: it was built for another C library or processor"
            )
    return ""


def _read_own_kind() -> bytes:
    """Return class, byte order and processor that the ELF header of this process's program names.

    man 5 elf: EI_CLASS, EI_DATA and e_machine.
    """
    with open("/proc/self/exe", "rb") as file:
        start = file.read(20)
    return start[4:6] + start[18:20]


def explain_missing_program(
    program: str, files: List[str], path: str, *, is_there: bool = False
) -> Failure:
    """Return the failure of a program that is not to be found in `path`, or not executable.

    `files` are those that were sent; `is_there` if a file by its name is there all the same.
    """
    sent = f"; sent were {', '.join(files)}" if files else "; no file was sent"
    searched = "" if os.path.dirname(program) else f" on its PATH ({path})"
    if is_there:
        return Failure(f"program missing: {program} is there, but is not executable{sent}")
    return Failure(f"program missing: this environment has no {program}{searched}{sent}")
