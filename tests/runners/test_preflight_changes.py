"""What changes from one check of a cluster to the next, and which outcome stands for all."""

from runners.preflight.checks import (
    Check,
    find_changes,
    find_worst_outcome,
)
from tests.runners.preflight_answers import OUTCOMES, inside, start


def test_what_no_database_takes_is_not_kept():
    check = start(inside(os="a\0b\ud800c" + "x" * 10_000))
    kept = check.as_json()
    assert "a\ufffdb\ufffdc" in kept["found"]
    assert len(kept["found"]) == 4000


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
