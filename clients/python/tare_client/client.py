"""The API of a site, as functions with types."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any
from urllib.parse import quote

from tare_client.connection import Answer, Connection, Question, add_query, read_json
from tare_client.errors import UnexpectedAnswer, UsageError
from tare_client.retries import Patience, send_with_patience
from tare_client.rows import Row, Rows
from tare_client.stored_sites import (
    StoredSite,
    normalise_url,
    read_site,
    require_safe_url,
    require_token,
)
from tare_client.values import Check, Comparison, Experiment, Person, Progress, Series

ROOT = "/api/v1"
KEY = re.compile("[!-~]{1,200}")
PAGE = 1000
MOST_KEPT, MOST_KEPT_BYTES = 32, 4 * 2**20
"""So many answers with an ETag are kept, and asked for by If-None-Match; larger ones are not."""


class Client:
    """A site, asked with the rights of a token.

    `timeout` is how long the site may be silent, `total` how long an answer of JSON may take, both
    in seconds. Every method raises TareError, which is NotReachable, Refused, UnexpectedAnswer or
    UsageError.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        insecure_http: bool = False,
        timeout: float = 30.0,
        total: float = 300.0,
        patience: Patience | None = None,
    ) -> None:
        url = normalise_url(url)
        require_safe_url(url, insecure_http=insecure_http)
        site = StoredSite(url, require_token(token), insecure_http)
        self.url = url
        self._connection = Connection(site, timeout=timeout, total=total)
        self._patience = patience or Patience()
        self._kept: dict[str, tuple[str, bytes]] = {}

    @classmethod
    def from_settings(cls, *, insecure_http: bool = False, **options: Any) -> Client:
        """Return a client of the site of TARE_URL and TARE_TOKEN, or of `tare login`."""
        site = read_site(insecure_http=insecure_http)
        return cls(site.url, site.token, insecure_http=site.insecure_http, **options)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def find_page(self, experiment: Experiment) -> str:
        """Return the address of an experiment's page."""
        return self._connection.resolve(experiment.page)

    # Reading

    def me(self) -> Person:
        """Return who the token belongs to."""
        return Person.read(self.get("/me"))

    def experiments(self, *, limit: int | None = None, **filters: object) -> Iterator[Experiment]:
        """Yield experiments, the newest first; filters are those of the page Experiments."""
        for row in self.list_rows("/experiments", filters, limit=limit):
            yield Experiment.read(row)

    def experiment(self, key: int) -> Experiment:
        """Return one experiment."""
        return Experiment.read(self.get(f"/experiments/{key:d}"))

    def progress(self, key: int) -> Progress:
        """Return how far an experiment is."""
        return Progress.read(self.get(f"/experiments/{key:d}/progress"))

    def comparison(self, key: int) -> Comparison:
        """Return the comparison of an experiment, with its verdicts."""
        return Comparison.read(key, self.get(f"/experiments/{key:d}/comparison"))

    def _read_file_name(disposition: str) -> str:
    """Return the file name of a Content-Disposition without folders; "" where there is none."""
    from email.message import Message

    message = Message()
    message["Content-Disposition"] = disposition
    name = (message.get_filename() or "").replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in name if letter.isprintable()).lstrip(".")[:200]
