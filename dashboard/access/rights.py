"""Permission checks for views: each refusal says why, and which role is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet, Value
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404

from dashboard.typed_requests import OpenRequest
from experiments.access.permissions import why_not_add, why_not_change
from experiments.models import Experiment, PublishedTable

View = Callable[..., HttpResponseBase]
Row = TypeVar("Row", bound=Model)


def require(why_not: str) -> None:
    """Raise PermissionDenied with the given reason; "" lets the request pass."""
    if why_not:
        raise PermissionDenied(why_not)


def require_maker_of(model: type[Model]) -> Callable[[View], View]:
    """Return a decorator that admits only people whose role may create such rows."""

    def decorated(view: View) -> View:
        @wraps(view)
        def checked(request: OpenRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            require(why_not_add(request.user, model))
            return view(request, *args, **kwargs)

        return checked

    return decorated


def by_link(view: View) -> View:
    """Let visitors without an account read what a link has opened to them.

    For a visitor who is not logged in, a private row and a missing one look alike.
    """

    @wraps(view)
    def checked(request: OpenRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except Http404:
            if request.user.is_authenticated:
                raise
            return redirect_to_login(request.get_full_path())

    return login_not_required(checked)


def filter_readable_keys(user: Any, model: Any, keys: Iterable[int | None]) -> set[int]:
    """Return those of `keys` whose pages `user` may open: a link to another one leads nowhere."""
    if not user.is_authenticated:
        return set()
    return set(model.objects.visible_to(user).filter(pk__in=set(keys)).values_list("pk", flat=True))


def filter_readable_rows(user: Any, keys: Mapping[Any, Iterable[int]]) -> set[tuple[Any, int]]:
    """Return the models and keys of those rows whose pages `user` may open; one statement for all.

    `keys` has them by their models.
    """
    if not user.is_authenticated:
        return set()
    keys_of_models = [(model, set(own)) for model, own in keys.items()]
    selected = [
        model.objects.visible_to(user)
        .filter(pk__in=own)
        .order_by()
        .annotate(place=Value(place))
        .values_list("place", "pk")
        for place, (model, own) in enumerate(keys_of_models)
        if own
    ]
    if not selected:
        return set()
    found = selected[0].union(*selected[1:], all=True)
    return {(keys_of_models[place][0], pk) for place, pk in found}


def get_readable(request: OpenRequest, pk: int, *, with_plan: bool = False) -> Experiment:
    """Return the experiment; Http404 if it is hidden from the reader."""
    rows = Experiment.objects.visible_to(request.user)
    if not with_plan:
        rows = rows.without_plan()
    return get_object_or_404(
        rows.select_related("cluster", "partition", "baseline", "owner", "citation"), pk=pk
    )


def get_editable(request: OpenRequest, pk: int) -> Experiment:
    """Return the experiment; Http404 if hidden from the reader, PermissionDenied if not theirs."""
    experiment = get_readable(request, pk)
    require(why_not_change(request.user, experiment))
    return experiment


def visible_row(request: HttpRequest, model: type[Row], pk: int, *related: str) -> Row:
    """Return the row with its `related` ones; Http404 if it is hidden from the reader."""
    manager: Any = model._default_manager
    rows: QuerySet[Row] = manager.visible_to(request.user)
    if related:  # without a name, Django would take all
        rows = rows.select_related(*related)
    return get_object_or_404(rows, pk=pk)


def changeable_row(request: HttpRequest, model: type[Row], pk: int, *related: str) -> Row:
    """Return the row; Http404 if it is hidden from the reader, PermissionDenied if not theirs."""
    row = visible_row(request, model, pk, *related)
    require(why_not_change(request.user, row))
    return row


def get_readable_table(request: OpenRequest, pk: int) -> PublishedTable:
    """Return the published table; Http404 if it is hidden from the reader."""
    return visible_row(request, PublishedTable, pk, "owner")


def get_editable_table(request: OpenRequest, pk: int) -> PublishedTable:
    return changeable_row(request, PublishedTable, pk, "owner")
