"""A cluster whose start-up files print: its page says so, and no job ends by it."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest

from experiments import execution
from experiments.models import Cluster, Experiment, Job
from runners.errors import Refused
from runners.transports import Completed, Local
from tests.conftest import finish, tick_until

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("printed", "repeated"),
    [(b"Welcome!\n", "Welcome!"), (b"\xff\0 hello", "hello"), (None, "larger than 64 MiB")],
)
def test_a_login_that_prints_ends_no_job(
    experiment: Callable[..., Experiment], printed: bytes | None, repeated: str
) -> None:
    made = experiment()
    cluster = made.cluster
    running = made.jobs.exclude(state=Job.State.PLANNED)
    tick_until(cluster, running.exists)
    before = made.events.count()
    run = Local.run

    def print_before(self: Local, *args: object, **options: object) -> Completed:
        done = run(self, *args, **options)  # type: ignore[arg-type]
        if printed is None:
            raise Refused("The answer is larger than 64 MiB.")
        return Completed(done.returncode, printed + done.stdout, done.stderr)

    Cluster.objects.update(last_tick_at=None)
    with mock.patch.object(Local, "run", print_before):
        assert execution.tick(cluster.pk) == "try again"
    cluster.refresh_from_db()
    assert cluster.last_error.startswith("The account's start-up files print something")
    assert repeated in cluster.last_error
    assert made.events.count() == before, "nothing was concluded from such answers"
    Cluster.objects.update(last_tick_at=None, retry_at=None)
    finish(made)
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}
