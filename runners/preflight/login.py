"""Which part of the way to a machine is wrong: name, port, host key, key, passphrase or user."""

import socket
from collections.abc import Iterator

from runners.errors import Kind, TryAgain
from runners.preflight.checks import Check
from runners.transports.certificates import parse_certificate
from runners.transports.keys import fingerprint, fingerprint_of, load_private_key, public_line
from runners.transports.ssh import SSH, SSHAddress, open_socket

AREA = "Connection"
PATIENCE_SECONDS = 5
CURES = {
    "Host name": "Mend the host under Edit. A name that only the centre's own machines know needs "
    "a jump host.",
    "Port": "Mend the port under Edit, or ask whether a firewall keeps this machine out.",
    "SSH": "Does an SSH server listen on this port? Mend host and port under Edit.",
    "Host key": "Ask the centre whether the host was set up anew. If it was, fetch its key below, "
    "compare the fingerprint with the one that the centre publishes, and pin it.",
    "Private key": "Hand in the key again, whole, with its BEGIN and END lines, under Credentials.",
    "Passphrase": "Hand in the key again together with its passphrase, under Credentials.",
    "Certificate": "Ask your centre for a new certificate of this key, and hand it in under "
    "Credentials.",
    "Jump host": "Ask the jump host's administrators whether it may forward to this host.",
}
STEPS = (
    "Private key",
    "Passphrase",
    "Certificate",
    "Host name",
    "Port",
    "SSH",
    "Host key",
    "Log-in",
)
# Where the kind of an error names the step.
NAMED: dict[Kind, str] = {
    "passphrase": "Passphrase",
    "certificate": "Certificate",
    "host name": "Host name",
    "host key": "Host key",
}


def log_in(transport: SSH) -> list[Check]:
    """Log in over every jump host, and say of each step whether it was made. Never raises."""
    found: list[Check] = []
    hops = transport.hops
    for number, hop in enumerate(hops):
        is_target = number == len(hops) - 1
        area = AREA if is_target else f"{AREA}, jump host {hop.address}"
        checks = list(_steps(hop, area))
        found += checks
        if any(check.outcome == "failed" for check in checks):
            for later in hops[number + 1 :]:
                name = f"{later.address}"
                found.append(
                    Check(AREA, name, "not applicable", "Not tried: the way to it is closed.")
                )
            break
    return found


def _steps(hop: SSH, area: str) -> Iterator[Check]:
    address = hop.address
    failed = ""
    problem: TryAgain | None = None
    try:
        address.key()  # before anything is sent
        hop.connection()
    except TryAgain as caught:
        problem, failed = caught, _which(hop, caught)
    reached = STEPS.index(failed) if failed in STEPS else len(STEPS)
    for step in STEPS[:reached]:
        if failed == "Passphrase":
            yield Check(area, step, "ok", "A whole, encrypted key.", value="encrypted")
        elif (said := _well(step, address)) is not None:
            value = said if step in ("Private key", "Host key") else "ok"
            yield Check(area, step, "ok", said, value=value)
    if problem:
        yield Check(
            area,
            failed,
            "failed",
            str(problem),
            CURES.get(failed) or _install(address),
            value="failed",
        )


def _which(hop: SSH, problem: TryAgain) -> str:
    """The step that failed. What the error leaves open, one more look at the port decides."""
    address = hop.address
    if problem.kind in NAMED:
        return NAMED[problem.kind]
    if problem.kind == "key refused":
        try:
            address.key()
        except TryAgain:
            return "Private key"
        return "Log-in"
    if address.jump is not None:
        return "Jump host" if "jump host" in str(problem) else "SSH"
    try:
        open_socket(address.host, address.port, PATIENCE_SECONDS).close()
    except TryAgain as again:
        return "Host name" if again.kind == "host name" else "Port"
    return "SSH"


def _well(step: str, address: SSHAddress) -> str | None:
    """What can be said of a step that was made; None if there is nothing to say."""
    if step == "Private key":
        key = load_private_key(address.private_key, address.passphrase)
        return f"A whole {key.get_name()} key, {fingerprint_of(key)}."
    if step == "Passphrase":
        return "Opens the key." if address.passphrase else None
    if step == "Certificate":
        return _certificate(address)
    if step == "Host name":
        numbers = _numbers(address.host)
        said = "An address; no name to look up." if numbers == address.host else f"It is {numbers}."
        return None if address.jump else said
    if step == "Port":
        return None if address.jump else f"Port {address.port} answers."
    if step == "SSH":
        return "An SSH server answers."
    if step == "Host key":
        return f"The pinned one, {fingerprint(address.host_key)}."
    return f"User {address.user} is let in."


def _certificate(address: SSHAddress) -> str | None:
    if not address.certificate:
        return None
    found = parse_certificate(address.certificate)
    return f"Of this key, signed by {found.ca_fingerprint}, {found.dates}."


def _numbers(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return "known"
    return ", ".join(dict.fromkeys(str(row[4][0]) for row in found))


def _install(address: SSHAddress) -> str:
    """Servers do not tell a wrong user from a key that they do not know."""
    said = (
        f"The server does not say whether the user or the key is wrong. Either there is no user "
        f"{address.user}, or "
    )
    if address.certificate:
        found = parse_certificate(address.certificate)
        accounts = ", ".join(found.principals) or "any account"
        return (
            f"{said}the server does not trust the authority {found.ca_fingerprint} that signed the "
            f"certificate (TrustedUserCAKeys of sshd_config, or a cert-authority line in "
            f"~/.ssh/authorized_keys), or the certificate does not name this account: it names "
            f"{accounts}."
        )
    lacks = "its ~/.ssh/authorized_keys lacks this key, or its folder may be written by others."
    if address.gated:
        return f"{said}{lacks} The line to install stands on the credential's page."
    return f"{said}{lacks} The line to install: {public_line(address.key(), 'tare')}"
