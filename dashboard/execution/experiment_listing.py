"""The list of experiments as an address asks for it: filters, columns and order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import QueryDict

from dashboard.execution.experiment_columns import (
    NO_COLUMNS,
    SORTS,
    ExperimentColumn,
    choose_columns,
)
from dashboard.execution.experiment_filters import find_experiments
from dashboard.execution.experiment_values import read_values, sort_keys
from dashboard.execution.run_columns import Column, Columns, list_columns, shorten
from dashboard.execution.run_conditions import Condition, read_conditions
from dashboard.lists import PER_PAGE, ExperimentFilter, RowGone, list_keys_after, order_rows
from dashboard.typed_requests import Request
from experiments.comparisons import read_kept_verdicts
from experiments.execution.stored_values import list_changed
from experiments.models import Event, Experiment, User
from experiments.models.experiment import ExperimentQuerySet

USUAL_SORT = "-created"
KEPT = (*ExperimentFilter.base_fields, "where", "column", "sort")
"""What the address of a list holds beside the page."""


class ListFilter(ExperimentFilter):
    """The filters of the list, and the conditions on its experiments' runs."""

    conditions: Sequence[Condition] = ()

    @property
    def is_active(self) -> bool:
        return super().is_active or bool(self.conditions)

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """Return label and text of each filter in force, and the address without it."""
        chips = super().chips
        for row in self.conditions:
            rest = self.query.copy()
            rest.pop("page", None)
            rest.setlist("where", [text for text in rest.getlist("where") if text != row.query[1]])
            chips.append((row.column.label, row.text, rest.urlencode()))
        return chips

    @property
    def cleared(self) -> str:
        """Return the address's query without any filter."""
        return urlencode([(name, value) for name, value in self.kept if name != "where"])


@dataclass(frozen=True)
class ExperimentList:
    """The list as an address asks for it; what makes no sense is left out, and said."""

    user: User
    filters: ListFilter
    offered: Columns
    columns: list[ExperimentColumn]
    sort: str
    where_problems: list[str]
    """A sentence for each condition on runs that is left out of the list."""
    other_problems: list[str]
    """A sentence for each column that there is not, to show or to sort by."""

    @property
    def left_out(self) -> list[str]:
        """Return a sentence for each filter that is left out of the list."""
        return [*_list_left_out(self.filters), *self.where_problems]

    @property
    def problems(self) -> list[str]:
        return [*self.left_out, *self.other_problems]

    @property
    def is_descending(self) -> bool:
        return self.sort.startswith("-")

    @property
    def sort_column(self) -> Column | None:
        """Return the column of runs by which it is sorted; None for one of its own."""
        return None if self.sort_key in SORTS else self.offered.get(self.sort_key)

    @property
    def sort_key(self) -> str:
        return self.sort.removeprefix("-")

    @cached_property
    def changed(self) -> set[int]:
        """Return the experiments whose runs have changed since their values were stored."""
        return list_changed()

    @cached_property
    def rows(self) -> ExperimentQuerySet:
        """Return the experiments that fit all filters."""
        rows = self._rows_without_conditions
        return rows if self._fitting is None else rows.filter(pk__in=self._fitting)

    @cached_property
    def _rows_without_conditions(self) -> ExperimentQuerySet:
        return self.filters.apply(select_experiments(self.user))

    @cached_property
    def _fitting(self) -> set[int] | None:
        """Return the experiments that have a run which fulfils all conditions, if there are any."""
        conditions = self.filters.conditions
        return find_experiments(conditions, self.changed) if conditions else None

    def get_page(self, number: str | None) -> Page[int]:
        """Return a page of keys."""
        paginator: Paginator[int] = Paginator(self._order(), PER_PAGE)
        return paginator.get_page(number)

    def list_keys(self) -> list[int]:
        """Return the keys of all its experiments, in its order."""
        return list(self._order())

    def _order(self) -> Any:
        if column := self.sort_column:
            return sort_keys(
                self._list_unordered(), column, self.changed, descending=self.is_descending
            )
        path, rows = SORTS[self.sort_key], self._rows_without_conditions
        ordered = order_rows(rows, F(path), path, descending=self.is_descending)
        keys = ordered.values_list("pk", flat=True)
        return keys if self._fitting is None else [key for key in keys if key in self._fitting]

    def _list_unordered(self) -> set[int]:
        keys = set(self._rows_without_conditions.order_by().values_list("pk", flat=True))
        return keys if self._fitting is None else keys & self._fitting

    def list_keys_after(self, after: int | None, count: int) -> list[int]:
        """Return the keys of `count` experiments, those behind the one with the key `after`.

        Raises RowGone if that is not there, or not for this reader.
        """
        visible = select_experiments(self.user)
        column = self.sort_column
        if column is None:
            path = SORTS[self.sort_key]
            return list_keys_after(
                self.rows,
                visible,
                F(path),
                path,
                descending=self.is_descending,
                after=after,
                count=count,
            )
        keys = self._list_unordered()
        if after is None:
            return sort_keys(keys, column, self.changed, descending=self.is_descending)[:count]
        if after not in keys and not visible.filter(pk=after).exists():
            raise RowGone
        ordered = sort_keys(keys | {after}, column, self.changed, descending=self.is_descending)
        begin = ordered.index(after) + 1
        return ordered[begin : begin + count]


