"""`startup`: fresh interpreters, what they import, and a name for what cannot be imported."""

import statistics
from pathlib import Path
from typing import Any

import pytest

from runners.workloads import WORKLOADS
from tests.runners.payload_runs import Ran, left, run_payload

STARTUP = WORKLOADS["startup"]
SMALL = {"module": "json", "forks": 3, "steps": 3, "burn_in": 1}

NOT_HERE = {"tail_ratio", "instance_spread"}  # these need more steps, and several instances


def run(directory: Path, *, variables: dict[str, str] | None = None, **parameters: object) -> Ran:
    cleaned = STARTUP.clean({**SMALL, **parameters})
    return run_payload(directory, "startup", cleaned, variables=variables)


def result_of(ran: Ran, **parameters: object) -> Any:
    assert (ran.returncode, ran.stderr) == (0, "")
    return STARTUP.read(left(ran.result), STARTUP.clean({**SMALL, **parameters}))


def test_the_first_start_stands_apart_from_the_mean_of_the_others(tmp_path: Path) -> None:
    result = result_of(run(tmp_path))
    numbers = {name: value for name, (value, _) in result.measurements.items()}
    declared = {metric.name for metric in STARTUP.list_metrics({})}
    assert set(numbers) == declared - NOT_HERE
    for name in ("interpreter_start", "import_time"):
        values = result.series[name][1]
        assert numbers[f"first_{name}"] == values[0]
        assert numbers[name] == pytest.approx(statistics.fmean(values[1:]))
    assert numbers["fork_time"] < numbers["interpreter_start"]
    assert numbers["files_opened"] >= 1
    assert numbers["modules_loaded"] > 10


def test_without_programs_there_is_no_time_of_any(tmp_path: Path) -> None:
    result = result_of(run(tmp_path, forks=0, steps=1, burn_in=0), forks=0)
    declared = {metric.name for metric in STARTUP.list_metrics({"forks": 0})}
    assert set(result.measurements) == declared - NOT_HERE - {"step_time_sd"}


def test_a_module_that_prints_and_leaves_threads_is_measured(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import threading, time, atexit\n"
        "print('{\"seconds\": 7}')\n"
        "atexit.register(print, 'farewell')\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "time.sleep(0.2)\n"
    )
    ran = run(tmp_path / "run", module="loud", variables={"PYTHONPATH": str(tmp_path)}, steps=2)
    assert 0.2 <= result_of(ran).measurements["import_time"][0] < 7


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("tensorflow", "TensorFlow is not installed in this environment: "),
        ("no.such.module", "no.such.module is not installed in this environment: "),
        ("json.none", "json.none is not installed in this environment: "),
        ("broken", "broken is installed but does not load: No module named 'missing_part'"),
        ("half", "half is installed but does not load: libhalf.so.3: no such file"),
        ("crash", "importing crash ended Python with exit code 7"),
        ("os; print(1)", "'os; print(1)' is not the name of a module"),
        ("", "'' is not the name of a module"),
    ],
)
def test_what_cannot_be_imported_is_named(tmp_path: Path, module: str, message: str) -> None:
    (tmp_path / "broken.py").write_text("import missing_part")
    (tmp_path / "half.py").write_text("raise ImportError('libhalf.so.3: no such file\\nAdvice.')")
    (tmp_path / "crash.py").write_text("import os; os._exit(7)")
    ran = run(tmp_path / "run", module=module, variables={"PYTHONPATH": str(tmp_path)})
    assert (ran.returncode in (2, 3), ran.result) == (True, None)
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("module", ["", "os; print(1)", "a..b", "-m", "3d"])
def test_what_is_no_module_is_refused_before_the_launch(module: str) -> None:
    def refusals(name: str) -> list[str]:
        return STARTUP.list_refusals(STARTUP.clean({"module": name}), nodes=1, gpus=0, processes=1)

    (message,) = refusals(module)
    assert "is not the name of a module" in message
    assert refusals("torch.nn") == refusals("numpy") == []
