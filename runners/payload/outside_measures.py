"""`startup` and `files` where the node's Python records them.

Inside, the image's own shell works, by inside_startup.sh and inside_files.sh; every part of a step
is timed by its marks.

What is measured and what is not is said in runners/workloads/startup.py and files.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import time
from typing import Any, Dict, Iterator, List, Tuple

from .files import PAGE, PARTS, SCRATCH, SPARE
from .frameworks import StartError
from .place import RunProcess
from .recorder import Recorder, ResultError
from .shell_inside import Shell, ShellGone

SOURCE_MEGABYTES = 64
"""The large file is written from a file of so many, as often as it takes."""
SOFTWARE = "/usr"
"""The folder of installed software, if the workload names none."""
NOT_MEASURED = ("random_read",)
"""Parts of `files` that a shell cannot do: each read would be a program of its own."""
TOOLS = ("cat", "dd", "mkdir", "rm")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@contextlib.contextmanager
def prepare(spec: Dict[str, Any], process: RunProcess) -> Iterator[Dict[str, str]]:
    """Make what the shell needs, give its variables, and remove afterwards what is left.

    A `command` needs nothing.
    """
    if spec["workload"] not in MEASURES:
        yield {}
        return
    here = os.path.dirname(os.path.abspath(__file__))
    parameters = spec["parameters"]
    part = {
        "part": os.path.join(here, "inside_%s.sh" % spec["workload"]),
        "steps": str(parameters["steps"]),
    }
    if spec["workload"] == "startup":
        # As in payload/startup.py it is a file: a shell may have a `true` of its own.
        yield {**part, "forks": str(parameters["forks"])}
        return
    own_parent = os.path.join(process.directory, SCRATCH)
    parent = parameters["path"] or own_parent
    if not os.path.isabs(parent):
        raise StartError("the folder to measure in has to begin with /: %r" % parent)
    os.makedirs(own_parent, exist_ok=True)
    letters = random.Random(parameters["seed"])
    name = "%s-%d" % (os.path.basename(process.directory), os.getpid())
    source = os.path.join(own_parent, "source-%d-%d" % (process.instance, os.getpid()))
    folder = os.path.join(parent, "tare-" + name)
    megabytes = min(SOURCE_MEGABYTES, parameters["large_file_mb"])
    if megabytes:
        block = letters.getrandbits(8 * 1_000_000).to_bytes(1_000_000, "little")
        with open(source, "wb") as file:
            for _ in range(megabytes):
                file.write(block)
    try:
        yield {
            **part,
            "scratch": folder,
            "small": str(parameters["small_files"]),
            "content": "".join(letters.choices(LETTERS, k=parameters["small_file_bytes"])),
            "megabytes": str(parameters["large_file_mb"]),
            "source": source,
            "source_megabytes": str(megabytes),
            "root": parameters["software_folder"] or SOFTWARE,
            "software": str(parameters["software_files"]),
        }
    finally:
        with contextlib.suppress(OSError):
            os.unlink(source)
        shutil.rmtree(os.path.join(own_parent, "tare-" + name), ignore_errors=True)
        with contextlib.suppress(OSError):  # another process of the run is still at work there
            os.rmdir(own_parent)


def list_words(spec: Dict[str, Any]) -> List[str]:
    """Return the arguments of the shell's part."""
    return list(spec["parameters"]["program"]) if spec["workload"] == "startup" else ["/bin/sh"]


def name_programs(spec: Dict[str, Any], argv: List[str]) -> List[Tuple[str, str]]:
    """Return the programs that do the work, each by the word that names it and what to look for."""
    if spec["workload"] == "startup":
        names = [argv[0], *(["true"] if spec["parameters"]["forks"] else [])]
    else:
        names = ["sh", *TOOLS]
    return [(name, name) for name in dict.fromkeys(names)]


def read_step(shell: Shell) -> Dict[str, float]:
    """Let the shell do a step, and return the seconds of each part.

    Raises ShellGone if it ends instead; with what the shell says, StartError if it cannot do it,
    ResultError if what it did is wrong.
    """
    times: Dict[str, float] = {}
    part, began = "", 0.0
    shell.order("step")
    for name, text in shell.read_marks():
        now = time.perf_counter()
        if part:
            times[part] = now - began
            part = ""
        if name == "part" and text:
            part, began = text, time.perf_counter()
            shell.order("go")
        elif name == "step":
            return times
        elif name == "failed":
            raise StartError(text)
        elif name == "wrong":
            raise ResultError(text)
    raise ShellGone


