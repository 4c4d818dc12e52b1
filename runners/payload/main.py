"""The program that runs inside every environment: `python3 main.py RUN_DIRECTORY/spec.json`.

Writes `inside.json` (facts about the environment) and `result.json` (the measurements) beside the
spec; of several processes rank 0 does, the others write into `rank-N/`, instances into
`instance-N/`. Exits with 0 and a result, or with a message on stderr and no result: 2 if the
workload cannot start in this environment, 3 if what it computed is wrong, 4 if a GPU is missing or
memory did not suffice (also named in the file `failure`), 75 if a further job is to go on from a
checkpoint.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from typing import Any, Dict, Set, Tuple

if not __package__:
    # Started as a file. As a package, its modules cannot shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import gpus, place, snapshot
from .frameworks import Failure, StartError, Unfinished
from .recorder import STEP_TIME, Recorder, ResultError, measure_process_age, write_json

CLOCK_TICK = 0.01  # s: resolution of the time at which the kernel started a process
CONTAINER_START = "container start"
UNFINISHED = 75
"""The exit code of a process that stopped at a checkpoint: EX_TEMPFAIL of sysexits.h."""
RECORD = "record"
"""The phase after all that is measured, in which it is written down what was measured."""
JOB_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKLOADS = {
    "blas": "blas",
    "cnn": "training.cnn",
    "command": "command",
    "files": "files",
    "segmentation": "training.segmentation",
    "startup": "startup",
}  # kind -> module of this package


def main(spec_path: str) -> int:
    directory = os.path.dirname(os.path.abspath(spec_path))
    own_directory = place.find_process({}, directory).own_directory
    recorder = Recorder(*measure_start(), path=os.path.join(own_directory, "result.json"))
    try:
        spec = read_spec(spec_path)
        measure(spec, place.find_process(spec, directory), recorder)
    except StartError as error:
        print(error, file=sys.stderr)
        return 2
    except ResultError as error:
        if recorder.has_steps:
            recorder.save()  # the steps until then
        print(error, file=sys.stderr)
        return 3
    except Unfinished as error:
        recorder.save()
        print(error, file=sys.stderr)
        return UNFINISHED
    except (gpus.GPUMissing, Failure) as error:
        print(error, file=sys.stderr)
        # The file in which the job script, too, says why a run failed.
        with open(os.path.join(own_directory, "failure"), "w", encoding="utf-8") as file:
            file.write(str(error))
        return 4
    return 0


def measure(spec: dict[str, Any], process: place.RunProcess, recorder: Recorder) -> None:
    """Run the spec's workload between the two halves of the snapshot; write the result."""
    if not os.path.isdir(process.own_directory):
        os.mkdir(process.own_directory)  # not those above it: a job that was deleted stays so
    if process.instances > 1:
        os.chdir(process.own_directory)  # each instance is a run of its own
    inside_path = os.path.join(process.own_directory, "inside.json")
    recorder.phase("snapshot")
    data = spec.get("data_set") or {}
    directory = data.get("path") or find_data_directory(spec["parameters"])
    inside = snapshot.take_before(directory)
    if data:
        inside["data_set"] = describe_data_set(data)
    if spec.get("code"):
        inside["code"] = describe_code(spec["code"])
    write_json(inside_path, inside, sync=False)  # the result, which comes last, is waited for
    if process.segment:
        from .resumed import ResumableRecorder  # not above: few runs need it

        recorder = ResumableRecorder.adopt(recorder)
        inside["segments"] = process.segment.number
        write_json(inside_path, inside, sync=False)
    gpus.require_gpus(spec.get("gpus", 0))
    if process.instances > 1:
        recorder.phase("waiting for the other instances")
        place.start_together(process)

    from . import loaded, memory  # not above: the container's start would pay for them

    children_before = memory.measure_largest_child()
    workload = importlib.import_module("." + WORKLOADS[spec["workload"]], __package__)
    try:
        workload_facts = workload.run(spec["parameters"], recorder, process) or {}
    except BaseException as error:
        with contextlib.suppress(Exception):  # how the run ended is what counts
            if isinstance(error, Unfinished):  # its memory counts, and its record does not
                recorder.phase(RECORD)
                inside["memory"] = memory.describe_memory(children_before)
            record_failure(inside, error, inside_path)
        raise
    recorder.phase(RECORD)
    readings = workload_facts.pop("readings", None)
    paths = readings.paths if readings else read_loaded_paths()
    held = {**memory.describe_memory(children_before), **workload_facts.pop("together", {})}
    if not recorder.has_steps and not recorder.has_metrics:
        raise ResultError("nothing was measured")

    own = {
        "argv": workload_facts.pop("argv", None) or [sys.executable, *sys.argv],
        "loaded": readings.describe() if readings else {"own": True},
    }
    known = {**inside, **snapshot.take_after(), **workload_facts, "memory": held, "run": own}
    if paths:
        known["loaded"] = loaded.describe_loaded(paths, JOB_DIRECTORY)
    write_json(inside_path, known, sync=False)
    recorder.facts.update(workload=spec["workload"], parameters=spec["parameters"])
    if recorder.has_steps:
        report_steps(recorder)
    phases = recorder.first_phases()
    if CONTAINER_START in phases:
        recorder.metric("container_start", phases[CONTAINER_START], "s")
    if "import" in phases:
        recorder.metric("import_time", phases["import"], "s")
    recorder.write()
    if getattr(workload, "QUIET", False):  # patterns search its output
        return
    print_metrics(recorder)


