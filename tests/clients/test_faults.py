"""What the client does when the site, or what lies between, does not do as it should."""

from __future__ import annotations

import errno
import http.server
import io
import json
import os
import ssl
import time
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tare_client import (
    Client,
    NotReachable,
    NotTrusted,
    Refused,
    TareError,
    UnexpectedAnswer,
    UsageError,
)
from tare_client.connection import Connection, Question, read_json
from tare_client.retries import Patience
from tare_client.stored_sites import StoredSite

from tests.clients.contract_server import (
    TOKEN,
    Fault,
    Site,
    answer_slowly,
    answer_status,
    answer_text,
    cut,
    cut_in_the_middle,
    describe_experiment,
    do_and_cut,
    keep_silent,
    serve,
)


@pytest.mark.parametrize(
    "fault", [cut, cut_in_the_middle, *map(answer_status, (429, 500, 502, 503, 504))]
)
def test_what_is_read_is_asked_for_again(
    client: Client, site: Site, pauses: list[float], fault: Fault
) -> None:
    site.faults.extend([fault, fault])
    assert client.me().username == "ada"
    assert len(site.requests) == 3
    assert 0 < pauses[0] < 1 < pauses[1] * 2 < 3


@pytest.mark.parametrize("fault", [cut, answer_status(503)])
def test_a_site_that_stays_away_is_given_up(
    client: Client, site: Site, pauses: list[float], fault: Fault
) -> None:
    site.faults.extend([fault] * 20)
    with pytest.raises(TareError):
        client.me()
    assert (len(site.requests), len(pauses)) == (5, 4)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_a_no_is_not_asked_about_again(client: Client, site: Site, status: int) -> None:
    site.faults.append(answer_status(status, "The launch was refused."))
    with pytest.raises(Refused, match="The launch was refused") as caught:
        client.create(b"tare: 1", launch=True)
    assert (caught.value.status, len(site.requests)) == (status, 1)


def test_a_launch_whose_answer_was_lost_is_done_once(client: Client, site: Site) -> None:
    site.faults.append(do_and_cut)
    assert client.create(b"tare: 1", launch=True).id == 1
    keys = {request.headers["Idempotency-Key"] for request in site.requests}
    assert (len(site.experiments), len(site.requests), len(keys)) == (1, 2, 1)


def test_a_launch_that_is_still_under_way_is_asked_about_again(client: Client, site: Site) -> None:
    site.faults.extend([cut, answer_status(409, "The first one is still running."), None])
    assert client.create(b"tare: 1", launch=True).id == 1


def test_two_launches_have_two_keys(client: Client, site: Site) -> None:
    client.create(b"tare: 1", launch=True)
    client.create(b"tare: 1", launch=True)
    assert len(site.experiments) == 2


def test_the_site_says_how_long_to_wait(client: Client, site: Site, pauses: list[float]) -> None:
    site.faults.append(answer_status(429, Retry_After="7"))
    client.me()
    assert pauses == [7]


@pytest.mark.parametrize("text", ["86400", "9" * 400])
def test_nobody_waits_for_a_day(client: Client, site: Site, pauses: list[float], text: str) -> None:
    site.faults.extend([answer_status(429, "Too many.", Retry_After=text)] * 9)
    with pytest.raises(Refused, match="Too many"):
        client.me()
    assert sum(pauses) < 20


@pytest.mark.parametrize("text", ["-1", "soon", "Fri, 27 Nov 2026 00:00:00 GMT", "²"])
def test_a_strange_retry_after_is_none(
    client: Client, site: Site, pauses: list[float], text: str
) -> None:
    site.faults.append(answer_status(429, Retry_After=text))
    client.me()
    assert 0 < pauses[0] < 1


@pytest.mark.parametrize(
    "content",
    [b"", b"[1]", b"null", b'{"a": NaN}', b"\xff\xfe", b"{", b"[" * 200_000, b"9" * 10_000],
)
def test_what_is_no_answer_of_tare_is_said(client: Client, site: Site, content: bytes) -> None:
    site.faults.append(answer_text(content))
    with pytest.raises(UnexpectedAnswer, match="address of a Tare"):
        client.me()


