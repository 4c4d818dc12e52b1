"""The forced command: one script on the login node that lets a key do only what Tare needs.

`tare_gate.py` is the script, `commands.py` the table of what it lets through. Whoever sends a new
command to clusters adds one entry there.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runners.errors import Refused, TryAgain
from runners.preflight.checks import Check, Outcome
from runners.transports.base import Transport
from runners.untrusted import clean_text

VERSION = 1
"""To be raised with the first change after a release; a test holds the released ones."""

INSTALLED = "~/.ssh/tare-gate.py"
LONGEST_WORD = 60  # characters of a word that stands in the table as it is
SOURCE = Path(__file__).with_name("tare_gate.py")
NAME = "Forced command"
ONLY_FORWARDS = "tare-gate lets through and runs nothing"
# A name or an address as it may stand in a line of authorized_keys, between quotes.
HOST = re.compile(
    r"^(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)\Z"
)
INSTALL = f"Save the script of the credential's page as {INSTALLED} on the login node."


@dataclass(frozen=True)
class Command:
    """A command that Tare sends, with places for what differs from time to time."""

    what: str
    words: tuple[str, ...]
    scheduler: str = ""  # the only one with which it is sent; empty: any


@cache
def script() -> str:
    """The text of the script, with the table filled in."""
    from runners.gate.commands import COMMANDS

    rows = [
        f"    ({_text(one.what)}, {_text(one.scheduler)},\n"
        f"     [{', '.join(_text(_word(word)) for word in one.words)}]),"
        for one in COMMANDS
    ]
    text = SOURCE.read_text()
    text = text.replace("VERSION = 0\n", f"VERSION = {VERSION}\n", 1)
    empty = "KNOWN = []  # type: ignore[var-annotated]\n"
    return text.replace(empty, "\n".join(["KNOWN = [", *rows, "]", ""]), 1)


@cache
def digest() -> str:
    """What the installed script says of itself if it is this one."""
    return hashlib.sha256(script().encode()).hexdigest()


def _word(word: str) -> str:
    if "\n" in word or len(word) > LONGEST_WORD:
        return f"sha256:{hashlib.sha256(word.encode()).hexdigest()}"
    return word


def _text(text: str) -> str:
    return json.dumps(text)


def authorized_line(
    public_key: str,
    *,
    work_directory: str = "",
    scheduler: str = "",
    forwards: Sequence[tuple[str, int]] = (),
) -> str:
    """The line of authorized_keys that lets a key do only this.

    Without a work directory it runs nothing; `forwards` are the hosts and ports that may be
    reached through this one. ValueError if the work directory or a host cannot stand in a line.
    """
    if not work_directory.isprintable():
        raise ValueError("The work directory's name cannot stand in a line of authorized_keys.")
    options = ["restrict"]
    if forwards:
        options += ["port-forwarding", *(_permit(host, port) for host, port in forwards)]
    command = f"echo {ONLY_FORWARDS} >&2; exit 77"
    if work_directory:
        command = f"python3 -I {INSTALLED} {shlex.join([work_directory, scheduler])}"
    quoted = command.replace('"', '\\"')
    return f'{",".join(options)},command="{quoted}" {public_key}'


def _permit(host: str, port: int) -> str:
    """Return the option that opens one host behind this one. ValueError if it is none."""
    if not HOST.match(host):
        raise ValueError(f"The host {host!r} cannot stand in a line of authorized_keys.")
    name = f"[{host}]" if ":" in host else host  # sshd's spelling of IPv6
    return f'permitopen="{name}:{port}"'


def look(transport: Transport, *, area: str, wanted: bool = False) -> Check:
    """Ask the account whether a forced command is installed, and which. Never raises.

    `wanted`: whether there is to be one.
    """
    try:
        done = transport.run(["tare-gate"], timeout=10)
    except (TryAgain, Refused) as problem:
        if ONLY_FORWARDS in str(problem):
            said = "The key runs nothing here: it only lets through to the hosts behind."
            return Check(area, NAME, "ok", said, value="only forwards")
        return Check(area, NAME, "failed", "The account runs no command.", INSTALL, str(problem))
    words = clean_text(done.stdout + done.stderr).strip()
    told = re.search(r"^tare-gate (\d+) ([0-9a-f]{64})$", words, re.MULTILINE)
    if told:
        return _version(area, int(told[1]), told[2])
    if done.returncode == 127 and "tare-gate" in words:
        said = "None is installed: the key may do all that the account may."
        outcome: Outcome = "warning" if wanted else "not applicable"
        return Check(area, NAME, outcome, said, INSTALL if wanted else "", value="none")
    return Check(
        area,
        NAME,
        "failed",
        "Something answers that is not Tare's script: another forced command, or python3 is "
        "missing there.",
        f"{INSTALL} It needs python3, 3.6 or newer.",
        words[:1000],
        value="another",
    )


def _version(area: str, version: int, found: str) -> Check:
    value = f"version {version}"
    if found == digest():
        return Check(area, NAME, "ok", f"Tare's own, version {version}.", value=value)
    if version < VERSION:
        said = f"The installed script is older than Tare's: version {version}, not {VERSION}."
    elif version > VERSION:
        said = f"The installed script is newer than this Tare's: version {version}, not {VERSION}."
    else:
        said = f"The installed script calls itself version {version}, and is not Tare's."
    return Check(area, NAME, "warning", said, f"{INSTALL} The line there stays.", value=value)
