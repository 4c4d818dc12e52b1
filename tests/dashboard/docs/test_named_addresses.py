"""Addresses of pages that the documents name in code are addresses of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve

from dashboard.docs.documents import map_files, read_markdown

NAMED = re.compile(r"`(?:(?:GET|POST|PUT|PATCH|DELETE) )?(/[^`\s]*)`")
STANDS_FOR = re.compile(r"<[^>]+>|\{\w+\}|\b[A-Z][A-Z_]*\b(?!\.)|…|\.\.\.")
"""What stands for a number or a name in an address."""


@cache
def list_routes() -> tuple[str, ...]:
    """Return all addresses of the site, without the first slash, as Django writes them."""
    return tuple(_walk(get_resolver().url_patterns, ""))


def _walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, route)
        else:
            yield route


@cache
def list_first_parts() -> set[str]:
    """Return the first parts of the site's addresses: what else begins with a slash is a path."""
    return {route.partition("/")[0] for route in list_routes() if "/" in route} - {""}


def is_address(address: str) -> bool:
    """Return whether the site has an address, or some below it; see STANDS_FOR."""
    path = re.split(r"[?#]", address)[0]
    if any(route.startswith(path.strip("/") + "/") for route in list_routes()):
        return True
    for value in ("1", "name", "0" * 32):
        try:
            resolve(STANDS_FOR.sub(value, path))
        except Resolver404:
            continue
        return True
    return False


def find_addresses(name: str) -> list[str]:
    named = NAMED.findall(read_markdown(name).partition("## Older words")[0])
    return [address for address in named if address.split("/")[1] in list_first_parts()]


@pytest.mark.parametrize("name", [name for name in map_files() if "decisions/" not in name])
def test_each_address_that_a_document_names_is_one(name: str) -> None:
    assert [address for address in find_addresses(name) if not is_address(address)] == []


def test_addresses_are_told_from_paths() -> None:
    assert "/docs/NAME/" in find_addresses("contributing")
    assert is_address("/docs/NAME/")
    assert is_address("/glossary/#interim-analysis")
    assert is_address("/api/v1")
    assert not is_address("/api/v0")
    assert not is_address("/no-such-page/")
    assert "proc" not in list_first_parts()
