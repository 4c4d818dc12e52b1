"""The progress of experiments: their runs and jobs counted by state, and described in words.

All counting is done in SQL: neither a plan nor a script is loaded, however many jobs there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.db.models import Count, Min, Q
from django.utils import timezone

from experiments.clusters.pauses import list_paused_keys
from experiments.execution.limits import find_holds
from experiments.execution.overdue_visits import find_overdue_visit
from experiments.models import Experiment, Job, Run, User
from runners.schedulers.waiting_reasons import explain_reason

ACTIVE = (Job.State.RUNNING, Job.State.COLLECTING)
ONE_AFTER_THE_OTHER = (
    "Each block is to run on a node of its own: it is sent when the one before it, of the same "
    "configuration, has started."
)
REASONS_SHOWN = 3
COUNT_STATES = """
SELECT '{kind}', experiment_id, state, count(*) FROM experiments_{kind}
WHERE experiment_id = ANY(%s) GROUP BY experiment_id, state
"""


@dataclass(frozen=True)
class Tally:
    """The number of runs in each state."""

    states: Counter[str]

    @property
    def total(self) -> int:
        return self.states.total()

    @property
    def ended(self) -> int:
        return sum(self.states[state] for state in Run.FINAL)

    @property
    def succeeded(self) -> int:
        return self.states[Run.State.SUCCEEDED]

    @property
    def failed(self) -> int:
        return self.states[Run.State.FAILED]

    @property
    def alive(self) -> bool:
        return self.ended < self.total

    @property
    def parts(self) -> list[tuple[str, int]]:
        """Return the states other than planned with their counts, for a progress bar."""
        order = ("succeeded", "excluded", "failed", "cancelled", "running")
        return [(state, self.states[state]) for state in order if self.states[state]]


@dataclass(frozen=True)
class Status:
    """An experiment's state: `mark` is the state whose shape and colour it has on pages."""

    mark: str
    text: str


def derive_status(
    runs: Mapping[str, int],
    jobs: Mapping[str, int],
    *,
    is_draft: bool = False,
    is_imported: bool = False,
    is_cancelled: bool = False,
    is_paused: bool = False,
    is_paused_by_hand: bool = False,
) -> Status:
    """Return the state that runs and jobs, counted by their states, add up to.

    *Waiting* is in Tare's own queue, *queued* in the scheduler's; *running* has a job under way.
    """
    tally = Tally(Counter(runs))
    if is_draft:
        return Status("draft", "draft")
    if tally.alive:
        if is_cancelled:
            return Status("cancelled", "being cancelled")
        suffix = ", the rest paused" if is_paused_by_hand and jobs.get(Job.State.PLANNED) else ""
        if runs.get(Run.State.RUNNING) or any(jobs.get(state) for state in ACTIVE):
            return Status("running", f"running{suffix}")
        if jobs.get(Job.State.QUEUED) or jobs.get(Job.State.SUBMITTING):
            return Status("queued", f"queued{suffix}")
        is_held = is_paused or is_paused_by_hand
        return Status("paused", "paused") if is_held else Status("planned", "waiting")
    if is_cancelled:
        return Status("cancelled", "cancelled")
    return _describe_end(tally, "imported" if is_imported else "finished")


def _describe_end(tally: Tally, text: str) -> Status:
    """Return the status of an experiment that was not cancelled and has no live runs."""
    missing = [state for state in (Run.State.FAILED, Run.State.CANCELLED) if tally.states[state]]
    if not missing:
        return Status("done", text)
    if sum(tally.states[state] for state in missing) == tally.total:
        return Status(missing[0], str(missing[0]))
    counts = [f"{tally.states[state]} of {tally.total} runs {state}" for state in missing]
    return Status("incomplete", f"{text}, {', '.join(counts)}")


@dataclass(frozen=True)
class Progress:
    """An experiment's runs, and its jobs by state."""

    tally: Tally
    jobs: Counter[str]
    status: Status

    @property
    def has_live_jobs(self) -> bool:
        """Return whether the scheduler has jobs of it, or may have."""
        return any(self.jobs[state] for state in Job.LIVE)


def measure_progress(
    experiments: Iterable[Experiment],
    runs: Mapping[int, Counter[str]] | None = None,
    jobs: Mapping[int, Counter[str]] | None = None,
) -> dict[int, Progress]:
    """Return the progress of each experiment, by its key, with two queries for all of them.

    Where `runs` or `jobs` are given, their numbers by state, they are not counted once more.
    """
    rows = list(experiments)
    given = {"run": runs, "job": jobs}
    counted = _count_states(rows, [kind for kind, counts in given.items() if counts is None])
    runs = counted["run"] if runs is None else runs
    jobs = counted["job"] if jobs is None else jobs
    waiting = [row for row in rows if jobs.get(row.pk, Counter())[Job.State.PLANNED]]
    paused = list_paused_keys(waiting)
    return {
        row.pk: Progress(
            Tally(runs.get(row.pk, Counter())),
            jobs.get(row.pk, Counter()),
            derive_status(
                runs.get(row.pk, Counter()),
                jobs.get(row.pk, Counter()),
                is_draft=row.is_draft,
                is_imported=row.imported_at is not None,
                is_cancelled=row.cancelled_at is not None,
                is_paused=row.pk in paused,
                is_paused_by_hand=row.paused_at is not None,
            ),
        )
        for row in rows
    }


