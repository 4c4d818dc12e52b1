"""`make demo`: everything under one supervisor, and the main job for real."""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType
from typing import IO

from standalone import children
from standalone.postgres import Postgres
from standalone.services import Service, Supervisor
from standalone.valkey import Valkey

BASE = Path(__file__).resolve().parent.parent
VAR = Path(os.environ.get("TARE_VAR", BASE / "var")).resolve()
LOGS = VAR / "log"
PYTHON = Path(sys.prefix) / "bin" / "python"
LOGIN = "demo"
PREDECESSOR_SECONDS = 10  # in which what a killed supervisor has left ends
LOOK_SECONDS = 0.2  # between two looks at the services

# The signals that asked to stop. Python loses an exception that a handler of signals raises at the
# wrong moment, as in a hook that runs at a fork; so it is also written down. An Event would
# not do: a handler that sets one can wait for ever for the lock of the wait that it interrupts.
_stop_signals: list[int] = []


def say(text: str) -> None:
    """Print a line for whoever started the demo."""
    print(text, flush=True)  # noqa: T201 - this is what the terminal is for


def main() -> int:
    """Start everything, print where it is, and keep it running until Ctrl-C."""
    os.chdir(BASE)
    LOGS.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    postgres, valkey = Postgres(VAR / "postgres"), Valkey(VAR / "valkey")
    supervisor = Supervisor(VAR / "services.json", say)
    try:
        with _only_one():
            supervisor.remember()
            _run(postgres, valkey, supervisor)
    except KeyboardInterrupt:
        say("\nStopping.")
    except RuntimeError as error:
        say(f"Tare cannot start: {error}")
        return 1
    finally:
        _stop_all(supervisor, postgres, valkey)
    return 0


def _run(postgres: Postgres, valkey: Valkey, supervisor: Supervisor) -> None:
    # If the last supervisor was killed, its web server may still be ending.
    port = _port(patience=PREDECESSOR_SECONDS if supervisor.was_killed else 0)
    postgres.start()
    valkey.start()
    address = {"SITE_ADDRESS": f"http://localhost:{port}"}  # for links in what is posted
    environment = address | _environment(postgres.url, valkey.url, supervisor.file)
    password = _first_password()
    answer = _manage("prepare_demo", environment | {"TARE_DEMO_PASSWORD": password})
    web = Service("web", lambda: _web(port, environment), LOGS / "web", ends_whole=True)
    now = time.monotonic()
    supervisor.services += [
        Service(
            server.name,
            server.start_again,
            server.folder / "log",
            child=server.child,
            started_at=now,
        )
        for server in (postgres, valkey)
    ]
    supervisor.services.append(web)
    supervisor.keep_alive()
    assert web.child
    children.wait_until(lambda: _answers(port), "The web server", child=web.child, seconds=60)
    if "password changed" in answer:
        say(
            f"Log in as {LOGIN} with the password that was set on the site. "
            f"If nobody knows it: .venv/bin/python manage.py changepassword {LOGIN}"
        )
    else:
        say(f"Log in as {LOGIN} with the password {password}")
    say(f"Tare is ready: http://localhost:{port}/")
    for name, *argv in (("worker",), ("clock",), ("bulk", "worker", "--queue", "bulk")):
        supervisor.services.append(_command(name, environment, *(argv or [name])))
    if os.geteuid() == 0:
        supervisor.services.append(Service("lab", _lab, LOGS / "lab"))
        supervisor.services.append(
            _command("demo", environment, "demo", "--lab", str(VAR / "lab"), once=True)
        )
        say(
            "A cluster of its own starts on this machine: Slurm, Apptainer and udocker. The first "
            "time its images are built, which takes some minutes; the pages show how far it is."
        )
    else:
        supervisor.services.append(_command("demo", environment, "demo", "--here", once=True))
        say(
            "Without root there is no cluster here: runs go to this machine itself, without a "
            "scheduler. (As root, `make demo` brings up a real Slurm cluster.)"
        )
    say(f"Ctrl-C ends it, and the runs under way; results stay in {VAR}.")
    keep_alive_until_stopped(supervisor)


def stop(number: int, frame: FrameType | None) -> None:
    """Stop the demo, whatever it is doing or waiting for: a handler of signals."""
    _stop_signals.append(number)
    raise KeyboardInterrupt


def keep_alive_until_stopped(supervisor: Supervisor) -> None:
    """Look after the services; KeyboardInterrupt when somebody asks to stop, or has asked."""
    while not _stop_signals:
        supervisor.keep_alive()
        time.sleep(LOOK_SECONDS)
    raise KeyboardInterrupt


