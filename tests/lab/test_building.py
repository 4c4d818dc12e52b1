"""Images made of Debian packages, Dockerfiles and definition files, by a real cluster."""

from __future__ import annotations

import pytest

from experiments import execution
from experiments.images import staging
from experiments.models import Cluster, Image, ImageImport, Operation
from experiments.software import build_files, building, recipes
from tests.conftest import tick_until
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
    assert "a note" in run(cluster, f"tar -xOf {archive} | tr '\\0' ' '")
    assert find_left(cluster) == ""
