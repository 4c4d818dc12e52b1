"""The file by which the results of a job are known: it travels with the job and comes back."""

import json
import re
from dataclasses import asdict, dataclass

from runners.untrusted import Damaged, Table, Text, Whole, parse_document

IDENTITY = "identity.json"
PAYLOAD_HASH = "payload-hash"
"""The file that `run-all.sh` writes beside it: what measures the job, before it begins.

Not in IDENTITY: an archive from after an upgrade of Tare may be unpacked over jobs that have run.
"""
LONGEST_IDENTITY = 4096
SHAPE = Table(
    {
        "schema": Whole(1, 1),
        "experiment": Whole(),
        "plan": Text(64, r"[0-9a-f]{64}"),
        "block": Whole(),
        "job": Text(32, r"[0-9a-f]{32}"),
        "attempt": Whole(1, 1_000_000),
        "token": Text(100, r"[0-9a-z-]+"),
    },
    needed=("schema", "experiment", "plan", "block", "job", "attempt", "token"),
)


@dataclass(frozen=True)
class Identity:
    """Which attempt of which job of which plan it is. The token is random, and in no other file."""

    experiment: int
    plan: str  # the hash of the frozen plan
    block: int  # its number, counted from 1
    job: str
    attempt: int
    token: str

    @property
    def folder(self) -> str:
        """Return the name of the job's directory."""
        return f"{self.job}-{self.attempt}"

    def render(self) -> bytes:
        """Return the content of the file."""
        return (json.dumps({"schema": 1, **asdict(self)}, indent=2) + "\n").encode()


def read_payload_hash(content: bytes) -> str:
    """Return the hash of the payload that a job was measured with. Raises Damaged."""
    if not re.fullmatch(rb"[0-9a-f]{64}\n", content):
        raise Damaged("it is no sha256")
    return content.decode().strip()


def read_identity(content: bytes) -> Identity:
    """Return the identity in a file. Raises Damaged, which says what is wrong with it."""
    if len(content) > LONGEST_IDENTITY:
        raise Damaged(f"it has {len(content):,} bytes")
    parsed = parse_document(content, SHAPE)
    return Identity(**{name: parsed[name] for name in Identity.__dataclass_fields__})
