"""Files that come late are not lost: they are looked for again, by a person and by the tick."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments import execution
from experiments.comparisons import COLLECTED_AFTER, compare_experiment
from experiments.execution import collect, late_files, lifecycle
from experiments.models import Cluster, Experiment, Job, Run
from experiments.statistics import Stamp
from runners.directories import Fetched
from runners.errors import Kind, NotNow, Refused, TryAgain
from runners.runner import Runner
from runners.transports import Transport
from tests.conftest import finish, tick_until
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

Make = Callable[..., Experiment]


@pytest.fixture
def lost(experiment: Make, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job whose files were not to be seen for longer than Tare waits."""
    monkeypatch.setattr(collect, "LATE_EXIT_CODE", timedelta(0))
    made = experiment()
    hidden = Path(made.cluster.work_directory) / "hidden"

    def gone(self: object, directory: str, **options: object) -> object:
        if not hidden.exists():
            Path(directory).rename(hidden)
        raise FileNotFoundError(directory)

    with monkeypatch.context() as patched:
        patched.setattr(collect.Runner, "collect", gone)
        finish(made)
    job = made.jobs.get()
    assert (job.state, job.reason) == ("failed", "lost")
    assert set(made.runs.values_list("state", flat=True)) == {"failed"}
    return job


def appear(job: Job) -> None:
    """The files become visible."""
    (Path(job.cluster.work_directory) / "hidden").rename(job.directory)


def visit(job: Job) -> Job:
    Job.objects.filter(pk=job.pk, collect_at__isnull=False).update(
        collect_at=timezone.now() - timedelta(seconds=1)
    )
    assert execution.tick(job.cluster_id) == "done"
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        ("disk full", "No space left on device", "disk full"),
        ("disk full", "Disk quota exceeded", "quota"),
        ("work directory", "Permission denied", "lost"),
        (None, "", "lost"),
    ],
)
def test_a_job_that_left_nothing_where_there_is_no_room_says_so(
    experiment: Make, monkeypatch: pytest.MonkeyPatch, kind: Kind | None, message: str, reason: str
) -> None:
    """The disk was too full even for the job's complaint, and the scheduler remembers nothing."""
    monkeypatch.setattr(collect, "LATE_EXIT_CODE", timedelta(0))
    made = experiment()
    tick_until(made.cluster, made.jobs.filter(state="queued").exists)
    write = Transport.write

    def full(self: Transport, path: str, content: bytes) -> None:
        if kind:
            raise NotNow(message, kind=kind, scope="site")
        write(self, path, content)

    with (
        mock.patch.object(Runner, "find", return_value=None),
        mock.patch.object(Runner, "poll", return_value={}),
        mock.patch.object(Runner, "collect", return_value=Fetched({}, {"job.sh": 9})),
        mock.patch.object(Runner, "read_endings", return_value={}),
        mock.patch.object(Transport, "write", full),
    ):
        finish(made)
    job = made.jobs.get()
    assert (job.state, job.reason) == ("failed", reason)
    assert (bool(message) and message in job.message) == (reason != "lost")
    runs = set(made.runs.values_list("reason", flat=True))
    assert runs == {reason}


def test_the_tick_looks_again_and_runs_succeed(lost: Job) -> None:
    assert lost.collect_at
    assert visit(lost).state == "failed"  # not there yet, and looked for later on
    assert lost.collect_at
    lost.runs.update(node="")
    appear(lost)
    assert visit(lost).state == "done"
    assert (lost.collect_at, lost.exit_code, lost.message) == (None, 0, "")
    for run in lost.runs.all():
        assert (run.state, run.reason, run.message) == ("succeeded", "", "")
        assert run.node, "the files name it, whether a visit has seen the run or not"
        assert run.measurements.filter(metric="step_time").exists()
        assert run.events.get(what="failed → succeeded").why == "files that arrived late"
    assert lost.events.filter(what="failed → done").exists()


