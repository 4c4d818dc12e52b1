"""Imported logs as rows: an experiment like any other to read, and one that nobody can launch."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.execution.further_attempts import find_further_attempts
from experiments.imports import ImportProblem, Logs, imported_runs, list_files, read_logs
from experiments.imports.imported_runs import AlreadyImported, forget, store
from experiments.models import (
    Cluster,
    Environment,
    Event,
    Experiment,
    Job,
    Measurement,
    Role,
    Run,
    Series,
    Snapshot,
    User,
    Workload,
)
from experiments.planning import rules
from experiments.statistics import Stamp, Verdict
from tests import tf_cnn_logs as logs
from tests.factories import ClusterFactory, LaunchedFactory, UserFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> User:
    return UserFactory(username="ann")


def read(tree: logs.Tree | None = None) -> Logs:
    return read_logs(list_files(logs.as_zip(tree or logs.runs())))


def imported(owner: User, found: Logs | None = None, **words: Any) -> Experiment:
    known: dict[str, Any] = {
        "environment": 0,
        "baseline": "udocker",
        "question": "What does Singularity cost?",
        "margin": 0.02,
        "owner": owner,
        "source": "logs.zip",
        "machine": "K80",
    }
    return store(found or read(), **{**known, **words})


def test_logs_become_an_experiment(owner: User) -> None:
    experiment = imported(owner, visibility="members")
    assert experiment.imported_from == "logs.zip"
    assert (experiment.repeats, experiment.scales) == (3, ["1x1"])
    assert not experiment.is_draft
    assert not experiment.is_paired
    assert experiment.baseline.name == "udocker"
    assert {row.recorded_tool for row in experiment.environments.all()} == {
        "udocker",
        "Singularity",
    }
    assert not any(row.is_bare_metal for row in experiment.environments.all())
    assert experiment.runs.filter(state=Run.State.SUCCEEDED).count() == 6
    assert [row.name for row in experiment.workloads.all()] == ["synthetic_resnet50, batch 64"]
    event = Event.objects.get(experiment=experiment)
    assert (event.what, event.actor) == ("imported", owner)
    assert experiment.import_hash in event.why


def test_a_run_keeps_its_numbers_its_time_and_where_its_log_lay(owner: User) -> None:
    run = imported(owner).runs.order_by("job__block").select_related("job", "snapshot")[0]
    assert run.job.directory == "results/udocker/synthetic_resnet50_1_gpu/1"
    assert run.began_at == logs.NOON.replace(hour=13)
    assert run.node == ""
    numbers = {row.metric: (row.value, row.unit) for row in run.measurements.all()}
    assert numbers["step_time"] == (pytest.approx(0.5005), "s")
    assert numbers["wall_images_per_second"] == (pytest.approx(0.99 * 64 / 0.5005), "images/s")
    assert numbers["top_1_accuracy"] == (0.25, "1")
    series = {row.metric: (row.steps, row.values, row.unit) for row in run.series.all()}
    assert series["step_time"] == ([10, 20, 30], pytest.approx([0.5005] * 3), "s")
    assert series["loss"] == ([1, 10, 20, 30], [7.99, 7.9, 7.8, 7.7], "1")
    assert run.snapshot
    assert run.snapshot.facts["visible GPUs"] == "4"


def test_the_order_of_the_runs_is_that_of_their_times(owner: User) -> None:
    runs = imported(owner).runs.order_by("job__block")
    began = [run.began_at for run in runs]
    assert began == sorted(began, key=lambda moment: moment or logs.NOON)


def test_the_comparison_says_what_else_differed(owner: User) -> None:
    tree = logs.runs()
    for repeat in (1, 2, 3):
        place = f"results/singularity/synthetic_resnet50_1_gpu/{repeat}/benchmark.log"
        tree[place] = tree[place].replace('"count": 4', '"count": 2').replace("1.10.0", "1.12.0")
    (pair,) = compare_experiment(imported(owner, read(tree))).pairs
    assert pair.verdict is Verdict.NOT_ATTRIBUTABLE, "another TensorFlow computes otherwise"
    assert "The numbers alone would say SLOWER" in pair.evidence
    assert pair.cost == pytest.approx(0.1, abs=0.001)
    assert not pair.paired
    why = dict(zip(pair.stamps, pair.reasons, strict=True))[Stamp.CONFOUNDED]
    assert "All runs of the baseline came before the others" in why
    assert "day: 2019-03-25 on the baseline, 2019-03-26 here" in why
    assert "visible GPUs: 4 on the baseline, 2 here" in why
    assert "package tensorflow: 1.10.0 on the baseline, 1.12.0 here" in why


def test_runs_without_a_time_are_confounded(owner: User) -> None:
    tree = {
        f"{environment}/net/{repeat}.txt": logs.output(total=127.5 + repeat)
        for environment in ("udocker", "singularity")
        for repeat in range(1, 4)
    }
    (pair,) = compare_experiment(imported(owner, read(tree))).pairs
    why = dict(zip(pair.stamps, pair.reasons, strict=True))[Stamp.CONFOUNDED]
    assert why == "the logs do not say when the runs ran."


def test_runs_of_one_day_by_turns_are_not_confounded(owner: User) -> None:
    tree: dict[str, str] = {}
    for repeat in range(1, 7):
        for place, environment in enumerate(("udocker", "singularity")):
            began = logs.NOON.replace(minute=20 * (repeat % 3) + 5 * ((repeat + place) % 2))
            tree |= logs.run(f"{environment}/net/{repeat}", time=0.5 + repeat / 1e4, began=began)
    (pair,) = compare_experiment(imported(owner, read(tree))).pairs
    assert pair.stamps == ()


def test_a_run_that_failed_is_shown_and_has_no_say(owner: User) -> None:
    tree = logs.runs()
    del tree["results/udocker/synthetic_resnet50_1_gpu/2/metric.log"]
    experiment = imported(owner, read(tree))
    run = experiment.runs.get(state=Run.State.FAILED)
    assert (run.reason, run.measurements.count()) == ("no metrics", 0)
    assert not find_further_attempts(run.job)
    assert compare_experiment(experiment).pairs[0].n_baseline == 2


def test_the_same_logs_are_recognised_whatever_they_are_packed_in(owner: User) -> None:
    first = imported(owner)
    with pytest.raises(AlreadyImported) as caught:
        imported(owner, read_logs(list_files(logs.as_tar(logs.runs()))), question="Again?")
    assert caught.value.experiment == first
    assert Experiment.objects.count() == 1
    assert imported(UserFactory()).pk != first.pk  # somebody else's is theirs


def test_a_second_import_of_the_same_moment_is_refused_by_the_database(owner: User) -> None:
    second = imported(owner)
    second.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        second.save(force_insert=True)


@pytest.mark.parametrize(
    "column", [{"launched_at": logs.NOON}, {"design": "paired"}, {"import_hash": ""}]
)
def test_the_database_keeps_what_an_import_is(column: dict[str, Any], owner: User) -> None:
    experiment = imported(owner)
    with pytest.raises(IntegrityError), transaction.atomic():
        Experiment.objects.filter(pk=experiment.pk).update(**column)


@pytest.mark.parametrize("column", [{"enabled": True}, {"host": "login.example.org"}])
def test_nobody_logs_in_to_a_machine_of_logs(column: dict[str, Any], owner: User) -> None:
    cluster = imported(owner).cluster
    assert cluster.recorded
    assert not cluster.usable_by(owner)
    with pytest.raises(IntegrityError), transaction.atomic():
        Cluster.objects.filter(pk=cluster.pk).update(**column)


def test_a_job_that_was_sent_still_knows_its_id(owner: User) -> None:
    job = Job.objects.filter(experiment=imported(owner))[0]
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(submitted_at=logs.NOON)


def test_nothing_of_an_import_is_launched_or_retried(owner: User) -> None:
    experiment = imported(owner)
    with pytest.raises(lifecycle.NotLaunchable):
        lifecycle.launch(experiment, owner)
    assert sum(lifecycle.cancel(experiment, owner)) == 0
    assert not lifecycle.discard(experiment)
    workload = experiment.workloads.get()
    told = rules.list_refusals(
        cluster=experiment.cluster,
        partition=None,
        workloads=[workload],
        environments=list(experiment.environments.all()),
        baseline=experiment.baseline,
        scales=["1x1"],
        repeats=1,
        paired=True,
    )
    assert told["workloads"][0] == f"{workload} is only known from imported logs."


def test_nothing_is_kept_of_an_import_that_fails(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the power went")

    monkeypatch.setattr(imported_runs, "record_event", fail)  # the last thing that an import does
    with pytest.raises(RuntimeError):
        imported(owner)
    for model in (Experiment, Cluster, Environment, Workload, Job, Run, Measurement, Series):
        assert not model.objects.exists()
    assert not Snapshot.objects.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"baseline": "podman"}, "none of singularity, udocker"),
        ({"environment": 1}, "one environment only, synthetic_resnet50_1_gpu"),
    ],
)
def test_what_cannot_be_compared_is_refused(words: dict[str, Any], told: str, owner: User) -> None:
    with pytest.raises(ImportProblem, match=told):
        imported(owner, **words)


def test_workloads_and_machines_are_shared_where_they_say_the_same(owner: User) -> None:
    WorkloadFactory(name="synthetic_resnet50, batch 64")  # something else of this name
    ClusterFactory(name="K80")
    first = imported(owner)
    assert first.cluster.name == "K80 (2)"
    assert first.workloads.get().name == "synthetic_resnet50, batch 64 (2)"
    tree = logs.runs(repeats=4)
    second = imported(owner, read(tree))
    assert second.cluster == first.cluster
    assert second.workloads.get() == first.workloads.get()
    assert set(second.environments.all()) == set(first.environments.all())
    other = imported(UserFactory(), read(tree))
    assert other.cluster.name == "K80 (3)"


def test_an_import_can_be_forgotten_with_all_that_it_brought(owner: User) -> None:
    kept = LaunchedFactory(owner=owner)
    first, second = imported(owner), imported(owner, read(logs.runs(repeats=4)))
    forget(first)
    assert Cluster.objects.filter(recorded=True).count() == 1
    assert second.runs.count() == 8
    forget(second)
    assert not Cluster.objects.filter(recorded=True).exists()
    assert not Workload.objects.filter(kind="tf_cnn_benchmarks").exists()
    assert not Snapshot.objects.exists()
    with pytest.raises(ValueError, match="was not imported"):
        forget(kept)
    assert imported(owner).pk


def test_a_hundred_runs_take_no_more_queries_than_six(
    owner: User, django_assert_max_num_queries: Any
) -> None:
    found = read(logs.runs(repeats=50))
    with django_assert_max_num_queries(60):
        imported(owner, found)
    assert Run.objects.count() == 100


def test_private_logs_name_no_machine_to_others(owner: User) -> None:
    other, experiment = UserFactory(), imported(owner)
    for model in (Cluster, Workload):
        name = (experiment.cluster if model is Cluster else experiment.workloads.get()).name
        names = {row.name for row in model.objects.visible_to(other)}  # type: ignore[attr-defined]
        assert name not in names
        assert name in {row.name for row in model.objects.visible_to(owner)}  # type: ignore[attr-defined]
    Experiment.objects.filter(pk=experiment.pk).update(visibility="members")
    assert experiment.cluster in Cluster.objects.visible_to(other)
    assert experiment.workloads.get() in Workload.objects.visible_to(other)


def command(*arguments: Any) -> str:
    said = StringIO()
    call_command("import_tf_cnn_logs", *map(str, arguments), stdout=said)
    return said.getvalue()


def test_the_command_imports_a_folder(owner: User, tmp_path: Path) -> None:
    tree = logs.runs()
    del tree["results/udocker/synthetic_resnet50_1_gpu/2/metric.log"]
    folder = logs.as_folder(tree, tmp_path / "logs")
    said = command(folder, "--owner", "ann", "--baseline", "udo", "--margin", "0.05")
    experiment = Experiment.objects.get()
    assert said.startswith(f"6 runs in 2 environments: experiment {experiment.pk}, ")
    assert "no metrics: results/udocker/synthetic_resnet50_1_gpu/2/metric.log is missing" in said
    assert (experiment.margin, experiment.visibility) == (0.05, "private")
    assert experiment.cluster.name == "logs"
    with pytest.raises(CommandError, match=r"imported before: .*Nothing was imported"):
        command(folder, "--owner", "ann", "--baseline", "udocker")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--owner", "nobody", "--baseline", "udocker"), "no user called nobody"),
        (("--owner", "vic", "--baseline", "udocker"), "vic may make no experiments"),
        (("--owner", "ann", "--baseline", "r"), "Which of singularity, udocker is the baseline"),
        (("--owner", "ann", "--baseline", "udocker", "--margin", "2"), "A margin is from"),
        (("--owner", "ann", "--baseline", "udocker", "--environment", "7"), "parts 0 to 2, not 7"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: tuple[str, ...], words: str, owner: User, tmp_path: Path
) -> None:
    folder = logs.as_folder(logs.runs(), tmp_path)
    UserFactory(username="vic", role=Role.VIEWER)
    with pytest.raises(CommandError, match=words):
        command(folder, *arguments)
    assert not Experiment.objects.exists()


def test_the_command_finds_no_file(owner: User, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        command(tmp_path / "missing", "--owner", "ann", "--baseline", "udocker")
