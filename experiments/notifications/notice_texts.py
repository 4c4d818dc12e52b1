"""The sentences of notifications, written when they are shown or sent: names may have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.urls import reverse

from experiments.models import AlertEnding, Notification, NotificationDelivery, NotificationKind
from experiments.models.notification import ROLES, TEST_KIND


@dataclass(frozen=True)
class NoticeText:
    """A notification in words. The title is a question or a name that somebody has typed."""

    what: str
    title: str
    sentence: str
    address: str
    """The page that it is about, without the site."""


def write_address(path: str) -> str:
    """Return the whole address of a page."""
    return settings.SITE_ADDRESS + path


def describe_notification(row: Notification | NotificationDelivery) -> NoticeText:
    """Return the text of a notification."""
    if row.kind in ROLES:
        return _describe_alert(row)
    if row.kind == NotificationKind.WEBHOOK:
        address = reverse("webhook", args=[row.facts["webhook"]])
        sentence = f"{row.facts['why']} Nothing is posted there until you switch it on again."
        return NoticeText("Webhook switched off", row.facts["host"], sentence, address)
    if row.kind == NotificationKind.RECURRING:
        return _describe_recurring(row)
    if row.kind == TEST_KIND:
        choices = reverse("notification_choices")
        return NoticeText("Test", "A test", "You have asked for this test.", choices)
    experiment = row.experiment
    title = experiment.question if experiment else row.subject
    address = experiment.get_absolute_url() if experiment else reverse("notifications")
    if row.kind == NotificationKind.VERDICT and experiment:
        address = reverse("comparison", args=[experiment.pk])
        what = "Verdicts changed" if row.facts.get("earlier") else "Verdicts"
        return NoticeText(what, title, _describe_verdicts(row.facts), address)
    if row.kind == NotificationKind.FAILED:
        return NoticeText("Runs failed", title, _describe_failures(row.facts), address)
    return NoticeText("Ended", title, _describe_end(row.facts), address)


def _describe_recurring(row: Notification | NotificationDelivery) -> NoticeText:
    """Return which charts a recurrence has left, with what differs, or why there was none."""
    facts = row.facts
    title = row.experiment.question if row.experiment else row.subject
    address = reverse("recurring", args=[facts["recurring"]])
    if problem := facts.get("problem"):
        return NoticeText("Recurrence not launched", title, problem, address)
    names = "; ".join(facts["left"])
    if (more := facts["count"] - len(facts["left"])) > 0:
        names += f"; and {more} more"
    sentence = f"Recurrence {facts['number']} has left the limits of {names}."
    if facts["changes"]:
        sentence += f" Other than in the one before: {'; '.join(facts['changes'])}."
    return NoticeText("Outside of limits", title, sentence, address)


def _describe_alert(row: Notification | NotificationDelivery) -> NoticeText:
    """Return what is wrong, or that it is over."""
    title, address = row.facts["title"], reverse("operations")
    if row.cluster:
        title, address = row.cluster.name, reverse("cluster", args=[row.cluster.pk])
    if row.credential:
        title, address = row.credential.name, row.credential.get_absolute_url()
    what = row.facts["what"]
    if lasted := row.facts.get("lasted"):
        if ending := row.facts.get("ending"):
            sentence = f"{what}: seen for {lasted}, {AlertEnding(ending).label}."
            return NoticeText(ending.capitalize(), title, sentence, address)
        return NoticeText("Well again", title, f"{what}: over after {lasted}.", address)
    return NoticeText(what, title, row.facts["text"], address)


def _describe_verdicts(facts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the verdicts, "EQUIVALENT 3, SLOWER 1", with those before where they were others."""
    now, earlier = (_write_tally(facts.get(name) or {}) for name in ("verdicts", "earlier"))
    return f"{now}; before: {earlier}." if earlier else f"{now}."


def _write_tally(verdicts: Mapping[str, int]) -> str:
    ordered = sorted(verdicts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{word} {count}" for word, count in ordered)


def _describe_failures(facts: Mapping[str, int]) -> str:
    failed, runs = facts.get("failed", 0), facts.get("runs", 0)
    return f"{failed} of {runs} runs {'has' if failed == 1 else 'have'} failed so far."


def _describe_end(facts: Mapping[str, int]) -> str:
    parts = [
        f"{facts.get(name, 0)} {name}"
        for name in ("succeeded", "failed", "cancelled")
        if facts.get(name) or name == "succeeded"
    ]
    return f"All {facts.get('runs', 0)} runs are over: {', '.join(parts)}."
