"""Names of workloads that follow the network and the batch that they name."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import User, Workload
from experiments.planning.workload_names import follow_parameters
from tests.dashboard.api.requests_by_token import log_in
from tests.dashboard.planning.test_command_form import rows
from tests.factories import UserFactory, WorkloadFactory

TF_CNN = ["python", "x.py", "--batch_size=64", "--model=resnet50"]
NAME = "ResNet50, batch 64 per GPU"


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        (NAME, {"network": "resnet50"}, {"network": "alexnet"}, "AlexNet, batch 64 per GPU"),
        (NAME, {"network": "resnet50"}, {"network": "small"}, "small, batch 64 per GPU"),
        (NAME, {"network": "alexnet"}, {"network": "small"}, NAME),
        (NAME, {"network": "resnet50"}, {}, NAME),
        (NAME, {"batch_size": 64}, {"batch_size": 128}, "ResNet50, batch 128 per GPU"),
        ("64 of ResNet50", {"batch_size": 64}, {"batch_size": 128}, "64 of ResNet50"),
        ("resnet50-fcn", {"network": "resnet50"}, {"network": "vgg16"}, "resnet50-fcn"),
        ("my resnet50", {"network": "resnet50"}, {"network": "vgg16"}, "my vgg16"),
        (
            "tf, ResNet50, batch 64 per GPU",
            {"argv": TF_CNN},
            {"argv": ["python", "x.py", "--batch_size", "32", "--model", "inception3"]},
            "tf, inception3, batch 32 per GPU",
        ),
        (NAME, {"argv": TF_CNN}, {"argv": ["x", "--model=\\1 (.*)"]}, NAME),
        (NAME, {"argv": TF_CNN}, {"argv": ["x", "--model"]}, NAME),
        (NAME, {"argv": TF_CNN}, {"argv": None}, NAME),
    ],
)
def test_a_name_follows_what_it_names(
    name: str, before: dict[str, Any], after: dict[str, Any], expected: str
) -> None:
    assert follow_parameters(name, before, after) == expected


@pytest.fixture
def person() -> User:
    made: User = UserFactory()
    return made


def send(client: Client, address: str, **changed: str) -> Workload:
    """Send the form of a page as a browser does, with some fields changed."""
    form = client.get(address).context["form"]
    fields = {field.html_name: field.value() for field in form}
    fields = {name: value for name, value in fields.items() if value not in (None, "", False, [])}
    answer = client.post(address, {**fields, **changed})
    assert answer.status_code == 302, answer.context["form"].errors
    return Workload.objects.latest("pk")


@pytest.mark.django_db
def test_a_name_that_nobody_has_typed_follows_the_network(client: Client, person: User) -> None:
    client.force_login(person)
    WorkloadFactory(name="AlexNet, batch 64 per GPU")
    row = WorkloadFactory(
        owner=person,
        name=NAME,
        kind="cnn",
        parameters={"network": "resnet50", "batch_size": 64},
    )
    copy = send(client, f"{reverse('workload_new')}?copy={row.pk}", network="alexnet")
    assert copy.name == "AlexNet, batch 64 per GPU (2)"
    named = send(
        client, f"{reverse('workload_new')}?copy={row.pk}", network="alexnet", name="ResNet50?"
    )
    assert named.name == "ResNet50?"
    send(client, reverse("workload_edit", args=[row.pk]), network="small", batch_size="32")
    row.refresh_from_db()
    assert row.name == "small, batch 32 per GPU"
    send(client, reverse("workload_edit", args=[row.pk]), steps="70")
    row.refresh_from_db()
    assert row.name == "small, batch 32 per GPU"


@pytest.mark.django_db
def test_a_known_program_is_named_for_the_network_that_its_command_names(
    client: Client, person: User
) -> None:
    client.force_login(person)
    address = f"{reverse('workload_new')}?ready=tf-cnn-benchmarks"
    argv = client.get(address).context["form"]["argv"].value().replace("resnet50", "vgg16")
    sent = rows({"name": "loss", "unit": "1", "find": "loss ([0-9.]+)"}) | {
        "read": "patterns",
        "processes": "one",
        "batch": "",
    }
    made = send(client, address, argv=argv, **sent)
    assert made.name == "tf_cnn_benchmarks, VGG16, batch 64 per GPU"


@pytest.mark.django_db
def test_by_the_api_a_name_stays_as_it_is(client: Client, person: User) -> None:
    row = WorkloadFactory(
        owner=person, name=NAME, kind="cnn", parameters={"network": "resnet50", "batch_size": 64}
    )
    answer = client.patch(
        f"/api/v1/workloads/{row.pk}",
        {"parameters": {"network": "alexnet"}},
        content_type="application/json",
        headers=log_in(person, "read", "catalogue"),
    )
    assert answer.status_code == 200, answer.content
    row.refresh_from_db()
    assert (row.name, row.parameters["network"]) == (NAME, "alexnet")
