"""What Slurm is told and how its answers are read: texts of Slurm 24.11.5, as it printed them."""

import os
import subprocess
from dataclasses import replace

import pytest

from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import JobSpec, Resources
from runners.schedulers import JobEnding, Slurm, Status
from runners.schedulers.base import is_of_another_job
from runners.transports import Completed

SLURM = Slurm()
JOB = JobSpec("u1", "tare-u1-1", "/scratch/jobs/u1-1", (), Resources(time_limit_seconds=60))

UNREACHABLE = [
    "slurm_load_jobs error: Socket timed out on send/recv operation\n",
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
    "sbatch: error: Batch job submission failed: "
    "Unable to contact slurm controller (connect failure)\n",
    "scancel: error: Kill job error on job id 1: "
    "Unable to contact slurm controller (connect failure)\n",
    "sacct: error: slurm_persist_conn_open: No response to persist_init\n"
    "sacct: error: Sending PersistInit msg: Resource temporarily unavailable\n"
    "sacct: error: Problem talking to the database: Resource temporarily unavailable\n",
    "sacct: error: _open_persist_conn: failed to open persistent connection to "
    "host:127.0.0.1:27022: Connection refused\n"
    "sacct: error: Sending PersistInit msg: Connection refused\n"
    "sacct: error: Problem talking to the database: Connection refused\n",
]


def completed(stdout: str = "", stderr: str = "", code: int = 0) -> Completed:
    return Completed(code, stdout.encode(), stderr.encode())


def header(**changes: object) -> list[str]:
    resources = replace(JOB.resources, **changes)  # type: ignore[arg-type]
    return SLURM.render_header(replace(JOB, resources=resources))


# --- Submitting


@pytest.mark.parametrize(("seconds", "minutes"), [(1, 1), (60, 1), (61, 2), (3600, 60), (3601, 61)])
def test_a_time_limit_is_rounded_up_to_minutes(seconds, minutes):
    assert f"#SBATCH --time={minutes}" in header(time_limit_seconds=seconds)


def test_only_what_is_asked_for_is_in_the_header():
    plain = "\n".join(header())
    for option in ("gres", "mem", "partition", "account", "qos"):
        assert f"--{option}" not in plain
    asked = header(gpus_per_node=2, gres="gpu:h100", memory_mb=500, partition="p q", qos="x")
    assert "#SBATCH --gres=gpu:h100:2" in asked
    assert "#SBATCH --mem=500M" in asked
    assert "#SBATCH '--partition=p q'" in asked
    assert "#SBATCH --qos=x" in asked


def test_a_site_asks_in_its_own_spelling():
    site = ("--gpus-per-node=a100:{gpus}", "-c {cpus}", "--mem-per-cpu={memory_per_cpu}M", "-N1-1")
    asked = header(directives=site, gpus_per_node=2, cpus_per_node=3, memory_mb=1000)
    own = ["--gpus-per-node=a100:2", "-c 3", "--mem-per-cpu=334M", "-N1-1"]
    assert [line for line in asked if line.startswith("#SBATCH")][-4:] == [
        f"#SBATCH {option}" for option in own
    ]
    for option in ("--gres", "--cpus-per-task", "--mem="):
        assert option not in "\n".join(asked)
    without = "\n".join(header(directives=site))
    assert "gpus-per-node" not in without
    assert "mem-per-cpu" not in without
    assert "#SBATCH -c 1" in without


@pytest.mark.parametrize(
    ("given", "asked", "seen"),
    [
        ("0,1,2,3", 2, "0,1"),  # what --exclusive gives
        ("2,3", 2, "2,3"),
        ("GPU-8d,GPU-9e", 1, "GPU-8d"),
        ("0,1,2,3", 0, ""),
        (None, 1, "unset"),
    ],
)
def test_a_job_sees_as_many_gpus_as_it_asked_for(given, asked, seen):
    script = "\n".join([*header(gpus_per_node=asked), 'echo "${CUDA_VISIBLE_DEVICES-unset}"'])
    variables = {} if given is None else {"CUDA_VISIBLE_DEVICES": given}
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": os.environ["PATH"], **variables},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout.decode().strip() == seen


