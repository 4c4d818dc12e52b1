"""The transport to another machine over SSH: one connection, a pinned host key, time-outs."""

import contextlib
import io
import math
import select
import shlex
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import paramiko
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    ChannelException,
    SSHException,
)

from runners.errors import TryAgain
from runners.transports.base import STDERR_LIMIT, Completed, Transport, open_sink, read_sink
from runners.transports.certificates import attach_certificate
from runners.transports.keys import fingerprint_key, load_private_key, parse_public_key
from runners.untrusted import clean_text

CHUNK = 1 << 15  # bytes
PIECE = 1 << 18  # bytes that are read at once of what has arrived
PACKET = CHUNK - 64  # bytes that fit into one packet: more would be sent as two, one of them tiny
REKEY_BYTES = 1 << 36
# Messages of paramiko about a failed log-in, and what they mean.
PARAMIKO_MESSAGES = {
    "No existing session": "it closed the connection before anybody had logged in, as hosts do "
    "that have too many log-ins at once. Tare tries again; if it stays so, ask its administrators",
    "Error reading SSH protocol banner": "it accepted the connection and then said nothing, as "
    "busy hosts do and what is no SSH server",
    "SSH session not active": "the connection had been closed meanwhile",
}
GATE_REFUSED = 77  # exit code of the script of runners.gate; its message begins with its name


@dataclass(frozen=True)
class SSHAddress:
    """The machine and account to log in to. Its repr shows no secret."""

    host: str
    port: int
    user: str
    host_key: str  # the pinned public key, "ssh-ed25519 AAAA..."
    private_key: str = field(repr=False)  # the text of the file
    passphrase: str = field(default="", repr=False)
    jump: "SSHAddress | None" = None  # the host through which this one is reached
    certificate: str = field(default="", repr=False)  # of the key, "ssh-...-cert-v01@... AAAA..."
    gated: bool = False  # whether the key should have a forced command
    owner: int | None = None  # the caller's own number for the owner of the key
    place: int | None = None  # the caller's own number for the machine

    def __str__(self) -> str:
        return f"{self.host} port {self.port}"

    def load_key(self) -> paramiko.PKey:
        """Return the key that opens the account. TryAgain's message contains no secrets."""
        key = load_private_key(self.private_key, self.passphrase)
        return attach_certificate(key, self.certificate) if self.certificate else key


