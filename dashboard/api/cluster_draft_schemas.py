"""What the API takes and says of clusters that are being added."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from ninja import Field, Schema

from dashboard.api.form_bodies import RowKey, StrictBody
from dashboard.api.visit_schemas import CheckedSchema, describe_checks
from experiments.clusters import cluster_drafts as drafts
from experiments.models import ClusterDraft
from runners.cluster_reading.found import Found

Whole = Annotated[int, Field(strict=True)]


class FetchedKeySchema(Schema):
    """The key that the host showed last: a person compares its fingerprint."""

    is_under_way: bool
    fingerprint: str
    type: str
    ended_at: datetime | None
    checks: list[CheckedSchema]


class FoundPartitionSchema(Schema):
    """A partition that was found."""

    name: str
    state: str
    nodes: int
    gpus_per_node: int
    gpu_model: str
    cpus_per_node: int
    time_limit_minutes: int
    is_default: bool
    accounts: list[str]
    qos: list[str]


class FoundRuntimeSchema(Schema):
    """A runtime that answers on the login node."""

    kind: str
    label: str
    executable: str
    version: str


class OfferSchema(Schema):
    """What was read of the cluster."""

    is_under_way: bool
    reading: int | None
    outcome: str
    ended_at: datetime | None
    checks: list[CheckedSchema]
    scheduler: str
    work_directory: str
    partitions: list[FoundPartitionSchema]
    runtimes: list[FoundRuntimeSchema]


class ClusterDraftSchema(Schema):
    """A cluster that one is adding."""

    id: int
    name: str
    host: str
    port: int
    user_name: str
    jump_host: int | None
    scheduler: str
    work_directory: str
    fingerprint: str = Field(description='Of the host key that was confirmed; "": none yet.')
    credential: int | None
    next_step: str = Field(description="host_key, credential or test.")
    host_key: FetchedKeySchema
    offer: OfferSchema
    page: str


class DraftList(Schema):
    """The clusters that one is adding."""

    items: list[ClusterDraftSchema]


class AddressChange(StrictBody):
    """Where a cluster is; what is not sent stays."""

    name: str | None = None
    host: str | None = Field(None, description="The login node.")
    port: Whole | None = None
    user_name: str | None = None
    scheduler: str | None = Field(None, description='"": found out.')
    jump_host: RowKey | None = Field(None, description="A cluster through which it is reached.")


class NewAddress(AddressChange):
    """Where a cluster is, and by which account."""

    name: str
    host: str
    user_name: str


class ConfirmedHostKey(StrictBody):
    """A host key that a person has compared: its fingerprint or, not fetched by Tare, a line."""

    fingerprint: str | None = Field(None, examples=["SHA256:..."])
    line: str | None = Field(None, max_length=10_000, description="Of known_hosts.")


class ChosenCredential(StrictBody):
    """The credential by which Tare is to log in."""

    credential: RowKey


class WorkDirectory(StrictBody):
    """Where Tare may write."""

    work_directory: str | None = Field(
        None, description='Absolute; "": the folder tare in the home directory.'
    )


class ChosenPartition(StrictBody):
    """How a partition is to be used; what is not sent is as proposed."""

    time_limit_minutes: Whole | None = None
    cpus_per_run: Whole | None = None
    account: str | None = None
    qos: str | None = None
    gpus_per_node: Whole | None = Field(
        None, description="Where the scheduler does not say how many there are."
    )


class Confirmation(StrictBody):
    """What is chosen of what was found; what is not sent is as proposed."""

    reading: RowKey = Field(description="The reading in which it was found.")
    partitions: dict[str, ChosenPartition] = Field(description="Those to be used, by name.")
    name: str | None = None
    visibility: str | None = Field(None, description="members or private.")
    max_live_jobs: Whole | None = None
    poll_seconds: float | None = Field(None, strict=True)
    runtimes: list[str] | None = Field(None, description="Their kinds; usually all.")


class NewClusterByHand(StrictBody):
    """A machine without a connection, and the partition of its jobs."""

    name: str
    work_directory: str
    scheduler: str | None = None
    partition: str | None = None
    gpus_per_node: Whole | None = None
    cpus_per_run: Whole | None = None
    time_limit_minutes: Whole | None = None
    visibility: str | None = None


def describe_draft(row: ClusterDraft) -> ClusterDraftSchema:
    """Return what the API says of a cluster that is being added."""
    key, offer = drafts.get_latest_key(row), drafts.get_latest_offer(row)
    names = ("name", "host", "port", "user_name", "scheduler", "work_directory", "fingerprint")
    return ClusterDraftSchema(
        id=row.pk,
        **{name: getattr(row, name) for name in (*names, "next_step")},
        jump_host=row.jump_host_id,
        credential=row.credential_id,
        host_key=FetchedKeySchema(
            is_under_way=key.under_way is not None,
            fingerprint=key.last.fingerprint if key.last and key.last.key else "",
            type=key.last.key_type if key.last and key.last.key else "",
            ended_at=key.last.ended_at if key.last else None,
            checks=describe_checks(key.checks),
        ),
        offer=_describe_offer(offer),
        page=row.get_absolute_url(),
    )


def _describe_offer(offer: drafts.LatestReading) -> OfferSchema:
    found = (offer.last.offer if offer.last else None) or Found(scheduler="")
    partition_names, runtime_names = (
        FoundPartitionSchema.model_fields,
        FoundRuntimeSchema.model_fields,
    )
    return OfferSchema(
        is_under_way=offer.under_way is not None,
        reading=offer.last.pk if offer.last else None,
        outcome=offer.outcome if offer.last else "",
        ended_at=offer.last.ended_at if offer.last else None,
        checks=describe_checks(offer.checks),
        scheduler=found.scheduler,
        work_directory=found.work_directory,
        partitions=[
            FoundPartitionSchema(**{name: getattr(part, name) for name in partition_names})
            for part in found.partitions
        ],
        runtimes=[
            FoundRuntimeSchema(**{name: getattr(part, name) for name in runtime_names})
            for part in found.runtimes
        ],
    )
