"""The clusters through which others are reached."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet

from experiments.models import Cluster, Credential, User


def list_jump_hosts(user: User) -> QuerySet[Cluster]:
    """Return the clusters through which `user` may reach another one.

    All keys on the way to each are theirs to use. Few statements, however many clusters there are.
    """
    rows = Cluster.objects.visible_to(user).filter(transport="ssh", recorded=False)
    rows = rows.exclude(host_key="").exclude(credential=None)
    keys = list(rows.order_by().values_list("pk", flat=True))
    if not keys:
        return Cluster.objects.none()
    usable = set(Credential.objects.usable_by(user).values_list("pk", flat=True))
    ways = {
        key: (jump, credential)
        for key, jump, credential in Cluster.objects.values_list("pk", "jump_host", "credential")
    }
    reached = [key for key in keys if usable.issuperset(_list_credentials(key, ways))]
    return Cluster.objects.filter(pk__in=reached)


def _list_credentials(key: int, ways: Mapping[int, tuple[int | None, int | None]]) -> set[int]:
    """Return the keys of the credentials on the way to a cluster, which may be a circle."""
    passed: dict[int, int | None] = {}
    at: int | None = key
    while at is not None and at in ways and at not in passed:
        jump, passed[at] = ways[at]
        at = jump
    return {credential for credential in passed.values() if credential is not None}
