"""Citations: authors with ORCID, licence, title and DOI of an experiment, and their files."""

from experiments.citations.citation_files import write_cff
from experiments.citations.citing import (
    Author,
    Cited,
    describe_citation,
    save_citation,
    suggest_author,
)

__all__ = [
    "Author",
    "Cited",
    "describe_citation",
    "save_citation",
    "suggest_author",
    "write_cff",
]
