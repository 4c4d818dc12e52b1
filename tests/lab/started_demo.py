"""`make demo` in a process and a folder of its own."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from standalone.children import find_free_port
from tests.conftest import pause_longer
from tests.source_tree import BASE


class Demo:
    """A running demo with a folder of its own."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder, self.port = folder, port or find_free_port()
        self.output = folder.with_suffix(".log")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "CREDENTIAL_KEYS", "DEBUG"}
        }
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "standalone.demo"],
                cwd=BASE,
                env=environment | {"TARE_PORT": str(self.port), "TARE_VAR": str(folder)},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def says(self, pattern: str, seconds: float = 300) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.output.read_text(), re.MULTILINE)):
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.05)
        return match

    def read_environment(self) -> dict[str, str]:
        """Return the variables by which its processes find its servers, with its keys."""
        lines = (self.folder / "environment").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def processes(self) -> list[str]:
        """Command lines of everything that carries this demo's folder in its environment."""
        mark, command_lines = f"TARE_VAR={self.folder}".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    command_lines.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return command_lines

    def stop(self) -> float:
        """Press Ctrl-C; return how long it took to end, in seconds."""
        began = time.monotonic()
        os.kill(self.process.pid, signal.SIGINT)
        self.process.wait(120)
        return time.monotonic() - began


def log_in(demo: Demo, password: str = "", page: str = "") -> str:
    """Return a page as the demo user sees it; by default with the password that it prints."""
    password = password or demo.says(r"the password (\S+)")[1]
    address = demo.says(r"^Tare is ready: (http://\S+)$")[1]
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    browser.open(f"{address}login/").read()
    form = {
        "username": "demo",
        "password": password,
        "csrfmiddlewaretoken": next(cookie.value for cookie in jar if cookie.name == "csrftoken"),
        "next": f"/{page}",
    }
    data = urllib.parse.urlencode(form).encode()
    content: str = browser.open(f"{address}login/", data).read().decode()
    return content


def find_services(folder: Path) -> dict[str, int]:
    """Return the process ids of the services that run, as the supervisor's file has them."""
    rows = json.loads((folder / "services.json").read_text())["services"]
    return {row["name"]: row["pid"] for row in rows if row["pid"]}


def wait_for(condition: Callable[[], object], demo: Demo, seconds: float = 300) -> None:
    """Wait until something is so, at most `seconds`; the demo must go on running."""
    deadline, pauses = time.monotonic() + seconds, pause_longer()
    while not condition():
        assert demo.process.poll() is None, demo.output.read_text()
        assert time.monotonic() < deadline, demo.output.read_text()
        next(pauses)
