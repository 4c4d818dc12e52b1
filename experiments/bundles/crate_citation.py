"""Authors, licence and DOI in the metadata of a crate."""

from __future__ import annotations

from typing import Any

from experiments.citations import Author, Cited
from experiments.citations.licences import ADDRESS as LICENCES
from experiments.citations.orcid import ADDRESS as PEOPLE

Entity = dict[str, Any]
LICENCE = "#licence"


def add_citation(graph: list[Entity], cited: Cited) -> None:
    """State in a crate's graph what people have stated; what they have not stays as it was.

    The owner stays the agent of all runs, whoever the authors are.
    """
    root = next(entity for entity in graph if entity["@id"] == "./")
    root["name"] = cited.title
    if cited.authors:
        people = [_describe_author(author, n) for n, author in enumerate(cited.authors, 1)]
        root["author"] = [{"@id": person["@id"]} for person, _ in people]
        known = {entity["@id"] for entity in graph}
        for entity in (entity for _, entities in people for entity in entities):
            if entity["@id"] not in known:  # the same ORCID twice is one person
                known.add(entity["@id"])
                graph.append(entity)
    if cited.licence:
        address = f"{LICENCES}{cited.licence}"
        licence = next(entity for entity in graph if entity["@id"] == LICENCE)
        licence.update(
            {"@id": address, "name": cited.licence, "description": f"SPDX: {cited.licence}"}
        )
        root["license"] = {"@id": address}
    if cited.doi:
        root["identifier"] = [cited.doi_address, root["identifier"]]


def _describe_author(author: Author, number: int) -> tuple[Entity, list[Entity]]:
    """Return the entity of an author, and all entities that it takes."""
    person: Entity = {
        "@id": PEOPLE + author.orcid if author.orcid else f"#author-{number}",
        "@type": "Person",
        "name": author.name,
        "familyName": author.family,
    }
    if author.given:
        person["givenName"] = author.given
    if not author.affiliation:
        return person, [person]
    place = {"@id": f"#affiliation-{number}", "@type": "Organization", "name": author.affiliation}
    person["affiliation"] = {"@id": place["@id"]}
    return person, [person, place]
