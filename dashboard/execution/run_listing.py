"""The list of runs as an address asks for it: columns, filters and order."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.http import QueryDict

from dashboard.execution.run_columns import Column, Columns, choose_columns, list_columns, shorten
from dashboard.execution.run_conditions import Condition, make_condition, read_conditions
from dashboard.execution.run_order import Row, RunsInOrder
from dashboard.typed_requests import Request, parse_whole_number
from experiments.models import Cluster, Experiment, Measurement, Run, User

PER_PAGE = 100
USUAL_SORT = "-began"
OLDER = {"state": "=", "workload": "~", "environment": "~"}
"""Filters as addresses wrote them before, with the comparison that each stood for."""
ARCHIVED = ("", "only", "all")
"""Which experiments' runs are listed, by whether they are archived; usually those that are not."""
KEPT = ("q", *OLDER, "cluster", "where", "column", "sort", "tag", "archived")
"""What the address of a list holds beside the page."""


@dataclass(frozen=True)
class RunList:
    """The list as an address asks for it; what makes no sense is left out, and said."""

    user: User
    query: QueryDict
    offered: Columns
    columns: list[Column]
    conditions: list[Condition]
    sort: str
    problems: list[str]
    left_out: list[str]
    """The sentences of `problems` on filters: what they ask for is not left out of the list."""
    picked: frozenset[str] | None = None
    """The uids of the only runs of it; None for all."""
    experiment: int | None = None
    """The key of the only experiment whose runs are listed; None for all."""

    @property
    def search_text(self) -> str:
        return self.query.get("q", "").strip()

    @property
    def tags(self) -> list[str]:
        """Return the tags that the runs' experiments have, all of them: at most one too many."""
        tags = dict.fromkeys(tag.strip() for tag in self.query.getlist("tag"))
        return [tag for tag in tags if tag][: Experiment.MOST_TAGS + 1]

    @property
    def archived(self) -> str:
        """Return "only" for runs of archived experiments, "all" for those of others as well."""
        return self.query.get("archived", "")

    @property
    def runs(self) -> RunsInOrder:
        """Return the runs that the reader may see and that fulfil all conditions."""
        visible = Experiment.objects.visible_to(self.user)
        if tags := self.tags:
            visible = visible.filter(tags__contains=tags)
        if self.archived != "all":
            visible = visible.filter(archived_at__isnull=self.archived != "only")
        rows = Run.objects.filter(experiment__in=visible)
        if self.experiment is not None:
            rows = rows.filter(experiment=self.experiment)
        if self.picked is not None:
            rows = rows.filter(uid__in=self.picked)
        if text := self.search_text:
            # Experiments first: with their keys PostgreSQL uses the indexes on runs for both.
            asking = list(visible.filter(question__icontains=text).values_list("pk", flat=True))
            rows = rows.filter(Q(uid__startswith=text.lower()) | Q(experiment__in=asking))
        cluster = parse_whole_number(self.query.get("cluster", ""))
        if cluster is not None and any(row.query[0] == "cluster" for row in self.conditions):
            rows = rows.filter(experiment__cluster=cluster)
        others = [row for row in self.conditions if row.query[0] != "cluster"]
        column = self.offered.get(self.sort.removeprefix("-"))
        assert column  # which `read_run_list` has looked for
        return RunsInOrder(
            rows,
            others,
            self.columns,
            column,
            descending=self.sort.startswith("-"),
        )

    def get_page(self) -> Page[Row]:
        paginator: Paginator[Row] = Paginator(self.runs, PER_PAGE)  # type: ignore[arg-type]
        return paginator.get_page(self.query.get("page"))

    def list_units(self) -> dict[str, list[str]]:
        """Return the units of the values in each column of a file, by the columns' keys.

        Programs may report one metric in several; what a workload declares need not be in the list.
        """
        units = {column.key: ["s"] for column in self.columns if column.kind == "duration"}
        metrics = {column.name: column for column in self.columns if column.kind == "metric"}
        if not metrics:
            return units
        measured = Measurement.objects.filter(run__in=self.runs.rows, metric__in=list(metrics))
        pairs = measured.order_by().values_list("metric", "unit").distinct()
        for metric, unit in sorted(pairs):
            units.setdefault(metrics[metric].key, []).append(unit)
        return {column.key: [column.unit] for column in metrics.values()} | units

    @property
    def is_filtered(self) -> bool:
        return bool(self.conditions or self.search_text or self.tags or self.archived)


def read_run_list(
    request: Request, query: QueryDict | None = None, offered: Columns | None = None
) -> RunList:
    """Return the list of this state, that of the request's address if none is given.

    `offered` are the columns that it may name, usually all that have a meaning for the reader.
    """
    query = request.GET if query is None else query
    offered = list_columns(request.user) if offered is None else offered
    columns, problems = choose_columns(query.getlist("column"), offered)
    conditions, more_problems = read_conditions(query.getlist("where"), offered)
    older, older_problems = _read_older_filters(request.user, query, offered)
    sort = query.get("sort", USUAL_SORT)
    left_out = more_problems + older_problems
    problems += left_out
    if offered.get(sort.removeprefix("-")) is None:
        problems.append(f"There is no column “{shorten(sort)}” to sort by.")
        sort = USUAL_SORT
    return RunList(
        request.user, query, offered, columns, older + conditions, sort, problems, left_out
    )


def _read_older_filters(
    user: User, query: QueryDict, offered: Columns
) -> tuple[list[Condition], list[str]]:
    """Return the conditions of addresses of before, such as `?state=failed`."""
    conditions, problems = [], []
    for name, operator in OLDER.items():
        column, text = offered.get(name), query.get(name, "")
        if not text or column is None:
            continue
        try:
            conditions.append(make_condition(column, operator, text, (name, text)))
        except ValueError as error:
            problems.append(f"The filter “{name}={shorten(text)}” is left out: {error}.")
    if text := query.get("cluster", ""):
        key, column = parse_whole_number(text), offered.get("cluster")
        row = Cluster.objects.visible_to(user).filter(pk=key).first() if key else None
        if row and column:
            conditions.append(Condition(column, "=", row.name, row.name, ("cluster", text)))
        else:
            problems.append(f"The filter “cluster={shorten(text)}” is left out: there is no such.")
    if (text := query.get("archived", "")) not in ARCHIVED:
        problems.append(
            f"The filter “archived={shorten(text)}” is left out: it is “only” or “all”."
        )
    return conditions, problems


def keep_state(query: QueryDict) -> QueryDict:
    """Return what an address says about the list, without the page and what is unknown."""
    kept = QueryDict(mutable=True)
    for name in KEPT:
        if values := [value for value in query.getlist(name) if value]:
            kept.setlist(name, values)
    return kept
