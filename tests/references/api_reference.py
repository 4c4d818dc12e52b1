"""The reference of the API, made of its OpenAPI document: Markdown without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.references.markdown import clean_text, link_heading, write_table

METHODS = ("get", "post", "put", "patch", "delete")
WORDS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
LENGTHS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}
NEVER_MEANT = 2**53
"""Limits from here on are those of PostgreSQL's numbers; nobody has to know them."""
Schema = Mapping[str, Any]


def write_api_reference(document: Schema) -> str:
    """Return the reference: operations by their tag, then the types of what is sent and answered.

    It stands on its own: what a part of the document lacks is left out, and nothing is invented.
    """
    info = document.get("info", {})
    parts = [
        "# API reference",
        f"Version {clean_text(info.get('version', ''))}. Made by `make references` from the "
        "OpenAPI document, which each site serves as `/api/v1/openapi.json`: change the code, "
        "not this page. `{pk}` and its like in an address stand for a number or a name.",
        "## Authentication",
        "`Authorization: Bearer TOKEN`, with a token from *API tokens* in the menu with your name. "
        "What programs have to know besides stands in [the API](api.md).",
        *_write_operations(document),
        "## Types",
        *_write_types(document),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _write_operations(document: Schema) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, methods in document.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                operation = methods[method]
                tag = (operation.get("tags") or ["Other"])[0]
                by_tag.setdefault(tag, []).append(_write_operation(method, path, operation))
    for tag, operations in by_tag.items():
        yield f"## {clean_text(tag)}"
        yield from operations


def _write_operation(method: str, path: str, operation: Schema) -> str:
    parts = [
        f"### {clean_text(operation.get('summary') or operation.get('operationId', path))}",
        f"`{method.upper()} {path}`",
        str(operation.get("description", "")).replace("<", "\\<"),
    ]
    if operation.get("deprecated"):
        parts.append("Deprecated.")
    parameters = operation.get("parameters", [])
    if parameters:
        rows = [
            (
                f"`{parameter['name']}`",
                parameter["in"] + (", required" if parameter.get("required") else ""),
                describe_type(parameter.get("schema", {})),
                _describe(parameter),
            )
            for parameter in parameters
        ]
        parts.append(write_table(("parameter", "where", "type", "meaning"), rows))
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"Sent: `{kind}`, {describe_type(media.get('schema', {}))}.")
    rows = [_describe_answer(status, a) for status, a in operation.get("responses", {}).items()]
    parts.append(write_table(("status", "when", "answer"), rows))
    return "\n\n".join(part for part in parts if part)


def _describe_answer(status: object, answer: Schema) -> tuple[str, str, str]:
    content = [
        f"`{kind}`, {describe_type(media.get('schema', {}))}"
        for kind, media in answer.get("content", {}).items()
    ]
    return str(status), clean_text(answer.get("description", "")), "; ".join(content) or "–"


def _write_types(document: Schema) -> Iterator[str]:
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        yield f"### {_title_type(name)}"
        yield clean_text(schema.get("description", ""))
        if "properties" not in schema:
            yield describe_type(schema)
            continue
        required = schema.get("required", [])
        rows = [
            (
                f"`{field}`",
                describe_type(about) + ("" if field in required else ", may be missing"),
                _describe(about),
            )
            for field, about in schema["properties"].items()
        ]
        yield write_table(("field", "type", "meaning"), rows)


def _title_type(name: str) -> str:
    """Return the heading of a type, which no operation has."""
    return f"Type {clean_text(name)}"


def describe_type(schema: Schema) -> str:
    """Return what a value is, in words: text, list of ..., one of ..."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return link_heading(name, _title_type(name))
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(describe_type(part) for part in schema[several]))
    if "const" in schema:
        return f"`{clean_text(schema['const'])}`"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{clean_text(value)}`" for value in schema["enum"])
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(describe_type({**schema, "type": single}) for single in kind)
    if kind == "array":
        words = "list of " + describe_type(schema.get("items", {}))
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        words = "object, by name: " + describe_type(schema["additionalProperties"])
    else:
        names = {"string": "text", "null": "null", "boolean": "true or false"}
        words = schema.get("format") or names.get(kind, kind)
    return ", ".join([words, *_describe_limits(schema)])


def _describe_limits(schema: Schema) -> Iterator[str]:
    for name, sign in WORDS.items():
        if name in schema and abs(schema[name]) < NEVER_MEANT:
            yield f"{sign} {schema[name]}".replace("<", "\\<")
    for name, words in LENGTHS.items():
        if name in schema:
            yield words.format(schema[name])


def _describe(about: Schema) -> str:
    words = clean_text(about.get("description", ""))
    default = about.get("schema", about).get("default")
    if default in (None, "", [], {}):
        return words
    return f"{words} Default: `{clean_text(default)}`.".strip()
