"""Lists and comparisons beside MLflow's and Aim's, on the same numbers of runs, in one run.

python benchmarks/peers_pages.py [RUNS [FOLDER]]

Installs both from PyPI into virtual environments of their own under FOLDER (by default
`~/.cache/tare-peers`), fills them as `peers_fill.py` says, and asks all three in turns: by the
requests that their pages make, and by Chromium until the rows are on the screen. MLflow has a
database of its own on the same PostgreSQL server as Tare. Of Aim as many runs as one minute fills:
with 4,600, of five minutes, it answered no request within 5 minutes here.
A tool that does not answer within PATIENCE is named and asked no more.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.first_paint import list_family, log_in, open_browser, open_profile
from benchmarks.large_site import RUNS, RUNS_EACH
from benchmarks.pages import prepare_site
from benchmarks.peers_fill import CURVE_RUNS, CURVES, SERIES
from benchmarks.servers import run_server, run_servers, run_web
from benchmarks.site_pages import SORTED, list_addresses
from standalone import children

TIMES, PAINTED = 9, 3
AIM_SECONDS = 60
PATIENCE = 120
"""Seconds to wait for an answer."""
PACKAGES = {"mlflow": ["mlflow", "psycopg2-binary"], "aim": ["aim"]}
POINTS = 320
"""Of each curve, as MLflow's own page asks for them."""
ALL, ONE, SERIES_OF_20 = (
    "100 runs of all, by a metric",
    "one experiment of 100 runs",
    "20 runs with 5 series of 1,000 steps",
)
IS_PAINTED = """(text) => document.body && document.body.innerText.search(new RegExp(text)) >= 0"""


@dataclass
class Tool:
    """A web server, what is asked of it, and the pages that a browser opens."""

    name: str
    base: str
    processes: list[int]
    requests: dict[str, list[tuple[str, str, Any]]]
    """By what is asked: method, path and body of each request."""
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By what is shown: the path, and a pattern of a text that is there once rows are shown."""
    cookies: dict[str, str] = field(default_factory=dict)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    given = sys.argv[2] if len(sys.argv) > 2 else Path.home() / ".cache" / "tare-peers"
    home = Path(given).resolve()
    versions = {name: install(home, name) for name in PACKAGES}
    print(", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items()))
    with run_servers() as folder, ExitStack() as stack:
        url = _make_database("mlflow")
        filling = {
            "mlflow": _start_filling(home, "mlflow", url, str(runs)),
            "aim": _start_filling(home, "aim", str(folder / "aim"), str(runs), str(AIM_SECONDS)),
        }
        person, _ = prepare_site(runs)
        addresses = list(list_addresses(person))
        filled = {name: _read_count(process) for name, process in filling.items()}
        _tidy(url)
        print(f"runs: Tare {runs:,}, " + ", ".join(f"{k} {v:,}" for k, v in filled.items()))
        tools = [stack.enter_context(run_tare(folder, person, addresses))]
        tools.append(stack.enter_context(run_mlflow(home, folder, url, filled["mlflow"])))
        if filled["aim"]:
            tools.append(stack.enter_context(run_aim(home, folder)))
        compare(tools, find_postmaster())


def install(home: Path, name: str) -> str:
    """Install a tool unless it is there; return its version, or "" where it cannot be installed."""
    python = home / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home / name], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", *PACKAGES[name]]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name} cannot be installed here: {done.stderr.strip()[-500:]}")
            return ""
    ask = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run(
        [python, "-c", ask], capture_output=True, text=True, check=False
    ).stdout.strip()


def _make_database(name: str) -> str:
    """Create a database beside Tare's; return its address."""
    import psycopg2

    url = os.environ["DATABASE_URL"]
    connection = psycopg2.connect(url)
    connection.autocommit = True
    connection.cursor().execute(f"CREATE DATABASE {name}")
    connection.close()
    return url.rpartition("/")[0] + f"/{name}"


def _tidy(url: str) -> None:
    import psycopg2

    connection = psycopg2.connect(url)
    connection.autocommit = True
    connection.cursor().execute("VACUUM ANALYZE")
    connection.close()