@pytest.mark.parametrize("printed", ["7\n", "7;cluster\n", "Welcome to the cluster\n7\n"])
def test_the_id_of_a_submitted_job_is_read(printed):
    assert SLURM.parse_submit(completed(printed)) == "7"


@pytest.mark.parametrize("more", ["0", "5000000000", "99999999999999999999", "\u0663"])
def test_what_cannot_be_an_id_beside_one_is_none(more):
    """One of these makes squeue refuse the whole question about all jobs of the cluster."""
    assert SLURM.parse_submit(completed(f"7\n{more}\n")) == "7"
    with pytest.raises(TryAgain, match="printed no job id"):
        SLURM.parse_submit(completed(f"{more}\n"))


def test_of_two_numbers_none_is_taken_for_the_job():
    """As where a wrapper around sbatch prints what is left of somebody's hours."""
    with pytest.raises(TryAgain, match="printed several numbers: 7") as caught:
        SLURM.parse_submit(completed("7\n5000\n"))
    assert not isinstance(caught.value, NotNow), "the job may be there"
    assert SLURM.parse_submit(completed("7\n7;cluster\n")) == "7"


FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    "message",
    [
        "sbatch: error: Memory specification can not be satisfied\n"
        f"{FAILED}Requested node configuration is not available",
        "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information",
        f"{FAILED}Invalid feature specification",
        f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)",
        "sbatch: error: This does not look like a batch script.  The first\n"
        "sbatch: error: line must start with #! followed by the path to an interpreter.",
    ],
)
def test_a_fault_of_the_jobs_own_is_told_in_sbatchs_words(message):
    with pytest.raises(Refused) as caught:
        SLURM.parse_submit(completed(stderr=message + "\n", code=1))
    assert str(caught.value) == message


POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("message", "kind", "scope"),
    [
        (
            "sbatch: error: invalid partition specified: nope\n"
            f"{FAILED}Invalid partition name specified",
            "partition",
            "partition",
        ),
        (
            f"{FAILED}Required partition not available (inactive or drain)",
            "partition",
            "partition",
        ),
        (
            f"{FAILED}User's group not permitted to use this partition",
            "partition",
            "partition",
        ),
        (
            f"{FAILED}Invalid account or account/partition combination specified",
            "account",
            "partition",
        ),
        (f"{FAILED}Invalid qos specification", "account", "partition"),
        (f"sbatch: error: AssocMaxSubmitJobLimit\n{FAILED}{POLICY}", "limit", "partition"),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{FAILED}{POLICY}", "limit", "partition"),
        (f"sbatch: error: QOSMaxGRESPerJob\n{FAILED}{POLICY}", "limit", "request"),
        (f"sbatch: error: AssocMaxWallDurationPerJobLimit\n{FAILED}{POLICY}", "limit", "request"),
        (
            f"{FAILED}Slurm temporarily unable to accept job, sleeping and retrying.",
            "limit",
            "site",
        ),
        (f"{FAILED}Requested node configuration is not available", "nodes", "request"),
        ("sbatch: error: Unable to open file /w/jobs/1/job.sh", "work directory", "site"),
        (
            f"sbatch: error: Closed for works until Monday\n{FAILED}Unspecified error",
            "refused",
            "request",
        ),
    ],
)
def test_a_no_of_the_sites_pauses_what_it_would_meet(message, kind, scope):
    with pytest.raises(NotNow) as caught:
        SLURM.parse_submit(completed(stderr=message + "\n", code=1))
    assert (str(caught.value), caught.value.kind, caught.value.scope) == (message, kind, scope)


def test_an_answer_without_an_id_does_not_say_that_no_job_is_there():
    with pytest.raises(TryAgain, match="printed no job id: Hello") as caught:
        SLURM.parse_submit(completed("Hello\n"))
    assert not isinstance(caught.value, NotNow)


@pytest.mark.parametrize("message", UNREACHABLE)
def test_a_scheduler_that_cannot_now_is_worth_trying_again(message):
    with pytest.raises(TryAgain, match=message.split(":")[0]) as caught:
        SLURM.parse_submit(completed(stderr=message, code=1))
    assert caught.value.kind == "busy"


