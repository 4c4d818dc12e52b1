"""Images made of Debian packages, Dockerfiles and definition files, by a real cluster."""

from __future__ import annotations

import re

import pytest

from experiments import execution
from experiments.execution import lifecycle
from experiments.images import staging
from experiments.models import Cluster, Environment, Image, ImageImport, Operation
from experiments.software import build_files, building, inspections, own_trees, parity_reports
from lab.client import Lab
from tests.conftest import tick_until
from tests.factories import ExperimentFactory, WorkloadFactory
from tests.lab.building import base, cluster, finish

__all__ = ["base", "cluster"]  # fixtures

pytestmark = [pytest.mark.lab, pytest.mark.django_db]
DOCKERFILE, DEFINITION = ImageImport.Kind.DOCKERFILE, ImageImport.Kind.DEFINITION


def run(cluster: Cluster, command: str) -> str:
    """Return what a command prints on the login node."""
    with execution.connect(cluster) as runner:
        return runner.transport.run(["sh", "-c", command]).stdout.decode()


def find_left(cluster: Cluster) -> str:
    """Return the names of what builds have left, of folders, stores and processes."""
    folder = f"{cluster.work_directory}/images"
    return run(
        cluster,
        f"ls -d {folder}/*.part $HOME/.local/share/containers/tare-builds/* 2>/dev/null; "
        "pgrep -a sleep | grep -v infinity",
    )


def test_debian_packages_and_a_dockerfile_become_images_of_the_catalogue(
    base: Image, cluster: Cluster
) -> None:
    owner = cluster.owner
    recipe = building.request_build(base, "", cluster, owner, title="hello", packages="hello")
    finish(cluster, "build")
    recipe.refresh_from_db()
    image = recipe.image
    assert image
    version = image.facts["packages"]["system"]["hello"]
    assert f"Debian packages as installed: hello={version}" in image.recipe
    assert image.labels == {"base": base.digest}
    sandbox = staging.stage(image, cluster, "sandbox", owner)
    finish(cluster, "stage")
    sandbox.refresh_from_db()
    assert sandbox.tree == image.tree, "what was packed is what was surveyed"

    text = f"FROM debian@{image.digest} AS first\nRUN hello >/word && printf '\\377\\376\\n'\n"
    text += "FROM first\nCOPY note.txt /opt/note.txt\nENV GREETING=hello\n"
    made = build_files.request_file_build(
        DOCKERFILE, text, {"note.txt": b"a note"}, cluster, owner, title="greeting"
    )
    finish(cluster, "build")
    made.refresh_from_db()
    greeting = made.image
    assert greeting
    assert (greeting.owner, greeting.labels["base"]) == (owner, image.digest)
    assert text in greeting.recipe
    archive = greeting.staged.get().path
    assert "a note" in run(cluster, f"tar -xOf {archive} | grep -ao 'a note' | head -n 1")
    assert find_left(cluster) == ""


def test_a_definition_file_becomes_a_sif_file_of_the_catalogue(
    base: Image, cluster: Cluster
) -> None:
    owner = cluster.owner
    text = f"Bootstrap: docker\nFrom: debian@{base.digest}\n\n%files\n    note.txt /opt/note.txt\n"
    # What belongs to others inside belongs to the user's subordinate ids outside.
    text += "%post\n    mkdir -m 700 /closed\n    chown 33:33 /closed /opt/note.txt\n"
    row = build_files.request_file_build(
        DEFINITION, text, {"note.txt": b"a note"}, cluster, owner, title="noted"
    )
    finish(cluster, "build")
    row.refresh_from_db()
    image = row.image
    assert image
    assert (image.kind, image.labels["base"], image.owner) == ("sif", base.digest, owner)
    assert text in image.recipe
    assert image.python_version == base.python_version or image.python_version
    sif = staging.stage(image, cluster, "sif", owner)
    finish(cluster, "stage")
    sif.refresh_from_db()
    assert sif.state == "ready"
    on_it = building.request_build(image, "", cluster, owner, title="more", packages="hello")
    finish(cluster, "build")
    on_it.refresh_from_db()
    assert on_it.image
    assert "hello" in on_it.image.facts["packages"]["system"], "recipes take SIF files too"
    assert find_left(cluster) == ""


def fail(cluster: Cluster, image_import: ImageImport) -> str:
    """Return the sentence with which a build has failed."""
    live = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not live.exists(), seconds=300)
    image_import.refresh_from_db()
    assert image_import.state == "failed"
    assert image_import.image is None
    return image_import.problem


