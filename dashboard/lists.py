"""Lists: filters and order from the address, turned into one page of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.core.paginator import Page, Paginator
from django.db.models import Exists, Expression, F, OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict

from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.models import Cluster, PublishedTable, Run, Study, StudyExperiment
from experiments.models.experiment import ExperimentQuerySet

PER_PAGE = 50
LONGEST_NAME = 150
"""Of a person."""
MOST_STUDIES = 50
"""Studies that a filter offers: the newest. An address may name another one."""
PICKED, MOST_COMPARED = "pick", 50
"""The name of what is selected in a list, in forms and addresses; how many are compared at once."""

Sorts = Mapping[str, str | F | Expression]
"""What the address calls an order: the path of a field, or an expression as `pad_numbers`."""


@dataclass(frozen=True)
class Listing:
    """One page of rows and their order."""

    page: Page[Any]
    sort: str


def make_listing(
    request: OpenRequest,
    rows: QuerySet[Any],
    *,
    sorts: Sorts,
    default: str,
    per_page: int = PER_PAGE,
    count: int | None = None,
    keys_first: bool = False,
) -> Listing:
    """Order `rows` by the address's `sort` (one of `sorts`, `-` first for descending) and cut.

    Rows without a value come last either way, and the primary key settles what is equal, so that
    a row never shows on two pages. Where their `count` is known they are not counted once more.
    With `keys_first` it is cut by keys alone, so that of many long rows only its own are read.
    """
    asked = request.GET.get("sort", default)
    sort = asked if asked.removeprefix("-") in sorts else default
    by = sorts[sort.removeprefix("-")]
    expression, path = (F(by), by) if isinstance(by, str) else (by, "")
    ordered = order_rows(rows, expression, path, descending=sort.startswith("-"))
    paginator: Paginator[Any] = Paginator(ordered, per_page)
    if count is not None:
        paginator.count = count  # which is computed once, and kept there
    page = paginator.get_page(request.GET.get("page"))
    if keys_first:
        page.object_list = ordered.filter(pk__in=page.object_list.values("pk"))  # type: ignore[attr-defined]
    return Listing(page, sort)


def order_rows(
    rows: QuerySet[Any], expression: F | Expression, path: str, *, descending: bool
) -> QuerySet[Any]:
    """Return `rows` ordered by an expression, which is the field at `path` or has none ("").

    Rows without a value come last either way, and the primary key settles what is equal.
    """
    # Only where there may be none: an index in plain order does not serve NULLS LAST.
    last = {"nulls_last": True} if not path or _may_be_null(rows.model, path) else {}
    if descending:
        return rows.order_by(expression.desc(**last), "-pk")
    return rows.order_by(expression.asc(**last), "pk")


class RowGone(LookupError):
    """The row after which a list should go on is not there, or not for this person."""


def list_keys_after(
    rows: QuerySet[Any],
    visible: QuerySet[Any],
    expression: F | Expression,
    path: str,
    *,
    descending: bool,
    after: int | None,
    count: int,
) -> list[int]:
    """Return `count` keys of `rows` in the order of `order_rows`: those behind the row `after`.

    Where a list begins is found by an index, however many rows come before it. Raises RowGone if
    `after` is none of `visible`, which are rows without filters.
    """
    ordered = order_rows(rows, expression, path, descending=descending)
    if after is None:
        return list(ordered.values_list("pk", flat=True)[:count])
    last = visible.filter(pk=after).annotate(sort_value=expression)
    value = last.order_by().values("sort_value")
    row = value.first()
    if row is None:
        raise RowGone
    ordered = ordered.alias(sort_value=expression)
    side = "lt" if descending else "gt"
    behind = Q(**{f"pk__{side}": after})
    keys: list[int] = []
    if row["sort_value"] is not None:
        limit = Subquery(value)
        further = Q(**{f"sort_value__{side}": limit}) | Q(sort_value=limit) & behind
        part = ordered.filter(further, **{f"sort_value__{side}e": limit})
        keys = list(part.values_list("pk", flat=True)[:count])
        behind = Q()
    if len(keys) < count and (not path or _may_be_null(rows.model, path)):
        part = ordered.filter(behind, sort_value__isnull=True)
        keys += part.values_list("pk", flat=True)[: count - len(keys)]
    return keys


def _may_be_null(model: Any, path: str) -> bool:
    """Return whether a column by which rows of `model` are sorted may be null."""
    for name in path.split("__"):
        try:
            field = model._meta.get_field(name)
        except FieldDoesNotExist:
            return True
        if field.null:
            return True
        model = field.related_model
    return False


class Filter(forms.Form):
    """Filter fields from the address; a value that makes no sense is ignored."""

    use_required_attribute = False

    def __init__(
        self, request: OpenRequest, *, query: QueryDict | None = None, leave_out: Sequence[str] = ()
    ) -> None:
        self.query = request.GET if query is None else query
        super().__init__(self.query, auto_id="filter_%s")
        self.user = request.user
        for name in leave_out:
            del self.fields[name]
        if "cluster" in self.fields and request.user.is_authenticated:
            clusters = Cluster.objects.visible_to(request.user)
            self.fields["cluster"].queryset = clusters  # type: ignore[attr-defined]
        self.set_choices()
        for field in self.fields.values():
            field.required = False
            field.widget.attrs["class"] = (
                "form-select" if isinstance(field, forms.ChoiceField) else "form-control"
            )
        self.is_valid()

    def set_choices(self) -> None:
        """Give fields the choices that depend on rows, before the address is validated."""

    @property
    def is_active(self) -> bool:
        return any(self.data.get(name) for name in self.fields)

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """Return label and value of each filter in force but the search, and the address without.

        Whoever removes one begins at the first page.
        """
        chips = []
        for name, field in self.fields.items():
            value = self.value_of(name)
            if name == "q" or not value:
                continue
            has_texts = type(field) is forms.ChoiceField  # of rows, the row itself is the value
            texts: dict[Any, str] = dict(field.choices) if has_texts else {}  # type: ignore[attr-defined]
            rest = self.query.copy()
            for key in (name, "page"):
                rest.pop(key, None)
            chips.append(
                (str(field.label or name.title()), texts.get(value, str(value)), rest.urlencode())
            )
        return chips

    @property
    def menu_fields(self) -> list[forms.BoundField]:
        """Return the fields of the menu: the search has a box of its own."""
        return [field for field in self.visible_fields() if field.name != "q"]

    @property
    def in_force(self) -> list[tuple[str, str]]:
        """Return names and values of the filters that the address sets."""
        return self._list_parameters(lambda name: name in self.fields)

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Return what else the address says, as its order and its tab, but the page's number."""
        return self._list_parameters(lambda name: name not in self.fields and name != "page")

    @property
    def cleared(self) -> str:
        """Return the address's query without any filter."""
        return urlencode(self.kept)

    def _list_parameters(self, is_wanted: Callable[[str], bool]) -> list[tuple[str, str]]:
        return [
            (name, value)
            for name, values in self.query.lists()
            if is_wanted(name)
            for value in values
            if value
        ]

    def value_of(self, name: str) -> Any:
        return self.cleaned_data.get(name)


