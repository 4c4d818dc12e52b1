"""`make demo`: one supervisor, one address, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from tests.conftest import pause_longer
from tests.lab.started_demo import Demo, find_services, log_in, wait_for
from tests.source_tree import BASE

pytestmark = pytest.mark.lab

SET_PASSWORD = """
from experiments.models import User
user = User.objects.get(username="demo")
user.set_password("a password of my own")
user.save()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "var"
    subprocess.run([BASE / "lab" / "lab", "down", "--dir", tmp_path / "var" / "lab"], check=False)


def wait_for_end(demo: Demo, seconds: float = 120) -> None:
    """Wait until nothing of the demo runs any more, at most `seconds`."""
    deadline, pauses = time.monotonic() + seconds, pause_longer()
    while left := demo.processes():
        assert time.monotonic() < deadline, left
        next(pauses)


def assert_taken_port_is_named(demo: Demo) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "standalone.demo"],
        cwd=BASE,
        env=os.environ | {"TARE_PORT": str(demo.port), "TARE_VAR": f"{demo.folder}-2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"port {demo.port} is taken" in done.stdout


def test_one_folder_through_three_starts(folder: Path) -> None:
    """Ctrl-C leaves nothing; what was there is there again, also after the supervisor is killed.

    One test, as each first start brings up a lab: half a minute of a processor.
    """
    first = Demo(folder)
    try:
        assert "Overview" in log_in(first)
        assert len(first.processes()) > 5
        assert_taken_port_is_named(first)
        assert "WARNINGS" not in first.output.read_text(), "a newcomer has nothing to mend"
        password = first.says(r"the password (\S+)")[1]
        keys = (folder / "environment").read_text()
    finally:
        first.stop()
    wait_for_end(first)

    second = Demo(folder)
    try:
        assert "Overview" in log_in(second)
        assert second.says(r"the password (\S+)")[1] == password
        kept = (folder / "environment").read_text().splitlines()
        assert kept[:2] == keys.splitlines()[:2], "the keys of stored secrets stay"
        manage = [sys.executable, "manage.py", "shell", "-c", SET_PASSWORD]
        environment = os.environ | second.read_environment()
        subprocess.run(manage, cwd=BASE, env=environment, check=True)
    except BaseException:
        second.stop()
        raise
    second.process.kill()  # as by the kernel that has no memory left: nobody stops the others
    second.process.wait()

    third = Demo(folder, second.port)  # at once, while these still end
    try:
        page = log_in(third, "a password of my own", page="operations/")
        assert re.search(r"supervisor</th>\s*<td>ended, and nobody saw how", page)
        third.says("^Log in as demo with the password that was set on the site")
        assert "Overview" in log_in(third, "a password of my own")
    finally:
        third.stop()


def find_problems(page: str) -> list[str]:
    """Return what the page of operations calls a problem, but for a full disk of this machine."""
    soup = BeautifulSoup(page, "html.parser")
    assert soup.select_one("h1").text == "Operations"
    titles = soup.select(".note strong")
    return [title.text for title in titles if "is nearly full" not in title.text]


def test_a_service_that_dies_is_started_again(folder: Path) -> None:
    demo = Demo(folder)
    try:
        demo.says("^Ctrl-C ends it")
        healthy = f"http://127.0.0.1:{demo.port}/healthz/"

        def answers() -> bool:
            try:
                with urllib.request.urlopen(healthy, timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        killed = ("worker", "clock", "bulk", "Valkey", "web", "PostgreSQL")
        for name in killed:
            wait_for(lambda name=name: name in find_services(folder), demo)
            pid = find_services(folder)[name]
            os.kill(pid, signal.SIGKILL)
            demo.says(f"^{name} was killed by SIGKILL; its log is .*. Starting it again now.")
            wait_for(lambda name=name, pid=pid: find_services(folder).get(name, pid) != pid, demo)
        wait_for(answers, demo)
        assert "Overview" in log_in(demo)
        page = BeautifulSoup(log_in(demo, page="operations/"), "html.parser")
        rows = [" ".join(row.get_text().split()) for row in page.select("tr")]
        for name in killed:
            assert [row for row in rows if f" {name} killed by SIGKILL" in row], rows
        wait_for(lambda: not find_problems(log_in(demo, page="operations/")), demo)
    finally:
        demo.stop()
    ends = json.loads((folder / "services.json").read_text())
    assert ends["stopped"]
    assert all(end["exit_code"] is not None for end in ends["ends"])
