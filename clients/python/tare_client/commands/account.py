"""`tare login` and `tare open`."""

from __future__ import annotations

import argparse
import sys

from tare_client.client import Client
from tare_client.command_parser import StudyKey
from tare_client.errors import UsageError
from tare_client.stored_sites import (
    StoredSite,
    normalise_url,
    require_safe_url,
    require_token,
    store_site,
)
from tare_client.terminal import print_json, print_line


def run_login(arguments: argparse.Namespace) -> int:
    """Ask for a token, try it, and store it."""
    url = normalise_url(arguments.url)
    require_safe_url(url, insecure_http=arguments.insecure_http)
    token = require_token(ask_for_token(url))
    client = Client(url, token, insecure_http=arguments.insecure_http, timeout=arguments.timeout)
    person = client.me()
    path = store_site(StoredSite(url, token, arguments.insecure_http))
    if arguments.json:
        print_json({"site": url, "stored_in": str(path), **person.raw})
        return 0
    print_line(f"Logged in at {url} as {person.username} ({person.role}).")
    until = f", until {person.expires_at[:10]}" if person.expires_at else ""
    print_line(f"The token may: {', '.join(person.scopes) or 'nothing'}{until}.")
    print_line(f"Stored in {path}.")
    return 0


def ask_for_token(url: str) -> str:
    """Return the token that somebody types, unseen, or that a pipe brings."""
    if not sys.stdin.isatty():
        return sys.stdin.readline(1000)
    from getpass import getpass

    print_line(f"Make a token at {url}/account/tokens/", file=sys.stderr)
    try:
        return getpass("Token (is not shown): ")
    except EOFError as error:
        raise UsageError("No token was given.") from error


def run_open(arguments: argparse.Namespace) -> int:
    """Open the page of an experiment or a study in the browser, and print its address."""
    client = connect(arguments)
    find = client.study if isinstance(arguments.id, StudyKey) else client.experiment
    address = client.find_page(find(arguments.id))
    if arguments.json:
        print_json({"id": arguments.id, "page": address})
        return 0
    print_line(address)
    import webbrowser

    webbrowser.open(address)
    return 0


def connect(arguments: argparse.Namespace) -> Client:
    """Return the client of the site that the environment or `tare login` names."""
    return Client.from_settings(insecure_http=arguments.insecure_http, timeout=arguments.timeout)
