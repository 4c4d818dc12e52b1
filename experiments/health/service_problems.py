"""Problems that administrators are told about: what is wrong, what follows, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Problem:
    """One sentence for each: the title, what follows from it, and what to do."""

    title: str
    consequence: str
    advice: str = ""
    since: datetime | None = None  # when what is missing was last seen
    details: str = ""  # technical
    is_essential: bool = False  # without it no work goes on