def test_submitting_is_not_swayed_by_the_submitters_variables():
    bash, option, script, *arguments = SLURM.build_submit_command([JOB])
    assert (bash, option, arguments) == ("bash", "-c", ["sbatch", "/scratch/jobs/u1-1/job.sh"])
    assert script.startswith('unset "${!SBATCH_@}"\n')


# --- Asking


@pytest.mark.parametrize("ids", [["7"], ["7", "8"]])
def test_two_ids_are_named_at_least(ids):
    """squeue fails for one that it has forgotten, and does not for two."""
    (jobs,) = (word for word in SLURM.build_status_command(ids) if word.startswith("--jobs="))
    assert jobs.count(",") >= 1
    assert set(jobs.removeprefix("--jobs=").split(",")) == set(ids)


def test_live_jobs_are_read():
    printed = (
        "10|PENDING|N/A|tare-a-1|PartitionTimeLimit\n"
        "11|RUNNING|1795478400|tare-b-1|None\n"
        "12|COMPLETING|1795478400|tare-c-1|None\n"
        "13|CONFIGURING|1795478400|tare-d-1|None\n"
        "14|PENDING|N/A|tare-e-1|(Nodes required for job are DOWN | DRAINED)\n"
        "15|SUSPENDED|1795478400|tare-f-1|None\n"
    )
    assert SLURM.parse_status(completed(printed)) == {
        "10": Status("queued", "PartitionTimeLimit", "PENDING", "tare-a-1"),
        "11": Status("running", "", "RUNNING", "tare-b-1"),
        "12": Status("running", "", "COMPLETING", "tare-c-1"),
        "13": Status("queued", "", "CONFIGURING", "tare-d-1", 1795478400),
        "14": Status(
            "queued", "(Nodes required for job are DOWN | DRAINED)", "PENDING", "tare-e-1"
        ),
        "15": Status("running", "", "SUSPENDED", "tare-f-1"),
    }


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1795478400", 1795478400.0),
        ("N/A", None),
        ("", None),
        ("0", None),
        ("-5", None),
        ("2026-11-24T14:20:00", None),  # in a zone that is not named
        ("9" * 18, None),
        ("Unknown", None),
        ("nan", None),
        ("१२३", None),
    ],
)
def test_when_a_waiting_job_is_expected_to_start_is_read_in_seconds_alone(printed, expected):
    line = f"10|PENDING|{printed}|tare-a-1|Priority\n".encode()
    status = SLURM.parse_status(Completed(0, line, b""))["10"]
    assert (status.expected_start, status.name) == (expected, "tare-a-1")


NAMES = ("tare-" + "a1" * 16 + "-1", "tare-" + "a1" * 16 + "-2", "tare-" + "b2" * 16 + "-1")


@pytest.mark.parametrize(
    ("name", "is_another"),
    [
        (NAMES[0], False),
        *((name, True) for name in NAMES[1:]),
        # A site may change names, and whoever has a number now is not told from that.
        *((name, False) for name in ("", "train", f"site-{NAMES[1]}", f"{NAMES[1]}.x", "tare-1")),
    ],
)
def test_a_number_that_was_given_again_is_another_job(name, is_another):
    assert is_of_another_job(Status("running", "", "RUNNING", name), NAMES[0]) is is_another
    ending = JobEnding("FAILED", "1:0", "", "node1", "failed", "sacct", name)
    assert is_of_another_job(ending, NAMES[0]) is is_another


@pytest.mark.parametrize(
    "state", ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY"]
)
def test_a_job_that_has_ended_is_not_live(state):
    assert SLURM.parse_status(completed(f"7|{state}|N/A|tare-a-1|None\n")) == {}


@pytest.mark.parametrize(
    "answer",
    [completed(), completed(stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)],
)
def test_forgotten_jobs_are_absent(answer):
    assert SLURM.parse_status(answer) == {}
    assert SLURM.parse_find(answer) is None


