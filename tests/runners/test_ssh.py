"""What can go wrong on the way to a cluster, and in which words it is told."""

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress

import paramiko
import pytest

from runners.errors import TryAgain
from runners.transports import fingerprint_public_key, load_private_key, scan_host_key
from tests.runners.sshd import free_port, make_key


def failure(transport) -> TryAgain:
    with pytest.raises(TryAgain) as caught:
        transport.run(["true"], timeout=2)
    return caught.value


def sshd_of(ssh) -> int:
    """The process at the other end of the connection."""
    climb = 'p=$$; until grep -q ^sshd "/proc/$p/comm"; do p=$(cut -d" " -f4 "/proc/$p/stat"); done'
    return int(ssh.run(["sh", "-c", f"{climb}; echo $p"]).stdout)


def test_one_connection_carries_all_commands(ssh):
    sessions = {ssh.run(["sh", "-c", "echo $SSH_CONNECTION"]).stdout for _ in range(20)}
    assert len(sessions) == 1


def test_small_packets_are_sent_at_once(ssh):
    connection = ssh.ensure_connection().sock
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_another_host_key_is_refused_with_both_fingerprints(server, connect, tmp_path):
    make_key(tmp_path / "other")
    other = (tmp_path / "other.pub").read_text()
    error = failure(connect(server.but(host_key=other)))
    assert error.kind == "host key"
    assert fingerprint_public_key(other) in str(error)
    assert fingerprint_public_key(server.address.host_key) in str(error)


def test_a_pinned_key_of_another_kind_is_refused(server, connect, tmp_path):
    make_key(tmp_path / "other", "-t", "rsa", "-b", "2048")
    error = failure(connect(server.but(host_key=(tmp_path / "other.pub").read_text())))
    assert error.kind == "host key"


def test_a_pinned_text_that_is_no_key_is_told(server, connect):
    error = failure(connect(server.but(host_key="none yet")))
    assert error.kind == "host key"
    assert "no ed25519, ECDSA or RSA public key" in str(error)


def test_the_host_key_can_be_fetched_and_has_the_fingerprint_that_ssh_shows(server):
    key = scan_host_key(server.address.host, server.address.port)
    assert key == " ".join(server.address.host_key.split()[:2])
    shown = subprocess.check_output(
        ["ssh-keygen", "-l", "-f", server.directory / "host_key.pub"], text=True
    )
    assert fingerprint_public_key(key) == shown.split()[1]


def test_a_key_that_the_host_does_not_know_is_refused(server, connect, tmp_path):
    error = failure(connect(server.but(private_key=make_key(tmp_path / "stranger"))))
    assert error.kind == "key refused"
    assert f"refuses the key of user {server.address.user}" in str(error)


def test_a_text_that_is_no_key_is_told(server, connect):
    error = failure(connect(server.but(private_key="not a key")))
    assert error.kind == "key refused"
    assert "This text is no private key" in str(error)


def test_nobody_listening_is_told(server, connect):
    error = failure(connect(server.but(port=free_port())))
    assert error.kind == "unreachable"
    assert "Nobody listens on 127.0.0.1 port" in str(error)


def test_an_unknown_name_is_told(server, connect):
    error = failure(connect(server.but(host="no-such-host.invalid")))
    assert error.kind == "host name"
    assert "No host is called no-such-host.invalid" in str(error)


def test_a_server_of_another_kind_is_told(server, connect):
    with socket.create_server(("127.0.0.1", 0)) as other:
        error = failure(connect(server.but(port=other.getsockname()[1]), connect_timeout=0.5))
        assert error.kind == "unreachable"
        assert "did not complete the connection" in str(error)
        with pytest.raises(TryAgain, match="does not speak SSH"):
            scan_host_key("127.0.0.1", other.getsockname()[1], timeout=0.5)


