"""With which key Tare logs in where: the only place where secrets leave their columns."""

from __future__ import annotations

import pytest

from experiments.execution.connections import make_ssh_address
from experiments.models import Cluster, Credential
from runners.errors import TryAgain
from tests.factories import ClusterFactory, CredentialFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def credential() -> Credential:
    made: Credential = CredentialFactory(
        user_name="jo",
        private_key="the key in use",
        passphrase="of the key in use",
        certificate="its certificate",
        next_private_key="the next key",
        next_certificate="the next certificate",
        forced_command=True,
    )
    return made


@pytest.fixture
def cluster(credential: Credential) -> Cluster:
    made: Cluster = ClusterFactory(
        transport="ssh", host="login", port=2222, host_key="ssh-ed25519 A", credential=credential
    )
    return made


def test_the_key_in_use_is_opened_with_its_passphrase(
    cluster: Cluster, credential: Credential
) -> None:
    address = make_ssh_address(cluster)
    assert (address.host, address.port, address.host_key) == ("login", 2222, "ssh-ed25519 A")
    assert (address.user, address.gated, address.owner) == ("jo", True, credential.pk)
    assert (address.private_key, address.passphrase) == ("the key in use", "of the key in use")
    assert address.certificate == "its certificate"
    assert address.jump is None


def test_a_next_key_that_is_tried_has_no_passphrase_and_a_certificate_of_its_own(
    cluster: Cluster, credential: Credential
) -> None:
    address = make_ssh_address(cluster, trying=credential)
    assert (address.private_key, address.passphrase) == ("the next key", "")
    assert address.certificate == "the next certificate"


def test_only_the_credential_that_is_tried_changes_its_key_on_the_way(
    cluster: Cluster, credential: Credential
) -> None:
    other = CredentialFactory(private_key="of the gate", passphrase="", next_private_key="next")
    cluster.jump_host = ClusterFactory(
        transport="ssh", host="gate", host_key="ssh-ed25519 B", credential=other
    )
    cluster.save()
    address = make_ssh_address(cluster, trying=credential)
    assert (address.host, address.private_key) == ("login", "the next key")
    assert address.jump
    assert (address.jump.host, address.jump.private_key) == ("gate", "of the gate")
    assert (address.jump.host_key, address.jump.owner) == ("ssh-ed25519 B", other.pk)


@pytest.mark.parametrize(
    ("columns", "missing"),
    [({"host_key": ""}, "no pinned host key yet"), ({"credential": None}, "no credential yet")],
)
def test_without_a_key_or_a_pinned_host_nobody_logs_in(
    cluster: Cluster, columns: dict[str, object], missing: str
) -> None:
    for name, value in columns.items():
        setattr(cluster, name, value)
    with pytest.raises(TryAgain, match=f"{cluster} has {missing}") as problem:
        make_ssh_address(cluster)
    assert problem.value.kind == "set-up"
