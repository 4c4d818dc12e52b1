"""Recipes with an environment file of conda: what is asked for, and what comes of it."""

from __future__ import annotations

import json

import pytest

from experiments.execution.operations import KINDS, make_operation_spec
from experiments.images.staging import NotDone
from experiments.models import Cluster, Environment, Image, ImageImport
from experiments.software import building, recipes
from runners.records import read_record
from runners.schedulers import Direct
from runners.scripts import render
from tests.experiments.software.test_building import base, built, cluster
from tests.factories import ImageFactory

__all__ = ["base", "cluster"]  # fixtures

pytestmark = pytest.mark.django_db

FILE = """channels: [conda-forge]
dependencies:
  - python=3.13
  - pip: [idna]
"""
SHA = "ab" * 32
LOCK = f"""# platform: linux-64
@EXPLICIT
https://conda.anaconda.org/conda-forge/linux-64/python-3.13.5-h1_0.conda#sha256:{SHA}
# then pip install --no-deps --require-hashes, in the same environment:
# idna==3.10 --hash=sha256:{SHA}
"""


def ask(base: Image, cluster: Cluster, text: str = FILE, lock: str = "") -> ImageImport:
    owner = cluster.owner
    return building.request_build(base, lock, cluster, owner, title="by conda", conda_file=text)


def test_an_environment_file_becomes_an_operation_whose_script_says_all(
    base: Image, cluster: Cluster
) -> None:
    base.facts = {"pythons": []}
    base.save()
    row = ask(base, cluster, FILE.replace("\n", "\r\n"))
    assert row.conda_file == FILE
    assert row.reference.endswith("an environment file of conda of 4 lines")
    spec = make_operation_spec(row.operations.get())
    files = dict(spec.files)
    assert json.loads(files["environment.json"]) == {
        "channels": ["conda-forge"],
        "specs": ["python=3.13"],
        "pip": ["idna"],
    }
    assert files["py-rattler.lock"].startswith(b"py-rattler==")
    doing = [step.doing for step in spec.steps]
    assert doing[3:6] == [
        "Making room",
        "Installing what conda's file names",
        "Installing what its pip section names",
    ]
    script = render(spec, Direct())
    assert "--prefix /opt/tare --root /scratch/images/build-" in script
    assert "/opt/apptainer --silent exec" in script


def test_the_image_keeps_the_file_and_what_was_installed_and_gets_a_twin(
    base: Image, cluster: Cluster
) -> None:
    row = ask(base, cluster)
    image = built(row.operations.get(), lock=LOCK)
    assert FILE in image.recipe
    assert recipes.conda_lock_of(image) == LOCK
    assert recipes.lock_of(image) == ""
    assert image.labels["sha256 of the environment file"] == recipes.compute_sha256(FILE)
    with pytest.raises(NotDone, match="was itself built by a recipe"):
        ask(image, cluster)
    (twin,) = building.list_twins(image, Cluster.objects.usable_by(cluster.owner))
    assert twin.may_ask
    operation = building.request_match(image, cluster, cluster.owner)
    spec = make_operation_spec(operation)
    request = json.loads(dict(spec.files)["environment.json"])
    assert request["exact"] is True
    assert request["specs"] == [f"python[version='==3.13.5',build='h1_0',sha256='{SHA}']"]
    assert request["pip_lock"] == [f"idna==3.10 --hash=sha256:{SHA}"]
    facts = {"schema": 1, "mark": "match", "python": {"version": "3.13.5"}, "packages": {}}
    record = read_record({"exit_code": b"0", "result.json": json.dumps(facts).encode()})
    assert KINDS["match"].finish(operation, "", record) == ""
    assert Environment.objects.get().python == (
        f"{recipes.name_twin_folder(image, cluster)}/bin/python"
    )


def test_what_cannot_be_is_refused_in_words(base: Image, cluster: Cluster) -> None:
    with pytest.raises(NotDone, match="not both"):
        ask(base, cluster, lock=f"idna==3.10 --hash=sha256:{SHA}")
    with pytest.raises(NotDone, match="channels: has to name"):
        ask(base, cluster, "dependencies: [numpy]")
    without = LOCK.replace("/python-", "/python-dateutil-")
    recipe = f"base: x\n{recipes.CONDA_FILE_LINE}\n{FILE}{recipes.CONDA_LOCK_LINE}\n{without}"
    image = ImageFactory(recipe=recipe, owner=cluster.owner)
    with pytest.raises(NotDone, match="has brought no Python"):
        building.request_match(image, cluster, cluster.owner)
    image.recipe += "# --index-url https://x/?a==b\n"  # of a cluster that says anything
    image.save()
    with pytest.raises(NotDone, match=r"is not understood: # --index-url .* Build .* again from"):
        building.request_match(image, cluster, cluster.owner)
    cluster.runtimes.filter(kind="apptainer").delete()
    with pytest.raises(NotDone, match="starts a folder"):
        ask(base, cluster)
    assert not ImageImport.objects.exists()


def test_lines_of_somebody_s_file_are_no_lock(base: Image) -> None:
    lines = f"{recipes.CONDA_FILE_LINE}\n{recipes.CONDA_LOCK_LINE}\n{recipes.LOCK_LINE}\nx==1\n"
    row = ImageImport(
        kind=ImageImport.Kind.DOCKERFILE, build_file=f"FROM x\n{lines}", owner=base.owner
    )
    image = Image(recipe=recipes.write_file_recipe(row, base))
    assert lines in image.recipe
    assert recipes.any_lock_of(image) == ""
    conda = recipes.write_recipe(base, "", conda_file=f"{FILE}# {lines}", conda_lock=LOCK)
    assert recipes.conda_lock_of(Image(recipe=conda)) == LOCK
    assert recipes.lock_of(Image(recipe=conda)) == ""
    debian = recipes.write_recipe(base, "x==1\n", "gcc\n", "gcc 14")
    assert recipes.lock_of(Image(recipe=debian)) == "x==1\n"
    assert recipes.conda_lock_of(Image(recipe=debian)) == ""
