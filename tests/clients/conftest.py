"""The client is a package of its own: here it is imported from its folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.source_tree import BASE

CLIENT = BASE / "clients" / "python"
sys.path.insert(0, str(CLIENT))

from tare_client import Client  # noqa: E402
from tare_client.command_line import main  # noqa: E402

from tests.clients.contract_server import TOKEN, Site, serve  # noqa: E402


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have waited before it asked again."""
    waited: list[float] = []
    monkeypatch.setattr("tare_client.retries.sleep", waited.append)
    return waited


@pytest.fixture
def client(site: Site, pauses: list[float]) -> Client:
    return Client(site.url, TOKEN, timeout=5)


@pytest.fixture(autouse=True)
def settings_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads the settings of the person who runs it."""
    for name in ("TARE_URL", "TARE_TOKEN", "http_proxy", "HTTP_PROXY", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "tare"


@pytest.fixture
def tare(
    site: Site, pauses: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., int]:
    """Run the command in this process, in an empty folder; return its exit code."""
    monkeypatch.setenv("TARE_URL", site.url)
    monkeypatch.setenv("TARE_TOKEN", TOKEN)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return lambda *words: main([str(word) for word in words])