def _start_filling(home: Path, name: str, place: str, *more: str) -> subprocess.Popen[str]:
    if place.startswith("postgresql:"):
        place = _name_driver(place)
    else:
        Path(place).mkdir()
    program = [home / name / "bin" / "python", BASE / "benchmarks" / "peers_fill.py"]
    return subprocess.Popen(
        [*program, name, place, *more],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _name_driver(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg2:", 1)


def _read_count(process: subprocess.Popen[str]) -> int:
    text, _ = process.communicate()
    return int(text.split()[-1]) if process.returncode == 0 else 0


@contextmanager
def run_tare(folder: Path, person: Any, addresses: list[Any]) -> Iterator[Tool]:
    curves = next(each.path for each in addresses if each.kind == "curves")
    pages = (each.path for each in addresses if each.kind == "page")
    comparison = next(path for path in pages if path.endswith("/comparison/"))
    with run_web(folder) as (base, pid):
        yield Tool(
            "Tare",
            base,
            [pid],
            {
                ALL: [("GET", SORTED, None)],
                ONE: [("GET", comparison, None)],
                SERIES_OF_20: [("GET", curves, None)],
            },
            {ALL: (SORTED, "Question [0-9]{4}"), ONE: (comparison, "container|Podman|Apptainer")},
            log_in(person),
        )


@contextmanager
def run_mlflow(home: Path, folder: Path, url: str, runs: int) -> Iterator[Tool]:
    port = children.find_free_port()
    base = f"http://127.0.0.1:{port}"
    command = [
        *(str(home / "mlflow" / "bin" / "mlflow"), "server", "--workers", "1"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *(
            "--backend-store-uri",
            _name_driver(url),
            "--default-artifact-root",
            str(folder / "none"),
        ),
    ]
    first = 1  # 0 is the experiment "Default"
    count = runs // RUNS_EACH
    keys = [str(number) for number in range(first, first + count)]
    uids = [f"{runs + number:032x}" for number in range(CURVE_RUNS)]
    search = "/ajax-api/2.0/mlflow/runs/search"
    body = {"order_by": ["metrics.step_time DESC"], "max_results": 100}
    history = "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval?"
    order = "orderByKey=metrics.%60step_time%60&orderByAsc=false&startTime=ALL"
    path = f"/#/experiments/{keys[-1]}/runs?searchFilter=&{order}&lifecycleFilter=Active"
    with run_server(command, base, "/health", folder / "mlflow.log") as pid:
        yield Tool(
            "MLflow",
            base,
            [pid],
            {
                ALL: [("POST", search, body | {"experiment_ids": keys})],
                ONE: [("POST", search, body | {"experiment_ids": keys[-1:]})],
                SERIES_OF_20: [
                    (
                        "GET",
                        history
                        + urlencode(
                            {"run_ids": uids, "metric_key": name, "max_results": POINTS},
                            doseq=True,
                        ),
                        None,
                    )
                    for name in SERIES
                ],
            },
            {ONE: (path, "run [0-9]{2}")},
        )


@contextmanager
def run_aim(home: Path, folder: Path) -> Iterator[Tool]:
    port = children.find_free_port()
    base = f"http://127.0.0.1:{port}"
    command = [
        *(str(home / "aim" / "bin" / "aim"), "up", "--yes", "--repo", str(folder / "aim")),
        *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
    ]
    runs = "/api/runs/search/run/?"
    one = 'run.experiment == "Question 0000"'
    curves = urlencode({"q": f'run.experiment == "{CURVES}"', "p": 500, "report_progress": "false"})
    more = {"report_progress": "false", "limit": 100}
    off = {"AIM_UI_TELEMETRY_ENABLED": "0"}
    with run_server(command, base, "/api/projects/", folder / "aim.log", **off) as pid:
        yield Tool(
            "Aim",
            base,
            [pid],
            {
                ALL: [("GET", runs + urlencode({"q": "", **more}), None)],
                ONE: [("GET", runs + urlencode({"q": one, **more}), None)],
                SERIES_OF_20: [("GET", f"/api/runs/search/metric/?{curves}", None)],
            },
            {ALL: ("/runs", "Question [0-9]{4}")},
        )


def compare(tools: list[Tool], postmaster: int) -> None:
    """Print what each tool takes for each question, asked in turns."""
    print(f"load {os.getloadavg()[0]:.1f}; median of {TIMES} in turns, paint of {PAINTED}")
    heads = ("ms", "own CPU", "requests", "kB", "kB sent")
    print(f"{'':48}" + "".join(f"{head:>10}" for head in heads))
    for what in (ALL, ONE, SERIES_OF_20):
        rows: dict[str, list[tuple[float, float, int, int]]] = {tool.name: [] for tool in tools}
        for number in range(TIMES + 1):
            for tool in list(tools):
                try:
                    measured = _ask(tool, what, postmaster)
                except (OSError, http.client.HTTPException) as error:
                    print(f"{what:38}{tool.name:10} does not answer: {error}", flush=True)
                    tools.remove(tool)
                    continue
                if number:  # the first one fills caches
                    rows[tool.name].append(measured)
        for tool in tools:
            took, own, whole, sent = (
                statistics.median(values) for values in zip(*rows[tool.name], strict=True)
            )
            print(
                f"{what:38}{tool.name:10}{took:10.0f}{own:10.0f}{len(tool.requests[what]):10}"
                f"{whole / 1000:10.0f}{sent / 1000:10.0f}",
                flush=True,
            )
    with open_browser() as browser:
        for what in (ALL, ONE):
            shown = [tool for tool in tools if what in tool.pages]
            painted: dict[str, list[float]] = {tool.name: [] for tool in shown}
            for _ in range(PAINTED):
                for tool in shown:
                    painted[tool.name].append(_paint(browser, tool, *tool.pages[what]))
            for name, values in painted.items():
                print(f"{what + ', painted':38}{name:10}{statistics.median(values):10.0f}")
    print(f"load {os.getloadavg()[0]:.1f}")


def _ask(tool: Tool, what: str, postmaster: int) -> tuple[float, float, int, int]:
    """Return ms to the last byte, ms of own CPU with PostgreSQL, bytes, and bytes as sent."""
    place = urlsplit(tool.base)
    whole = sent = 0
    own_before = _read_cpu([*tool.processes, postmaster])
    began = time.perf_counter()
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE)
    for method, path, body in tool.requests[what]:
        headers = {"Accept-Encoding": "gzip", "Content-Type": "application/json"}
        if tool.cookies:
            headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in tool.cookies.items())
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{tool.name}, {path[:100]}: {answer.status} {content[:300]!r}")
        sent += len(content)
        packed = answer.headers.get("Content-Encoding") == "gzip"
        whole += len(_unpack(content)) if packed else len(content)
    took = time.perf_counter() - began
    connection.close()
    own = _read_cpu([*tool.processes, postmaster]) - own_before
    return 1000 * took, 1000 * own, whole, sent


def _unpack(content: bytes) -> bytes:
    import gzip

    return gzip.decompress(content)


def _read_cpu(roots: list[int]) -> float:
    """Return the seconds of processor time of processes and all that descend from them."""
    total = 0
    for root in roots:
        for pid in list_family(root):
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                try:
                    total += int(path.read_text().split()[0])
                except OSError:
                    continue
    return total / 1e9


def _paint(browser: Any, tool: Tool, path: str, pattern: str) -> float:
    """Return the ms from the beginning of the navigation until rows are on the screen."""
    context = open_profile(browser, tool.base, tool.cookies)
    page = context.new_page()
    page.goto(tool.base + path, wait_until="commit", timeout=120_000)
    page.wait_for_function(IS_PAINTED, arg=pattern, polling="raf", timeout=120_000)
    took: float = page.evaluate("() => performance.now()")
    context.close()
    return took


def find_postmaster() -> int:
    """Return the id of PostgreSQL's first process, of which all its others descend."""
    from django.db import connection

    connection.ensure_connection()
    pid = connection.connection.get_backend_pid()
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main()
