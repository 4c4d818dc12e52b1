"""Who may do what: the one place of rules, for pages, forms, admin and commands alike.

Each question has two forms: `may_add(user, Model)` answers yes or no, `why_not_add(user, Model)`
says in words what stands against it, and "" where nothing does. What nobody wrote a rule for is
refused.
"""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser, Group
from django.db import models

from experiments.models import (
    Cluster,
    Credential,
    Environment,
    Experiment,
    Image,
    Partition,
    PublishedTable,
    Role,
    Runtime,
    StagedImage,
    User,
    Workload,
)

Somebody = User | AnonymousUser

MAKERS: dict[type[models.Model], Role] = {
    Experiment: Role.RESEARCHER,
    PublishedTable: Role.RESEARCHER,
    Workload: Role.RESEARCHER,
    Environment: Role.RESEARCHER,
    Image: Role.RESEARCHER,
    StagedImage: Role.RESEARCHER,
    Cluster: Role.CLUSTER_ADMINISTRATOR,
    Partition: Role.CLUSTER_ADMINISTRATOR,
    Runtime: Role.CLUSTER_ADMINISTRATOR,
    Credential: Role.CLUSTER_ADMINISTRATOR,
    User: Role.SITE_ADMINISTRATOR,
    Group: Role.SITE_ADMINISTRATOR,
}
"""The least role that makes, changes and deletes such rows. Others are written by Tare alone."""


def is_at_least(user: Somebody, role: Role) -> bool:
    return isinstance(user, User) and user.is_at_least(role)


def may_add(user: Somebody, model: type[models.Model]) -> bool:
    return not why_not_add(user, model)


def may_change(user: Somebody, row: models.Model) -> bool:
    """Whether `user` may change or delete `row`."""
    return not why_not_change(user, row)


def may_use(user: Somebody, row: models.Model) -> bool:
    """Whether `user` may send jobs to a cluster, or have Tare log in with a credential."""
    return not why_not_use(user, row)


def may_see_audit(user: Somebody) -> bool:
    """Site administrators all of it; cluster administrators what concerns their clusters."""
    return is_at_least(user, Role.CLUSTER_ADMINISTRATOR)


def may_administer(user: Somebody) -> bool:
    """Whether the administration pages open at all."""
    return is_at_least(user, Role.CLUSTER_ADMINISTRATOR)


def may_set_roles(user: Somebody) -> bool:
    return is_at_least(user, Role.SITE_ADMINISTRATOR)


def why_not_add(user: Somebody, model: type[models.Model]) -> str:
    role = MAKERS.get(model)
    if role is None:
        return f"{_plural(model)} are written by Tare alone."
    return "" if is_at_least(user, role) else _needs(user, role, f"To add {_article(model)}")


def why_not_change(user: Somebody, row: models.Model) -> str:
    model = type(row)
    role = MAKERS.get(model)
    if role is None:
        return f"{_plural(model)} are written by Tare alone."
    if not is_at_least(user, role):
        return _needs(user, role, f"To change {_article(model)}")
    if _changes(user, row):
        return ""
    owner = getattr(row, "owner", None)
    whose = f" It is {owner}’s." if owner else ""
    return f"This {model._meta.verbose_name} is not yours to change.{whose}"


def why_not_use(user: Somebody, row: models.Model) -> str:
    name = type(row)._meta.verbose_name
    if not isinstance(row, Cluster | Credential):
        return f"There is no rule for who may use a {name}."
    if not isinstance(user, User) or not user.is_at_least(Role.RESEARCHER):
        return _needs(user, Role.RESEARCHER, f"To use a {name}")
    if isinstance(row, Credential):
        usable = Credential.objects.usable_by(user).filter(pk=row.pk).exists()
        return "" if usable else f"The credential {row} is not yours to use."
    usable = row.usable_by(user)
    return "" if usable else f"{row} is not in service, or its key is not yours to use."


def _changes(user: Somebody, row: models.Model) -> bool:
    """Whose role is enough: is this row theirs?"""
    if is_at_least(user, Role.SITE_ADMINISTRATOR):
        return True
    if isinstance(row, Partition | Runtime):
        return _changes(user, row.cluster)
    if isinstance(row, StagedImage):
        return row.image.owner_id == user.pk or may_change(user, row.cluster)
    if isinstance(row, Environment) and may_change(user, row.cluster):
        return True
    return getattr(row, "owner_id", None) == user.pk


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
