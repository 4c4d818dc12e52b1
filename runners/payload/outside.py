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
import sys
import time
from typing import Any, Dict, List

if not __package__:
    # Started as a file. As a package, its modules cannot shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import (
    command,
    gpus,
    loaded_inside,
    main,
    memory,
    outside_measures,
    place,
    programs,
    snapshot,
)
from .frameworks import Failure, StartError
from .recorder import Recorder, ResultError, write_json
from .shell_inside import FilesInside, Shell, ShellGone, write_start

ENV = "/usr/bin/env"
RECORDER = "recorder"
"""The phase before the container is launched."""
NOT_STARTED = (2, 126, 127)
"""Exit codes of a shell that has not started a program, or has read one as a script of its own."""
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


class Run:
    """One process of a run, from the launch of its container on."""

    def __init__(
        self, spec: Dict[str, Any], process: place.RunProcess, argv: List[str], python: str
    ) -> None:
        self.spec, self.process, self.argv, self.python = spec, process, argv, python
        self.parameters = spec["parameters"]
        self.inside_path = os.path.join(process.own_directory, "inside.json")
        result = os.path.join(process.own_directory, "result.json")
        self.recorder = Recorder(0.0, RECORDER, path=result)
        self.facts = describe_node(spec)
        self.shell = Shell(process.own_directory)
        self.files = FilesInside(self.shell)
        self.is_command = spec["workload"] == "command"

    def measure(self, launcher: List[str], shell: List[str]) -> int:
        """Launch the container and return the exit code of its program.

        What it computed stays in the recorder, and what is known of it in `facts`.
        """
        variables = {**self.shell.paths, "own": self.process.own_directory}
        if not self.is_command or self.process.instances > 1:
            variables["waits"] = "yes"
        with outside_measures.prepare(self.spec, self.process) as part_variables:
            start = os.path.join(self.process.own_directory, ".start.sh")
            write_start(start, {**variables, **part_variables}, self.argv)
            inside_argv = [*shell, start]
            tree = Tree(inside_argv)
            self.recorder.phase(main.CONTAINER_START)
            self.shell.start([*launcher, *inside_argv])
            try:
                code = self.follow(tree, start)
            except BaseException:
                self.shell.stop()
                raise
            finally:
                self.remove_own(start)
        write_json(self.inside_path, self.facts, sync=False)
        return code

    def remove_own(self, start: str) -> None:
        """Remove the pipes and what the shell has read, where they are still there.

        That is done before the program starts, which could take an order for its own, or wait for
        ever at what it finds in its folder.
        """
        self.shell.remove_pipes()
        with contextlib.suppress(OSError):
            os.unlink(start)

    def follow(self, tree: Tree, start: str) -> int:
        """Read the marks of the shell until all is over, and return the program's exit code."""
        known: Dict[str, List[str]] = {}
        began, code = 0.0, None
        for name, text in self.shell.read_marks():
            if name == "started":
                container_start = self.recorder.phases()[main.CONTAINER_START]
                self.recorder.metric("container_start", container_start, "s")
                self.recorder.phase("snapshot")
            elif name == "ready":
                self.describe_environment(known)
                self.remove_own(start)
                self.begin(len(known.get("gpu", ())))
                if not self.is_command:
                    tree.begin()
                    measured = outside_measures.MEASURES[self.spec["workload"]]
                    with contextlib.suppress(ShellGone):  # its exit code says why
                        measured(self.parameters, self.recorder, self.shell, self.process)
            elif name == "missing":
                self.describe_environment(known)
                raise self.explain_missing_program(text)
            elif name == "began":
                tree.begin()
                self.recorder.phase("program")
                began = time.perf_counter()
                self.shell.order("go")
            elif name == "ended":
                if self.is_command:
                    self.recorder.metric("wall_time", time.perf_counter() - began, "s")
                self.recorder.phase(main.RECORD)
                code = int(text)
                self.describe_program(tree, code)
            else:
                known.setdefault(name, []).append(text)
        if code is not None:
            return code
        if not self.shell.code:
            raise StartError("the environment's shell left no mark of the program's end")
        return self.shell.code if self.shell.code > 0 else 128 - self.shell.code

    def describe_environment(self, known: Dict[str, List[str]]) -> None:
        """Write down what the shell has told of the environment."""
        variables = dict(text.split("=", 1) for text in known.get("variable", ()) if "=" in text)
        self.facts.update(
            os="".join(known.get("os", ())[:1]).strip("\"'"),
            libc=" ".join(filter(None, known.get("libc", ()))),
            variables=snapshot.select_variables(variables),
            other_variables=snapshot.name_other_variables(variables),
        )
        write_json(self.inside_path, self.facts, sync=False)

    def begin(self, seen: int) -> None:
        """Let the shell go on, to whose environment `seen` GPUs are shown."""
        requested = self.spec.get("gpus", 0)
        if requested > seen and os.path.isdir(gpus.DRIVER) and os.listdir(gpus.DRIVER):
            raise gpus.GPUMissing(
                "no GPU: %d requested, and the environment has %d devices /dev/nvidia*. Does its "
                "runtime pass them on?" % (requested, seen)
            )
        if self.process.instances > 1:
            self.recorder.phase("waiting for the other instances")
            place.start_together(self.process)
        if not self.is_command or self.process.instances > 1:
            self.shell.order("go")

    def describe_program(self, tree: Tree, code: int) -> None:
        """Write down what has run, as the environment's shell finds and reads it; let it end.

        Raises Failure if the program could not be started at all.
        """
        self.facts["memory"] = tree.describe()
        self.facts["run"] = {"argv": self.argv, "loaded": tree.loaded.describe()}
        try:
            if code in NOT_STARTED and self.is_command:
                program = self.files.find_executable(self.argv[0]) or self.argv[0]
                if reason := command.explain_not_started(self.argv[0], program, self.files):
                    raise Failure(reason)
            if tree.loaded.paths:
                self.facts["loaded"] = loaded_inside.describe(tree.loaded.paths, self.files)
            if code:
                pass
            elif self.is_command:
                program = self.files.find_executable(self.argv[0]) or self.argv[0]
                written = self.parameters["argv"]
                is_first = not (self.process.rank or self.process.instance)
                self.facts["program"] = programs.inspect(
                    *(written, self.argv, program, self.python, self.files), with_patches=is_first
                )
            else:
                named = outside_measures.name_programs(self.spec, self.argv)
                found = [(word, self.files.find_executable(path)) for word, path in named]
                self.facts["program"] = programs.describe_files(
                    [(word, path) for word, path in found if path], "", self.files
                )
            self.shell.order("end", "", "")
        except ShellGone:
            if tree.loaded.paths and "loaded" not in self.facts:
                paths = sorted(tree.loaded.paths)
                self.facts["loaded"] = {"files": {path: {} for path in paths}}

    def explain_missing_program(self, searched: str) -> Failure:
        program, sent = self.argv[0], sorted(self.parameters.get("files", ()))
        try:
            is_there = os.sep in program and self.files.exists(program)
        except ShellGone:
            is_there = False
        return command.explain_missing_program(program, sent, searched, is_there=is_there)


