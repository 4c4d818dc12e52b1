"""What can be exported of an experiment or a published table, in the groups of its menu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from dashboard.comparisons.figure_kinds import PrintedFigure
from dashboard.comparisons.forest_figure import ENDINGS
from experiments.definitions.described_experiments import can_be_written
from experiments.models import Experiment, PublishedTable

FORMATS = {
    "csv": "CSV",
    "yaml": "YAML",
    "json": "JSON",
    "parquet": "Parquet",
    "tex": "LaTeX",
    "pdf": "PDF",
    "svg": "SVG",
    "png": "PNG",
    "zip": "ZIP",
    "bib": "BibTeX",
    "cff": "CFF",
}


@dataclass(frozen=True)
class Files:
    """One kind of data, and the names of the views that send it, by format."""

    label: str
    about: str
    """What the files hold, in one plain line."""
    views: Mapping[str, str]
    needs_results: bool = False
    """Whether there are such files only where runs have succeeded."""
    needs_end: bool = False
    """Whether there are such files only when all runs have ended, and names may be known."""
    needs_plan: bool = False
    """Whether there are such files only of a plan that was made here, for people who log in."""
    needs_authors: bool = False
    """Whether there are such files only where authors are stated, and names may be known."""


@dataclass(frozen=True)
class Export:
    """A line of the menu."""

    label: str
    about: str
    links: list[tuple[str, str]]
    """The label of each format with its address."""
    is_print: bool = False
    """Whether a button that prints the page stands beside the links."""


@dataclass(frozen=True)
class ExportGroup:
    """Lines of the menu that belong together."""

    heading: str
    exports: list[Export]


def _name_views(prefix: str, *endings: str) -> dict[str, str]:
    return {ending: f"{prefix}_{ending}" for ending in endings}


RESULTS = "ratios, intervals, p values and verdicts; LaTeX with the methods"
FOREST = "two columns, 180 mm; other widths and greys at the figure itself"
PAGES = "all pages; single ones and other widths at the figure itself"
REPORT = "one file that stands alone: verdicts, figure, results, methods, environments"
BENCHER = "mean and range of each metric, for tracking by Bencher"
TIMES = "a round for each run, of metrics in seconds"
BUNDLE = "plan, runs, results and methods in one file, with a program that checks it"
CITATION = "authors, title, licence and DOI"
PROVENANCE = "where each number comes from (W3C PROV)"
CHECKLIST = "what an artefact evaluation asks, by ACM’s badges"
SECTIONS = "the whole comparison on paper, or the page as it is"
FIGURES_HEADING = "Figures"
OF_ONE = "one configuration; others in its section"
OF_ALL = "all configurations; single ones in their sections"
PUBLICATION_HEADING = "Publication"
DEFINITION_FILES = Files(
    "Experiment file",
    "the plan as a file, to be kept, changed and imported",
    _name_views("definition", "yaml", "json"),
    needs_plan=True,
)
OF_EXPERIMENTS: Mapping[str, Sequence[Files]] = {
    "Results": (
        Files(
            "Comparison", RESULTS, _name_views("comparison", "csv", "json", "parquet", "tex"), True
        ),
    ),
    FIGURES_HEADING: (
        Files("Forest plot", FOREST, _name_views("forest", "pdf", "svg", "png"), True),
    ),
    "Data": (
        Files("Runs", "a row for each run", _name_views("runs", "csv", "json", "parquet")),
        Files(
            "Measurements",
            "a row for each metric of each run",
            _name_views("measurements", "csv", "parquet"),
        ),
        Files("Steps", "a row for each recorded step", _name_views("series", "csv", "parquet")),
        Files("Bencher", BENCHER, {"json": "bencher_json"}, needs_results=True),
        Files("pytest-benchmark", TIMES, {"json": "pytest_benchmark_json"}, needs_results=True),
        DEFINITION_FILES,
        Files("Bundle", BUNDLE, _name_views("bundle", "zip"), True, True),
    ),
    PUBLICATION_HEADING: (
        Files("Cite", CITATION, _name_views("citation", "bib", "cff"), needs_authors=True),
    ),
}
OF_TABLES: Mapping[str, Sequence[Files]] = {
    "Results": (
        Files("Comparison", RESULTS, _name_views("table", "csv", "json", "parquet", "tex"), True),
    ),
    FIGURES_HEADING: (
        Files("Forest plot", FOREST, _name_views("table_forest", "pdf", "svg", "png"), True),
    ),
    "Data": (Files("The table as given", "its text", {"csv": "table_text"}),),
}


def list_exports(
    subject: Experiment | PublishedTable,
    *,
    has_results: bool,
    pages: int,
    figures: Sequence[PrintedFigure] = (),
    configurations: int = 1,
    has_bundle: bool = False,
    has_authors: bool = False,
    has_plan: bool = False,
) -> list[ExportGroup]:
    """Return what there is to export, in groups.

    `pages` says how many pages the forest plot has, 0 if there is none; one of several is whole in
    a PDF only. `figures` are the others; of several configurations they may have several pages.
    `has_bundle` says whether the reader may have a bundle now (`bundle_views.is_offered`), and
    `has_authors` whether they may know authors that are stated (`bundle_views.has_authors`), and
    `has_plan` whether they may have its file.
    """
    is_experiment = isinstance(subject, Experiment)
    groups: list[ExportGroup] = []
    if has_results:
        page = reverse("comparison" if is_experiment else "table", args=[subject.pk])
        file = reverse("report" if is_experiment else "table_report", args=[subject.pk])
        report = Export("Report", REPORT, [("HTML", f"{file}?download"), ("Open", file)])
        to_print = Export(
            "Print", SECTIONS, [("All sections", f"{page}?section=all")], is_print=True
        )
        groups.append(ExportGroup("Report", [report, to_print]))
    for heading, files in (OF_EXPERIMENTS if is_experiment else OF_TABLES).items():
        exports = []
        for kind in files:
            views, about = kind.views, kind.about
            if (kind.needs_results and not has_results) or (kind.needs_end and not has_bundle):
                continue
            if (kind.needs_authors and not has_authors) or (kind.needs_plan and not has_plan):
                continue
            if heading == FIGURES_HEADING and not pages:
                continue
            if heading == FIGURES_HEADING and pages > 1:
                views, about = {"pdf": views["pdf"]}, PAGES
            links = [
                (FORMATS[ending], reverse(view, args=[subject.pk]))
                for ending, view in views.items()
            ]
            exports.append(Export(kind.label, about, links))
        if heading == FIGURES_HEADING:
            exports += _list_figures(subject, figures, configurations)
        if heading == PUBLICATION_HEADING and has_results:
            exports += _list_review_files(subject.pk)
        if exports:
            has_pages = heading == FIGURES_HEADING and configurations > 1
            title = f"{heading}: {OF_ALL}" if has_pages else heading
            groups.append(ExportGroup(title, exports))
    return groups


def list_draft_exports(pk: int) -> list[ExportGroup]:
    """Return what there is to export of a draft: its file."""
    links = [
        (FORMATS[ending], reverse(view, args=[pk]))
        for ending, view in DEFINITION_FILES.views.items()
    ]
    export = Export(DEFINITION_FILES.label, DEFINITION_FILES.about, links)
    return [ExportGroup("Data", [export])]


def has_plan(user: Any, subject: Experiment | PublishedTable) -> bool:
    """Return whether this reader may have the file of what was planned: people who log in may."""
    return user.is_authenticated and isinstance(subject, Experiment) and can_be_written(subject)


def _list_review_files(pk: int) -> list[Export]:
    """Return the lines of what a review asks for: pages with files of their own."""
    graph = [
        ("Graph", reverse("provenance", args=[pk])),
        ("JSON-LD", reverse("provenance_file", args=[pk])),
    ]
    checklist = [
        ("Page", reverse("checklist", args=[pk])),
        ("Markdown", reverse("checklist_file", args=[pk])),
    ]
    return [Export("Provenance", PROVENANCE, graph), Export("Checklist", CHECKLIST, checklist)]


def _list_figures(
    subject: Experiment | PublishedTable, figures: Sequence[PrintedFigure], configurations: int
) -> list[Export]:
    """Return the lines of all figures but the forest plot; what may have pages is a PDF."""
    prefix = "" if isinstance(subject, Experiment) else "table_"
    exports = []
    for kind in figures:
        has_pages = configurations > 1 and not kind.is_of_one
        about = "" if has_pages else (OF_ONE if configurations > 1 else "two columns, 180 mm")
        links = [
            (
                FORMATS[ending],
                reverse(f"{prefix}figure_{ending}", args=[subject.pk, kind.name]),
            )
            for ending in (ENDINGS[:1] if has_pages else ENDINGS)
        ]
        exports.append(Export(kind.label, about, links))
    return exports
