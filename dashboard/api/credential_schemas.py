"""What the API takes and says of credentials: no schema that is sent out has a secret."""

from __future__ import annotations

from datetime import datetime

from ninja import Field, Schema
from pydantic import SecretStr

from dashboard.api.form_bodies import RowKey, StrictBody
from dashboard.api.visit_schemas import ConnectionTestSchema, describe_tests
from dashboard.clusters.credential_forms import MOST_BYTES
from experiments.clusters import authorized_keys, connection_tests
from experiments.clusters import credentials as keys
from experiments.models import Credential


class CredentialItem(Schema):
    """An account on login nodes, without any secret."""

    id: int
    name: str
    user_name: str
    fingerprint: str
    origin: str
    key_since: datetime | None
    certificate_ends_at: datetime | None
    forced_command: bool
    work_directory: str
    scheduler: str
    owner: str
    is_rotating: bool
    next_fingerprint: str
    last_used_at: datetime | None
    page: str


class CredentialSchema(CredentialItem):
    """A credential, with the public lines that install it."""

    clusters: list[int]
    users: list[str]
    groups: list[int]
    lines: list[str] = Field(description="For ~/.ssh/authorized_keys: the public key.")
    next_lines: list[str] = Field(description="Those of the new key, while there is one.")
    last_test: ConnectionTestSchema


class CredentialList(Schema):
    """A part of the list of credentials."""

    items: list[CredentialItem]
    next: str | None


class CredentialChange(StrictBody):
    """What is to be another of a credential; its key can only be rotated."""

    name: str | None = None
    user_name: str | None = Field(None, description="The account on the login node.")
    forced_command: bool | None = Field(None, strict=True)
    work_directory: str | None = None
    scheduler: str | None = None


class NewCredential(CredentialChange):
    """A credential whose key is made here: the private key never travels."""

    name: str
    user_name: str


class ImportedCredential(NewCredential):
    """A credential with a key that there is already. It goes in, and never comes out."""

    private_key: SecretStr = Field(max_length=MOST_BYTES, description="In OpenSSH's format.")
    passphrase: SecretStr = SecretStr("")


class Sharing(StrictBody):
    """All people and groups who may use a credential, beside its owner."""

    users: list[str] = Field(description="Names of people.")
    groups: list[RowKey]


class NewCertificate(StrictBody):
    """A certificate that an authority has made of the public key."""

    certificate: str = Field(max_length=MOST_BYTES)


def describe_item(row: Credential) -> CredentialItem:
    """Return what lists say of a credential."""
    names = CredentialItem.model_fields.keys() - {"id", "owner", "page"}
    columns = {name: getattr(row, name) for name in names}
    return CredentialItem(id=row.pk, owner=str(row.owner), page=row.get_absolute_url(), **columns)


def describe_credential(row: Credential) -> CredentialSchema:
    """Return what the API says of a credential."""
    next_key = row.next_public_key if row.is_rotating else ""
    lines, next_lines = (
        [line.text for line in authorized_keys.make_lines(row, key) if line.text] if key else []
        for key in (keys.find_public_key(row), next_key)
    )
    return CredentialSchema(
        **describe_item(row).model_dump(),
        clusters=sorted(row.clusters.values_list("pk", flat=True)),
        users=sorted(row.users.values_list("username", flat=True)),
        groups=sorted(row.groups.values_list("pk", flat=True)),
        lines=lines,
        next_lines=next_lines,
        last_test=describe_tests(connection_tests.get_latest_tests(row)),
    )
