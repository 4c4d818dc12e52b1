"""Machines that cannot be reached: jobs travel there as an archive, and results come back as one.

`carrying` stands in for the cluster while jobs are away, `job_archives` writes the archive,
`result_archives` unpacks what comes back, `identities` says which job it is of, and `left_there`
what was too large to come.
"""

from runners.by_hand.carrying import BEGINS, CarriedRunner
from runners.by_hand.identities import (
    IDENTITY,
    PAYLOAD_HASH,
    Identity,
    read_identity,
    read_payload_hash,
)
from runners.by_hand.job_archives import stream_archive
from runners.by_hand.left_there import add_left_there
from runners.by_hand.result_archives import TooMuch, Unpacked, unpack_results

__all__ = [
    "BEGINS",
    "IDENTITY",
    "PAYLOAD_HASH",
    "CarriedRunner",
    "Identity",
    "TooMuch",
    "Unpacked",
    "add_left_there",
    "read_identity",
    "read_payload_hash",
    "stream_archive",
    "unpack_results",
]
