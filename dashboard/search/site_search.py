"""The search over the whole site: two statements, whatever is found and however much there is.

What has a name is found by the words in it, all of them in any order; runs by the beginning of
their uids, experiments by their numbers too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.functions import Concat
from django.urls import reverse

from dashboard.docs.section_search import search_sections
from dashboard.typed_requests import parse_whole_number
from experiments.models import (
    Cluster,
    DataSet,
    Environment,
    Experiment,
    Image,
    PublishedTable,
    RecurringExperiment,
    Run,
    Study,
    User,
    Workload,
)

MOST_CHARACTERS, MOST_WORDS = 200, 8
"""Of a text that is searched for; the rest is left out."""
MOST_AT_ONCE = 24
"""Results of all kinds together in the dialog, which shows fewer of each where there are many."""
LONGEST_TITLE, LONGEST_DETAIL = 160, 80
"""Bytes of what the dialog shows of a result."""
LARGEST_KEY = 2**31 - 1
UID = re.compile(r"[0-9a-f]{3,32}")
NODES = """
WITH RECURSIVE nodes(node) AS (
    (SELECT node FROM experiments_run WHERE node > '' ORDER BY node LIMIT 1)
    UNION ALL
    SELECT (SELECT node FROM experiments_run WHERE node > nodes.node ORDER BY node LIMIT 1)
    FROM nodes WHERE node IS NOT NULL
)
SELECT node FROM nodes
WHERE strpos(lower(node), lower(%s)) > 0 AND (
    SELECT true FROM experiments_run AS run
    WHERE run.node = nodes.node AND run.experiment_id IN ({}) LIMIT 1
)
LIMIT %s
"""
"""Steps from node to node by the index, and looks at runs of those alone whose names fit.

A scalar subquery: EXISTS would become a join, which reads all runs there are.
"""


@dataclass(frozen=True)
class Result:
    """Something with a page, as it is listed."""

    title: str
    address: str
    detail: str = ""
    state: str = ""
    """Of a run."""

    def shorten(self) -> Result:
        """Return it as the dialog shows it."""
        title = _cut(self.title, LONGEST_TITLE)
        return Result(title, self.address, _cut(self.detail, LONGEST_DETAIL), self.state)


@dataclass(frozen=True)
class Group:
    """The results of one kind."""

    key: str
    heading: str
    results: tuple[Result, ...]
    has_more: bool = False


HEADINGS = {
    "experiment": "Experiments",
    "study": "Studies",
    "recurring": "Recurring experiments",
    "run": "Runs",
    "image": "Images",
    "workload": "Workloads",
    "environment": "Environments",
    "dataset": "Data sets",
    "cluster": "Clusters",
    "node": "Nodes",
    "table": "Published tables",
    "person": "People",
    "document": "Docs",
}
"""The kinds in the order in which they are listed."""
Row = tuple[str, int, str, str, str, bool]
"""Kind, key, title, detail, state, and whether it comes after all others of its kind."""


def read_search_text(text: str) -> str:
    """Return a text as it is searched for: without what is too long, and blanks around it."""
    return text[:MOST_CHARACTERS].strip()


def search_site(user: User, text: str, limit: int) -> list[Group]:
    """Return what `user` may view and what has all words of a text, at most `limit` of each kind.

    A kind with something of exactly this name comes first.
    """
    words = text.split()[:MOST_WORDS]
    if not words:
        return []
    found: dict[str, list[Result]] = {kind: [] for kind in HEADINGS}
    for row in sorted(_read_rows(user, text, words, limit + 1), key=_order):
        found[row[0]].append(_make_result(row))
    if len(words) == 1:
        found["node"] = [_make_node(name) for name in _list_nodes(user, text, limit + 1)]
    found["document"] = [
        Result(row.section.heading or row.section.title, row.section.get_absolute_url(), detail)
        for row in search_sections(text)[: limit + 1]
        for detail in [row.section.title if row.section.heading else ""]
    ]
    groups = [
        Group(kind, HEADINGS[kind], tuple(results[:limit]), len(results) > limit)
        for kind, results in found.items()
        if results
    ]
    return sorted(groups, key=lambda group: not _has_name(group, text))


def limit_groups(groups: Sequence[Group]) -> list[Group]:
    """Return as many results of each kind as the dialog has room for, in short form."""
    most = max((len(group.results) for group in groups), default=0)
    while most > 1 and sum(min(len(group.results), most) for group in groups) > MOST_AT_ONCE:
        most -= 1
    return [
        Group(group.key, group.heading, tuple(row.shorten() for row in group.results[:most]))
        for group in groups
    ]


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text that takes at most so many bytes."""
    encoded = text.encode()
    return text if len(encoded) <= most else f"{encoded[:most].decode(errors='ignore').rstrip()}…"


