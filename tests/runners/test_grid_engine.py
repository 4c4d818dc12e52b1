"""What Grid Engine is told and how its answers are read: texts of 8.1.9, as it printed them."""

from dataclasses import replace

import pytest

from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import JobSpec, Resources
from runners.schedulers import GridEngine, JobEnding, Status
from runners.transports import Completed

GRID_ENGINE = GridEngine()
JOB = JobSpec("u1", "tare-u1-1", "/scratch/jobs/u1-1", (), Resources(time_limit_seconds=61))

HEAD = (
    "job-ID  prior   name       user         state submit/start at     queue"
    "                          slots ja-task-ID \n" + "-" * 113 + "\n"
)
RULE = "=" * 62 + "\n"
DOWN = [
    "error: commlib error: got select error (Connection refused)\n"
    'error: unable to send message to qmaster using port 6444 on host "localhost": '
    "got send error\n",
    "error: commlib error: got select error (Connection refused)\n"
    'Unable to run job: unable to send message to qmaster using port 6444 on host "localhost": '
    "got send error\nExiting.\n",
    'unable to send message to qmaster using port 6444 on host "localhost": got send error\n'
    "error: commlib error: got select error (Connection refused)\n",
]
HTML = "<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n"


def completed(stdout: str = "", stderr: str = "", code: int = 0) -> Completed:
    return Completed(code, stdout.encode(), stderr.encode())


def header(**changes: object) -> list[str]:
    resources = replace(JOB.resources, **changes)  # type: ignore[arg-type]
    return GRID_ENGINE.render_header(replace(JOB, resources=resources))


# --- Submitting


def test_only_what_is_asked_for_is_in_the_header():
    plain = header()
    assert "#$ -l h_rt=61" in plain
    assert not any(option in "\n".join(plain) for option in ("-q", "-P", "-pe", "gpu", "h_vmem"))
    asked = header(gpus_per_node=2, memory_mb=500, partition="gpu.q@@a100", account="physics")
    for option in ("-q gpu.q@@a100", "-P physics", "-l gpu=2", "-l h_vmem=500M"):
        assert f"#$ {option}" in asked


