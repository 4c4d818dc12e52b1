"""What the service is told of a deposit, from what an experiment's people have stated."""

from __future__ import annotations

from html import escape
from typing import Any
from urllib.parse import urlsplit

from experiments.citations import Cited
from experiments.citations.citation_files import KEYWORDS
from experiments.models import Deposit

MARK = "Deposited by Tare as {}."


def write_mark(row: Deposit) -> str:
    """Return the text by which a deposition is found again when an answer was lost."""
    return MARK.format(row.uid)


def describe_deposit(row: Deposit, cited: Cited) -> dict[str, Any]:
    """Return the metadata of a deposition, as the service's documentation names them."""
    metadata: dict[str, Any] = {
        "upload_type": "dataset",
        "title": cited.title,
        "creators": [
            {
                "name": author.listed_name,
                **({"orcid": author.orcid} if author.orcid else {}),
                **({"affiliation": author.affiliation} if author.affiliation else {}),
            }
            for author in cited.authors
        ],
        "description": _write_description(cited),
        "access_right": "open",
        "license": cited.licence.lower(),
        "keywords": list(KEYWORDS),
        "notes": write_mark(row),
        "prereserve_doi": True,
    }
    if urlsplit(cited.address).hostname not in (None, "localhost", "127.0.0.1", "::1"):
        metadata["related_identifiers"] = [
            {"identifier": cited.address, "relation": "isDerivedFrom", "resource_type": "dataset"}
        ]
    return metadata


def _write_description(cited: Cited) -> str:
    """Return the description, in the HTML that the service takes."""
    return (
        f"<p>{escape(cited.title)}</p>"
        "<p>What containers cost, measured by Tare: the plan as it was frozen before the first run "
        f"(sha256 {escape(cited.plan_hash)}), all runs with their numbers, steps, output and "
        "surroundings, and the comparison with its verdicts. The zip file is a bag (BagIt) with a "
        "Workflow Run RO-Crate. <code>python3 verify.py</code> in it checks every file, computes "
        "the printed numbers again from the runs, and needs Python alone.</p>"
    )
