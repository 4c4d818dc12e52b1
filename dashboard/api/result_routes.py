"""The progress of an experiment and its comparison."""

from __future__ import annotations

from typing import Any

from django.core.cache import cache
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Schema

from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.list_parts import send_row
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from dashboard.comparisons.diagnosis import diagnose
from dashboard.comparisons.export_views import describe_comparison
from dashboard.comparisons.panels import collect_exported_rows
from dashboard.execution.experiment_parts import read_paces_for_part
from dashboard.execution.live_run import describe_live_run
from dashboard.execution.matrix import estimate_seconds_left
from experiments.comparisons import (
    ExperimentComparison,
    find_latest,
    read_comparison,
    read_latest,
)
from experiments.comparisons.comparison_keys import identify_inputs
from experiments.execution.live_readings import watch
from experiments.execution.progress import explain_waiting, measure_progress
from experiments.models import Experiment, Job, Run
from experiments.statistics.exit_words import choose_exit_word

router = Router(tags=["Results"])
REMEMBERED_SECONDS = 3600
BEING_COMPUTED = "All runs have ended; the comparison is being computed: ask again in some seconds."
MOST_WATCHED = 4
"""Running runs of which more is read from the cluster while somebody asks."""


class RunningRun(Schema):
    """What a run does now, as it was read last."""

    run: str
    environment: str
    phase: str
    step: int | None
    of_steps: int | None
    seconds_left: float | None
    output_tail: str


class ProgressSchema(Schema):
    """How far an experiment is."""

    state: str
    is_alive: bool
    runs: dict[str, int]
    runs_planned_in_all: int
    jobs: dict[str, int]
    seconds_left: float | None
    waiting_for: list[str]
    running: list[RunningRun]
    verdicts: dict[str, int]
    exit_word: str
    sentence: str


class ComparisonSchema(Schema):
    """The comparison: the plan, the results row by row, and one word for programs."""

    exit_word: str
    sentence: str
    experiment: dict[str, Any]
    waiting: str
    comparison: list[dict[str, Any]]


def judge_experiment(experiment: Experiment, *, is_alive: bool) -> tuple[dict[str, int], str, str]:
    """Return the verdicts, the word for programs and the sentence of the page.

    As on the page, what takes long is computed by a worker, and what was read of a comparison is
    remembered: programs ask every few seconds.
    """
    if experiment.is_draft:
        return {}, "unfinished", "It has not been launched."
    inputs = identify_inputs([experiment])[experiment.pk]
    latest = find_latest(experiment, inputs)
    kept_at = latest.row.kept_at.timestamp() if latest.row else "now"
    name = f"api-verdict-{experiment.pk}-{latest.key}-{kept_at}"
    summary: tuple[dict[str, int], str] | None = cache.get(name) if latest.key else None
    if summary is None:
        comparison, latest = read_latest(experiment, inputs)
        summary = dict(comparison.verdicts), _write_sentence(comparison)
        if latest.key:
            cache.set(name, summary, REMEMBERED_SECONDS)
    verdicts, sentence = summary
    if latest.is_behind and not is_alive:
        return verdicts, "unfinished", latest.problem or BEING_COMPUTED
    return verdicts, choose_exit_word(verdicts, is_alive=is_alive), sentence


def _write_sentence(comparison: ExperimentComparison) -> str:
    """Return what the page says first: when the verdict comes or, after it, what it is."""
    if comparison.stage.waiting:
        return comparison.stage.waiting
    diagnosis = diagnose(comparison)
    return diagnosis.sentence if diagnosis else ""


@router.get("experiments/{pk}/progress", auth=READ, response={200: ProgressSchema, **REFUSED})
def read_progress(request: ApiRequest, pk: Key) -> ProgressSchema:
    """Return how far an experiment is. While it is asked for, running runs are read."""
    row = find_experiment(request, pk)
    progress = measure_progress([row])[row.pk]
    tally = progress.tally
    is_alive = not row.is_draft and tally.alive
    paces = read_paces_for_part(row, progress) if is_alive else ()
    verdicts, word, sentence = judge_experiment(row, is_alive=is_alive)
    return ProgressSchema(
        state=progress.status.text,
        is_alive=is_alive,
        runs=dict(sorted(tally.states.items())),
        runs_planned_in_all=tally.total,
        jobs=dict(sorted(progress.jobs.items())),
        seconds_left=estimate_seconds_left(
            paces,
            at_once=progress.jobs[Job.State.RUNNING],
            cooldown_seconds=row.cooldown_seconds,
        ),
        waiting_for=[str(text) for text in explain_waiting(row, progress.jobs, request.user)]
        if row.launched_at
        else [],
        running=[_describe_running(run) for run in _list_running(row)] if is_alive else [],
        verdicts=verdicts,
        exit_word=word,
        sentence=sentence,
    )


def _list_running(row: Experiment) -> list[Run]:
    running = row.runs.filter(state=Run.State.RUNNING, ended_at=None)
    related = running.select_related("job__cluster", "environment", "experiment")
    return list(related.order_by("-began_at", "-pk")[:MOST_WATCHED])


def _describe_running(run: Run) -> RunningRun:
    live = describe_live_run(run, watch(run))
    return RunningRun(
        run=run.uid,
        environment=str(run.environment),
        phase=live.phase,
        step=live.steps or None,
        of_steps=live.planned_steps,
        seconds_left=live.seconds_left,
        output_tail=live.output,
    )


@router.get("experiments/{pk}/comparison", auth=READ, response={200: ComparisonSchema, **REFUSED})
def read_experiment_comparison(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the comparison: what the page's JSON file holds, with a word for programs."""
    rows = Experiment.objects.visible_to(request.user)
    row = get_object_or_404(rows.select_related("cluster", "owner", "baseline"), pk=pk)
    comparison = read_comparison(row)
    is_alive = not row.is_draft and measure_progress([row])[row.pk].tally.alive
    word = choose_exit_word(dict(comparison.verdicts), is_alive=is_alive or row.is_draft)
    content = {
        "exit_word": word,
        "sentence": _write_sentence(comparison),
        **describe_comparison(row, comparison),
        **collect_exported_rows(comparison),
    }
    return send_row(request, content)
