"""A provenance graph as PROV-JSONLD, the JSON-LD representation of PROV submitted to W3C in 2024.

A statement stands in a line of its own, so that a graph of any length is written as it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from experiments.provenance.prov_graph import Kind, Link, Node, Relation

CONTEXT = "https://openprovenance.org/prov-jsonld/context.jsonld"
TERMS = "urn:tare:terms:"
STUDY = "urn:tare:study:"
STATEMENTS = {
    Relation.USED: ("Usage", "activity", "entity"),
    Relation.GENERATED_BY: ("Generation", "entity", "activity"),
    Relation.DERIVED_FROM: ("Derivation", "generatedEntity", "usedEntity"),
    Relation.INFORMED_BY: ("Communication", "informed", "informant"),
    Relation.ASSOCIATED_WITH: ("Association", "activity", "agent"),
    Relation.ATTRIBUTED_TO: ("Attribution", "entity", "agent"),
    Relation.ON_BEHALF_OF: ("Delegation", "delegate", "responsible"),
}
"""The statement of each relation, and the names of its two ends. Locations are attributes."""


def write_json_ld(nodes: Iterable[Node], study_hash: str) -> Iterator[bytes]:
    """Yield the graph as a JSON document, a line for each statement."""
    names = {"tare": TERMS, "study": f"{STUDY}{study_hash}:"}
    yield f'{{"@context": [{json.dumps(names)}, {json.dumps(CONTEXT)}],\n"@graph": ['.encode()
    before = "\n"
    for node in nodes:
        statements = [_describe_node(node), *map(_describe_link, *_split_links(node))]
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in statements)
        yield f"{before}{lines}".encode()
        before = ",\n"
    yield b"\n]}\n"


def _split_links(node: Node) -> tuple[list[Node], list[Link]]:
    links = [link for link in node.links if link.relation in STATEMENTS]
    return [node] * len(links), links


def _describe_node(node: Node) -> dict[str, Any]:
    types = [_name_term(node.type)]
    if node.prov_type:
        types.insert(0, f"prov:{node.prov_type}")
    locations = [link.target for link in node.links if link.relation is Relation.AT_LOCATION]
    times = {"startTime": node.began_at, "endTime": node.ended_at}
    return {
        "@type": str(node.kind).capitalize(),
        "@id": _name(node.id),
        **{name: time for name, time in times.items() if time and node.kind is Kind.ACTIVITY},
        "type": types,
        "label": [{"@value": node.title}],
        **({"location": [_name(place) for place in locations]} if locations else {}),
        **{
            _name_term(name): [_describe_value(value)]
            for name, value in node.details.items()
            if value is not None
        },
    }


def _describe_value(value: Any) -> dict[str, str]:
    if isinstance(value, int):
        return {"@value": str(value), "@type": "xsd:integer"}
    if isinstance(value, float):
        return {"@value": _write_number(value), "@type": "xsd:double"}
    return {"@value": str(value)}


def _write_number(value: float) -> str:
    """Return a number with all its digits, as XML Schema spells what JSON lacks."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return repr(value)


def _describe_link(node: Node, link: Link) -> dict[str, str]:
    statement, source, target = STATEMENTS[link.relation]
    plan = {"plan": _name(link.plan)} if link.plan else {}
    return {"@type": statement, source: _name(node.id), target: _name(link.target), **plan}


def _name(node: str) -> str:
    return f"study:{node}"


def _name_term(words: str) -> str:
    return f"tare:{words.replace(' ', '_')}"