@pytest.mark.parametrize(
    "options", [("-t", "ed25519"), ("-t", "ecdsa"), ("-t", "rsa"), ("-m", "PEM", "-t", "rsa")]
)
def test_keys_of_every_kind_open_with_their_passphrase(server, connect, tmp_path, options):
    private_key = make_key(tmp_path / "key", *options, passphrase="open sesame ü")
    server.authorize((tmp_path / "key.pub").read_text())
    right = server.but(private_key=private_key, passphrase="open sesame ü")
    assert connect(right).run(["echo", "in"]).stdout == b"in\n"

    missing = failure(connect(server.but(private_key=private_key)))
    assert missing.kind == "passphrase"
    assert "needs a passphrase" in str(missing)
    wrong = failure(connect(server.but(private_key=private_key, passphrase="guess")))
    assert wrong.kind == "passphrase"
    assert "does not open" in str(wrong)


def test_secrets_are_in_no_repr_and_no_message(server, connect, tmp_path):
    private_key = make_key(tmp_path / "key", passphrase="hush hush")
    address = server.but(private_key=private_key, passphrase="hush")
    transport = connect(address)
    shown = f"{address!r} {address} {transport!r} {failure(transport)!r}"
    assert "hush" not in shown
    assert "PRIVATE KEY" not in shown
    assert private_key.splitlines()[1] not in shown
    assert "hush" not in repr(load_private_key(private_key, "hush hush"))


def test_a_passphrase_that_is_not_needed_does_no_harm(server, connect):
    assert connect(server.but(passphrase="superfluous")).run(["true"]).returncode == 0


def test_too_many_sessions_are_worth_trying_again(ssh):
    held = [ssh.ensure_connection().open_session() for _ in range(3)]  # MaxSessions of the server
    error = failure(ssh)
    assert error.kind == "sessions"
    for session in held:
        session.close()
    while True:  # the server notices soon
        with suppress(TryAgain):
            assert ssh.run(["true"]).returncode == 0
            break


def test_a_frozen_peer_is_noticed(ssh):
    """TCP stays up and keep-alives tell nothing: only the time-out of the call ends it."""
    peer = sshd_of(ssh)
    os.kill(peer, signal.SIGSTOP)
    began = time.monotonic()
    try:
        error = failure(ssh)
    finally:
        os.kill(peer, signal.SIGCONT)
    assert error.kind == "time-out"
    assert time.monotonic() - began < 5
    assert ssh.run(["echo", "again"]).stdout == b"again\n"


def test_a_broken_connection_is_told_and_the_next_command_opens_a_new_one(ssh):
    peer = sshd_of(ssh)
    with pytest.raises(TryAgain, match="broke") as caught:
        ssh.run(["kill", str(peer)])
    assert caught.value.kind == "unreachable"
    assert ssh.run(["echo", "again"]).stdout == b"again\n"


def test_a_host_behind_a_jump_host_is_reached(server, connect):
    behind = connect(server.but(jump=server.address))
    assert behind.run(["echo", "there"]).stdout == b"there\n"


def test_a_jump_host_that_does_not_reach_the_host_is_told(server, connect):
    error = failure(connect(server.but(port=free_port(), jump=server.address)))
    assert error.kind == "unreachable"
    assert f"The jump host 127.0.0.1 port {server.address.port} does not reach" in str(error)


def test_a_jump_host_is_pinned_too(server, connect, tmp_path):
    make_key(tmp_path / "other")
    jump = server.but(host_key=(tmp_path / "other.pub").read_text())
    assert failure(connect(server.but(jump=jump))).kind == "host key"


def test_the_passphrase_of_a_key_is_not_asked_of_an_agent(server, connect, tmp_path, monkeypatch):
    """Only the given key opens the account, whatever this machine's user has lying about."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519").write_text(server.address.private_key)
    stranger = server.but(private_key=make_key(tmp_path / "stranger"))
    assert failure(connect(stranger)).kind == "key refused"


def test_no_transfer_ends_while_new_keys_are_agreed_on(server, connect, monkeypatch):
    """Where paramiko's own limit is small, every megabyte ends so, and the connection with it."""
    monkeypatch.setattr(paramiko.packet.Packetizer, "REKEY_BYTES", 1 << 20)
    ssh = connect(server.address)
    for _ in range(8):
        assert len(ssh.run(["head", "-c", str(1 << 20), "/dev/zero"], timeout=20).stdout) == 1 << 20