class WordFilter(Filter):
    """A filter of lists by name."""

    q = forms.CharField(label="Name", max_length=300)

    @property
    def search_text(self) -> str:
        return self.value_of("q") or ""


def read_picked_keys(query: QueryDict) -> list[int]:
    """Return the keys of the rows that an address names, each once."""
    keys = (parse_whole_number(text) for text in query.getlist(PICKED)[:MOST_COMPARED])
    return [*dict.fromkeys(key for key in keys if key is not None)]


class TableFilter(Filter):
    """The filters of the list of published tables."""

    q = forms.CharField(label="Question or source", max_length=300)
    mine = forms.ChoiceField(label="Owner", choices=[("", "anybody"), ("me", "me")])

    def apply(self, rows: QuerySet[PublishedTable]) -> QuerySet[PublishedTable]:
        if text := self.value_of("q"):
            rows = rows.filter(Q(question__icontains=text) | Q(source__icontains=text))
        return rows.filter(owner=self.user.pk) if self.value_of("mine") else rows


class ExperimentFilter(Filter):
    """The filters of the list of experiments; an address may name any person as the owner."""

    q = forms.CharField(label="Question", max_length=300)
    state = forms.ChoiceField(
        choices=[
            ("", "any"),
            ("draft", "draft"),
            ("alive", "waiting, queued or running"),
            ("ended", "finished"),
            ("imported", "imported"),
        ]
    )
    cluster = forms.ModelChoiceField(Cluster.objects, empty_label="any")
    mine = forms.ChoiceField(label="Owner", choices=[("", "anybody"), ("me", "me")])
    tag = forms.CharField(label="Tag", max_length=40, widget=forms.TextInput(attrs={"size": "12"}))
    study = forms.ModelChoiceField(Study.objects.none(), empty_label="any", label="Study")
    archived = forms.ChoiceField(
        label="Archived", choices=[("", "no"), ("only", "yes"), ("all", "yes or no")]
    )

    def set_choices(self) -> None:
        owner = self.data.get("mine", "")
        studies = Study.objects.visible_to(self.user)
        newest = studies.order_by("-created_at").values("pk")[:MOST_STUDIES]
        chosen = parse_whole_number(self.data.get("study"))
        offered: Any = self.fields["study"]
        offered.queryset = studies.filter(Q(pk__in=newest) | Q(pk=chosen or 0))
        field: Any = self.fields.get("mine")
        if field and owner not in dict(field.choices) and len(owner) <= LONGEST_NAME:
            field.choices = [*field.choices, (owner, owner)]

    def apply(self, rows: ExperimentQuerySet) -> ExperimentQuerySet:
        alive = Exists(Run.objects.filter(experiment=OuterRef("pk")).exclude(state__in=Run.FINAL))
        by_state = {
            "draft": Q(launched_at=None, imported_at=None),
            "imported": Q(imported_at__isnull=False),
            "alive": Q(launched_at__isnull=False) & Q(alive),
            "ended": Q(launched_at__isnull=False) & ~Q(alive),
        }
        if text := self.value_of("q"):
            rows = rows.filter(question__icontains=text)
        if self.value_of("cluster"):
            rows = rows.filter(cluster=self.value_of("cluster"))
        if owner := self.value_of("mine"):
            own = Q(owner=self.user.pk) if owner == "me" else Q(owner__username=owner)
            rows = rows.filter(own)
        if tag := self.value_of("tag"):
            rows = rows.filter(tags__contains=[tag])
        if study := self.value_of("study"):
            # Not a join, which would let an experiment come more than once.
            members = StudyExperiment.objects.filter(study=study)
            rows = rows.filter(pk__in=members.values("experiment"))
        if self.value_of("archived") != "all":
            rows = rows.filter(archived_at__isnull=self.value_of("archived") != "only")
        return rows.filter(by_state.get(self.value_of("state"), Q()))
