"""The pages of jobs that people carry to a machine without a connection."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from experiments import execution
from experiments.execution import lifecycle
from experiments.execution.uploaded_results import LOCK
from experiments.models import Cluster, Experiment, Job, Partition
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    EnvironmentFactory,
    ExperimentFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def carried() -> Experiment:
    """A launched experiment of two blocks, handed out to be carried."""
    owner = AdminFactory()
    cluster = ClusterFactory(
        name="cellar", transport="by_hand", work_directory="/srv/tare", poll_seconds=0, owner=owner
    )
    bare = EnvironmentFactory(name="bare metal", cluster=cluster)
    made: Experiment = ExperimentFactory(
        cluster=cluster,
        partition=None,
        baseline=bare,
        environments=[bare, EnvironmentFactory(name="other", cluster=cluster)],
        workloads=[WorkloadFactory(name="blas", kind="blas")],
        scales=["1x0"],
        repeats=2,
        owner=owner,
    )
    lifecycle.launch(made, owner)
    assert execution.tick(cluster.pk) == "done"
    return made


def pack(**files: bytes) -> SimpleUploadedFile:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return SimpleUploadedFile("results.tar.gz", packed.getvalue())


def test_the_page_says_what_to_do_and_offers_both_ways(client: Client, carried: Experiment) -> None:
    client.force_login(carried.owner)
    page = client.get(carried.get_absolute_url()).content.decode()
    assert "To be carried by hand" in page
    assert "/srv/tare" in page
    assert f"sh by-hand/experiment-{carried.pk}/run-all.sh" in page
    assert reverse("experiment_jobs", args=[carried.pk]) in page
    assert reverse("experiment_results", args=[carried.pk]) in page
    assert "2 jobs wait to be carried to cellar by hand" in page


def test_the_jobs_are_one_archive(client: Client, carried: Experiment) -> None:
    client.force_login(carried.owner)
    answer = client.post(reverse("experiment_jobs", args=[carried.pk]))
    assert f'filename="tare-experiment-{carried.pk}.tar.gz"' in answer["Content-Disposition"]
    with tarfile.open(fileobj=io.BytesIO(b"".join(answer.streaming_content))) as tar:
        names = tar.getnames()
        jobs = tar.extractfile(f"by-hand/experiment-{carried.pk}/jobs.txt")
        assert jobs is not None
        in_order = jobs.read().decode().split()
    assert in_order == [f"{job.uid}-1" for job in carried.jobs.order_by("block")]
    assert all(
        {f"jobs/{job}/{name}" for name in ("job.sh", "identity.json")} <= set(names)
        for job in in_order
    )
    assert carried.events.filter(what="jobs downloaded", actor=carried.owner).exists()


def test_others_may_neither_download_nor_bring(client: Client, carried: Experiment) -> None:
    client.force_login(UserFactory())
    Experiment.objects.filter(pk=carried.pk).update(visibility="members")
    assert client.post(reverse("experiment_jobs", args=[carried.pk])).status_code == 403
    assert client.get(reverse("experiment_results", args=[carried.pk])).status_code == 403
    assert "Download the jobs" not in client.get(carried.get_absolute_url()).content.decode()


def test_the_answer_names_what_did_not_enter(client: Client, carried: Experiment) -> None:
    client.force_login(carried.owner)
    job = carried.jobs.order_by("block")[0]
    files = {f"jobs/{job.uid}-1/started": b"1-2\n", "jobs/strange-1/started": b"", "odd": b""}
    address = reverse("experiment_results", args=[carried.pk])
    page = client.post(address, {"archive": pack(**files)}).content.decode()
    assert "0 jobs entered, 2 refused; 2 still to come." in page
    assert ">block 1<" in page
    assert ">strange-1<" in page, "a name stays as it is"
    assert "identity.json is missing, by which results are known" in page
    assert "no job of this site has this name" in page
    assert "odd belongs to no job and was left out." in page
    assert not carried.jobs.exclude(state=Job.State.QUEUED).exists()


def test_one_archive_is_unpacked_at_a_time(client: Client, carried: Experiment) -> None:
    client.force_login(carried.owner)
    address = reverse("experiment_results", args=[carried.pk])
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [LOCK])
        page = client.post(address, {"archive": pack(odd=b"")}).content.decode()
        assert "Other results are being entered at this moment" in page
        assert "Nothing of it was entered." in page
    finally:
        other.close()
    for _ in range(2):  # it is let go, also where an archive is refused
        page = client.post(address, {"archive": pack(odd=b"")}).content.decode()
        assert "odd belongs to no job" in page


def test_the_page_unpacks_less_than_the_command(
    client: Client,
    carried: Experiment,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client.force_login(carried.owner)
    monkeypatch.setattr("experiments.execution.uploaded_results.MOST_BYTES", 2 << 20)
    first, second = carried.jobs.order_by("block")
    large = {f"jobs/{job.uid}-1/output.txt": bytes(1_200_000) for job in (first, second)}
    packed = pack(**large)
    assert packed.size is not None
    assert packed.size < 10_000
    (tmp_path / "results.tar.gz").write_bytes(packed.read())
    packed.seek(0)
    address = reverse("experiment_results", args=[carried.pk])
    page = client.post(address, {"archive": packed}).content.decode()
    assert "Unpacked it has more than 2 MiB. Bring it in parts, or copy it to Tare’s host" in page
    assert not carried.events.filter(what="results brought").exists()
    with pytest.raises(CommandError, match="Not all of it was entered"):
        call_command("bring_results", str(carried.pk), f"{tmp_path}/results.tar.gz")
    assert capsys.readouterr().out.count("identity.json is missing") == 2


def test_no_archive_is_said(client: Client, carried: Experiment) -> None:
    client.force_login(carried.owner)
    address = reverse("experiment_results", args=[carried.pk])
    assert "Not entered" not in client.get(address).content.decode()
    page = client.post(address).content.decode()
    assert "Not entered" in page
    assert "Choose the archive." in page
    page = client.post(address, {"archive": SimpleUploadedFile("x", b"")}).content.decode()
    assert "The file is empty." in page


def test_commands_say_what_the_pages_say(
    carried: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"{tmp_path}/jobs.tar.gz"
    call_command("write_jobs", str(carried.pk), target)
    assert "2 jobs in" in capsys.readouterr().out
    with pytest.raises(CommandError, match="Not all of it was entered"):
        call_command("bring_results", str(carried.pk), target)  # jobs are no results
    assert capsys.readouterr().out.count("it has not begun") == 2
    with pytest.raises(CommandError, match="There is no experiment 0"):
        call_command("write_jobs", "0", target)


def test_a_machine_without_a_connection_is_added_by_one_form(client: Client) -> None:
    person = AdminFactory()
    client.force_login(person)
    address = reverse("cluster_new_by_hand")
    assert address in client.get(reverse("cluster_new")).content.decode()
    fields = {
        "name": "cellar",
        "scheduler": "slurm",
        "work_directory": "/srv/tare",
        "partition": "",
        "gpus_per_node": 4,
        "cpus_per_run": 8,
        "time_limit_minutes": 90,
        "visibility": "private",
    }
    assert "A scheduler needs its name." in client.post(address, fields).content.decode()
    answer = client.post(address, fields | {"partition": "gpu"})
    made = Cluster.objects.get(name="cellar")
    assert answer["Location"] == reverse("cluster", args=[made.pk])
    assert (made.transport, made.owner, made.credential) == ("by_hand", person, None)
    partition = Partition.objects.get(cluster=made)
    assert (partition.name, partition.gpus_per_node, partition.cpus_per_run) == ("gpu", 4, 8)
    page = client.get(answer["Location"]).content.decode()
    assert "Tare has no connection to this machine" in page
    assert "Ready for an experiment?" not in page
    refused = client.post(reverse("cluster_check", args=[made.pk]))
    assert refused.status_code == 403