def test_a_question_that_squeue_refuses_says_nothing_about_jobs():
    message = "squeue: error: Invalid job id: 0\n"
    with pytest.raises(TryAgain, match="Invalid job id: 0"):
        SLURM.parse_status(completed(stderr=message, code=1))
    with pytest.raises(Refused, match="Invalid job id 0"):
        SLURM.parse_cancel(completed(stderr="scancel: error: Invalid job id 0\n", code=1))


@pytest.mark.parametrize(
    "message", [*UNREACHABLE, "bash: squeue: command not found", "squeue: error: ?"]
)
def test_a_scheduler_that_does_not_answer_says_nothing_about_jobs(message):
    answer = completed(stderr=message, code=1)
    for parse in (SLURM.parse_status, SLURM.parse_find, SLURM.parse_accounting):
        with pytest.raises(TryAgain):
            parse(answer)


def test_a_job_is_found_by_its_name_also_when_it_has_ended():
    assert "--name=tare-u1-1" in SLURM.build_find_command(JOB)
    assert "--states=all" in SLURM.build_find_command(JOB)
    assert SLURM.parse_find(completed("12|COMPLETED|None\n")) == "12"


def test_of_two_copies_the_first_is_found():
    assert SLURM.parse_find(completed("101|PENDING|None\n99|RUNNING|None\n")) == "99"


# --- Ending


def test_cancelling_what_has_ended_is_no_error():
    SLURM.parse_cancel(completed())
    message = "scancel: error: Kill job error on job id 9999: Invalid job id specified\n"
    SLURM.parse_cancel(completed(stderr=message, code=1))


def test_cancelling_without_an_answer_is_worth_trying_again():
    for message in UNREACHABLE:
        with pytest.raises(TryAgain):
            SLURM.parse_cancel(completed(stderr=message, code=8))


def test_a_refused_cancellation_is_told():
    message = "scancel: error: Kill job error on job id 1: Access/permission denied"
    with pytest.raises(Refused, match="permission denied"):
        SLURM.parse_cancel(completed(stderr=message, code=1))


@pytest.mark.parametrize(
    ("printed", "native", "exit_code", "kind"),
    [
        (
            "7|COMPLETED|0:0|node1|tare-a-1|None\n7.batch|COMPLETED|0:0|node1|batch|\n",
            "COMPLETED",
            "0:0",
            "",
        ),
        (
            "7|FAILED|7:0|node1|tare-a-1|None\n7.batch|FAILED|7:0|node1|batch|\n",
            "FAILED",
            "7:0",
            "failed",
        ),
        (
            "7|FAILED|0:9|node1|tare-a-1|None\n7.batch|CANCELLED by 0|0:9|node1|batch|\n",
            "FAILED",
            "0:9",
            "failed",
        ),
        (
            "7|TIMEOUT|0:0|node1|tare-a-1|None\n7.batch|FAILED|15:0|node1|batch|\n",
            "TIMEOUT",
            "0:0",
            "time-out",
        ),
        ("7|OUT_OF_MEMORY|0:125|node1|tare-a-1|None\n", "OUT_OF_MEMORY", "0:125", "out of memory"),
        (
            "7|NODE_FAIL|1:0|node1|tare-a-1|None\n7.batch|CANCELLED||node1|batch|\n",
            "NODE_FAIL",
            "1:0",
            "node failure",
        ),
        (
            "7|PREEMPTED|0:0|node1|tare-a-1|None\n7.batch|FAILED|15:0|node1|batch|\n",
            "PREEMPTED",
            "0:0",
            "preempted",
        ),
        (
            "7|CANCELLED by 20001|0:0|node1|tare-a-1|None\n7.batch|FAILED|15:0|node1|batch|\n",
            "CANCELLED by 20001",
            "0:0",
            "cancelled outside",
        ),
    ],
)
def test_the_last_word_is_read(printed, native, exit_code, kind):
    assert SLURM.parse_accounting(completed(printed)) == {
        "7": JobEnding(native, exit_code, "", "node1", kind, "sacct", "tare-a-1")
    }


