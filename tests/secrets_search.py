"""Where a secret could turn up, and what to look for."""

from __future__ import annotations

import base64
import html
import re
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from django.conf import settings
from django.db import connection

MOST_PAGES = 600
# Following these changes something, or shows the same rows in another order.
NOT_FOLLOWED = re.compile(r"/(logout|delete|static|django_rq|password)/|[?&](sort|o|page|q)=")


def places_of(private_key: str, *more: str) -> dict[str, str]:
    """What would betray a secret, by what it is: lines of the key in any encoding, and the keys."""
    body = [line for line in private_key.splitlines() if line and not line.startswith("-----")]
    found = {f"line {number} of the private key": line for number, line in enumerate(body, 1)}
    # The first lines of a key file are the same for all keys.
    found = {name: line for name, line in found.items() if len(line) >= 20}
    found.pop("line 1 of the private key", None)
    for number, secret in enumerate((*more, *settings.CREDENTIAL_KEYS, settings.SECRET_KEY)):
        found[f"secret {number}"] = secret
        found[f"secret {number} in base64"] = base64.b64encode(secret.encode()).decode()
    return found


def kind_of(address: str) -> tuple[str, ...]:
    """Return what is the same for all filters of one list by one column."""
    parts = urlsplit(address)
    return parts.path, *sorted(part.partition("=")[0] for part in parts.query.split("&"))


def pages_of(app: Any, user: str) -> Iterator[tuple[str, str]]:
    """Every page that a link leads to, by its address; each must answer.

    Of the filters of a list by a column, one value is tried.
    """
    waiting, seen = deque(["/"]), {kind_of("/")}
    while waiting and len(seen) < MOST_PAGES:
        address = waiting.popleft()
        answer = app.get(address, user=user, expect_errors=True)
        assert answer.status_code in (200, 302), f"{address} answers {answer.status_code}"
        text = answer.body.decode(errors="replace")
        yield address, text
        if answer.content_type != "text/html":
            continue
        for link in re.findall(r'href="([^"]+)"', text):
            target, _ = urldefrag(urljoin(address, html.unescape(link)))
            parts = urlsplit(target)
            if parts.netloc or parts.scheme or NOT_FOLLOWED.search(target):
                continue
            if kind_of(target) not in seen:
                seen.add(kind_of(target))
                waiting.append(target)


def rows_of_all_tables() -> Iterator[tuple[str, str]]:
    """The database, as a dump has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" AS t')
            yield f"table {table}", "\n".join(row[0] for row in cursor.fetchall())
