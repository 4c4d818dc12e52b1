"""`make crate-proof`: have the community's validator read a crate, without a network.

`python -m tests.crate_proof FOLDER` in an environment with `roc-validator` and `rocrate` 0.10. That
carries the JSON-LD context of RO-Crate 1.1, which the validator would fetch. FOLDER is the `data/`
of a bundle that was unpacked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import rdflib.plugins.shared.jsonld.context as rdflib_context
import requests
import requests_cache
import rocrate
from rocrate_validator import models, services

ADDRESS = "https://w3id.org/ro/crate/1.1/context"
CONTEXT = (Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_bytes()
PROFILE = "provenance-run-crate-0.5"


def answer(session: Any, request: Any, **_: Any) -> requests.Response:
    """Answer a request for the context, and refuse any other one."""
    if not request.url.startswith(ADDRESS):
        raise requests.ConnectionError(f"{request.url} is not carried by any package.")
    response = requests.Response()
    response.status_code, response.url, response.request = 200, request.url, request
    response.headers["Content-Type"] = "application/ld+json"
    response._content = CONTEXT
    return response


def main(folder: str) -> int:
    """Print what the validator finds at its level REQUIRED; 0 if nothing."""
    read_source = rdflib_context.source_to_json

    def read(source: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(source, str) and source.startswith(ADDRESS):
            return json.loads(CONTEXT), None
        return read_source(source, *arguments, **options)

    rdflib_context.source_to_json = read
    for kind in (requests.Session, requests_cache.CachedSession):
        kind.send = answer
    result = services.validate(
        services.ValidationSettings(
            rocrate_uri=folder,
            profile_identifier=PROFILE,
            requirement_severity=models.Severity.REQUIRED,
        )
    )
    for issue in result.get_issues():
        print(issue.check.identifier, issue.message)  # noqa: T201 - a program
    print(f"{PROFILE}: {len(result.executed_checks)} checks, passed: {result.passed()}")  # noqa: T201
    return 0 if result.passed() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
