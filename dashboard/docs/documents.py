"""Documents of the folder `docs/`, read from Markdown: their HTML, headings and addresses.

Nothing is built beforehand, so nothing can be out of date: a document is read once a process.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

FOLDER = "docs"
GLOSSARY = "words"
"""The document that has a page of its own."""
START = "index"
"""The document above the list of all documents."""
DECISIONS = "decisions"
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
LISTED_LEVELS = ("h2", "h3")


@dataclass(frozen=True)
class Heading:
    """A heading below the title: the level of `h2` is 2."""

    level: int
    text: str
    anchor: str


@dataclass(frozen=True)
class Document:
    """A document as its page shows it, without its title."""

    name: str
    title: str
    headings: tuple[Heading, ...]
    html: SafeString

    def get_absolute_url(self) -> str:
        return find_address(self.name)

    @property
    def listed_headings(self) -> list[Heading]:
        """Return the headings of a list of contents."""
        return [heading for heading in self.headings if f"h{heading.level}" in LISTED_LEVELS]


def find_address(name: str, anchor: str = "") -> str:
    """Return the address of a document on the site, or of a place in it."""
    own = {GLOSSARY: "glossary", START: "docs"}
    address = reverse(own[name]) if name in own else reverse("document", args=[name])
    return f"{address}#{anchor}" if anchor else address


@cache
def map_files() -> dict[str, Path]:
    """Return the file of each document by its name; a folder's README bears the folder's name."""
    folder = settings.BASE_DIR / FOLDER
    paths = {path.relative_to(folder): path for path in sorted(folder.rglob("*.md"))}
    return {_name_document(relative.as_posix()): path for relative, path in paths.items()}


@cache
def map_pictures() -> dict[str, Path]:
    """Return the file of each picture by its path below the folder."""
    folder = settings.BASE_DIR / FOLDER
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.suffix in PICTURES
    }


def read_markdown(name: str) -> str:
    """Return the text of a document without comments, which are for those who edit the file."""
    text = map_files()[name].read_text(encoding="utf-8")
    return re.sub(r"^<!--.*?-->\n?", "", text, flags=re.MULTILINE | re.DOTALL)


def parse_document(name: str) -> tuple[list[Token], tuple[Heading, ...]]:
    """Return a document's tokens, headings with their anchors among them, and all headings."""
    tokens = _make_parser().parse(read_markdown(name))
    return tokens, tuple(_name_headings(tokens, {}))


def parse_parts(name: str) -> Iterator[tuple[list[Token], tuple[Heading, ...]]]:
    """Yield what `parse_document` returns, from one heading to the next.

    The tokens of a whole document take a hundred times its size.
    """
    taken: dict[str, int] = {}
    for part in _split_at_headings(read_markdown(name)):
        tokens = _make_parser().parse(part)
        yield tokens, tuple(_name_headings(tokens, taken))


def _split_at_headings(text: str) -> Iterator[str]:
    lines: list[str] = []
    is_code = False
    for line in text.splitlines(keepends=True):
        is_code ^= line.lstrip().startswith("```")
        if line.startswith("#") and not is_code and lines:
            yield "".join(lines)
            lines = []
        lines.append(line)
    yield "".join(lines)


@cache
def read_document(name: str) -> Document:
    """Return a document by its name, which `map_files` knows."""
    parser = _make_parser()
    headings: list[Heading] = []
    html = ""
    for tokens, own_headings in parse_parts(name):
        headings += own_headings
        _empty_corners(tokens)
        for token in tokens:
            token.children = list(_lead_links(token.children or [], name))
        html += parser.renderer.render(_without_title(tokens), parser.options, {})
    title = next((heading.text for heading in headings if heading.level == 1), name)
    below = tuple(heading for heading in headings if heading.level > 1)
    return Document(name, title, below, mark_safe(html))  # noqa: S308  (raw HTML is off)


