"""What the fields of clusters and their keys may hold: choices and validators."""

from __future__ import annotations

from django.core.validators import RegexValidator

from runners.gate import HOST
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS
from runners.transports import TRANSPORTS

LOCAL_TRANSPORT = "local"  # to Tare's own machine
BY_HAND = "by_hand"  # no connection: people carry archives there and back


def transport_choices() -> list[tuple[str, str]]:
    """Return the transports with their labels, as choices."""
    return [(kind, transport.label) for kind, transport in TRANSPORTS.items()]


def scheduler_choices() -> list[tuple[str, str]]:
    """Return the schedulers with their labels, as choices."""
    return [(kind, scheduler.label) for kind, scheduler in SCHEDULERS.items()]


def runtime_choices() -> list[tuple[str, str]]:
    """Return what can start a container. Bare metal is the absence of a runtime."""
    return [(kind, runtime.label) for kind, runtime in RUNTIMES.items() if runtime.formats]


# Runtimes separate the parts of a bind by colons and commas, without any quoting.
is_work_directory = RegexValidator(
    r"^/[^:,\x00]*$", "A work directory is absolute and holds neither colon nor comma."
)

is_host = RegexValidator(
    HOST,
    "A host is a name such as login.example.org, or an address: letters, digits, dots and dashes.",
)