def test_a_controller_that_has_lost_its_state_is_nobody_cancelling():
    """As seen in the lab, its state wiped while a job ran: accounts then name nobody."""
    printed = "3|CANCELLED|0:0|node1|tare-a-1|None\n3.batch|CANCELLED|0:0|node1|batch|\n"
    last = SLURM.parse_accounting(completed(printed))["3"]
    assert (last.kind, "lost its state" in last.reason) == ("controller failure", True)
    waiting = SLURM.parse_accounting(completed("4|CANCELLED|0:0|None assigned|tare-a-1|None\n"))[
        "4"
    ]
    assert (waiting.kind, waiting.node) == ("controller failure", "")
    by_user = "5|CANCELLED by 20001|0:0|None assigned|tare-a-1|None\n"
    assert SLURM.parse_accounting(completed(by_user))["5"].kind == "cancelled outside"


def test_of_several_rows_the_latest_counts_and_live_ones_do_not():
    """A requeued job has several rows; a database that lags behind still calls a job running."""
    printed = (
        "7|NODE_FAIL|0:0|node1|tare-a-1|None\n7|COMPLETED|0:0|node2|tare-a-1|None\n"
        "8|RUNNING|0:0|node1|tare-b-1|None\n"
    )
    assert SLURM.parse_accounting(completed(printed)) == {
        "7": JobEnding("COMPLETED", "0:0", "", "node2", "", "sacct", "tare-a-1")
    }


TOLD = (
    "JobId={id} JobName=JobState=RUNNING UserId=researcher(20001) Account=(null) QOS=normal "
    "JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode={exit} RunTime=00:00:00 TimeLimit=00:05:00 AllocNode:Sid=localhost:0 "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList={node} BatchHost=node1 NumNodes=1 "
    "Command=(null) WorkDir=/scratch StdErr=/scratch/slurm-3.out StdOut=/scratch/slurm-3.out \n"
)


def test_without_a_database_the_controller_is_asked():
    assert SLURM.build_accounting_command(["7", "8"])[-3:] == ["7,8", "7", "8"]
    printed = "".join(
        TOLD.format(id=number, state=state, reason=reason, exit=code, node=node)
        for number, state, reason, code, node in [
            (3, "FAILED", "NonZeroExitCode", "7:0", "node1"),
            (4, "COMPLETED", "None", "0:0", "node2"),
            (5, "RUNNING", "None", "0:0", "node1"),
            (6, "CANCELLED", "None", "0:0", "(null)"),
            (7, "TIMEOUT", "TimeLimit", "0:15", "node[1-2]"),
        ]
    )
    forgotten = "slurm_load_jobs error: Invalid job id specified\n"
    assert SLURM.parse_accounting(completed(printed, forgotten, 1)) == {
        "3": JobEnding(
            "FAILED", "7:0", "NonZeroExitCode", "node1", "failed", "scontrol", "JobState=RUNNING"
        ),
        "4": JobEnding("COMPLETED", "0:0", "", "node2", "", "scontrol", "JobState=RUNNING"),
        "6": JobEnding(
            "CANCELLED", "0:0", "", "", "cancelled outside", "scontrol", "JobState=RUNNING"
        ),
        "7": JobEnding(
            "TIMEOUT", "0:15", "TimeLimit", "node[1-2]", "time-out", "scontrol", "JobState=RUNNING"
        ),
    }
    assert SLURM.parse_accounting(completed("", forgotten, 1)) == {}


HTML = "<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n"


@pytest.mark.parametrize("printed", [HTML, "7|RUNNING|None\nmaintenance until Monday\n"])
def test_an_answer_that_is_none_says_nothing_about_jobs(printed):
    for parse in (SLURM.parse_status, SLURM.parse_find, SLURM.parse_accounting):
        with pytest.raises(TryAgain, match="no answer of Slurm's"):
            parse(completed(printed))


def test_without_accounting_nobody_remembers():
    message = "Slurm accounting storage is disabled\n"
    assert SLURM.parse_accounting(completed(stderr=message, code=1)) == {}


def test_a_row_without_an_id_is_no_answer_about_a_job():
    """An empty first field was taken for a number once, and ended the visit."""
    for printed in ("||", "7|PENDING|None\n|RUNNING|None\n"):
        with pytest.raises(TryAgain, match="no answer of Slurm's"):
            SLURM.parse_find(completed(printed))
