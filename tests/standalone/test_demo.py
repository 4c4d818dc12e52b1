"""What `make demo` does when it is asked to stop."""

import subprocess
import sys

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
