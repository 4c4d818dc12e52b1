"""What the answers of tools mean: texts as Debian 13, Slurm 24.11.5 and Lustre print them."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.jobs import JobSpec, Resources
from runners.preflight import machine, node, queue
from runners.preflight.checks import (
    Check,
)
from runners.probes import Answer
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS, GridEngine, Slurm
from tests.runners.preflight_answers import GPU, HTML, OUTCOMES, RUNTIME, SIF, reply, start

SLURM = Slurm()
SINFO = "gpu|up|1:00:00|2|idle|gpu:h100:4(S:0-1)\ndebug|up|2:00|1|idle|(null)\n"
# --- The machine that we log in to

DF = """Filesystem     1024-blocks     Used Available Capacity Mounted on
10.0.0.1@tcp:/scratch   264212084 70435252  {free}      67% /scratch
"""


@pytest.mark.parametrize(
    ("free", "outcome", "message"),
    [
        (35955660, "ok", "34.3 of 252.0 GiB are free (mounted at /scratch, lustre)."),
        (5 * 1024**2, "warning", "5.0 of 252.0 GiB"),
        (1000, "failed", "0.0 of 252.0 GiB"),
    ],
)
def test_free_space_is_read_and_judged(free, outcome, message):
    (check,) = machine.check_disk(reply(DF.format(free=free)), reply(), reply("lustre"), area="x")
    assert (check.outcome, check.found[: len(message)]) == (outcome, message)
    assert bool(check.cure) == (outcome != "ok")


def test_free_inodes_are_read_too():
    inodes = "Filesystem Inodes IUsed IFree IUse% Mounted on\n/dev/vda 16777216 16777000 216 100% /"
    _, check = machine.check_disk(reply(DF.format(free=10**9)), reply(inodes), reply(), area="x")
    assert (check.outcome, check.found) == ("failed", "Room for 216 more files.")


QUOTA = """Disk quotas for user me (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      /dev/sda1  {used}   1000000 1100000       0     100       0       0       0
"""


@pytest.mark.parametrize(
    ("used", "outcome", "message"),
    [
        ("500000", "ok", "50% of the quota of space on /dev/sda1 is used."),
        ("990000", "warning", "99% of the quota of space on /dev/sda1 is used."),
        ("1050000*", "failed", "105% of the quota of space on /dev/sda1 is used."),
    ],
)
def test_a_quota_is_read_and_judged(used, outcome, message):
    check = machine.check_quota(reply(QUOTA.format(used=used)), area="x")
    assert (check.outcome, check.found) == (outcome, message)


def test_lustres_quota_has_the_same_columns():
    line = "/scratch 4 0 0 - 96 0 100 -"
    check = machine.check_quota(reply(line), area="x")
    assert (check.outcome, check.found) == (
        "warning",
        "96% of the quota of files on /scratch is used.",
    )


def test_no_quota_is_no_worry():
    assert machine.check_quota(reply("", code=127), area="x").outcome == "not applicable"
    assert (
        machine.check_quota(reply("Disk quotas for user me (uid 1): none"), area="x").outcome
        == "ok"
    )


@pytest.mark.parametrize(
    ("clock", "outcome", "message"),
    [
        (1000, "ok", "Agrees"),
        (1005, "ok", "Agrees"),
        (1100, "warning", "98 s ahead of"),
        (900, "warning", "99 s behind"),
    ],
)
def test_a_clock_is_held_against_ours(clock, outcome, message):
    check = machine.check_clock(str(clock), 1000.0, 1002.0, area="x")
    assert check.outcome == outcome
    assert check.found.startswith(message)


@pytest.mark.parametrize(
    ("answer", "outcome", "message"),
    [
        (reply("/w"), "ok", "/w can be written"),
        (reply("/"), "ok", "/w is not there yet; /, where Tare will make it"),
        (reply(stderr="mktemp: Permission denied", code=73), "failed", "/w cannot be written."),
        (reply(stderr="head: No space left on device", code=74), "failed", "/w is full."),
        (reply(stderr="mktemp: Disk quota exceeded", code=73), "failed", "/w is full."),
        (
            reply(stderr="ln: Operation not permitted", code=75),
            "failed",
            "/w has no hard links",
        ),
        (reply(code=124), "failed", "Writing a file there did not end in 5 s."),
    ],
)
def test_the_work_directory_is_judged_by_what_happened_there(answer, outcome, message):
    check = machine.check_work_directory(answer, "/w", area="x")
    assert check.outcome == outcome
    assert check.found.startswith(message)
    assert bool(check.cure) == (outcome == "failed")


# --- The scheduler


def read(text, partition=GPU, **kwargs):
    checks = list(
        queue.check_partitions(reply(text, **kwargs), SLURM, [partition], area="Scheduler")
    )
    return {check.name: check for check in checks}


def test_partitions_are_read_with_their_nodes_limits_and_gpus():
    checks = read(SINFO)
    assert checks["Partitions"].found == (
        "gpu (2 nodes of 4 GPUs, at most 1 h), debug (1 node, at most 2 min)."
    )
    assert checks["Limits"].outcome == checks["State"].outcome == "ok"


@pytest.mark.parametrize(
    ("text", "name", "outcome", "message"),
    [
        ("gpu|up|1:00:00|1|idle|gpu:4\ngpu|up|1:00:00|1|drained*|gpu:4", "State", "warning",
         "Not all nodes can start jobs: 1 drained, 1 idle."),
        ("gpu|up|1:00:00|2|down*|gpu:4", "State", "failed", "No node can start a job: 2 down."),
        ("gpu|inact|1:00:00|2|idle|gpu:4", "State", "failed", "The partition is inact."),
        ("gpu|up|30:00|2|idle|gpu:4", "Limits", "failed",
         "Forms allow 1 h, and the limit is 30 min."),
        ("gpu|up|2-00:00:00|2|idle|gpu:a100:2,shard:8", "Limits", "failed",
         "Forms allow 4 GPUs a node, and there are 2."),
        ("gpu|up|infinite|1|mixed|gpu:v100:2(S:0),gpu:a100:2", "Limits", "failed",
         "Forms allow 2 nodes, and there are 1."),
        ("cpu|up|infinite|1|mixed|(null)", "Limits", "failed", "Slurm has no partition gpu."),
    ],
)  # fmt: skip
def test_what_forms_allow_is_held_against_what_there_is(text, name, outcome, message):
    check = read(text)[name]
    assert (check.outcome, check.found) == (outcome, message)
    assert check.cure


@pytest.mark.parametrize(
    "answer",
    [
        reply(HTML),
        reply("Welcome\nto the cluster"),
        reply("gpu|up|1:00:00|two|idle|gpu:4"),
        reply(stderr="sinfo: error: Unable to contact slurm controller", code=1),
        reply(code=124),
        reply(code=127),
        reply(""),
    ],
)
def test_rubbish_from_sinfo_is_one_red_check(answer):
    (check,) = queue.check_partitions(answer, SLURM, [GPU], area="Scheduler")
    assert check.outcome == "failed"
    assert check.found
    assert check.cure


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("1:00:00", 3600), ("2:00", 120), ("1-12:00:00", 129600), ("infinite", None), ("n/a", None)],
)
def test_time_limits_are_read(limit, seconds):
    (facts,) = SLURM.parse_partitions(reply(f"p|up|{limit}|1|idle|(null)").completed)
    assert facts.time_limit_seconds == seconds


def test_a_trial_is_the_header_of_a_real_job():
    resources = Resources(90, gpus_per_node=2, partition="p q", directives=("--constraint=a100",))
    job = JobSpec("u", "n", "/w/jobs/u", (), resources)
    argv = SLURM.build_trial_command(job)
    assert "sbatch --test-only" in argv[2]
    assert argv[4:] == SLURM.render_header(job)
    at_once = SLURM.build_immediate_command(job, ["bash", "-c", "x y"], seconds=5)
    assert at_once[:3] == ["srun", "--immediate=5", "--input=none"]
    assert at_once[-3:] == ["bash", "-c", "x y"]
    assert {"--partition=p q", "--gres=gpu:2", "--time=2", "--constraint=a100"} < set(at_once)
    assert not [word for word in at_once if word.startswith(("--output", "--chdir", "--export"))]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (
            reply(stderr="sbatch: Job 3 to start at 2026-11-20T17:06:57 using 1 processors"),
            "ok",
        ),
        (reply(stderr="allocation failure: Requested time limit is invalid", code=1), "failed"),
        (
            reply(stderr="allocation failure: Unable to contact slurm controller", code=1),
            "failed",
        ),
        (reply(HTML), "failed"),
        (reply(code=124), "failed"),
    ],
)
def test_a_trial_is_judged(answer, outcome):
    assert queue.check_trial(answer, SLURM, "gpu").outcome == outcome


REJECTED = """Unable to run job: Job 3 cannot run in queue "short.q" because it is not contained in
Job 3 (-l gpu=9) cannot run at host "localhost" because it offers only hc:gpu=4.000000
verification: no suitable queues
Exiting."""


@pytest.mark.parametrize(
    ("answer", "outcome", "message"),
    [
        (reply("verification: found suitable queue(s)"), "ok", "verification: found"),
        (reply(stderr=REJECTED, code=1), "failed", "Unable to run job: Job 3"),
        (
            reply(stderr="error: commlib error: got select error", code=1),
            "failed",
            "Grid Engine",
        ),
    ],
)
def test_grid_engine_verifies_a_job_without_taking_it(answer, outcome, message):
    check = queue.check_trial(answer, GridEngine(), "main.q")
    assert check.outcome == outcome
    assert check.words.startswith(message)
    job = JobSpec("u", "n", "/w/jobs/u", (), Resources(90, gpus_per_node=2, partition="main.q"))
    argv = GridEngine().build_trial_command(job)
    assert "qsub -w v" in argv[2]
    assert argv[4:] == GridEngine().render_header(job)
    assert queue.check_version(reply("SGE 8.1.9"), "Grid Engine", area="x").value == "8.1.9"


@pytest.mark.parametrize(
    ("answer", "outcome", "message"),
    [
        (reply(stderr="srun: error: Unable to allocate resources: Requested nodes are busy",
               code=1), "warning", "No node was free"),
        (reply(stderr="srun: error: Invalid account", code=1), "failed", "A command could not be"),
        (reply(code=124), "failed", "The command on a node did not end"),
    ],
)  # fmt: skip
def test_a_node_that_was_not_to_be_had_is_told(answer, outcome, message):
    check = queue.explain_no_node(answer, SLURM, area="x", waited=5)
    assert check.outcome == outcome
    assert check.found.startswith(message)


# --- Whatever a tool prints

anything = st.builds(
    Answer,
    st.integers(0, 255),
    st.one_of(st.binary(), st.text().map(str.encode), st.just(HTML.encode())),
    st.binary(),
    st.integers(0, 60),
)


@given(anything, st.sampled_from(sorted(SCHEDULERS)), st.sampled_from(sorted(RUNTIMES)))
def test_no_answer_whatever_makes_a_check_fail_to_be_one(answer, scheduler, runtime):
    """Every answer ends as checks with an outcome, and whatever is red has a cure."""
    adapter = SCHEDULERS[scheduler]()
    answers = dict.fromkeys(
        ("system", "python", "node", "namespaces", "fuse", "cgroup", "clock"), answer
    )
    checks = [
        *machine.check_login_node(answers, answer.text, area="x"),
        machine.check_clock(answer.text, 0, 1, area="x"),
        machine.check_work_directory(answer, "/w", area="x"),
        *machine.check_disk(answer, answer, answer, area="x"),
        machine.check_quota(answer, area="x"),
        queue.check_version(answer, adapter.label, area="x"),
        *queue.check_partitions(answer, adapter, [GPU], area="x"),
        queue.check_trial(answer, adapter, "gpu"),
        queue.explain_no_node(answer, adapter, area="x", waited=5),
        *node.check_node(answers, area="x"),
        node.check_shared_directory(answer, "/w", area="x"),
        node.check_gpus(answer, area="x")[0],
        node.check_runtime(answer, replace(RUNTIME, kind=runtime), area="x"),
        start(answer, replace(SIF, runtime=runtime)),
    ]
    for check in checks:
        assert check.outcome in OUTCOMES
        assert check.found
        assert check.cure or check.outcome != "failed", check
        kept = check.as_json()
        assert not any("\0" in text for text in kept.values())
        assert Check.from_json(json.loads(json.dumps(kept).encode())).as_json() == kept
