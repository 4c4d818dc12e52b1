"""What the API says of visits that people ask for: checks, readings, host keys, connection tests.

A worker makes the visit; programs read again until `is_under_way` is false.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Field, Schema

from experiments.clusters.connection_tests import LatestTests
from experiments.models import ClusterReading, HostKey
from runners.preflight.checks import Check


class CheckedSchema(Schema):
    """The result of checking one thing, with a cure if it is not well."""

    area: str
    name: str
    outcome: str
    found: str
    cure: str
    words: str


class ClusterCheckSchema(Schema):
    """The last check of a cluster, and whether another one is under way."""

    is_under_way: bool
    outcome: str = Field(description='ok, warning or failed; "" before the first one.')
    ended_at: datetime | None
    checks: list[CheckedSchema]
    suggested_limits: dict[str, int]


class ConnectionSchema(Schema):
    """The checks of the connection to one cluster."""

    cluster: int | None
    name: str
    outcome: str
    checks: list[CheckedSchema]


class ConnectionTestSchema(Schema):
    """The last connection test, and whether another one is under way."""

    is_under_way: bool
    outcome: str
    ended_at: datetime | None
    tried: str = Field(description="The fingerprint of the key.")
    connections: list[ConnectionSchema]


class HostKeySchema(Schema):
    """The key that is pinned for a cluster, and the one that its host showed last."""

    pinned: str = Field(description='Its fingerprint; "": none.')
    id: int | None = Field(description="Of the request whose answer is the rest.")
    is_under_way: bool
    host: str
    port: int | None
    fingerprint: str
    problem: str
    ended_at: datetime | None
    pinned_at: datetime | None


class ClusterDifferenceSchema(Schema):
    """One value, or one whole part, that the cluster has otherwise than Tare."""

    key: str
    part: str
    name: str
    column: str
    stored: str
    read: str
    text: str
    is_proposed: bool
    is_possible: bool


class ClusterDifferencesSchema(Schema):
    """What differs between the last reading of a cluster and what is stored of it."""

    is_under_way: bool
    reading: int | None
    outcome: str
    ended_at: datetime | None
    checks: list[CheckedSchema]
    differences: list[ClusterDifferenceSchema]


def describe_checks(checks: list[Check]) -> list[CheckedSchema]:
    """Return checks as the API sends them."""
    names = CheckedSchema.model_fields
    return [CheckedSchema(**{name: getattr(row, name) for name in names}) for row in checks]


def describe_tests(tests: LatestTests | None) -> ConnectionTestSchema:
    """Return what the API says of the tests of a credential, or of a cluster's."""
    last = tests.last if tests else None
    return ConnectionTestSchema(
        is_under_way=bool(tests and tests.under_way),
        outcome=last.outcome if last else "",
        ended_at=last.ended_at if last else None,
        tried=last.tried if last else "",
        connections=[
            ConnectionSchema(
                cluster=place.pk,
                name=place.name,
                outcome=place.outcome,
                checks=describe_checks(place.checks),
            )
            for place in (tests.places if tests else [])
        ],
    )


def describe_host_key(pinned: str, row: HostKey | ClusterReading | None) -> dict[str, Any]:
    """Return what the API says of the key that a host showed; `pinned` is a fingerprint."""
    fingerprint = row.fingerprint if row and row.key else ""
    return {
        "pinned": pinned,
        "id": row.pk if row else None,
        "is_under_way": bool(row and row.ended_at is None),
        "fingerprint": fingerprint,
        "ended_at": row.ended_at if row else None,
    }
