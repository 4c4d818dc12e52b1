"""The site that `make docs` builds: of the same documents, strict, asking nobody for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from dashboard.docs.contents import list_groups
from dashboard.docs.documents import START, map_files, read_document
from tests.source_tree import BASE

DOCS = BASE / "docs"


def build(docs: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a folder of documents as `make docs` does."""
    (line,) = re.findall(
        r"^\t@\.venv/bin/(sphinx-build .+)$", (BASE / "Makefile").read_text(), re.M
    )
    *options, source, target = line.split()[1:]
    assert (source, target) == ("docs", "var/docs")
    places = {"docs/site": docs / "site", "var/docs-cache": folder / "cache"}
    words = [str(places.get(option, option)) for option in options]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *words, docs, folder / "site"],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    done = build(DOCS, folder)
    assert "No module named sphinx" not in done.stderr, "make docs installs Sphinx"
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


def find_page(site: Path, name: str) -> Path:
    return site / (f"{name}/README.html" if name == "decisions" else f"{name}.html")


def read_page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(), "html.parser")


def test_it_has_every_document_with_the_anchors_of_tare_s_pages(site: Path) -> None:
    for name in map_files():
        ids = {str(tag["id"]) for tag in read_page(find_page(site, name)).find_all(id=True)}
        missing = {heading.anchor for heading in read_document(name).headings} - ids
        assert missing == set(), name


def test_its_table_of_contents_is_that_of_tare_s_pages(site: Path) -> None:
    tree = read_page(site / f"{START}.html").select_one(".sidebar-tree")
    assert tree
    captions = [tag.get_text() for tag in tree.select(".caption-text")]
    assert captions == [title for title, _ in list_groups()]
    links = [str(link["href"]) for link in tree.select("li.toctree-l1 > a")]
    pages = [find_page(Path(), line.name) for _, lines in list_groups() for line in lines]
    assert links == [str(page) for page in pages]


def test_nothing_is_fetched_from_another_site(site: Path) -> None:
    for path in site.rglob("*.html"):
        for tag in read_page(path).select("script, link, img, iframe, source, form"):
            for name in ("src", "href", "action"):
                assert "//" not in str(tag.get(name, "")), (path.name, str(tag))
    for path in (site / "_static").rglob("*.css"):
        places = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text())
        assert [place for place in places if re.match(r"(https?:)?//", place)] == [], path.name


def test_each_link_inside_leads_to_a_file_and_an_anchor(site: Path) -> None:
    anchors = {
        path: {str(tag["id"]) for tag in read_page(path).find_all(id=True)}
        for path in site.rglob("*.html")
    }
    for path in anchors:
        for link in read_page(path).select("article a[href]"):
            page, _, anchor = str(link["href"]).partition("#")
            if "://" in page:
                continue
            target = (path.parent / page).resolve() if page else path
            assert target.exists(), (path.name, page)
            assert not anchor or anchor in anchors[target], (path.name, str(link["href"]))


@pytest.mark.parametrize(
    "link", ["[a](no-such-document.md)", "[a](words.md#no-such-term)", "![a](no-such.png)"]
)
def test_a_link_that_leads_nowhere_ends_the_build(link: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copytree(DOCS / "site", docs / "site")
    shutil.copytree(BASE / "static", tmp_path / "static")
    (docs / "contents.toml").write_text('[[group]]\ntitle = "A"\n[group.documents]\nwords = ""\n')
    (docs / "words.md").write_text("# Words\n\n## Term\n\nOne.\n")
    (docs / "index.md").write_text("# Start\n\n[a](words.md#term)\n")
    assert build(docs, tmp_path).returncode == 0
    (docs / "index.md").write_text(f"# Start\n\n{link}\n")
    done = build(docs, tmp_path)
    assert done.returncode
    assert "index.md:3: WARNING" in done.stderr
