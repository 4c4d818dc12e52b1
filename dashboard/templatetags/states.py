"""Template tags for states of clusters, runs, operations and image imports, with words beside."""

from __future__ import annotations

from functools import lru_cache

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.templatetags.numbers import size
from dashboard.templatetags.tare import KEPT, ago, state
from experiments.execution.end_texts import describe_exit_code
from experiments.execution.queue_places import WaitingQueue
from experiments.models import Cluster, ImageImport, Job, Operation, Run

register = template.Library()


@register.simple_tag
def cluster_state(cluster: Cluster, *, short: bool = False) -> SafeString:
    """Return whether a cluster is reachable and what is paused; when it was, unless `short`."""
    mark, text, when = _contact(cluster)
    if text == "last reached":
        contact = _draw_contact(mark, text, " ", ago(cluster.last_seen_at))
    else:
        contact = _draw_contact(mark, text, "", f", {when}" if when and not short else "")
    is_limited = cluster.waits_for_connections and cluster.enabled
    if not is_limited and not cluster.shared_pauses:
        return contact
    pauses = format_html_join(
        "", " {}", ((state("paused", pause.title),) for pause in cluster.shared_pauses)
    )
    if is_limited:
        pauses = format_html(" {}{}", state("paused", "limit of connections"), pauses)
    return format_html("{}{}", contact, pauses)


@lru_cache(KEPT)
def _draw_contact(mark: str, text: str, blank: str, when: str) -> SafeString:
    """Return a cluster's contact as a state, and when it was; many have the same."""
    beside = format_html('{}<span class="muted">{}</span>', blank, when) if when else ""
    return format_html("{}{}", state(mark, text), beside)


@register.simple_tag
def cluster_link(cluster: Cluster) -> SafeString:
    """Return a link to a cluster's page."""
    return format_html('<a href="{}">{}</a>', _find_address(cluster.pk), cluster)


@lru_cache(KEPT)
def _find_address(pk: int) -> str:
    """Return the address of a cluster's page; the overview has that of each every few seconds."""
    return reverse("cluster", args=[pk])


@register.simple_tag
def run_state(run: Run) -> SafeString:
    """Return a run's state; one that is finished may wait for the rest of its job."""
    if not run.awaits_job:
        return state(run.state)
    exit_code = f"with exit code {describe_exit_code(run.exit_code)}, " if run.exit_code else ""
    return format_html(
        '{} <span class="muted">{}waiting for the rest of its job</span>',
        state("running", "finished"),
        exit_code,
    )


@register.filter
def waits_for(operation: Operation) -> str:
    """Return what an operation waits for that is not running yet, "" for any other."""
    if operation.state == Operation.State.PLANNED:
        archive = "the image’s archive to be there, and " * (operation.kind == "stage")
        most = operation.cluster.max_live_jobs
        limit = f"at most {most} job{'s' * (most != 1)} of Tare’s at once"
        return f"waits for {archive}its turn on {operation.cluster}, which takes {limit}"
    if operation.state == Operation.State.QUEUED:
        reason = f": {operation.scheduler_words}" if operation.scheduler_words else ""
        return f"in the queue of {operation.cluster}{reason}"
    return ""


@register.filter
def place_in(job: Job, queue: WaitingQueue | None) -> str:
    """Return a job's place among those that wait, such as "12th of 340"; "" where it has none."""
    return queue.find_place(job) if queue else ""


@register.simple_tag
def import_state(image_import: ImageImport) -> SafeString:
    """Return the state of an image import, as a reader knows states."""
    match image_import.state:
        case "failed" | "done" as ended:
            return state(ended)
        case "waiting":
            return state("queued", "waiting")
    return state("running", "under way")


@register.filter
def import_progress(image_import: ImageImport) -> str:
    """Return what an image import is doing, and how much of the image is there."""
    parts = []
    if image_import.doing:
        parts.append(image_import.doing)
    elif image_import.state == "waiting":
        asked = ago(image_import.requested_at)
        return f"A worker takes it up in a moment; asked for {asked}."
    if image_import.done_bytes is not None:
        total = f" of {size(image_import.total_bytes)}" if image_import.total_bytes else ""
        parts.append(f"{size(image_import.done_bytes)}{total}")
    return ": ".join(parts)


def _contact(cluster: Cluster) -> tuple[str, str, str]:
    """Return the symbol and the words for a cluster's contact, and when it was."""
    reached = f"last reached {ago(cluster.last_seen_at)}" if cluster.last_seen_at else ""
    if cluster.recorded:
        return "planned", "from logs", ""
    if not cluster.enabled:
        return "planned", "off", ""
    if cluster.is_by_hand:
        return "planned", "by hand", ""
    if cluster.preparing:
        return "planned", "being set up", reached
    match cluster.contact:
        case "recent":
            return "yes", "reachable", ago(cluster.last_seen_at)
        case "never":
            return "planned", "never reached", ""
        case "old":
            return "planned", "last reached", ""
    return "no", cluster.trouble, reached or "never reached"