def test_a_site_spells_slots_gpus_and_memory_in_its_own_way():
    site = ("-pe openmp {cpus}", "-l rmem={memory_per_cpu}M", "-l gpu_card={gpus}", "-l exclusive")
    asked = header(directives=site, cpus_per_node=3, memory_mb=1000, gpus_per_node=2)
    assert asked[8:12] == [
        *("#$ -pe openmp 3", "#$ -l rmem=334M", "#$ -l gpu_card=2", "#$ -l exclusive")
    ]
    assert "#$ -l gpu=2" not in asked
    assert not any("h_vmem" in line for line in asked)
    without = header(directives=site)
    assert "#$ -pe openmp 1" in without
    assert not any("gpu_card" in line or "rmem" in line for line in without)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpus_per_node": 2}, "parallel environment"),
        ({"nodes": 2}, "parallel environment"),
        ({"qos": "short"}, "no QOS such as 'short'"),
        ({"partition": "a b"}, "no such name: 'a b'"),
        ({"account": "x\n#$ -l y"}, "no such name"),
        ({"directives": ("-l a\n-l b",)}, "one line"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_before_it_is_sent(changes, message):
    with pytest.raises(ValueError, match=message):
        header(**changes)


@pytest.mark.parametrize("printed", ["7\n", "Welcome to the cluster\n7\n"])
def test_the_id_of_a_submitted_job_is_read(printed):
    assert GRID_ENGINE.parse_submit(completed(printed)) == "7"


@pytest.mark.parametrize(
    ("message", "kind", "scope"),
    [
        (
            'Unable to run job: Job was rejected because job requests unknown queue "nope.q"\n'
            "Exiting.",
            "partition",
            "partition",
        ),
        (
            'Unable to run job: job rejected: the requested parallel environment "nope" does not '
            "exist\nExiting.",
            "partition",
            "partition",
        ),
        ('Unable to run job: unknown resource "nope"\nExiting.', "partition", "partition"),
        (
            'Unable to run job: job rejected: the requested project "nope" does not '
            "exist\nExiting.",
            "account",
            "partition",
        ),
        (
            "Unable to read script file because of error: error opening job.sh: "
            "No such file or directory",
            "work directory",
            "site",
        ),
        (
            "Unable to run job: job rejected: only 10 jobs are allowed per user "
            "(current job count: 10)\nExiting.",
            "limit",
            "site",
        ),
        (
            'Unable to run job: Job 2 (-l gpu=99) cannot run at host "localhost" because it '
            "offers only hc:gpu=4.000000\nno suitable queues\nExiting.",
            "nodes",
            "request",
        ),
        ("Unable to run job: closed for works until Monday.\nExiting.", "refused", "request"),
    ],
)
def test_a_no_of_the_sites_pauses_what_it_would_meet(message, kind, scope):
    with pytest.raises(NotNow) as caught:
        GRID_ENGINE.parse_submit(completed(stderr=message + "\n", code=1))
    assert (str(caught.value), caught.value.kind, caught.value.scope) == (message, kind, scope)


def test_a_fault_of_the_jobs_own_is_told_in_qsubs_words():
    with pytest.raises(Refused, match='ERROR! invalid option argument "-bogus"'):
        GRID_ENGINE.parse_submit(
            completed(stderr='qsub: ERROR! invalid option argument "-bogus"\n', code=7)
        )


@pytest.mark.parametrize("printed", ["", HTML])
def test_an_answer_without_an_id_does_not_say_that_no_job_is_there(printed):
    with pytest.raises(TryAgain, match="printed no job id") as caught:
        GRID_ENGINE.parse_submit(completed(printed))
    assert not isinstance(caught.value, NotNow)


@pytest.mark.parametrize(
    "answer",
    [
        *(completed(stderr=message, code=1) for message in DOWN),
        completed(stderr="bash: line 2: exec: qsub: not found\n", code=127),
        completed(code=124),
        completed(
            stderr='Unable to initialize environment because of error: SGE_ROOT directory "/none" '
            "doesn't exist\nExiting.\n",
            code=1,
        ),
    ],
)
def test_a_scheduler_that_cannot_now_is_worth_trying_again(answer):
    with pytest.raises(TryAgain) as caught:
        GRID_ENGINE.parse_submit(answer)
    assert caught.value.kind == "busy"


# --- Asking

LIST = (
    HEAD
    + "     23 0.28846 tare-c2-1  researcher   r     11/20/2026 17:12:57 main.q@localhost"
    + "                   1        \n"
    + "     27 0.26538 tare f-1   researcher   dr    11/20/2026 17:13:02 main.q@localhost"
    + "                   1        \n"
    + "     26 0.27308 tare-e-1   researcher   qw    11/20/2026 17:12:59"
    + "                                    1        \n"
    + "     30 0.25769 tare-eqw-1 researcher   Eqw   11/20/2026 17:13:01"
    + "                                    1        \n"
    + "     29 0.00000 tare-h-1   researcher   hqw   11/20/2026 17:13:01"
    + "                                    1        \n"
)
DETAILS = (
    RULE
    + "job_number:                 26\njob_name:                   tare-e-1\n"
    + "stdout_path_list:           NONE:NONE:scheduler-$JOB_ID.out\n"
    + "scheduling info:            (-l gpu=9) cannot run at host "
    + '"localhost" because it offers only hc:gpu=0.000000\n'
    + "                            All queues dropped because of overload or full\n"
    + RULE
    + "job_number:                 30\n"
    + "error reason          1:      11/20/2026 17:13:01 [20001:6273]: error: can't chdir to "
    + "/nonexistent: No such file or directory\n"
    + "scheduling info:            Job is in error state\n"
    + RULE
    + "job_number:                 29\nscheduling info:            Job is in hold state\n"
    + RULE
    + "job_number:                 23\n"
    + "scheduling info:            There are no messages available\n"
)


def test_live_jobs_are_read_with_the_reasons_why_they_wait():
    answer = completed("asked for 23,26,27,29,30,31\n" + LIST + DETAILS)
    assert GRID_ENGINE.parse_status(answer) == {
        "23": Status("running", "", "r"),
        "26": Status(
            "queued",
            '(-l gpu=9) cannot run at host "localhost" because it offers only hc:gpu=0.000000; '
            "All queues dropped because of overload or full",
            "qw",
        ),
        "27": Status("running", "", "dr"),
        "29": Status("queued", "Job is in hold state", "hqw"),
        "30": Status(
            "queued",
            "can't chdir to /nonexistent: No such file or directory; it waits until somebody "
            "clears the error (qmod -cj) or cancels it",
            "Eqw",
        ),
    }


def test_what_is_wrong_with_a_job_comes_before_the_queues_that_have_no_room():
    detail = (
        f"{RULE}job_number:                 26\n"
        'scheduling info:            queue instance "a.q@n1" dropped because it is full\n'
        '                            cannot run in PE "smp" because it only offers 0 slots\n'
    )
    status = GRID_ENGINE.parse_status(completed("asked for 26\n" + LIST + detail))["26"]
    assert status.reason.startswith('cannot run in PE "smp"')


def test_jobs_that_nobody_asked_about_are_not_told():
    assert set(GRID_ENGINE.parse_status(completed("asked for 23\n" + LIST))) == {"23"}


def test_finished_jobs_have_vanished():
    assert GRID_ENGINE.parse_status(completed("asked for 7,8\n")) == {}


@pytest.mark.parametrize(
    "answer",
    [
        *(completed("asked for 7\n", message, 1) for message in DOWN),
        completed("asked for 7\n", code=124),
        completed("asked for 7\n", "bash: line 3: qstat: command not found\n", 127),
        completed("asked for 7\n" + HTML),
        completed(""),
        completed("Welcome to the cluster\nasked for 7\n" + LIST),
        completed("asked for 7\n" + HEAD + "maintenance until Monday\n"),
    ],
)
def test_an_answer_that_is_none_says_nothing_about_jobs(answer):
    with pytest.raises(TryAgain) as caught:
        GRID_ENGINE.parse_status(answer)
    assert caught.value.kind == "busy"


def test_a_job_is_found_by_its_name_whether_it_lives_or_has_ended():
    assert GRID_ENGINE.build_find_command(JOB)[-1] == "tare-u1-1"
    assert GRID_ENGINE.parse_find(completed(RULE + "job_number:                 12\n")) == "12"
    gone = "Following jobs do not exist: \ntare-u1-1\n"
    ended = RULE + "qname        main.q              \njobnumber    12                  \n"
    assert GRID_ENGINE.parse_find(completed(ended, gone, 1)) == "12"
    assert GRID_ENGINE.parse_find(completed("", gone, 1)) is None


def test_of_two_copies_the_first_is_found():
    both = "".join(f"{RULE}job_number:                 {number}\n" for number in (101, 99))
    assert GRID_ENGINE.parse_find(completed(both)) == "99"


@pytest.mark.parametrize(
    "answer", [completed(stderr=DOWN[0], code=1), completed(HTML), completed(code=124)]
)
def test_without_an_answer_a_job_is_neither_found_nor_missing(answer):
    with pytest.raises(TryAgain):
        GRID_ENGINE.parse_find(answer)


# --- Ending


@pytest.mark.parametrize(
    "answer",
    [
        completed("researcher has registered the job 27 for deletion\n"),
        completed("job 27 is already in deletion\n"),
        completed(
            'researcher has deleted job 26\ndenied: job "99999" does not exist\n'
            'denied: job "20" does not exist\n',
            code=1,
        ),
    ],
)
def test_cancelling_what_has_ended_is_no_error(answer):
    GRID_ENGINE.parse_cancel(answer)


def test_cancelling_without_an_answer_is_worth_trying_again():
    for answer in (completed(DOWN[2], code=1), completed(code=124), completed("no qdel", code=127)):
        with pytest.raises(TryAgain):
            GRID_ENGINE.parse_cancel(answer)


def test_a_refused_cancellation_is_told():
    message = 'denied: "somebody" is not allowed to delete job 5'
    with pytest.raises(Refused, match="not allowed"):
        GRID_ENGINE.parse_cancel(completed(message, code=1))


def accounted(failed: str, exit_status: str, wall: str, category: str, number: int = 22) -> str:
    fields = {
        "qname": "main.q",
        "hostname": "node7",
        "owner": "researcher",
        "jobname": "tare-u1-1",
        "jobnumber": str(number),
        "taskid": "undefined",
        "failed": failed,
        "exit_status": exit_status,
        "ru_wallclock": wall,
        "maxvmem": "5.957MB",
        "category": category,
    }
    return RULE + "".join(f"{name:<13}{value:<20}\n" for name, value in fields.items())


LIMIT = "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit"


@pytest.mark.parametrize(
    ("failed", "exit_status", "wall", "category", "kind", "message"),
    [
        ("0", "0", "10s", "NONE", "", "done 0"),
        ("0", "7", "0s", "NONE", "failed", "done 7"),
        ("100 : assumedly after job", "137                  (Killed)", "0s", "NONE", "failed", ""),
        (
            "100 : assumedly after job",
            *("140                  (User defined signal 2)", "17s", "-l gpu=4"),
            *("cancelled outside", "failed 100 140"),
        ),
        (
            "100 : assumedly after job",
            *("143                  (Terminated)", "17s", "-l gpu=4", "cancelled outside", ""),
        ),
        (
            LIMIT,
            "143                  (Terminated)",
            "5s",
            "-l h_rt=5",
            "time-out",
            "failed 37 143",
        ),
        (LIMIT, "137                  (Killed)", "26s", "-l gpu=2,h_rt=5", "time-out", ""),
        (LIMIT, "137", "26", "-q main.q", "time-out", "failed 37 137"),
        (LIMIT, "137", "2s", "-l h_rt=600,h_vmem=300M", "out of memory", "failed 37 137"),
        ("28  : changing into working directory", "0", "0s", "NONE", "failed", "failed 28 0"),
        ("1   : assumedly before job", "0", "0s", "NONE", "node failure", "failed 1 0"),
        ("8   : in prolog", "1", "0s", "NONE", "node failure", "failed 8 1"),
        ("21  : in recognizing job", "0", "0s", "NONE", "node failure", "failed 21 0"),
        ("25  : rescheduling", "0", "3s", "NONE", "requeued", "failed 25 0"),
    ],
)
def test_the_last_word_is_read(failed, exit_status, wall, category, kind, message):
    printed = accounted(failed, exit_status, wall, category)
    (word,) = GRID_ENGINE.parse_accounting(completed(printed)).values()
    assert (word.kind, word.node) == (kind, "node7")
    assert f"{word.native} {word.exit_code}".startswith(message)
    assert failed.partition(": ")[2] in word.reason


def test_the_last_word_says_how_long_it_ran_and_what_it_took():
    printed = accounted(LIMIT, "143                  (Terminated)", "5s", "-l h_rt=5")
    assert GRID_ENGINE.parse_accounting(completed(printed)) == {
        "22": JobEnding(
            "failed 37",
            "143",
            "qmaster enforced h_rt, h_cpu, or h_vmem limit; ran 5s, memory at most 5.957MB",
            "node7",
            "time-out",
            "qacct",
        )
    }


def test_of_several_records_the_latest_counts():
    printed = accounted("25  : rescheduling", "0", "0s", "NONE") + accounted("0", "0", "9s", "NONE")
    assert GRID_ENGINE.parse_accounting(completed(printed))["22"].kind == ""
    both = accounted("0", "0", "9s", "NONE", 3) + accounted("0", "1", "9s", "NONE", 4)
    assert {
        job_id: word.kind for job_id, word in GRID_ENGINE.parse_accounting(completed(both)).items()
    } == {"3": "", "4": "failed"}


@pytest.mark.parametrize("answer", [completed(), completed(stderr="error: job id 99 not found\n")])
def test_what_nobody_remembers_is_left_out(answer):
    assert GRID_ENGINE.parse_accounting(answer) == {}


# --- Looking beforehand


def test_a_trial_is_told_in_qsubs_words():
    assert "#$ -l h_rt=61" in GRID_ENGINE.build_trial_command(JOB)
    message = "verification: found suitable queue(s)"
    assert GRID_ENGINE.parse_trial(completed(message + "\n")) == message
    message = (
        'Unable to run job: Job 2 (-l gpu=99) cannot run at host "localhost" because it offers '
        "only hc:gpu=4.000000\nverification: no suitable queues\nExiting."
    )
    with pytest.raises(Refused, match="it offers only hc:gpu=4"):
        GRID_ENGINE.parse_trial(completed(stderr=message, code=1))
    with pytest.raises(TryAgain):
        GRID_ENGINE.parse_trial(completed(stderr=DOWN[1], code=1))
