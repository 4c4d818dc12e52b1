"""The transport to a machine that cannot be reached: people carry archives there and back."""

from collections.abc import Sequence
from typing import BinaryIO

from runners.errors import TryAgain
from runners.transports.base import Completed, Transport

NO_CONNECTION = (
    "Tare has no connection to this machine: people carry its jobs there and the results back."
)

NO_OPERATIONS = (
    "Tare has no connection to this machine: images and files are put there by hand, and "
    "registered in the admin pages."
)


class ByHand(Transport):
    """No connection: whatever is asked of the machine says so."""

    label = "by hand (no connection)"

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30,
        stdin: bytes | BinaryIO = b"",
        stdout: BinaryIO | None = None,
    ) -> Completed:
        """Raise TryAgain: nothing can be asked of the machine."""
        raise TryAgain(NO_CONNECTION, kind="set-up")
