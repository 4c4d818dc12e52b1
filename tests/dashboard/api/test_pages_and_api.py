"""What pages do is possible without them: by an operation of the API, or a reason stands here."""

from __future__ import annotations

import re
from typing import Any

from django.urls import URLPattern
from django.urls.resolvers import get_resolver

from tests.dashboard.api.test_api_roles import PAGES, list_operations

FILE = re.compile(r"\.\w+$")
FURTHER_PAGES = {
    # page: the operation that does the same, where that stands in PAGES for another page
    "experiments_file": "list_experiments",
    "experiments_file_parquet": "list_experiments",
    "experiment_new": "make_experiment",
    "runs_file": "export",
    "runs_file_parquet": "export",
    "runs_csv": "export",
    "runs_json": "list_experiment_runs",
    "runs_parquet": "export",
    "measurements_csv": "export",
    "measurements_parquet": "export",
    "series_csv": "export",
    "series_parquet": "export",
    "pytest_benchmark_json": "read_for_pytest_benchmark",
    "visibility": "change_experiment",
    "runs_selected": "change_selected_experiments",
    "environment": "change_environment",
    "pause_try": "try_pause",
}
FIGURES = "A drawing: comparison.json has its numbers, and a program draws better by its own means."
FOR_PEOPLE = "A page for people in one file: its numbers are those of the comparison."
WHAT_IS_TYPED = "It keeps what a person is typing in a form of the page."
MOVED = "An older address, which leads to the new one."
EXCEPTIONS = {
    "login": "Programs send a token.",
    "logout": "Programs send a token.",
    "password_change": "A password is a person's: a token must not change it.",
    "publishing": "The token of a repository is a person's secret, as a password is.",
    "deposit_token_delete": "The token of a repository is a person's secret, as a password is.",
    "api_tokens": "A token that makes another one would outlive its own withdrawal.",
    "experiment_keep_new": WHAT_IS_TYPED,
    "experiment_keep": WHAT_IS_TYPED,
    "experiment_discard": WHAT_IS_TYPED,
    "experiment_script": "It previews what is typed; definition files say the same.",
    "experiment_schema": "It is open to everybody at its own address, as schemas are named by it.",
    "study_schema": "It is open to everybody at its own address, as schemas are named by it.",
    "workload_try": "It tries patterns while they are typed.",
    "gate_script": "It is open to everybody who has logged in, and is copied by hand.",
    "recurring_trigger": "It is for programs: it takes a token of its own.",
    "report": FOR_PEOPLE,
    "table_report": FOR_PEOPLE,
    "old_operation": MOVED,
    "old_readers": MOVED,
    **{
        f"{name}_{ending}": FIGURES
        for ending in ("svg", "png", "pdf")
        for name in (
            *("figure", "forest", "table_figure", "table_forest"),
            *("studies_forest", "recurring_charts", "run_series", "run_node"),
            *("two_runs_series", "two_experiments_forest", "two_experiments_steps"),
        )
    },
}
NOT_YET: set[str] = set()


def list_methods(view: Any) -> list[str] | None:
    """Return the methods that a view takes; None for one that does not say so."""
    while view is not None:
        code = getattr(view, "__code__", None)
        if code and "request_method_list" in code.co_freevars:
            place = code.co_freevars.index("request_method_list")
            methods: list[str] = view.__closure__[place].cell_contents
            return methods
        view = getattr(view, "__wrapped__", None)
    return None


def list_pages_that_do_something() -> dict[str, bool]:
    """Return the pages that take a POST (True), and those that only send a file (False)."""
    pages = {}
    for pattern in get_resolver().url_patterns:
        if isinstance(pattern, URLPattern):
            methods = list_methods(pattern.callback)
            takes_post = methods is None or "POST" in methods
            if takes_post or FILE.search(str(pattern.pattern)):
                pages[pattern.name or ""] = takes_post
    return pages


def list_pages_of_operations() -> set[str]:
    """Return the pages whose work an operation does: reading what a page changes is not enough."""
    pages = list_pages_that_do_something()
    return {
        PAGES[name]
        for name, method, *_ in list_operations()
        if method != "get" or not pages.get(PAGES[name], False)
    }


def test_each_page_that_does_something_has_an_operation_or_a_reason() -> None:
    covered = list_pages_of_operations()
    tables = [covered, FURTHER_PAGES.keys(), EXCEPTIONS.keys(), NOT_YET]
    pages = list_pages_that_do_something()
    homes = {page: sum(page in table for table in tables) for page in sorted(pages)}
    assert {page for page, count in homes.items() if count == 0} == set()
    assert {page for page, count in homes.items() if count > 1} == set()


def test_the_tables_name_pages_and_operations_that_are_there() -> None:
    operations = {name for name, *_ in list_operations()}
    pages = list_pages_that_do_something().keys()
    assert FURTHER_PAGES.keys() | EXCEPTIONS.keys() | NOT_YET <= pages
    assert set(FURTHER_PAGES.values()) <= operations


def test_pages_that_read_are_told_from_those_that_do_something() -> None:
    pages = list_pages_that_do_something()
    assert [pages[name] for name in ("experiment_launch", "webhook_new", "login")] == [True] * 3
    assert pages["bundle_zip"] is False
    assert not {"experiment", "overview", "audit", "document"} & pages.keys()