def test_pauses_grow_and_a_day_is_enough(lost: Job) -> None:
    pauses = []
    while lost.collect_at:
        pauses.append(lost.collect_at - timezone.now())
        late_files.plan_next(lost, complete=False)
        Job.objects.filter(pk=lost.pk).update(
            ended_at=lost.ended_at - (pauses[-1] if lost.ended_at else timedelta(0))
        )
        lost.refresh_from_db()
    assert 10 < len(pauses) < 30
    assert max(pauses) <= late_files.LONGEST_PAUSE
    minutes = [round(pause / timedelta(minutes=1)) for pause in pauses]
    assert minutes[1:9] == [2, 4, 8, 16, 32, 64, 120, 120]


def test_a_site_that_was_away_for_days_gets_its_whole_day(lost: Job) -> None:
    """Nothing can come from a site that cannot be reached, so that time does not count."""
    Job.objects.filter(pk=lost.pk).update(ended_at=timezone.now() - timedelta(days=3))
    with mock.patch.object(
        collect.Runner, "collect", side_effect=TryAgain("no route", kind="unreachable")
    ):
        for _ in range(30):
            Cluster.objects.update(retry_at=None)
            Job.objects.update(collect_at=timezone.now() - timedelta(seconds=1))
            assert execution.tick(lost.cluster_id) == "try again"
    lost.refresh_from_db()
    assert lost.collect_at
    assert lost.collect_at < timezone.now() + timedelta(minutes=5), "pauses begin with short ones"
    Cluster.objects.update(retry_at=None)
    visit(lost)
    assert lost.collect_at, "the first look after that is not the last"
    appear(lost)
    assert visit(lost).state == "done"


def test_a_person_has_the_files_read_again(lost: Job) -> None:
    Job.objects.update(collect_at=None)
    appear(lost)
    owner = lost.experiment.owner
    client = Client()
    client.force_login(owner)
    for page in (f"{lost.experiment.get_absolute_url()}?tab=jobs", _run(lost).get_absolute_url()):
        assert "Collect again" in client.get(page).content.decode()
    assert client.post(reverse("job_collect", args=[lost.uid])).status_code == 302
    assert visit(lost).state == "done"
    assert lost.events.get(what="asked to collect again").actor == owner
    assert _run(lost).events.get(what="failed → succeeded").actor == owner
    page = client.get(f"{lost.experiment.get_absolute_url()}?tab=jobs").content.decode()
    assert "Collect again" not in page


def _run(job: Job) -> Run:
    found = job.runs.order_by("position").first()
    assert found
    return found


def test_whoever_asks_is_told_that_nothing_is_new(lost: Job) -> None:
    assert late_files.request_collection(lost, lost.experiment.owner)
    visit(lost)
    told = lost.events.get(what="collected again")
    assert "not there" in told.why
    assert not lost.collect_asked_by_id


def test_how_a_run_failed_is_news_for_whoever_asks(lost: Job) -> None:
    """No visit has seen the end of the lost runs; their late files tell the exit code."""
    lost.runs.update(exit_code=None)
    appear(lost)
    for path in Path(lost.directory).glob("runs/*/exit_code"):
        path.write_text("3\n")
    assert late_files.request_collection(lost, lost.experiment.owner)
    visit(lost)
    for run in lost.runs.all():
        assert (run.state, run.reason, run.exit_code) == ("failed", "crashed", 3)
    events = lost.events.filter(what="collected again")
    assert {event.run_id for event in events} == set(lost.runs.values_list("pk", flat=True))
    assert all("The program ended with exit code 3" in event.why for event in events)


def test_nobody_else_may_ask(lost: Job, client: Client) -> None:
    client.force_login(UserFactory())
    assert client.post(reverse("job_collect", args=[lost.uid])).status_code in (403, 404)
    assert not lost.events.filter(what="asked to collect again").exists()


def test_what_has_succeeded_keeps_its_numbers(experiment: Make) -> None:
    """Fewer files than before change nothing."""
    made = experiment()
    finish(made)
    job = made.jobs.get()
    kept = list(made.runs.order_by("pk").values("state", "output_tail", "measurements__value"))
    assert not late_files.request_collection(job, made.owner)
    Job.objects.update(collect_at=timezone.now())
    for file in Path(job.directory).glob("runs/*/result.json"):
        file.unlink()
    visit(job)
    assert job.state == "done"
    again = list(made.runs.order_by("pk").values("state", "output_tail", "measurements__value"))
    assert again == kept


