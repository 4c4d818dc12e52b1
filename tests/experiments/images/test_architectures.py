"""An image for other processors than the nodes' is refused before anything is sent."""

from __future__ import annotations

import pytest

from experiments.execution.lifecycle import NotLaunchable, launch
from experiments.images import staging
from experiments.images.architectures import (
    explain_mismatch,
    list_node_architectures,
    read_architecture,
)
from experiments.models import CheckReport, Cluster, Experiment
from runners.preflight.checks import Check
from tests.factories import (
    CheckReportFactory,
    ClusterFactory,
    ContainerFactory,
    ExperimentFactory,
    ImageFactory,
    PartitionFactory,
    RuntimeFactory,
    StagedImageFactory,
)

pytestmark = pytest.mark.django_db


def check(cluster: Cluster, **machines: str) -> None:
    """Write down a check that saw these machines, by partition."""
    rows = [
        Check(f"Partition {name}", "Architecture", "ok", "", value=machine).as_json()
        for name, machine in machines.items()
    ]
    CheckReportFactory(cluster=cluster, rows=rows)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"architecture": "arm64"}, "arm64"),
        ({"facts": {"system": {"architecture": "x86_64"}}}, "amd64"),
        ({"facts": {"system": {"architecture": "aarch64"}}}, "arm64"),
        ({"facts": {"system": {"architecture": "riscv64"}}}, "riscv64"),
        ({"facts": {"system": None}}, ""),
        ({}, ""),
    ],
)
def test_the_architecture_is_the_manifest_s_or_what_the_files_tell(
    columns: dict[str, object], expected: str
) -> None:
    assert read_architecture(ImageFactory.build(owner=None, **columns)) == expected


def test_nodes_are_known_by_the_last_check_that_reached_one() -> None:
    cluster = ClusterFactory()
    gpu, arm = (PartitionFactory(cluster=cluster, name=name) for name in ("gpu", "arm"))
    assert list_node_architectures(cluster) == []
    check(cluster, gpu="x86_64", arm="aarch64")
    check(cluster)
    cluster = Cluster.objects.get()
    assert list_node_architectures(cluster) == ["amd64", "arm64"]
    assert list_node_architectures(cluster, gpu) == ["amd64"]
    assert list_node_architectures(cluster, arm) == ["arm64"]


def test_a_login_node_is_no_node() -> None:
    cluster = ClusterFactory()
    row = Check("On the login node", "Architecture", "ok", "", value="x86_64").as_json()
    CheckReportFactory(cluster=cluster, rows=[row])
    assert list_node_architectures(cluster) == []


@pytest.mark.parametrize(
    ("image", "node", "words"),
    [
        ("arm64", "x86_64", "The image toy is for arm64; the nodes of lab are amd64."),
        ("amd64", "aarch64", "The image toy is for amd64; the nodes of lab are arm64."),
        ("amd64", "x86_64", ""),
        ("386", "x86_64", ""),
        ("", "x86_64", ""),
    ],
)
def test_the_sentence_names_both(image: str, node: str, words: str) -> None:
    cluster = ClusterFactory(name="lab")
    check(cluster, gpu=node)
    made = ImageFactory(reference="toy", architecture=image)
    assert explain_mismatch(made, cluster) == words


def test_it_is_not_launched() -> None:
    draft = ExperimentFactory()
    image = ImageFactory(reference="toy", architecture="arm64")
    staged = StagedImageFactory(cluster=draft.cluster, image=image)
    draft.environments.add(ContainerFactory(name="it", cluster=draft.cluster, staged_image=staged))
    assert draft.partition
    check(draft.cluster, **{draft.partition.name: "x86_64"})
    with pytest.raises(NotLaunchable) as refusal:
        launch(draft, draft.owner)
    sentence = f"it: The image toy is for arm64; the nodes of {draft.partition} are amd64."
    assert refusal.value.messages == {"environments": [sentence]}
    assert not Experiment.objects.exclude(launched_at=None).exists()
    CheckReport.objects.all().delete()
    check(draft.cluster, **{draft.partition.name: "aarch64"})
    launch(Experiment.objects.get(), draft.owner)
    assert Experiment.objects.exclude(launched_at=None).exists()


def test_it_is_not_staged(here: Cluster) -> None:
    RuntimeFactory(cluster=here, kind="charliecloud", executable="ch-run")
    check(here, gpu="x86_64")
    image = ImageFactory(reference="toy", architecture="arm64")
    with pytest.raises(staging.NotDone, match="is for arm64; the nodes of here are amd64"):
        staging.stage(image, here, "sandbox", here.owner)
