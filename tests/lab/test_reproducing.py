"""An experiment of one lab, done again on another: by the page, to its verdict."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.urls import reverse

from experiments import demo
from experiments.execution import lifecycle
from experiments.models import (
    Cluster,
    Credential,
    Environment,
    Experiment,
    Operation,
    Run,
    StagedImage,
    User,
)
from lab.client import Lab, ensure_lab, stop_lab
from tests.conftest import finish, tick_until
from tests.factories import ExperimentFactory, WorkloadFactory
from tests.lab.by_forms import Person

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

PARAMETERS = {"steps": 12, "burn_in": 2, "matrix_size": 256}
MARGIN = 1.0
"""Two labs on one busy machine: what is tried here is the way to a verdict, not a small effect."""


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Lab]]:
    """Two clusters that share nothing: each has its own sshd, Slurm and file systems."""
    directories = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    with ThreadPoolExecutor() as pool:
        yield list(pool.map(lambda path: ensure_lab(path, images=("numpy",)), directories))
    for directory in directories:
        stop_lab(directory)
        shutil.rmtree(directory)


def read_facts(lab: Lab) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((lab.directory / "lab.json").read_text())
    return facts


def register(lab: Lab, name: str, owner: User) -> Cluster:
    """Write a lab into the catalogue under a name of its own."""
    cluster = demo.register_lab(read_facts(lab), owner)
    Credential.objects.filter(pk=cluster.credential_id).update(name=f"key of {name}")
    Cluster.objects.filter(pk=cluster.pk).update(name=name, poll_seconds=0)
    cluster.refresh_from_db()
    return cluster


def press(person: Person, page: Any, action: str) -> Any:
    form = next(
        form
        for form in page.forms.values()
        if form.method.lower() == "post" and (form.action or "").endswith("/reproduce/")
    )
    answer = form.submit("action", value=action).maybe_follow()
    person.workers.work()
    return answer


def test_the_labs_experiment_is_reproduced_on_a_second_cluster(
    labs: list[Lab], person: Person
) -> None:
    owner = User.objects.get(username=person.name)
    first = register(labs[0], "first lab", owner)
    environments = demo.register_image(first, read_facts(labs[0])["images"]["numpy"], owner)
    chosen = [row for row in environments if row.name.startswith(("bare metal", "Apptainer SIF"))]
    source = ExperimentFactory(
        question="Does Apptainer slow a matrix product down?",
        cluster=first,
        partition=first.partitions.get(name="gpu"),
        baseline=chosen[0],
        environments=chosen,
        workloads=[WorkloadFactory(name="blas", parameters=PARAMETERS, time_limit_seconds=120)],
        repeats=5,
        margin=MARGIN,
        owner=owner,
    )
    lifecycle.launch(source, owner)
    finish(source)

    second = register(labs[1], "second lab", owner)
    python = read_facts(labs[1])["images"]["numpy"]["bare_metal"]["python"]
    Environment.objects.create(name="bare metal", cluster=second, python=python, owner=owner)
    page = person.get("reproduce", source.pk, cluster=second.pk)
    text = page.html.get_text(" ", strip=True)
    assert "It runs on second lab, and not on first lab." in text
    assert "to be staged" in text
    press(person, page, "prepare")
    live = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(second, lambda: not live.exists(), seconds=300)
    staged = StagedImage.objects.get(cluster=second, format="sif")
    image = staged.image
    assert (staged.state, staged.message) == ("ready", "")
    assert staged.tree == image.tree != "", "proved by the hash of its files"

    page = person.get("reproduce", source.pk, cluster=second.pk)
    press(person, page, "launch")
    again = Experiment.objects.get(reproduces=source)
    assert again.launched_at
    assert again.cluster == second
    assert again.order_seed != source.order_seed
    assert again.plan
    frozen = {spec["image_digest"] for spec in again.plan["environments"].values()}
    assert frozen == {"", image.digest}
    finish(again)
    for made in (source, again):
        ended = {
            (run.state, run.reason, run.message) for run in Run.objects.filter(experiment=made)
        }
        assert ended == {("succeeded", "", "")}

    page = person.get("comparison", again.pk, section="reproduction")
    section = BeautifulSoup(page.text, "html.parser").select_one("#section #reproduction")
    assert section
    verdicts = [each.get_text() for each in section.select(".verdict")]
    said = section.get_text(" ", strip=True)
    assert verdicts == ["REPRODUCED", "REPRODUCED", "EQUIVALENT", "EQUIVALENT"], said
    assert "It runs on second lab, and not on first lab." in said
    for row, other in ((source, again), (again, source)):
        links = person.get("experiment", row.pk).html.select(".head .facts a")
        assert reverse("experiment", args=[other.pk]) in {link["href"] for link in links}
