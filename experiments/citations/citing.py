"""How an experiment is cited: what its people have stated, and how that is saved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.conf import settings
from django.urls import reverse

from experiments.access import audit
from experiments.models import Citation, Experiment, User
from experiments.models.citation import find_citation


@dataclass(frozen=True)
class Author:
    """A person who is named as an author. Of a single name the family's is that one."""

    family: str
    given: str = ""
    orcid: str = ""
    affiliation: str = ""

    @property
    def name(self) -> str:
        return f"{self.given} {self.family}".strip()

    @property
    def listed_name(self) -> str:
        """Return the name as lists sort it: Curie, Marie."""
        return f"{self.family}, {self.given}" if self.given else self.family


@dataclass(frozen=True)
class Cited:
    """What a citation says of an experiment."""

    experiment: int
    title: str
    authors: tuple[Author, ...]
    licence: str
    doi: str
    """Reserved or registered; "" without one."""
    is_published: bool
    """Whether the DOI is registered, and leads to the deposit."""
    on: date | None
    address: str
    """Of the experiment's page; "" where the site does not know its own."""
    plan_hash: str

    @property
    def doi_address(self) -> str:
        return f"https://doi.org/{self.doi}" if self.doi else ""


def describe_citation(experiment: Experiment) -> Cited:
    """Return how an experiment is cited; without authors where nobody has stated any."""
    row = find_citation(experiment) or Citation()  # not of it: that would be kept there
    on = row.doi_published_at or experiment.launched_at or experiment.imported_at
    return Cited(
        experiment=experiment.pk,
        title=row.title or experiment.question,
        authors=tuple(read_authors(row)),
        licence=row.licence,
        doi=row.doi,
        is_published=row.doi_published_at is not None,
        on=on.date() if on else None,
        address=_find_address(experiment),
        plan_hash=experiment.plan_hash or experiment.import_hash,
    )


def _find_address(experiment: Experiment) -> str:
    """Return the address of the page: of an experiment from a bundle, where it was measured."""
    site, number = settings.SITE_ADDRESS, experiment.pk
    if experiment.is_from_bundle:
        bundle = experiment.imported_bundle
        is_address = re.fullmatch(r"https?://[!-~]+", bundle.site) and bundle.number.isdecimal()
        if not is_address:
            return ""
        site, number = bundle.site.rstrip("/"), int(bundle.number)
    return f"{site}{reverse('experiment', args=[number])}" if site else ""


def why_not_state(experiment: Experiment) -> str:
    """Return why nobody of this site states authors, licence and title; "" if people may."""
    if not experiment.is_from_bundle:
        return ""
    return (
        f"It is {experiment.imported_bundle.origin}: authors, licence, title and DOI are those "
        "that its bundle states. They are changed, and it is deposited, where it was measured."
    )


def read_authors(row: Citation) -> list[Author]:
    """Return the stored authors in their order."""
    return [
        Author(**{name: str(entry.get(name, "")) for name in Author.__dataclass_fields__})
        for entry in row.authors
    ]


def save_citation(
    experiment: Experiment, by: User, *, title: str, licence: str, authors: Sequence[Author]
) -> Citation:
    """Save what people state of an experiment, with an entry in the audit log."""
    stated: dict[str, Any] = {
        "title": "" if title == experiment.question else title,
        "licence": licence,
        "authors": [vars(author) for author in authors],
    }
    return audit.keep(by, Citation, why="", defaults=stated, experiment=experiment)


def suggest_author(person: User) -> Author:
    """Return a person as an author, by what their account says."""
    return Author(person.last_name or person.username, person.first_name, person.orcid)
