"""The places of jobs in Slurm's queue, asked for only while somebody looks at a job that waits.

An open page notes in Valkey which queue it looks at, and asks for a visit once a minute; the visit
asks for that queue by one command. The answer lies in Valkey for some minutes and is only shown. A
queue is a partition of a cluster. Without Valkey there are no places, and all else goes on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from django.conf import settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from experiments import valkey_pause
from experiments.execution.guard import make_storable
from experiments.execution.lease import Lease
from experiments.execution.visit_outcomes import ask_for_another_visit
from experiments.models import Cluster, Experiment, Job
from runners.errors import TryAgain
from runners.runner import Runner
from runners.schedulers import SCHEDULERS
from runners.untrusted import Damaged, Rows, Table, Text, Whole, parse_document

logger = logging.getLogger(__name__)

LEAST_INTERVAL = 60
"""Seconds between two questions about a queue, at least."""
AFTER_PROBLEM = 600
"""The same where it was not answered: one that hangs costs each visit seconds."""
WATCHED = 30
"""Seconds for which a queue counts as watched after a page has asked for its live part."""
KEPT = 180
"""Seconds for which an answer is shown: a new one comes each minute, as long as visits succeed."""
REFUSED = 24 * 3600
"""Seconds for which a cluster's page says that the forced command refuses the question."""
MOST_QUEUES = 5
"""Queues that are asked for in one visit; the others' turn comes with the next one."""
LONGEST_WAIT = 0.25
"""Seconds that a page or a visit waits for Valkey before it does without."""
LONGEST_SECONDS = 10
"""Of the scheduler's answer: the visit has more to do."""
ANSWER = Table(
    {
        "partition": Text(most=100),
        "account": Text(most=100),
        "total": Whole(),
        "is_all": Whole(0, 1),
        "places": Rows(Rows(Whole())),
    },
    needed=("partition", "account", "total", "is_all", "places"),
)
Result = TypeVar("Result")


@dataclass(frozen=True)
class WaitingQueue:
    """The jobs that waited in a partition when it was last asked for, held ones left out."""

    partition: str
    account: str
    """Under which it was asked for: a site may hide the jobs of others (PrivateData)."""
    total: int
    is_all: bool
    """Whether these are all of them; else only the first `total` were read."""
    places: Mapping[str, int]
    """Of Tare's jobs in the order of priorities, from 1, by the scheduler's ids."""

    def find_place(self, job: Job) -> str:
        """Return a job's place as text: "12th of 340"; "" where it has none."""
        place = self.places.get(job.scheduler_id) if job.state == Job.State.QUEUED else None
        return f"{write_ordinal(place)} of {self.total_text}" if place else ""

    @property
    def total_text(self) -> str:
        """Return how many jobs wait: "340" or "more than 20,000"."""
        return f"{'' if self.is_all else 'more than '}{self.total:,}"


def write_ordinal(number: int) -> str:
    """Return "1st", "12th", "1,022nd"."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if number % 100 in (11, 12, 13) else endings.get(number % 10, "th")
    return f"{number:,}{ending}"


def watch_queue(experiment: Experiment, cluster: Cluster) -> WaitingQueue | None:
    """Have the queue of an experiment's jobs asked for soon; return the last answer, if it is new.

    To be called only for people for whom a cluster may be asked, while jobs of it wait there.
    """
    partition = experiment.partition_id
    if partition is None or not _has_places(cluster):
        return None

    def note_and_read(valkey: Redis) -> tuple[bytes | None, bool]:
        watched = _name_key("watched", cluster.pk)
        with valkey.pipeline(transaction=False) as pipeline:
            pipeline.sadd(watched, partition)
            pipeline.expire(watched, WATCHED)
            pipeline.get(_name_key("answer", cluster.pk, partition))
            pipeline.exists(_name_key("asked", cluster.pk, partition))
            _, _, answer, was_asked = pipeline.execute()
        return answer, bool(was_asked)

    unknown: tuple[bytes | None, bool] = (None, True)
    answer, was_asked = _use_valkey(note_and_read, unknown)
    if not was_asked and cluster.wanted_at is None:
        ask_for_another_visit(cluster)
    return _read_answer(answer) if answer else None


def is_question_refused(cluster: Cluster) -> bool:
    """Return whether the key's forced command did not let the question through when last asked."""
    if cluster.credential_id is None or not _has_places(cluster):
        return False
    return _use_valkey(lambda valkey: bool(valkey.exists(_name_key("refused", cluster.pk))), False)


