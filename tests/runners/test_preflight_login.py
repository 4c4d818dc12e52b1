"""Which part of the way to a real SSH server is wrong, and what to do about it."""

import socket

import pytest

from runners.preflight.checks import find_worst_outcome
from runners.preflight.login import log_in
from runners.transports import fingerprint_public_key
from tests.runners.sshd import free_port, make_key, serve, sign


@pytest.fixture
def steps(connect):
    """The checks of a log-in, by step; those of jump hosts with their area."""

    def take(address, **options):
        checks = log_in(connect(address, **options))
        return {
            check.name if check.area == "Connection" else f"{check.area}: {check.name}": check
            for check in checks
        }

    return take


def red(steps):
    """The name of the one step that failed, which has a cure."""
    (check,) = [check for check in steps.values() if check.outcome == "failed"]
    assert check.cure
    assert list(steps.values())[-1] is check or check.area != "Connection"
    return check


def test_a_log_in_says_of_every_step_that_it_was_made(server, steps):
    checks = steps(server.address)
    assert list(checks) == ["Private key", "Host name", "Port", "SSH", "Host key", "Log-in"]
    assert find_worst_outcome(checks.values()) == "ok"
    assert fingerprint_public_key(server.address.host_key) in checks["Host key"].found
    assert "ed25519 key, SHA256:" in checks["Private key"].found


def test_a_wrong_name_is_told(server, steps):
    check = red(steps(server.but(host="no-such-host.invalid")))
    assert (check.name, check.found) == ("Host name", "No host is called no-such-host.invalid.")


def test_a_wrong_port_is_told(server, steps):
    check = red(steps(server.but(port=free_port())))
    assert check.name == "Port"
    assert "Nobody listens" in check.found


def test_a_port_on_which_something_else_listens_is_told(server, steps):
    with socket.create_server(("127.0.0.1", 0)) as other:
        check = red(steps(server.but(port=other.getsockname()[1]), connect_timeout=0.5))
    assert check.name == "SSH"


def test_a_changed_host_key_is_refused_with_both_fingerprints(server, steps, tmp_path):
    make_key(tmp_path / "other")
    other = (tmp_path / "other.pub").read_text()
    check = red(steps(server.but(host_key=other)))
    assert check.name == "Host key"
    assert fingerprint_public_key(other) in check.found
    assert fingerprint_public_key(server.address.host_key) in check.found
    assert "Ask the centre" in check.cure


def test_a_wrong_user_and_an_unknown_key_get_the_line_to_install(server, steps, tmp_path):
    stranger = make_key(tmp_path / "stranger")
    public = " ".join((tmp_path / "stranger.pub").read_text().split()[:2])
    check = red(steps(server.but(private_key=stranger)))
    assert check.name == "Log-in"
    assert public in check.cure
    nobody = red(steps(server.but(user="no-such-user")))
    assert (nobody.name, "no user no-such-user" in nobody.cure) == ("Log-in", True)


@pytest.mark.parametrize("text", ["not a key", "", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl"])
def test_a_key_that_is_none_is_told_before_anything_is_sent(server, steps, text):
    checks = steps(server.but(private_key=text, host="no-such-host.invalid"))
    assert list(checks) == ["Private key"]
    assert "BEGIN and END" in red(checks).cure


def test_a_cut_off_key_is_told(server, steps):
    half = server.address.private_key[: len(server.address.private_key) // 2]
    assert red(steps(server.but(private_key=half))).name == "Private key"


def test_a_missing_and_a_wrong_passphrase_are_told(server, steps, tmp_path):
    private_key = make_key(tmp_path / "key", passphrase="open sesame")
    server.authorize((tmp_path / "key.pub").read_text())
    for passphrase in ("", "guess"):
        check = red(steps(server.but(private_key=private_key, passphrase=passphrase)))
        assert check.name == "Passphrase"
    right = steps(server.but(private_key=private_key, passphrase="open sesame"))
    assert right["Passphrase"].found == "Opens the key."
    assert find_worst_outcome(right.values()) == "ok"
    assert "open sesame" not in repr(right)


def test_every_hop_has_its_own_steps(server, steps):
    checks = steps(server.but(jump=server.address))
    hop = f"Connection, jump host 127.0.0.1 port {server.address.port}: "
    assert checks[f"{hop}Log-in"].outcome == checks["Log-in"].outcome == "ok"


def test_a_jump_host_that_is_down_is_told_and_nothing_behind_it_is_tried(server, steps):
    down = server.but(port=free_port())
    checks = steps(server.but(jump=down))
    check = red(checks)
    assert check.area == f"Connection, jump host 127.0.0.1 port {down.port}"
    assert check.name == "Port"
    assert list(checks.values())[-1].outcome == "not applicable"


def test_a_host_that_the_jump_host_does_not_reach_is_told(server, steps):
    check = red(steps(server.but(port=free_port(), jump=server.address)))
    assert (check.area, check.name) == ("Connection", "Jump host")


def test_a_certificate_is_a_step_of_its_own(server, steps, tmp_path):
    make_key(tmp_path / "authority")
    private = make_key(tmp_path / "key")
    named = sign(tmp_path / "authority", tmp_path / "key", "-n", server.address.user)
    check = red(steps(server.but(private_key=private, certificate=named)))
    assert check.name == "Log-in"
    assert "does not trust the authority SHA256:" in check.cure
    server.trust((tmp_path / "authority.pub").read_text())
    checks = steps(server.but(private_key=private, certificate=named))
    assert find_worst_outcome(checks.values()) == "ok"
    assert "signed by SHA256:" in checks["Certificate"].found
    other = sign(tmp_path / "authority", tmp_path / "key", "-n", "somebody-else")
    check = red(steps(server.but(private_key=private, certificate=other)))
    assert "it names somebody-else" in check.cure
    late = sign(tmp_path / "authority", tmp_path / "key", "-V", "20200101:20200102")
    check = red(steps(server.but(private_key=private, certificate=late)))
    assert (check.name, "has expired" in check.found) == ("Certificate", True)


@pytest.fixture
def gateway(tmp_path):
    """A second server of its own, with its own keys."""
    (tmp_path / "gateway").mkdir()
    with serve(tmp_path / "gateway") as server:
        yield server


def test_two_hops_are_made_and_each_is_told(server, gateway, steps):
    inner = server.but(jump=gateway.address)
    behind = server.but(jump=inner)
    checks = steps(behind)
    assert find_worst_outcome(checks.values()) == "ok"
    for hop in (gateway.address, inner):
        name = f"Connection, jump host 127.0.0.1 port {hop.port}: Log-in"
        assert checks[name].outcome == "ok"
    down = server.but(jump=server.but(port=free_port(), jump=gateway.address))
    check = red(steps(down))
    assert check.name == "Jump host"
    assert f"port {down.jump.port}" in check.area
    assert f"The jump host 127.0.0.1 port {gateway.address.port} does not reach" in check.found


def test_a_changed_key_of_the_first_hop_is_refused_with_both_fingerprints(
    server, gateway, steps, tmp_path
):
    make_key(tmp_path / "other")
    other = (tmp_path / "other.pub").read_text()
    middle = server.but(jump=gateway.but(host_key=other))
    checks = steps(server.but(jump=middle))
    check = red(checks)
    assert (check.name, f"port {gateway.address.port}" in check.area) == ("Host key", True)
    assert fingerprint_public_key(other) in check.found
    assert fingerprint_public_key(gateway.address.host_key) in check.found
    assert list(checks.values())[-1].outcome == "not applicable"
