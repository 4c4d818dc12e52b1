"""What a preflight reads of Grid Engine's queues: texts as qstat prints them, facts out."""

import pytest

from runners.errors import Refused, TryAgain
from runners.jobs import Resources
from runners.preflight import PartitionSpec, queue
from runners.probes import Answer
from runners.schedulers import GridEngine
from runners.transports.base import Completed

RULE = "-" * 81
LISTED = f"""queuename         qtype resv/used/tot. load_avg arch          states
{RULE}
main.q@node1      BIP   0/1/8          5.15     lx-amd64      
\tqf:h_rt=infinity
      2 0.50000 STDIN      researcher   r     11/20/2026 20:16:35     1        
{RULE}
main.q@node2      BIP   0/0/8          -NA-     -NA-          au
\tqf:h_rt=infinity
{RULE}
main.q@node3      BIP   8/8            0.02     lx-amd64      
\tqf:h_rt=24:00:00
{RULE}
short.q@node1     BIP   0/0/8          5.15     lx-amd64      d
\tqf:h_rt=00:02:00

############################################################################
 - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS
############################################################################
      3 0.00000 STDIN      researcher   qw    11/20/2026 20:16:35     1
"""  # noqa: W291 - as it prints it


def reply(text="", code=0, stderr=""):
    return Completed(code, text.encode(), stderr.encode())


def checks(text, **ask):
    resources = Resources(**{"time_limit_seconds": 60, "partition": "main.q", **ask})
    partitions = [PartitionSpec(ask.pop("nodes", 1), resources)]
    answer = Answer(0, text.encode(), b"")
    results = queue.check_partitions(answer, GridEngine(), partitions, area="Scheduler")
    return {(check.area, check.name): check for check in results}


def test_queues_are_read_with_their_hosts_and_limits():
    main, short = GridEngine().parse_partitions(reply(LISTED))
    assert (main.name, main.state, main.time_limit_seconds) == ("main.q", "up", None)
    assert main.nodes == {"mixed": 1, "unreachable": 1, "allocated": 1}
    assert (short.name, short.time_limit_seconds) == ("short.q", 120)
    assert short.nodes == {"disabled": 1}
    assert main.gpus_per_node is None


def test_a_host_that_does_not_answer_is_amber_and_a_queue_without_any_is_red():
    results = checks(LISTED)
    assert results["Scheduler", "Partitions"].found == (
        "main.q (3 nodes, no time limit), short.q (1 node, at most 2 min)."
    )
    assert results["Partition main.q", "Limits"].outcome == "ok"
    state = results["Partition main.q", "State"]
    assert (state.outcome, "1 unreachable" in state.found) == ("warning", True)
    state = checks(LISTED, partition="short.q")["Partition short.q", "State"]
    assert (state.outcome, "1 disabled" in state.found) == ("failed", True)


def test_more_time_than_a_queue_has_is_red_and_gpus_are_left_to_the_trial():
    results = checks(LISTED, partition="short.q", time_limit_seconds=3600, gpus_per_node=64)
    limits = results["Partition short.q", "Limits"]
    assert limits.found == "Forms allow 1 h, and the limit is 2 min."


def test_a_queue_that_is_not_there_is_red_with_those_that_are():
    limits = checks(LISTED, partition="nope.q")["Partition nope.q", "Limits"]
    assert limits.cure == "It has main.q, short.q: mend the name under Edit."


@pytest.mark.parametrize("name", ["*", "main.q@node1", "main.q,short.q", "*gpu*"])
def test_a_name_that_leaves_the_choice_is_not_missed(name):
    limits = checks(LISTED, partition=name)[f"Partition {name}", "Limits"]
    assert limits.outcome == "not applicable"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (reply("<html>down for maintenance</html>"), Refused),
        (reply(stderr="error: commlib error: got select error", code=1), TryAgain),
        (reply(code=124), TryAgain),
    ],
)
def test_what_is_no_list_is_told(answer, problem):
    with pytest.raises(problem):
        GridEngine().parse_partitions(answer)
