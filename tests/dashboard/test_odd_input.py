"""Whatever stands in an address or a form, no page fails: a wrong value is refused in words.

Every page meets every other odd value, in all its fields at once, the pages in turn the one or the
other half; every field meets one alone, once. `make explore` sends all values, each field by each
method, and to each page of the administration that has it.
"""

from __future__ import annotations

import inspect
import re
import traceback
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib import admin
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.urls.resolvers import get_resolver

from experiments.models import Role, User
from tests.conftest import EXPLORES
from tests.dashboard.access.test_roles import RULES, logged_in, mine, person  # noqa: F401 - a fixture
from tests.dashboard.conftest import Site

pytestmark = pytest.mark.django_db

NUL, DIGITS = "a\x00b", "9" * 5000
JSON = '{"a": ["\\u0000", "\\ud800", NaN, 1e999]}'
ODD = ("", NUL, DIGITS, "9" * 25, "nan", "²", "[" * 5000, JSON)
IN_ADDRESSES = (DIGITS, "9" * 25, "a%00b", "%ED%A0%80")
OF_EVERY_LIST = ("page", "sort", "q", "tab", "cluster", "state")
OF_ADMINISTRATION = ("q", "p", "o", "all", "e", "cluster__id__exact", "state__exact", "nonsense")

READ_BY_NAME = re.compile(r'(?:GET|POST|data|files)(?:\.get(?:list)?\(|\[)"(\w+)"')


class Fields(HTMLParser):
    """The fields of all forms of a page, with what stands in them and how they are sent."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.methods: set[tuple[str, str]] = set()
        self._method = "get"
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self._method = (given.get("method") or "get").lower()
        name = given.get("name")
        if name and tag in ("input", "select", "textarea", "button"):
            self.values.setdefault(name, given.get("value") or "")
            self.methods.add((name, self._method))


def fields_of(answer: Any) -> Fields:
    if getattr(answer, "streaming", False) or "html" not in answer.get("Content-Type", ""):
        return Fields("")
    return Fields(answer.content.decode())


def parameters_of(name: str) -> list[str]:
    """Return the names that the module of an address reads from requests."""
    (pattern,) = (one for one in get_resolver().url_patterns if getattr(one, "name", "") == name)
    module = inspect.getmodule(inspect.unwrap(pattern.callback))  # type: ignore[union-attr]
    assert module is not None
    return READ_BY_NAME.findall(inspect.getsource(module))


def answer_of(client: Client, method: str, address: str, data: Mapping[str, Any]) -> Any:
    """Send a request whose changes are taken back."""
    with transaction.atomic():
        answer = getattr(client, method)(address, data)
        if getattr(answer, "streaming", False):
            b"".join(answer.streaming_content)
        transaction.set_rollback(True)
    return answer


def reason(answer: Any) -> str:
    """Return the exception behind an answer, and the last line of ours that it came through."""
    if not getattr(answer, "exc_info", None):
        return ""
    frames = traceback.extract_tb(answer.exc_info[2])
    ours = [frame for frame in frames if ".venv" not in frame.filename]
    where = f"{ours[-1].filename}:{ours[-1].lineno}" if ours else ""
    return f"{str(answer.exc_info[1])[:80]!r} {where}"


def odd_requests(
    address: str, methods: list[str], names: list[str], fields: Fields, tried: Collection[str]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield odd values in all places at once, and one of them in each place not `tried` alone."""
    usual = fields.values
    half = zlib.crc32(address.encode()) % 2
    for value in ODD if EXPLORES else ODD[half::2]:
        for method in methods:
            yield method, f"all={value[:9]!r}", dict.fromkeys((*names, *usual), value)
    yield "get", "a name", {NUL: "1"}
    for number, name in enumerate((*names, *usual)):
        # A row to copy for a script is never read.
        if name in tried or "-__prefix__-" in name:
            continue
        # Where a number stands, a number; elsewhere one after the other.
        value = DIGITS if usual.get(name, "").isdecimal() else (NUL, DIGITS)[number % 2]
        for method in methods:
            if not (EXPLORES or name in names or (name, method) in fields.methods):
                continue
            data = {name: value} if method == "get" else {**usual, name: value}
            yield method, f"{name}={value[:9]!r}", data


def assert_all_answer(
    client: Client,
    address: str,
    names: list[str],
    fields: Fields,
    tried: Collection[str] = (),
) -> None:
    client.raise_request_exception = False
    answered = {method: answer_of(client, method, address, {}) for method in ("get", "post")}
    methods = [method for method, answer in answered.items() if answer.status_code != 405]
    failed = [
        f"{method} {address[:60]} {what}: {answer.status_code} {reason(answer)}"
        for method, what, data in odd_requests(address, methods, names, fields, tried)
        if (answer := answer_of(client, method, address, data)).status_code >= 500
    ]
    assert failed == []