class _Transport(paramiko.Transport):
    """A connection for large files.

    Ciphers that authenticate what they encrypt come first: they spare both sides a second pass. New
    keys are exchanged as seldom as OpenSSH does (2^32 blocks of AES), not every 512 MB: if a
    channel closes during the exchange, paramiko deadlocks and drops the connection.
    """

    _preferred_ciphers = tuple(
        sorted(
            paramiko.Transport._preferred_ciphers,  # type: ignore[attr-defined]
            key=lambda name: "-gcm@" not in name,
        )
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.packetizer.REKEY_BYTES = REKEY_BYTES
        self.packetizer.REKEY_PACKETS = REKEY_BYTES >> 10


class SSH(Transport):
    """Another machine, reached over SSH. Connects with the first command."""

    label = "SSH"

    def __init__(self, address: SSHAddress, *, connect_timeout: float = 10) -> None:
        self.address = address
        self.connect_timeout = connect_timeout
        self._client: paramiko.SSHClient | None = None
        jump = address.jump
        self._jump = type(self)(jump, connect_timeout=connect_timeout) if jump else None

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30,
        stdin: bytes | BinaryIO = b"",
        stdout: BinaryIO | None = None,
    ) -> Completed:
        # Closing a channel leaves the remote process running: `timeout` ends it over there, even
        # if this machine is gone by then.
        command = shlex.join(["timeout", "--kill-after=5", str(math.ceil(timeout)), *argv])
        if "\0" in command:
            raise ValueError("an argument holds a NUL character")
        connection = self.ensure_connection()
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            connection.close()  # wakes whatever waits below

        timer = threading.Timer(timeout, give_up)
        timer.daemon = True
        timer.start()
        sink = open_sink(stdout)
        try:
            # The timer must fire first: it knows that this is a time-out.
            with connection.open_session(timeout=timeout + 5) as channel:
                channel.exec_command(command)
                feeder = threading.Thread(target=_feed, args=(channel, stdin), daemon=True)
                feeder.start()
                errors = _drain(channel, sink)
                returncode = channel.recv_exit_status()
        except ChannelException as error:
            raise TryAgain(
                f"{self.address} opens no further session: {error.text}.", kind="sessions"
            ) from None
        except (SSHException, EOFError, OSError) as error:
            if not expired.is_set():
                self.close()
                raise TryAgain(
                    f"The connection to {self.address} broke: {_describe_error(error)}.",
                    kind="unreachable",
                ) from None
        finally:
            timer.cancel()
        if expired.is_set():
            self.close()
            raise TryAgain(
                f"{self.address} did not answer {argv[0]} in {timeout:g} s.", kind="time-out"
            )
        if returncode == -1 and not connection.is_active():
            self.close()
            raise TryAgain(f"The connection to {self.address} broke.", kind="unreachable")
        if returncode == GATE_REFUSED and errors.startswith(b"tare-gate "):
            message = clean_text(errors).strip()
            raise TryAgain(
                f"The key's forced command on {self.address} does not let this through: {message}.",
                kind="forced command",
            )
        return Completed(returncode, read_sink(sink, stdout), errors)

    def ensure_connection(self) -> paramiko.Transport:
        """Return the one connection, opened if necessary. Raises TryAgain."""
        if self._client is None:
            self._client = self._connect()
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            self.close()
            raise TryAgain(f"The connection to {self.address} broke.", kind="unreachable")
        return transport

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def hops(self) -> list["SSH"]:
        """Return the connections from the first jump host to this machine, in this order."""
        return [*(self._jump.hops if self._jump else []), self]

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._jump is not None:
            self._jump.close()

    def _connect(self) -> paramiko.SSHClient:
        address = self.address
        self.prepare_log_in()
        key = address.load_key()
        try:
            expected = parse_public_key(address.host_key)
        except ValueError as error:
            raise TryAgain(f"The host key pinned for {address}: {error}", kind="host key") from None
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        name = address.host if address.port == 22 else f"[{address.host}]:{address.port}"
        client.get_host_keys().add(name, expected.get_name(), expected)
        try:
            with _explain_errors(address):
                client.connect(
                    address.host,
                    port=address.port,
                    username=address.user,
                    pkey=key,
                    sock=self._open_socket(),
                    timeout=self.connect_timeout,
                    banner_timeout=self.connect_timeout,
                    auth_timeout=self.connect_timeout,
                    allow_agent=False,
                    look_for_keys=False,
                    transport_factory=_Transport,
                )
        except BaseException:
            client.close()
            if self._jump is not None:
                self._jump.close()
            raise
        self.record_log_in()
        return client

    def prepare_log_in(self) -> None:
        """Do nothing; subclasses override this to count log-ins, or to raise TryAgain."""

    def record_log_in(self) -> None:
        """Do nothing; subclasses override this to record log-ins."""

    def _open_socket(self) -> "socket.socket | paramiko.Channel":
        if self._jump is None:
            return open_socket(self.address.host, self.address.port, self.connect_timeout)
        return self._jump.open_tunnel(self.address.host, self.address.port)

    def open_tunnel(self, host: str, port: int) -> paramiko.Channel:
        """Return a channel through this machine to another one. Raises TryAgain."""
        try:
            return self.ensure_connection().open_channel(
                "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=self.connect_timeout
            )
        except ChannelException as error:
            raise TryAgain(
                f"The jump host {self.address} does not reach {host} port {port}: {error.text}.",
                kind="unreachable",
            ) from None


