"""Template tags on permissions: a button that the reader may not press is not shown."""

from __future__ import annotations

from typing import Any

from django import template
from django.apps import apps
from django.db.models import Model

from dashboard.access.field_changes import FieldChange, describe_changes, describe_kind
from experiments.access import permissions
from experiments.execution.repairs import can_allow_any_node
from experiments.models import AuditEntry

register = template.Library()


@register.filter
def may_add(user: Any, name: str) -> bool:
    """`{% if user|may_add:"cluster" %}`"""
    return permissions.may_add(user, apps.get_model("experiments", name))


@register.filter
def may_change(user: Any, row: Model) -> bool:
    """`{% if user|may_change:cluster %}`"""
    return permissions.may_change(user, row)


@register.filter
def may_administer(user: Any) -> bool:
    """Return whether the user may open the administration pages."""
    return permissions.may_administer(user)


@register.filter
def may_see_audit(user: Any) -> bool:
    """Return whether the user may read the audit log."""
    return permissions.may_see_audit(user)


@register.filter
def may_see_operations(user: Any) -> bool:
    """Return whether the user may see the page *Operations*."""
    return permissions.may_see_operations(user)


register.filter(can_allow_any_node)


@register.filter
def field_changes(entry: AuditEntry) -> list[FieldChange]:
    """Return the field changes of an entry of the audit log."""
    return describe_changes(entry)


register.filter("kind", describe_kind)


@register.filter
def of(mapping: dict[int, str], key: int) -> str:
    """`{{ pages|of:entry.pk }}`: a dictionary's value, "" where there is none."""
    return mapping.get(key, "")