def read_experiment_list(
    request: Request, query: QueryDict | None = None, *, offers_all: bool = False
) -> ExperimentList:
    """Return the list of this state, that of the request's address if none is given.

    What metrics and parameters there are is read where they are asked for, or if it `offers_all`.
    """
    query = request.GET if query is None else query
    filters = ListFilter(request, query=query)
    sort = query.get("sort", USUAL_SORT)
    asked = (*query.getlist("column"), sort)
    needs_all = offers_all or "where" in query or any("." in key for key in asked)
    offered = offer_columns(request.user) if needs_all else NO_COLUMNS
    columns, problems = choose_columns(query.getlist("column"), offered)
    filters.conditions, where_problems = read_conditions(query.getlist("where"), offered)
    key = sort.removeprefix("-")
    if key not in SORTS and offered.get(key) is None:
        problems.append(f"There is no column “{shorten(sort)}” to sort by.")
        sort = USUAL_SORT
    return ExperimentList(
        request.user,
        filters,
        offered,
        columns,
        sort,
        where_problems,
        problems,
    )


def offer_columns(user: User) -> Columns:
    """Return the metrics, parameters and facts of runs that `user` may view."""
    of_runs = list_columns(user)
    return Columns(column for _, columns in of_runs.groups for column in columns if column.name)


def _list_left_out(filters: ExperimentFilter) -> list[str]:
    return [
        f"The filter “{name}={shorten(filters.query.get(name, ''))}” is left out: {errors[0]}"
        for name, errors in filters.errors.items()
    ]


def keep_state(query: QueryDict) -> QueryDict:
    """Return what an address says about the list, without the page and what is unknown."""
    kept = QueryDict(mutable=True)
    for name in KEPT:
        if values := [value for value in query.getlist(name) if value]:
            kept.setlist(name, values)
    return kept


def select_experiments(user: User) -> ExperimentQuerySet:
    """Return the experiments that a person may see, with what they may be sorted by."""
    visible = Experiment.objects.visible_to(user).dated().without_plan()
    return visible.alias(
        changed_at=_find_last_change(),
        repeats_with_added=F("repeats") + Coalesce("extended_repeats", 0),
    )


def _find_last_change() -> Subquery:
    events = Event.objects.filter(experiment=OuterRef("pk")).order_by("-at", "-pk")
    return Subquery(events.values("at")[:1])


def read_experiments(
    keys: Sequence[int], columns: Sequence[ExperimentColumn], asked: ExperimentList | None = None
) -> list[Experiment]:
    """Return the experiments of these keys, in their order, with what the columns show.

    They are of the list that was `asked`, if it is given, and as that knows them.
    """
    rows: Any = Experiment.objects.without_plan().select_related("cluster", "owner", "baseline")
    chosen = {column.key for column in columns}
    if "changed" in chosen:
        rows = rows.annotate(changed_at=_find_last_change())
    rows = rows.prefetch_related(*sorted({"workloads", "environments"} & chosen))
    by_key = rows.in_bulk(keys)
    experiments = [by_key[key] for key in keys if key in by_key]
    if "verdicts" in chosen:
        all_verdicts = read_kept_verdicts(experiments)
        for experiment in experiments:
            experiment.kept_verdicts = all_verdicts.get(experiment.pk, {})
    if of_runs := [column.of_runs for column in columns if column.of_runs]:
        changed = asked.changed if asked else list_changed()
        all_values = read_values([row.pk for row in experiments], of_runs, changed)
        for experiment in experiments:
            experiment.run_values = all_values[experiment.pk]
    return experiments
