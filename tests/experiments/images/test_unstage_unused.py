"""The garbage command: what nothing uses goes, what a launched experiment uses never does."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from experiments.images import store
from experiments.models import Cluster, CodeArchive, Operation, StagedImage
from experiments.models.images import ARCHIVE
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    CodeCopyFactory,
    ContainerFactory,
    EnvironmentFactory,
    ImageFactory,
    ImageImportFactory,
    LaunchedFactory,
    StagedImageFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    AdminFactory()
    made: Cluster = ClusterFactory(name="lab")
    return made


def run_command(*arguments: str) -> str:
    """Return what the command prints."""
    out = io.StringIO()
    call_command("unstage_unused", *arguments, stdout=out)
    return out.getvalue()


def unused(cluster: Cluster, **columns: object) -> StagedImage:
    made: StagedImage = StagedImageFactory(
        cluster=cluster, made_here=True, path=f"/images/{cluster}.sif", size_bytes=10**9, **columns
    )
    return made


def file(path: Path, *, days: float = 2) -> Path:
    path.write_bytes(b"x" * 1000)
    then = time.time() - days * 24 * 3600
    os.utime(path, (then, then))
    return path


def test_what_no_environment_uses_is_asked_to_go(cluster: Cluster) -> None:
    row = unused(cluster)
    output = run_command()
    assert f"asked  {row}: no environment uses it, 1.00 GB, /images/lab.sif" in output
    assert "1 to remove; 1.00 GB are freed" in output
    assert Operation.objects.get().staged_image == row
    row.refresh_from_db()
    assert row.state == StagedImage.State.REMOVING
    assert "Nothing to remove" in run_command()


def test_a_dry_run_says_so_and_removes_nothing(cluster: Cluster) -> None:
    row = unused(cluster)
    kept = file(store.get_path("a" * 64))
    output = run_command("--dry-run")
    assert f"would go  {row}" in output
    assert (
        f"would go  {kept}: no image and no workload of the catalogue has these bytes, 1.00 kB"
        in output
    )
    assert kept.exists()
    assert not Operation.objects.exists()


def test_what_an_experiment_or_an_environment_uses_stays(cluster: Cluster) -> None:
    bare = EnvironmentFactory(cluster=cluster)
    used = unused(cluster)
    container = ContainerFactory(cluster=cluster, staged_image=used)
    LaunchedFactory(cluster=cluster, baseline=bare, environments=[bare, container])
    assert "Nothing to remove" in run_command()
    assert not Operation.objects.exists()


def test_what_was_registered_by_hand_stays(cluster: Cluster) -> None:
    StagedImageFactory(cluster=cluster)
    assert "Nothing to remove" in run_command()


def test_the_only_copy_of_an_image_stays(cluster: Cluster) -> None:
    row = unused(cluster, format=ARCHIVE)
    assert "Nothing to remove" in run_command()
    row.image.content_sha256 = "b" * 64
    row.image.save()
    file(store.get_path("b" * 64))
    assert "keeps elsewhere" in run_command("--dry-run")


def test_one_cluster_alone_leaves_the_others_and_the_store(cluster: Cluster) -> None:
    unused(cluster)
    other = unused(ClusterFactory(name="other"))
    kept = file(store.get_path("a" * 64))
    assert "/images/lab.sif" in run_command("--cluster", "lab")
    other.refresh_from_db()
    assert other.state == StagedImage.State.READY
    assert kept.exists()
    with pytest.raises(CommandError, match=r"nowhere\. There are: lab, other\.$"):
        run_command("--cluster", "nowhere")


def test_the_store_keeps_what_images_and_image_imports_refer_to_and_what_is_young(
    cluster: Cluster,
) -> None:
    ImageFactory(content_sha256="a" * 64)
    under_way = ImageImportFactory(incoming="wanted")
    ImageImportFactory(incoming="given-up", state="failed")
    stay = [
        file(store.get_path("a" * 64)),
        file(store.get_path("b" * 64), days=0.5),
        file(store.make_incoming_path(under_way.incoming)),
        file(store.make_incoming_path("upload-young"), days=0.1),
    ]
    go = [
        file(store.get_path("c" * 64)),
        file(store.make_incoming_path("given-up")),
        file(store.make_incoming_path("upload-old")),
    ]
    output = run_command()
    assert all(path.exists() for path in stay)
    assert not any(path.exists() for path in go)
    assert output.count("removed  ") == 3
    assert "3 to remove; 3.00 kB are freed" in output


def test_somebody_has_to_ask() -> None:
    unused(ClusterFactory(name="lab"))
    with pytest.raises(CommandError, match="There is no site administrator"):
        run_command()
    with pytest.raises(CommandError, match="Nobody is called Ann"):
        run_command("--owner", "Ann")
    assert "would go" in run_command("--dry-run")


def test_code_that_no_workload_names_is_asked_to_go_and_other_code_stays(cluster: Cluster) -> None:
    gone = CodeCopyFactory(cluster=cluster, commit="a" * 40, state="ready", size_bytes=10**6)
    kept = CodeCopyFactory(cluster=cluster, commit="b" * 40, state="ready")
    sent = CodeArchive.objects.create(
        sha256="d" * 64,
        name="x.tar",
        size_bytes=9,
        digest="sha256:" + "e" * 64,
        files=1,
        unpacked_bytes=9,
    )
    CodeCopyFactory(cluster=cluster, commit="", repository="", archive=sent, state="ready")
    parameters = {"argv": ["x"], "read": "nothing"}
    commit = {"code_commit": kept.commit, "code_repository": "https://a.org/b"}
    WorkloadFactory(kind="command", parameters=parameters | commit)
    WorkloadFactory(kind="command", parameters=parameters | {"code_archive": sent.sha256})
    CodeCopyFactory(commit="c" * 40, state="ready")  # on another cluster

    assert f"would go  {gone}: no workload names it, 1.00 MB" in run_command("--dry-run")
    output = run_command("--cluster", "lab")
    assert f"asked  {gone}: no workload names it, 1.00 MB, {gone.path}" in output
    assert "1 to remove" in output
    operation = Operation.objects.get()
    assert (operation.kind, operation.code_copy) == (Operation.Kind.DROP_CODE, gone)
    assert "Nothing to remove" in run_command("--cluster", "lab")
