"""What a worker runs: the functions of `experiments.execution.tasks`, with the key of a row.

Whoever can write to Valkey can ask for those, which is no harm: each is safe to run twice, late or
never. To RQ what is written there is more: a function to import, by name, with any arguments;
callbacks and web hooks when it ends; pickled values in jobs that pages show. All of that is refused
here, for the worker and for the web server, and said in the log.
"""

from __future__ import annotations

import logging
from typing import Any

from rq import Queue, SimpleWorker, job, serializers
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.utils import decode_redis_hash

from experiments.execution import tasks
from experiments.liveness import mark_alive

logger = logging.getLogger(__name__)

TASKS = {
    f"{function.__module__}.{function.__name__}": function
    for function in (
        tasks.tick,
        tasks.check,
        tasks.fetch_host_key,
        tasks.test_connection,
        tasks.read_cluster,
        tasks.send,
        tasks.receive,
        tasks.copy_file,
        tasks.keep,
        tasks.watch,
        tasks.recur,
        tasks.find_changes,
        tasks.deliver,
        tasks.deposit,
        tasks.store_values,
    )
}
"""What can be asked for, by the name under which RQ writes it down."""

COLUMNS = {
    "created_at",
    "data",
    "description",
    "ended_at",
    "enqueue_at_front",
    "enqueued_at",
    "exc_info",
    "failure_ttl",
    "last_heartbeat",
    "origin",
    "result_ttl",
    "started_at",
    "status",
    "timeout",
    "ttl",
    "worker_name",
}
"""What a job of ours says of itself. No callbacks, web hooks, repeats, dependencies, meta data."""

MOST_KEYS = 2**63 - 1  # of rows in PostgreSQL


class NotAsked(Exception):
    """A job asks for something that no part of Tare asks for."""


class TaskJob(Job):
    """A job that runs a task of ours or nothing."""

    unknown_columns: tuple[str, ...] = ()

    @classmethod
    def fetch(cls, id: str, connection: Any = None, serializer: Any = None) -> Job:  # noqa: A002
        try:
            return super().fetch(id, connection=connection, serializer=serializer)
        except ValueError as problem:  # of the id itself
            logger.error("Refused job %r: %.500s", id, problem)
            raise NoSuchJobError(f"{id!r} is no name of a job") from None

    def restore(self, raw_data: Any) -> None:
        """Take what Tare itself writes, and note what else there is."""
        try:
            columns = decode_redis_hash(raw_data)
            super().restore({name: columns[name] for name in columns.keys() & COLUMNS})
        except (ValueError, TypeError, LookupError, AttributeError, NoSuchJobError) as problem:
            logger.error("Refused job %r, which cannot be read: %.500r", self.id, problem)
            raise NoSuchJobError(f"Job {self.id!r} cannot be read") from None
        unknown = [name for name, value in columns.items() if value and name not in COLUMNS]
        self.unknown_columns = tuple(sorted(unknown))

    def why_not_run(self) -> str:
        """Return what is wrong with the job; "" for one that Tare may have asked for."""
        if self.unknown_columns:
            return f"it has {self.unknown_columns!r}"
        try:
            name, instance, arguments, named = self.serializer.loads(self.data)
        except (ValueError, TypeError, RecursionError) as problem:
            return f"what it asks for cannot be read: {problem!r}"
        if instance is not None or not isinstance(name, str) or name not in TASKS:
            return f"{name!r} is no task"
        if named or not isinstance(arguments, list) or len(arguments) != 1:
            return f"{name} takes the key of one row"
        if type(arguments[0]) is not int or not 0 < arguments[0] <= MOST_KEYS:
            return f"{name} takes the key of one row"
        return ""

    def _execute(self) -> str:
        if problem := self.why_not_run():
            raise NotAsked(problem)
        return TASKS[str(self.func_name)](self.args[0])


def import_nothing(name: str) -> None:
    """Take the place of RQ's import by name, for functions and callbacks of all its jobs."""
    logger.error("Refused to import %.500r, which a job in Valkey names", name)


def refuse_foreign_code() -> None:
    """Keep RQ and its pages from importing or unpickling what stands in Valkey.

    They have jobs of their own class, not ours, and unpickle where nobody names a serializer.
    """
    job.import_attribute = import_nothing  # type: ignore[attr-defined,assignment]
    json, pickle = serializers.JSONSerializer, serializers.PickleSerializer
    pickle.dumps, pickle.loads = staticmethod(json.dumps), staticmethod(json.loads)


class TaskWorker(SimpleWorker):
    """Runs the tasks of some queues, the first of which comes first.

    No work horse: a tick is safe to lose, and a forked child could outlive its parent. The short
    times let another worker notice within seconds that this one has died.
    """

    job_class = TaskJob
    max_connection_wait_time = 5.0  # RQ asks a Valkey that was away for minutes once a minute

    def __init__(self, *queues: Queue) -> None:
        super().__init__(
            list(queues),
            connection=queues[0].connection,
            serializer=queues[0].serializer,
            job_class=TaskJob,
            worker_ttl=20,
            maintenance_interval=5,
            job_monitoring_interval=2,
        )

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell Valkey, and the health check of this container, when the next sign is due.

        Also say who this is, if Valkey was empty in between.
        """
        if pipeline is None and not self.connection.hexists(self.key, "birth"):
            self.connection.delete(self.key)  # what RQ has written since, without knowing
            self.register_birth()  # type: ignore[no-untyped-call]
        super().heartbeat(timeout, pipeline)
        mark_alive(timeout or self.worker_ttl + 60)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run a task; forget any other job at once, and say so in the log."""
        if problem := job.why_not_run() if isinstance(job, TaskJob) else "it is no task":
            logger.error("Refused job %r: %.500s", job.id, problem)
            queue.intermediate_queue.remove(job.id)
            self.connection.delete(job.key)
            return
        super().execute_job(job, queue)
