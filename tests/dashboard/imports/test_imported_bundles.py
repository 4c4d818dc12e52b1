"""A bundle that is imported into another Tare shows the same comparison there."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.db.models.signals import pre_save
from hypothesis import HealthCheck, example, given, settings

from experiments.bundles import write_bundle
from experiments.design import compute_hash
from experiments.execution import excluded_runs, extending
from experiments.imports.imported_bundles import BundleKnown
from experiments.models import Cluster, Event, Experiment, Job, Run, Series, StoredRecord, Workload
from tests.conftest import EXPLORES
from tests.dashboard.comparisons.test_features_together import (
    EXTENDED,
    SEVERAL,
    Drawn,
    draw_studies,
)
from tests.dashboard.comparisons.test_features_together import (
    make_study as make_drawn_study,
)
from tests.dashboard.conftest import People, Site
from tests.dashboard.imports.bundles import bring, describe, forget_all, write
from tests.experiments.bundles.studies import (
    end_runs,
    give_facts,
    keep_records,
    launch,
    make_bundle,
    verify,
)
from tests.experiments.bundles.test_verify import STUDIES, make_study
from tests.factories import ClusterFactory, UserFactory
from tests.source_tree import BASE

pytestmark = pytest.mark.django_db
PUBLISHED = BASE / "docs" / "bundles" / "resnet50-on-one-and-two-h200.zip"


def carry(experiment: Experiment, folder: Path) -> Experiment:
    """Return the experiment that the bundle of another becomes on a site that has not seen it.

    Both show the same comparison, and the bundle of the second one verifies.
    """
    experiment = Experiment.objects.get(pk=experiment.pk)
    shown, bundle = describe(experiment), write(experiment)
    plan, plan_hash = experiment.plan, experiment.plan_hash
    forget_all(experiment)
    imported = bring(bundle, folder)
    assert imported.differences == []
    there: Experiment = Experiment.objects.get(pk=imported.experiment.pk)
    assert describe(there) == shown
    assert (there.plan, there.plan_hash) == (plan, plan_hash)
    assert plan is None or compute_hash(there.plan or {}) == plan_hash
    again = make_bundle(there)
    status, text = verify(again, folder, "--all")
    assert status == 0, text
    with pytest.raises(BundleKnown):
        bring(again, folder)
    return there


@pytest.mark.parametrize("name", STUDIES)
def test_studies_of_every_design_show_the_same_comparison(name: str, tmp_path: Path) -> None:
    carry(make_study(name), tmp_path)


@settings(
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],
    max_examples=60 if EXPLORES else 6,
)
@given(drawn=draw_studies())
@example(drawn=EXTENDED)
@example(drawn=SEVERAL)
def test_any_features_together_show_the_same_comparison(
    drawn: Drawn, site: Site, people: People, tmp_path: Path
) -> None:
    experiment = make_drawn_study(drawn, site, people).experiment
    carry(experiment, tmp_path)


def test_failed_and_cancelled_runs_come_along(tmp_path: Path) -> None:
    experiment = launch(containers=2, repeats=6)
    end_runs(experiment, spread=0.01)
    failed = experiment.jobs.order_by("block")[1]
    failed.runs.update(state=Run.State.FAILED, reason="crashed", message="It crashed.")
    Job.objects.filter(pk=failed.pk).update(state=Job.State.FAILED)
    Experiment.objects.filter(pk=experiment.pk).update(cancelled_at=experiment.launched_at)
    cut = experiment.jobs.order_by("block")[4]
    cut.runs.update(state=Run.State.CANCELLED)
    there = carry(experiment, tmp_path)
    assert there.jobs.get(uid=failed.uid).state == Job.State.FAILED
    assert {run.reason for run in there.runs.filter(state=Run.State.FAILED)} == {"crashed"}


def test_excluded_runs_have_both_verdicts_and_name_who_excluded_them(tmp_path: Path) -> None:
    experiment = launch(containers=2, repeats=6)
    end_runs(experiment, spread=0.01)
    run = experiment.runs.exclude(environment=experiment.baseline_id).order_by("pk")[2]
    assert excluded_runs.exclude(run, experiment.owner, "the fan was broken")
    name = experiment.owner.username
    there = carry(experiment, tmp_path)
    events = there.events.filter(run__uid=run.uid, what__contains="excluded")
    assert {event.who for event in events} == {name}
    assert {event.actor for event in events} == {None}
    assert there.runs.get(uid=run.uid).message == "the fan was broken"


def test_an_extension_keeps_its_plan_its_day_and_its_person(tmp_path: Path) -> None:
    experiment = launch(repeats=5)
    end_runs(experiment, spread=0.05)
    extending.extend(Experiment.objects.get(pk=experiment.pk), 4, experiment.owner)
    experiment.runs.update(state=Run.State.PLANNED)
    for run in experiment.runs.all():
        run.measurements.all().delete()
    end_runs(Experiment.objects.get(pk=experiment.pk), spread=0.05, seed=2)
    there = carry(experiment, tmp_path)
    assert there.extension.who == experiment.owner.username
    assert there.extended_repeats == 4


def test_what_differs_between_both_sides_differs_there_too(tmp_path: Path) -> None:
    experiment = launch(repeats=6)
    end_runs(experiment)
    give_facts(experiment, {"OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "8"})
    there = carry(experiment, tmp_path)
    assert {run.snapshot_content["inside"]["hostname"] for run in there.runs.all()} == {"node0"}


def test_outputs_records_scripts_steps_and_events_are_as_they_were(tmp_path: Path) -> None:
    experiment = launch(repeats=5)
    end_runs(experiment, steps=60)
    keep_records(experiment)

    def read_rows(pk: int) -> dict[str, Any]:
        runs = Run.objects.filter(experiment=pk).order_by("uid")
        columns = ("uid", "state", "node", "began_at", "ended_at", "command", "spec", "position")
        events = Event.objects.filter(experiment=pk).exclude(what="imported a bundle")
        return {
            "runs": list(runs.values(*columns)),
            "output": [row.read_output() for row in list_records(pk)],
            "files": [row.list_files() for row in list_records(pk)],
            "facts": [row.facts for row in list_records(pk)],
            "steps": repr(
                list(
                    Series.objects.filter(run__experiment=pk)
                    .order_by("run__uid", "metric")
                    .values("metric", "unit", "values", "steps", "burn_in", "shape", "tail_means")
                )
            ),
            "jobs": list(
                Job.objects.filter(experiment=pk)
                .order_by("uid")
                .values("uid", "script", "state", "block", "scale", "repeat", "ended_at")
            ),
            "events": [(row.at, row.what, row.why, row.who) for row in events],
        }

    def list_records(pk: int) -> list[StoredRecord]:
        return list(StoredRecord.objects.filter(run__experiment=pk).order_by("run__uid"))

    before = read_rows(experiment.pk)
    there = carry(experiment, tmp_path)
    after = read_rows(there.pk)
    for part, rows in before.items():
        assert after[part] == rows or part == "runs", part
    for row, other in zip(before["runs"], after["runs"], strict=True):
        assert row == other


def test_names_that_are_taken_get_a_number_and_the_verdict_is_the_same(tmp_path: Path) -> None:
    experiment = launch()
    end_runs(experiment)
    cluster, workload = experiment.cluster.name, experiment.workloads.get().name
    shown, bundle = describe(experiment), write(experiment)
    Experiment.objects.get(pk=experiment.pk).delete()
    there = bring(bundle, tmp_path).experiment
    assert there.cluster.name == f"{cluster} (2)"
    assert there.workloads.get().name == f"{workload} (2)"
    verdicts = [row["verdict"] for row in describe(there)["comparison"]]
    assert verdicts == [row["verdict"] for row in shown["comparison"]]


@pytest.mark.django_db(transaction=True)
def test_a_name_that_somebody_takes_during_the_import_gets_a_number(tmp_path: Path) -> None:
    names: list[str] = []
    owner = UserFactory()

    def take(instance: Cluster, **facts: Any) -> None:
        if names:
            return
        names.append(instance.name)
        rival = ClusterFactory.build(name=instance.name, owner=owner)

        def save() -> None:
            rival.save()
            connection.close()

        thread = Thread(target=save)
        thread.start()
        thread.join()

    pre_save.connect(take, sender=Cluster)
    try:
        imported = bring(PUBLISHED.read_bytes(), tmp_path).experiment
    finally:
        pre_save.disconnect(take, sender=Cluster)
    assert Cluster.objects.get(pk=imported.cluster_id).name == f"{names[0]} (2)"


def test_names_of_several_that_are_taken_change_nothing(tmp_path: Path) -> None:
    """A number after a name puts it elsewhere in the order of names."""
    experiment = launch(workloads=3, containers=2)
    for row, name in zip(experiment.workloads.order_by("-pk"), ("a", "a 16", "a 2"), strict=True):
        Workload.objects.filter(pk=row.pk).update(name=name)
    end_runs(experiment, spread=0.01)
    shown, bundle = describe(experiment), write(experiment)
    Experiment.objects.get(pk=experiment.pk).delete()
    there = bring(bundle, tmp_path).experiment
    numbers = [
        {key: row[key] for key in row if key not in ("workload", "sentence", "detail")}
        for rows in (shown["comparison"], describe(there)["comparison"])
        for row in rows
    ]
    half = len(numbers) // 2
    assert numbers[:half] == numbers[half:]
    assert half == 6


def test_its_rows_are_records_that_nobody_launches_or_sees(tmp_path: Path) -> None:
    experiment = launch()
    end_runs(experiment)
    bundle = write(experiment)
    forget_all(experiment)
    there = bring(bundle, tmp_path).experiment
    assert (there.cluster.recorded, there.cluster.enabled) == (True, False)
    assert not Workload.objects.launchable().filter(experiments=there).exists()
    other = UserFactory()
    assert not Workload.objects.visible_to(other).filter(experiments=there).exists()
    assert not Cluster.objects.visible_to(other).filter(pk=there.cluster_id).exists()
    assert not Experiment.objects.visible_to(other).filter(pk=there.pk).exists()
    Experiment.objects.filter(pk=there.pk).update(visibility="members")
    assert Workload.objects.visible_to(other).filter(experiments=there).exists()


def test_where_it_came_from_is_kept_and_goes_on(tmp_path: Path, settings: Any) -> None:
    settings.SITE_ADDRESS = "https://tare.example"
    experiment = launch()
    end_runs(experiment)
    bundle = write(experiment)
    forget_all(experiment)
    there = bring(bundle, tmp_path).experiment
    origin = there.imported_bundle
    assert origin.origin == f"experiment {experiment.pk} of https://tare.example"
    assert (origin.made_on, origin.owner) == ("2026-11-26", experiment.owner.username)
    assert origin.sha256 in there.events.get(what="imported a bundle").why
    second = b"".join(write_bundle(there, "second"))
    forget_all(there)
    further = bring(second, tmp_path).experiment
    assert further.imported_bundle.origin == f"experiment {there.pk} of https://tare.example"


def test_the_same_bundle_twice_is_named_and_not_doubled(tmp_path: Path) -> None:
    experiment = launch()
    end_runs(experiment)
    bundle = write(experiment)
    with pytest.raises(BundleKnown) as own:  # on the site that wrote it
        bring(bundle, tmp_path)
    assert own.value.experiment.pk == experiment.pk
    forget_all(experiment)
    there = bring(bundle, tmp_path).experiment
    with pytest.raises(BundleKnown) as refusal:
        bring(bundle, tmp_path)
    assert refusal.value.experiment.pk == there.pk
    assert Experiment.objects.count() == 1


def test_the_bundle_that_the_docs_show_is_imported_with_its_verdicts(tmp_path: Path) -> None:
    """It was written before data sets, and before runs named all their nodes."""
    imported = bring(PUBLISHED.read_bytes(), tmp_path)
    rows = describe(imported.experiment)["comparison"]
    assert [row["verdict"] for row in rows] == ["EQUIVALENT", "EQUIVALENT"]
    assert [text for text in imported.differences if "graded by" in text] == [
        "Its facts were graded by an earlier table of confounders; here by that of this site."
    ]
    assert {tuple(job.nodes) for job in imported.experiment.jobs.all()} == {()}
