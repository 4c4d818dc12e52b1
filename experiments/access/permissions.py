"""The rules on who may do what, for pages, forms, administration and commands alike.

Each question has two forms: `may_add(user, Model)` answers yes or no, `why_not_add(user, Model)`
returns the reason against it, or "" if there is none. What has no rule is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from django.contrib.auth.models import AnonymousUser, Group
from django.db import models
from django.db.models.functions import Cast

from experiments.models import (
    AuditEntry,
    Cluster,
    CodeCopy,
    Credential,
    DataCopy,
    DataSet,
    Environment,
    Experiment,
    Image,
    ImageImport,
    Operation,
    OwnPreset,
    Partition,
    PublishedTable,
    RecurringExperiment,
    Role,
    Runtime,
    StagedImage,
    Study,
    TrustedKey,
    User,
    Workload,
)
from experiments.models.cluster_choices import LOCAL_TRANSPORT
from experiments.models.visibility import SharedInside, Visibility, filter_shared_with_groups

Somebody = User | AnonymousUser
Row = TypeVar("Row", bound=models.Model)

MAKERS: dict[type[models.Model], Role] = {
    Experiment: Role.RESEARCHER,
    Study: Role.RESEARCHER,
    PublishedTable: Role.RESEARCHER,
    OwnPreset: Role.RESEARCHER,
    RecurringExperiment: Role.RESEARCHER,
    Workload: Role.RESEARCHER,
    DataSet: Role.RESEARCHER,
    DataCopy: Role.RESEARCHER,
    CodeCopy: Role.RESEARCHER,
    Environment: Role.RESEARCHER,
    Image: Role.RESEARCHER,
    StagedImage: Role.RESEARCHER,
    ImageImport: Role.RESEARCHER,
    Operation: Role.RESEARCHER,
    Cluster: Role.CLUSTER_ADMINISTRATOR,
    Partition: Role.CLUSTER_ADMINISTRATOR,
    Runtime: Role.CLUSTER_ADMINISTRATOR,
    Credential: Role.CLUSTER_ADMINISTRATOR,
    User: Role.SITE_ADMINISTRATOR,
    Group: Role.SITE_ADMINISTRATOR,
    TrustedKey: Role.SITE_ADMINISTRATOR,
}
"""The least role that makes, changes and deletes such rows. Others are written by Tare alone."""
OWNED = (
    *(Experiment, Study, PublishedTable, OwnPreset, RecurringExperiment),
    *(Workload, DataSet, Image, ImageImport),
)
"""What nobody but its owner and site administrators may change."""
CHANGED_BY_OWNERS = (Credential, DataCopy, Environment, Operation, CodeCopy)
"""What others may change as well, who have to be asked for."""


def is_at_least(user: Somebody, role: Role) -> bool:
    """Return whether the user is logged in and has this role or a higher one."""
    return isinstance(user, User) and user.is_at_least(role)


def may_add(user: Somebody, model: type[models.Model]) -> bool:
    """Return whether the user may add rows of this model."""
    return not why_not_add(user, model)


def may_change(user: Somebody, row: models.Model) -> bool:
    """Return whether `user` may change or delete `row`; no query where the row itself says so."""
    role = MAKERS.get(type(row))
    if row.pk is None or role is None or not is_at_least(user, role):
        return False
    if is_at_least(user, Role.SITE_ADMINISTRATOR):
        return True
    if isinstance(row, OWNED):
        return row.owner_id == user.pk
    if isinstance(row, CHANGED_BY_OWNERS) and row.owner_id == user.pk:
        return True
    return filter_changeable(user, type(row)._default_manager.filter(pk=row.pk)).exists()


def may_use(user: Somebody, row: models.Model) -> bool:
    """Return whether `user` may use `row`.

    That is: send jobs to a cluster, log in with a credential, or plan runs with a workload, an
    environment or an image.
    """
    return not why_not_use(user, row)


def may_see_audit(user: Somebody) -> bool:
    """Return whether the user may read the audit log."""
    return not why_not_see_audit(user)


def why_not_see_audit(user: Somebody) -> str:
    """Return why the user may not read the audit log; "" if they may."""
    role = Role.CLUSTER_ADMINISTRATOR
    return "" if is_at_least(user, role) else _needs(user, role, "To read the audit log")


def may_see_operations(user: Somebody) -> bool:
    """Return whether the user may see the page *Operations*, which names everybody's clusters."""
    return not why_not_see_operations(user)


