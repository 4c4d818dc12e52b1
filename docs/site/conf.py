"""How Sphinx makes a site of its own from the documents: `make docs`.

The same Markdown files are pages of Tare. So nothing in them is written for Sphinx: the table of
contents comes from `contents.toml`, and links to files outside of `docs/` become text.
"""

from __future__ import annotations

import posixpath
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

DOCS = Path(__file__).resolve().parents[1]
REPOSITORY = DOCS.parent
DECISIONS = "decisions/README"


def read_groups() -> dict[str, list[str]]:
    """Return the documents of each group; those that the table does not name come last."""
    table = tomllib.loads((DOCS / "contents.toml").read_text(encoding="utf-8"))["group"]
    groups = {group["title"]: list(group["documents"]) for group in table}
    listed = {"index", *(name for group in groups.values() for name in group)}
    names = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    further = {name for name in names - listed if not name.startswith("decisions/")}
    return {**groups, **({"Further": sorted(further)} if further else {})}


project = "Tare"
author = "Tare's authors"
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["site"]
nitpicky = True  # with -W, a link that leads nowhere ends the build
myst_heading_anchors = 6  # the anchors that Tare's pages and hosts of Markdown have
keep_warnings = True

html_theme = "furo"
html_title = "Tare"
html_static_path = ["static"]
html_css_files = ["tare.css"]
html_favicon = "../../static/mark.svg"
html_show_sphinx = False
html_show_copyright = False
html_show_sourcelink = False
html_use_index = False
html_copy_source = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#4046b8",
        "color-brand-content": "#4046b8",
        "color-brand-visited": "#4046b8",
        "color-background-primary": "#fdfdfc",
        "color-background-secondary": "#f5f5f2",
        "color-background-border": "#e1e1dc",
        "color-foreground-primary": "#1a1d21",
        "color-foreground-secondary": "#5a626b",
    },
    "dark_css_variables": {
        "color-brand-primary": "#a3abff",
        "color-brand-content": "#a3abff",
        "color-brand-visited": "#a3abff",
        "color-background-primary": "#14171a",
        "color-background-secondary": "#1a1d21",
        "color-background-border": "#2b3036",
        "color-foreground-primary": "#e8eaec",
        "color-foreground-secondary": "#a0a8b0",
    },
}  # the colours of static/css/tare.css


class NameFilesOutside(SphinxTransform):
    """Make text of links to files outside of `docs/`, with their path, as Tare's pages do.

    A link to a file that the repository lacks stays, and Sphinx warns of it.
    """

    default_priority = 5  # before Sphinx copies files that can be downloaded

    def apply(self, **_: Any) -> None:
        for node in [*self.document.findall(addnodes.download_reference), *self._find_links()]:
            path = self._find_path(str(node["reftarget"]))
            if path.startswith("docs/") or not (REPOSITORY / path).exists():
                continue
            text = f"{node.astext()} ({path} in Tare's repository)"
            node.replace_self(nodes.inline("", text))

    def _find_links(self) -> list[addnodes.pending_xref]:
        links = self.document.findall(addnodes.pending_xref)
        return [node for node in links if node.get("refdomain") == "doc"]

    def _find_path(self, target: str) -> str:
        """Return the path in the repository; MyST gives documents without their ending."""
        folder = posixpath.dirname(f"docs/{self.env.docname}")
        path = posixpath.normpath(posixpath.join((REPOSITORY / folder).as_posix(), target))
        for ending in ("", ".md"):
            if Path(path + ending).is_file():
                return posixpath.relpath(path + ending, REPOSITORY.as_posix())
        return f"docs/{target}"


def add_contents(_: Sphinx, name: str, source: list[str]) -> None:
    """Add the table of contents to the first page, and the decisions to theirs."""
    if name == root_doc:
        trees = [_make_tree(title, group) for title, group in read_groups().items()]
        source[0] += "\n" + "\n".join(trees)
    elif name == DECISIONS:
        names = sorted((path.stem for path in (DOCS / "decisions").glob("[0-9]*.md")), reverse=True)
        source[0] += "\n" + _make_tree("", names)


def _make_tree(caption: str, names: list[str]) -> str:
    lines = ["```{toctree}", ":hidden:"] if caption else ["```{toctree}"]
    lines += [f":caption: {caption}"] if caption else [":maxdepth: 1"]
    return "\n".join([*lines, "", *(DECISIONS if n == "decisions" else n for n in names), "```\n"])


def help_keyboards(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _: Any
) -> None:
    """Let the keyboard scroll tables and code; give the sidebar's headings the level they lack."""
    body = context.get("body", "")
    for opening in ('<div class="table-wrapper', "<pre>"):
        tag, rest = opening[1:4], opening[4:]
        body = body.replace(opening, f'<{tag} tabindex="0"{rest}')
    context["body"] = body
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add_contents)
    app.connect("html-page-context", help_keyboards, priority=900)  # after the theme's own
    app.add_transform(NameFilesOutside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
