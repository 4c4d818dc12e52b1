"""What Tare itself writes, as lists that nobody changes here."""

from __future__ import annotations

from django.contrib import admin

from experiments.admin.base import ReadOnly
from experiments.models import (
    CheckReport,
    Credential,
    Event,
    HostKey,
    Job,
    Recurrence,
    RecurringExperiment,
    Run,
)


@admin.register(Credential)
class CredentialAdmin(ReadOnly):
    """A list only: keys are imported, shared, rotated and deleted on their own pages."""

    fields = ("name", "user_name", "fingerprint", "origin", "owner", "last_used_at", "created_at")
    list_display = ("name", "user_name", "fingerprint", "origin", "owner", "last_used_at")
    list_select_related = ("owner",)


@admin.register(Job)
class JobAdmin(ReadOnly):
    """The administration's list of jobs."""

    list_display = ("uid", "experiment", "block", "state", "reason", "scheduler_id", "attempt")
    list_filter = ("state", "cluster")
    list_select_related = ("experiment",)


@admin.register(Run)
class RunAdmin(ReadOnly):
    """The administration's list of runs."""

    list_display = ("uid", "experiment", "workload", "environment", "scale", "repeat", "state")
    list_filter = ("state",)
    list_select_related = ("experiment", "workload", "environment")


@admin.register(Event)
class EventAdmin(ReadOnly):
    """The administration's list of events."""

    list_display = ("at", "experiment", "__str__", "actor", "why")
    list_select_related = ("experiment", "actor")


@admin.register(CheckReport)
class CheckReportAdmin(ReadOnly):
    """The administration's list of cluster checks."""

    list_display = ("cluster", "requested_at", "owner", "outcome")
    list_filter = ("outcome", "cluster")
    list_select_related = ("cluster", "owner")


@admin.register(HostKey)
class HostKeyAdmin(ReadOnly):
    """The administration's list of host keys."""

    list_display = ("cluster", "host", "port", "fingerprint", "ended_at", "pinned_by", "pinned_at")
    list_select_related = ("cluster", "pinned_by")


@admin.register(RecurringExperiment)
class RecurringExperimentAdmin(ReadOnly):
    """A list only: their rules are changed, and they are stopped, on their own pages."""

    fields = (
        *("question", "source", "owner", "every_days", "on_changes", "charted_metrics"),
        *("most_recurrences", "last_number", "due_at", "ends_at", "stopped_at", "problem"),
    )
    list_display = ("question", "owner", "last_number", "due_at", "stopped_at", "problem")
    list_select_related = ("owner",)


@admin.register(Recurrence)
class RecurrenceAdmin(ReadOnly):
    """The administration's list of launches of recurring experiments."""

    fields = (
        *("recurring", "number", "experiment", "reason", "commit", "detail", "differences"),
        *("launched_at", "changes", "reported", "problem", "method"),
    )
    list_display = ("recurring", "number", "experiment", "reason", "launched_at", "problem")
    list_filter = ("reason",)
    list_select_related = ("recurring", "experiment")