@pytest.mark.parametrize("kind", [DOCKERFILE, DEFINITION])
def test_builds_that_fail_say_why_and_leave_nothing(
    kind: str, base: Image, cluster: Cluster
) -> None:
    owner, number = cluster.owner, iter(range(100))

    def ask(command: str, minutes: int = 5) -> ImageImport:
        line = f"{command} # {next(number)}"
        text = f"Bootstrap: docker\nFrom: debian@{base.digest}\n%post\n    {line}\n"
        if kind == DOCKERFILE:
            text = f"FROM debian@{base.digest}\nRUN {line}\n"
        return build_files.request_file_build(
            kind, text, {}, cluster, owner, title="x", minutes=minutes
        )

    update = "mkdir -p /var/cache/apt/archives/partial && apt-get update -o APT::Update::Error-Mode"
    update += "=any -o Acquire::Retries=0"
    nobody = (
        "-o Acquire::http::Proxy=http://127.0.0.1:9 -o Acquire::https::Proxy=http://127.0.0.1:9"
    )
    problem = fail(cluster, ask(f"{update} {nobody}"))
    assert "The build asked the network for something, and lab got no answer" in problem
    problem = fail(cluster, ask("printf '\\377\\376'; exit 7"))
    assert "ended with exit code 7" in problem or "exit status 7" in problem
    loud = ask("head -c 5000000 /dev/zero | tr '\\0' 'x' | fold; false")
    assert fail(cluster, loud)
    operation = loud.operations.get()
    assert len(operation.output_tail) < 100_000
    late = ask("setsid sleep 3000", minutes=1)
    assert "did not end within 1 minutes, and was ended." in fail(cluster, late)
    assert find_left(cluster) == ""


def test_a_build_whose_job_is_killed_is_cleared_by_the_next(base: Image, cluster: Cluster) -> None:
    owner = cluster.owner
    text = f"FROM debian@{base.digest}\nRUN chown 33:33 /opt && setsid sleep 2999\n"
    row = build_files.request_file_build(DOCKERFILE, text, {}, cluster, owner, title="x")
    tick_until(cluster, lambda: "2999" in find_left(cluster), seconds=120)
    run(cluster, f"scancel --full --signal=KILL {row.operations.get().scheduler_id}")
    assert fail(cluster, row)
    assert "sleep 2999" not in find_left(cluster)
    cancelled = build_files.request_file_build(DOCKERFILE, text, {}, cluster, owner, title="x")
    tick_until(cluster, lambda: "2999" in find_left(cluster), seconds=120)
    staging.cancel(cancelled.operations.get(), owner)
    assert "cancelled" in fail(cluster, cancelled)
    assert "sleep 2999" not in find_left(cluster)
    late = build_files.request_file_build(
        DOCKERFILE, text, {}, cluster, owner, title="x", minutes=1
    )
    assert "did not end within 1 minutes" in fail(cluster, late)
    assert find_left(cluster) == "", "the next build removes what killed jobs have left"


def test_an_images_own_tree_is_an_environment_with_the_same_software(
    lab: Lab, cluster: Cluster
) -> None:
    owner = cluster.owner
    image = Image.objects.get(digest=lab.images["numpy"].image.digest)
    own_trees.request_tree(image, cluster, owner)
    finish(cluster, "tree")
    tree = own_trees.find_tree(image, cluster)
    assert tree
    assert (tree.is_bare_metal, tree.tree_of) == (True, image)
    assert inspections.find_known_software([tree])[tree.pk].is_known

    code = "import ctypes, numpy, os, subprocess, sys; print(numpy.__file__, os.__file__); "
    code += "print(sorted({line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}))"
    code += "; subprocess.run([sys.executable, '-c', 'import numpy; print(numpy.__file__)'])"
    folder = own_trees.name_tree_folder(image, cluster)
    printed = run(cluster, f'{folder}/bin/python -c "{code}"')
    paths = re.findall(r"/[\w./+-]+", printed)
    assert len(paths) > 10
    assert all(path.startswith(f"{folder}/") for path in paths), printed
    assert run(cluster, f"{folder}/run /usr/bin/dpkg --version").startswith("Debian")

    container = Environment.objects.filter(
        cluster=cluster, staged_image__image=image, runtime__kind="apptainer"
    ).first()
    assert container
    inspections.request_inspection(container, owner)
    finish(cluster, "inspect")
    draft = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=tree,
        environments=[tree, container],
        workloads=[WorkloadFactory(kind="blas", parameters={"steps": 6, "burn_in": 1})],
        repeats=1,
        owner=owner,
    )
    (report,) = parity_reports.make_reports(draft)
    assert report.answer == "yes", report.differences
    lifecycle.launch(draft, owner)
    tick_until(cluster, lambda: all(job.is_final for job in draft.jobs.all()), seconds=200)
    assert set(draft.runs.values_list("state", flat=True)) == {"succeeded"}
