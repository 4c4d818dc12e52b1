"""A stored cluster is read again; what differs is shown, and what is ticked is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from experiments import execution
from experiments.clusters import cluster_updates, visit_requests
from experiments.models import (
    AuditEntry,
    Cluster,
    ClusterReading,
    Credential,
    Partition,
    Role,
    Runtime,
    User,
)
from experiments.models.cluster_draft import compute_access_digest
from runners.cluster_reading import Found, FoundPartition, FoundRuntime
from runners.preflight.checks import Check
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    ExperimentFactory,
    PartitionFactory,
    UserFactory,
)
from tests.runners.sshd import Server, make_key, serve

pytestmark = pytest.mark.django_db

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDLJHbEtm7+rtjp1pPZQFglu9+WS2kMZJ3yJUNzbx1Ej"
GPU = FoundPartition("gpu", "up", 2, 4, "h100", "gpu", 32, 256000, 60, True)
SLURM = Found("slurm", "24.11.5", "/home/me", "/home/me/tare", (GPU,))
APPTAINER = FoundRuntime("apptainer", "Apptainer", "apptainer", "1.4.5")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def person() -> User:
    made: User = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    return made


@pytest.fixture
def client(person: User) -> Client:
    return log_in(person)


@pytest.fixture
def cluster(person: User) -> Cluster:
    """A cluster with Slurm whose one partition is as it would be read."""
    made: Cluster = ClusterFactory(
        name="horeka",
        transport="ssh",
        host="login.example",
        host_key=KEY,
        scheduler="slurm",
        work_directory="/home/me/tare",
        credential=CredentialFactory(owner=person),
        owner=person,
    )
    partition = cluster_updates.propose_partition(GPU)
    partition.cluster = made
    partition.directives, partition.srun_options = ["--exclusive"], ["--mpi=pmix"]
    partition.save()
    return made


def log_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def keep(cluster: Cluster, found: Found | None = SLURM, **columns: Any) -> ClusterReading:
    """A reading of a stored cluster, as a worker leaves it."""
    document = found.as_json() if found else {}
    columns = {"owner": cluster.owner, "outcome": "ok", "found": document} | columns
    digest = compute_access_digest(cluster)
    return ClusterReading.objects.create(
        cluster=cluster, kind="offer", digest=digest, ended_at=timezone.now(), **columns
    )


def work() -> None:
    """Make the readings that wait for a worker."""
    for pk in ClusterReading.objects.filter(began_at=None, ended_at=None).values_list("pk"):
        execution.read_cluster(*pk)


def page(client: Client, cluster: Cluster) -> str:
    answer = client.get(reverse("cluster_differences", args=[cluster.pk]))
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def differences(cluster: Cluster) -> dict[tuple[str, str], cluster_updates.Difference]:
    """What the last reading shows, by name and column."""
    last = cluster_updates.find_last_reading(cluster)
    assert last
    rows = cluster_updates.list_differences(cluster, last)
    return {(row.name, row.column): row for row in rows}


def apply(client: Client, cluster: Cluster, *keys: str, reading: int | None = None) -> str:
    """Post the ticks and return what the page says then."""
    data = {"difference": keys, "reading": reading or cluster.readings.latest("ended_at").pk}
    answer = client.post(reverse("cluster_differences_apply", args=[cluster.pk]), data, follow=True)
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def test_a_real_machine_is_read_again_and_its_new_size_is_stored(
    client: Client, person: User, server: Server
) -> None:
    at = server.address
    key = CredentialFactory(owner=person, user_name=at.user, private_key=at.private_key)
    cluster = ClusterFactory(
        transport="ssh",
        host=at.host,
        port=at.port,
        host_key=at.host_key,
        work_directory=f"{server.directory}/work",
        credential=key,
        owner=person,
    )
    mine = PartitionFactory(cluster=cluster, name="the machine", nodes=1, cpus_per_node=4000)
    answer = client.post(reverse("cluster_read", args=[cluster.pk]))
    assert answer["Location"] == reverse("cluster_differences", args=[cluster.pk])
    assert "waiting" in page(client, cluster)
    work()
    shown = page(client, cluster)
    assert "the machine" in shown
    assert "4000" in shown
    shown_differences = differences(cluster)
    assert ("machine", "") not in shown_differences, "a machine's partitions are its own"
    cpus = shown_differences["the machine", "cpus_per_node"]
    assert cpus.is_proposed
    assert "1 difference stored" in apply(client, cluster, cpus.key)
    mine.refresh_from_db()
    assert (mine.cpus_per_node, mine.gpus_per_node) == (cpus.read, 4)


class TestDifferences:
    def test_nothing_differs_right_after_a_partition_was_read(
        self, client: Client, cluster: Cluster
    ) -> None:
        keep(cluster)
        assert "Nothing differs" in page(client, cluster)

    @pytest.mark.parametrize(
        ("change", "column", "is_proposed"),
        [
            ({"nodes": 1}, "nodes", True),
            ({"nodes": 3}, "nodes", False),
            ({"gpus_per_node": 8}, "gpus_per_node", False),
            ({"gpu_model": "h200"}, "gpu_model", False),
            ({"gres": "gpu:h100"}, "gres", False),
            ({"cpus_per_node": 16}, "cpus_per_node", True),
            ({"time_limit_minutes": 30}, "time_limit_minutes", True),
            ({"time_limit_minutes": 90}, "time_limit_minutes", False),
        ],
    )
    def test_each_value_is_shown_and_lower_ones_are_ticked(
        self, cluster: Cluster, change: dict[str, Any], column: str, *, is_proposed: bool
    ) -> None:
        keep(cluster, replace(SLURM, partitions=(replace(GPU, **change),)))
        row = differences(cluster)["gpu", column]
        assert (row.is_proposed, row.read) == (is_proposed, change[column])

    def test_time_limits_are_shown_in_hours_and_days_to_the_minute(
        self, client: Client, cluster: Cluster
    ) -> None:
        Partition.objects.update(time_limit_minutes=1440)
        new = replace(GPU, name="long", time_limit_minutes=2940)
        keep(cluster, replace(SLURM, partitions=(replace(GPU, time_limit_minutes=1450), new)))
        text = page(client, cluster)
        for part in ("Time limit", "24 h", "24 h 10 min", "CPUs a run, at most 2 d 1 h."):
            assert part in text
        assert "1440" not in text

    def test_what_asks_for_more_than_there_is_is_lowered(self, cluster: Cluster) -> None:
        Partition.objects.update(memory_mb=300_000, cpus_per_run=32)
        keep(cluster, replace(SLURM, partitions=(replace(GPU, cpus_per_node=16),)))
        shown = differences(cluster)
        assert shown["gpu", "memory_mb"].read == 256_000
        assert shown["gpu", "cpus_per_run"].read == 16

    @pytest.mark.parametrize(("names", "read"), [(("maths",), "maths"), (("a", "b"), "")])
    def test_an_account_that_is_no_longer_offered(
        self, cluster: Cluster, names: tuple[str, ...], read: str
    ) -> None:
        Partition.objects.update(account="physics", qos="long")
        offered = replace(GPU, accounts=names, qos=("long", "short"))
        keep(cluster, replace(SLURM, partitions=(offered,)))
        shown = differences(cluster)
        assert shown.keys() == {("gpu", "account")}
        assert (shown["gpu", "account"].read, shown["gpu", "account"].is_proposed) == (read, False)

    def test_what_the_scheduler_does_not_say_is_no_difference(self, cluster: Cluster) -> None:
        """Without a limit, accounts, or GPUs to be called by a name."""
        Partition.objects.update(account="physics", gpus_per_node=0, gres="gpu:a", gpu_model="")
        offered = replace(GPU, time_limit_minutes=0, gpus_per_node=0, gpu_model="", memory_mb=0)
        keep(cluster, replace(SLURM, partitions=(offered,)))
        assert differences(cluster) == {}

    def test_grid_engine_says_nothing_of_gpus_and_cores(self, cluster: Cluster) -> None:
        Cluster.objects.update(scheduler="grid_engine")
        cluster.refresh_from_db()
        queue = FoundPartition("gpu", "up", 5, time_limit_minutes=30)
        keep(cluster, Found("grid_engine", partitions=(queue, replace(queue, name="long"))))
        assert differences(cluster).keys() == {
            ("gpu", "nodes"),
            ("gpu", "time_limit_minutes"),
            ("long", ""),
        }
        Partition.objects.update(name="*")
        assert differences(cluster) == {}, "which queue is left to Grid Engine"

    def test_a_partition_is_gone_only_where_the_whole_list_was_read(self, cluster: Cluster) -> None:
        other = replace(GPU, name="other")
        keep(cluster, replace(SLURM, partitions=(other,)))
        assert differences(cluster).keys() == {("gpu", "enabled"), ("other", "")}
        odd = Check("Scheduler", "Other lines", "warning", "1 line could not be read.", "Look.")
        keep(cluster, replace(SLURM, partitions=(other,)), rows=[odd.as_json()])
        assert differences(cluster).keys() == {("other", "")}
        keep(cluster, replace(SLURM, partitions=()))
        assert differences(cluster) == {}

    def test_runtimes_by_their_usual_name_are_compared(self, cluster: Cluster) -> None:
        def add(kind: str, executable: str, **columns: Any) -> Runtime:
            return Runtime.objects.create(
                cluster=cluster, kind=kind, executable=executable, version="1", **columns
            )

        add("apptainer", "apptainer")
        add("podman", "podman")
        add("udocker", "/opt/udocker")
        add("charliecloud", "ch-run", setup_lines="module load charliecloud")
        silent = Check("Runtimes", "Docker", "warning", "Docker hangs.", "Look.")
        add("docker", "docker")
        udocker = FoundRuntime("udocker", "udocker", "udocker", "1.3")
        found = replace(SLURM, runtimes=(APPTAINER, udocker))
        keep(cluster, found, rows=[silent.as_json()])
        shown = differences(cluster)
        assert shown.keys() == {("Apptainer", "version"), ("Podman", ""), ("udocker", "")}
        assert shown["Apptainer", "version"].is_proposed
        assert shown["udocker", ""].offered == udocker

    def test_of_5_000_partitions_none_that_is_stored_is_called_gone(self, cluster: Cluster) -> None:
        sizes = "".join(f"p{n}|up|1:00:00|9|idle|96|1|gpu:h:8\n" for n in range(5000))
        sizes += "gpu|up|1:00:00|2|idle|32|256000|gpu:h100:4\n"
        from runners.cluster_reading.answers import read_scheduler
        from runners.probes import Answer

        said = {name: Answer(1, b"", b"") for name in ("limits", "accounts", "version slurm")}
        said["sizes"] = Answer(0, sizes.encode(), b"")
        partitions, left_out, *_ = read_scheduler(said, "slurm", asked="slurm", known={"gpu"})
        assert (len(partitions), left_out) == (100, 4901)
        keep(cluster, replace(SLURM, partitions=partitions, left_out=left_out))
        assert {row.column for row in differences(cluster).values()} == {""}
        assert "4901 more new partitions" in page(log_in(cluster.owner), cluster)

    @given(
        st.lists(
            st.builds(
                FoundPartition,
                st.sampled_from(["gpu", "x", "y"]),
                st.text(max_size=5),
                *[st.integers(0, 2**31 - 1)] * 2,
                st.text(max_size=5),
                st.text(max_size=5),
                *[st.integers(0, 2**31 - 1)] * 3,
            ),
            unique_by=lambda row: row.name,
            max_size=3,
        )
    )
    def test_whatever_was_read_keys_are_unique(self, offered: list[FoundPartition]) -> None:
        stored = [Partition(pk=1, name="gpu"), Partition(pk=2, name="x", enabled=False)]
        found = Found("slurm", partitions=tuple(offered))
        rows = list(cluster_updates._compare_partitions(stored, found, set()))
        assert len({row.key for row in rows}) == len(rows)
        assert all(row.stored_text is not None and row.read_text for row in rows)


class TestApply:
    def test_only_what_is_ticked_is_written_with_an_audit_entry(
        self, client: Client, cluster: Cluster, person: User
    ) -> None:
        new = replace(GPU, name="new", nodes=7)
        changed = replace(GPU, nodes=1, gpus_per_node=8, time_limit_minutes=30)
        keep(cluster, replace(SLURM, partitions=(changed, new), runtimes=(APPTAINER,)))
        shown = differences(cluster)
        ticked = [shown[name].key for name in (("gpu", "nodes"), ("new", ""), ("Apptainer", ""))]
        assert "3 differences stored" in apply(client, cluster, *ticked)
        gpu, added = cluster.partitions.order_by("name")
        assert (gpu.nodes, gpu.gpus_per_node, gpu.time_limit_minutes) == (1, 4, 60)
        assert (gpu.directives, gpu.srun_options) == (["--exclusive"], ["--mpi=pmix"])
        assert (added.name, added.nodes, added.cpus_per_run, added.enabled) == ("new", 7, 8, True)
        assert cluster.runtimes.get().version == "1.4.5"
        entries = AuditEntry.objects.filter(why="read from the cluster", actor=person)
        assert {(entry.kind, entry.what) for entry in entries} == {
            ("partition", "changed"),
            ("partition", "added"),
            ("runtime", "added"),
        }
        (entry,) = entries.filter(what="changed")
        assert entry.changes == {"nodes": [2, 1]}
        assert differences(cluster).keys() == {
            ("gpu", "gpus_per_node"),
            ("gpu", "time_limit_minutes"),
        }

    def test_a_partition_that_is_gone_stays_with_its_experiments_and_is_offered_no_more(
        self, client: Client, cluster: Cluster
    ) -> None:
        gpu = cluster.partitions.get()
        experiment = ExperimentFactory(cluster=cluster, partition=gpu, owner=cluster.owner)
        keep(cluster, replace(SLURM, partitions=(replace(GPU, name="other"),)))
        apply(client, cluster, differences(cluster)["gpu", "enabled"].key)
        gpu.refresh_from_db()
        assert not gpu.enabled
        assert "out of service" in client.get(cluster_page(cluster)).content.decode()
        with pytest.raises(execution.lifecycle.NotLaunchable) as refusal:
            execution.lifecycle.launch(experiment, cluster.owner)
        assert "is not in service any more" in str(refusal.value)
        edited = client.get(reverse("experiment_edit", args=[experiment.pk])).content.decode()
        option = rf'<option value="{gpu.pk}"[^>]*>\s*gpu'
        assert re.search(option, edited)
        blank = client.get(f"{reverse('experiment_new')}?cluster={cluster.pk}").content.decode()
        assert not re.search(option, blank)
        keep(cluster)
        apply(client, cluster, differences(cluster)["gpu", "enabled"].key)
        gpu.refresh_from_db()
        assert gpu.enabled

    def test_a_runtime_that_environments_use_is_never_deleted(
        self, client: Client, cluster: Cluster
    ) -> None:
        from tests.factories import EnvironmentFactory, StagedImageFactory

        used, unused = (
            Runtime.objects.create(cluster=cluster, kind=kind, executable=kind)
            for kind in ("apptainer", "podman")
        )
        image = StagedImageFactory(cluster=cluster)
        EnvironmentFactory(cluster=cluster, runtime=used, staged_image=image)
        keep(cluster)
        shown = differences(cluster)
        assert "environments use it" in page(client, cluster)
        assert "Nothing was changed" in apply(client, cluster, shown["Apptainer", ""].key)
        apply(client, cluster, shown["Podman", ""].key)
        assert list(cluster.runtimes.all()) == [used]
        assert AuditEntry.objects.get(kind="runtime", what="deleted").object_pk == str(unused.pk)

    def test_of_two_administrators_the_second_is_told(
        self, client: Client, cluster: Cluster
    ) -> None:
        keep(cluster, replace(SLURM, partitions=(replace(GPU, nodes=1),)))
        key = differences(cluster)["gpu", "nodes"].key
        assert "1 difference stored" in apply(client, cluster, key)
        assert "changed meanwhile" in apply(client, cluster, key)
        Partition.objects.update(nodes=9)  # by hand, since the page was opened
        assert "changed meanwhile" in apply(client, cluster, key)
        assert Partition.objects.get().nodes == 9

    def test_a_newer_reading_or_another_address_is_looked_at_first(
        self, client: Client, cluster: Cluster
    ) -> None:
        first = keep(cluster, replace(SLURM, partitions=(replace(GPU, nodes=1),)))
        key = differences(cluster)["gpu", "nodes"].key
        keep(cluster, replace(SLURM, partitions=(replace(GPU, nodes=1),)))
        assert "read again meanwhile" in apply(client, cluster, key, reading=first.pk)
        last = cluster.readings.latest("ended_at")
        Cluster.objects.update(host="elsewhere.example")
        assert "read again meanwhile" in apply(client, cluster, key, reading=last.pk)
        assert "Not read yet" in page(client, cluster)
        assert Partition.objects.get().nodes == 2

    def test_a_partition_for_which_no_job_can_be_written_is_refused_whole(
        self, client: Client, cluster: Cluster
    ) -> None:
        odd = replace(GPU, nodes=1, gres="gpu:a\nb")
        keep(cluster, replace(SLURM, partitions=(odd,)))
        keys = [row.key for row in differences(cluster).values()]
        assert "a job cannot be written so" in apply(client, cluster, *keys)
        assert Partition.objects.get().nodes == 2

    @pytest.mark.parametrize("reading", ["", "x", "9" * 30, "-1", "\u0663"])
    def test_odd_forms_change_nothing(self, client: Client, cluster: Cluster, reading: str) -> None:
        keep(cluster, replace(SLURM, partitions=(replace(GPU, nodes=1),)))
        for keys in ([], ["x"], ["\x00"], [differences(cluster)["gpu", "nodes"].key]):
            client.post(
                reverse("cluster_differences_apply", args=[cluster.pk]),
                {"difference": keys, "reading": reading},
            )
        assert "Nothing was ticked" in apply(client, cluster)
        assert Partition.objects.get().nodes == 2


class TestReading:
    def test_a_reading_that_fails_says_what_to_do_and_compares_nothing(
        self, client: Client, cluster: Cluster, tmp_path: Path
    ) -> None:
        Credential.objects.update(private_key=make_key(tmp_path / "key"))
        Cluster.objects.update(host="127.0.0.1", port=1)
        client.post(reverse("cluster_read", args=[cluster.pk]))
        work()
        shown = page(client, cluster)
        assert "could not be read" in shown
        assert "Nobody listens on 127.0.0.1 port 1." in shown
        assert "<table" not in shown

    def test_two_clicks_ask_once_and_a_lost_request_is_asked_again(
        self, client: Client, cluster: Cluster
    ) -> None:
        for _ in range(2):
            client.post(reverse("cluster_read", args=[cluster.pk]))
        (request,) = cluster.readings.all()
        cluster.readings.update(requested_at=timezone.now() - 2 * visit_requests.LONGEST)
        assert "Not read yet" in page(client, cluster)
        client.post(reverse("cluster_read", args=[cluster.pk]))
        assert cluster.readings.get(ended_at=None) != request

    def test_earlier_readings_are_forgotten(self, client: Client, cluster: Cluster) -> None:
        kept = [keep(cluster) for _ in range(3)]
        client.post(reverse("cluster_read", args=[cluster.pk]))
        assert set(cluster.readings.exclude(ended_at=None)) == {kept[-1]}

    @pytest.mark.parametrize("loss", ["address", "key", "person"])
    def test_what_changed_before_a_worker_came_is_not_read(
        self, client: Client, cluster: Cluster, loss: str
    ) -> None:
        client.post(reverse("cluster_read", args=[cluster.pk]))
        if loss == "address":
            Cluster.objects.update(host="elsewhere.example")
        elif loss == "key":
            Credential.objects.update(owner=UserFactory())
        else:
            ClusterReading.objects.update(owner=None)
        work()
        row = ClusterReading.objects.get()
        assert (row.outcome, row.found) == ("failed", {})
        assert row.rows[0]["name"] == "Entry"

    def test_who_may_change_the_cluster_but_not_use_its_key_reads_nothing(
        self, client: Client, cluster: Cluster
    ) -> None:
        Credential.objects.update(owner=UserFactory())
        keep(cluster, replace(SLURM, partitions=(replace(GPU, nodes=1),)))
        assert "Read the cluster again" not in client.get(cluster_page(cluster)).content.decode()
        for address in ("cluster_read", "cluster_differences_apply"):
            assert client.post(reverse(address, args=[cluster.pk])).status_code == 403
        assert client.get(reverse("cluster_differences", args=[cluster.pk])).status_code == 403

    def test_a_machine_that_is_known_from_logs_is_not_read(self, client: Client) -> None:
        there = {"transport": "ssh", "recorded": True, "enabled": False}
        row = ClusterFactory(**there, owner=UserFactory(role=Role.SITE_ADMINISTRATOR))
        answer = log_in(row.owner).post(reverse("cluster_read", args=[row.pk]))
        assert answer.status_code == 403

    def test_tares_own_machine_is_read_for_site_administrators(self, client: Client) -> None:
        row = ClusterFactory(owner=UserFactory(role=Role.SITE_ADMINISTRATOR))
        PartitionFactory(cluster=row, nodes=1, cpus_per_node=4000)
        assert client.post(reverse("cluster_read", args=[row.pk])).status_code == 403
        own = log_in(row.owner)
        own.post(reverse("cluster_read", args=[row.pk]))
        work()
        assert "4000" in page(own, row)

    def test_hostile_names_are_text(self, client: Client, cluster: Cluster) -> None:
        bad = "<script>alert(1)</script>"
        odd = replace(GPU, name=bad, state=bad, gpu_model=bad, gres=bad)
        runtime = replace(APPTAINER, label=bad, version=bad)
        keep(
            cluster, replace(SLURM, partitions=(odd, replace(odd, name="gpu")), runtimes=(runtime,))
        )
        shown = page(client, cluster)
        assert "&lt;script&gt;alert" in shown
        assert "<script>alert" not in shown
        assert len(set(re.findall(r'name="difference" value="(\w+)"', shown))) == 4


def cluster_page(cluster: Cluster) -> str:
    return reverse("cluster", args=[cluster.pk])
