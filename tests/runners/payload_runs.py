"""Running the payload as the cluster does: its files in a folder, a spec, a process."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.payload import read_payload_files
from runners.workloads import WORKLOADS
from runners.workloads.base import RESULT

# For JAX: how fast its programs are is no promise here, and making them so takes the most time.
IN_A_HURRY = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
}


@dataclass(frozen=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str
    result: bytes | None
    inside: dict[str, Any]
    leftovers: set[str]


def left(result: bytes | None) -> dict[str, bytes]:
    """What `Workload.read` takes, of a run that left this result."""
    return {} if result is None else {RESULT: result}


def run_payload(
    directory: Path,
    workload: str,
    parameters: Mapping[str, object],
    *,
    python: str = sys.executable,
    variables: Mapping[str, str] | None = None,
    files: Mapping[str, bytes] | None = None,
    gpus: int = 0,
    segment: Mapping[str, object] | None = None,
) -> Ran:
    """Run a workload in `directory`; `files` replaces some of the payload's own."""
    payload, run = directory / "payload", directory / "runs" / "0-x"
    payload.mkdir(parents=True)
    run.mkdir(parents=True)
    for name, content in {**read_payload_files(), **(files or {})}.items():
        (payload / name).parent.mkdir(exist_ok=True)
        (payload / name).write_bytes(content)
    spec = {"schema": 1, "run": "x", "workload": workload, "gpus": gpus}
    spec["parameters"] = dict(parameters)
    spec |= {"segment": dict(segment)} if segment else {}
    (run / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    argv = WORKLOADS["blas"].build_argv(python, str(payload), str(run))
    environ = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TARE_BEGAN": str(time.time())}
    environ |= variables or {}
    done = subprocess.run(argv, cwd=run, env=environ, capture_output=True, text=True, timeout=120)
    result, inside = run / "result.json", run / "inside.json"
    return Ran(
        done.returncode,
        done.stdout,
        done.stderr,
        result.read_bytes() if result.exists() else None,
        json.loads(inside.read_bytes()) if inside.exists() else {},
        {path.name for path in run.iterdir()} - {"spec.json", "inside.json", "result.json"},
    )
