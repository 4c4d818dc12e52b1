"""The recorder of a run in whose environment nothing but a POSIX shell is needed, on the node:
`python3 outside.py RUN_DIRECTORY/spec.json CONTAINER_COMMAND... /usr/bin/env NAME=VALUE... /bin/sh
INSIDE.SH`.

It starts that command, which on bare metal is the same but for the runtime's part. `inside.sh`
writes a mark into a named pipe when the container has started, and when the program begins and
ends; all marks get their time from one clock, this process's. Files and exit codes are those of
`main.py`. What takes time here is done before the container is launched, or after the program.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, Tuple

if not __package__:
    # Started as a file. As a package, its modules cannot shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import command, gpus, main, memory, place, snapshot
from .frameworks import Failure, StartError
from .recorder import Recorder, write_json

ENV = "/usr/bin/env"
NOT_OF_THE_NODE = ("python", "packages", "variables", "other_variables", "os", "libc")
"""Facts of the snapshot that this process cannot tell of the environment."""


class Tree(memory.Tree):
    """Samples of the program's processes: of the shell inside, and of what it has started."""

    def __init__(self, inside_argv: List[str]) -> None:
        super().__init__(self._find_shell)
        self._shell = 0
        self._largest = 0
        self._command_line = b"\0".join(map(os.fsencode, inside_argv)) + b"\0"

    def _find_shell(self) -> int:
        """Return the process of the shell inside; 0 if there is none. No runtime hides it here."""
        for name in filter(str.isdigit, () if self._shell else os.listdir("/proc")):
            with contextlib.suppress(OSError), open("/proc/%s/cmdline" % name, "rb") as file:
                if file.read() == self._command_line:
                    self._shell = int(name)
                    break
        for process, _ in memory.walk_tree(self._shell) if self._shell else ():
            self._largest = max(self._largest, memory.measure_peak(process))
        return self._shell

    def describe(self) -> Dict[str, Any]:
        """Return the account of memory; {} of a program that ended before its first sample."""
        if not self._largest:
            return {}
        return {"own_bytes": self._largest, "child_bytes": 0, **super().describe()}


class Inside:
    """The command that starts the shell inside, and the marks that this sends."""

    def __init__(self, pipe: str) -> None:
        self._reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self._writing = os.open(pipe, os.O_WRONLY)  # or its end would come with the shell's
        os.set_blocking(self._reading, True)
        self._process: Any = None
        self.code = 0
        """The exit code of the whole command; -n if signal n ended it."""

    def start(self, argv: List[str]) -> None:
        early: List[int] = []

        def pass_on(number: int, frame: Any) -> None:
            if self._process:
                self._process.send_signal(number)
            else:
                early.append(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, pass_on)
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, close_fds=False)
        for early_signal in early:
            self._process.send_signal(early_signal)
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self.code = self._process.wait()
        os.write(self._writing, b"@over\0")

    def read_marks(self) -> Iterator[Tuple[str, str]]:
        """Yield name and text of each mark as it arrives, until the command has ended.

        A variable comes as "variable": its text has the name and the value.
        """
        rest = b""
        while True:
            *whole, rest = (rest + os.read(self._reading, 1 << 16)).split(b"\0")
            for text in (part.decode("utf-8", "surrogateescape") for part in whole):
                name, _, more = text[1:].partition(" ")
                if not text.startswith("@"):
                    yield "variable", text
                elif name == "over":
                    return
                else:
                    yield name, more

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._process.terminate()


