"""Why a scheduler lets a job wait, in words."""

from __future__ import annotations

import pytest

from runners.schedulers.waiting_reasons import explain_reason


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
            "(ReqNodeNotAvail, UnavailableNodes:gpu-[01-04])",
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
