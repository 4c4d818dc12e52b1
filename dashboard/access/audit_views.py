"""The audit log: who changed what in matters of trust."""

from __future__ import annotations

from django import forms
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access.field_changes import KINDS, find_pages, list_stored_kinds
from dashboard.access.rights import require
from dashboard.lists import Filter, make_listing
from dashboard.typed_requests import Request
from experiments.access.permissions import list_readable_entries, why_not_see_audit
from experiments.models import AuditEntry


class AuditFilter(Filter):
    """The filter of the audit log; pages of objects link here with the keys `object` and `on`."""

    q = forms.CharField(label="Name, change or reason", max_length=300)
    kind = forms.ChoiceField(choices=[("", "any"), *sorted(KINDS.items())])
    who = forms.CharField(label="Who", max_length=150)
    since = forms.DateField(widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(widget=forms.DateInput(attrs={"type": "date"}))
    object = forms.IntegerField(label="Number", widget=forms.HiddenInput)
    on = forms.IntegerField(label="Number of the cluster", widget=forms.HiddenInput)

    def apply(self, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        if text := self.value_of("q"):
            in_change_or_reason = Q(what__icontains=text) | Q(why__icontains=text)
            rows = rows.filter(Q(name__icontains=text) | in_change_or_reason)
        if kind := self.value_of("kind"):
            rows = rows.filter(kind__in=list_stored_kinds(kind))
        for name, path in (
            ("who", "actor__username__icontains"),
            ("since", "at__date__gte"),
            ("until", "at__date__lte"),
            ("on", "cluster_pk"),
        ):
            if self.value_of(name):
                rows = rows.filter(**{path: self.value_of(name)})
        if self.value_of("object") is not None:
            rows = rows.filter(object_pk=str(self.value_of("object")))
        return rows


@require_safe
def audit(request: Request) -> HttpResponse:
    """Show the entries of the audit log that the reader may see."""
    require(why_not_see_audit(request.user))
    filters = AuditFilter(request)
    rows = filters.apply(list_readable_entries(request.user)).select_related("actor")
    entries_listing = make_listing(request, rows, sorts={"at": "at", "name": "name"}, default="-at")
    context = {
        "listing": entries_listing,
        "filter": filters,
        "entries": entries_listing.page.object_list,
        "pages": find_pages(entries_listing.page.object_list, request.user),
    }
    return render(request, "access/audit/list.html", context)
