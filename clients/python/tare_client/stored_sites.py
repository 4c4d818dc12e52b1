"""Which site is asked, and with which token: the environment first, then a file of mode 0600.

    {"site": "https://example.org", "sites": {"https://example.org": {"token": "tare_..."}}}

A token is only ever sent to the site that it was stored for.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare_client.errors import UsageError

LARGEST_PORT = 65535
TOKEN = re.compile(r"tare_[A-Za-z0-9_-]{43}")
WHOLE_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^\s/?#@\[\]:]+)(:\d{1,5})?(/[^\s?#]*)?")


@dataclass(frozen=True)
class StoredSite:
    """Where to ask, and with which token. The token is not shown."""

    url: str
    token: str = field(repr=False)
    insecure_http: bool = False


def find_settings_file() -> Path:
    """Return the path of the file that `tare login` writes."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder, "tare", "config.json")


def normalise_url(text: str) -> str:
    """Return a site's address without a slash at its end. Raises UsageError."""
    text = text.strip()
    if "://" not in text:
        text = f"https://{text}"
    match = WHOLE_URL.fullmatch(text)
    if "@" in text:
        raise UsageError("The address of a site has no user name and no password in it.")
    if not match:
        message = f"“{text[:100]}” is no address of a site; one looks like https://tare.example.org"
        raise UsageError(message)
    scheme, host, port, path = match.groups()
    if port and not 0 < int(port[1:]) <= LARGEST_PORT:
        raise UsageError(f"{port[1:]} is no port: they go from 1 to {LARGEST_PORT}.")
    try:
        host = host.encode("idna").decode()
    except UnicodeError as error:
        raise UsageError(f"“{host[:100]}” is no name of a host.") from error
    path = (path or "").rstrip("/")
    return f"{scheme}://{host.lower()}{port or ''}{path.removesuffix('/api/v1')}"


def is_loopback(url: str) -> bool:
    """Return whether an address names this machine, so that no network sees what is sent."""
    match = WHOLE_URL.fullmatch(url)
    host = match[2].strip("[]").lower() if match else ""
    return host in ("localhost", "::1") or bool(re.fullmatch(r"127(\.\d{1,3}){3}", host))


def require_safe_url(url: str, *, insecure_http: bool) -> None:
    """Raise UsageError where a token would travel unencrypted and nobody has allowed that."""
    if url.startswith("http://") and not insecure_http and not is_loopback(url):
        raise UsageError(
            f"{url} is not encrypted: everybody on the way could read your token. Use https, "
            "or --insecure-http if you know the network."
        )


def require_token(text: str) -> str:
    """Return a token without the blanks around it. Raises UsageError, without the token."""
    token = text.strip()
    if not TOKEN.fullmatch(token):
        raise UsageError(
            "This is no token: one begins with tare_ and has 48 characters. "
            "Make one on your site: API tokens, in the menu with your name."
        )
    return token


def read_site(*, insecure_http: bool = False) -> StoredSite:
    """Return the site to ask: TARE_URL and TARE_TOKEN, or what `tare login` has stored."""
    url, token = os.environ.get("TARE_URL", ""), os.environ.get("TARE_TOKEN", "")
    stored = {} if url and token else read_settings()
    url = normalise_url(url or _read_text(stored, "site")) if url or stored else ""
    if not url:
        raise UsageError(
            "No site is known yet. Run `tare login https://YOUR-SITE`, or set TARE_URL and "
            "TARE_TOKEN."
        )
    sites = stored.get("sites")
    entry = sites.get(url, {}) if isinstance(sites, dict) else {}
    entry = entry if isinstance(entry, dict) else {}
    token = token or _read_text(entry, "token")
    if not token:
        raise UsageError(f"No token is known for {url}. Run `tare login {url}`, or set TARE_TOKEN.")
    allowed = insecure_http or entry.get("insecure_http") is True
    require_safe_url(url, insecure_http=allowed)
    return StoredSite(url, require_token(token), allowed)


def read_settings() -> dict[str, Any]:
    """Return the content of the file, {} where there is none. Raises UsageError."""
    path = find_settings_file()
    try:
        with open(path, "rb") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise UsageError(f"Others may read {path}, which has tokens: chmod 600 {path}")
            content = json.loads(file.read(1_000_000))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise UsageError(f"{path} is damaged. Delete it and run `tare login` again.")
    return content


def store_site(site: StoredSite) -> Path:
    """Store a site and its token, and make it the one that is asked; return the file's path."""
    settings = read_settings()
    sites = settings.get("sites")
    sites = dict(sites) if isinstance(sites, dict) else {}
    sites[site.url] = {"token": site.token, "insecure_http": site.insecure_http}
    path = find_settings_file()
    temporary = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes files of mode 0600: nobody else can read the token at any moment.
        handle, temporary = tempfile.mkstemp(prefix="config.", dir=path.parent)
        with open(handle, "w", encoding="utf-8") as file:
            json.dump({**settings, "site": site.url, "sites": sites}, file, indent=2)
            file.write("\n")
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
    return path


def _read_text(content: dict[str, Any], name: str) -> str:
    value = content.get(name, "")
    return value if isinstance(value, str) else ""