@pytest.mark.parametrize("name", RULES)
def test_no_parameter_of_an_address_makes_it_fail(
    name: str,
    mine: Callable[[User], dict[str, list[Any]]],  # noqa: F811
) -> None:
    user = person(Role.SITE_ADMINISTRATOR)
    client = logged_in(user)
    address = reverse(name, args=mine(user)[RULES[name][1]])
    fields = fields_of(answer_of(client, "get", address, {}))
    names = parameters_of(name) or [*OF_EVERY_LIST]
    assert_all_answer(client, address, names, fields)


def test_no_address_fails_for_what_stands_in_it() -> None:
    client = logged_in(person(Role.SITE_ADMINISTRATOR))
    client.raise_request_exception = False
    for pattern in get_resolver().url_patterns:
        for value in IN_ADDRESSES:
            address = "/" + re.sub(r"<[^>]+>", value, str(pattern.pattern))
            for method in ("get", "post"):
                answer = getattr(client, method)(address)
                assert answer.status_code < 500, (method, address[:60])


@pytest.mark.parametrize(
    "cookie", ["sessionid", "csrftoken", "messages"], ids=lambda cookie: str(cookie)
)
@pytest.mark.parametrize("address", ["/", "/login/", "/healthz/"])
def test_no_cookie_makes_a_page_fail(cookie: str, address: str) -> None:
    client = Client(raise_request_exception=False)
    client.cookies.load(f'{cookie}="abcdefgh\\000ijkl"')
    assert client.get(address).status_code < 500
    assert client.post(address).status_code < 500


OF_NO_TEXT = ("hex", "idna", "undefined")  # that Python decodes to or from what is no text
ODD_CHARSETS = [
    *((charset, "/login/") for charset in (*OF_NO_TEXT, "unicode_escape", "utf-7")),
    ("unicode_escape", "/search/?q=%5Cud800"),
    ("utf-7", "/search/?q=%2B2AA-"),
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("charset", "address"), ODD_CHARSETS)
def test_a_request_in_another_charset_is_refused(charset: str, address: str, method: str) -> None:
    client = logged_in(person(Role.RESEARCHER))
    client.raise_request_exception = False
    content = f"multipart/form-data; boundary=-; charset={charset}"
    part = '---\r\nContent-Disposition: form-data; name="username"\r\n\r\n\\ud800+2AA-\r\n-----\r\n'
    answer = client.generic(method, address, part, content_type=content)
    assert answer.status_code == 400


def test_utf_8_may_be_named() -> None:
    client = Client()
    content = "multipart/form-data; boundary=-; charset=UTF8"
    part = '---\r\nContent-Disposition: form-data; name="username"\r\n\r\ncaf\u00e9\r\n-----\r\n'
    answer = client.generic("POST", "/login/", part.encode(), content_type=content)
    assert "caf\u00e9" in answer.content.decode()


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label_lower)
def test_no_parameter_makes_an_administration_page_fail(
    model: type[Any],
    mine: Callable[[User], dict[str, list[Any]]],  # noqa: F811
    site: Site,
) -> None:
    user = person(Role.SITE_ADMINISTRATOR)
    client = logged_in(user)
    mine(user)
    base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    assert_all_answer(client, reverse(f"{base}_changelist"), list(OF_ADMINISTRATION), Fields(""))
    client.raise_request_exception = False
    if model._meta.label_lower == "django_rq.dashboard":
        return
    for value in ("9" * 5000, "9" * 25, "a_00b", "a%00b", "-1"):
        answer = client.get(reverse(f"{base}_changelist") + f"{value}/change/")
        assert answer.status_code < 500, value[:9]
    row = model._default_manager.first()
    pages = [reverse(f"{base}_add")]
    if row is not None:
        pages.append(reverse(f"{base}_change", args=[row.pk]))
    tried: set[str] = set()
    for address in pages:
        fields = fields_of(answer_of(client, "get", address, {}))
        assert_all_answer(client, address, [], fields, () if EXPLORES else tried)
        tried |= fields.values.keys()


def test_no_parameter_makes_the_log_in_of_the_administration_fail() -> None:
    client = Client()
    address = reverse("admin:login")
    assert_all_answer(client, address, [], fields_of(answer_of(client, "get", address, {})))
