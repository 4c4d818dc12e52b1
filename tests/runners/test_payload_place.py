"""Processes of one run find each other through files, and instances begin together."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload.frameworks import StartError
from runners.payload.place import RunProcess, find_interface, find_process, meet

ROOT = Path(__file__).parents[2]
MEETS = """
import json, sys
from runners.payload import place
rank, size, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
print(json.dumps(place.meet(place.RunProcess(directory, rank, size), seconds=30)))
"""
TOGETHER = """
import sys, time
from runners.payload import place
number, count, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
place.start_together(place.RunProcess(directory, instance=number, instances=count), seconds=30)
print(time.time())
"""


def start(script: str, *arguments: object) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_ranks_learn_the_same_addresses_and_no_port_twice(tmp_path):
    ranks = [start(MEETS, rank, 5, tmp_path) for rank in reversed(range(5))]
    printed = [json.loads(rank.communicate(timeout=60)[0]) for rank in ranks]
    assert len(printed[0]) == 5
    assert all(addresses == printed[0] for addresses in printed)
    # Under one kernel nothing has to be resolved.
    assert {address.partition(":")[0] for address in printed[0]} == {"127.0.0.1"}
    assert len({address.partition(":")[2] for address in printed[0]}) == 5


def test_a_rank_that_never_comes_is_named(tmp_path):
    with pytest.raises(StartError, match=r"rank 1, 2 of 3 did not come within 0.05 s"):
        meet(RunProcess(str(tmp_path), rank=0, size=3), seconds=0.05)


def test_ranks_of_several_machines_are_known_by_address(tmp_path):
    (tmp_path / "meet").mkdir()
    far = {"host": "10.0.0.2", "port": 4711, "machine": "another"}
    (tmp_path / "meet" / "1").write_text(json.dumps(far))
    near, other = meet(RunProcess(str(tmp_path), rank=0, size=2))
    assert other == "10.0.0.2:4711"
    assert near.rpartition(":")[0] not in ("", "127.0.0.1", "0.0.0.0")


def test_an_address_leads_to_the_interface_that_has_it():
    assert find_interface("127.0.0.1") == "lo"
    assert find_interface("192.0.2.1") == find_interface("node7") == ""


def test_who_is_alone_waits_for_nobody(tmp_path):
    assert len(meet(RunProcess(str(tmp_path)))) == 1


def test_instances_go_on_when_the_last_one_has_come(tmp_path):
    folders = [tmp_path / f"instance-{number}" for number in range(3)]
    running = [start(TOGETHER, number, 3, folders[number]) for number in (0, 1)]
    last = start(TOGETHER, 2, 3, folders[2])
    times = [float(process.communicate(timeout=60)[0]) for process in (*running, last)]
    arrived = max(path.stat().st_mtime for path in (tmp_path / "together").iterdir())
    assert all(time >= arrived - 0.05 for time in times)
    assert max(times) - min(times) < 1


@given(rank=st.integers(0, 99), size=st.integers(1, 99), gpus=st.integers(0, 8))
def test_the_variables_say_which_process_this_is(rank, size, gpus):
    variables = {"TARE_RANK": str(rank), "TARE_SIZE": str(size), "TARE_LOCAL_RANK": "1"}
    process = find_process({"nodes": 2, "gpus": gpus}, "/runs/0-x", variables)
    assert (process.rank, process.size, process.local_rank, process.nodes) == (rank, size, 1, 2)
    assert process.own_directory == ("/runs/0-x" if rank == 0 else f"/runs/0-x/rank-{rank}")


def test_an_instance_has_a_directory_of_its_own():
    process = find_process({"gpus": 1}, "/runs/0-x", {"TARE_INSTANCE": "3", "TARE_INSTANCES": "4"})
    assert process.directory == process.own_directory == "/runs/0-x/instance-3"
    assert (process.rank, process.size) == (0, 1)
