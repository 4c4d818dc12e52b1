"""The page cache before a run: what is made cold or warm, in real jobs on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import page_cache
from runners.ends import find_end
from runners.jobs import DataSpec, EnvironmentSpec, RunSpec
from runners.page_cache_records import describe_page_cache
from runners.payload import page_cache as payload
from runners.payload import pages
from runners.workloads import WORKLOADS
from runners.workloads.page_cache import AS_IT_IS, COLD, WARM
from tests.runners.direct_jobs import PARAMETERS, finished

MB = 1_000_000


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files that are on the disk and in memory; skipped where the disk is memory itself."""
    folder = tmp_path / "tree"
    (folder / "deep").mkdir(parents=True)
    for name, size in (("large", 8 * MB), ("deep/small", 5000), ("empty", 0)):
        (folder / name).write_bytes(os.urandom(size))
    (folder / "loop").symlink_to(folder)
    (folder / "gone").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    os.sync()
    with (folder / "large").open("rb") as file:
        pages.drop(file.fileno(), written=True)
        share = pages.measure_cached_share(file.fileno(), 8 * MB)
    if share is None or share > 0.1:
        pytest.skip("the file system of temporary files keeps them in memory")
    return folder


@pytest.mark.parametrize(("policy", "least", "most"), [(COLD, 0, 0.1), (WARM, 0.9, 1)])
def test_files_are_cold_or_warm_afterwards(
    tree: Path, policy: str, least: float, most: float
) -> None:
    payload.bring_about(WARM if policy == COLD else COLD, [str(tree)])
    found = payload.bring_about(policy, [str(tree), str(tree / "large")])
    assert least <= float(str(found.pop("cached"))) <= most
    assert found == {"policy": policy, "files": 2, "bytes": 8 * MB + 5000, "unreadable": 0}
    share = payload.measure(policy, payload.list_files([str(tree)]))
    assert share is not None
    assert least <= share <= most


def test_mincore_says_the_same_as_the_probes(tree: Path) -> None:
    with (tree / "large").open("rb") as file:
        payload.prepare(WARM, {str(tree / "large"): 8 * MB})
        assert payload.ask_mincore(file.fileno(), 8 * MB) == 1
        payload.prepare(COLD, {str(tree / "large"): 8 * MB})
        assert payload.ask_mincore(file.fileno(), 8 * MB) == 0


