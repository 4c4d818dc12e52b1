"""A comparison as LaTeX: a booktabs table and the paragraphs on methods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from experiments.comparisons import Comparison, Group
from experiments.statistics import Measured, Pair, Stamp, numbers
from experiments.statistics.across_configurations import Everywhere
from experiments.statistics.several_metrics import describe_obstacles
from experiments.statistics.verdict_sentences import describe_analysis

SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        # LaTeX reads these at the beginning of a row as an option of the line break before it.
        "[": "{[}",
        "]": "{]}",
        "*": "{*}",
        "−": r"\ensuremath{-}",
        "±": r"\ensuremath{\pm}",
        "µ": r"\ensuremath{\mu}",
        **{character: f"\\{character}" for character in "{}$&#%_"},
    }
)
COLUMNS = 11


def list_headings(comparison: Comparison) -> tuple[str, ...]:
    """Return the column headings of the LaTeX table."""
    wide, narrow = comparison.levels
    return (
        "Environment",
        "Data",
        "Mean ± SD",
        f"Ratio [{wide} CI]",
        f"{narrow} CI",
        "SE of ln ratio",
        "p, difference",
        f"p, {comparison.goal_text}",
        "p of each bound",
        f"Smallest margin for {comparison.goal_text}",
        "Verdict",
    )


def escape(text: str) -> str:
    """Return the text on one line, every character as itself; control characters are dropped."""
    visible = "".join(c for c in text if c.isprintable() or c.isspace())
    one_line = " ".join(visible.split())
    # Two hyphens would become a dash.
    return re.sub("-(?=-)", "-{}", one_line.translate(SPECIAL))


def document(parts: Sequence[list[str]]) -> str:
    """Return parts, each a list of lines, as a text to be put into a paper."""
    needed = r"% Needs \usepackage[T1]{fontenc} and \usepackage{booktabs}; LaTeX of 2020 or later."
    return "\n".join([needed, "\n\n".join("\n".join(part) for part in parts), ""])


def results_table(comparison: Comparison) -> list[str]:
    """Return the lines of a table of all results, with the reasons of stamps below it."""
    notes: list[str] = []
    body = [
        line
        for groups in zip(*comparison.by_metric, strict=True)
        for group in groups
        for line in _group(group, notes)
    ]
    body += [*_together(comparison), *_everywhere(comparison)]
    return [
        r"\begin{table*}",
        r"  \centering",
        rf"  \caption{{{escape(comparison.question)}}}",
        rf"  \label{{tab:tare-{comparison.key}}}",
        r"  \footnotesize",
        r"  \setlength{\tabcolsep}{4pt}",
        r"  \begin{tabular}{llrrrrrrrrl}",
        r"    \toprule",
        f"    {_row(list_headings(comparison))}",
        *body,
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\raggedright\textsuperscript{{{i}}}~{n}" for i, n in enumerate(notes, 1)),
        r"\end{table*}",
    ]


def paragraphs(title: str, sentences: Sequence[str]) -> list[str]:
    """Return the lines of paragraphs under one title."""
    return [rf"\paragraph{{{title}}}", "\n\n".join(map(escape, sentences))]


def _group(group: Group, notes: list[str]) -> Iterator[str]:
    """Yield the lines of one workload and scale; adds the reasons of stamps to `notes`."""
    title = ": ".join(filter(None, (group.name, group.metric.label.lower())))
    if group.problem:
        title += f". {group.problem}"
    yield r"    \midrule"
    yield rf"    \multicolumn{{{COLUMNS}}}{{l}}{{\emph{{{escape(title)}}}}} \\"
    means = [mean for pair in group.pairs for mean in (pair.baseline_mean, pair.environment_mean)]
    prefix = numbers.si(means, group.metric.unit)
    above = None
    for pair in group.pairs:
        # Pairs that lack different blocks do not share their baseline's numbers.
        baseline = (
            f"{pair.baseline} (baseline)",
            "",
            _spread(pair.baseline_mean, pair.baseline_sd, group.metric, prefix),
        )
        if baseline != above:
            yield f"    {_row((*baseline, *[''] * (COLUMNS - len(baseline))))}"
        above = baseline
        mark = ""
        stamps = zip(pair.stamps, pair.reasons, strict=True)
        reservations = [f"{stamp.label}: {reason}" for stamp, reason in stamps]
        if pair.interim_analysis:
            reservations = [
                *filter(
                    None,
                    (describe_analysis(pair, pair.interim_analysis), pair.interim_analysis.later),
                ),
                *reservations,
            ]
        if reservations:
            notes.append(escape(" ".join(reservations)))
            mark = rf"\textsuperscript{{{len(notes)}}}"
        yield f"    {_row(_cells(pair, group.metric, prefix), mark)}"


def _together(comparison: Comparison) -> Iterator[str]:
    """Yield the lines on several decisive metrics together: the p is the largest of theirs."""
    if not comparison.decisive:
        return
    goal_text = next(iter(comparison.decisive.values())).goal_text
    title = f"All decisive metrics together: p, {goal_text} is the largest"
    yield r"    \midrule"
    yield rf"    \multicolumn{{{COLUMNS}}}{{l}}{{\emph{{{escape(title)}}}}} \\"
    for (number, _), overall in comparison.decisive.items():
        obstacles = describe_obstacles(overall.parts)
        lost = f", {Stamp.NOT_AFTER_HOLM.label}" if overall.is_lost_by_holm else ""
        before = f" {overall.sentence_before}" if overall.before else ""
        cells = (
            overall.environment,
            comparison.groups[number - 1].name,
            *[""] * 5,
            _p(overall.p, overall.p_holm),
            "",
            "",
            f"{overall.verdict}{lost}{obstacles and f': {obstacles}'}{before}",
        )
        yield f"    {_row(cells)}"


def _everywhere(comparison: Comparison) -> Iterator[str]:
    """Yield the lines on all groups together."""
    if not comparison.everywhere:
        return
    which = ", primary metric" if comparison.decisive else ""
    title = (
        f"All configurations{which}: the geometric mean of the ratios, where they do not differ; "
        f"p, {comparison.goal_text} is that of the mean, and in brackets the largest of all"
    )
    yield r"    \midrule"
    yield rf"    \multicolumn{{{COLUMNS}}}{{l}}{{\emph{{{escape(title)}}}}} \\"
    for summary in comparison.everywhere:
        cells = (
            summary.environment,
            numbers.count(summary.configurations, "configuration"),
            "",
            _common_ratio(summary),
            numbers.ratio(summary.geometric_mean_ratio, summary.ci_equivalence).partition(" ")[2],
            numbers.standard_error(summary.log_se, summary.df),
            numbers.p_value(summary.p_difference),
            _p(summary.p_goal, summary.largest_p_goal),
            "",
            "",
            f"{summary.shown} in all" if summary.is_shown_in_all else "not shown in all",
        )
        yield f"    {_row(cells)}"


def _common_ratio(summary: Everywhere) -> str:
    if summary.ratios_differ:
        return f"{numbers.ratio(summary.smallest_ratio)} to {numbers.ratio(summary.largest_ratio)}"
    return numbers.ratio(summary.geometric_mean_ratio, summary.ci_difference)


def _cells(pair: Pair, metric: Measured, prefix: tuple[float, str]) -> tuple[str, ...]:
    return (
        pair.environment,
        pair.size_on_nodes,
        _spread(pair.environment_mean, pair.environment_sd, metric, prefix),
        numbers.ratio(pair.ratio, pair.ci_difference),
        numbers.ratio(pair.ratio, pair.ci_equivalence).partition(" ")[2],
        numbers.standard_error(pair.log_se, pair.df),
        _p(pair.p_difference, pair.p_difference_holm),
        _p(pair.p_goal, pair.p_goal_holm),
        numbers.p_of_bounds(pair.p_lower_bound, pair.p_upper_bound),
        numbers.provable(pair.smallest_margin),
        str(pair.verdict),
    )


def _row(cells: tuple[str, ...], mark: str = "") -> str:
    return " & ".join(map(escape, cells)) + mark + r" \\"


def _spread(
    mean: float | None, sd: float | None, metric: Measured, prefix: tuple[float, str]
) -> str:
    unit = "" if metric.unit == "1" else metric.unit
    return numbers.spread(mean, sd, 0, unit, prefix=prefix).partition(" (")[0]


def _p(p: float | None, holm: float | None) -> str:
    text = numbers.p_value(p)
    return text if holm is None else f"{text} ({numbers.p_value(holm)})"