def describe_node(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts that are the same inside and outside of a container."""
    facts = snapshot.take_before()
    for name in NOT_OF_THE_NODE:
        del facts[name]
    facts["file_systems"].pop("python", None)
    facts["packages"] = {}
    if spec.get("data_set"):
        facts["data_set"] = main.describe_data_set(spec["data_set"])
    if spec.get("code"):
        facts["code"] = main.describe_code(spec["code"])
    return facts


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
        parameters, given = spec["parameters"], {}
        if spec["workload"] == "command":
            argv = command.expand_placeholders(
                parameters, files, process, python=spec["python"], variables=variables
            )
            command.let_be_executed(parameters, argv)
            given = command.name_places(parameters, files, process)
        else:
            argv = outside_measures.list_words(spec)
        one = Run(spec, process, argv, spec["python"])
        code = one.measure([*launcher, *map("=".join, given.items())], shell)
        if not code:
            one.recorder.facts.update(workload=spec["workload"], parameters=parameters)
            if not one.is_command:
                main.report_steps(one.recorder, before=RECORDER)
            one.recorder.write()
            if not one.is_command:
                main.print_metrics(one.recorder)
        return code
    except StartError as error:
        print(error, file=sys.stderr)
        return 2
    except ResultError as error:
        print(error, file=sys.stderr)
        return 3
    except (gpus.GPUMissing, Failure) as error:
        print(error, file=sys.stderr)
        with open(os.path.join(process.own_directory, "failure"), "w", encoding="utf-8") as file:
            file.write(str(error))
        return 4


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
