"""Trainings over three jobs on the frameworks of the lab's images: what they learn is, bit by bit,
what one job learns. The payload runs as on a node, with a limit after which each step stops it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.client import Lab, ensure_lab, stop_lab
from runners.payload import read_payload_files
from runners.workloads import WORKLOADS

pytestmark = [pytest.mark.lab, pytest.mark.thorough]

SHORT = {"batch_size": 4, "burn_in": 1, "segments": 4, "evaluate_every": 1}
CNN = {**SHORT, "network": "mnist", "steps": 4, "optimizer": "adam", "evaluate_every": 2}
TILES = {**SHORT, "width": 4, "samples": 8, "tile_size": 32, "epochs": 2}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "cnn-pytorch": ("torch", "cnn", {**CNN, "framework": "pytorch"}),
    "segmentation-pytorch": ("torch", "segmentation", {**TILES, "framework": "pytorch"}),
    "cnn-tensorflow": ("tensorflow", "cnn", CNN),
    "segmentation-tensorflow": ("tensorflow", "segmentation", TILES),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("torch", "tensorflow"))
    stop_lab(directory)
    shutil.rmtree(directory)


def run_part(
    lab: Lab, name: str, kind: str, python: str, parameters: dict[str, Any], segment: Any
) -> tuple[int, str, Path]:
    """Run the payload in a folder of the lab; return its exit code, its words and its folder."""
    outside = lab.directory / "scratch" / name
    for path, content in read_payload_files().items():
        (outside / "payload" / path).parent.mkdir(parents=True, exist_ok=True)
        (outside / "payload" / path).write_bytes(content)
    run = outside / "runs" / "0-x"
    run.mkdir(parents=True)
    spec = {"schema": 1, "run": "x", "workload": kind, "gpus": 0, "parameters": parameters}
    (run / "spec.json").write_text(json.dumps(spec | ({"segment": segment} if segment else {})))
    argv = [python, f"/scratch/{name}/payload/main.py", f"/scratch/{name}/runs/0-x/spec.json"]
    done = lab.execute(argv, timeout=600)
    return done.returncode, done.stderr, run


@pytest.mark.parametrize("case", CASES)
def test_several_jobs_learn_what_one_learns(lab: Lab, case: str) -> None:
    image, kind, asked = CASES[case]
    python, parameters = lab.images[image].bare_metal.python, WORKLOADS[kind].clean(asked)
    code, words, whole = run_part(lab, f"{case}-whole", kind, python, parameters, None)
    assert code == 0, words
    earlier: list[str] = []
    for number in (1, 2, 3):
        limit = 1e-3 if number < 3 else 0
        segment = {"number": number, "most": 4, "limit_seconds": limit, "earlier": earlier}
        code, words, run = run_part(lab, f"{case}-{number}", kind, python, parameters, segment)
        assert code == (75 if number < 3 else 0), words
        earlier = [f"/scratch/{case}-{number}/runs/0-x", *earlier]
    one, several = (json.loads((path / "result.json").read_text()) for path in (whole, run))
    kept = ("loss", "accuracy", "accuracy_step", "mean_iou")
    names = [name for name in kept if name in one["series"]]
    assert {"loss", "accuracy"} <= set(names)
    for name in names:
        assert several["series"][name] == one["series"][name], name
    # Two steps less are counted, and one alone has no spread.
    assert set(one["metrics"]) - set(several["metrics"]) <= {"step_time_sd"}
    facts = json.loads((run / "segment.json").read_text())
    assert (facts["first_step"], facts["steps"], facts["ended"]) == (2, 4, "finished")