def _stop_all(supervisor: Supervisor, postgres: Postgres, valkey: Valkey) -> None:
    """Ask all at once, insist together: what the slowest needs is all that is needed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    servers = (postgres.child, valkey.child)
    living = [row.child for row in supervisor.services if row.child and row.child not in servers]
    for child in living:
        children.terminate(child)
    _end_jobs_here()
    children.wait_or_kill(living, seconds=1.2)
    valkey.stop()
    postgres.stop()
    if supervisor.services:  # otherwise the file may be that of another one, which runs
        supervisor.write(stopped=True)


def _end_jobs_here() -> None:
    """End jobs that were sent to this machine itself: on a real one they would outlive us.

    The job script notes that it was terminated; the next start finds that in its record.
    """
    for path in (VAR / "here" / "work" / "jobs").glob("*/scheduler.id"):
        try:
            text, _, started = path.read_text().strip().partition("-")
            process = int(text)
            stat = Path("/proc", str(process), "stat").read_text()
            if stat.rpartition(")")[2].split()[19] == started:  # the id was not given anew
                os.killpg(process, signal.SIGTERM)
        except (OSError, ValueError):  # it has ended, or its program has written something else
            continue


def _only_one() -> IO[str]:
    """Hold a lock file, so that two demos never share one data folder."""
    lock = (VAR / "demo.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RuntimeError("it is running from this folder already.") from None
    return lock


def _port(patience: float) -> int:
    """Return the port of the web server, for which it may wait `patience` seconds to be free."""
    port = os.environ.get("TARE_PORT", "8000")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise RuntimeError(f"TARE_PORT is {port!r}; it must be a port number.")
    deadline = time.monotonic() + patience
    while (is_taken := children.is_listening(int(port))) and time.monotonic() < deadline:
        time.sleep(0.1)
    if is_taken:
        raise RuntimeError(f"port {port} is taken. Choose another one: TARE_PORT=8001 make demo")
    return int(port)


def _environment(database_url: str, redis_url: str, supervisor_file: Path) -> dict[str, str]:
    """Return the children's environment; keys are made once and kept in var/environment."""
    path = VAR / "environment"
    kept = dict(
        line.split("=", 1) for line in (path.read_text().splitlines() if path.exists() else [])
    )
    settings = {
        "SECRET_KEY": kept.get("SECRET_KEY") or secrets.token_urlsafe(48),
        "CREDENTIAL_KEYS": kept.get("CREDENTIAL_KEYS")
        or base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "DATABASE_URL": os.environ.get("DATABASE_URL", database_url),
        "REDIS_URL": os.environ.get("REDIS_URL", redis_url),
        "SUPERVISOR_FILE": str(supervisor_file),
    }
    path.touch(mode=0o600)
    path.chmod(0o600)  # one that was copied here
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return os.environ | settings | {"PYTHONUNBUFFERED": "1"}


def _first_password() -> str:
    """Return the demo user's first password, made once and kept beside the keys."""
    path = VAR / "password"
    if not path.exists() or not path.read_text().strip():
        path.touch(mode=0o600)
        path.write_text(f"{secrets.token_urlsafe(9)}\n")
    return path.read_text().strip()


def _manage(command: str, environment: dict[str, str]) -> str:
    """Run a command of manage.py and return what it printed. RuntimeError if it failed."""
    done = subprocess.run(
        [PYTHON, "manage.py", command],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"manage.py {command} failed; its messages are above.")
    return done.stdout


def _command(name: str, environment: dict[str, str], *argv: str, once: bool = False) -> Service:
    log, heartbeat = LOGS / name, VAR / "heartbeats" / name
    heartbeat.parent.mkdir(exist_ok=True, mode=0o700)
    variables = environment | {"ALIVE_PATH": str(heartbeat)}
    return Service(
        name,
        lambda: children.start([PYTHON, "manage.py", *argv], log=log, env=variables),
        log,
        once=once,
        heartbeat=heartbeat,
    )


def _web(port: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return children.start(
        [
            *(PYTHON, "-m", "gunicorn", "dashboard.wsgi"),
            *("--bind", f"127.0.0.1:{port}", "--threads", "4", "--worker-tmp-dir", "/dev/shm"),  # noqa: S108
            *("--graceful-timeout", "1", "--keep-alive", "5", "--no-control-socket"),
        ],
        log=LOGS / "web",
        env=environment,
    )


def _lab() -> subprocess.Popen[bytes]:
    return children.start(
        [BASE / "lab" / "lab", "up", "--foreground", "--dir", VAR / "lab"], log=LOGS / "lab"
    )


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz/", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


if __name__ == "__main__":
    sys.exit(main())