def why_not_see_operations(user: Somebody) -> str:
    """Return why the user may not see the page *Operations*; "" if they may."""
    role = Role.SITE_ADMINISTRATOR
    return "" if is_at_least(user, role) else _needs(user, role, "To see the page Operations")


def why_not_see_all_tokens(user: Somebody) -> str:
    """Return why the user may not see everybody's API tokens; "" if they may."""
    role = Role.SITE_ADMINISTRATOR
    return "" if is_at_least(user, role) else _needs(user, role, "To see the tokens of others")


def list_readable_entries(user: Somebody) -> models.QuerySet[AuditEntry]:
    """Return the entries of the audit log that `user` may read.

    Site administrators read all; cluster administrators those on what they may change, and those
    of what they have done themselves.
    """
    if not may_see_audit(user):
        return AuditEntry.objects.none()
    if is_at_least(user, Role.SITE_ADMINISTRATOR):
        return AuditEntry.objects.all()
    readable = models.Q(actor=user.pk)
    readable |= models.Q(cluster_pk__in=filter_changeable(user, Cluster.objects.all()).values("pk"))
    for model in (Credential, Image):
        keys = filter_changeable(user, model._default_manager.all())
        texts = keys.annotate(text=Cast("pk", models.CharField())).values("text")
        readable |= models.Q(kind=model._meta.model_name, object_pk__in=texts)
    return AuditEntry.objects.filter(readable)


def may_administer(user: Somebody) -> bool:
    """Return whether `user` may open the administration pages at all."""
    return is_at_least(user, Role.CLUSTER_ADMINISTRATOR)


def may_add_in_administration(user: Somebody, model: type[models.Model]) -> bool:
    """Return whether the user may add rows of this model in the administration pages."""
    return may_administer(user) and may_add(user, model)


def may_see_records(user: Somebody) -> bool:
    """Return whether `user` may see the rows that Tare itself writes: jobs, events, queues."""
    return is_at_least(user, Role.SITE_ADMINISTRATOR)


def may_run_here(user: Somebody) -> bool:
    """Return whether `user` may make Tare's own machine a cluster: jobs there run as Tare."""
    return is_at_least(user, Role.SITE_ADMINISTRATOR)


def may_set_roles(user: Somebody) -> bool:
    """Return whether the user may give roles to people."""
    return is_at_least(user, Role.SITE_ADMINISTRATOR)


def list_clusters_to_furnish(user: Somebody) -> models.QuerySet[Cluster]:
    """Return the clusters on which `user` may make environments and stage images."""
    if not isinstance(user, User):
        return Cluster.objects.none()
    usable = Cluster.objects.usable_by(user).values("pk")
    keys = Credential.objects.usable_by(user).values("pk")
    opened = models.Q(credential=None) | models.Q(credential__in=keys)
    changeable_clusters = filter_changeable(user, Cluster.objects.filter(opened)).values("pk")
    return Cluster.objects.filter(models.Q(pk__in=usable) | models.Q(pk__in=changeable_clusters))


def why_not_use_keys_of(user: Somebody, cluster: Cluster) -> str:
    """Return why `user` may not decide where the keys on the way to `cluster` log in, and what runs
    with them; "" where all are theirs to use.

    Whoever changes a host, a work directory, set-up lines or an executable decides that.
    """
    return _why_not_use(user, [hop.credential for hop in cluster.list_hops() if hop.credential])


