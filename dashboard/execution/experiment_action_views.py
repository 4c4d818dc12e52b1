"""The buttons by which people change an experiment that was launched, or one of its jobs."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from dashboard.access.rights import get_editable
from dashboard.typed_requests import Request, parse_whole_number, read_posted_text
from experiments.execution import experiment_pauses, lifecycle, pins, repairs, unsent_jobs
from experiments.execution.further_attempts import NotDone
from experiments.execution.late_files import request_collection
from experiments.execution.removed_files import explain_removal
from experiments.models import Job, Run
from experiments.notify import enqueue_tick


@require_POST
def cancel(request: Request, pk: int) -> HttpResponse:
    """End what is alive. Runs that have ended keep their numbers."""
    row = get_editable(request, pk)
    cancelled = lifecycle.cancel(row, request.user)
    enqueue_tick(row.cluster_id)
    text = cancelled.describe(str(row.cluster))
    messages.info(request, f"{text} Results so far are kept.")
    if not row.cluster.enabled and row.jobs.filter(state__in=Job.LIVE).exists():
        text = f"{row.cluster} is switched off: its jobs there end once it is enabled again."
        messages.warning(request, text)
    return redirect(row)


@require_POST
def pause(request: Request, pk: int) -> HttpResponse:
    """Have nothing new of an experiment sent; what has been sent goes on."""
    row = get_editable(request, pk)
    # The page itself says that it is paused, and by whom.
    if not experiment_pauses.pause(row, request.user):
        messages.info(request, "Nothing was changed: it was paused before, or has ended.")
    return redirect(row)


@require_POST
def resume(request: Request, pk: int) -> HttpResponse:
    """Have the jobs of a paused experiment sent again."""
    row = get_editable(request, pk)
    if experiment_pauses.resume(row, request.user):
        enqueue_tick(row.cluster_id)
        messages.success(request, "Jobs are sent again.")
    else:
        messages.info(request, "Nothing was changed: it was not paused.")
    return redirect(row)


@require_POST
def pin(request: Request, pk: int) -> HttpResponse:
    """Keep the experiment's files on the cluster, or leave them to the cluster's rule again."""
    row = get_editable(request, pk)
    if "unpin" in request.POST:
        pins.unpin(row, request.user)
        messages.info(request, "Unpinned: the cluster’s rule removes its files when it is time.")
    elif under_way := pins.pin(row, request.user):
        enqueue_tick(row.cluster_id)
        which = "One of its directories is" if under_way == 1 else f"{under_way} are"
        words = f"Pinned. {which} being removed already: that is asked to end, and may be too late."
        messages.warning(request, words)
    else:
        messages.success(request, "Pinned: its files stay on the cluster.")
    return redirect(row)


@require_POST
def stop(request: Request, pk: int) -> HttpResponse:
    """Keep the verdict of the latest interim analysis, and end what is alive."""
    row = get_editable(request, pk)
    analysis = parse_whole_number(request.POST.get("analysis"))
    if analysis is not None and lifecycle.stop(row, analysis, request.user):
        enqueue_tick(row.cluster_id)
        words = f"Stopped at interim analysis {analysis}. Its verdicts stand, whatever ends now."
        messages.success(request, words)
    else:
        words = "Not stopped: that interim analysis is not the last one, or decided nothing."
        messages.error(request, words)
    return redirect(row)


@require_POST
def retry_unsent(request: Request, pk: int) -> HttpResponse:
    """Plan the next attempt of every job that the cluster's scheduler has not taken."""
    row = get_editable(request, pk)
    try:
        count = unsent_jobs.retry_unsent(row, request.user)
    except NotDone as refusal:
        messages.error(request, str(refusal))
        return redirect(row)
    enqueue_tick(row.cluster_id)
    plural = "" if count == 1 else "s"
    messages.success(request, f"{count} job{plural} that had not been sent will be tried again.")
    return redirect(row)


@require_POST
def collect_again(request: Request, uid: str) -> HttpResponse:
    """Have the files of an ended job read once more."""
    job = get_object_or_404(Job, uid=uid)
    get_editable(request, job.experiment_id)
    if request_collection(job, request.user):
        enqueue_tick(job.cluster_id)
        messages.success(
            request, f"The files of block {job.number} are read once more. Events say what is new."
        )
    else:
        why = "There is nothing to collect: all runs of this job have given their numbers."
        messages.error(request, explain_removal(job) or why)
    return _back(request, job)


@require_POST
def repair(request: Request, uid: str) -> HttpResponse:
    """Plan a job for the runs of a block that never began."""
    job = get_object_or_404(Job.objects.defer("script"), uid=uid)
    get_editable(request, job.experiment_id)
    try:
        second = repairs.repair(job, request.user, same_node="any_node" not in request.POST)
    except NotDone as refusal:
        messages.error(request, str(refusal))
    else:
        enqueue_tick(job.cluster_id)
        where = f", on {second.node}" if second.node else ""
        messages.success(request, f"The rest of block {job.number} is planned{where}.")
    return _back(request, job)


@require_POST
def allow_any_node(request: Request, uid: str) -> HttpResponse:
    """Let the rest of a block run on any node, where the one it waits for is gone."""
    job = get_object_or_404(Job.objects.defer("script"), uid=uid)
    get_editable(request, job.experiment_id)
    try:
        repairs.allow_any_node(job, request.user)
    except NotDone as refusal:
        messages.error(request, str(refusal))
    else:
        enqueue_tick(job.cluster_id)
        what = "The rest of block" if job.repairs_id else "Block"
        messages.success(request, f"{what} {job.number} may run on any node.")
    return _back(request, job)


@require_POST
def retry(request: Request, uid: str) -> HttpResponse:
    """Plan the next attempt of a failed job, if none of its runs gave a number."""
    job = get_object_or_404(Job, uid=uid)
    get_editable(request, job.experiment_id)
    try:
        lifecycle.retry(job, request.user)
    except NotDone as refusal:
        messages.error(request, str(refusal))
    else:
        enqueue_tick(job.cluster_id)
        messages.success(request, f"Attempt {job.attempt} of block {job.number} is planned.")
    return _back(request, job)


def _back(request: Request, job: Job) -> HttpResponse:
    """Return to the page whose button was pressed: a run's, or the tab of jobs."""
    uid = read_posted_text(request, "run")[:32]
    run = job.runs.filter(uid=uid).first()
    if run is None:  # a run that never began may have moved to the job that runs it
        run = Run.objects.filter(job__repairs=job, uid=uid).first()
    return redirect(run or f"{job.experiment.get_absolute_url()}?tab=jobs")
