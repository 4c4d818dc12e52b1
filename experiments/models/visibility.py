"""The visibility of rows that people make, by one rule for all models.

Who may change or use a row is decided in `experiments.access.permissions`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group
from django.core.exceptions import EmptyResultSet
from django.db import models
from django.db.models.expressions import RawSQL

if TYPE_CHECKING:
    from experiments.models.user import User

Row = TypeVar("Row", bound=models.Model)
Rule = TypeVar("Rule", bound=Callable[[Any, Any], Any])
"""Leaves of rows those that a person may view."""

MEMBER = -1_804_289_383
"""The key of no user: where it stands in a rule's parameters, the key of the one who asks goes."""


class Visibility(models.TextChoices):
    """Who can view a row."""

    PRIVATE = "private", "only me"
    GROUPS = "groups", "my groups"
    MEMBERS = "members", "everybody who can log in"
    PUBLIC = "public", "everybody with the link"


def readers_inside() -> list[tuple[str, str]]:
    """Return the choices for rows that no link opens."""
    return [choice for choice in Visibility.choices if choice[0] != Visibility.PUBLIC]


def filter_shared_with_groups(user: User | AnonymousUser, model: type[models.Model]) -> models.Q:
    """Return the rule for rows that name a group of `user`."""
    # A subquery, so that counts annotated later are not multiplied by a join.
    groups: Any = model._meta.get_field("groups")
    named = groups.remote_field.through._default_manager.filter(group__user=user.pk)
    return models.Q(pk__in=named.values(groups.m2m_column_name()))


def compile_once(rule: Rule) -> Rule:
    """Have the SQL of a rule made once a process, and not for each request.

    Rules that ask for rules take Django up to 25 ms to build. For everybody who logs in and is no
    site administrator they are the same but for the person's key.
    """

    @wraps(rule)
    def visible_to(rows: Any, user: User | AnonymousUser) -> Any:
        if not user.is_authenticated or user.is_superuser:
            return rule(rows, user)
        statement, parameters = compile_rule(rule, rows.model)
        own = [user.pk if parameter == MEMBER else parameter for parameter in parameters]
        return rows.filter(pk__in=RawSQL(statement, own))  # noqa: S611 -- made by Django

    return cast(Rule, visible_to)


@cache
def compile_rule(
    rule: Callable[[Any, Any], Any], model: type[models.Model]
) -> tuple[str, tuple[Any, ...]]:
    """Return SQL that selects the keys of the rows that a member may view, and its parameters."""
    member = get_user_model()(pk=MEMBER)
    visible = rule(model._default_manager.all(), member).order_by()
    statement, parameters = visible.values("pk").query.sql_with_params()
    return statement, tuple(parameters)


def write_rule(
    model: type[models.Model], user: User | AnonymousUser, rule: str = "visible_to"
) -> tuple[str, list[Any]]:
    """Return SQL that selects the keys of the rows that `user` may view, and its parameters.

    For statements that are no querysets; compiled once a process for whoever is a member. `rule`
    is the method of the model's rows that leaves what `user` may view, or use.
    """
    rows: Any = model._default_manager.all()
    if user.is_authenticated and not user.is_superuser:
        statement, parameters = compile_rule(getattr(type(rows), rule), model)
        return statement, [user.pk if value == MEMBER else value for value in parameters]
    try:
        allowed = getattr(rows, rule)(user)
        statement, own = allowed.order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:  # a visitor whose link opens no such row
        return "SELECT NULL::bigint WHERE false", []
    return statement, list(own)


class SharedQuerySet(models.QuerySet[Row]):
    """Rows with an `owner`, a `visibility`, and the `groups` that it means."""

    def visible_to(self, user: User | AnonymousUser) -> Self:
        """Return the rows that `user` may view; for a visitor those that their links open."""
        return self.filter(self.shown_to(user))

    def shown_to(self, user: User | AnonymousUser) -> models.Q:
        """Return the rule itself, to be joined with others."""
        if not user.is_authenticated:
            from experiments.models.link import filter_opened  # which needs this module

            return filter_opened(self.model, getattr(user, "links", ()))
        if user.is_superuser:
            return ~models.Q(pk__in=[])
        public = models.Q(visibility=Visibility.PUBLIC)
        members = models.Q(visibility=Visibility.MEMBERS)
        in_groups = models.Q(visibility=Visibility.GROUPS) & filter_shared_with_groups(
            user, self.model
        )
        return public | members | models.Q(owner=user.pk) | in_groups

    def shown_to_or_recorded(self, user: User | AnonymousUser, *, recorded: models.Q) -> models.Q:
        """Return the rule for rows of which some, the `recorded`, came with imported logs.

        Whoever may view an experiment with those logs sees them.
        """
        if user.is_superuser:
            return self.shown_to(user)
        experiments: Any = self.model._meta.get_field("experiments").related_model
        read = experiments.objects.visible_to(user)
        # A subquery, so that counts annotated later are not multiplied by a join.
        with_logs = self.filter(experiments__in=read.values("pk")).values("pk")
        mine = models.Q(owner=user.pk)
        return (~recorded & self.shown_to(user)) | (recorded & (mine | models.Q(pk__in=with_logs)))


class Shared(models.Model):
    """A row that a person has made, and its visibility."""

    Visibility = Visibility

    visibility = models.CharField(
        max_length=10, choices=Visibility.choices, default=Visibility.MEMBERS
    )
    groups = models.ManyToManyField(
        Group, blank=True, related_name="+", help_text="The groups that are meant by my groups."
    )

    class Meta:
        abstract = True

    @property
    def is_open_to_members(self) -> bool:
        """Return whether everybody who can log in can view it."""
        return self.visibility in (Visibility.MEMBERS, Visibility.PUBLIC)

    @property
    def visibility_text(self) -> str:
        """Return who can view it, in words."""
        if self.visibility == Visibility.GROUPS:
            names = ", ".join(group.name for group in self.groups.all())
            return f"group {names}" if names else "no group yet"
        return str(Visibility(self.visibility).label)


class SharedInside(Shared):
    """The same for rows that no link opens."""

    visibility = models.CharField(max_length=10, choices=readers_inside, default=Visibility.MEMBERS)

    class Meta:
        abstract = True
