"""Messages for failures of Tare itself: a reference for everybody, details for administrators.

The text of an exception may hold anything: a path, a row of the database, a password in an address.
"""

from __future__ import annotations

import logging
import re
import secrets
from dataclasses import dataclass
from textwrap import shorten
from urllib.parse import urlsplit

from django.conf import settings

from runners.errors import Refused
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

LONGEST = 500  # characters of an error's text that a page repeats
HIDDEN = "[hidden]"
SECRETS = re.compile(
    r"-----BEGIN [^-]*PRIVATE KEY-----.*?(?:-----END [^-]*-----|\Z)"
    r"|(?<=://)[^/\s@]*(?=@)"  # who logs in, in an address
    r"|\bgAAAA[\w=-]{20,}"  # what one of CREDENTIAL_KEYS has encrypted
    r"|(?<=bearer )[^\s\"',;]+|(?<=basic )[^\s\"',;]+"
    r"|(?:pass(?:word|phrase|wd)?|secret|token|private_key|api_?key)[\"']?\s*[=:]\s*"
    r"(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&)]+)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Failure:
    """A message for everybody, and details for administrators ("" if there are none)."""

    message: str
    details: str = ""

    def __str__(self) -> str:
        return self.message


def describe_failure(error: Exception) -> Failure:
    """Return the messages for an error; Tare's own are logged under the reference they name."""
    if isinstance(error, Refused):  # the message of the other side
        return Failure(shorten(clean_text(str(error)), LONGEST, placeholder=" ..."))
    reference = secrets.token_hex(4)
    logger.error("Failure %s", reference, exc_info=error)
    text = shorten(hide_secrets(clean_text(str(error))), LONGEST, placeholder=" ...")
    return Failure(
        f"Tare itself failed. Its worker's log says why, under reference {reference}.",
        f"{type(error).__name__}: {text} (reference {reference})",
    )


def hide_secrets(text: str) -> str:
    """Return a text without this site's own secrets, and without what looks like one."""
    for secret in _own_secrets():
        text = text.replace(secret, HIDDEN)
    return SECRETS.sub(HIDDEN, text)


def _own_secrets() -> list[str]:
    database = settings.DATABASES["default"].get("PASSWORD") or ""
    valkey = urlsplit(settings.REDIS_URL).password or ""
    values = [settings.SECRET_KEY, *settings.CREDENTIAL_KEYS, database, valkey]
    return [secret for secret in values if len(secret) > 3]
