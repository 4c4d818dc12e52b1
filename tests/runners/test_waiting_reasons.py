"""Why a scheduler lets a job wait, in words."""

from __future__ import annotations

import pytest

from runners.schedulers.waiting_reasons import GIVEN_BACK, explain_reason


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("PENDING Resources", "waits until enough nodes or GPUs are free (Resources)"),
        ("PENDING Priority", "jobs of higher priority go first (Priority)"),
        (
            "PENDING QOSMaxJobsPerUserLimit",
            "a limit of its quality of service (QOS) is reached (QOSMaxJobsPerUserLimit)",
        ),
        (
            "PENDING AssocGrpGRES",
            "a limit of its account is reached (AssocGrpGRES)",
        ),
        (
            "PENDING ReqNodeNotAvail, UnavailableNodes:gpu-[01-04]",
            "a node that it needs is down, drained or reserved "
            f"(ReqNodeNotAvail, UnavailableNodes:gpu-[01-04]); {GIVEN_BACK}",
        ),
        (
            "PENDING Nodes required for job are DOWN, DRAINED or reserved for jobs in higher "
            "priority partitions",
            "a node that it needs is down, drained or reserved (Nodes required for job are DOWN, "
            f"DRAINED or reserved for jobs in higher priority partitions); {GIVEN_BACK}",
        ),
        ("PENDING SomethingNew", "PENDING: SomethingNew"),
        ("waiting GPU 0 is locked by another job", "waiting: GPU 0 is locked by another job"),
        ("CONFIGURING", "CONFIGURING"),
        ("PENDING", ""),
        ("RUNNING", ""),
        ("", ""),
    ],
)
def test_a_reason_is_said_in_words_with_the_schedulers_own(state: str, message: str) -> None:
    assert explain_reason(state) == message


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("DependencyNeverSatisfied", "ended in another way than it should"),
        ("JobHeldUser", "held by its user"),
        ("JobHeldAdmin", "held by an administrator"),
        ("launch failed requeued held", "its start has failed"),
        ("user env retrieval failed requeued held", "its start has failed"),
        ("BadConstraints", "no node has what it asks for"),
        ("PartitionTimeLimit", "more time than its partition gives"),
        ("QOSMaxGRESPerJob", "does not allow one job so much"),
        ("QOSMaxWallDurationPerJobLimit", "does not allow one job so much"),
        ("AssocMaxWallDurationPerJobLimit", "does not allow one job so much"),
        ("QOSMinGRES", "does not allow one job so much"),
        ("AssocGrpGRESMinutes", "is used up"),
        ("InvalidQOS", "not valid"),
        ("AccountNotAllowed", "may not use this partition"),
    ],
)
def test_what_waits_for_ever_says_so_with_what_a_person_can_do(reason: str, meaning: str) -> None:
    explained = explain_reason(f"PENDING {reason}")
    assert meaning in explained
    before, _, advice = explained.partition(f"({reason}); it will not start by itself: ")
    assert before
    assert advice


@pytest.mark.parametrize(
    "reason",
    [
        *("Resources", "Priority", "Dependency", "BeginTime", "QOSMaxJobsPerUserLimit"),
        *(
            "QOSMaxGRESPerUser",
            "QOSGrpCPURunMinutesLimit",
            "AssocGrpGRES",
            "AssocMaxJobsLimit",
            "Reservation",
        ),
        *("MaxGRESPerAccount", "ReqNodeNotAvail, May be reserved for other job", "PartitionDown"),
    ],
)
def test_what_ends_with_patience_asks_for_nothing_else(reason: str) -> None:
    explained = explain_reason(f"PENDING {reason}")
    assert f" ({reason})" in explained
    assert "it will not start by itself" not in explained


def test_a_held_job_of_grid_engine_is_said_to_be() -> None:
    assert explain_reason("hqw").startswith("it is held, or waits for another job (hqw); it will")