def _has_name(group: Group, text: str) -> bool:
    return any(result.title.casefold() == text.casefold() for result in group.results)


def _read_rows(user: User, text: str, words: Sequence[str], limit: int) -> list[Row]:
    """Return the rows of all kinds that the database names, in one statement."""
    queries = [
        rows[:limit]
        for rows in (
            _find_experiments(user, text, words),
            _find_studies(user, words),
            _find_recurring(user, words),
            *([_find_runs(user, text.lower())] if UID.fullmatch(text.lower()) else []),
            _find_images(user, text, words),
            _find_workloads(user, words),
            _find_environments(user, words),
            _find_data_sets(user, text, words),
            _find_clusters(user, words),
            _find_tables(user, words),
            _find_people(user, words),
        )
    ]
    return list(queries[0].union(*queries[1:], all=True))


def _order(row: Row) -> tuple[bool, int, str]:
    """Return by what rows of one kind are sorted: the newest experiment first, others by name."""
    kind, key, title, _, _, is_last = row
    is_dated = kind in ("experiment", "study", "recurring", "table")
    return is_last, -key if is_dated else 0, "" if is_dated else title.casefold()


def _contain(words: Sequence[str], *fields: str) -> Q:
    """Return the condition that each word occurs in one of the fields."""
    condition = Q()
    for word in words:
        condition &= reduce(or_, (Q(**{f"{field}__icontains": word}) for field in fields))
    return condition


def _text(*parts: Any) -> Any:
    return Concat(*parts, output_field=CharField())


def _make_rows(
    kind: str,
    rows: QuerySet[Any],
    title: str,
    *,
    detail: Any = None,
    state: Any = None,
    is_last: Any = None,
) -> QuerySet[Any, Any]:
    nothing = Value("", output_field=CharField())
    return rows.values_list(
        Value(kind, output_field=CharField()),
        "pk",
        title,
        nothing if detail is None else detail,
        nothing if state is None else state,
        Value(False, output_field=BooleanField()) if is_last is None else is_last,
    )


def _find_experiments(user: User, text: str, words: Sequence[str]) -> QuerySet[Any, Any]:
    condition = _contain(words, "question", "tags")
    number = parse_whole_number(text.removeprefix("#"))
    if number is not None and number <= LARGEST_KEY:
        condition |= Q(pk=number)
    rows = Experiment.objects.visible_to(user).filter(condition)
    about = Case(
        When(archived_at__isnull=False, then=Value("archived, ")),
        When(launched_at=None, imported_at=None, then=Value("draft, ")),
        default=Value(""),
    )
    return _make_rows(
        "experiment",
        rows.order_by(F("archived_at").desc(nulls_first=True), "-pk"),
        "question",
        detail=_text(about, "owner__username", Value(" on "), "cluster__name"),
        is_last=Case(When(archived_at=None, then=Value(False)), default=Value(True)),
    )


def _find_studies(user: User, words: Sequence[str]) -> QuerySet[Any, Any]:
    rows = Study.objects.visible_to(user).filter(_contain(words, "name", "question"))
    return _make_rows("study", rows.order_by("-pk"), "name", detail=F("owner__username"))


def _find_recurring(user: User, words: Sequence[str]) -> QuerySet[Any, Any]:
    rows = RecurringExperiment.objects.visible_to(user).filter(_contain(words, "question"))
    state = Case(When(stopped_at=None, then=Value("")), default=Value("stopped, "))
    detail = _text(state, "owner__username", Value(" on "), "source__cluster__name")
    return _make_rows("recurring", rows.order_by("-pk"), "question", detail=detail)