@pytest.mark.parametrize("call", ["me", "experiment", "progress", "comparison"])
def test_json_of_another_shape_is_no_answer(client: Client, site: Site, call: str) -> None:
    for document in (b"{}", b'{"id": true, "is_alive": 1, "exit_word": 3, "username": []}'):
        site.faults.append(answer_text(document))
        with pytest.raises(UnexpectedAnswer):
            getattr(client, call)(*([] if call == "me" else [1]))


def test_strange_problems_are_a_refusal(client: Client, site: Site) -> None:
    for text in (b'{"problems": 3}', b'{"problems": [3, {"line": "x", "message": null}]}', b"{"):
        site.faults.append(answer_text(text, "application/problem+json", 422))
        with pytest.raises(Refused) as caught:
            client.me()
        assert str(caught.value)


def test_huge_answers_are_not_held(site: Site) -> None:
    connection = Connection(StoredSite(site.url, TOKEN), timeout=5, total=5, most_bytes=1000)
    site.faults.append(answer_text(b" " * 2_000_000))
    with pytest.raises(UnexpectedAnswer, match="more than"):
        connection.send(Question("GET", "/api/v1/me"))


def test_a_silent_site_ends_at_its_time(site: Site) -> None:
    client = Client(site.url, TOKEN, timeout=0.1, patience=Patience(attempts=1))
    site.faults.append(keep_silent(1))
    with pytest.raises(NotReachable, match=r"did not answer within 0\.1 s"):
        client.me()


def test_a_site_that_drips_ends_at_its_time(site: Site) -> None:
    client = Client(site.url, TOKEN, timeout=5, total=0.2, patience=Patience(attempts=1))
    site.faults.append(answer_slowly(3))
    began = time.monotonic()
    with pytest.raises(NotReachable, match="took longer"):
        client.me()
    assert time.monotonic() - began < 2


def test_nobody_listens(pauses: list[float]) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(NotReachable, match="cannot be reached"):
        Client(url, TOKEN).me()
    assert len(pauses) == 4


def test_a_certificate_of_an_unknown_authority_is_refused_at_once_and_can_be_allowed(
    tmp_path: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, context = make_certificate(tmp_path)
    with serve(context) as site:
        with pytest.raises(NotTrusted, match="SSL_CERT_FILE"):
            Client(site.url, TOKEN).me()
        assert pauses == []
        assert site.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        assert Client(site.url, TOKEN).me().username == "ada"


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the file of a new authority's certificate, which is also that of 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    path, key_path = folder / "authority.pem", folder / "key.pem"
    path.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key_path)
    return path, context


class FullDisk(io.BytesIO):
    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_not_the_sites_fault(client: Client, pauses: list[float]) -> None:
    with pytest.raises(UsageError, match="No space left"):
        client.save("/experiments/1/bundle.zip", FullDisk())
    assert pauses == []


@pytest.mark.parametrize(
    "target", ["https://elsewhere.example/", "/login/", "//elsewhere.example", "http://[", ""]
)
def test_no_redirect_is_followed(client: Client, site: Site, target: str) -> None:
    site.faults.append(answer_text(b"", status=302, Location=target))
    with pytest.raises(UnexpectedAnswer, match="sends its visitors to"):
        client.me()
    assert len(site.requests) == 1


def test_a_list_that_leads_to_another_site_is_not_followed(client: Client, site: Site) -> None:
    for following in (b'"http://127.0.0.1:1/api/v1/me"', b'"https://elsewhere.example/"'):
        site.faults.append(answer_text(b'{"items": [], "next": ' + following + b"}"))
        with pytest.raises(UnexpectedAnswer, match="another site"):
            list(client.experiments())


def test_a_path_of_a_list_cannot_change_the_host(client: Client, site: Site) -> None:
    """`http://127.0.0.1:80` and "@elsewhere" would be a user name and another host."""
    names = (
        "@127.0.0.1:1/",
        ".elsewhere.example/",
        "1/",
        "//[",
        "/a b",
        "/\r\n",
        "/é",
        "http://[",
        "",
    )
    for following in [*(json.dumps(name).encode() for name in names), b"3"]:
        site.faults.append(answer_text(b'{"items": [], "next": ' + following + b"}"))
        with pytest.raises(TareError):
            list(client.experiments())


@pytest.mark.parametrize("path", ["/tare/api/v1/runs?cursor=1", "/api/v1/runs?cursor=1"])
def test_a_site_may_lie_below_a_path(path: str) -> None:
    site = StoredSite("https://example.org/tare", TOKEN)
    connection = Connection(site, timeout=1, total=1)
    assert connection.resolve(path) == "https://example.org/tare/api/v1/runs?cursor=1"


