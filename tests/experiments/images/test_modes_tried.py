"""Forms of images are offered as a check of the cluster has found them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.utils import timezone

from experiments.images import staging
from experiments.images.startable import explain_impossible_modes
from experiments.models import CheckReport, Cluster, Environment
from runners.preflight.checks import Check
from runners.preflight.modes import WORKS
from tests.factories import (
    ClusterFactory,
    EnvironmentFactory,
    ImageFactory,
    RuntimeFactory,
    StagedImageFactory,
)

pytestmark = pytest.mark.django_db

F3 = Check("Modes of udocker", "udocker F3", "not applicable", "Not possible here. No patchelf.")
P1 = Check("Modes of udocker", "udocker P1", "ok", "Works.", value=WORKS)


@pytest.fixture
def cluster() -> Cluster:
    made: Cluster = ClusterFactory()
    RuntimeFactory(cluster=made, kind="udocker", executable="/usr/bin/udocker")
    RuntimeFactory(cluster=made, kind="apptainer", executable="/usr/bin/apptainer")
    return made


def checked(cluster: Cluster, *checks: Check) -> None:
    now = timezone.now()
    rows = [check.as_json() for check in checks]
    CheckReport.objects.create(cluster=cluster, began_at=now, ended_at=now, rows=rows)


def offered(cluster: Cluster) -> dict[tuple[str, str], str]:
    return {(form, mode): label for form, mode, label in staging.list_forms(cluster)}


def test_without_a_check_every_mode_is_offered_as_not_tried(cluster: Cluster) -> None:
    labels = offered(cluster)
    assert labels["udocker", "F3"].endswith("(not tried yet: check the cluster)")
    assert "not tried" not in labels["sif", ""]


def test_a_mode_that_does_not_work_is_not_offered_and_says_why(cluster: Cluster) -> None:
    checked(cluster, P1, F3)
    labels = offered(cluster)
    assert ("udocker", "F3") not in labels
    assert labels["udocker", "P1"] == "udocker P1, for udocker"
    assert [check.name for check in staging.list_impossible_forms(cluster)] == ["udocker F3"]
    with pytest.raises(staging.NotDone, match="No patchelf"):
        staging.stage(ImageFactory(), cluster, "udocker", cluster.owner, mode="F3")


def test_a_check_that_left_modes_out_does_not_forget_them(cluster: Cluster) -> None:
    checked(cluster, P1, F3)
    checked(cluster, Check("Login node", "System", "ok", "Debian."))
    assert ("udocker", "F3") not in offered(cluster)


def test_a_mode_that_works_in_one_partition_works(cluster: Cluster) -> None:
    works = Check("Modes of udocker", "udocker F3", "ok", "Works.", value=WORKS)
    checked(cluster, F3, works)
    assert ("udocker", "F3") in offered(cluster)


def test_a_newer_check_wins(cluster: Cluster) -> None:
    checked(cluster, F3)
    checked(cluster, Check("Modes of udocker", "udocker F3", "ok", "Works.", value=WORKS))
    assert offered(cluster)["udocker", "F3"] == "udocker F3, for udocker"


def test_after_a_check_beside_runs_nobody_is_told_to_make_their_first_one(cluster: Cluster) -> None:
    checked(cluster, Check("Login node", "System", "ok", "Debian."))
    label = offered(cluster)["udocker", "F3"]
    assert "not tried yet" not in label
    assert "check again when none are live" in label


def make_environment(cluster: Cluster, mode: str, staged_mode: str = "") -> Environment:
    staged = StagedImageFactory(cluster=cluster, format="udocker", mode=staged_mode)
    runtime = cluster.runtimes.get(kind="udocker")
    made: Environment = EnvironmentFactory(
        cluster=cluster,
        runtime=runtime,
        staged_image=staged,
        mode=mode,
        name=f"u {mode} {staged_mode}".strip(),
    )
    return made


def test_what_a_check_found_impossible_is_not_launched_and_its_cure_is_named(
    cluster: Cluster,
) -> None:
    cured = replace(F3, cure="Install it. Then check the cluster again.")
    checked(cluster, P1, cured)
    rows = [make_environment(cluster, mode) for mode in ("P1", "F3", "F1", "")]
    assert explain_impossible_modes(rows, cluster) == [
        "u F3: udocker F3: Not possible here. No patchelf. Install it. Then check the cluster "
        "again."
    ]


def test_the_mode_of_the_container_wins_over_that_of_the_environment(cluster: Cluster) -> None:
    checked(cluster, P1, F3)
    rows = [make_environment(cluster, "F3", "P1"), make_environment(cluster, "P1", "F3")]
    (sentence,) = explain_impossible_modes(rows, cluster)
    assert sentence.startswith("u P1 F3: udocker F3: Not possible here.")


def test_what_no_check_has_tried_may_be_launched(cluster: Cluster) -> None:
    assert explain_impossible_modes([make_environment(cluster, "F3")], cluster) == []