def test_what_probes_have_read_of_others_files_is_dropped_again(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files of others the probes tell, and newer kernels read what is asked for."""
    ask = payload.ask_mincore
    monkeypatch.setattr(payload, "ask_mincore", lambda file, size: None)
    payload.prepare(WARM, {str(tree / "large"): 8 * MB})
    assert payload.bring_about(COLD, [str(tree)])["cached"] == 0
    with (tree / "large").open("rb") as file:
        share = ask(file.fileno(), 8 * MB)
    assert share is not None
    assert share <= 0.1


def test_files_that_stay_in_memory_are_not_called_cold(tree: Path) -> None:
    memory = Path("/dev/shm")
    place = memory / f"tare-test-{os.getpid()}"
    place.write_bytes(bytes(MB))
    try:
        with pytest.raises(payload.Unusable, match=r"stayed in memory|does not tell"):
            payload.bring_about(COLD, [str(place)])
    finally:
        place.unlink()


def test_what_is_not_there_or_too_large_is_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(payload.Unusable, match="does not exist"):
        payload.bring_about(COLD, [str(tree), str(tree / "no")])
    with pytest.raises(payload.Unusable, match="no file of"):
        payload.bring_about(COLD, [])
    monkeypatch.setattr(payload, "read_free_memory", lambda: 9 * MB)
    with pytest.raises(payload.Unusable, match=r"have 8\.0 MB, and the node has 9\.0 MB"):
        payload.bring_about(WARM, [str(tree)])
    monkeypatch.setattr(payload, "MOST_FILES", 1)
    with pytest.raises(payload.Unusable, match="more than 1 files"):
        payload.bring_about(COLD, [str(tree)])


def test_of_many_files_the_largest_and_every_so_many_are_probed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(payload, "MOST_MEASURED", 100)
    files = {f"/f{number:05}": number + 1 for number in range(5000)}
    chosen = payload.choose_measured(files)
    assert len(chosen) <= 110
    assert chosen[0] == "/f04999"
    assert "/f00000" in chosen


def prepared(job: Any, policy: str) -> Any:
    runs = (replace(run, parameters={**PARAMETERS, "page_cache": policy}) for run in job.runs)
    return replace(job, runs=tuple(runs))


def write_software(folder: Path) -> str:
    """Return a shell script that stands for an interpreter whose modules lie in `folder`."""
    return f"case \"$*\" in *sys.path*) echo '{folder}'; exit;; esac; exit 0"


@pytest.mark.parametrize("policy", [COLD, WARM])
def test_a_job_prepares_each_run_and_keeps_what_was_found(
    runner: Any, block: Any, program: Any, tree: Path, policy: str
) -> None:
    script = write_software(tree)
    job = prepared(block(program(script), program(script)), policy)
    record = finished(runner, job, runner.submit(job))
    for run in record.runs.values():
        assert run.exit_code == 0
        assert run.page_cache.startswith(f"page cache {policy}: before the run ")
        assert run.page_cache.endswith(" % of 8.0 MB in 2 files were in memory")


def test_a_run_that_cannot_be_cold_fails_with_the_reason_and_the_next_one_goes_on(
    runner: Any, block: Any, program: Any, tree: Path
) -> None:
    missing = write_software(tree / "no")
    job = prepared(block(program(missing), program(write_software(tree))), COLD)
    record = finished(runner, job, runner.submit(job))
    first, second = record.runs["r0"], record.runs["r1"]
    assert first.failure == f"page cache not cold: {tree}/no does not exist on the node"
    assert first.page_cache == ""
    assert second.exit_code == 0
    for policy in (COLD, WARM):
        assert find_end(f"page cache not {policy}") is not None


SIF = EnvironmentSpec(
    *("box", "apptainer"),
    image_format="sif",
    image_path="/i.sif",
    binds=("/scratch:/data", "/home", "/fast:/data/fast"),
)


@pytest.mark.parametrize(
    ("folder", "places"),
    [
        ("/data", ["/scratch"]),
        ("/data/mnist/small", ["/scratch/mnist/small"]),
        ("/data/fast/mnist", ["/fast/mnist"]),  # a bind within a bind
        ("/database", []),  # of the image itself
        ("/home/ada", ["/home/ada"]),
        ("{data}", []),
        ("", []),
    ],
)
def test_data_are_found_where_the_node_has_them(folder: str, places: list[str]) -> None:
    run = RunSpec("r", 0, "cnn", {"data_directory": folder}, SIF)
    assert page_cache.list_data_places(run) == places
    data = DataSpec("MNIST", "d", "/sets/mnist", "m", "looks")
    assert page_cache.list_data_places(replace(run, data=data)) == ["/sets/mnist", *places]


def test_it_can_be_had_where_images_are_files_that_a_user_can_read() -> None:
    assert page_cache.why_not_prepared("bare_metal", "", "python3") == ""
    assert "without an interpreter" in page_cache.why_not_prepared("bare_metal", "", "none")
    for runtime, form in (("apptainer", "sif"), ("udocker", "udocker"), ("enroot", "squashfs")):
        assert page_cache.why_not_prepared(runtime, form, "python3") == ""
    for runtime, form in (("podman", "podman"), ("enroot", "enroot"), ("shifter", "shifter")):
        assert "no user of the node" in page_cache.why_not_prepared(runtime, form, "python3")


@pytest.mark.parametrize("kind", WORKLOADS)
def test_each_workload_has_it_and_leaves_it_out_where_it_is_as_usual(kind: str) -> None:
    given: dict[str, object] = {"argv": "true"} if kind == "command" else {}
    workload = WORKLOADS[kind]
    assert "page_cache" not in workload.clean(given)
    assert "page_cache" not in workload.clean({**given, "page_cache": AS_IT_IS})
    assert workload.clean({**given, "page_cache": COLD})["page_cache"] == COLD


@given(st.binary(max_size=200))
def test_any_bytes_in_the_record_are_read_or_left(content: bytes) -> None:
    assert describe_page_cache(content) == ""


@pytest.mark.parametrize(
    "change",
    [{"cached": 2}, {"cached": "x"}, {"files": -1}, {"files": True}, {"bytes": 1e5}, {"policy": 1}],
)
def test_a_record_that_cannot_be_is_none(change: dict[str, object]) -> None:
    found = {"policy": "cold", "files": 3, "bytes": 2 * MB, "cached": 0.004}
    assert describe_page_cache(json.dumps(found).encode()) == (
        "page cache cold: before the run 0.4 % of 2.0 MB in 3 files were in memory"
    )
    assert describe_page_cache(json.dumps(found | change).encode()) == ""
    assert describe_page_cache(b'{"policy": "cold", "cached": NaN}') == ""
