"""What every scheduler shares, and the commands that each is asked with, argument by argument."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import JobSpec, Launch, Resources
from runners.schedulers import Direct, GridEngine, Slurm, Status, direct, grid_engine, slurm
from runners.schedulers.base import (
    classify_refusal,
    fill_site_options,
    limit_visible_gpus,
    parse_printed_id,
    parse_time_limit,
)
from runners.schedulers.waiting_reasons import GIVEN_BACK, explain_reason
from runners.transports import Completed

RESOURCES = Resources(time_limit_seconds=60)
JOB = JobSpec("u1", "tare-u1-1", "/scratch/jobs/u1-1", (), RESOURCES)


def completed(stdout: str = "", stderr: str = "", code: int = 0) -> Completed:
    return Completed(code, stdout.encode(), stderr.encode())


# --- What they share


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 10),
        ("2:10", 130),
        ("1:02:10", 3730),
        ("1-00:00:00", 86400),
        ("2-1:00", 172860),
        ("infinite", None),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_a_time_limit_is_read_from_its_right_end(text: str, seconds: int | None) -> None:
    assert parse_time_limit(text) == seconds


def test_an_option_is_left_out_if_the_job_asks_for_none_of_what_it_names() -> None:
    asked = replace(
        RESOURCES,
        nodes=2,
        cpus_per_node=3,
        memory_mb=10,
        directives=("-g {gpus}", "-n {nodes}x{cpus}", "-m {memory}/{memory_per_cpu}", "-x"),
    )
    options, names = fill_site_options(asked)
    assert options == ["-n 2x3", "-m 10/4", "-x"]
    assert names == {"gpus", "nodes", "cpus", "memory", "memory_per_cpu"}
    options, _ = fill_site_options(replace(asked, memory_mb=None, gpus_per_node=1))
    assert options == ["-g 1", "-n 2x3", "-x"]
    assert fill_site_options(replace(asked, memory_mb=9))[0][1] == "-m 9/3"


def test_an_option_of_two_lines_is_refused_with_its_text() -> None:
    with pytest.raises(
        ValueError, match=re.escape("a directive is one line, this is not: 'a\\nb'")
    ):
        fill_site_options(replace(RESOURCES, directives=("a\nb",)))


def test_the_only_id_that_was_printed_counts_up_to_eighteen_digits() -> None:
    pattern, is_id = r"^(\d+)$", GridEngine().is_id
    assert parse_printed_id(completed("x\n22\n0\n"), pattern, "sub", is_id) == "22"
    assert parse_printed_id(completed("9" * 18), pattern, "sub", is_id) == "9" * 18
    for printed in ("9" * 19, "none", ""):
        with pytest.raises(TryAgain, match=f"^sub printed no job id: {printed}$") as error:
            parse_printed_id(completed(f" {printed}\n".strip()), pattern, "sub", is_id)
        assert error.value.kind == "busy"
    with pytest.raises(TryAgain, match=r"^sub printed several numbers: 1\n22$") as error:
        parse_printed_id(completed("1\n22\n"), pattern, "sub", is_id)
    assert error.value.kind == "busy"


def test_a_long_answer_is_cut_where_it_is_repeated() -> None:
    with pytest.raises(TryAgain, match=f"^sub printed no job id: {'x' * 500}$"):
        parse_printed_id(completed("x" * 600), r"^(\d+)$", "sub", GridEngine().is_id)
    for parse in (GridEngine().parse_status, Slurm().parse_status):
        with pytest.raises(TryAgain, match=rf"^This is no answer of \w+( \w+)?'s: {'x' * 200}$"):
            parse(completed("x" * 600))
    with pytest.raises(TryAgain, match=f"^This is no answer of Grid Engine's: {'x' * 200}$"):
        GridEngine().parse_status(completed("asked for 7\n" + "x" * 600))
    with pytest.raises(TryAgain, match=f"^This is no answer of Slurm's: {'x' * 200}$"):
        Slurm().parse_find(completed("x" * 600 + "|a|b"))


def test_an_unknown_refusal_pauses_jobs_that_ask_for_the_same() -> None:
    own = re.compile("too long")
    sites = [("full", "limit", "site"), ("FULL house", "nodes", "request")]
    later = TryAgain("full", kind="busy")
    fault = Refused("name too long, full")
    assert classify_refusal(later, own=own, sites=sites) is later  # type: ignore[arg-type]
    assert classify_refusal(fault, own=own, sites=sites) is fault  # type: ignore[arg-type]
    for message, kind, scope in (
        ("a Full house", "limit", "site"),
        ("something new", "refused", "request"),
    ):
        refusal = classify_refusal(Refused(message), own=own, sites=sites)  # type: ignore[arg-type]
        assert isinstance(refusal, NotNow)
        assert (str(refusal), refusal.kind, refusal.scope) == (message, kind, scope)


def test_a_job_without_gpus_sees_none() -> None:
    lines = limit_visible_gpus(RESOURCES)
    assert lines[0].startswith("# A job that has the node alone")
    assert lines[1:] == [
        'if [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then',
        "    CUDA_VISIBLE_DEVICES=",
        "fi",
    ]
    two = limit_visible_gpus(replace(RESOURCES, gpus_per_node=2))
    assert two[2] == '    CUDA_VISIBLE_DEVICES=$(cut -d, -f-2 <<<"$CUDA_VISIBLE_DEVICES")'


def test_what_a_scheduler_cannot_be_asked_is_not_asked() -> None:
    plain = Direct()
    assert plain.build_accounting_command(["1-1"]) is None
    assert plain.parse_accounting(completed()) == {}
    assert (
        plain.build_version_command()
        is plain.build_partitions_command()
        is plain.build_trial_command(JOB)
        is None
    )
    assert plain.build_immediate_command(JOB, ["true"], seconds=1) is None
    assert plain.parse_partitions(completed()) == []
    assert plain.parse_trial(completed()) == ""
    assert plain.is_full("immediate") is False


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("PENDING MaxJobPerAccount", "a limit on jobs per account or user is reached"),
        ("PENDING MaxSubmitJobLimit", "a limit on jobs per account or user is reached"),
        ("PENDING PartitionInactive", "its partition takes no jobs at present"),
        (" PENDING  BeginTime ", "its time to begin has not come"),
        ("pending Licenses", "waits for a licence"),
    ],
)
def test_a_known_reason_comes_first_and_the_schedulers_own_in_brackets(
    state: str, message: str
) -> None:
    assert explain_reason(state) == f"{message} ({state.split()[1]})"


def test_a_reason_that_others_have_to_end_says_how_it_does() -> None:
    shown = explain_reason("PENDING NodeDown")
    assert shown == f"a node that it needs is down (NodeDown); {GIVEN_BACK}"


@pytest.mark.parametrize(("state", "told"), [("qw", ""), ("r", ""), ("Eqw", "Eqw"), ("x  ", "x")])
def test_a_state_that_only_waits_or_runs_needs_no_reason(state: str, told: str) -> None:
    assert explain_reason(state) == told


# --- Slurm


@pytest.mark.parametrize(
    ("text", "valid"),
    [("1", True), ("0", False), (str(2**32 - 3), True), (str(2**32 - 2), False), ("1_2", False)],
)
def test_an_id_of_slurms_is_a_number_that_it_gives(text: str, valid: bool) -> None:
    assert Slurm().is_id(text) is valid


def test_an_id_has_at_most_eighteen_digits() -> None:
    assert GridEngine().is_id("9" * 18)
    assert not GridEngine().is_id("9" * 19)
    assert not GridEngine().is_id("")
    assert Direct().is_id(f"{'9' * 20}-{'9' * 20}")
    assert not Direct().is_id("9" * 21 + "-1")
    assert not Direct().is_id("9")


def test_slurm_is_asked_in_these_words() -> None:
    scheduler = Slurm()
    script = "/scratch/jobs/u1-1/job.sh"
    assert scheduler.build_submit_command([JOB]) == ["bash", "-c", slurm.SUBMIT, "sbatch", script]
    assert scheduler.build_find_command(JOB) == [
        *("squeue", "--noheader", "--states=all", "--name=tare-u1-1", "--format=%i|%T|%r")
    ]
    assert scheduler.build_status_command(["7", "8"]) == [
        *("env", "SLURM_TIME_FORMAT=%s"),
        *("squeue", "--noheader", "--jobs=7,8,7", "--format=%i|%T|%S|%j|%r"),
    ]
    assert scheduler.build_cancel_command(["7", "8"]) == ["scancel", "7", "8"]
    assert scheduler.build_accounting_command(["7", "8"]) == [
        *("bash", "-c", slurm.ACCOUNTING, "last-word", "7,8", "7", "8")
    ]
    assert scheduler.build_version_command() == ["sbatch", "--version"]
    assert scheduler.build_partitions_command() == [
        "sinfo",
        "--noheader",
        "--format=%R|%a|%l|%D|%T|%G",
    ]
    trial = scheduler.build_trial_command(JOB)
    assert trial == ["bash", "-c", slurm.TRIAL, "sbatch", *scheduler.render_header(JOB)]


def test_a_command_that_runs_at_once_has_the_nodes_of_a_job_but_no_script() -> None:
    resources = replace(
        RESOURCES, gpus_per_node=1, partition="p q", directives=("--constraint='a b' # c",)
    )
    command = Slurm().build_immediate_command(
        replace(JOB, resources=resources), ["true"], seconds=9
    )
    assert command == [
        *("srun", "--immediate=9", "--input=none"),
        *("--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", "--time=1", "--gres=gpu:1"),
        *("--partition=p q", "--constraint=a b", "#", "c", "true"),
    ]


@pytest.mark.parametrize(
    ("message", "full"),
    [
        ("srun: Requested nodes are busy", True),
        ("srun: error: Unable to allocate resources: Immediate", True),
        ("srun: job 7 queued and waiting for resources", True),
        ("srun: error: Invalid account", False),
    ],
)
def test_a_full_cluster_is_no_fault(message: str, full: bool) -> None:
    assert Slurm().is_full(message) is full


def test_a_trial_tells_what_sbatch_says() -> None:
    scheduler = Slurm()
    assert scheduler.parse_trial(completed(stderr="sbatch: Job 7 to start at noon\n")) == (
        "Job 7 to start at noon"
    )
    with pytest.raises(Refused, match=r"^return code 1$"):
        scheduler.parse_trial(completed(code=1))
    with pytest.raises(TryAgain, match=r"^Slurm does not answer: no sbatch$") as error:
        scheduler.parse_trial(completed(stderr="no sbatch", code=127))
    assert error.value.kind == "busy"


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"node": "gpu01"}, "--nodelist=gpu01"),
        ({"avoided_nodes": "gpu01,gpu02"}, "--exclude=gpu01,gpu02"),
        ({"nodes": 3}, "--nodes=3"),
        ({"memory_mb": 0}, "--mem=0M"),
        ({"account": "a"}, "--account=a"),
        ({"cpus_per_node": 8}, "--cpus-per-task=8"),
    ],
)
def test_the_header_asks_for_what_the_job_needs(changes: dict[str, object], option: str) -> None:
    lines = Slurm().render_header(replace(JOB, resources=replace(RESOURCES, **changes)))  # type: ignore[arg-type]
    assert f"#SBATCH {option}" in lines
    assert f"#SBATCH {option}" not in Slurm().render_header(JOB)
    assert "#SBATCH --export=NONE" in lines


def test_processes_share_the_cpus_of_their_node() -> None:
    resources = replace(RESOURCES, cpus_per_node=7)
    job = replace(JOB, resources=resources, launch=Launch("srun", processes_per_node=2))
    lines = Slurm().render_header(job)
    assert {"#SBATCH --ntasks-per-node=2", "#SBATCH --cpus-per-task=3"} <= set(lines)


def test_nodes_are_counted_by_their_state_without_its_marks() -> None:
    printed = "gpu|up|1:00|2|idle*|gpu:4\ngpu|up|1:00|3|idle|\ngpu|up|1:00|1|down~|(null)\n"
    (partition,) = Slurm().parse_partitions(completed(printed))
    assert partition.nodes == {"idle": 5, "down": 1}
    assert (partition.gpus_per_node, partition.gres) == (4, ("gpu:4",))
    assert (partition.name, partition.state, partition.time_limit_seconds) == ("gpu", "up", 60)


def test_another_jobs_name_for_an_id_is_worth_another_try() -> None:
    with pytest.raises(TryAgain, match=r"^This is no answer of Slurm's: no id$") as error:
        Slurm().parse_find(completed("no id|RUNNING|None\n"))
    assert error.value.kind == "busy"


# --- Grid Engine


def test_grid_engine_is_asked_in_these_words() -> None:
    scheduler = GridEngine()
    assert scheduler.build_submit_command([JOB]) == [
        "bash",
        "-c",
        grid_engine.SUBMIT,
        "qsub",
        "/scratch/jobs/u1-1",
    ]
    assert scheduler.build_find_command(JOB) == [
        "bash",
        "-c",
        grid_engine.FIND,
        "find",
        "tare-u1-1",
    ]
    assert scheduler.build_status_command(["7", "8"]) == [
        "bash",
        "-c",
        grid_engine.STATUS,
        "status",
        "7,8",
    ]
    assert scheduler.build_cancel_command(["7", "8"]) == [
        "bash",
        "-c",
        grid_engine.CANCEL,
        "qdel",
        "7",
        "8",
    ]
    assert scheduler.build_accounting_command(["7", "8"]) == [
        *("bash", "-c", grid_engine.ACCOUNTING, "qacct", "7", "8")
    ]
    assert scheduler.build_version_command() == ["bash", "-c", grid_engine.VERSION]
    assert scheduler.build_partitions_command() == [
        "bash",
        "-c",
        grid_engine.BEGIN + grid_engine.QUEUES,
    ]
    header = [line for line in scheduler.render_header(JOB) if line.startswith("#$ ")]
    trial = scheduler.build_trial_command(JOB)
    assert trial
    assert trial[:3] == ["bash", "-c", grid_engine.TRIAL]
    assert set(header) <= set(trial)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"node": "n1"}, "-l hostname=n1"),
        ({"node": "n1", "nodes": 2, "directives": ("-pe mpi {nodes}",)}, "-masterq *@n1"),
        ({"account": "a"}, "-P a"),
        ({"partition": "p"}, "-q p"),
        ({"gpus_per_node": 2}, "-l gpu=2"),
        ({"memory_mb": 3}, "-l h_vmem=3M"),
        ({"memory_mb": 9, "cpus_per_node": 2, "directives": ("-pe smp {cpus}",)}, "-l h_vmem=5M"),
    ],
)
def test_grid_engines_header_asks_for_what_the_job_needs(
    changes: dict[str, object], option: str
) -> None:
    resources = replace(RESOURCES, **changes)  # type: ignore[arg-type]
    lines = GridEngine().render_header(replace(JOB, resources=resources))
    assert f"#$ {option}" in [line.replace("'", "") for line in lines]
    assert f"#$ {option}" not in GridEngine().render_header(JOB)


# --- No scheduler


def test_a_machine_is_asked_in_these_words() -> None:
    scheduler = Direct()
    assert scheduler.build_submit_command([JOB]) == [
        *("sh", "-c", direct.SUBMIT, "submit", "/scratch", direct.BEGIN, "/scratch/jobs/u1-1")
    ]
    assert scheduler.build_find_command(JOB) == [
        "sh",
        "-c",
        direct.FIND,
        "find",
        "/scratch/jobs/u1-1",
    ]
    assert scheduler.build_status_command(["1-1", "2-2"]) == [
        "sh",
        "-c",
        direct.STATUS,
        "status",
        "1-1",
        "2-2",
    ]
    assert scheduler.build_cancel_command(["1-1", "2-2"]) == [
        "sh",
        "-c",
        direct.CANCEL,
        "cancel",
        "1-1",
        "2-2",
    ]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, ["gpus_wanted=0", "beside= #", "seq -s, 0 0)"]),
        ({"gpus_per_node": 2}, ["gpus_wanted=2", "beside= #", "seq -s, 0 1)"]),
        ({"gpus_on_node": 8, "side_by_side": True}, ["beside= #", "seq -s, 0 7)"]),
        (
            {"gpus_on_node": 8, "gpus_per_node": 2, "side_by_side": True},
            ["gpus_wanted=2", "beside=beside #", "seq -s, 0 7)"],
        ),
        ({"time_limit_seconds": 601}, ["--signal=ALRM 601 cat"]),
    ],
)
def test_a_job_takes_its_turn_and_its_gpus(changes: dict[str, object], lines: list[str]) -> None:
    resources = replace(RESOURCES, **changes)  # type: ignore[arg-type]
    header = "\n".join(Direct().render_header(replace(JOB, resources=resources)))
    assert [line for line in lines if line not in header] == []
    assert "# Nor does anybody else keep the time limit.\n" in header


def test_the_states_of_a_machines_jobs_are_read() -> None:
    printed = "1-1 running\n2-2 starting\n3-3 queued too few GPUs\n4-4 queued\n"
    assert Direct().parse_status(completed(printed)) == {
        "1-1": Status("running", "", "running"),
        "2-2": Status("queued", "its login profile is being read", "starting"),
        "3-3": Status("queued", "too few GPUs", "queued"),
        "4-4": Status("queued", "", "queued"),
    }
    assert Direct().parse_status(completed()) == {}


def test_what_is_no_answer_of_a_machine_is_worth_another_try() -> None:
    scheduler = Direct()
    long = "x" * 300
    with pytest.raises(TryAgain, match=f"^This is no answer of ours: {'x' * 200}$") as error:
        scheduler.parse_status(completed(long))
    assert error.value.kind == "busy"
    with pytest.raises(TryAgain, match=f"^no job id was printed: {'x' * 500}$") as error:
        scheduler.parse_submit(completed("x" * 600))
    assert error.value.kind == "busy"
    for parse in (scheduler.parse_cancel, scheduler.parse_find, scheduler.parse_status):
        with pytest.raises(TryAgain, match=r"^The machine does not answer: no sh$") as error:
            parse(completed(stderr=" no sh\n", code=1))
        assert error.value.kind == "busy"
    with pytest.raises(NotNow, match=r"^return code 3$"):
        scheduler.parse_submit(completed(code=3))
    scheduler.parse_cancel(completed())
    assert scheduler.parse_find(completed("1-1\nWelcome\n2-2\n3-3\n")) == "3-3"
