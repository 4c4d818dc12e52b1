"""What the answers of tools mean: texts as Debian 13, Slurm 24.11.5 and Lustre print them."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.jobs import EnvironmentSpec, JobSpec, Resources
from runners.preflight import machine, node, queue
from runners.preflight.checks import (
    Check,
    PartitionSpec,
    RuntimeSpec,
    find_changes,
    find_worst_outcome,
)
from runners.probes import Answer
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS, GridEngine, Slurm

SLURM = Slurm()
GPU = PartitionSpec(2, Resources(3600, gpus_per_node=4, partition="gpu"))
SIF = EnvironmentSpec("SIF", "apptainer", image_path="/x.sif", python="/opt/python")
RUNTIME = RuntimeSpec("Apptainer", "apptainer", "/usr/bin/apptainer", "1.4.5")
SINFO = "gpu|up|1:00:00|2|idle|gpu:h100:4(S:0-1)\ndebug|up|2:00|1|idle|(null)\n"
HTML = "<!DOCTYPE html>\n<html><body>503</body></html>"
OUTCOMES = {"ok", "warning", "failed", "not applicable"}


def reply(stdout="", stderr="", code=0):
    return Answer(code, stdout.encode(), stderr.encode(), seconds=5)


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
    argv = SLURM.trial(job)
    assert "sbatch --test-only" in argv[2]
    assert argv[4:] == SLURM.header(job)
    at_once = SLURM.at_once(job, ["bash", "-c", "x y"], seconds=5)
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
    argv = GridEngine().trial(job)
    assert "qsub -w v" in argv[2]
    assert argv[4:] == GridEngine().header(job)
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


# --- A node, and what runs there


def inside(**facts):
    line = "tare:" + json.dumps({"python": "3.13.5", **facts})
    return reply(f"INFO: noise\r\n{line}\r\n")


def start(answer, spec=SIF, *, requested=1, on_node=1):
    return node.check_environment(answer, spec, area="x", gpus_asked=requested, gpus_there=on_node)


def test_an_environment_that_starts_says_what_is_inside():
    check = start(inside(os="Debian 13", gpus=1))
    assert check.outcome == "ok"
    assert check.found == "Starts: Python 3.13.5, Debian 13; 1 GPU inside."


def test_a_container_without_the_nodes_gpu_is_red_though_it_ended_well():
    missing = "libcuda.so.1: cannot open shared object file: No such file or directory"
    check = start(inside(gpus=0, driver=missing))
    assert check.outcome == "failed"
    assert "sees no GPU where the node has 1" in check.found
    assert "--nv" in check.cure
    assert check.words == missing


def test_without_a_gpu_on_the_node_nothing_is_expected_inside():
    assert start(inside(gpus=0), on_node=0).outcome == "ok"
    assert "GPU inside" not in start(inside(gpus=True), on_node=0).found, "yes is no count"
    assert start(inside(gpus=0), requested=0).outcome == "ok"


@pytest.mark.parametrize(
    ("answer", "message", "cure"),
    [
        (reply(stderr="FATAL: could not open image /x.sif: no such file or directory", code=255),
         "/x.sif is not there", "Is the image staged"),
        (reply(stderr="timeout: failed to run command 'apptainer': No such file or directory",
              code=127), "The runtime is not there", "executable's path"),
        (reply(stderr="env: '/opt/python': No such file or directory", code=127),
         "/opt/python is not in the image", "interpreter's path"),
        (reply(stderr="FATAL: squashfuse_ll mount: fuse: device not found", code=255),
         "cannot be mounted", "sandbox"),
        (reply(stderr="ERROR: could not write /proc/1/uid_map: Operation not permitted", code=1),
         "may not make a container", "user namespaces"),
        (reply(code=124), "did not start within 5 s", "load"),
        (reply(HTML), "does not start (exit code 0)", "by hand"),
        (reply("", code=0), "does not start", "by hand"),
        (reply("tare:{not json"), "does not start", "by hand"),
    ],
)  # fmt: skip
def test_an_environment_that_does_not_start_is_red_with_its_cure(answer, message, cure):
    check = start(answer)
    assert check.outcome == "failed"
    assert message in check.found
    assert cure in check.cure


@pytest.mark.parametrize(
    ("answer", "outcome", "message"),
    [
        (reply("apptainer version 1.4.5"), "ok", "is 1.4.5."),
        (reply(stderr="1.4.5"), "ok", "is 1.4.5."),
        (reply("apptainer version 1.5.0"), "warning", "is 1.5.0; the catalogue says 1.4.5."),
        (reply("", code=127), "failed", "is not there."),
        (reply(HTML), "failed", "answered with a web page."),
        (reply("hello"), "failed", "prints no version."),
        (reply(code=124), "failed", "did not end in 5 s."),
    ],
)
def test_a_runtimes_version_is_held_against_the_catalogue(answer, outcome, message):
    check = node.check_runtime(answer, RUNTIME, area="x")
    assert check.outcome == outcome
    assert check.found.endswith(message)


def test_the_nodes_gpus_are_read():
    text = "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"
    check, count = node.check_gpus(reply(text), area="x")
    assert (check.found, count) == ("2 x NVIDIA H200.", 2)
    check, count = node.check_gpus(reply(stderr="No such file", code=127), area="x")
    assert (check.outcome, count) == ("warning", 0)


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


def test_what_no_database_takes_is_not_kept():
    check = start(inside(os="a\0b\ud800c" + "x" * 10_000))
    kept = check.as_json()
    assert "a\ufffdb\ufffdc" in kept["found"]
    assert len(kept["found"]) == 4000


# --- From check to check


def test_changes_are_outcomes_and_values_not_free_space():
    before = [
        Check("x", "Kernel", "ok", "kernel 6.1", value="6.1"),
        Check("x", "Disk", "ok", "10 GiB are free", value="ok"),
        Check("x", "Gone", "ok", "was there", value="1"),
        Check("x", "Broke", "ok", "well"),
    ]
    after = [
        Check("x", "Kernel", "ok", "kernel 6.2", value="6.2"),
        Check("x", "Disk", "ok", "9 GiB are free", value="ok"),
        Check("x", "New", "ok", "is there", value="1"),
        Check("x", "Broke", "warning", "broken"),
    ]
    changes = [(change.name, change.before, change.after) for change in find_changes(before, after)]
    assert changes == [
        ("Kernel", "kernel 6.1", "kernel 6.2"),
        ("New", "", "is there"),
        ("Broke", "well", "broken"),
        ("Gone", "was there", ""),
    ]
    assert find_changes(after, after) == []
    assert find_changes(after, [Check("Connection", "Port", "failed", "closed")]) == []


def test_steps_that_a_failed_one_kept_from_being_made_are_no_change():
    before = [Check("Connection", name, "ok", "well") for name in ("Port", "Host key", "Log-in")]
    after = [before[0], Check("Connection", "Host key", "failed", "another one")]
    assert [change.name for change in find_changes(before, after)] == ["Host key"]
    assert [change.name for change in find_changes(after, before)] == ["Host key"]


def test_the_worst_outcome_stands_for_all():
    checks = [Check("x", str(number), outcome, "") for number, outcome in enumerate(OUTCOMES)]
    assert find_worst_outcome(checks) == "failed"
    assert find_worst_outcome([check for check in checks if check.outcome != "failed"]) == "warning"
    assert find_worst_outcome([]) == "not applicable"
