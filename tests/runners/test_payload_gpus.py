"""A GPU that was asked for is there, or the run fails by name."""

import json
import os
from pathlib import Path

import pytest

from runners.payload import gpus, read_payload_files
from runners.records import read_record
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import Ran, run_payload

SMALL = {"matrix_size": 16, "decomposition_size": 8, "steps": 5, "burn_in": 2}
BLAS = WORKLOADS["blas"].clean(SMALL)


def run_on_a_node(directory: Path, cards: int, *, asked: int, usable: str = "") -> Ran:
    """Run on a node whose kernel drives so many GPUs; `usable` is what the driver inside says."""
    driver = directory / "driver"
    for card in range(cards):
        (driver / f"0000:0{card}:00.0").mkdir(parents=True)
    program = read_payload_files()["gpus.py"].replace(gpus.DRIVER.encode(), str(driver).encode())
    program = program.replace(gpus.LIBRARY.encode(), b"libtare-none.so")
    if usable:
        program = program.replace(b"json.dumps(count_usable())", repr(usable).encode())
    return run_payload(directory / "run", "blas", BLAS, files={"gpus.py": program}, gpus=asked)


@pytest.mark.parametrize(
    ("cards", "asked", "usable"),
    [(0, 2, ""), (4, 0, ""), (4, 2, '[2, ""]'), (4, 2, '[4, ""]')],
    ids=["a node without a driver", "none asked for", "as many", "more"],
)
def test_a_run_goes_on(tmp_path, cards, asked, usable):
    ran = run_on_a_node(tmp_path, cards, asked=asked, usable=usable)
    assert (ran.returncode, ran.leftovers) == (0, set()), ran.stderr


@pytest.mark.parametrize(
    ("usable", "message"),
    [
        ("", "0 usable in here (libtare-none.so: cannot open shared object file"),
        ('[0, "the CUDA driver answers 100"]', "0 usable in here (the CUDA driver answers 100)"),
        ('[1, ""]', "1 usable in here; the node has 4"),
        ("Segmentation fault", "0 usable in here (Expecting value"),
    ],
)
def test_a_missing_gpu_is_named_before_anything_is_measured(tmp_path, usable, message):
    ran = run_on_a_node(tmp_path, 4, asked=2, usable=usable)
    assert (ran.returncode, ran.result) == (4, None)
    assert ran.stderr.startswith("GPU missing: 2 asked for, ")
    assert message in ran.stderr
    assert ran.leftovers == {"failure"}
    left = (tmp_path / "run" / "runs" / "0-x" / "failure").read_bytes()
    failure = read_record({"runs/0-x/failure": left, "runs/0-x/exit_code": b"4"}).runs["x"].failure
    assert failure == ran.stderr.strip()
    assert failure.partition(":")[0] == "GPU missing"


def test_one_instance_of_a_divided_gpu_is_all_that_cuda_shows(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "DRIVER", str(tmp_path))
    (tmp_path / "card").mkdir()
    probe = tmp_path / "probe.py"
    probe.write_text(f"print({json.dumps([1, ''])!r})")
    monkeypatch.setattr(gpus, "__file__", os.fspath(probe))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1,MIG-2")
    gpus.require_gpus(2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(gpus.GPUMissing, match="2 asked for, 1 usable"):
        gpus.require_gpus(2)


def test_a_driver_that_is_none_counts_nothing(monkeypatch):
    monkeypatch.setattr(gpus, "LIBRARY", "libc.so.6")
    count, reason = gpus.count_usable()
    assert count == 0
    assert "cuInit" in reason
