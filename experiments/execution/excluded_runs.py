"""What a person does with a run that succeeded: exclude it from every comparison, and undo that."""

from __future__ import annotations

from django.db import transaction

from experiments.comparisons import (
    COLLECTED_AFTER,
    EXCLUDED_AFTER,
    EXCLUDED_AFTER_INTERIM,
    EXCLUDING,
    TRIED_AGAIN,
    compare_experiment,
)
from experiments.execution.moves import move, record_event
from experiments.models import Event, KeptComparison, Run, User

NOTE = "note before the exclusion"
"""The event that keeps what was said of a run, whose place the cause of its exclusion takes."""
AFTER_VERDICTS = (TRIED_AGAIN, COLLECTED_AFTER, EXCLUDED_AFTER)
"""Events that say that the last verdict of an experiment could be read, whatever came later."""


def exclude(run: Run, by: User, why: str) -> bool:
    """Take a succeeded run out of the comparison, with a written reason. It stays visible."""
    if run.state != Run.State.SUCCEEDED or not why.strip():
        return False
    note = run.message
    what, verdicts = find_readable_verdict(run)
    with transaction.atomic():
        moved = move(
            run, Run.State.EXCLUDED, why=why, by=by, reason=f"excluded by {by}"[:40], message=why
        )
        if moved and note:
            record_event(run.experiment, NOTE, job=run.job, run=run, why=note)
        if moved and what:
            record_event(run.experiment, what, job=run.job, run=run, why=verdicts, by=by)
    return moved


def include_again(run: Run, by: User, why: str) -> bool:
    """Undo the exclusion of a run, with a written reason: it counts as if it had not been."""
    if run.state != Run.State.EXCLUDED or not why.strip():
        return False
    what, verdicts = find_readable_verdict(run)
    with transaction.atomic():
        note = _find_note(run)
        moved = move(run, Run.State.SUCCEEDED, why=why, by=by, reason="", message=note)
        if moved and what:
            _record_choice(run, what, f"{verdicts}; run {run.uid[:8]} was included again", by)
    return moved


def _record_choice(run: Run, what: str, why: str, by: User) -> None:
    """Note of all runs that stay excluded that a verdict could be read when they were left so.

    Whoever takes some of them back has chosen the others.
    """
    rest = Run.objects.filter(experiment=run.experiment_id, state=Run.State.EXCLUDED)
    known = rest.filter(events__what=what)
    Event.objects.bulk_create(
        Event(experiment_id=run.experiment_id, job_id=job, run_id=pk, what=what, why=why, actor=by)
        for pk, job in rest.exclude(pk__in=known.values("pk")).values_list("pk", "job")
    )


def _find_note(run: Run) -> str:
    """Return what was said of a run before it was excluded."""
    rows = run.events.order_by("-pk")
    excluded = rows.filter(what=EXCLUDING).values_list("pk", flat=True).first()
    if excluded is None:
        return ""
    if note := rows.filter(what=NOTE, pk__gt=excluded).first():
        return note.why
    return ""


def find_readable_verdict(run: Run) -> tuple[str, str]:
    """Return the event of an exclusion now, and which verdicts can be read; "" if none can.

    In doubt one can: whoever has seen any verdict of an experiment knows something about all of
    it, and one that could be read once may have been, also where it cannot be read any more.
    """
    experiment = run.experiment
    comparison = compare_experiment(experiment)
    place = {"workload": run.workload.name, "scale": run.scale}
    groups = [group for of_metric in comparison.by_metric for group in of_metric]
    has_several = len(comparison.by_metric) > 1
    verdicts = [
        f"{pair.environment}: {pair.verdict}{f' on {group.metric.name}' * has_several}"
        for group in groups
        if group.configuration == place
        for pair in group.pairs
        if run.environment.name in (pair.environment, pair.baseline)
    ]
    was_final = experiment.events.filter(what__in=AFTER_VERDICTS).exists()
    if not verdicts and any(group.pairs for group in groups):
        verdicts = ["verdicts of other comparisons"]
    elif not verdicts and experiment.events.filter(what=TRIED_AGAIN).exists():
        verdicts = ["a verdict that could be read before a job was tried again"]
    elif not verdicts and (was_final or _has_kept_verdict(run)):
        verdicts = ["a verdict that could be read earlier"]
    if not verdicts:
        return "", ""
    is_final = was_final or experiment.looks == 1 or not comparison.stage.waits
    return EXCLUDED_AFTER if is_final else EXCLUDED_AFTER_INTERIM, "; ".join(verdicts)


def _has_kept_verdict(run: Run) -> bool:
    """Return whether a comparison with a verdict was computed for the pages, and kept."""
    row = KeptComparison.objects.filter(pk=run.experiment_id).values_list("verdicts").first()
    return bool(row and row[0])
