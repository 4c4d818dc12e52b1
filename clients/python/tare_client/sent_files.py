"""How an experiment file and its table of names are sent."""

from __future__ import annotations

import hashlib

YAML, JSON = "application/yaml", "application/json"


def choose(**options: bool) -> dict[str, str]:
    """Return the query of the options that are chosen."""
    return {name: "true" for name, is_chosen in options.items() if is_chosen}


def write_body(definition: bytes, *, is_json: bool, names: bytes) -> tuple[bytes, str]:
    """Return the body of a request with a file, and its type: two parts where there are names."""
    kind = JSON if is_json else YAML
    if not names:
        return definition, kind
    # The same files are the same request, whoever sends them again with one key.
    boundary = hashlib.sha256(definition + b"\0" + names).hexdigest()
    body = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
        f"Content-Type: {kind_of_part}\r\n\r\n".encode()
        + content
        + b"\r\n"
        for name, kind_of_part, content in (("definition", kind, definition), ("map", YAML, names))
    )
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
