"""The API of a site, as functions with types."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any
from urllib.parse import quote

from tare_client.answer_parts import read_file_name
from tare_client.connection import Answer, Connection, Question, add_query, read_json
from tare_client.errors import UnexpectedAnswer, UsageError
from tare_client.retries import Patience, send_with_patience
from tare_client.rows import Row, Rows
from tare_client.sent_files import choose, write_body
from tare_client.stored_sites import (
    StoredSite,
    normalise_url,
    read_site,
    require_safe_url,
    require_token,
)
from tare_client.studies import Study, StudyProgress
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

    def find_page(self, row: Experiment | Study) -> str:
        """Return the address of the page of an experiment, or of a study."""
        return self._connection.resolve(row.page)

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

    def studies(self, *, limit: int | None = None, **filters: object) -> Iterator[Study]:
        """Yield studies, the newest first; `q` is a part of the name."""
        for row in self.list_rows("/studies", filters, limit=limit):
            yield Study.read(row)

    def study(self, key: int) -> Study:
        """Return one study."""
        return Study.read(self.get(f"/studies/{key:d}"))

    def study_progress(self, key: int) -> StudyProgress:
        """Return how far the experiments of a study are."""
        return StudyProgress.read(self.get(f"/studies/{key:d}/progress"))

    def runs(
        self,
        experiment: int | None = None,
        *,
        metrics: Sequence[str] = (),
        limit: int | None = None,
        **filters: object,
    ) -> Rows:
        """Return the runs of an experiment, or all that one may view, a row each."""
        path = "/runs" if experiment is None else f"/experiments/{experiment:d}/runs"
        query = {"metrics": ",".join(metrics), **filters}
        return Rows(lambda: self.list_rows(path, query, limit=limit))

    def series(self, run: int | str) -> list[Series]:
        """Return what a run recorded step by step."""
        document = self.get(f"/runs/{quote(str(run), safe='')}/series")
        rows = document.get("items")
        if not isinstance(rows, list):
            raise UnexpectedAnswer("The answer has no series.")
        return [Series.read(str(run), row) for row in rows if isinstance(row, dict)]

    # Changing

    def check(
        self,
        definition: bytes,
        *,
        is_json: bool = False,
        names: bytes = b"",
        make_workloads: bool = False,
    ) -> Check:
        """Return what the site says about an experiment file; Refused where it is not valid."""
        path = add_query("/experiments/check", choose(make_workloads=make_workloads))
        return Check.read(self._post_definition(path, definition, is_json, names))

    def check_study(
        self,
        definition: bytes,
        *,
        is_json: bool = False,
        names: bytes = b"",
        make_workloads: bool = False,
    ) -> Check:
        """Return what the site says about a study's file; Refused where it is not valid."""
        path = add_query("/studies/check", choose(make_workloads=make_workloads))
        return Check.read(self._post_definition(path, definition, is_json, names))

    def create(
        self,
        definition: bytes,
        *,
        launch: bool,
        is_json: bool = False,
        names: bytes = b"",
        key: str = "",
        make_workloads: bool = False,
    ) -> Experiment:
        """Make an experiment of a file, and launch it where `launch` says so.

        `names` is a table that maps names of the file to names of this site. `key` is the
        Idempotency-Key: the same one never makes a second experiment within 24 hours. With
        `make_workloads` the workloads that the file describes, and that are not there, are made.
        """
        path = add_query("/experiments", choose(launch=launch, make_workloads=make_workloads))
        return Experiment.read(self._post_definition(path, definition, is_json, names, key))

    def create_study(
        self,
        definition: bytes,
        *,
        launch: bool,
        is_json: bool = False,
        names: bytes = b"",
        key: str = "",
        make_workloads: bool = False,
    ) -> Study:
        """Make a study of a file, as `create` makes an experiment: all of it, or nothing."""
        path = add_query("/studies", choose(launch=launch, make_workloads=make_workloads))
        return Study.read(self._post_definition(path, definition, is_json, names, key))

    def cancel_study(self, key: int) -> Study:
        """Cancel what is alive of a study."""
        return Study.read(self.post(f"/studies/{key:d}/cancel"))

    def launch(self, key: int) -> Experiment:
        """Launch a draft."""
        return Experiment.read(self.post(f"/experiments/{key:d}/launch"))

    def cancel(self, key: int) -> Mapping[str, Any]:
        """Cancel an experiment that has not ended."""
        return self.post(f"/experiments/{key:d}/cancel")

    def save(self, path: str, file: IO[bytes], query: Mapping[str, object] | None = None) -> str:
        """Write a file of the site into an open file; return the name that the site gives it.

        An answer that is cut off is asked for again, from the beginning of the file.
        """
        question = Question("GET", ROOT + add_query(path, query or {}), headers={"Accept": "*/*"})

        def send() -> Mapping[str, str]:
            if file.seekable():
                file.seek(0)
                file.truncate()
            return self._connection.save(question, file)

        headers = send_with_patience(send, self._patience, is_repeatable=file.seekable())
        return read_file_name(headers.get("Content-Disposition", ""))

    # How it is sent

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Mapping[str, Any]:
        """Return what an address of the API answers; `path` begins behind /api/v1."""
        return self._get(ROOT + add_query(path, query or {}))

    def post(self, path: str, body: object = None, *, key: str = "") -> Mapping[str, Any]:
        """Send JSON to an address of the API; return its answer. Nothing is done twice."""
        content = b"" if body is None else json.dumps(body).encode()
        return self._post(path, content, "application/json", key)

    def list_rows(
        self, path: str, query: Mapping[str, object], *, limit: int | None = None
    ) -> Iterator[Row]:
        """Yield the rows of a list, a page at a time while they are read."""
        size = PAGE if limit is None else max(1, min(limit, PAGE))
        following: str | None = ROOT + add_query(path, {**query, "limit": size})
        n_rows, seen = 0, set()
        while following is not None:
            if following in seen:
                raise UnexpectedAnswer("The list leads in a circle.")
            seen.add(following)
            document = self._get(following)
            rows, following = document.get("items"), document.get("next")
            if not isinstance(rows, list) or not isinstance(following, (str, type(None))):
                raise UnexpectedAnswer("The answer is no list.")
            for row in rows:
                if limit is not None and n_rows >= limit:
                    return
                if not isinstance(row, dict):
                    raise UnexpectedAnswer("A row of the list is no object.")
                n_rows += 1
                yield row
            if limit is not None and n_rows >= limit:
                return

    def _post_definition(
        self, path: str, definition: bytes, is_json: bool, names: bytes, key: str = ""
    ) -> Mapping[str, Any]:
        body, kind = write_body(definition, is_json=is_json, names=names)
        return self._post(path, body, kind, key)

    def _get(self, path: str) -> Mapping[str, Any]:
        kept = self._kept.get(path)
        headers = {"If-None-Match": kept[0]} if kept else {}
        question = Question("GET", path, headers=headers)
        answer = send_with_patience(
            lambda: self._connection.send(question), self._patience, is_repeatable=True
        )
        if answer.status == 304 and kept:
            return self._read_document(answer, kept[1])
        etag = answer.headers.get("ETag")
        if etag and len(answer.content) <= MOST_KEPT_BYTES:
            self._kept[path] = (etag, answer.content)
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return self._read_document(answer, answer.content)

    def _post(self, path: str, body: bytes, kind: str, key: str) -> Mapping[str, Any]:
        if key and not KEY.fullmatch(key):
            raise UsageError("A key has 1 to 200 letters, digits or signs of ASCII, and no blanks.")
        headers = {"Content-Type": kind, "Idempotency-Key": key or str(uuid.uuid4())}
        question = Question("POST", ROOT + path, body, headers)
        answer = send_with_patience(
            lambda: self._connection.send(question), self._patience, is_repeatable=True
        )
        return self._read_document(answer, answer.content) if answer.content else {}

    def _read_document(self, answer: Answer, content: bytes) -> Mapping[str, Any]:
        try:
            document = read_json(content)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise UnexpectedAnswer(
                f"{self.url} does not answer as Tare's API does ({answer.status}). Is this the "
                "address of a Tare?"
            )
        return document
