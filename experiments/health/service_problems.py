"""Problems that administrators are told about: what is wrong, what follows, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings


@dataclass(frozen=True)
class Problem:
    """One sentence for each: the title, what follows from it, and what to do."""

    title: str
    consequence: str
    advice: str = ""
    since: datetime | None = None  # when what is missing was last seen
    details: str = ""  # technical
    is_essential: bool = False  # without it no work goes on


def tell_how_to_start(service: str, command: str = "") -> str:
    """Return how to start a service of compose, or what the supervisor of `make demo` does."""
    if settings.SUPERVISOR_FILE:
        return (
            "make demo starts it again: within seconds if it has ended, after a minute if it does "
            "nothing any more. Its terminal says which."
        )
    alone = f", or manage.py {command}" if command else ""
    return f"Start it: docker compose up -d {service}{alone}."
