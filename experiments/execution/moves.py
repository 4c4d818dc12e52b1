"""Changes of the states of jobs, runs and operations, each by compare-and-swap, with its event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from django.db import connection, transaction
from django.db.models import Model, QuerySet

from experiments.execution.gpu_hours import count_gpu_time
from experiments.models import Event, Experiment, Job, Operation, Run, User
from experiments.notify import enqueue_keep, enqueue_watch


def record_event(
    experiment: Experiment,
    what: str,
    *,
    job: Job | None = None,
    run: Run | None = None,
    why: str = "",
    by: User | None = None,
) -> None:
    """Append an event. `by` is None when Tare itself acted."""
    Event.objects.create(experiment=experiment, job=job, run=run, what=what, why=why, actor=by)


def move(
    row: Job | Run | Operation, to: str, *, why: str = "", by: User | None = None, **columns: Any
) -> bool:
    """Move `row` to the state `to` and write the event; return False if another was faster.

    `columns` change in the same statement. A transition that NEXT does not list is a ValueError.
    Operations have no events: each runs once, and its own columns hold its history.
    """
    if to not in row.NEXT[row.state]:
        raise ValueError(f"{row} cannot go from {row.state} to {to}.")
    before = row.state
    with transaction.atomic():
        rows = type(row)._default_manager.filter(pk=row.pk, state=before)
        if not rows.update(state=to, **columns):
            return False
        if before == Job.State.COLLECTING and isinstance(row, Job):
            count_gpu_time([row.pk])
        if not isinstance(row, Operation):
            # By their keys: an experiment's plan is large, and not needed here.
            Event.objects.create(
                experiment_id=row.experiment_id,
                job_id=row.pk if isinstance(row, Job) else row.job_id,
                run_id=row.pk if isinstance(row, Run) else None,
                what=f"{before} → {to}",
                why=why,
                actor=by,
            )
        if not isinstance(row, Operation):
            _ask_for_comparisons(type(row), before, to, [row.experiment_id])
    for name, value in {"state": to, **columns}.items():
        setattr(row, name, value)
    return True


def move_all(
    rows: QuerySet[Job] | QuerySet[Run],
    before: str,
    to: str,
    *,
    why: str = "",
    by: User | None = None,
    **columns: Any,
) -> int:
    """Move those of `rows` that are in the state `before`; return how many moved.

    Each gets its event, as from `move`. This takes four statements, however many rows move.
    """
    if to not in rows.model.NEXT[before]:
        raise ValueError(f"No {rows.model.__name__} can go from {before} to {to}.")
    is_job = rows.model is Job
    with transaction.atomic():
        locked = rows.filter(state=before).select_for_update(of=("self",)).order_by("pk")
        keys = list(locked.values_list("pk", "experiment_id", "pk" if is_job else "job_id"))
        moved = rows.model._default_manager.filter(pk__in=[pk for pk, _, _ in keys])
        moved.update(state=to, **columns)
        Event.objects.bulk_create(
            (
                Event(
                    experiment_id=experiment_pk,
                    job_id=job_pk,
                    run_id=None if is_job else pk,
                    what=f"{before} → {to}",
                    why=why,
                    actor=by,
                )
                for pk, experiment_pk, job_pk in keys
            ),
            batch_size=1000,
        )
        model = Job if is_job else Run
        _ask_for_comparisons(model, before, to, [experiment for _, experiment, _ in keys])
    return len(keys)


RowT = TypeVar("RowT", bound=Job | Run | Operation)


@dataclass(frozen=True)
class Move(Generic[RowT]):
    """The change of one row's state, with its own reason and columns."""

    row: RowT
    why: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    by: User | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    """Columns as they were when the change was decided: a row that has others now does not move."""


