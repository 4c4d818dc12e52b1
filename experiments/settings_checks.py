"""System checks: Tare refuses to start with settings that cannot work."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from experiments.encryption import KeyRing


@register()
def check_credential_keys(**kwargs: Any) -> list[CheckMessage]:
    """Return an error if CREDENTIAL_KEYS cannot be used."""
    try:
        KeyRing(settings.CREDENTIAL_KEYS)
    except ValueError as error:
        return [Error(str(error), id="tare.E001")]
    return []
