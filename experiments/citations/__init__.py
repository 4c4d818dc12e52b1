"""Citations: authors with ORCID, licence, title and DOI of an experiment, and their files."""

from experiments.citations.citation_files import write_cff
from experiments.citations.citing import (
    Author,
    Cited,
    describe_citation,
    save_citation,
    suggest_author,
    why_not_state,
)
from experiments.citations.stated_citations import keep_statement, write_statement

__all__ = [
    "Author",
    "Cited",
    "describe_citation",
    "keep_statement",
    "save_citation",
    "suggest_author",
    "why_not_state",
    "write_cff",
    "write_statement",
]