def read_title(name: str) -> str:
    """Return the title of a document without reading the rest of it."""
    with map_files()[name].open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip() or name


def make_anchor(text: str, taken: dict[str, int]) -> str:
    """Return the anchor that hosts of Markdown give a heading; `taken` counts those given."""
    anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    count = taken.get(anchor, 0)
    taken[anchor] = count + 1
    return f"{anchor}-{count}" if count else anchor


def _name_document(path: str) -> str:
    return path.removesuffix(".md").removesuffix("/README")


@cache
def _make_parser() -> MarkdownIt:
    """Return the reader of Markdown: tables, but no raw HTML, and no links that run scripts."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    rules = parser.renderer.rules  # type: ignore[attr-defined]
    rules["table_open"] = lambda *_: '<div class="scroll" tabindex="0"><table class="table">\n'
    rules["table_close"] = lambda *_: "</table></div>\n"
    for kind in ("fence", "code_block"):
        rules[kind] = _let_keyboard_scroll(rules[kind])
    return parser


def _let_keyboard_scroll(write: Callable[..., str]) -> Callable[..., str]:
    """Return a rule that makes a block of code a place where the keyboard can stop."""
    return lambda *given: write(*given).replace("<pre>", '<pre tabindex="0">', 1)


def _name_headings(tokens: Sequence[Token], taken: dict[str, int]) -> Iterator[Heading]:
    """Give each heading its anchor; also set what tables and blocks of code need on the page.

    `taken` counts the anchors of the document's headings before these.
    """
    for token, content in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and content is not None:
            text = "".join(part.content for part in content.children or [])
            anchor = make_anchor(text, taken)
            token.attrSet("id", anchor)
            yield Heading(int(token.tag[1:]), text, anchor)
        elif token.type in ("td_open", "th_open") and token.attrs:  # their only one: alignment
            token.attrs = {"class": "num"}


def _empty_corners(tokens: Sequence[Token]) -> None:
    """Make plain cells of headers without text, as above the names of rows: they name no column."""
    for cell, content, end in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if cell.type == "th_open" and not content.content:
            cell.tag = end.tag = "td"


def _without_title(tokens: list[Token]) -> list[Token]:
    """Return the tokens without the first heading, which stands in the page's head."""
    has_title = tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1"
    return tokens[3:] if has_title else tokens


def _lead_links(tokens: Sequence[Token], name: str) -> Iterator[Token]:
    """Lead links and pictures of a document to their addresses on the site.

    What is not on the site, as the code, is no link; its path in the repository stands behind it.
    """
    outside = ""
    for token in tokens:
        if token.type == "image":
            token.attrSet("src", lead_link(str(token.attrGet("src")), name) or "")
            token.attrSet("loading", "lazy")
        elif token.type == "link_open":
            href = str(token.attrGet("href"))
            address = lead_link(href, name)
            outside = "" if address else _find_path(href, name)
            if address:
                token.attrSet("href", address)
            else:
                token.tag, token.attrs = "span", {}
        elif token.type == "link_close" and outside:
            token.tag = "span"
            yield token
            yield Token("text", "", 0, content=f" ({outside} in Tare's repository)")
            continue
        yield token


def lead_link(href: str, name: str) -> str | None:
    """Return where a link of a document leads on the site; None where the site has no such page."""
    parts = urlsplit(href)
    if parts.scheme or parts.netloc or not parts.path:
        return href
    folder, _, path = _find_path(href, name).partition("/")
    if folder != FOLDER:
        return None
    if path in map_pictures():
        return reverse("document_picture", args=[path])
    target = _name_document(path)
    return find_address(target, parts.fragment) if target in map_files() else None


def _find_path(href: str, name: str) -> str:
    """Return the path in the repository to which a document's relative link leads."""
    inside = map_files()[name].relative_to(settings.BASE_DIR).parent.as_posix()
    return posixpath.normpath(posixpath.join(inside, unquote(urlsplit(href).path)))
