"""Settings come from the process environment; a secret may lie in a file named by NAME_FILE."""

from __future__ import annotations

import os
import re
import secrets
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def read_text(name: str, default: str | None = None) -> str:
    """Return the setting `name`, or the content of the file that `name`_FILE points at."""
    if name in os.environ:
        return os.environ[name]
    if path := os.environ.get(f"{name}_FILE"):
        return Path(path).read_text().strip()
    if default is None:
        raise ImproperlyConfigured(
            f"{name} is not set. Set it (or {name}_FILE), or start Tare with `make demo`, "
            "which makes its own."
        )
    return default


def read_flag(name: str, default: bool) -> bool:
    """Return whether the setting is 1, true, yes or on."""
    return read_text(name, str(default)).lower() in {"1", "true", "yes", "on"}


def read_names(name: str, default: str = "") -> list[str]:
    """Return the names that the setting lists, separated by commas."""
    return [item.strip() for item in read_text(name, default).split(",") if item.strip()]


def read_number(name: str, default: int) -> int:
    """Return a whole number above 0."""
    value = read_text(name, str(default))
    if not value.isdecimal() or not int(value[:9]) > 0:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number above 0.")
    return int(value[:9])


def read_networks(name: str) -> list[str]:
    """Return addresses and networks, such as 10.0.0.0/8, as they were written."""
    for entry in (listed := read_names(name)):
        try:
            ip_network(entry, strict=False)
        except ValueError:
            raise ImproperlyConfigured(
                f"{name} names {entry!r}, which is neither an address nor a network."
            ) from None
    return listed


def read_hosts(name: str) -> list[str]:
    """Return hosts, `host` or `host:port` with or without http://, in small letters."""
    listed = [entry.lower() for entry in read_names(name)]
    for entry in listed:
        if not re.fullmatch(r"(http://)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", entry):
            raise ImproperlyConfigured(
                f"{name} names {entry!r}, which is no host: write host, host:port, [address]:port, "
                "or http:// and that."
            )
    return listed


def read_file(path: Path) -> None:
    """Take NAME=value lines of `path` for names that the process environment does not have."""
    if not path.is_file():
        return
    for line in path.read_text().splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value)


def stand_in_for_a_site() -> None:
    """Set what settings insist on, for commands that use neither a database nor a secret."""
    for name, value in {
        "SECRET_KEY": secrets.token_urlsafe(32),
        "CREDENTIAL_KEYS": "",
        "DATABASE_URL": "postgresql:///none",
    }.items():
        if f"{name}_FILE" not in os.environ:
            os.environ.setdefault(name, value)


def parse_postgres_url(url: str) -> dict[str, Any]:
    """Return Django's database settings for `postgresql://user:password@host:port/name`."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured("DATABASE_URL must begin with postgresql://")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
        # Ten minutes: with a connection go the plans of its prepared statements.
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
    }
