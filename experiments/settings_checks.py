"""System checks: Tare refuses to start with settings that cannot work."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as CheckWarning

from experiments.encryption import KeyRing


@register()
def check_credential_keys(**kwargs: Any) -> list[CheckMessage]:
    """Return an error if CREDENTIAL_KEYS cannot be used."""
    try:
        KeyRing(settings.CREDENTIAL_KEYS)
    except ValueError as error:
        return [Error(str(error), id="tare.E001")]
    return []


@register()
def check_site_address(**kwargs: Any) -> list[CheckMessage]:
    """Return what is wrong with the site's address, which all that leaves Tare has links to."""
    needed = "SITE_ADDRESS has to be the address of this site, such as https://tare.org"
    if settings.SITE_ADDRESS:
        is_address = re.fullmatch(r"https?://[^\s/?#*]+(/[^\s?#]*)?", settings.SITE_ADDRESS)
        return [] if is_address else [Error(f"{needed}.", id="tare.E003")]
    if settings.EMAIL_HOST:
        return [Error(f"EMAIL_HOST is set: {needed}.", id="tare.E002")]
    if settings.WEBHOOKS and not settings.DEBUG:
        # No error: links in what is posted begin at "/", which a site without webhooks never sees.
        hint = "Links in what webhooks post begin at / without it. WEBHOOKS=0 switches them off."
        return [CheckWarning(f"{needed}.", hint=hint, id="tare.W001")]
    return []


@register()
def check_email(**kwargs: Any) -> list[CheckMessage]:
    """Return what is wrong with the settings of e-mail, if the site has a mail server."""
    if not settings.EMAIL_HOST:
        return []
    problems = []
    if not re.fullmatch(r"[^\r\n]*[^\s@<]+@[^\s@>]+>?", settings.DEFAULT_FROM_EMAIL):
        problems.append("DEFAULT_FROM_EMAIL has to be the address from which e-mails come")
    if settings.EMAIL_USE_TLS and settings.EMAIL_USE_SSL:
        problems.append("EMAIL_USE_TLS and EMAIL_USE_SSL exclude each other")
    if settings.EMAIL_HOST_PASSWORD and not (settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL):
        problems.append("EMAIL_HOST_PASSWORD would be sent unencrypted: set EMAIL_USE_TLS=1")
    return [Error(f"EMAIL_HOST is set: {text}.", id="tare.E002") for text in problems]