def read_queues(held: Lease, runner: Runner) -> None:
    """Ask for the queues of the held cluster that somebody looks at, each once a minute at most.

    A scheduler that does not answer costs the places alone, and the visit goes on.
    """
    cluster = held.cluster
    # As it was before the visit: where nobody has asked for one, Valkey is not asked either.
    if cluster.wanted_at is None or not _has_places(cluster):
        return
    keys: list[int] = _use_valkey(lambda valkey: _take_watched(valkey, cluster.pk), [])
    if not keys:
        return
    queued = cluster.jobs.filter(state=Job.State.QUEUED, experiment__partition__in=keys)
    columns = ("experiment__partition", "experiment__partition__name", "scheduler_id")
    ids: dict[tuple[int, str], list[str]] = {}
    for key, name, scheduler_id in queued.order_by().values_list(*columns):
        ids.setdefault((key, name), []).append(scheduler_id)
    for (key, name), own_ids in ids.items():
        held.renew()
        if not _read_queue(cluster, runner, key, name, own_ids):
            return  # the next one would wait as long


def _read_queue(
    cluster: Cluster, runner: Runner, key: int, partition: str, own_ids: list[str]
) -> bool:
    """Ask for one queue, and keep the places of these jobs in it; return whether that succeeded."""
    refused, answer, asked = (
        _name_key("refused", cluster.pk),
        _name_key("answer", cluster.pk, key),
        _name_key("asked", cluster.pk, key),
    )
    try:
        command = runner.scheduler.build_pending_command(partition)
        done = runner.transport.run(command, timeout=LONGEST_SECONDS)
        pending = runner.scheduler.parse_pending(done)
    except TryAgain as error:
        logger.warning("%s: %s", cluster, make_storable(str(error)))
        is_refused = error.kind == "forced command"

        def note_problem(valkey: Redis) -> None:
            valkey.set(asked, 1, ex=AFTER_PROBLEM)
            valkey.delete(answer)
            if is_refused:
                valkey.set(refused, 1, ex=REFUSED)

        _use_valkey(note_problem, None)
        return False
    places = {job_id: place for place, job_id in enumerate(pending.ids, start=1)}
    credential = cluster.credential
    document = {
        "partition": partition,
        "account": credential.user_name if credential else "",
        "total": len(pending.ids),
        "is_all": int(pending.is_all),
        "places": [[int(own), places[own]] for own in own_ids if own in places],
    }

    def keep(valkey: Redis) -> None:
        valkey.set(answer, json.dumps(document), ex=KEPT)
        valkey.delete(refused)

    _use_valkey(keep, None)
    return True


def _has_places(cluster: Cluster) -> bool:
    """Return whether the cluster can be asked for places at all."""
    is_asked = cluster.enabled and not cluster.is_by_hand
    return is_asked and SCHEDULERS[cluster.scheduler].orders_by_priority


def _take_watched(valkey: Redis, cluster: int) -> list[int]:
    """Return partitions that are watched and were not asked for in the last minute.

    From now on they count as asked for, for all processes, and as watched only when a page notes
    them again.
    """
    watched = _name_key("watched", cluster)
    members: Any = valkey.smembers(watched)
    keys = (int(member) for member in members if member.isdigit() and len(member) < 18)
    not_asked = (
        key
        for key in keys
        if valkey.set(_name_key("asked", cluster, key), 1, nx=True, ex=LEAST_INTERVAL)
    )
    due = list(islice(not_asked, MOST_QUEUES))
    if due:
        valkey.srem(watched, *due)
    return due


def _read_answer(content: bytes) -> WaitingQueue | None:
    """Return a queue as it was kept; None where others have written something else there."""
    try:
        document = parse_document(content, ANSWER)
        places = {str(own): place for own, place in document["places"]}
    except (Damaged, ValueError):
        return None
    return WaitingQueue(
        document["partition"],
        document["account"],
        document["total"],
        bool(document["is_all"]),
        places,
    )


def _name_key(kind: str, *parts: int) -> str:
    return ":".join(["queue", kind, *map(str, parts)])


def _use_valkey(work: Callable[[Redis], Result], without: Result) -> Result:
    """Return what `work` returns, or `without` where Valkey does not answer."""
    if valkey_pause.is_paused():
        return without
    try:
        return work(_connect(settings.REDIS_URL))
    except RedisError:
        valkey_pause.begin_pause()
        return without


@cache
def _connect(url: str) -> Redis:
    """Return the connections of this process; they wait for answers for a moment only."""
    return Redis.from_url(
        url,
        socket_timeout=LONGEST_WAIT,
        socket_connect_timeout=LONGEST_WAIT,
        retry=Retry(NoBackoff(), 0),
    )