def test_a_list_in_a_circle_ends(client: Client, site: Site) -> None:
    row = b'{"items": [{"id": 1}], "next": "/api/v1/experiments?cursor=1"}'
    site.faults.extend([answer_text(row)] * 3)
    with pytest.raises(UnexpectedAnswer, match="circle"):
        list(client.experiments())


def test_pages_are_fetched_while_they_are_read(client: Client, site: Site) -> None:
    site.experiments = [describe_experiment(key) for key in range(1, 5001)]
    site.page_size = 100
    rows = client.experiments()
    assert [next(rows).id for _ in range(101)][-1] == 101
    assert len(site.requests) == 2
    assert sum(1 for _ in rows) == 4899
    assert [row.id for row in client.experiments(limit=3)] == [1, 2, 3]


def test_a_page_that_breaks_is_fetched_again_and_no_row_comes_twice(
    client: Client, site: Site
) -> None:
    site.experiments = [describe_experiment(key) for key in range(1, 31)]
    site.page_size = 10
    site.faults.extend([None, cut_in_the_middle, None, answer_status(502)])
    assert [row.id for row in client.experiments()] == list(range(1, 31))


def test_a_download_that_is_cut_begins_anew(client: Client, site: Site) -> None:
    site.faults.append(cut_in_the_middle)
    file = io.BytesIO()
    assert client.save("/experiments/1/bundle.zip", file) == "bundle.zip"
    assert file.getvalue() == site.bundle


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('attachment; filename="../../.bashrc"', "bashrc"),
        ('attachment; filename="a\\\\..\\\\b.zip"', "b.zip"),
        ("attachment; filename*=UTF-8''%C3%A9%2F%1b.zip", ".zip".lstrip(".")),
        ("nonsense", ""),
    ],
)
def test_a_name_of_a_file_has_no_folders(
    client: Client, site: Site, disposition: str, name: str
) -> None:
    site.faults.append(
        lambda handler: handler.send(
            200, b"x", "application/zip", {"Content-Disposition": disposition}
        )
    )
    assert client.save("/experiments/1/bundle.zip", io.BytesIO()) == name


def test_what_has_not_changed_is_not_sent_again(client: Client, site: Site) -> None:
    first, second = client.comparison(1), client.comparison(1)
    assert first == second
    assert [request.headers.get("If-None-Match") for request in site.requests] == [None, '"slower"']


@pytest.mark.parametrize("status", [401, 500, 422])
def test_no_error_repeats_the_token(client: Client, site: Site, status: int) -> None:
    detail = f"You sent {TOKEN}."
    problem: dict[str, Any] = {"message": TOKEN, "field": TOKEN}
    body = f'{{"detail": "{detail}", "title": "{TOKEN}", "problems": [{problem}]}}'
    text = body.replace("'", '"').encode()
    site.faults.extend([answer_text(text, "application/problem+json", status)] * 9)
    with pytest.raises(Refused) as caught:
        client.me()
    error = caught.value
    assert TOKEN not in f"{error!r} {error.describe()} {error.title} {error.problems} {client!r}"
    assert "tare_…" in str(error)


def test_a_token_that_no_header_can_have_is_refused_without_it() -> None:
    for token in ("", "x", TOKEN + "\r\nHost: elsewhere", TOKEN[:-1] + "é", TOKEN + "a"):
        with pytest.raises(UsageError, match="This is no token") as caught:
            Client("https://tare.example.org", token)
        assert not token or token == "x" or token not in str(caught.value)


def test_a_proxy_is_used_as_the_standard_library_does(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The contract's server takes the place of the proxy: it sees the whole address."""
    monkeypatch.setenv("http_proxy", site.url)
    client = Client("http://tare.example.org", TOKEN, insecure_http=True)
    assert client.me().username == "ada"
    assert site.requests[0].headers["Host"] == "tare.example.org"


def test_what_goes_to_this_machine_goes_through_no_proxy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert Client(site.url, TOKEN).me().username == "ada"


def test_numbers_of_json_are_numbers() -> None:
    with pytest.raises(ValueError, match="NaN"):
        read_json(b'{"ratio": NaN}')
