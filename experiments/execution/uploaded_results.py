"""Results that somebody brings by the page: unpacked by a web process, which others need too."""

from __future__ import annotations

from typing import BinaryIO

from experiments.execution.by_hand_results import Brought, NotBrought, bring_results
from experiments.models import Experiment, User
from experiments.models.database_locks import try_lock
from runners.transports.base import MIB

MOST_BYTES = 512 * MIB
"""Of files, unpacked. What jobs leave becomes eight times smaller: as much is in 64 MB."""
LOCK = "results by hand"


def bring_uploaded_results(
    experiment: Experiment, archive: BinaryIO, by: User, *, name: str, is_final: bool
) -> Brought:
    """Enter the results in an uploaded archive, as `bring_results`, in a web process's limits.

    One archive of the site is unpacked at a time. Raises NotBrought.
    """
    with try_lock(LOCK) as is_held:
        if not is_held:
            raise NotBrought(
                "Other results are being entered at this moment: try again in a minute or two."
            )
        return bring_results(
            experiment, archive, by, name=name, is_final=is_final, most_bytes=MOST_BYTES
        )
