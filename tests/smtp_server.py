"""A mail server for tests: it speaks SMTP on a port of its own, and refuses or hangs as told."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast


@dataclass
class MailServer:
    """The server's port, what it took, and how it answers: by command, in place of its 250."""

    port: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    """An answer for each command; "" hangs until the server is closed, "bye" closes."""
    taken: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str, list[str]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)


class Conversation(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        mails = cast("Server", self.server).mails
        if not self.answer(mails, "connect", "220 tests"):
            return
        sender, to = "", []
        while line := self.rfile.readline().decode(errors="replace").strip():
            command = line.partition(" ")[0].upper()
            mails.asked.append(command)
            if command == "MAIL":
                sender, to = line, []
            if command == "RCPT":
                to.append(line)
            usual = {"DATA": "354 go on", "QUIT": "221 bye"}.get(command, "250 ok")
            if not self.answer(mails, command, usual) or command == "QUIT":
                return
            if command == "DATA" and "DATA" not in mails.answers:
                content = b""
                while (row := self.rfile.readline()) not in (b".\r\n", b""):
                    content += row.removeprefix(b".") if row.startswith(b"..") else row
                if mails.answers.get("content", "2").startswith(("2", "bye")):
                    mails.envelopes.append((sender, to))
                    mails.taken.append(
                        message_from_bytes(content.replace(b"\r\n", b"\n"), policy=policy.default)
                    )
                if not self.answer(mails, "content", "250 taken"):
                    return

    def answer(self, mails: MailServer, command: str, usual: str) -> bool:
        """Return whether the conversation goes on."""
        text = mails.answers.get(command, usual)
        if not text:
            mails.closing.wait(60)
        if text in ("", "bye"):
            return False
        self.wfile.write(f"{text}\r\n".encode())
        return True


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    mails: MailServer


@contextmanager
def serve_mail() -> Iterator[MailServer]:
    """Yield a server that listens."""
    with Server(("127.0.0.1", 0), Conversation) as server:
        server.mails = MailServer(port=server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.mails
        finally:
            server.mails.closing.set()
            server.shutdown()
            thread.join()
