"""Which forced command the account's key has on the login node, if any."""

import re

from runners import gate
from runners.errors import Refused, TryAgain
from runners.preflight.checks import Check, Outcome
from runners.transports import Transport
from runners.untrusted import clean_text

NAME = "Forced command"
INSTALL = f"Save the script of the credential's page as {gate.INSTALLED} on the login node."


def check_forced_command(transport: Transport, *, area: str, expected: bool = False) -> Check:
    """Check which forced command the account has, if any. Never raises.

    `expected`: whether there should be one.
    """
    try:
        answer = transport.run(["tare-gate"], timeout=10)
    except (TryAgain, Refused) as problem:
        if gate.ONLY_FORWARDS in str(problem):
            message = "The key runs nothing here: it only lets through to the hosts behind."
            return Check(area, NAME, "ok", message, value="only forwards")
        return Check(area, NAME, "failed", "The account runs no command.", INSTALL, str(problem))
    printed = clean_text(answer.stdout + answer.stderr).strip()
    version = re.search(r"^tare-gate (\d+) ([0-9a-f]{64})$", printed, re.MULTILINE)
    if version:
        return _check_version(area, int(version[1]), version[2])
    if answer.returncode == 127 and "tare-gate" in printed:
        message = "None is installed: the key may do all that the account may."
        outcome: Outcome = "warning" if expected else "not applicable"
        return Check(area, NAME, outcome, message, INSTALL if expected else "", value="none")
    return Check(
        area,
        NAME,
        "failed",
        "Something answers that is not Tare's script: another forced command, or python3 is "
        "missing there.",
        f"{INSTALL} It needs python3, 3.6 or newer.",
        printed[:1000],
        value="another",
    )


def _check_version(area: str, version: int, digest: str) -> Check:
    value = f"version {version}"
    if digest == gate.hash_script():
        return Check(area, NAME, "ok", f"Tare's own, version {version}.", value=value)
    versions = f"version {version}, not {gate.VERSION}"
    if version < gate.VERSION:
        message = f"The installed script is older than Tare's: {versions}."
        if missing := gate.describe_missing(version):
            message += f" Until it is replaced Tare may not ask {missing}."
    elif version > gate.VERSION:
        message = f"The installed script is newer than this Tare's: {versions}."
    else:
        message = (
            f"The installed script is of version {version}, as Tare's, but not the same: it comes "
            "from another copy of Tare, or was changed."
        )
    return Check(area, NAME, "warning", message, f"{INSTALL} The line there stays.", value=value)