def _count_states(
    experiments: list[Experiment], kinds: Sequence[str]
) -> dict[str, dict[int, Counter[str]]]:
    """Return how many runs or jobs, by kind and experiment, are in which state; one query."""
    counts: dict[str, dict[int, Counter[str]]] = {kind: {} for kind in kinds}
    if not experiments or not kinds:
        return counts
    keys = [row.pk for row in experiments]
    with connection.cursor() as cursor:
        # Not by the ORM: pages that follow experiments ask it every few seconds.
        statement = " UNION ALL ".join(COUNT_STATES.format(kind=kind) for kind in kinds)
        cursor.execute(statement, [keys] * len(kinds))
        for kind, experiment, state, count in cursor.fetchall():
            counts[kind].setdefault(experiment, Counter())[state] = count
    return counts


class WaitingReason(str):
    """Why jobs wait, as a sentence; `before` is the experiment that it names, if it names one."""

    before: int | None = None


def explain_waiting(
    experiment: Experiment, jobs: Mapping[str, int], reader: User | AnonymousUser
) -> list[WaitingReason]:
    """Return why jobs of a launched experiment have not started, a sentence for each queue.

    Of other experiments only those are named that `reader` may view.
    """
    sentences = []
    # Of what a person has paused the page says so once, with how many wait.
    if (planned := jobs.get(Job.State.PLANNED, 0)) and not experiment.paused_at:
        sentences.append(_describe_own_queue(experiment, planned, reader))
        if experiment.spreads_nodes:
            sentences.append(WaitingReason(ONE_AFTER_THE_OTHER))
    if jobs.get(Job.State.QUEUED) and experiment.cluster.is_by_hand:
        sentences.append(WaitingReason(_describe_carried(experiment, jobs[Job.State.QUEUED])))
    elif jobs.get(Job.State.QUEUED):
        queued = experiment.jobs.filter(state=Job.State.QUEUED).order_by()
        counted = queued.values_list("scheduler_state").annotate(
            count=Count("pk"),
            first=Min("expected_start_at", filter=Q(expected_start_at__gt=timezone.now())),
        )
        label = experiment.cluster.get_scheduler_display()
        for state, count, first in sorted(counted, key=lambda row: -row[1])[:REASONS_SHOWN]:
            why = explain_reason(state) or "it has not said why yet"
            sentence = f"{_jobs(count)} in {label}’s queue: {why}."
            if first:
                which = "it" if count == 1 else "the first of them"
                sentence += f" {label} expects to start {which} at {first:%Y-%m-%d %H:%M} UTC."
            sentences.append(WaitingReason(sentence))
    return sentences


def _describe_carried(experiment: Experiment, count: int) -> str:
    verb = "waits" if count == 1 else "wait"
    return f"{_jobs(count)} {verb} to be carried to {experiment.cluster} by hand, or for results."


def _describe_own_queue(
    experiment: Experiment, planned: int, reader: User | AnonymousUser
) -> WaitingReason:
    """Return a sentence on whose jobs are sent before them, and why none of them is sent yet."""
    cluster = experiment.cluster
    waiting = cluster.jobs.filter(state=Job.State.PLANNED, experiment__paused_at=None)
    others = waiting.exclude(experiment=experiment)
    of_owner = Q(experiment__owner=experiment.owner_id)
    before = others.filter(of_owner, experiment__launched_at__lt=experiment.launched_at)
    earlier = dict(before.order_by().values_list("experiment").annotate(count=Count("pk")))
    of_others = others.exclude(of_owner).count()
    queue = f"{_jobs(planned)} in Tare’s own queue"
    first = _find_first(earlier, reader)
    if earlier:
        queue += f", behind {_jobs(sum(earlier.values()))} of the same owner"
        queue += _name_experiments(first, len(earlier) - 1)
    if of_others:
        queue += f", in turns with {_jobs(of_others)} of other people"
    hold = explain_hold(experiment)
    end = f": {hold}." if hold else f", to be sent at the next visit to {cluster}."
    reason = WaitingReason(queue + end)
    reason.before = first and first[0]
    return reason


def explain_hold(experiment: Experiment) -> str:
    """Return why none of an experiment's planned jobs is sent now; "" if the next visit sends some.

    A clause without a full stop.
    """
    cluster = experiment.cluster
    if experiment.paused_at:
        return "this experiment is paused, until somebody presses Continue"
    if not cluster.enabled:
        return f"{cluster} is switched off, and nothing is sent to it"
    if find_overdue_visit(experiment, timezone.now()):
        return f"a visit to {cluster} is due, and does not begin"
    if cluster.waits_for_connections:
        return cluster.last_error.rstrip(".")
    if cluster.last_error:
        return f"the last visit to {cluster} failed ({cluster.trouble}), and Tare tries again"
    if list_paused_keys([experiment]):
        return "paused, until the site takes jobs again"
    limit = cluster.max_live_jobs
    live = sum(
        rows.filter(state__in=Job.LIVE).count() for rows in (cluster.jobs, cluster.operations)
    )
    if live >= limit:
        return f"{cluster} takes at most {_jobs(limit)} of Tare’s at once"
    holds = find_holds([cluster], timezone.now(), experiment=experiment.pk)[cluster.pk]
    return "; ".join(hold.text for hold in holds)


def _find_first(keys: Collection[int], reader: User | AnonymousUser) -> tuple[int, str] | None:
    """Return the first of these experiments that `reader` may view: its key and its question.

    None if all are hidden from the reader: a question may be as private as its answer.
    """
    if not keys:
        return None
    readable = Experiment.objects.visible_to(reader).filter(pk__in=keys)
    return readable.order_by("launched_at", "pk").values_list("pk", "question").first()


def _name_experiments(first: tuple[int, str] | None, more: int) -> str:
    """Return the first experiment's question in brackets, and how many others there are."""
    if first is None:
        return ""
    return f" (“{first[1]}”" + (f" and {more} more experiment{'s' * (more > 1)})" if more else ")")


def _jobs(count: int) -> str:
    return f"{count} job{'s' * (count != 1)}"
