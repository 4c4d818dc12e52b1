"""What `make demo` does when it is asked to stop."""

import subprocess
import sys
from pathlib import Path

from standalone import children, demo

# Python prints an exception that is raised in a hook at a fork, and goes on.
ASKED_DURING_A_FORK = """
import os, signal, sys
from pathlib import Path
from standalone import demo
from standalone.children import start
from standalone.services import Service, Supervisor

signal.signal(signal.SIGINT, demo.stop)
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
folder = Path(sys.argv[1])
supervisor = Supervisor(folder / "services.json", print)
supervisor.services.append(Service("web", lambda: start(["sleep", "99"]), folder / "log"))
try:
    demo.keep_alive_until_stopped(supervisor)
except KeyboardInterrupt:
    print("stopped")
"""


def test_ctrl_c_at_the_moment_in_which_a_service_is_started_is_not_lost(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ASKED_DURING_A_FORK, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "stopped" in done.stdout, done.stderr


def test_whatever_a_program_writes_in_place_of_its_number_keeps_no_other_job_alive(
    tmp_path, monkeypatch
):
    """The demo would stop in disorder too: its servers are told to end after that."""
    monkeypatch.setattr(demo, "VAR", tmp_path)
    jobs = tmp_path / "here" / "work" / "jobs"
    odd = (b"", b"abc-5", b"\xff-1", b"self-1", b"999999999999-1", b"1-1")
    for number, content in enumerate(odd):
        (jobs / f"{number}").mkdir(parents=True)
        (jobs / f"{number}" / "scheduler.id").write_bytes(content)
    (jobs / "folder" / "scheduler.id").mkdir(parents=True)
    child = children.start(["sleep", "600"])
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    (jobs / "real").mkdir()
    (jobs / "real" / "scheduler.id").write_text(f"{child.pid}-{started}\n")
    try:
        demo._end_jobs_here()
        child.wait(120)
    finally:
        children.wait_or_kill([child], seconds=0)
