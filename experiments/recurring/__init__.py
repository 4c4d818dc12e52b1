"""Recurring experiments: when one is due, what it launches, and what its charts show."""

from experiments.recurring.chart_history import History, read_history
from experiments.recurring.cluster_changes import list_watched_clusters, request_after_changes
from experiments.recurring.due_recurrences import describe_state, list_due, move_due_time
from experiments.recurring.limit_alarms import note_and_tell, tell_of_limits, tell_of_problem
from experiments.recurring.recurrence_drafts import (
    PlanChanged,
    add_first_recurrence,
    copy_settings,
    explain_why_not_recur,
    list_cluster_changes,
    make_draft,
)
from experiments.recurring.recurrence_points import list_unnoted, note_points

__all__ = [
    "History",
    "PlanChanged",
    "add_first_recurrence",
    "copy_settings",
    "describe_state",
    "explain_why_not_recur",
    "list_cluster_changes",
    "list_due",
    "list_unnoted",
    "list_watched_clusters",
    "make_draft",
    "move_due_time",
    "note_and_tell",
    "note_points",
    "read_history",
    "request_after_changes",
    "tell_of_limits",
    "tell_of_problem",
]