def test_one_late_file_costs_one_run_until_it_comes(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list names a result that is not to be seen yet: its run waits, then is damaged."""
    made = experiment()
    real = collect.Runner.collect
    hidden: list[str] = []

    def partly(self: collect.Runner, directory: str, **options: object) -> object:
        found = real(self, directory, **options)  # type: ignore[arg-type]
        name = next(name for name in sorted(found) if name.endswith("/result.json"))
        del found[name], found.sizes[name]
        hidden.append(name)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(collect.Runner, "collect", partly)
        collecting = made.jobs.filter(state=Job.State.COLLECTING)
        tick_until(made.cluster, lambda: bool(hidden))
        assert collecting.exists()
        patched.setattr(collect, "LATE_EXIT_CODE", timedelta(0))
        finish(made)
    damaged = made.runs.get(state="failed")
    assert damaged.reason == "damaged"
    assert made.runs.filter(state="succeeded").count() == 1
    visit(made.jobs.get())
    damaged.refresh_from_db()
    assert damaged.state == "succeeded"
    assert damaged.measurements.exists()


def refusing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """A file system that says no to whoever lists a job's files, as a stale handle does."""
    real = collect.Runner.collect
    noes = iter(range(times))

    def stale(self: collect.Runner, directory: str, **options: object) -> object:
        if next(noes, None) is not None:
            raise Refused(f"Listing {directory} failed: Stale file handle")
        return real(self, directory, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(collect.Runner, "collect", stale)


def test_a_file_system_that_says_no_is_asked_again(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, times=2)
    made = experiment()
    finish(made)
    assert made.jobs.get().state == "done"
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


def test_a_late_job_that_cannot_be_reached_holds_up_one_visit(
    lost: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent before it has been looked for: it must not come first for ever."""
    Job.objects.filter(pk=lost.pk).update(collect_at=timezone.now() - timedelta(seconds=1))

    def silent(self: object, directory: str, **options: object) -> object:
        raise TryAgain("login did not answer sh in 300 s.", kind="time-out")

    with monkeypatch.context() as patched:
        patched.setattr(collect.Runner, "collect", silent)
        assert execution.tick(lost.cluster_id) == "try again"
    lost.refresh_from_db()
    assert lost.collect_at
    assert lost.collect_at > timezone.now()
    type(lost.cluster).objects.update(retry_at=None, last_tick_at=None)
    assert execution.tick(lost.cluster_id) == "done"


def test_a_no_that_lasts_is_said_in_its_own_words(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "LATE_EXIT_CODE", timedelta(0))
    refusing(monkeypatch, times=1)
    made = experiment()
    finish(made)
    job = made.jobs.get()
    assert (job.state, job.reason) == ("failed", "unreadable")
    assert "Stale file handle. Its files are in" in job.message
    assert visit(job).state == "done"


def test_a_verdict_that_was_out_is_stamped(lost: Job) -> None:
    """The other blocks had been judged without it."""
    made = lost.experiment
    other = Job.objects.get(pk=lost.pk)
    other.pk, other.uid, other.repeat, other.block = None, "other", 2, 1
    other.state, other.collect_at = "done", None
    other.save()
    for run in lost.runs.all():
        run.pk, run.uid, run.job, run.repeat = None, f"other{run.position}", other, 2
        run.state, run.reason = "succeeded", ""
        run.save()
        run.measurements.create(metric="step_time", value=1.0, unit="s")
    appear(lost)
    visit(lost)
    assert made.events.filter(what=COLLECTED_AFTER).count() == 2
    (pair,) = compare_experiment(made).pairs
    assert Stamp.COLLECTED_AFTER in pair.stamps


def test_the_next_attempt_is_not_touched(lost: Job) -> None:
    """Who tries again has given the first attempt's files up."""
    stale = Job.objects.get(pk=lost.pk)
    assert late_files.request_collection(lost, lost.experiment.owner)
    lifecycle.retry(lost, lost.experiment.owner)
    lost.refresh_from_db()
    assert lost.collect_at is None
    assert lost.collect_asked_by_id is None
    assert not late_files.request_collection(stale, stale.experiment.owner)
    late_files.plan_next(stale, complete=False)
    lost.refresh_from_db()
    assert lost.collect_at is None
