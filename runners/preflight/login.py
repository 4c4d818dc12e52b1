"""Checks of each step of a log-in: name, port, host key, key, passphrase and user."""

import socket
from collections.abc import Iterator

from runners.errors import Kind, TryAgain
from runners.preflight.checks import Check
from runners.transports.certificates import parse_certificate
from runners.transports.keys import (
    fingerprint_key,
    fingerprint_public_key,
    format_public_key,
    load_private_key,
)
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
    "Private key": "Import the key again, whole, with its BEGIN and END lines, under Credentials.",
    "Passphrase": "Import the key again together with its passphrase, under Credentials.",
    "Certificate": "Ask your centre for a new certificate of this key, and add it under "
    "Credentials.",
    "Connection limit": "Wait until then, or have the limit raised under Edit.",
    "Jump host": "Ask the jump host's administrators whether it may forward to this host.",
}
STEPS = (
    "Private key",
    "Passphrase",
    "Certificate",
    "Connection limit",
    "Host name",
    "Port",
    "SSH",
    "Host key",
    "Log-in",
)
# The step that failed, for kinds of errors that tell.
STEP_OF_ERROR: dict[Kind, str] = {
    "passphrase": "Passphrase",
    "certificate": "Certificate",
    "connection limit": "Connection limit",
    "host name": "Host name",
    "host key": "Host key",
}


def log_in(transport: SSH) -> list[Check]:
    """Log in over all jump hosts and return a check for each step. Never raises."""
    all_checks: list[Check] = []
    hops = transport.hops
    for number, hop in enumerate(hops):
        is_target = number == len(hops) - 1
        area = AREA if is_target else f"{AREA}, jump host {hop.address}"
        checks = list(_check_steps(hop, area))
        all_checks += checks
        if any(check.outcome == "failed" for check in checks):
            for later in hops[number + 1 :]:
                name = f"{later.address}"
                all_checks.append(
                    Check(AREA, name, "not applicable", "Not tried: the way to it is closed.")
                )
            break
    return all_checks


def _check_steps(hop: SSH, area: str) -> Iterator[Check]:
    address = hop.address
    failed = ""
    problem: TryAgain | None = None
    try:
        address.load_key()  # a bad key is reported before anything is sent
        hop.ensure_connection()
    except TryAgain as caught:
        problem, failed = caught, _find_failed_step(hop, caught)
    reached = STEPS.index(failed) if failed in STEPS else len(STEPS)
    for step in STEPS[:reached]:
        if failed == "Passphrase":
            yield Check(area, step, "ok", "A whole, encrypted key.", value="encrypted")
        elif (description := _describe_step(step, address)) is not None:
            value = description if step in ("Private key", "Host key") else "ok"
            yield Check(area, step, "ok", description, value=value)
    if problem:
        yield Check(
            area,
            failed,
            "failed",
            str(problem),
            CURES.get(failed) or _explain_refused_log_in(address),
            value="failed",
        )


def _find_failed_step(hop: SSH, problem: TryAgain) -> str:
    """Return the step that failed. Where the error does not tell, the port is tried once more."""
    address = hop.address
    if problem.kind in STEP_OF_ERROR:
        return STEP_OF_ERROR[problem.kind]
    if problem.kind == "key refused":
        try:
            address.load_key()
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


def _describe_step(step: str, address: SSHAddress) -> str | None:
    """Describe a step that succeeded; None if there is nothing to describe."""
    if step == "Private key":
        key = load_private_key(address.private_key, address.passphrase)
        return f"A whole {key.get_name()} key, {fingerprint_key(key)}."
    if step == "Passphrase":
        return "Opens the key." if address.passphrase else None
    if step == "Certificate":
        return _describe_certificate(address)
    if step == "Connection limit":
        return None
    if step == "Host name":
        addresses = _resolve_host(address.host)
        description = (
            "An address; no name to look up."
            if addresses == address.host
            else f"It is {addresses}."
        )
        return None if address.jump else description
    if step == "Port":
        return None if address.jump else f"Port {address.port} answers."
    if step == "SSH":
        return "An SSH server answers."
    if step == "Host key":
        return f"The pinned one, {fingerprint_public_key(address.host_key)}."
    return f"User {address.user} is let in."


def _describe_certificate(address: SSHAddress) -> str | None:
    if not address.certificate:
        return None
    certificate = parse_certificate(address.certificate)
    return f"Of this key, signed by {certificate.ca_fingerprint}, {certificate.dates}."


def _resolve_host(host: str) -> str:
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return "known"
    return ", ".join(dict.fromkeys(str(row[4][0]) for row in addresses))


def _explain_refused_log_in(address: SSHAddress) -> str:
    """Return what may be wrong: servers do not say whether the user or the key is unknown."""
    beginning = (
        f"The server does not say whether the user or the key is wrong. Either there is no user "
        f"{address.user}, or "
    )
    if address.certificate:
        certificate = parse_certificate(address.certificate)
        accounts = ", ".join(certificate.principals) or "any account"
        return (
            f"{beginning}the server does not trust the authority {certificate.ca_fingerprint} that "
            f"signed the certificate (TrustedUserCAKeys of sshd_config, or a cert-authority line "
            f"in ~/.ssh/authorized_keys), or the certificate does not name this account: it names "
            f"{accounts}."
        )
    lacks = "its ~/.ssh/authorized_keys lacks this key, or its folder may be written by others."
    if address.gated:
        return f"{beginning}{lacks} The line to install stands on the credential's page."
    return (
        f"{beginning}{lacks} The line to install: {format_public_key(address.load_key(), 'tare')}"
    )
