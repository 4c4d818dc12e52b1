"""An image on the lab: staged in every form, found to be the same, tampered with, removed."""

from __future__ import annotations

import json

import pytest

from experiments import execution
from experiments.images import staging
from experiments.models import Cluster, Image, Operation, StagedImage
from lab.client import Lab
from tests.conftest import tick_until
from tests.factories import AdminFactory

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

# The others are staged where an experiment is made by forms.
FORMS = [("sandbox", ""), ("squashfs", ""), ("podman", ""), ("udocker", "P1")]


@pytest.fixture
def image(lab: Lab, registered: Cluster) -> Image:
    """The lab's NumPy image, whose archive is on the cluster."""
    facts = json.loads((lab.directory / "lab.json").read_text())["images"]["numpy"]["image"]
    return Image.objects.get(digest=facts["digest"])


def finish(cluster: Cluster) -> None:
    live = Operation.objects.filter(cluster=cluster).exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not live.exists(), seconds=300)


def test_every_form_holds_the_same_files_and_can_be_removed(
    registered: Cluster, image: Image
) -> None:
    Cluster.objects.update(max_live_jobs=2)
    owner = AdminFactory()
    rows = [staging.stage(image, registered, form, owner, mode=mode) for form, mode in FORMS]
    finish(registered)
    made = {row.form: row for row in StagedImage.objects.filter(pk__in=[row.pk for row in rows])}
    assert {row.form: (row.state, row.message) for row in made.values()} == {
        f"{form} {mode}".strip(): ("ready", "") for form, mode in FORMS
    }
    image.refresh_from_db()
    assert {row.tree for row in made.values()} == {image.tree}

    sandbox = made["sandbox"]
    with execution.connect(registered) as runner:
        runner.transport.write(f"{sandbox.path}/opt/tare/tampered", b"x")
    staging.verify(sandbox, owner)
    staging.verify(made["podman"], owner)
    finish(registered)
    sandbox.refresh_from_db()
    assert sandbox.state == "failed"
    assert "What differs lies in /opt" in sandbox.message
    assert StagedImage.objects.get(pk=made["podman"].pk).state == "ready"

    for row in made.values():
        row.refresh_from_db()
        staging.unstage(row, owner)
    finish(registered)
    gone = StagedImage.objects.filter(made_here=True)
    assert {(row.state, row.message) for row in gone} == {("removed", "")}
    with execution.connect(registered) as runner:
        for path in (row.path for row in made.values() if row.path.startswith("/")):
            assert runner.transport.run(["test", "-e", path]).returncode == 1
        listed = runner.transport.run(["ls", registered.images_folder]).stdout
    assert listed == b""
