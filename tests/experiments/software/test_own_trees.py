"""An image's own files as an environment outside of a container: requests and outcomes."""

from __future__ import annotations

import json

import pytest
from django.db.models import ProtectedError

from experiments.execution.operations import KINDS, NotPossible, make_operation_spec
from experiments.images import architectures
from experiments.images.staging import NotDone
from experiments.models import Cluster, Environment, Image, Operation, Role
from experiments.planning.freeze import freeze_environment
from experiments.software import inspections, own_trees
from runners.records import read_record
from runners.schedulers import Direct
from runners.scripts import render
from tests.experiments.software.test_building import base, cluster
from tests.factories import ClusterFactory, UserFactory

__all__ = ["base", "cluster"]  # fixtures

pytestmark = pytest.mark.django_db


def finish(operation: Operation, mark: str = "tree") -> str:
    facts = {"schema": 1, "mark": mark, "python": {"version": "3.13.5"}, "packages": {}}
    record = read_record({"exit_code": b"0", "result.json": json.dumps(facts).encode()})
    return KINDS["tree"].finish(operation, "", record)


@pytest.mark.parametrize("kind", ["oci", "rootfs", "sif"])
def test_a_tree_is_unpacked_verified_and_inspected(
    kind: str, base: Image, cluster: Cluster
) -> None:
    base.kind, base.tree = kind, f"sha256:{'12' * 32}"
    base.save()
    operation = own_trees.request_tree(base, cluster, cluster.owner)
    assert own_trees.request_tree(base, cluster, cluster.owner) == operation, "one at a time"
    (listed,) = own_trees.list_trees(base, Cluster.objects.usable_by(cluster.owner))
    assert (listed.may_ask, listed.operation) == (False, operation)
    spec = make_operation_spec(operation)
    folder = own_trees.name_tree_folder(base, cluster)
    script = render(spec, Direct())
    assert f"{folder}/root" in script
    assert ("/opt/apptainer build --sandbox" in script) == (kind == "sif")
    assert (base.tree in script) == (kind != "sif"), "Apptainer adds files of its own to a SIF file"
    assert finish(operation) == ""
    tree = own_trees.find_tree(base, cluster)
    assert tree
    assert (tree.is_bare_metal, tree.python) == (True, f"{folder}/bin/python")
    assert tree.name == "debian 13: own tree, outside a container"
    assert freeze_environment(tree)["image_digest"] == base.digest, "a plan says whose files"
    assert inspections.find_known_software([tree])[tree.pk].is_known
    with pytest.raises(NotDone, match="is there already"):
        own_trees.request_tree(base, cluster, cluster.owner)
    with pytest.raises(ProtectedError):
        base.delete()


def test_a_tree_without_an_inspection_is_no_environment(base: Image, cluster: Cluster) -> None:
    operation = own_trees.request_tree(base, cluster, cluster.owner)
    assert "nothing could be read" in finish(operation, mark="other")
    assert KINDS["tree"].finish(operation, "the loader is too old", read_record({})) == (
        "the loader is too old"
    )
    assert not Environment.objects.exists()


def test_two_images_of_one_name_have_two_environments(base: Image, cluster: Cluster) -> None:
    operation = own_trees.request_tree(base, cluster, cluster.owner)
    Environment.objects.create(
        name="debian 13: own tree, outside a container", cluster=cluster, owner=cluster.owner
    )
    assert finish(operation) == ""
    tree = own_trees.find_tree(base, cluster)
    assert tree
    assert base.short_digest in tree.name


def test_what_cannot_be_is_refused_in_words(
    base: Image, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = cluster.owner
    with pytest.raises(NotDone, match="viewer"):
        own_trees.request_tree(base, cluster, UserFactory(role=Role.VIEWER))
    base.architecture = "arm64"
    monkeypatch.setattr(architectures, "find_node_machines", lambda cluster: {"gpu": "x86_64"})
    with pytest.raises(NotDone, match="is for arm64"):
        own_trees.request_tree(base, cluster, owner)
    base.architecture, base.kind = "", Image.Kind.SIF
    cluster.runtimes.filter(kind="apptainer").delete()
    with pytest.raises(NotDone, match="only Apptainer or Singularity opens"):
        own_trees.request_tree(base, cluster, owner)
    assert not Operation.objects.exists()


def test_an_image_that_went_away_is_said(base: Image, cluster: Cluster) -> None:
    operation = own_trees.request_tree(base, cluster, cluster.owner)
    base.staged.update(state="failed", message="the disk is full")
    with pytest.raises(NotPossible, match="the disk is full"):
        make_operation_spec(operation)


def test_trees_of_other_clusters_are_their_own(base: Image, cluster: Cluster) -> None:
    assert finish(own_trees.request_tree(base, cluster, cluster.owner)) == ""
    assert own_trees.find_tree(base, ClusterFactory(owner=cluster.owner)) is None


@pytest.mark.parametrize(
    ("pythons", "interpreter"),
    [
        ([], "none"),
        ([{"path": "usr/bin/python2.7", "version": "2.7.18"}], "{folder}/bin/python2.7"),
        ([{"path": "usr/bin/python3.6", "version": "3.6.8"}], "none"),
    ],
)
def test_an_image_without_python_has_a_tree_of_launchers(
    pythons: list[dict[str, str]], interpreter: str, base: Image, cluster: Cluster
) -> None:
    base.facts = {"tree": "x", "pythons": pythons}
    base.save()
    assert own_trees.list_trees(base, Cluster.objects.usable_by(cluster.owner))
    operation = own_trees.request_tree(base, cluster, cluster.owner)
    folder = own_trees.name_tree_folder(base, cluster)
    spec = make_operation_spec(operation)
    doing = [step.doing for step in spec.steps]
    assert doing[-2:] == ["Copying lists of packages from inside", "Reading them"]
    script = render(spec, Direct())
    assert f"payload/own_tree.py {folder} none" in script
    assert "--archive /scratch/images/base.archive" in script
    assert f"/inside {folder}/root" in script, "the image's lists of packages, not the node's"
    assert finish(operation) == ""
    tree = own_trees.find_tree(base, cluster)
    assert tree
    assert tree.python == interpreter.format(folder=folder)
    assert tree.variables == {"PATH": f"{folder}/bin:/usr/local/bin:/usr/bin:/bin"}
    again = inspections.request_inspection(tree, cluster.owner)
    assert f"/inside {folder}/root" in render(make_operation_spec(again), Direct())
