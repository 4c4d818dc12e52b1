"""What the page Across experiments shows, as rows for CSV, as JSON and as a LaTeX table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dashboard.comparisons.latex import document, escape
from dashboard.comparisons.studies import Studies, StudyRow
from dashboard.comparisons.study_facts import StudyFacts
from experiments.comparisons import make_comparison_row
from experiments.statistics import numbers

SUMMARY = "summary"


def list_study_rows(studies: Studies) -> list[dict[str, Any]]:
    """Return a row for each study and configuration with all its numbers, and the summary's last.

    A study that shows nothing has a row that says why.
    """
    rows = [line for row in studies.rows for line in _list_lines(row)]
    return [*rows, {"study": SUMMARY, **describe_summary(studies)}]


def describe_summary(studies: Studies) -> dict[str, Any]:
    """Return the numbers of the summary, or why there is none."""
    summary = studies.summary
    ends = {
        f"summary_{name}_{end}": value
        for name, interval in (("ci", summary.interval), ("prediction", summary.prediction))
        for end, value in zip(("low", "high"), interval or (None, None), strict=True)
    }
    return {
        "summary_of": studies.name,
        "summary_studies": summary.configurations,
        "summary_ratio": summary.ratio,
        "summary_level": summary.level,
        **ends,
        "summary_tau": summary.tau,
        "summary_p_same_ratio": summary.p_same_ratio,
        "summary_sentence": summary.sentence,
    }


def describe_page(studies: Studies, facts: StudyFacts) -> dict[str, Any]:
    """Return all that the page shows, for a JSON file."""
    return {
        "studies": [
            {
                "study": row.number,
                "key": row.key,
                "question": row.name,
                "place": row.place,
                "container": row.environment,
                "baseline": row.baseline,
                "margin": row.margin_text or None,
                "why_not_shown": row.reason,
                "note": row.note,
            }
            for row in studies.rows
        ],
        "notes": studies.notes,
        "differences": [
            {
                "fact": fact.name,
                "values": [{"value": value, "studies": holders} for value, holders in fact.values],
            }
            for fact in facts.differing
        ],
        "comparison": [line for row in studies.shown for line in _list_lines(row)],
        "summary": describe_summary(studies),
        "remarks": studies.remarks,
    }


def write_latex(studies: Studies) -> str:
    """Return the studies with their verdicts, and the summary, as a table for a paper."""
    body = [
        " & ".join(
            map(
                escape,
                (
                    str(row.number),
                    row.name,
                    each.name,
                    f"{row.environment} / {row.baseline}",
                    row.margin_text or numbers.MISSING,
                    numbers.ratio(each.pair.ratio, each.pair.ci95),
                    each.pair.size_on_nodes,
                    str(each.pair.verdict),
                ),
            )
        )
        for row in studies.shown
        for each in row.chosen
    ]
    heads = ("", "Experiment", "Configuration", "Environment", "Margin", "Ratio [95 % CI]")
    return document(
        [
            [
                r"\begin{table*}",
                r"  \centering",
                rf"  \caption{{{escape(f'{studies.name} across experiments')}}}",
                r"  \label{tab:tare-studies}",
                r"  \footnotesize",
                r"  \begin{tabular}{rlllrrrl}",
                r"    \toprule",
                f"    {' & '.join(map(escape, (*heads, 'Data', 'Verdict')))} \\\\",
                r"    \midrule",
                *(rf"    {line} \\" for line in body),
                r"    \bottomrule",
                r"  \end{tabular}",
                *(
                    rf"  \par\raggedright {escape(sentence)}"
                    for sentence in (studies.summary.sentence, *studies.remarks)
                ),
                r"\end{table*}",
            ]
        ]
    )


def _list_lines(row: StudyRow) -> Iterator[dict[str, Any]]:
    first = {"study": row.number, "key": row.key}
    if not row.chosen or row.comparison is None:
        yield {**first, "question": row.name, "why_not_shown": row.reason}
        return
    for each in row.chosen:
        yield first | make_comparison_row(row.comparison, each.number, each.group, each.pair)
