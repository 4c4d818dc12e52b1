"""Experiments that read a data set, and images for other processors, done again."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.models import Cluster, DataCopy, DataSet, Role, StagedImage, Workload
from experiments.reproductions.frozen_plans import UnreadablePlan, read_plan
from experiments.reproductions.reproduction_drafts import make_draft
from experiments.reproductions.reproduction_verdicts import list_plan_changes
from experiments.statistics.reproductions import Outcome
from tests.experiments.images.test_architectures import check
from tests.experiments.reproductions.test_done_again import Study, add_blocks, freeze, judge
from tests.factories import DataCopyFactory, DataSetFactory, UserFactory

pytestmark = pytest.mark.django_db
READS = {"data": "mnist", "data_directory": "{data}/train"}


class DataStudy(Study):
    """A study whose workload reads a data set that lies on its cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.copy: DataCopy = DataCopyFactory(
            cluster=self.cluster, path="/data/digits", data_set__name="digits"
        )
        Workload.objects.filter(pk=self.workload.pk).update(
            data_set=self.copy.data_set, parameters=READS
        )
        freeze(self.source)

    def cluster_with_image(self) -> Cluster:
        cluster = self.second_cluster()
        StagedImage.objects.create(
            image=self.image, cluster=cluster, format="sif", path="/images/x.sif"
        )
        return cluster


def test_here_it_is_the_same_workload() -> None:
    study = DataStudy()
    proposal = study.propose()
    assert (proposal.differences, proposal.refusals) == ([], [])
    assert list(make_draft(proposal, study.owner).workloads.all()) == [study.workload]


def test_a_workload_that_has_changed_is_made_anew_with_its_data_set() -> None:
    study = DataStudy()
    Workload.objects.filter(pk=study.workload.pk).update(data_set=None)
    draft = make_draft(study.propose(), study.owner)
    (workload,) = draft.workloads.all()
    assert workload != study.workload
    assert workload.data_set == study.copy.data_set
    assert workload.parameters["data_directory"] == "{data}/train"
    again = make_draft(study.propose(), study.owner)
    assert list(again.workloads.all()) == [workload]


def test_elsewhere_a_copy_of_the_same_digest_is_read_and_its_path_said() -> None:
    study = DataStudy()
    cluster = study.cluster_with_image()
    DataSet.objects.update(name="renamed")
    DataCopyFactory(cluster=cluster, data_set=study.copy.data_set, path="/scratch/d")
    proposal = study.propose(cluster)
    assert proposal.refusals == []
    expected = "cnn reads renamed at /scratch/d, and not at /data/digits; the digest is the same."
    assert expected in proposal.differences
    again = make_draft(proposal, study.owner)
    freeze(again)
    (frozen,) = (again.plan or {})["workloads"].values()
    assert frozen["parameters"]["data_directory"] == "/scratch/d/train"
    assert frozen["data_set"]["digest"] == study.copy.data_set.digest
    add_blocks(study.source, 1.1)
    add_blocks(again, 1.1, phase=2)
    verdict = judge(study.source, again)
    assert verdict.overall
    assert verdict.overall.outcome is Outcome.REPRODUCED, verdict.overall.reason


def test_another_digest_is_another_plan() -> None:
    study = DataStudy()
    again = make_draft(study.propose(), study.owner)
    DataSet.objects.update(digest="sha256:" + "9" * 64)
    freeze(again)
    plans = read_plan(study.source.plan), read_plan(again.plan)
    assert list_plan_changes(*plans, again.reproduction or {}) == ["workload cnn"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "digits has no copy on second: add one on the page of the data set"),
        (DataCopy.State.STAGING, "are being read: wait for the end of that"),
        (DataCopy.State.CHANGED, "is changed"),
    ],
)
def test_without_a_ready_copy_it_is_refused_with_how_to_go_on(
    state: DataCopy.State | None, words: str
) -> None:
    study = DataStudy()
    cluster = study.cluster_with_image()
    if state:
        DataCopyFactory(cluster=cluster, data_set=study.copy.data_set, state=state)
    proposal = study.propose(cluster)
    assert not proposal.may_launch
    (text,) = proposal.refusals
    assert words in text


def test_a_second_data_set_of_that_digest_serves_where_it_is_ready() -> None:
    study = DataStudy()
    cluster = study.cluster_with_image()
    twin = DataSetFactory(digest=study.copy.data_set.digest)
    DataCopyFactory(cluster=cluster, data_set=twin)
    proposal = study.propose(cluster)
    assert proposal.refusals == []
    assert proposal.workloads[0].data_set == twin


def test_a_data_set_that_is_hidden_is_none() -> None:
    """Not even where it lies: the sentence has what the plan says, and no more."""
    study = DataStudy()
    DataSet.objects.update(visibility="private", name="secret of the owner")
    stranger = UserFactory(role=Role.RESEARCHER)
    texts = study.propose(person=stranger).refusals
    (text,) = (text for text in texts if "data set" in text)
    assert study.copy.data_set.digest in text
    assert "Register the folder in which it lies on first" in text
    assert "secret" not in " ".join(texts)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("data_set", "of_tomorrow"), 1, "of_tomorrow"),
        (("data_set", "digest"), "sha256:1", "digest"),
        (("data_set", "path"), "../x", "path"),
        (("data_set", "proof"), "prayer", "proved in a way"),
        (("data_set",), [], "cannot be read"),
        (("of_tomorrow",), 1, "of_tomorrow"),
    ],
)
def test_a_data_set_that_makes_no_sense_is_refused(
    path: tuple[str, ...], value: Any, reason: str
) -> None:
    plan: Any = DataStudy().source.plan
    (where,) = plan["workloads"].values()
    for step in path[:-1]:
        where = where[step]
    where[path[-1]] = value
    with pytest.raises(UnreadablePlan, match=reason):
        read_plan(plan)


def test_an_image_for_other_processors_is_refused_and_listed() -> None:
    study = Study()
    cluster = study.second_cluster()
    StagedImage.objects.create(
        image=study.image, cluster=cluster, format="sif", path="/images/x.sif"
    )
    type(study.image).objects.update(architecture="amd64")
    check(cluster, batch="aarch64")
    proposal = study.propose(cluster)
    said = f"Apptainer: The image {study.image} is for amd64; the nodes of "
    (difference,) = (text for text in proposal.differences if text.startswith(said))
    assert not proposal.may_launch
    (refusal,) = proposal.refusals
    assert refusal.startswith(difference)
    assert "Choose another partition or cluster" in refusal
