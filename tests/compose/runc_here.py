#!/usr/bin/python3 -IS
"""Call runc without the capabilities that this machine does not have.

A virtual machine may withhold some from root (CAP_SYS_RESOURCE, say). Docker asks for all of them
for a privileged container, and runc then refuses to start it. The engine of the proof calls this
instead of runc on such a machine.
"""

import json
import os
import sys
from pathlib import Path

CAPABILITIES = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE
SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"""


def list_missing_capabilities() -> set[str]:
    """Return the capabilities that no process of this machine can have."""
    status = Path("/proc/self/status").read_text()
    bounds = int(status.partition("CapBnd:")[2].split()[0], 16)
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    known = enumerate(CAPABILITIES.split()[: last + 1])
    return {f"CAP_{name}" for number, name in known if not bounds >> number & 1}


def remove_capabilities(path: Path, missing: set[str]) -> None:
    """Rewrite a container's configuration, or that of a process for `runc exec`."""
    config = json.loads(path.read_text())
    granted = config.get("process", config).get("capabilities") or {}
    for kind, names in granted.items():
        granted[kind] = [name for name in names if name not in missing]
    path.write_text(json.dumps(config))


if __name__ == "__main__":
    for option, value in zip(sys.argv, sys.argv[1:], strict=False):
        if option == "--bundle" and "create" in sys.argv:
            remove_capabilities(Path(value, "config.json"), list_missing_capabilities())
        elif option == "--process":
            remove_capabilities(Path(value), list_missing_capabilities())
    os.execvp("runc", ["runc", *sys.argv[1:]])
