"""Presets fit this version, a lab's partition, and a laptop's patience."""

from __future__ import annotations

import pytest

from experiments.design import Scale
from experiments.models import AuditEntry, Environment, Experiment, User, Workload
from experiments.planning import rules
from experiments.presets import FULL, LAPTOP, PRESETS, Preset
from experiments.presets.preset_drafts import (
    choose_partition,
    list_candidates,
    make_draft,
    select_ready,
)
from runners.interpreters import NO_PYTHON
from runners.payload.training import made_images
from runners.workloads import WORKLOADS
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    ImageFactory,
    PartitionFactory,
    StagedImageFactory,
    UserFactory,
    WorkloadFactory,
)

LONGEST_RUN_SECONDS = 300
MOST_RUNS = 60
MOST_IMAGES = 10_000
"""Of a laptop's size: a run's time limit, runs in two environments, images of one training."""

every = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS.keys())


@every
def test_its_workloads_take_the_parameters_and_report_the_metric(preset: Preset) -> None:
    for size in preset.sizes.values():
        for piece in size.workloads:
            kind = WORKLOADS[piece.kind]
            given = dict(piece.parameters)
            if size.needs_data:
                given["data_directory"] = "/data"
            cleaned = kind.clean(given)
            reported = {one.name for one in kind.list_all_metrics(cleaned)}
            assert preset.metric in reported | {""}, piece.name
            assert len(piece.name) <= 90, "a number must still fit behind it"


@every
def test_it_says_what_it_is_and_has_both_sizes(preset: Preset) -> None:
    assert set(preset.sizes) == {FULL, LAPTOP}
    for words in (preset.title, preset.source, preset.question, preset.then, preset.now):
        assert words.strip() == words != ""
    assert len(preset.question) <= 300
    for size in preset.sizes.values():
        assert size.repeats >= 5, "fewer allow no verdict"
        names = [piece.name for piece in size.workloads]
        assert len(set(names)) == len(names)


@every
def test_a_laptop_finishes_the_small_size(preset: Preset) -> None:
    size = preset.sizes[LAPTOP]
    assert size.note, "says what is smaller"
    assert len(size.workloads) * len(size.scales) * size.repeats * 2 <= MOST_RUNS
    for piece in size.workloads:
        assert piece.time_limit_seconds <= LONGEST_RUN_SECONDS
        if "network" not in piece.parameters:
            continue
        asked = WORKLOADS[piece.kind].clean(piece.parameters)
        images = int(str(asked["steps"])) * int(str(asked["batch_size"]))
        most = max(Scale.parse(scale).gpus for scale in size.scales)
        if asked.get("data") == "made":  # an epoch is as long on several GPUs
            images, most = int(str(asked["epochs"])) * made_images.TRAINED, 1
        assert images * most <= MOST_IMAGES * 2, piece.name


@pytest.fixture
def person(db: None) -> User:
    found: User = UserFactory(username="ada")
    return found


@every
@pytest.mark.parametrize("name", [FULL, LAPTOP])
def test_two_nodes_of_four_gpus_can_run_it(preset: Preset, name: str, person: User) -> None:
    cluster = ClusterFactory(scheduler="slurm")
    PartitionFactory(cluster=cluster, time_limit_minutes=100_000)
    environments = [EnvironmentFactory(cluster=cluster), ContainerFactory(cluster=cluster)]
    size = preset.sizes[name]
    draft = make_draft(
        preset,
        size,
        cluster=cluster,
        environments=environments,
        baseline=environments[0],
        owner=person,
        folder="/data" if size.needs_data else "",
    )
    assert draft.is_draft
    problems = rules.list_refusals(
        cluster=cluster,
        partition=draft.partition,
        workloads=list(draft.workloads.all()),
        environments=environments,
        baseline=draft.baseline,
        scales=draft.scales,
        repeats=draft.repeats,
        paired=draft.is_paired,
        primary_metric=draft.primary_metric,
    )
    assert problems == {}
    assert draft.workloads.count() == len(size.workloads)


# Rows

BLAS = PRESETS["numpy-on-tuned-blas"]
NETWORKS = PRESETS["five-networks-normalised"]


def drafted(person: User) -> Experiment:
    cluster = ClusterFactory()
    bare = EnvironmentFactory(cluster=cluster)
    return make_draft(
        BLAS,
        BLAS.sizes[LAPTOP],
        cluster=cluster,
        environments=[bare],
        baseline=bare,
        owner=person,
    )


def test_workloads_are_made_once_and_written_down(person: User) -> None:
    first, second = drafted(person), drafted(person)
    assert set(first.workloads.all()) == set(second.workloads.all())
    assert {row.owner for row in Workload.objects.all()} == {person}
    assert AuditEntry.objects.filter(kind="workload").count() == Workload.objects.count()


def test_somebody_elses_workload_is_not_borrowed(person: User) -> None:
    """They could change it under the draft."""
    others = {row.name for row in drafted(UserFactory()).workloads.all()}
    mine = {row.name for row in drafted(person).workloads.all()}
    assert mine == {f"{name} (2)" for name in others}


def test_a_name_that_is_taken_gets_a_number(person: User) -> None:
    taken = BLAS.sizes[LAPTOP].workloads[0].name
    WorkloadFactory(name=taken, owner=person)
    assert f"{taken} (2)" in {row.name for row in drafted(person).workloads.all()}


def test_environments_that_are_ready_are_chosen_and_one_bare_metal(person: User) -> None:
    cluster = ClusterFactory()

    def container(name: str, packages: dict[str, str], state: str = "ready") -> Environment:
        image = ImageFactory(packages=packages)
        staged = StagedImageFactory(image=image, cluster=cluster, state=state)
        made: Environment = ContainerFactory(name=name, cluster=cluster, staged_image=staged)
        return made

    bare = EnvironmentFactory(name="bare metal", cluster=cluster)
    EnvironmentFactory(name="bare metal, another", cluster=cluster)
    EnvironmentFactory(name="a program alone", cluster=cluster, python=NO_PYTHON)
    cpu = container("cpu", {"numpy": "2", "tensorflow-cpu": "2"})
    container("numpy", {"numpy": "2"})
    container("waiting", {"tensorflow": "2"}, state="staging")
    unseen = container("unseen", {})
    found = list_candidates(NETWORKS, cluster, person)
    said = {one.environment.name: one.why_not for one in found}
    assert said["waiting"] == "its image is staging"
    assert said["numpy"] == "without tensorflow"
    assert said["a program alone"] == "without Python 3.8 or later"
    chosen, baseline = select_ready(found)
    assert (set(chosen), baseline) == ({bare, cpu, unseen}, bare)


def test_the_partition_is_one_that_has_the_gpus(db: None) -> None:
    cluster = ClusterFactory()
    PartitionFactory(cluster=cluster, name="long", gpus_per_node=0, time_limit_minutes=900)
    wide = PartitionFactory(cluster=cluster, name="wide", gpus_per_node=4)
    assert choose_partition(NETWORKS.sizes[LAPTOP], cluster) == wide
    wide.delete()
    assert choose_partition(NETWORKS.sizes[LAPTOP], cluster).name == "long"  # type: ignore[union-attr]
    assert choose_partition(NETWORKS.sizes[LAPTOP], ClusterFactory()) is None