def open_socket(host: str, port: int, timeout: float) -> socket.socket:
    """Return a TCP connection that sends small packets at once: 2 ms a command instead of 45."""
    try:
        connection = socket.create_connection((host, port), timeout)
    except (socket.gaierror, UnicodeError):  # UnicodeError: a part of the name is too long
        raise TryAgain(f"No host is called {host}.", kind="host name") from None
    except TimeoutError:
        raise TryAgain(
            f"{host} port {port} did not answer in {timeout:g} s.", kind="time-out"
        ) from None
    except ConnectionRefusedError:
        raise TryAgain(f"Nobody listens on {host} port {port}.", kind="unreachable") from None
    except OSError as error:
        raise TryAgain(
            f"{host} port {port} cannot be reached: {error.strerror}.", kind="unreachable"
        ) from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def scan_host_key(host: str, port: int, timeout: float = 10, *, jump: SSH | None = None) -> str:
    """Return the public key that a host shows, for a person to compare and pin. Raises TryAgain.

    `jump` is closed afterwards.
    """
    with contextlib.ExitStack() as stack:
        connection: socket.socket | paramiko.Channel
        if jump:
            connection = stack.enter_context(jump).open_tunnel(host, port)
        else:
            connection = open_socket(host, port, timeout)
        transport = stack.enter_context(contextlib.closing(paramiko.Transport(connection)))
        transport.banner_timeout = timeout
        try:
            transport.start_client(timeout=timeout)
            key = transport.get_remote_server_key()
        except (SSHException, EOFError, OSError) as error:
            raise TryAgain(
                f"{host} port {port} does not speak SSH: {_describe_error(error)}.",
                kind="unreachable",
            ) from None
        return f"{key.get_name()} {key.get_base64()}"


@contextlib.contextmanager
def _explain_errors(address: SSHAddress) -> Iterator[None]:
    """Turn errors while connecting into TryAgain, with messages that a person understands."""
    try:
        yield
    except BadHostKeyException as error:
        raise TryAgain(
            f"{address} is not the host that was pinned: it shows {fingerprint_key(error.key)}, "
            f"expected is {fingerprint_key(error.expected_key)}. Either the host was set up anew "
            "or somebody is in between: ask its administrators before pinning the new key.",
            kind="host key",
        ) from None
    except AuthenticationException:
        raise TryAgain(
            f"{address} refuses the key of user {address.user}.", kind="key refused"
        ) from None
    except TimeoutError:
        raise TryAgain(f"{address} did not answer in time.", kind="time-out") from None
    except (SSHException, EOFError, OSError) as error:
        raise TryAgain(
            f"{address} did not complete the connection: {_describe_error(error)}.",
            kind="unreachable",
        ) from None


def _feed(channel: paramiko.Channel, stdin: bytes | BinaryIO) -> None:
    """Send a program its input; it may end without reading all of it."""
    source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
    with contextlib.suppress(OSError, EOFError, SSHException):
        while chunk := source.read(PACKET):
            channel.sendall(chunk)
        channel.shutdown_write()


def _drain(channel: paramiko.Channel, sink: BinaryIO) -> bytes:
    """Write the program's output into `sink` until its end, and return its stderr."""
    errors = bytearray()
    readable = select.poll()
    readable.register(channel.fileno(), select.POLLIN)
    while not channel.eof_received and not channel.closed:
        readable.poll()
        while channel.recv_ready():
            sink.write(channel.recv(PIECE))
        while channel.recv_stderr_ready():
            errors += channel.recv_stderr(CHUNK)[: STDERR_LIMIT - len(errors)]
    while chunk := channel.recv(CHUNK):
        sink.write(chunk)
    while chunk := channel.recv_stderr(CHUNK):
        errors += chunk[: STDERR_LIMIT - len(errors)]
    return bytes(errors)


def _describe_error(error: BaseException) -> str:
    return PARAMIKO_MESSAGES.get(str(error), str(error)) or type(error).__name__
