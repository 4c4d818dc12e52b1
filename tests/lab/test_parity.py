"""One lock, both sides of the wall: built, matched, looked into, compared and launched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments import execution
from experiments.execution import lifecycle
from experiments.images import staging
from experiments.models import Cluster, Environment, Image, Waiver
from experiments.software import building, inspections, parity_reports, recipes
from tests.factories import ExperimentFactory, ImageFactory, WorkloadFactory
from tests.lab.building import base, cluster, finish

__all__ = ["base", "cluster"]  # fixtures

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

LOCK = (Path(__file__).parents[2] / "lab" / "image" / "numpy.lock").read_text()


def test_from_one_lock_to_an_empty_parity_report_and_from_another_to_a_waiver(
    base: Image, cluster: Cluster
) -> None:
    owner = cluster.owner
    image_import = building.request_build(base, LOCK, cluster, owner, title="numpy on Debian")
    finish(cluster, "build")
    image_import.refresh_from_db()
    assert (image_import.state, image_import.problem) == ("done", "")
    image = image_import.image
    assert image
    assert image.packages["numpy"]
    assert recipes.lock_of(image).strip() == LOCK.strip()

    sandbox = staging.stage(image, cluster, "sandbox", owner)
    building.request_match(image, cluster, owner)
    finish(cluster, "stage", "match")
    sandbox.refresh_from_db()
    assert sandbox.tree == image.tree, "what was packed is what was surveyed"
    twin = recipes.find_twin(image, cluster)
    assert twin
    container = Environment.objects.create(
        name="matched",
        cluster=cluster,
        runtime=cluster.runtimes.get(kind="apptainer"),
        staged_image=sandbox,
        python="/opt/tare/bin/python",
        owner=owner,
    )
    inspections.request_inspection(container, owner)
    # The same name at another version: what the lock holds for older Pythons.
    other = LOCK.partition("numpy==")[2].partition("numpy==")[0]
    version, hashes = other.split()[0], re.findall(r"--hash=\S+", other)
    assert version != image.packages["numpy"]
    lock = f"numpy=={version} {' '.join(hashes)}\n"
    older = ImageFactory(
        python_version=image.python_version, recipe=recipes.write_recipe(base, lock)
    )
    building.request_match(older, cluster, owner)
    finish(cluster, "inspect", "match")
    wrong = re.sub("sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", lock)
    broken = ImageFactory(
        python_version=image.python_version, recipe=recipes.write_recipe(base, wrong)
    )
    operation = building.request_match(broken, cluster, owner)
    finish(cluster)
    operation.refresh_from_db()
    assert "has another hash than the lock says" in operation.message
    assert recipes.find_twin(broken, cluster) is None
    with execution.connect(cluster) as runner:
        folders = [f"{cluster.work_directory}/{name}" for name in ("images", "environments")]
        left = runner.transport.run(["ls", *folders]).stdout.decode()
    made = [recipes.name_twin_folder(row, cluster).rpartition("/")[2] for row in (image, older)]
    name = image.digest.removeprefix("sha256:")
    assert sorted(re.findall("^[0-9a-f].*", left, re.M)) == sorted(
        [*made, f"{name}.archive", f"{name}.sandbox"]
    ), "nothing half-made stays"

    draft = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=twin,
        environments=[twin, container],
        workloads=[WorkloadFactory(kind="blas", parameters={"steps": 6, "burn_in": 1})],
        repeats=1,
        owner=owner,
    )
    (report,) = parity_reports.make_reports(draft)
    assert report.answer == "yes", report.differences
    lifecycle.launch(draft, owner)
    lifecycle.cancel(draft, owner)

    older_twin = recipes.find_twin(older, cluster)
    assert older_twin
    second = ExperimentFactory(
        cluster=cluster,
        partition=draft.partition,
        baseline=older_twin,
        environments=[older_twin, container],
        workloads=list(draft.workloads.all()),
        repeats=1,
        owner=owner,
    )
    with pytest.raises(lifecycle.NotLaunchable, match=r"differs from .*numpy"):
        lifecycle.launch(second, owner)
    (report,) = parity_reports.make_reports(second)
    numpy = next(row for row in report.differences if row.what == "numpy")
    assert (numpy.on_baseline, numpy.in_environment) == (version, image.packages["numpy"])
    wanted = [row.what for row in report.differences]
    parity_reports.waive_differences(
        second, container, wanted, "to see what a newer NumPy does", owner
    )
    lifecycle.launch(second, owner)
    lifecycle.cancel(second, owner)
    assert Waiver.objects.filter(experiment=second).count() == len(wanted)