def _find_runs(user: User, text: str) -> QuerySet[Any, Any]:
    visible = Experiment.objects.visible_to(user).values("pk")
    rows = Run.objects.filter(uid__startswith=text, experiment__in=visible).order_by("uid")
    detail = _text("workload__name", Value(" in "), "environment__name")
    return _make_rows("run", rows, "uid", detail=detail, state=F("state"))


def _find_images(user: User, text: str, words: Sequence[str]) -> QuerySet[Any, Any]:
    condition = _contain(words, "reference", "framework")
    condition |= Q(digest__startswith=text) | Q(digest__startswith=f"sha256:{text}")
    rows = Image.objects.visible_to(user).filter(condition).order_by("reference", "pk")
    return _make_rows("image", rows, "reference", detail=F("framework"))


def _find_workloads(user: User, words: Sequence[str]) -> QuerySet[Any, Any]:
    rows = Workload.objects.visible_to(user).originals()
    rows = rows.filter(_contain(words, "name", "kind"))
    return _make_rows("workload", rows.order_by("name"), "name", detail=F("kind"))


def _find_environments(user: User, words: Sequence[str]) -> QuerySet[Any, Any]:
    rows = Environment.objects.originals().visible_to(user).filter(_contain(words, "name"))
    detail = _text(Value("on "), "cluster__name")
    return _make_rows("environment", rows.order_by("name", "pk"), "name", detail=detail)


def _find_data_sets(user: User, text: str, words: Sequence[str]) -> QuerySet[Any, Any]:
    condition = _contain(words, "name", "source")
    condition |= Q(digest__startswith=text) | Q(digest__startswith=f"sha256:{text}")
    rows = DataSet.objects.visible_to(user).filter(condition).order_by("name")
    return _make_rows("dataset", rows, "name", detail=F("licence"))


def _find_clusters(user: User, words: Sequence[str]) -> QuerySet[Any, Any]:
    rows = Cluster.objects.visible_to(user).filter(_contain(words, "name"))
    return _make_rows("cluster", rows.order_by("name"), "name")


def _find_tables(user: User, words: Sequence[str]) -> QuerySet[Any, Any]:
    rows = PublishedTable.objects.visible_to(user).filter(_contain(words, "question", "source"))
    return _make_rows("table", rows.order_by("-pk"), "question", detail=F("source"))


def _find_people(user: User, words: Sequence[str]) -> QuerySet[Any, Any]:
    """Return people by the names that lists show, and only those of whom a list shows something."""
    own = Experiment.objects.visible_to(user).filter(owner=OuterRef("pk"))
    rows = User.objects.filter(_contain(words, "username")).filter(Exists(own))
    return _make_rows("person", rows.order_by("username"), "username")


def _list_nodes(user: User, text: str, limit: int) -> list[str]:
    """Return the nodes on which runs that `user` may view have run, by a part of their names."""
    visible = Experiment.objects.visible_to(user).order_by().values("pk")
    try:
        statement, parameters = visible.query.sql_with_params()
    except EmptyResultSet:
        return []
    with connection.cursor() as cursor:
        cursor.execute(NODES.format(statement), [text, *parameters, limit])
        return [name for (name,) in cursor.fetchall()]


ADDRESSES: dict[str, Callable[[int, str], str]] = {
    "run": lambda key, title: reverse("run", args=[title]),
    "person": lambda key, title: f"{reverse('experiments')}?{urlencode({'mine': title})}",
}
"""Those that are not made of the kind's name and the key alone."""


def _make_result(row: Row) -> Result:
    kind, key, title, detail, state, _ = row
    address = ADDRESSES[kind](key, title) if kind in ADDRESSES else reverse(kind, args=[key])
    return Result(title, address, detail, state)


def _make_node(name: str) -> Result:
    return Result(name, f"{reverse('runs')}?{urlencode({'where': f'node={name}'})}")
