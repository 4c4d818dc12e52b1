"""What all administration pages share: `experiments.access.permissions`, and the audit log.

Nobody has Django's own permissions: roles decide, here as on the pages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import JSONField, Model, QuerySet
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse
from django_rq.admin import QueueAdmin

from experiments.access import audit, permissions
from experiments.access.own_columns import list_judged_columns
from experiments.access.visibility_fields import GROUPS_HELP
from experiments.admin.json_field import PlainJSON
from experiments.models import Cluster, Credential, DataSet, Runtime, StagedImage, User


class Ruled(admin.ModelAdmin):  # type: ignore[type-arg]
    """Shows the rows that one may change, and writes every change down."""

    formfield_overrides: ClassVar[Any] = {JSONField: {"form_class": PlainJSON}}

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_add_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return permissions.may_add_in_administration(request.user, self.model)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        allowed = self.has_add_permission(request)
        return allowed and (obj is None or permissions.may_change(request.user, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return permissions.filter_changeable(request.user, super().get_queryset(request))

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """Offer what one may use; what the row names already stays among it."""
        field: Any = super().formfield_for_foreignkey(db_field, request, **kwargs)
        rows = list_offered_rows(request.user, db_field) if field and request else None
        if rows is not None:
            named = getattr(self._row(request), db_field.attname)
            field.queryset = rows | rows.model._default_manager.filter(pk=named)
        return field

    def formfield_for_manytomany(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        if field and request and db_field.name == "groups" and self.model is not User:
            row = self._row(request)
            field.queryset = permissions.list_groups_to_share_with(request.user, row)
            field.help_text = GROUPS_HELP
        return field

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field and db_field.name == "visibility":
            field.label, field.required = "Visibility", False  # the model knows the usual ones
        return accept_kind_of_default(field, db_field)

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Let forms know whose they are: `self.by`."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        return type(form.__name__, (form,), {"by": request.user})

    def history_view(self, request: Any, object_id: str, extra_context: Any = None) -> Any:
        """Lead to the audit log, which knows what was changed elsewhere too."""
        if self.get_object(request, object_id) is None:
            raise PermissionDenied
        query = urlencode({"kind": audit.name_kind(self.model), "object": object_id})
        return redirect(f"{reverse('audit')}?{query}")

    def _row(self, request: HttpRequest) -> Any:
        """Return the row of this page; an empty one where it is being added."""
        pk = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
        row = self.get_queryset(request).filter(pk=pk).first() if pk else None
        return row or self.model()

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        stored = self.model._default_manager.filter(pk=obj.pk).first() if change else None
        request.audit_state = audit.read_values(stored)
        if change:  # others may have written the rest since the page was opened: a visit its lease
            obj.save(update_fields=list_judged_columns(form))
        else:
            super().save_model(request, obj, form, change)

    def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
        """Write the entry of the row itself here, where its groups have been stored as well."""
        form.save_m2m()
        stored = self.model._default_manager.get(pk=form.instance.pk)
        audit.saved(request.user, stored, request.audit_state)
        for formset in formsets:
            self.save_formset(request, form, formset, change=change)

    def save_formset(self, request: Any, form: Any, formset: Any, change: bool) -> None:
        before = {row.pk: audit.read_values(row) for row in _stored(formset)}
        for deleted_form in formset.deleted_forms:
            if deleted_form.instance.pk in before:
                audit.deleted(request.user, deleted_form.instance)
        super().save_formset(request, form, formset, change)
        for row in [*formset.new_objects, *(row for row, _ in formset.changed_objects)]:
            stored = type(row)._default_manager.get(pk=row.pk)
            audit.saved(request.user, stored, before.get(row.pk, {}))

    def delete_model(self, request: Any, obj: Any) -> None:
        audit.delete(request.user, obj)

    @transaction.atomic
    def delete_queryset(self, request: Any, queryset: Any) -> None:
        for obj in queryset:
            self.delete_model(request, obj)


def accept_kind_of_default(field: Any, db_field: Any) -> Any:
    """Let a field for JSON take what the column holds by default, a list or a dict."""
    if isinstance(field, PlainJSON):
        field.kind = type(db_field.get_default())
    return field


def _stored(formset: Any) -> QuerySet[Any]:
    """The formset's rows as they are stored; its own hold what was typed."""
    rows = formset.queryset
    return rows.model._default_manager.filter(pk__in=[row.pk for row in rows])  # type: ignore[no-any-return]


def list_offered_rows(user: Any, field: Any) -> QuerySet[Any] | None:
    """Return the rows that `user` may put into a form's field; None: no rule of ours.

    What stands there runs with the cluster's key: so it must be one's own to use, or to change.
    """
    model = field.related_model
    keys = Credential.objects.usable_by(user)
    if field.name == "jump_host":
        known = Cluster.objects.visible_to(user)
        return known if user.is_superuser else known.filter(credential__in=keys)
    if model is Credential:
        return keys
    clusters = permissions.list_clusters_to_furnish(user)
    if model is Cluster:
        return clusters
    if model is DataSet:
        return DataSet.objects.visible_to(user)
    if model in (Runtime, StagedImage):
        rows: QuerySet[Any] = model._default_manager.filter(cluster__in=clusters)
        return rows
    return None


class RuledInline(admin.StackedInline):  # type: ignore[type-arg]
    """Rows that are a part of another: whoever may change that one may change these."""

    extra = 0
    formfield_overrides: ClassVar[Any] = {JSONField: {"form_class": PlainJSON}}

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        return accept_kind_of_default(
            super().formfield_for_dbfield(db_field, request, **kwargs), db_field
        )

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        allowed = permissions.may_add_in_administration(request.user, self.model)
        return allowed and (obj is None or permissions.may_change(request.user, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field: Any = super().formfield_for_foreignkey(db_field, request, **kwargs)
        rows = list_offered_rows(request.user, db_field) if field and request else None
        if rows is not None:
            field.queryset = rows
        return field


class Owned(Ruled):
    """Whoever makes a row owns it."""

    readonly_fields: ClassVar[Any] = ("owner",)

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.owner = request.user
        super().save_model(request, obj, form, change)


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that only Tare writes."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return permissions.may_see_records(request.user)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return permissions.may_see_records(request.user)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class Queues(QueueAdmin):
    """django-rq's pages open to all staff; cluster administrators are staff, queues not theirs."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return permissions.may_see_records(request.user)

    def get_urls(self) -> list[Any]:
        urls: list[Any] = super().get_urls()  # type: ignore[no-untyped-call]
        for pattern in urls:
            pattern.callback = _for_site_administrators(pattern.callback)
        return urls


def _for_site_administrators(view: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.user.is_authenticated and not permissions.may_see_records(request.user):
            raise PermissionDenied("Queues are for site administrators.")
        return view(request, *args, **kwargs)

    return checked