def move_each(moves: Sequence[Move[RowT]], before: str, to: str) -> list[RowT]:
    """Move rows of one kind that are in the state `before`; return those that moved.

    As `move` does, but each with its own columns, which must be the same ones for all rows. This
    takes as many statements for a hundred rows as for one.
    """
    if not moves:
        return []
    model: Any = type(moves[0].row)
    if to not in model.NEXT[before]:
        raise ValueError(f"No {model.__name__} can go from {before} to {to}.")
    by_key = {change.row.pk: change for change in moves}
    try:
        return _move_locked(model, by_key, before, to)
    except BaseException:
        for change in moves:  # what was rolled back is not what the rows say
            change.row.state = before
        raise


def _move_locked(model: Any, by_key: Mapping[int, Move[RowT]], before: str, to: str) -> list[RowT]:
    columns = list(next(iter(by_key.values())).columns)
    with transaction.atomic():
        locked = model.objects.filter(pk__in=by_key, state=before).select_for_update()
        names = {name for change in by_key.values() for name in change.known}
        keys = {
            row["pk"]
            for row in locked.order_by("pk").values("pk", *names)
            if all(row[name] == value for name, value in by_key[row["pk"]].known.items())
        }
        moved = [change for pk, change in by_key.items() if pk in keys]
        what = f"{before} → {to}"
        # Before the columns change: the event of a run is of the job that it belonged to.
        has_events = model is not Operation
        events = [_make_event(change, what) for change in moved] if has_events else []
        for change in moved:
            for name, value in {"state": to, **change.columns}.items():
                setattr(change.row, name, value)
        rows = [change.row for change in moved]
        update_each(rows, ["state", *columns])
        if before == Job.State.COLLECTING and model is Job:
            count_gpu_time(keys)
        if events:
            Event.objects.bulk_create(events)
            _ask_for_comparisons(model, before, to, [event.experiment_id for event in events])
    return rows


def _ask_for_comparisons(
    model: type[Job | Run], before: str, to: str, experiments: Iterable[int]
) -> None:
    """Have comparisons kept anew where jobs have ended, or runs that had ended are others now.

    And have their owners told.
    """
    if to in Job.FINAL if model is Job else before in Run.FINAL:
        for experiment_pk in set(experiments):
            enqueue_keep(experiment_pk)
            enqueue_watch(experiment_pk)


def lock_in_order(rows: Sequence[Job]) -> None:
    """Lock jobs in the order of their keys, as people's clicks do: no two wait for each other."""
    locked = Job.objects.select_for_update().filter(pk__in=[row.pk for row in rows])
    list(locked.order_by("pk").values_list("pk"))


def update_each(rows: Sequence[Model], names: Sequence[str], *, state: str = "") -> None:
    """Store these columns of rows of one kind, in one statement that names each column once.

    With `state`, only of those that are still in it.

    Django's `bulk_update` writes a CASE for each column of each row: of 100 runs it takes as long
    as everything else about them.
    """
    if not rows:
        return
    meta = type(rows[0])._meta
    fields: list[Any] = [meta.pk, *(meta.get_field(name) for name in names)]
    values = [
        [field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows]
        for field in fields
    ]
    columns = [f'"{field.column}"' for field in fields]
    # Without their lengths: a cast to varchar(40) cuts off, where storing a longer text is refused.
    types = [field.rel_db_type(connection).partition("(")[0] for field in fields]
    arrays = ", ".join(f"%s::{name}[]" for name in types)
    changes = ", ".join(f"{column} = new.{column}" for column in columns[1:])
    with connection.cursor() as cursor:
        cursor.execute(
            f'UPDATE "{meta.db_table}" AS old SET {changes} '  # noqa: S608 - names of our models
            f"FROM unnest({arrays}) AS new ({', '.join(columns)}) "
            f"WHERE old.{columns[0]} = new.{columns[0]} AND (%s = '' OR old.state = %s)",
            [*values, state, state],
        )


def _make_event(change: Move[Any], what: str) -> Event:
    row = change.row
    is_job = isinstance(row, Job)
    return Event(
        experiment_id=row.experiment_id,
        job_id=row.pk if is_job else row.job_id,
        run_id=None if is_job else row.pk,
        what=what,
        why=change.why,
        actor=change.by,
    )
