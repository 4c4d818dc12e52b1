"""Which site is asked, where tokens lie, and to whom they are never sent."""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tare_client import Client, UsageError
from tare_client.command_line import main
from tare_client.stored_sites import is_loopback, normalise_url, read_site

from tests.clients.contract_server import TOKEN, Site

OTHER = "tare_" + "z" * 43


def log_in(url: str, monkeypatch: pytest.MonkeyPatch, *words: str, token: str = TOKEN) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))
    return main(["login", url, *words])


def test_a_login_is_stored_for_its_owner_alone(
    site: Site,
    settings_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert log_in(site.url, monkeypatch) == 0
    path = settings_folder / "config.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings_folder.stat().st_mode) == 0o700
    assert os.listdir(settings_folder) == ["config.json"]
    shown = "".join(capsys.readouterr())
    assert "as ada (Member)" in shown
    assert "until 2027-01-01" in shown
    assert TOKEN not in shown
    assert Client.from_settings().me().username == "ada"


def test_a_token_that_opens_nothing_is_not_stored(
    site: Site,
    settings_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert log_in(site.url, monkeypatch, token=OTHER) == 4
    assert not settings_folder.exists()
    assert OTHER not in "".join(capsys.readouterr())


@pytest.mark.parametrize("token", ["", "hunter2", "tare_short", TOKEN + "x"])
def test_what_is_no_token_is_not_sent(
    site: Site, monkeypatch: pytest.MonkeyPatch, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_in(site.url, monkeypatch, token=token) == 64
    assert site.requests == []
    assert "API tokens, in the menu" in capsys.readouterr().err


def test_no_token_is_taken_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["login", "https://tare.example.org", "--token", TOKEN]) == 64
    assert main(["login", "https://tare.example.org", TOKEN]) == 64


def test_a_second_site_keeps_the_first_ones_token(
    site: Site, settings_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(site.url, monkeypatch)
    other = site.url.replace("127.0.0.1", "localhost")
    log_in(other, monkeypatch)
    content = json.loads((settings_folder / "config.json").read_text())
    assert content["site"] == other
    assert set(content["sites"]) == {site.url, other}
    monkeypatch.setenv("TARE_URL", site.url)
    assert read_site().url == site.url


def test_a_stored_token_is_not_sent_to_the_site_of_the_environment(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(site.url, monkeypatch)
    monkeypatch.setenv("TARE_URL", "https://elsewhere.example")
    with pytest.raises(UsageError, match="No token is known for https://elsewhere"):
        read_site()


def test_the_environment_alone_is_enough(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_URL", site.url + "/")
    monkeypatch.setenv("TARE_TOKEN", f" {TOKEN}\n")
    assert Client.from_settings().me().username == "ada"


def test_without_a_site_the_next_step_is_named() -> None:
    with pytest.raises(UsageError, match="tare login"):
        read_site()


def test_a_file_that_others_may_read_is_refused(
    site: Site, settings_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(site.url, monkeypatch)
    (settings_folder / "config.json").chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_site()


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b"{", b'{"site": 3}', b'{"site": "x", "sites": [1]}', b"[" * 9999],
)
def test_a_damaged_file_is_a_sentence(settings_folder: Path, content: bytes) -> None:
    settings_folder.mkdir(parents=True)
    path = settings_folder / "config.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UsageError):
        read_site()


def test_a_folder_that_cannot_be_written_is_a_sentence(
    site: Site, settings_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_folder.parent.parent.joinpath("config").write_text("a file is in the way")
    assert log_in(site.url, monkeypatch) == 64


@pytest.mark.parametrize(
    "url", ["http://tare.example.org", "http://127.evil.example", "http://10.0.0.1"]
)
def test_a_token_does_not_travel_unencrypted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("tare_client.commands.account.ask_for_token", asked.append)
    assert main(["login", url]) == 64
    assert asked == []
    with pytest.raises(UsageError, match="not encrypted"):
        Client(url, TOKEN)
    assert Client(url, TOKEN, insecure_http=True).url == url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("tare.example.org", "https://tare.example.org"),
        (" https://Tare.example.org/ ", "https://tare.example.org"),
        ("https://example.org/tare/", "https://example.org/tare"),
        ("https://example.org/api/v1/", "https://example.org"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("localhost:8000", "https://localhost:8000"),
        ("https://caf\u00e9.example.org/tare", "https://xn--caf-dma.example.org/tare"),
    ],
)
def test_addresses_of_sites(text: str, url: str) -> None:
    assert normalise_url(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "https://", "ftp://x", "file:///etc/passwd", "https://a b", "https://u:p@x", "https://x?y",
     "https://x#y", "https://x\r\ny", "javascript:alert(1)", "https://x:99999999",
     "https://a..b", f"https://{'a' * 70}.org"],
)  # fmt: skip
def test_what_is_no_address_of_a_site(text: str) -> None:
    with pytest.raises(UsageError):
        normalise_url(text)


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://127.0.0.1:1", True), ("http://localhost", True), ("http://[::1]", True),
     ("http://localhost.example.org", False), ("http://127.0.0.1.example.org", False)],
)  # fmt: skip
def test_this_machine(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


def test_the_token_is_asked_for_unseen(
    site: Site, monkeypatch: pytest.MonkeyPatch, tare: Callable[..., int]
) -> None:
    prompts: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: prompts.append(prompt) or TOKEN)
    assert tare("login", site.url) == 0
    assert len(prompts) == 1


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_no_machine_has_is_refused(port: str) -> None:
    with pytest.raises(UsageError, match=f"{port} is no port"):
        Client(f"https://example.org:{port}", TOKEN)
