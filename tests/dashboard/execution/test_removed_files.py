"""What pages say of the rule on job directories: before, meanwhile and afterwards."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments.models import Cluster, Event, Experiment, Job, Operation, Removal, Run, RunFile
from tests.dashboard.conftest import People
from tests.factories import OperationFactory

pytestmark = pytest.mark.django_db

NOW = timezone.now()


@pytest.fixture
def old(run: Run, tmp_path: Path) -> Run:
    """A run whose directory is old enough for its cluster's rule, and holds a checkpoint."""
    Cluster.objects.update(
        retention_days=30, removes_uncopied=True, work_directory=str(tmp_path / "work")
    )
    directory = f"{tmp_path}/work/jobs/{run.job.uid}-1"
    verified_at = NOW - timedelta(days=31)
    Job.objects.filter(pk=run.job_id).update(directory=directory, verified_at=verified_at)
    Run.objects.filter(pk=run.pk).update(files_count=3, files_bytes=9000)
    RunFile.objects.create(run=run, path="model.ckpt", size_bytes=9000)
    return Run.objects.get(pk=run.pk)


def remove(run: Run, **columns: object) -> Removal:
    about = {"days": 30, "chosen_at": NOW, "directory": run.job.directory}
    return Removal.objects.create(job=run.job, attempt=1, **about, **columns)


def read(client: Client, address: str) -> str:
    page = BeautifulSoup(client.get(address).content, "html.parser")
    return " ".join(page.get_text().split())


def test_a_runs_page_says_when_its_files_go(old: Run, as_owner: Client) -> None:
    page = read(as_owner, old.get_absolute_url())
    assert "or later, by the cluster’s rule of 30 days, unless somebody pins" in page
    assert "Fetch" in page


def test_a_runs_page_says_what_holds_its_files(old: Run, as_owner: Client) -> None:
    Cluster.objects.update(removes_uncopied=False)
    assert "They stay whatever the cluster’s rule of 30 days says: some were never copied" in read(
        as_owner, old.get_absolute_url()
    )
    Experiment.objects.update(pinned_at=NOW)
    assert "days says: the experiment is pinned." in read(as_owner, old.get_absolute_url())
    Job.objects.update(verified_at=None)
    assert "was not verified as complete" in read(as_owner, old.get_absolute_url())
    Cluster.objects.update(retention_days=None)
    assert "rule" not in read(as_owner, old.get_absolute_url())


def test_a_runs_page_says_that_its_files_were_removed(old: Run, as_owner: Client) -> None:
    removal = remove(old, removed_at=NOW, freed_bytes=12_000)
    page = read(as_owner, old.get_absolute_url())
    assert "by the rule of 30 days. Tare keeps the numbers, steps and snapshots" in page
    assert removal.sentence in page
    assert "Fetch" not in page
    fetched = as_owner.post(
        reverse("run_file_fetch", args=[old.uid, old.files.get().pk]), follow=True
    )
    assert removal.sentence in fetched.content.decode()
    assert not RunFile.objects.to_be_copied().exists()


def test_collecting_again_is_refused_with_the_same_sentence(old: Run, as_owner: Client) -> None:
    removal = remove(old, removed_at=NOW, freed_bytes=12_000)
    Run.objects.update(state="failed")
    Job.objects.update(state="failed")
    address = reverse("job_collect", args=[old.job.uid])
    assert address not in as_owner.get(old.get_absolute_url()).content.decode()
    assert removal.sentence in as_owner.post(address, follow=True).content.decode()
    assert not Job.objects.exclude(collect_at=None).exists()


def test_pinning_and_unpinning(old: Run, as_owner: Client, people: People) -> None:
    experiment = old.experiment
    address = reverse("experiment_pin", args=[experiment.pk])
    assert address in as_owner.get(experiment.get_absolute_url()).content.decode()
    assert people.client("other").post(address).status_code in (403, 404)
    assert "stay on the cluster" in as_owner.post(address, follow=True).content.decode()
    page = read(as_owner, experiment.get_absolute_url())
    assert "files pinned on the cluster" in page
    assert "Unpin the files" in page
    as_owner.post(address, {"unpin": ""})
    assert Experiment.objects.get(pk=experiment.pk).pinned_at is None
    assert [*Event.objects.filter(what__startswith="files ").values_list("what", "actor")] == [
        ("files pinned", people.owner.pk),
        ("files unpinned", people.owner.pk),
    ]


def test_pinning_too_late_says_so(old: Run, as_owner: Client) -> None:
    operation = OperationFactory(
        kind="clean_up", cluster=old.job.cluster, staged_image=None, state="running"
    )
    remove(old, operation=operation)
    assert "are being removed, by" in read(as_owner, old.get_absolute_url())
    address = reverse("experiment_pin", args=[old.experiment_id])
    answer = as_owner.post(address, follow=True).content.decode()
    assert "One of its directories is being removed already" in answer
    assert Operation.objects.get().cancel_requested_at


def test_without_a_rule_nothing_is_to_be_pinned(results: Experiment, as_owner: Client) -> None:
    page = as_owner.get(results.get_absolute_url()).content.decode()
    assert reverse("experiment_pin", args=[results.pk]) not in page


def test_a_clusters_page_says_its_rule_and_what_it_has_freed(old: Run, people: People) -> None:
    admin, address = people.client("admin"), reverse("cluster", args=[old.job.cluster_id])
    page = read(admin, address)
    assert "removed 30 days after their files were collected and verified" in page
    assert "1 now, at most 500 at a time" in page
    assert "none that are old enough" in page
    assert "Removed none yet" in page
    operation = OperationFactory(
        kind="clean_up", cluster=old.job.cluster, staged_image=None, state="done"
    )
    remove(old, removed_at=NOW, freed_bytes=12_000, operation=operation)
    page = read(admin, address)
    assert "1, 12.0 kB freed" in page
    assert reverse("operation", args=[operation.pk]) in admin.get(address).content.decode()
    assert f"Remove job directories of {old.job.cluster}" in read(
        admin, reverse("operation", args=[operation.pk])
    )
    Cluster.objects.update(retention_days=None, removal_checked_at=NOW)
    page = read(admin, address)
    assert "1, 12.0 kB freed" in page
    assert "all stay on the cluster’s disk" in page


def test_a_clusters_page_says_what_could_not_be_removed(old: Run, people: People) -> None:
    remove(old, problem="Read-only file system")
    page = read(people.client("admin"), reverse("cluster", args=[old.job.cluster_id]))
    assert f"{old.job.directory}: Read-only file system" in page
