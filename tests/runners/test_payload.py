"""What travels to the cluster: the same files everywhere, and named failures."""

import ast
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners import payload
from runners.payload import hash_payload, main, read_payload_files
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import left, run_payload

SMALL = {"matrix_size": 16, "decomposition_size": 8, "steps": 5, "burn_in": 2}
BLAS = WORKLOADS["blas"].clean(SMALL)


def test_only_the_programs_travel() -> None:
    assert {name.partition("/")[0] for name in read_payload_files()} == {
        "main.py", "recorder.py", "snapshot.py", "frameworks.py", "gpus.py", "blas.py", "training",
        "survey.py", "inventory.py", "manifests.py", "image_archive.py", "layers.py",
        "merged_tree.py", "pack.py", "unpack.py",
        "software.py", "install.py", "extend.py", "place.py", "command.py",
        "blas_libraries.py", "files.py", "pages.py", "startup.py", "programs.py",
        "executables.py", "memory.py", "gpu_energy.py", "node_settings.py", "elf.py", "loaded.py",
        "checkouts.py", "data_files.py", "git_changes.py", "git_objects.py",
        "outside.py", "inside.sh", "software.sh", "software_files.py",
        "outside_measures.py", "inside_files.sh", "inside_startup.sh", "shell_inside.py",
        "loaded_inside.py",
        "adopt.py", "bounded.py", "build_failures.py", "podman_build.py", "own_tree.py",
        "conda_install.py", "launchers.py", "tree_paths.py",
        "code_archive.py", "code_fetch.py", "code_tree.py", "strict_tar.py", "xz_stream.py",
        "own_checkpoints.py", "page_cache.py", "resumed.py",
    }  # fmt: skip


def test_the_program_knows_each_workload_that_can_be_launched() -> None:
    assert set(main.WORKLOADS) == set(WORKLOADS)


def test_the_hash_tells_payloads_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {hash_payload()}
    for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {}):
        monkeypatch.setattr(payload, "read_payload_files", lambda files=files: files)
        hashes.add(hash_payload())
    assert len(hashes) == 5
    assert all(len(bytes.fromhex(text)) == hashlib.sha256().digest_size for text in hashes)


@pytest.mark.parametrize("name", sorted(name for name in read_payload_files() if ".py" in name))
def test_starts_on_python_3_8_with_the_standard_library_alone(name: str) -> None:
    tree = ast.parse(read_payload_files()[name], feature_version=(3, 8))
    at_the_top: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            at_the_top |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            at_the_top.add(str(node.module).partition(".")[0])
    assert at_the_top <= sys.stdlib_module_names
    assert "__future__" in at_the_top, "annotations must not be evaluated on 3.8"


def test_a_run_leaves_a_result_and_a_snapshot_and_nothing_else(tmp_path: Path) -> None:
    ran = run_payload(tmp_path, "blas", BLAS)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.result is not None
    assert ran.inside["schema"] == json.loads(ran.result)["schema"] == 1
    assert ran.leftovers == set()
    assert "step_time = " in ran.stdout


def test_a_directory_of_any_name_will_do(tmp_path: Path) -> None:
    ran = run_payload(tmp_path / 'it\'s a $(touch x) "dir"\n für Läufe', "blas", BLAS)
    assert (ran.returncode, ran.leftovers) == (0, set())


def test_the_phases_are_the_life_of_the_process(tmp_path: Path) -> None:
    began = time.perf_counter()
    ran = run_payload(tmp_path, "blas", BLAS)
    life = time.perf_counter() - began
    phases = WORKLOADS["blas"].read(left(ran.result), {}).phases
    assert list(phases) == [
        "container start", "snapshot", "import", "build",
        "first step", "burn-in", "steady state", "end", "record",
    ]  # fmt: skip
    assert all(seconds >= 0 for seconds in phases.values())
    assert life / 4 < sum(phases.values()) < life


def test_the_container_start_is_what_lies_before_the_first_line(tmp_path: Path) -> None:
    went = {"TARE_BEGAN": str(time.time() - 100)}
    result = WORKLOADS["blas"].read(
        left(run_payload(tmp_path, "blas", BLAS, variables=went).result), {}
    )
    seconds, unit = result.measurements["container_start"]
    assert (100 < seconds < 160, unit) == (True, "s")
    assert result.phases["container start"] == seconds
    assert result.measurements["time_to_first_step"][0] > seconds


@pytest.mark.parametrize("went", ["", "yesterday", "9999999999"])
def test_a_container_start_that_nobody_knows_is_left_out(tmp_path: Path, went: str) -> None:
    """Also when the node's clock was set in between: a process is not older than its wall."""
    ran = run_payload(tmp_path, "blas", BLAS, variables={"TARE_BEGAN": went})
    result = WORKLOADS["blas"].read(left(ran.result), {})
    assert "container_start" not in result.measurements
    assert next(iter(result.phases)) == "start"


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has no packages at all."""
    directory = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    return str(directory / "bin" / "python")


@pytest.mark.parametrize(("kind", "label"), [("blas", "NumPy"), ("cnn", "TensorFlow")])
def test_a_missing_framework_is_named(
    tmp_path: Path, bare_python: str, kind: str, label: str
) -> None:
    ran = run_payload(tmp_path, kind, WORKLOADS[kind].clean({}), python=bare_python)
    assert (ran.returncode, ran.result) == (2, None)
    assert ran.stderr.startswith(f"{label} is not installed in this environment: {bare_python}")
    assert ran.stderr.count("\n") == 1
    assert ran.inside["packages"] == {}, "the snapshot is there to explain the failure"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (b"import missing_part", "NumPy is installed but lacks a part of it: No module named"),
        (b"raise ImportError('libblas.so.3: no such file\\nAdvice.')", "libblas.so.3: no such"),
    ],
)
def test_a_broken_framework_is_named(tmp_path: Path, broken: bytes, message: str) -> None:
    (tmp_path / "numpy.py").write_bytes(broken)
    variables = {"PYTHONPATH": str(tmp_path)}
    ran = run_payload(tmp_path / "run", "blas", BLAS, variables=variables)
    assert (ran.returncode, ran.result) == (2, None)
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_an_unknown_workload_is_named(tmp_path: Path) -> None:
    ran = run_payload(tmp_path, "os", {})
    assert (ran.returncode, ran.result, ran.inside) == (2, None, {})
    known = "blas, cnn, command, files, segmentation, startup"
    assert ran.stderr == f"unknown workload 'os'; this payload knows {known}\n"


@pytest.mark.parametrize("spec", ["", "[]", '{"schema": 1}', '{"schema": 2, "workload": "blas"}'])
def test_a_spec_that_cannot_be_read_is_named(tmp_path: Path, spec: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(spec)
    argv = [sys.executable, str(Path(payload.__file__).with_name("main.py")), str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("recorder.step(); recorder.metric('loss', float('nan'), '1')", 3, "loss is nan"),
        ("pass", 3, "nothing was measured"),
        ("raise MemoryError('matrix too large')", 1, "matrix too large"),
        ("import os; os._exit(9)", 9, ""),
    ],
)
def test_a_workload_that_fails_leaves_no_result(
    tmp_path: Path, body: str, code: int, message: str
) -> None:
    program = (
        f"def run(parameters, recorder, process):\n    recorder.phase('import'); {body}\n".encode()
    )
    ran = run_payload(tmp_path, "blas", {}, files={"blas.py": program})
    steps = {"result.jsonl"} if "step()" in body else set()
    assert (ran.returncode, ran.result, ran.leftovers) == (code, None, steps)
    assert message in ran.stderr.splitlines()[-1] if message else not ran.stderr
