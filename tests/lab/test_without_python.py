"""Images without Python 3, by forms: staged, inspected, run on bare metal and in three containers,
up to their verdicts. Beside a program of one's own each is measured by `startup` and `files`."""

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
    StagedImage,
    Workload,
)
from experiments.software import inspections
from lab import host
from lab.client import Lab, run_checked
from runners.payload import pack
from tests.conftest import tick_until
from tests.lab.bare_lab import lab, registered
from tests.lab.by_forms import Person, launch_experiment, wait_for_runs
from tests.lab.small_images import make_busybox_image, make_python2_image, make_sysbench_image
from tests.lab.test_presets import researcher

__all__ = ["lab", "registered", "researcher"]

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
# What Debian's package of sysbench brings, put where a package manager puts it.
INSTALL = """
cd "$1/usr" && cp -an bin/sysbench /usr/bin/ && cp -an share/sysbench /usr/share/ &&
cp -an lib/"$(uname -m)"-linux-gnu/. /usr/lib/"$(uname -m)"-linux-gnu/ && ldconfig
"""
VERDICTS = {"EQUIVALENT", "SLOWER", "FASTER", "INCONCLUSIVE", "NOT SLOWER"}
NAMES = {"busybox": "BusyBox and nothing else", "python2.7": "Debian 11's Python 2.7"}
MEASURES = {
    "startup": {"forks": "20", "steps": "4"},
    "files": {
        "small_files": "60",
        "large_file_mb": "2",
        "software_files": "30",
        "steps": "4",
        "software_folder": "/bin",
    },
}


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
    image = import_from_cluster(person, cluster, archive, "small")
    stage_image(person, cluster, image, containers)
    image.refresh_from_db()
    assert not image.python_version.startswith("3")
    make_environments(person, cluster, image, path, containers, "small")


def import_from_cluster(person: Person, cluster: Cluster, archive: str, title: str) -> Image:
    """Import an image from a file on the cluster, by the form; return it."""
    page = person.get("image_new")
    form = next(form for form in page.forms.values() if "path" in form.fields)
    known = set(Image.objects.values_list("pk", flat=True))
    form["cluster"], form["path"], form["title"] = str(cluster.pk), archive, title
    form.submit().maybe_follow()
    person.workers.work()
    return Image.objects.exclude(pk__in=known).get()


def stage_image(
    person: Person, cluster: Cluster, image: Image, containers: Sequence[tuple[str, str, str]]
) -> None:
    """Stage the image in each form that the containers start, by its page."""
    for _, name, mode in containers:
        where = f"{cluster.pk} {name} {mode}"
        page = person.get("image", image.pk)
        person.send(page, reverse("image_stage", args=[image.pk]), where=where)
    finish_operations(cluster)


def make_environments(
    person: Person,
    cluster: Cluster,
    image: Image,
    path: str,
    containers: Sequence[tuple[str, str, str]],
    title: str,
) -> None:
    """Make bare metal with `path` and each container by the form; their names begin with `title`.

    The interpreter of bare metal is none; that of containers is what the form suggests.
    """
    page = person.get("environment_new", cluster=cluster.pk)
    lines = f"export PATH={path}:$PATH"
    person.send(page, "", name=f"{title} bare", python="none", setup_lines=lines)
    for kind, name, mode in containers:
        staged = StagedImage.objects.get(image=image, format=name, mode=mode)
        runtime = cluster.runtimes.get(kind=kind)
        query = {"cluster": cluster.pk, "runtime": runtime.pk, "staged_image": staged.pk}
        page = person.get("environment_new", **query)
        # Charliecloud starts a squashfs file without the variables of its image.
        lacks = {"variables": "PATH=/opt/sorting/bin:/usr/bin:/bin"} if name == "squashfs" else {}
        person.send(page, "", name=f"{title} {kind} {name} {mode}".strip(), **lacks)


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
    person: Person, cluster: Cluster, environments: list[Environment], workloads: list[Workload]
) -> Experiment:
    made = launch_experiment(
        person,
        cluster,
        "What does a container cost a program without Python?",
        workloads=workloads,
        environments=environments,
        repeats=5,
    )
    wait_for_runs(cluster, seconds=900)
    assert {run.environment.name for run in made.runs.all()} == {row.name for row in environments}
    return made