def why_not_use_key_of(user: Somebody, cluster: Cluster) -> str:
    """Return why `user` may not decide what runs with the key of `cluster` itself; "" where they
    may, as whoever makes environments there.
    """
    return _why_not_use(user, [cluster.credential] if cluster.credential else [])


def _why_not_use(user: Somebody, credentials: Iterable[Credential]) -> str:
    keys = {key.pk: key for key in credentials}
    if isinstance(user, User):
        for key in Credential.objects.usable_by(user).filter(pk__in=list(keys)):
            del keys[key.pk]
    names = ", ".join(sorted(str(key) for key in keys.values()))
    return (
        f"To change what the key {names} is used for, you must be able to use it." if keys else ""
    )


def why_not_write_setup_lines(user: Somebody, cluster: Cluster) -> str:
    """Return why `user` may not write shell that runs on `cluster`; "" where they may."""
    return why_not_change(user, cluster) or why_not_use_keys_of(user, cluster)


def why_not_set_role(by: Somebody, person: User, role: str, *, active: bool = True) -> str:
    """Return why `by` may not give `person` this role; "" if they may.

    Nobody sets their own role, and the last site administrator stays one.
    """
    if not may_set_roles(by):
        return _needs(by, Role.SITE_ADMINISTRATOR, "To set a role")
    was, same = Role(person.role), active == person.is_active
    if role == was and same:
        return ""
    if person.pk == by.pk:
        return "Nobody changes their own role or service: ask another site administrator."
    stays = role == Role.SITE_ADMINISTRATOR and active
    if was == Role.SITE_ADMINISTRATOR and person.is_active and not stays:
        # Two who demote each other at once wait here for one another.
        others = User.objects.select_for_update().order_by("pk").exclude(pk=person.pk)
        if not list(others.filter(role=Role.SITE_ADMINISTRATOR, is_active=True)):
            return f"{person} is the last site administrator, and stays one."
    return ""


def list_groups_to_share_with(user: Somebody, row: models.Model) -> models.QuerySet[Group]:
    """Return the groups that `user` may open `row` to: their own, and those it is open to."""
    if is_at_least(user, Role.SITE_ADMINISTRATOR):
        return Group.objects.order_by("name")
    known = models.Q(user=user.pk)
    if row.pk is not None:
        known |= models.Q(pk__in=row.groups.values("pk"))  # type: ignore[attr-defined]
    return Group.objects.filter(known).distinct().order_by("name")


def why_not_add(user: Somebody, model: type[models.Model]) -> str:
    """Return why the user may not add rows of this model; "" if they may."""
    role = MAKERS.get(model)
    if role is None:
        return f"{_plural(model)} are written by Tare alone."
    return "" if is_at_least(user, role) else _needs(user, role, f"To add {_article(model)}")


def why_not_change(user: Somebody, row: models.Model) -> str:
    """Return why the user may not change this row; "" if they may."""
    model = type(row)
    role = MAKERS.get(model)
    if role is None:
        return f"{_plural(model)} are written by Tare alone."
    if not is_at_least(user, role):
        return _needs(user, role, f"To change {_article(model)}")
    if may_change(user, row):
        return ""
    if isinstance(row, Cluster) and row.transport == LOCAL_TRANSPORT:
        return _needs(user, Role.SITE_ADMINISTRATOR, "It runs as Tare itself. To change it")
    owner = getattr(row, "owner", None)
    whose = f" It is {owner}’s." if owner else ""
    return f"This {model._meta.verbose_name} is not yours to change.{whose}"


