"""The pages of data sets: registered, listed, checked; the form of a workload that reads one."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import (
    AuditEntry,
    Cluster,
    DataCopy,
    DataSet,
    Operation,
    User,
    Workload,
)
from tests.factories import (
    ClusterFactory,
    DataCopyFactory,
    DataSetFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> User:
    made: User = UserFactory(username="ada")
    return made


@pytest.fixture
def cluster() -> Cluster:
    made: Cluster = ClusterFactory(name="hal")
    return made


@pytest.fixture
def client(owner: User) -> Client:
    made = Client()
    made.force_login(owner)
    return made


@pytest.fixture
def copy(owner: User, cluster: Cluster) -> DataCopy:
    made: DataCopy = DataCopyFactory(
        data_set=DataSetFactory(name="digits", owner=owner), cluster=cluster, path="/data/digits"
    )
    return made


def typed(cluster: Cluster, **more: str) -> dict[str, str]:
    return {"name": "mnist", "cluster": str(cluster.pk), "path": "/data/mnist", **more}


def test_a_data_set_is_registered_by_where_it_lies(client: Client, cluster: Cluster) -> None:
    answer = client.post(reverse("dataset_new"), typed(cluster, licence="CC-BY-4.0"), follow=True)
    page = answer.content.decode()
    assert "mnist is in the catalogue; its files are being read." in page
    assert "Not read yet" in page
    row = DataSet.objects.get()
    assert (row.licence, row.digest, row.owner.username) == ("CC-BY-4.0", "", "ada")
    operation = Operation.objects.get()
    assert (operation.kind, str(operation)) == ("read_data", "read all files of mnist on hal")
    assert AuditEntry.objects.filter(kind="dataset").exists()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"path": "data"}, "A path is absolute"),
        ({"path": "/data/a:b"}, "without : and ,"),
        ({"path": "/data/digits"}, "/data/digits on hal is registered already, as digits."),
        ({"cluster": "0"}, "Select a valid choice"),
        ({"name": "digits"}, "Data set with this Name already exists"),
        ({"name": ""}, "This field is required"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    client: Client, cluster: Cluster, copy: DataCopy, more: dict[str, str], problem: str
) -> None:
    answer = client.post(reverse("dataset_new"), typed(cluster) | more)
    assert problem in answer.content.decode()
    assert DataSet.objects.count() == 1
    assert not Operation.objects.exists()


def test_clusters_of_others_and_without_connection_are_not_offered(client: Client) -> None:
    ClusterFactory(name="locked", users=[])
    ClusterFactory(name="by hand", transport="by_hand")
    page = client.get(reverse("dataset_new")).content.decode()
    assert "There is no cluster yet whose key you may use" in page
    assert "locked" not in page


def test_the_list_says_where_each_lies_and_finds_by_digest(client: Client, copy: DataCopy) -> None:
    DataSetFactory(name="letters")
    DataSetFactory(name="secret plans", visibility="private")
    address = reverse("catalogue") + "?tab=datasets"
    page = client.get(address).content.decode()
    assert "digits" in page
    assert "letters" in page
    assert "secret plans" not in page
    assert copy.data_set.short_digest in page
    found = client.get(f"{address}&q={copy.data_set.digest[7:20]}").content.decode()
    assert "digits" in found
    assert "letters" not in found


def test_a_copy_that_changed_says_how_to_go_on(client: Client, copy: DataCopy) -> None:
    DataCopy.objects.update(state="changed", message="train/0 is gone")
    page = client.get(copy.data_set.get_absolute_url()).content.decode()
    assert "train/0 is gone" in page
    assert "register another data set" in page


@pytest.mark.parametrize(
    ("name", "kind"), [("data_copy_check", "check_data"), ("data_copy_read", "read_data")]
)
def test_a_copy_is_checked_once_at_a_time(
    client: Client, copy: DataCopy, name: str, kind: str
) -> None:
    for _ in range(2):
        answer = client.post(reverse(name, args=[copy.pk]), follow=True)
    assert "is being checked already: wait for its end." in answer.content.decode()
    operation = Operation.objects.get()
    assert operation.kind == kind
    assert client.get(reverse("operation", args=[operation.pk])).status_code == 200


def test_a_copy_is_forgotten_by_those_whose_it_is(copy: DataCopy, client: Client) -> None:
    stranger = Client()
    stranger.force_login(UserFactory())
    address = reverse("data_copy_forget", args=[copy.pk])
    page = stranger.post(address, follow=True).content.decode()
    assert "This data copy is not yours to change." in page
    client.post(address)
    assert not DataCopy.objects.exists()


def test_another_copy_is_read_where_it_lies(client: Client, copy: DataCopy) -> None:
    other = ClusterFactory(name="dave")
    address = reverse("data_copy_add", args=[copy.data_set_id])
    page = client.post(address, {"cluster": other.pk, "path": "data"}).content.decode()
    assert "A path is absolute" in page
    client.post(address, {"cluster": other.pk, "path": "/scratch/digits"})
    assert {row.cluster.name for row in copy.data_set.copies.all()} == {"hal", "dave"}


def test_a_data_set_in_use_is_not_deleted(client: Client, copy: DataCopy) -> None:
    workload = WorkloadFactory(name="train", data_set=copy.data_set)
    address = reverse("dataset_delete", args=[copy.data_set_id])
    page = client.post(address, follow=True).content.decode()
    assert "It is named by the workload train." in page
    workload.delete()
    page = client.post(address, follow=True).content.decode()
    assert "Deleted digits. Its files stay." in page
    assert not DataSet.objects.exists()


def test_a_workload_names_it_instead_of_a_path(client: Client, copy: DataCopy) -> None:
    address = f"{reverse('workload_new')}?kind=cnn"
    assert "digits" in client.get(address).content.decode()
    sent = {"name": "train", "time_limit_seconds": "60", "data": "mnist", "steps": "10"}
    sent["burn_in"] = "1"
    client.post(address, sent | {"data_set": str(copy.data_set_id), "data_proof": "hashes"})
    row = Workload.objects.get()
    assert (row.data_set, row.data_proof) == (copy.data_set, "hashes")
    assert row.parameters["data_directory"] == "{data}"
    page = client.get(reverse("workload", args=[row.pk])).content.decode()
    assert "all files are read and hashed" in page
    copied = client.get(f"{reverse('workload_new')}?copy={row.pk}").content.decode()
    assert f'value="{copy.data_set_id}" selected' in copied


def test_kinds_that_read_nothing_offer_none(client: Client, copy: DataCopy) -> None:
    page = client.get(f"{reverse('workload_new')}?kind=blas").content.decode()
    assert "digits" not in page
    assert "digits" in client.get(f"{reverse('workload_new')}?kind=command").content.decode()


def test_hidden_data_sets_are_neither_offered_nor_taken(client: Client) -> None:
    hidden = DataSetFactory(name="secret plans", visibility="private")
    address = f"{reverse('workload_new')}?kind=command"
    assert "secret plans" not in client.get(address).content.decode()
    sent = {"name": "w", "time_limit_seconds": "60", "argv": "true", "data_set": str(hidden.pk)}
    assert "Select a valid choice" in client.post(address, sent).content.decode()
    assert client.get(hidden.get_absolute_url()).status_code == 404


def test_the_search_finds_it(client: Client, copy: DataCopy) -> None:
    page = client.get(f"{reverse('search')}?q=digits").content.decode()
    assert copy.data_set.get_absolute_url() in page
