"""Images without Python 3, by forms: staged, inspected, run on bare metal and in three containers,
up to their verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.urls import reverse
from webtest import Upload

from experiments.models import (
    Cluster,
    Environment,
    EnvironmentInspection,
    Experiment,
    Image,
    Operation,
    Run,
    StagedImage,
    Workload,
)
from experiments.software import inspections
from lab import host
from lab.client import Lab
from runners.payload import pack
from tests.conftest import tick_until
from tests.lab.by_forms import Person
from tests.lab.small_images import make_busybox_image, make_python2_image
from tests.lab.test_presets import researcher

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

CONTAINERS = (
    ("apptainer", "sandbox", ""),
    ("udocker", "udocker", "P1"),
    ("podman", "podman", ""),
)
FURTHER = (
    ("apptainer", "sif", ""),
    ("udocker", "udocker", "R1"),
    ("charliecloud", "squashfs", ""),
)
# Runs on Python 2.7 and on no other: its print is a statement.
SCRIPT = b"""
import sys, time
total = 0
for number in xrange(2000000):
    total = (total * 31 + number) % 1000003
print "python", ".".join(map(str, sys.version_info[:2])), "total", total
"""


def add_environments(
    person: Person,
    cluster: Cluster,
    archive: str,
    path: str,
    containers: Sequence[tuple[str, str, str]],
) -> None:
    """Import and stage the image, and make environments without Python, all by forms.

    `path` is where its program is on bare metal.
    """
    page = person.get("image_new")
    form = next(form for form in page.forms.values() if "path" in form.fields)
    known = set(Image.objects.values_list("pk", flat=True))
    form["cluster"], form["path"], form["title"] = str(cluster.pk), archive, "small"
    form.submit().maybe_follow()
    person.workers.work()
    image = Image.objects.exclude(pk__in=known).get()
    for _, name, mode in containers:
        where = f"{cluster.pk} {name} {mode}"
        page = person.get("image", image.pk)
        person.send(page, reverse("image_stage", args=[image.pk]), where=where)
    finish_operations(cluster)
    image.refresh_from_db()
    assert not image.python_version.startswith("3")
    page = person.get("environment_new", cluster=cluster.pk)
    lines = f"export PATH={path}:$PATH"
    person.send(page, "", name="small bare", python="none", setup_lines=lines)
    for kind, name, mode in containers:
        staged = StagedImage.objects.get(image=image, format=name, mode=mode)
        runtime = cluster.runtimes.get(kind=kind)
        query = {"cluster": cluster.pk, "runtime": runtime.pk, "staged_image": staged.pk}
        page = person.get("environment_new", **query)
        # Charliecloud starts a squashfs file without the variables of its image.
        lacks = {"variables": "PATH=/opt/sorting/bin:/usr/bin:/bin"} if name == "squashfs" else {}
        person.send(page, "", name=f"small {kind} {name} {mode}".strip(), **lacks)


def finish_operations(cluster: Cluster) -> None:
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not alive.exists(), seconds=300)
    failed = Operation.objects.exclude(state="done")
    assert not failed, [(str(operation), operation.message) for operation in failed]


def inspect(environments: list[Environment]) -> None:
    for row in environments:
        inspections.request_inspection(row, row.owner)
    finish_operations(environments[0].cluster)


def compare(
    person: Person, cluster: Cluster, environments: list[Environment], workload: Workload
) -> Experiment:
    page = person.get("experiment_new", cluster=cluster.pk)
    choice = {
        "question": "What does a container cost a program without Python?",
        "workloads": [str(workload.pk)],
        "environments": [str(row.pk) for row in environments],
        "baseline": str(environments[0].pk),
        "scales": "1x0",
        "repeats": "5",
    }
    person.send(page, "", **choice)
    made = Experiment.objects.latest("pk")
    unfinished = made.runs.exclude(state__in=Run.FINAL)
    tick_until(cluster, lambda: not unfinished.exists(), seconds=600)
    ended = {(run.environment.name, run.state, run.message) for run in made.runs.all()}
    assert ended == {(row.name, "succeeded", "") for row in environments}
    return made


@pytest.mark.parametrize("software", ["busybox", "python2.7"])
def test_an_image_without_python_3_is_compared_up_to_verdicts(
    researcher: Person, registered: Cluster, lab: Lab, software: str
) -> None:
    tree = lab.directory / "scratch" / software / "tree"
    if software == "busybox":
        programs, printed = make_busybox_image(tree), r"^median \d+"
    else:
        programs = make_python2_image(tree, host.find_debian_mirror())
        printed = r"^python 2.7 total \d+"
    with (tree.parent / "image.tar").open("wb") as file:
        config = {"Env": [f"PATH=/{programs}:/usr/bin:/bin"], "Cmd": ["/bin/sh"]}
        pack.write(file, [pack.Source(str(tree))], config, {}, f"small/{software}:1")
    archive, place = f"/scratch/{software}/image.tar", f"/scratch/{software}/tree/{programs}"
    containers = CONTAINERS + FURTHER * (software == "busybox")
    add_environments(researcher, registered, archive, place, containers)
    environments = list(registered.environments.filter(name__startswith="small").order_by("pk"))
    assert {row.python for row in environments} == {"none"}, "the form has suggested it"
    assert len(environments) == 1 + len(containers)
    inspect(environments)
    for row in environments[1:]:
        facts = EnvironmentInspection.objects.get(environment=row).facts
        assert facts["python"] == {}
        assert facts["os"] in ("BusyBox and nothing else", "Debian 11's Python 2.7")

    page = researcher.get("workload_new", kind="command")
    uploads = [Upload("loop.py", SCRIPT)] if software == "python2.7" else []
    researcher.send(
        page,
        "?kind=command",
        name="small program",
        argv="python2.7 loop.py" if uploads else "sorting",
        recorded="outside",
        read="nothing",
        success_pattern=printed,
        time_limit_seconds="60",
        primary="wall_time",
        uploads=uploads,
    )
    made = compare(researcher, registered, environments, Workload.objects.get(name="small program"))
    for run in made.runs.all():
        values = {row.metric: row.value for row in run.measurements.all()}
        assert 0.05 < values["wall_time"] < 30, values
        assert 0 < values["container_start"] < 30, values
        inside_facts = run.snapshot.content["inside"]
        assert "python" not in inside_facts
        if run.environment.runtime:
            assert inside_facts["os"] in ("BusyBox and nothing else", "Debian 11's Python 2.7")
    page = researcher.get("comparison", made.pk, section="all")
    for row in environments[1:]:
        assert row.name in page
    verdicts = {each.get_text(strip=True) for each in page.html.select(".verdict")}
    assert verdicts, "five repeats are enough for one"
    assert verdicts <= {"EQUIVALENT", "SLOWER", "FASTER", "INCONCLUSIVE"}