def report_steps(recorder: Recorder, *, before: str = "") -> None:
    """Report the metrics that all workloads with steps have.

    `before` is the phase in which the run had not been launched yet.
    """
    recorder.metric(STEP_TIME, recorder.mean(STEP_TIME), "s")
    for name, value, unit in (
        ("step_time_sd", recorder.sd(STEP_TIME), "s"),
        ("tail_ratio", recorder.tail_ratio(STEP_TIME), "1"),
    ):
        if value:  # too few steps, or steps of equal length, have no spread
            recorder.metric(name, value, unit)
    first = recorder.time_to_first_step() - recorder.phases().get(before, 0.0)
    recorder.metric("time_to_first_step", first, "s")


def print_metrics(recorder: Recorder) -> None:
    for name, metric in sorted(recorder.document()["metrics"].items()):
        print(f"{name} = {metric['value']:.6g} {metric['unit']}")


def record_failure(inside: Dict[str, Any], error: BaseException, inside_path: str) -> None:
    """Write down what the processes of a run that has failed had loaded.

    Of a program that Tare started that is what was read while it ran, also if it was killed. Files
    are summed up for half as long as after a success: whoever ends a run does not wait for ever.
    """
    from . import loaded

    is_command = __package__ + ".command" in sys.modules
    facts = getattr(error, "facts", {})
    readings = facts.get("readings")
    if is_command and not readings:
        return  # it was never started
    own = {
        "argv": facts.get("argv") or [sys.executable, *sys.argv],
        "loaded": readings.describe() if readings else {"own": True},
    }
    known = {**inside, "run": own}
    if paths := readings.paths if readings else read_loaded_paths():
        limits = loaded.MOST_SECONDS / 2, loaded.LAST_SECONDS / 2
        known["loaded"] = loaded.describe_loaded(paths, JOB_DIRECTORY, *limits)
    write_json(inside_path, known, sync=False)


def describe_data_set(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data set of the run, with what the job has proved of it outside.

    Raises Failure if it cannot be read in this environment.
    """
    path = data["path"]
    try:
        with open(os.path.join(JOB_DIRECTORY, "data-set.json"), encoding="utf-8") as file:
            proof = json.load(file)
        os.stat(path)
    except (OSError, ValueError) as error:
        raise Failure(f"data set unusable: {path} in this environment: {error}") from error
    if not os.access(path, os.R_OK):
        raise Failure(f"data set unusable: {path} may not be read in this environment")
    if proof.get("digest") != data["digest"]:
        raise Failure("data set unusable: the job has proved another one")
    return {
        **data,
        **{name: proof.get(name) for name in ("files", "bytes", "proof", "seconds")},
        "writable": os.access(path, os.W_OK),
    }


def describe_code(code: dict[str, Any]) -> dict[str, Any]:
    """Return the code of the run, with what the job has proved of it outside.

    Raises Failure if it cannot be read in this environment.
    """
    path = code["path"]
    try:
        with open(os.path.join(JOB_DIRECTORY, "code.json"), encoding="utf-8") as file:
            proof = json.load(file)
        os.listdir(path)
    except (OSError, ValueError) as error:
        raise Failure(f"code unusable: {path} in this environment: {error}") from error
    if proof.get("digest") != code["digest"]:
        raise Failure("code unusable: the job has proved another one")
    return {**code, "files": proof.get("files"), "seconds": proof.get("seconds")}


def find_data_directory(parameters: Any) -> str:
    """Return the folder of the data that the workload reads; "" where it reads none."""
    known = parameters.get("data_directory") if isinstance(parameters, dict) else ""
    return known if isinstance(known, str) else ""


def read_loaded_paths() -> Set[str]:
    """Return the files that this process, which has measured itself, and its children have loaded.

    Called before anything is imported that only the record needs.
    """
    from . import loaded, memory

    processes = [process for process, _ in memory.walk_tree(os.getpid())]
    return set().union(*map(loaded.read_paths, processes[: loaded.MOST_PROCESSES]))


def read_spec(path: str) -> dict[str, Any]:
    """Return the spec of a run. Raises StartError for one that this payload does not understand."""
    try:
        with open(path, encoding="utf-8") as file:
            spec: dict[str, Any] = json.load(file)
        schema, kind = spec["schema"], spec["workload"]
        spec["parameters"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StartError(f"the spec {path} cannot be read: {error!r}") from error
    if schema != 1:
        raise StartError(f"the spec {path} has schema {schema!r}; this payload knows schema 1")
    if kind not in WORKLOADS:
        raise StartError(f"unknown workload {kind!r}; this payload knows {', '.join(WORKLOADS)}")
    return spec


def measure_start() -> Tuple[float, str]:
    """Return the seconds that have passed until now, and the name of their phase.

    TARE_BEGAN is the time at which the job script launched the container; from then to the first
    line of Python is what the container costs before anything runs in it. The time at which this
    process was forked says less: most runtimes fork it, then mount the image and start Python.
    """
    age = measure_process_age()
    try:
        since_launch = time.time() - float(os.environ["TARE_BEGAN"])
    except (KeyError, ValueError):
        return age, "start"
    # If the clock was set meanwhile, the process may be older than the time since its launch.
    return (since_launch, CONTAINER_START) if since_launch >= age - CLOCK_TICK else (age, "start")


def end_quickly(exit_code: int) -> None:
    """End this process without Python's own end, which takes 5 ms and has nothing to do.

    Not where libraries were loaded that may have something to end, nor where steps may have to be
    saved: after anything but success, and for all workloads but `command`, this does nothing. Nor
    does it where what was printed cannot be written, of which Python's own end makes an error.
    """
    if exit_code or __package__ + ".command" not in sys.modules:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream:  # None where the process was started with it closed
                stream.flush()
    except OSError:
        return
    os._exit(exit_code)


if __name__ == "__main__":
    exit_code = main(sys.argv[1])
    end_quickly(exit_code)
    sys.exit(exit_code)