class Run:
    """One process of a run, from the launch of its container on."""

    def __init__(self, spec: Dict[str, Any], process: place.RunProcess, argv: List[str]) -> None:
        own = process.own_directory
        self.process, self.argv = process, argv
        self.requested_gpus = spec.get("gpus", 0)
        self.sent = sorted(spec["parameters"]["files"])
        self.inside_path = os.path.join(own, "inside.json")
        self.recorder = Recorder(0.0, "recorder", path=os.path.join(own, "result.json"))
        self.facts = describe_node(spec)
        self.marks = make_pipe(os.path.join(own, ".marks"))
        self.go = make_pipe(os.path.join(own, ".go")) if process.instances > 1 else ""

    def measure(self, launcher: List[str], shell: List[str]) -> int:
        """Launch the container and return the exit code of its program.

        What it computed stays in the recorder, and what is known of it in `facts`.
        """
        start = write_start(
            os.path.join(self.process.own_directory, ".start.sh"),
            {"marks": self.marks, "go": self.go, "own": self.process.own_directory},
            self.argv,
        )
        inside_argv = [*shell, start]
        tree = Tree(inside_argv)
        inside = Inside(self.marks)
        known: Dict[str, List[str]] = {}
        began, code = 0.0, None
        self.recorder.phase(main.CONTAINER_START)
        inside.start([*launcher, *inside_argv])
        try:
            for name, text in inside.read_marks():
                if name == "started":
                    container_start = self.recorder.phases()[main.CONTAINER_START]
                    self.recorder.metric("container_start", container_start, "s")
                    self.recorder.phase("snapshot")
                elif name == "ready":
                    self.prepare(known)
                elif name == "missing":
                    raise command.explain_missing_program(self.argv[0], self.sent, text)
                elif name == "began":
                    began = time.perf_counter()
                    self.recorder.phase("program")
                    tree.begin()
                elif name == "ended":
                    self.recorder.metric("wall_time", time.perf_counter() - began, "s")
                    self.recorder.phase(main.RECORD)
                    code = int(text)
                else:
                    known.setdefault(name, []).append(text)
        except BaseException:
            inside.stop()
            raise
        finally:
            for path in filter(None, (self.marks, self.go, start)):
                os.unlink(path)
        if code is None and not inside.code:
            raise StartError("the environment's shell left no mark of the program's end")
        self.facts["memory"] = tree.describe()
        self.facts["run"] = {"argv": self.argv, "loaded": tree.loaded.describe()}
        if tree.loaded.paths:
            self.facts["loaded"] = {"files": {path: {} for path in sorted(tree.loaded.paths)}}
        write_json(self.inside_path, self.facts, sync=False)
        if code is not None:
            return code
        return inside.code if inside.code > 0 else 128 - inside.code

    def prepare(self, known: Dict[str, List[str]]) -> None:
        """Write down what the shell has told of the environment, and let it start the program."""
        variables = dict(text.split("=", 1) for text in known.get("variable", ()) if "=" in text)
        self.facts.update(
            os="".join(known.get("os", ())[:1]).strip("\"'"),
            libc=" ".join(filter(None, known.get("libc", ()))),
            variables=snapshot.select_variables(variables),
            other_variables=snapshot.name_other_variables(variables),
        )
        write_json(self.inside_path, self.facts, sync=False)
        seen, requested = len(known.get("gpu", ())), self.requested_gpus
        if requested > seen and os.path.isdir(gpus.DRIVER) and os.listdir(gpus.DRIVER):
            raise gpus.GPUMissing(
                "no GPU: %d requested, and the environment has %d devices /dev/nvidia*. Does its "
                "runtime pass them on?" % (requested, seen)
            )
        if self.go:
            self.recorder.phase("waiting for the other instances")
            place.start_together(self.process)
            with open(self.go, "w", encoding="ascii") as file:
                file.write("\n")


def describe_node(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts that are the same inside and outside of a container."""
    facts = snapshot.take_before()
    for name in NOT_OF_THE_NODE:
        del facts[name]
    facts["file_systems"].pop("python", None)
    facts["packages"] = {}
    if spec.get("data_set"):
        facts["data_set"] = main.describe_data_set(spec["data_set"])
    return facts


def write_start(path: str, variables: Dict[str, str], argv: List[str]) -> str:
    """Write what `inside.sh` is to start, as a script that it reads."""
    lines = ["%s=%s" % (name, shlex.quote(value)) for name, value in variables.items()]
    lines.append("set -- " + " ".join(map(shlex.quote, argv)))
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(lines) + "\n")
    return path


def make_pipe(path: str) -> str:
    """Make a named pipe. Raises StartError where the file system has none."""
    try:
        os.mkfifo(path)
    except OSError as error:
        raise StartError(
            "no named pipe can be made in the run's folder (%s): a run that is recorded outside "
            "needs one. Choose another work directory" % error
        ) from error
    return path


def run(spec_path: str, container_command: List[str]) -> int:
    """Record the run, and return this process's exit code: see `main.py`."""
    launcher, shell = container_command[:-2], container_command[-2:]
    first = len(launcher) - launcher[::-1].index(ENV)
    variables = dict(word.split("=", 1) for word in launcher[first:])
    directory = os.path.dirname(os.path.abspath(spec_path))
    process = place.find_process({}, directory, variables)
    try:
        spec = main.read_spec(spec_path)
        process = place.find_process(spec, directory, variables)
        if not os.path.isdir(process.own_directory):
            os.mkdir(process.own_directory)
        files = os.path.join(main.JOB_DIRECTORY, "files")
        parameters = spec["parameters"]
        argv = command.expand_placeholders(
            parameters, files, process, python=spec["python"], variables=variables
        )
        command.let_be_executed(parameters, argv)
        given = command.name_places(parameters, files, process)
        one = Run(spec, process, argv)
        code = one.measure([*launcher, *map("=".join, given.items())], shell)
        if not code:
            one.recorder.facts.update(workload=spec["workload"], parameters=parameters)
            one.recorder.write()
        return code
    except StartError as error:
        print(error, file=sys.stderr)
        return 2
    except (gpus.GPUMissing, Failure) as error:
        print(error, file=sys.stderr)
        with open(os.path.join(process.own_directory, "failure"), "w", encoding="utf-8") as file:
            file.write(str(error))
        return 4


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
