"""One study of three programs without Python 3, by forms alone, up to its verdicts.

A Python 2.7 and a compiled program beside BusyBox come as uploaded images, sysbench as an image
that the cluster builds of a list of Debian packages. Each is compared on bare metal, in Apptainer,
udocker and Podman.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from django.urls import reverse
from webtest import Upload

from experiments.models import Cluster, Experiment, Image, Run, Study, Workload
from lab.client import Lab, ensure_lab, stop_lab
from tests.conftest import tick_until
from tests.lab.building import BASE_PATH, cluster, write_base_archive
from tests.lab.by_forms import Person
from tests.lab.test_presets import researcher
from tests.lab.test_without_python import (
    CONTAINERS,
    VERDICTS,
    add_program,
    finish_operations,
    import_from_cluster,
    make_environments,
    make_image,
    registered,
    stage_image,
)

__all__ = ["cluster", "registered", "researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

QUESTION = "What does a container cost programs without Python 3?"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with the one image whose first layer is the base of what is built."""
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("numpy",))
    stop_lab(directory)
    shutil.rmtree(directory)


def upload_image(person: Person, lab: Lab, software: str) -> Image:
    """Upload the archive of a small image by the catalogue's form; return the image."""
    page = person.get("image_new")
    content = (lab.directory / "scratch" / software / "image.tar").read_bytes()
    form = page.forms["way-upload"]
    form["file"], form["title"] = Upload("image.tar", content), software
    form.submit().maybe_follow()
    person.workers.work()
    return Image.objects.latest("pk")


def build_image(person: Person, cluster: Cluster, lab: Lab) -> Image:
    """Build an image with sysbench of a list of Debian packages, by the form; return it."""
    write_base_archive(lab)
    base = import_from_cluster(person, cluster, BASE_PATH, "Debian")
    chosen = {"title": "sysbench", "base": str(base.pk), "packages": "sysbench"}
    person.send(person.get("recipe_new"), "", cluster=str(cluster.pk), **chosen)
    finish_operations(cluster)
    image = Image.objects.latest("pk")
    assert image.facts["packages"]["system"]["sysbench"].startswith("1.0")
    return image


def launch(person: Person, cluster: Cluster, software: str, workload: Workload) -> Experiment:
    """Launch the workload in the environments of its software, by the form."""
    environments = list(cluster.environments.filter(name__startswith=software).order_by("pk"))
    assert len(environments) == 1 + len(CONTAINERS)
    choice = {
        "question": f"What does a container cost {software}?",
        "workloads": [str(workload.pk)],
        "environments": [str(row.pk) for row in environments],
        "baseline": str(environments[0].pk),
        "scales": "1x0",
        "repeats": "5",
    }
    person.send(person.get("experiment_new", cluster=cluster.pk), "", **choice)
    return Experiment.objects.latest("pk")


def test_three_programs_without_python_3_are_one_study_of_verdicts(
    researcher: Person, cluster: Cluster, lab: Lab
) -> None:
    experiments = []
    for software in ("busybox", "python2.7", "sysbench"):
        if software == "sysbench":  # which the lab's nodes have from the same package
            place, image = "/usr/bin", build_image(researcher, cluster, lab)
        else:
            place = make_image(software, lab)
            image = upload_image(researcher, lab, software)
        stage_image(researcher, cluster, image, CONTAINERS)
        make_environments(researcher, cluster, image, place, CONTAINERS, software)
        workload = add_program(researcher, software, f"{software} program")
        experiments.append(launch(researcher, cluster, software, workload))
    unfinished = Run.objects.exclude(state__in=Run.FINAL)
    tick_until(cluster, lambda: not unfinished.exists(), seconds=900)
    ended = {(run.experiment_id, run.state, run.message) for run in Run.objects.all()}
    assert ended == {(row.pk, "succeeded", "") for row in experiments}
    assert Run.objects.count() == 3 * 4 * 5

    picked = [row.pk for row in experiments]
    page = researcher.get("study_new", pick=picked)
    researcher.send(page, "", name="Without Python 3", question=QUESTION)
    study = Study.objects.get()
    researcher.get("study", study.pk)
    researcher.workers.work()  # comparisons are computed by a worker when a page asks for them
    page = researcher.get("study", study.pk)
    verdicts = page.html.select(".verdict-matrix .study-entry .verdict")
    shown = [each.get_text(strip=True) for each in verdicts]
    assert len(shown) == 3 * len(CONTAINERS), shown
    assert set(shown) <= VERDICTS, shown
    for row in experiments:
        assert reverse("comparison", args=[row.pk]) in page
