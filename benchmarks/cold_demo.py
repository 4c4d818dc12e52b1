"""A fresh clone with an empty home and cache: seconds to the first page and to all verdicts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from standalone.children import find_free_port

GOALS = {"first page": 60, "all verdicts": 900, "warm start": 10, "Ctrl-C": 3}


def psql(clone: Path, statement: str) -> str:
    """Ask the demo's own database; empty while it cannot answer."""
    program = (
        "import sys, psycopg2; c = psycopg2.connect(sys.argv[1]).cursor(); "
        "c.execute(sys.argv[2]); print(*c.fetchone())"
    )
    settings = dict(line.split("=", 1) for line in (clone / "var/environment").read_text().split())
    done = subprocess.run(
        [clone / ".venv/bin/python", "-c", program, settings["DATABASE_URL"], statement],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def start(clone: Path, home: Path, port: int) -> tuple[subprocess.Popen[bytes], float]:
    """Run `make demo` until it says that it is ready; return it and how long that took."""
    log = home / "demo.log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    began = time.monotonic()
    with log.open("wb") as output:
        demo = subprocess.Popen(
            ["make", "demo"],
            cwd=clone,
            env=environment | {"HOME": str(home), "TARE_PORT": str(port)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    while not re.search("^Tare is ready", log.read_text(), re.MULTILINE):
        if demo.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.1)
    return demo, time.monotonic() - began


def stop(demo: subprocess.Popen[bytes]) -> float:
    began = time.monotonic()
    os.killpg(demo.pid, signal.SIGINT)
    demo.wait()
    return time.monotonic() - began


def web_memory_mb(clone: Path) -> float:
    """Return the resident memory of the largest web process in MB."""
    sizes = [0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (
                b"dashboard.wsgi" in (process / "cmdline").read_bytes()
                and (process / "cwd").resolve() == clone
            ):
                status = (process / "status").read_text()
                sizes.append(int(re.search(r"VmRSS:\s+(\d+)", status)[1]))
        except (OSError, TypeError):
            continue
    return max(sizes) / 1024


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tare-cold-")).resolve()
    clone, home = folder / "clone", folder / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", BASE, clone], check=True)
    port, times = find_free_port(), {}
    demo, times["first page"] = start(clone, home, port)
    began = time.monotonic()
    unfinished = (
        "select count(*) filter (where state in ('planned', 'running')), count(*) "
        "from experiments_run"
    )
    while not re.fullmatch(r"0 [1-9]\d*", psql(clone, unfinished)):
        if demo.poll() is not None:
            sys.exit((home / "demo.log").read_text())
        time.sleep(1)
    times["all verdicts"] = times["first page"] + time.monotonic() - began
    states = psql(clone, "select string_agg(distinct state, ' ') from experiments_run")
    memory = web_memory_mb(clone)
    times["Ctrl-C"] = stop(demo)
    demo, times["warm start"] = start(clone, home, port)
    measurements = psql(clone, "select count(*) from experiments_measurement")
    times["Ctrl-C, warm"] = stop(demo)
    for label, seconds in times.items():
        goal = GOALS.get(label.partition(",")[0])
        print(f"{label:16}{seconds:8.1f} s   (goal: {goal} s)")
    print(f"{'web process':16}{memory:8.0f} MB  (goal: 200 MB)")
    print(
        f"states of the runs: {states}; measurements there after the second start: {measurements}"
    )
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
