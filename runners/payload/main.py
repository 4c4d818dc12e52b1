"""The program that runs inside every environment: `python3 main.py RUN_DIRECTORY/spec.json`.

Leaves `inside.json` (what is true here) and `result.json` (what was measured) beside the spec; of
several processes rank 0 alone does, the others in `rank-N/`, and instances in `instance-N/`.
Ends with 0 and a result, or with a reason on stderr and no result: 2 when the workload cannot
start here, 3 when what it computed is wrong, 4 when a GPU is missing or memory did not
suffice (named in `failure` too).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any, Tuple

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import gpus, place, snapshot
from .frameworks import Failure, StartError
from .recorder import STEP_TIME, Recorder, ResultError, process_age, write_json

CLOCK_TICK = 0.01  # s: how finely the kernel tells when a process was started
CONTAINER_START = "container start"
WORKLOADS = {
    "blas": "blas",
    "cnn": "training.cnn",
    "command": "command",
    "files": "files",
    "segmentation": "training.segmentation",
    "startup": "startup",
}  # kind -> module beside this file


def main(spec_path: str) -> int:
    directory = os.path.dirname(os.path.abspath(spec_path))
    own = place.find({}, directory).own
    recorder = Recorder(*elapsed(), path=os.path.join(own, "result.json"))
    try:
        spec = read_spec(spec_path)
        measure(spec, place.find(spec, directory), recorder)
    except StartError as error:
        print(error, file=sys.stderr)
        return 2
    except ResultError as error:
        if recorder.has_steps:
            recorder.save()  # how far it came
        print(error, file=sys.stderr)
        return 3
    except (gpus.GPUMissing, Failure) as error:
        print(error, file=sys.stderr)
        # Where the job script, too, names why a run is worth nothing.
        with open(os.path.join(own, "failure"), "w", encoding="utf-8") as file:
            file.write(str(error))
        return 4
    return 0


def measure(spec: dict[str, Any], here: place.Place, recorder: Recorder) -> None:
    """Run the workload of the spec between two looks at the environment."""
    os.makedirs(here.own, exist_ok=True)
    if here.instances > 1:
        os.chdir(here.own)  # each instance is a run of its own
    inside_path = os.path.join(here.own, "inside.json")
    recorder.phase("snapshot")
    inside = snapshot.before()
    write_json(inside_path, inside)
    gpus.demand(spec.get("gpus", 0))
    if here.instances > 1:
        recorder.phase("waiting for the other instances")
        place.start_together(here)

    workload = importlib.import_module("." + WORKLOADS[spec["workload"]], __package__)
    brought = workload.run(spec["parameters"], recorder, here) or {}
    if not recorder.has_steps and not recorder.has_metrics:
        raise ResultError("nothing was measured")

    write_json(inside_path, {**inside, **snapshot.after(), **brought})
    recorder.facts.update(workload=spec["workload"], parameters=spec["parameters"])
    if recorder.has_steps:
        recorder.metric(STEP_TIME, recorder.mean(STEP_TIME), "s")
        for name, value, unit in (
            ("step_time_sd", recorder.sd(STEP_TIME), "s"),
            ("tail_ratio", recorder.tail_ratio(STEP_TIME), "1"),
        ):
            if value:  # too few steps, or none that a clock can tell apart, have no spread
                recorder.metric(name, value, unit)
        recorder.metric("time_to_first_step", recorder.time_to_first_step(), "s")
    if CONTAINER_START in recorder.phases():
        recorder.metric("container_start", recorder.phases()[CONTAINER_START], "s")
    if "import" in recorder.phases():
        recorder.metric("import_time", recorder.phases()["import"], "s")
    recorder.write()
    if getattr(workload, "QUIET", False):  # what it printed is read as it is
        return
    for name, metric in sorted(recorder.document()["metrics"].items()):
        print(f"{name} = {metric['value']:.6g} {metric['unit']}")


def read_spec(path: str) -> dict[str, Any]:
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


def elapsed() -> Tuple[float, str]:
    """Seconds up to here, and the phase that they are.

    The job script says in TARE_BEGAN when it went to the wall; from there to the first line of
    Python is what a container costs before anything runs in it. When this process was forked is no
    border: most runtimes fork it first, then mount its image and start Python in its place.
    """
    age = process_age()
    try:
        since = time.time() - float(os.environ["TARE_BEGAN"])
    except (KeyError, ValueError):
        return age, "start"
    # A clock that was set meanwhile would make this process older than its beginning.
    return (since, CONTAINER_START) if since >= age - CLOCK_TICK else (age, "start")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
