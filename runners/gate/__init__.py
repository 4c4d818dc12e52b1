"""The forced command: a script on the login node that lets a key do only what Tare needs.

`tare_gate.py` is the script, `commands.py` the table of the commands that it lets through. A new
command for clusters needs a new entry there.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from runners.gate.commands import COMMANDS

VERSION = 2
"""To be raised with the first change after a release; a test knows the released versions."""
ADDED = {
    2: "when Slurm expects to start jobs, their places in its queue, what a running run does now, "
    "and what a cluster offers"
}
"""What Tare cannot ask through the script of an earlier version, by the first one that knows it."""

INSTALLED = "~/.ssh/tare-gate.py"
LONGEST_ARGUMENT = 60  # characters; the table holds the SHA-256 of longer ones
SOURCE = Path(__file__).with_name("tare_gate.py")
ONLY_FORWARDS = "tare-gate lets through and runs nothing"
# A name or an address as it may stand in a line of authorized_keys, between quotes.
HOST = re.compile(
    r"^(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)\Z"
)


@cache
def render_script() -> str:
    """Return the text of the script, with the table filled in."""
    rows = [
        f"    ({_quote(command.purpose)}, {_quote(command.scheduler)},\n"
        f"     [{', '.join(_quote(_shorten_argument(argument)) for argument in command.pattern)}]),"
        for command in COMMANDS
    ]
    text = SOURCE.read_text()
    text = text.replace("VERSION = 0\n", f"VERSION = {VERSION}\n", 1)
    empty = "KNOWN = []  # type: ignore[var-annotated]\n"
    return text.replace(empty, "\n".join(["KNOWN = [", *rows, "]", ""]), 1)


def describe_missing(version: int) -> str:
    """Return what Tare may not ask through the script of this version; "" if that is nothing."""
    return "; ".join(text for added, text in ADDED.items() if added > version)


@cache
def hash_script() -> str:
    """Return the script's SHA-256, in hexadecimal digits, as the installed script prints it."""
    return hashlib.sha256(render_script().encode()).hexdigest()


def _shorten_argument(argument: str) -> str:
    """Return what the table holds for an argument: itself, or the SHA-256 of a long one."""
    if "\n" in argument or len(argument) > LONGEST_ARGUMENT:
        return f"sha256:{hashlib.sha256(argument.encode()).hexdigest()}"
    return argument


def _quote(text: str) -> str:
    return json.dumps(text)


def format_authorized_line(
    public_key: str,
    *,
    work_directory: str = "",
    scheduler: str = "",
    forwards: Sequence[tuple[str, int]] = (),
) -> str:
    """Return the line of authorized_keys that limits a key to the forced command.

    Without a work directory the key runs nothing; `forwards` are the hosts and ports that may be
    reached through this host. ValueError if the work directory or a host cannot stand in a line.
    """
    if not work_directory.isprintable():
        raise ValueError("The work directory's name cannot stand in a line of authorized_keys.")
    options = ["restrict"]
    if forwards:
        options += ["port-forwarding", *(_format_permit(host, port) for host, port in forwards)]
    command = f"echo {ONLY_FORWARDS} >&2; exit 77"
    if work_directory:
        command = f"python3 -I {INSTALLED} {shlex.join([work_directory, scheduler])}"
    quoted = command.replace('"', '\\"')
    return f'{",".join(options)},command="{quoted}" {public_key}'


def _format_permit(host: str, port: int) -> str:
    """Return the option that allows one host behind this one. ValueError if it is no host."""
    if not HOST.match(host):
        raise ValueError(f"The host {host!r} cannot stand in a line of authorized_keys.")
    name = f"[{host}]" if ":" in host else host  # sshd's spelling of IPv6
    return f'permitopen="{name}:{port}"'
