"""`startup`: how long Python takes to start in this environment, and to import a framework.

One step starts a new interpreter that does nothing, one that imports a module and prints how long
that took, and a number of programs that do nothing at all. The first step is reported separately:
its files may never have been read on this node.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List

from .frameworks import StartError
from .place import RunProcess
from .recorder import Recorder, ResultError

LABELS = {
    "numpy": "NumPy",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "torch": "PyTorch",
    "jax": "JAX",
}
# The new interpreter's program. Its last line is the answer: modules may print what they like.
IMPORT = """
import sys, time
name, began = sys.argv[1], time.perf_counter()
try:
    __import__(name)
except ImportError as error:
    answer = {"missing": error.name if isinstance(error, ModuleNotFoundError) else None}
    answer["error"] = str(error)
else:
    answer = {"seconds": time.perf_counter() - began, "modules": len(sys.modules)}
import json
print("\\n" + json.dumps(answer), flush=True)
import os
os._exit(0)
"""
# The same, counting the files that Python itself opens; an audit hook makes it slower.
COUNT = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
__import__(sys.argv[1])
print("\\n%d" % len(opened), flush=True)
import os
os._exit(0)
"""


def run(parameters: dict[str, Any], recorder: Recorder, process: RunProcess) -> None:
    recorder.phase("build")
    module = parameters["module"]
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module):
        raise StartError(f"{module!r} is not the name of a module")
    true_program = parameters["forks"] and shutil.which("true")
    for name in ("interpreter_start", "import_time") + (("fork_time",) if true_program else ()):
        recorder.series(name, "s")
    answer: Dict[str, Any] = {}
    for _ in recorder.steps(parameters["steps"], parameters["burn_in"]):
        values = {"interpreter_start": time_interpreter(["-c", "pass"])}
        answer = time_import(module)
        values["import_time"] = answer["seconds"]
        if true_program:
            values["fork_time"] = time_fork(true_program, parameters["forks"])
        recorder.step(**values)

    document = recorder.document()["series"]
    for name in document:
        if name != "step_time":
            recorder.metric(name, recorder.mean(name), "s")
    for name in ("interpreter_start", "import_time"):
        recorder.metric(f"first_{name}", document[name]["values"][0], "s")
    recorder.metric("modules_loaded", answer["modules"], "1")
    recorder.metric("files_opened", int(run_python(["-c", COUNT, module], module)), "1")


def time_interpreter(arguments: List[str]) -> float:
    """Return the seconds that a new process of this Python takes from start to end."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ResultError(f"{sys.executable} ended with exit code {done.returncode}")
    return time.perf_counter() - began


def time_import(module: str) -> Dict[str, Any]:
    """Return the seconds and modules that an import takes in a new interpreter.

    Raises StartError if the module cannot be imported.
    """
    answer: Dict[str, Any] = json.loads(run_python(["-c", IMPORT, module], module))
    if "seconds" in answer:
        return answer
    top = module.partition(".")[0]
    label = LABELS.get(top, module)
    if answer["missing"] in (top, module):
        raise StartError(
            f"{label} is not installed in this environment: {sys.executable} (Python "
            f"{sys.version.split()[0]}) has no module {module!r}. Choose an environment that "
            "brings it, or another module"
        )
    reason = answer["error"].strip().partition("\n")[0]
    raise StartError(f"{label} is installed but does not load: {reason}")


def run_python(arguments: List[str], module: str) -> str:
    """Return the last line that a new interpreter prints. Raises ResultError if it fails."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    if done.returncode or not lines:
        raise ResultError(f"importing {module} ended Python with exit code {done.returncode}")
    return lines[-1]


def time_fork(program: str, count: int) -> float:
    """Return the mean seconds from starting a program that does nothing until it has ended."""
    began = time.perf_counter()
    for _ in range(count):
        os.waitpid(os.posix_spawn(program, [program], os.environ), 0)
    return (time.perf_counter() - began) / count
