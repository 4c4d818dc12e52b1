"""Template tags for what is said on a comparison's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.urls import reverse
from django.utils.html import format_html, format_html_join, json_script
from django.utils.safestring import SafeString

from dashboard.charts.packing import pack_figure
from dashboard.charts.point_table import MOST_CELLS, PointTable, make_point_table
from dashboard.charts.style import SYMBOLS, Figure
from experiments.comparisons import Comparison, ExperimentComparison, Group
from experiments.comparisons.aa_verdicts import Meaning, explain_aa_test
from experiments.comparisons.published_tables import Column
from experiments.comparisons.step_summaries import LOSS
from experiments.models import Experiment
from experiments.statistics import Pair, numbers
from experiments.statistics.reproductions import Reproduced
from experiments.statistics.training.outcomes import TrainingComparison
from experiments.statistics.training.sentences import describe_training
from experiments.statistics.values import Stamp

register = template.Library()
MOST_CELLS_OF_PAGE = 900
"""In all tables of charts that are written on the server: about 40 kB."""


class CompactEncoder(DjangoJSONEncoder):
    """JSON without blanks between its parts: a tenth of a figure of many numbers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"separators": (",", ":")})


@register.filter
def figure_script(figure: Figure, element_id: str) -> SafeString:
    """Return a figure as JSON in a script element, packed as `charts.js` unpacks it."""
    return json_script(pack_figure(figure), element_id, encoder=CompactEncoder)


@register.simple_tag(takes_context=True)
def point_table(context: dict[str, Any], figure: Figure) -> PointTable | None:
    """Return the table of a chart; None where it is too large for the page, or others were."""
    request = context.get("request")
    written = getattr(request, "written_cells", 0)
    table = make_point_table(figure, min(MOST_CELLS, MOST_CELLS_OF_PAGE - written))
    if table and request:
        request.written_cells = written + table.count
    return table


@register.simple_tag
def steps_address(experiment: Experiment, group: Group, comparison: Comparison) -> str:
    """Return the address of the page on the steps inside a group's runs, with its number."""
    where = {"workload": group.configuration["workload"], "scale": group.configuration["scale"]}
    for number, each in enumerate(comparison.groups, start=1):
        if each.configuration == group.configuration:
            where["configuration"] = str(number)
            break
    address = reverse("comparison_steps", args=[experiment.pk])
    return f"{address}?{urlencode(where, quote_via=quote)}"


@register.simple_tag
def configuration_address(page: str, number: int) -> str:
    """Return the address of the verdicts of one configuration in words, on a comparison's page."""
    return f"{page}?section=verdicts&configuration={number}"


@register.simple_tag
def live_address(page: str, shown: str) -> str:
    """Return the address of the live part of a comparison's page, with what it shows already."""
    return f"{page}?{urlencode({'part': 'live', 'shown': shown})}"


@register.filter
def verdict_css(verdict: Any) -> str:
    """Return the class of a cell of the matrix, which tints it: "is-slower"."""
    return f"is-{str(verdict).lower().replace(' ', '-')}"


@register.filter
def symbol_index(mark: int) -> int:
    """Return the index of a symbol and colour: environments beyond the last one begin anew."""
    return mark % len(SYMBOLS)


@register.filter
def ratio_parts(pair: Pair) -> SafeString:
    """Return the ratio, which stands out, and its interval."""
    value, _, interval = numbers.ratio(pair.ratio, pair.ci_difference).partition(" ")
    return format_html('<strong>{}</strong> <span class="muted">{}</span>', value, interval)


@register.filter
def ratio_of_ratios(judged: Reproduced) -> str:
    """Return the ratio of both studies' ratios with its 90 % interval."""
    return numbers.ratio(judged.ratio, judged.ci90)


@register.filter
def trained(trainings: Sequence[TrainingComparison]) -> SafeString:
    """Return how an environment trained, in sentences; what is amiss stands out.

    What is said of losses is the rest of a sentence that the environment's name begins.
    """
    return format_html_join(
        " ",
        "{}",
        (
            [format_html("<strong>{}</strong>", sentence) if training.is_amiss else sentence]
            for training in trainings
            for sentence in [_sentence(training)]
        ),
    )


@register.filter
def in_all(configurations: int) -> str:
    """Return in how many configurations something holds that holds in all: "both", "all 3"."""
    return "both" if configurations == 2 else f"all {configurations}"


@register.filter
def aa_meaning(comparison: Comparison) -> Meaning | None:
    """Return what an A/A test says about its machine; None of any other comparison."""
    return explain_aa_test(comparison) if isinstance(comparison, ExperimentComparison) else None


@register.filter
def cell_css(column: Column, place: int) -> str:
    """Return the classes of a cell in the preview of a published table."""
    classes = ["number"]
    if column.role == "ignore":
        classes.append("muted")
    if column.amiss[place]:
        classes.append("amiss")
    return " ".join(classes)


@register.filter
def tallied(stamps: Mapping[Stamp, int]) -> str:
    """Return each stamp with how many verdicts bear it."""
    return " · ".join(f"{stamp.label}: {count}" for stamp, count in stamps.items())


def _sentence(training: TrainingComparison) -> str:
    sentence = describe_training(training)
    return sentence if training.what == LOSS else sentence[0].upper() + sentence[1:]