def why_not_use(user: Somebody, row: models.Model) -> str:
    """Return why the user may not use this row; "" if they may."""
    kind = f"{type(row)._meta.verbose_name}"
    if not isinstance(user, User) or not user.is_at_least(Role.RESEARCHER):
        return _needs(user, Role.RESEARCHER, f"To use {_a(kind)}")
    if isinstance(row, Cluster):
        return "" if row.usable_by(user) else _why_not_send(row)
    if isinstance(row, Credential):
        usable = Credential.objects.usable_by(user).filter(pk=row.pk).exists()
    else:
        usable = isinstance(row, SharedInside) and _reads(user, row)
    return "" if usable else f"The {kind} {row} is not yours to use."


def _why_not_send(cluster: Cluster) -> str:
    if not cluster.enabled:
        return f"{cluster} is not in service."
    if cluster.transport == LOCAL_TRANSPORT:
        return (
            f"What is sent to {cluster} runs as Tare itself, so only site administrators send "
            "something there, and the people whom they name."
        )
    if cluster.is_by_hand:
        return f"{cluster} is not yours to see."
    if cluster.credential_id is None:
        return f"{cluster} has no credential yet, which would say who may send jobs there."
    return f"The key of {cluster} is not yours to use."


def _reads(user: User, row: models.Model) -> bool:
    rows: Any = type(row)._default_manager
    return bool(rows.visible_to(user).filter(pk=row.pk).exists())


def filter_changeable(user: Somebody, rows: models.QuerySet[Row]) -> models.QuerySet[Row]:
    """Return those of `rows` that `user` may change or delete. One query for a whole list."""
    role = MAKERS.get(rows.model)
    if role is None or not is_at_least(user, role):
        return rows.none()
    return (
        rows
        if is_at_least(user, Role.SITE_ADMINISTRATOR)
        else rows.filter(_changeable_condition(user, rows))
    )


def list_changeable_keys(user: Somebody, rows: Iterable[models.Model]) -> set[int]:
    """Return the keys of those rows of one page, all of one model, that `user` may change."""
    shown = list(rows)
    if not shown:
        return set()
    stored = type(shown[0])._default_manager.filter(pk__in=[row.pk for row in shown])
    return set(filter_changeable(user, stored).values_list("pk", flat=True))


def _changeable_condition(user: Somebody, rows: models.QuerySet[Any]) -> models.Q:
    """Return the condition for rows that a user with a sufficient role may change."""
    model = rows.model
    if model in (User, Group, TrustedKey):
        return models.Q(pk__in=[])
    if model is Cluster:
        shared = ~models.Q(visibility=Visibility.PRIVATE) & filter_shared_with_groups(user, model)
        # What runs on Tare's own machine runs as Tare, beside its keys.
        away = ~models.Q(transport=LOCAL_TRANSPORT) | models.Q(recorded=True)
        return away & (models.Q(owner=user.pk) | shared)
    if model is Credential:
        return models.Q(owner=user.pk) | filter_shared_with_groups(user, model)
    on_own_clusters = models.Q(
        cluster__in=filter_changeable(user, Cluster.objects.all()).values("pk")
    )
    if model in (Partition, Runtime):
        return on_own_clusters
    if model is StagedImage:
        return models.Q(image__owner=user.pk) | on_own_clusters
    if model is DataCopy:
        owned = models.Q(owner=user.pk) | models.Q(data_set__owner=user.pk)
        return owned | on_own_clusters
    if model in (Environment, Operation, CodeCopy):
        return models.Q(owner=user.pk) | on_own_clusters
    return models.Q(owner=user.pk)


def _needs(user: Somebody, role: Role, what: str) -> str:
    if not isinstance(user, User):
        return f"{what}, log in as {_a(role.label)}."
    if not user.is_active:
        return f"{what}, your account must be in service; it is not."
    mine = _a(Role(user.role).label)
    return f"{what} you must be {_a(role.label)}; you are {mine}. A site administrator sets roles."


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"


def _article(model: type[models.Model]) -> str:
    return _a(str(model._meta.verbose_name))


def _plural(model: type[models.Model]) -> str:
    return str(model._meta.verbose_name_plural).capitalize()
