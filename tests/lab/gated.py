"""A key of the lab's researcher that may do only what Tare needs."""

import subprocess
from pathlib import Path

from lab.client import Lab
from runners import gate
from runners.schedulers import SCHEDULERS, Scheduler
from runners.transports import SSH, SSHAddress

AUTHORIZED_KEYS = "/etc/ssh/authorized_keys/researcher"
INSTALL = "mkdir -p ~/.ssh && cat >~/.ssh/tare-gate.py && chmod 700 ~/.ssh"


def own(lab: Lab) -> SSHAddress:
    """With the lab's own key, which may do all."""
    return SSHAddress(lab.host, lab.port, lab.user, lab.host_key, Path(lab.private_key).read_text())


def gated(lab: Lab, scheduler: Scheduler) -> SSHAddress:
    """With a new key, whose forced command is installed as the credential's page says."""
    kind = next(name for name, known in SCHEDULERS.items() if isinstance(scheduler, known))
    with SSH(own(lab)) as transport:
        transport.run(["sh", "-c", INSTALL], stdin=gate.render_script().encode())
    key = lab.directory / f"gated-{kind}"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        line = gate.format_authorized_line(
            key.with_suffix(".pub").read_text().strip(),
            work_directory=lab.work_directory,
            scheduler=kind,
        )
        append = f'printf "%s\\n" "$1" >>{AUTHORIZED_KEYS}'
        done = lab.execute(["sh", "-c", append, "append", line])
        assert done.returncode == 0, done.stderr
    address = own(lab)
    return SSHAddress(address.host, address.port, address.user, address.host_key, key.read_text())
