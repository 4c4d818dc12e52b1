"""Bundles of studies to which something happened: `verify.py` stamps them as Tare does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.comparisons import COLLECTED_AFTER, TRIED_AGAIN
from experiments.design import compute_hash
from experiments.execution.moves import record_event
from experiments.models import Experiment, Snapshot, User
from tests.experiments.bundles.studies import (
    end_runs,
    give_facts,
    launch,
    make_bundle,
    unpack,
    verify,
)
from tests.experiments.bundles.test_forgeries import pack, sum_up
from tests.experiments.imports.test_importing import imported
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> User:
    return UserFactory(username="ann")


@pytest.mark.parametrize(
    ("what", "stamp"),
    [
        (TRIED_AGAIN, "TRIED AGAIN AFTER A VERDICT"),
        (COLLECTED_AFTER, "COLLECTED AFTER A VERDICT"),
    ],
)
@pytest.mark.parametrize("is_attributable", [True, False])
def test_jobs_that_were_touched_after_a_verdict(
    what: str, stamp: str, is_attributable: bool, tmp_path: Path
) -> None:
    experiment = launch(workloads=2)
    end_runs(experiment)
    if not is_attributable:
        give_facts(experiment, {"cpu": "a"}, {"cpu": "b"})
    job = experiment.jobs.order_by("pk")[0]
    record_event(experiment, what, job=job, run=job.runs.all()[0], by=experiment.owner)
    bundle = make_bundle(experiment)
    status, text = verify(bundle, tmp_path, "--all")
    assert status == 0, text
    printed = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
    assert sorted(stamp in row["stamps"] for row in printed) == [False, True]
    files = unpack(bundle)
    lines = files["data/events.jsonl"].decode().splitlines(keepends=True)
    files["data/events.jsonl"] = "".join(
        line for line in lines if json.loads(line)["what"] != what
    ).encode()
    status, text = verify(pack(sum_up(files)), tmp_path)
    assert (status, "DISAGREES" in text) == (1, True)


def rescale(experiment: Experiment, scale: str) -> None:
    """Have the runs be of another scale, which only Slurm launches."""
    text = json.dumps(experiment.plan).replace('"1x1"', json.dumps(scale))
    plan = json.loads(text)
    Experiment.objects.filter(pk=experiment.pk).update(
        plan=plan, plan_hash=compute_hash(plan), scales=[scale]
    )
    experiment.jobs.update(scale=scale)
    experiment.runs.update(scale=scale)


@pytest.mark.parametrize(("scale", "nodes"), [("2x1", 2), ("2x1", 5), ("2x1", 1), ("1x1", 5)])
@pytest.mark.parametrize("spread", [0.004, 0.0])
def test_jobs_on_several_nodes_count_by_their_first(
    scale: str, nodes: int, spread: float, tmp_path: Path
) -> None:
    experiment = launch(repeats=5)
    rescale(experiment, scale)
    end_runs(experiment, nodes=nodes, spread=spread)
    bundle = make_bundle(experiment)
    status, text = verify(bundle, tmp_path, "--all")
    assert status == 0, text
    (row,) = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
    assert ("FEW NODES" in row["stamps"]) == (scale == "2x1" and nodes > 1)


@pytest.mark.parametrize("design", ["paired", "independent"])
def test_jobs_on_several_nodes_that_share_any_count_as_one_set(design: str, tmp_path: Path) -> None:
    """Six first nodes, of which two and two have a second one in common."""
    experiment = launch(repeats=6, estimand="partition", design=design)
    rescale(experiment, "2x1 srun")
    end_runs(experiment, nodes=6, spread=0.004)
    for job in experiment.jobs.all():
        node = job.block % 6
        job.runs.update(node=f"node{node}")
        job.nodes = [f"node{node}", f"second{node // 2}"]
        job.save(update_fields=["nodes"])
    bundle = make_bundle(experiment)
    status, text = verify(bundle, tmp_path, "--all")
    assert status == 0, text
    (row,) = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
    assert row["n_nodes"] == 3
    assert "FEW NODES" in row["stamps"], "three sets are few"


def test_imported_logs_have_no_plan_and_all_the_rest(owner: User, tmp_path: Path) -> None:
    experiment = imported(owner)
    bundle = make_bundle(experiment)
    status, text = verify(bundle, tmp_path, "--all")
    assert status == 0, text
    assert "not recomputed: a plan, as these are imported logs" in text
    assert text.count("  verdict  ") == 1
    assert "data/plan.json" not in unpack(bundle)


def test_imported_logs_of_another_machine_are_not_attributable(owner: User, tmp_path: Path) -> None:
    experiment = imported(owner)
    for place, run in enumerate(experiment.runs.order_by("pk")):
        is_bare = run.environment_id == experiment.baseline_id
        content = {"inside": {"cpu": "a" if is_bare else "b", "day": str(place)}}
        run.snapshot = Snapshot.objects.keep(content)
        run.save(update_fields=["snapshot"])
    bundle = make_bundle(Experiment.objects.get(pk=experiment.pk))
    status, text = verify(bundle, tmp_path, "--all")
    assert status == 0, text
    (row,) = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
    assert row["verdict"] == "NOT ATTRIBUTABLE"
    assert row["facts_likely"] == "day"


def test_logs_without_times_are_confounded(owner: User, tmp_path: Path) -> None:
    experiment = imported(owner)
    experiment.runs.update(began_at=None, snapshot=None)
    bundle = make_bundle(Experiment.objects.get(pk=experiment.pk))
    status, text = verify(bundle, tmp_path, "--all")
    assert status == 0, text
    (row,) = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
    assert "CONFOUNDED" in row["stamps"]


def test_imported_logs_of_one_side_have_no_verdict(owner: User, tmp_path: Path) -> None:
    experiment = imported(owner)
    experiment.runs.exclude(environment=experiment.baseline_id).delete()
    status, text = verify(make_bundle(Experiment.objects.get(pk=experiment.pk)), tmp_path)
    assert status == 0, text
    assert "  verdict  " not in text