def measure_startup(
    parameters: Dict[str, Any], recorder: Recorder, shell: Shell, process: RunProcess
) -> None:
    """Start a program, and then programs that do nothing, in each step."""
    recorder.phase("build")
    forks = parameters["forks"]
    for name in ("program_start", *(["fork_time"] if forks else [])):
        recorder.series(name, "s")
    for _ in recorder.steps(parameters["steps"], parameters["burn_in"]):
        try:
            times = read_step(shell)
        except ResultError as error:
            program = " ".join(parameters["program"])
            raise ResultError(
                "the program that is started, %s, ended with exit code %s" % (program, error)
            ) from error
        values = {"program_start": times["program"]}
        if "forks" in times:  # the environment has a `true`
            values["fork_time"] = times["forks"] / forks
        recorder.step(**values)
    series = recorder.document()["series"]
    for name in series:
        if name != "step_time":
            recorder.metric(name, recorder.mean(name), "s")
    recorder.metric("first_program_start", series["program_start"]["values"][0], "s")


def measure_files(
    parameters: Dict[str, Any], recorder: Recorder, shell: Shell, process: RunProcess
) -> None:
    """Do a round of all chosen parts in each step."""
    recorder.phase("build")
    numbers = {**parameters, "large_file": parameters["large_file_mb"]}
    chosen = [
        part
        for name, parts in PARTS.items()
        for part in parts
        if numbers[name] and part not in NOT_MEASURED
    ]
    if not chosen:
        raise StartError("nothing to do: every number of files and megabytes is 0")
    for part in chosen:
        recorder.series(part + "_time", "s")
    require_space(parameters, shell, process)
    first: Dict[str, float] = {}
    for _ in recorder.steps(parameters["steps"], parameters["burn_in"]):
        times = read_step(shell)
        first = first or times
        recorder.step(**{part + "_time": times[part] for part in chosen})
    amounts = dict.fromkeys(PARTS["small_files"], (parameters["small_files"], "files/s"))
    megabytes = parameters["large_file_mb"]
    amounts.update((part, (megabytes, "MB/s")) for part in PARTS["large_file"])
    if parameters["software_files"]:
        files, size = read_software(shell)
        amounts.update((part, (files, "files/s")) for part in PARTS["software_files"])
        if size:
            bandwidth = size / 1e6 / recorder.mean("software_read_time")
            recorder.metric("software_bandwidth", bandwidth, "MB/s")
    for part in chosen:
        seconds = recorder.mean(part + "_time")
        recorder.metric(part + "_time", seconds, "s")
        recorder.metric(part + "_rate", amounts[part][0] / seconds, amounts[part][1])
    for part in ("software_read", "large_read"):
        if part in chosen:
            recorder.metric("first_%s_time" % part, first[part], "s")


def read_software(shell: Shell) -> Tuple[int, int]:
    """Return how many files of the installed software were read, and their bytes, 0 if unknown."""
    for name, text in shell.read_marks():
        if name == "software":
            files, _, size = text.partition(" ")
            return int(files), int(size.strip() or 0)
    raise ShellGone


def require_space(parameters: Dict[str, Any], shell: Shell, process: RunProcess) -> None:
    """Raise StartError unless twice the space that is needed is free, as is seen inside."""
    parent = parameters["path"] or os.path.join(process.directory, SCRATCH)
    small = parameters["small_files"] * max(parameters["small_file_bytes"], PAGE)
    need = SPARE * (small + parameters["large_file_mb"] * 1_000_000)
    for name, text in shell.read_marks():
        if name != "free":
            continue
        kilobytes = [word for word in text.split() if word.isdigit()]
        if kilobytes:
            free = int(kilobytes[-1]) * 1024
        elif parameters["path"]:
            raise StartError(
                "the environment cannot tell how much room %s has: there is no such folder, or no "
                "`df` that can look" % parent
            )
        else:
            file_system = os.statvfs(parent)
            free = file_system.f_bavail * file_system.f_frsize
        if need > free:
            raise StartError(
                f"{parent} has {free / 1e6:,.0f} MB free; twice what is written "
                f"({need / 1e6:,.0f} MB) has to be, so that nobody else's work is stopped: choose "
                "fewer or smaller files"
            )
        shell.order("go")
        return
    raise ShellGone


MEASURES = {"files": measure_files, "startup": measure_startup}