def add_program(person: Person, software: str, name: str = "small program") -> Workload:
    """Add the program of an image as a workload that is recorded outside."""
    chosen = {"recorded": "outside", "name": name, "time_limit_seconds": "60"}
    if software == "sysbench":
        page = person.get("workload_new", ready="sysbench-cpu")
        argv = page.forms["parameters"]["argv"].value.replace("--time=10", "--time=1")
        chosen["argv"] = argv
    else:
        page = person.get("workload_new", kind="command")
        printed = {"busybox": r"^median \d+", "python2.7": r"^python 2.7 total \d+"}[software]
        uploads = [Upload("loop.py", SCRIPT)] if software == "python2.7" else []
        chosen |= {
            "argv": "python2.7 loop.py" if uploads else "sorting",
            "read": "nothing",
            "success_pattern": printed,
            "primary": "wall_time",
            "uploads": uploads,
        }
    person.send(page, "?kind=command", **chosen)
    return Workload.objects.get(name=name)


def add_measure(person: Person, kind: str, software: str) -> Workload:
    """Add `startup` or `files`, recorded outside."""
    page = person.get("workload_new", kind=kind)
    typed = {**MEASURES[kind], "recorded": "outside", "name": f"small {kind}"}
    typed["time_limit_seconds"] = "60"
    if kind == "startup" and software == "python2.7":
        typed["program"] = "python2.7 -S -c pass"
    person.send(page, f"?kind={kind}", **typed)
    return Workload.objects.get(name=f"small {kind}")


def make_image(software: str, lab: Lab) -> str:
    """Make the image's archive in the lab's scratch; return its programs' folder on bare metal."""
    tree = lab.directory / "scratch" / software / "tree"
    if software == "busybox":
        programs = make_busybox_image(tree)
    elif software == "python2.7":
        programs = make_python2_image(tree, host.find_debian_mirror())
    else:
        programs = make_sysbench_image(tree)
        folder = f"/scratch/{software}/tree"
        inside = ("--", "sh", "-c", INSTALL, "install", folder)
        run_checked("exec", "--dir", str(lab.directory), *inside)
    with (tree.parent / "image.tar").open("wb") as file:
        config = {"Env": [f"PATH=/{programs}:/usr/bin:/bin"], "Cmd": ["/bin/sh"]}
        pack.write(file, [pack.Source(str(tree))], config, {}, f"small/{software}:1")
    return "/usr/bin" if software == "sysbench" else f"/scratch/{software}/tree/{programs}"


@pytest.mark.parametrize("software", ["busybox", "python2.7", "sysbench"])
def test_an_image_without_python_3_is_compared_up_to_verdicts(
    researcher: Person, registered: Cluster, lab: Lab, software: str
) -> None:
    place = make_image(software, lab)
    containers = CONTAINERS + FURTHER * (software == "busybox")
    archive = f"/scratch/{software}/image.tar"
    add_environments(researcher, registered, archive, place, containers)
    environments = list(registered.environments.filter(name__startswith="small").order_by("pk"))
    assert {row.python for row in environments} == {"none"}, "the form has suggested it"
    assert len(environments) == 1 + len(containers)
    inspect(environments)
    for row in environments[1:]:
        facts = EnvironmentInspection.objects.get(environment=row).facts
        assert facts["python"] == {}
        if software in NAMES:
            assert facts["os"] == NAMES[software]
        else:
            assert facts["system_packages"]["sysbench"].startswith("1.0")

    kinds = ["startup"] if software == "python2.7" else list(MEASURES)
    measures = [add_measure(researcher, kind, software) for kind in kinds]
    program = add_program(researcher, software)
    made = compare(researcher, registered, environments, [program, *measures])
    sums = set()
    for run in made.runs.all():
        values = {row.metric: row.value for row in run.measurements.all()}
        assert 0 < values["container_start"] < 30, values
        inside_facts = run.snapshot.content["inside"]
        assert "python" not in inside_facts
        if run.environment.runtime and software in NAMES:
            assert inside_facts["os"] == NAMES[software]
        files = {file["word"]: file for file in inside_facts["program"]["files"]}
        if run.workload.kind == "command":
            assert 0.05 < values["wall_time"] < 30, values
            sums.add(files[run.workload.parameters["argv"][0]]["sha256"])
        elif run.workload.kind == "files":
            assert {"cat", "dd", "rm", "mkdir"} <= files.keys() or not run.environment.runtime
            assert values["create_rate"] > 0
            assert values["software_read_rate"] > 0
        else:
            assert 0 < values["fork_time"] < 30, values
            assert 0.0001 < values["program_start"] < 30, values
    assert len(sums) == 1, "one program everywhere"
    page = researcher.get("comparison", made.pk, section="all")
    assert "The program itself was not inspected" not in page
    if software != "python2.7":  # which links Debian 11's zlib inside, and the node's outside
        assert "The program was inspected in every run and is the same on both sides" in page
    for row in [*environments[1:], *measures]:
        assert row.name in page
    verdicts = {each.get_text(strip=True) for each in page.html.select(".verdict")}
    assert verdicts, "five repeats are enough for one"
    assert verdicts <= VERDICTS, verdicts
