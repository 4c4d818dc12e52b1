"""Template filters that write numbers in one way on all pages."""

from __future__ import annotations

import math

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from experiments.comparisons import Comparison
from experiments.comparisons.accuracies import Spread
from experiments.comparisons.workload_pairs import WorkloadPair
from experiments.models import Experiment, Job, Operation, Run
from experiments.planning.decisive_metrics import describe_further
from experiments.planning.goals import describe_training_margins, get_margins
from experiments.statistics import Pair, PointsPair, numbers
from experiments.statistics.across_configurations import Everywhere
from experiments.statistics.claims import choose_wording, describe_margin
from experiments.statistics.robust import Companion
from experiments.statistics.step_spread import Ratio
from experiments.statistics.values import Interval

register = template.Library()
NO_BREAK = "\N{NO-BREAK SPACE}"

register.filter("factor", numbers.factor)
register.filter("duration", numbers.duration)


@register.filter
def thousands(count: int) -> str:
    """Write a count with a comma after each thousand, as in 20,000."""
    return f"{count:,}"


@register.filter
def gpu_hours(hours: float) -> str:
    """Write GPU-hours that something takes at most, as in "at most 1.5 GPU-hours"."""
    return f"at most {max(hours, 0.1):.1f} GPU-hours" if hours else "no GPU-hours"


@register.filter
def node_hours(hours: float) -> str:
    """Write node-hours that something takes at most, as in "at most 1.5 node-hours"."""
    return f"at most {max(hours, 0.1):.1f} node-hours"


@register.filter
def p(value: float | None) -> str:
    """Return a p value, in which no line breaks between "<" and the number."""
    return numbers.p_value(value).replace(" ", NO_BREAK)


@register.filter
def unbroken(text: str) -> str:
    """Return a text in which no line breaks between a number and its "%"."""
    return text.replace(" %", f"{NO_BREAK}%")


@register.filter
def percent(fraction: float | None) -> str:
    """Return a fraction in per cent, without a forced sign."""
    return unbroken(numbers.percent(fraction))


@register.filter
def margin(fraction: float) -> str:
    """Return a margin in per cent, as it was typed."""
    return unbroken(numbers.margin(fraction))


@register.filter
def margin_of(row: Experiment | Comparison | Pair) -> str:
    """Return the margin of an experiment or a comparison: "2 %", "2 % faster to 5 % slower"."""
    if isinstance(row, Experiment):
        return unbroken(get_margins(row).text)
    wording = choose_wording([row]) if isinstance(row, Pair) else row.wording
    return unbroken(describe_margin(row.margins, wording))


@register.filter
def margins_of_training(experiment: Experiment) -> str:
    """Return the margins of training that a plan fixes: "0.5 points of accuracy"."""
    return unbroken(describe_training_margins(experiment))


@register.filter
def further_metrics(experiment: Experiment) -> str:
    """Return the further decisive metrics of an experiment, with margins and rule."""
    return unbroken(describe_further(experiment))


@register.filter
def provable(fraction: float | None) -> str:
    """Return a provable margin in per cent, rounded up."""
    return unbroken(numbers.provable(fraction))


@register.filter
def level(share: float) -> str:
    """Return the level of an interval in per cent."""
    return unbroken(numbers.level(share))


@register.filter
def quantity(value: float | None, unit: str) -> str:
    """Return a number with its unit and an SI prefix of its own."""
    return numbers.quantity(value, "" if unit == "1" else unit)


@register.filter
def seconds_beside(value: float | None, column: list[float]) -> str:
    """Return seconds in the unit of their whole column."""
    return numbers.beside(value, column, "s")


@register.filter
def mean_beside(value: float, pair: WorkloadPair) -> str:
    """Return a mean in the unit, and with the digits, of all means of the two workloads."""
    return numbers.beside(value, pair.means, pair.metric.unit)


@register.filter
def minutes(value: int) -> str:
    """Return a limit that is stored in minutes."""
    return numbers.time_limit(value)


@register.filter
def ratio(pair: Pair | Everywhere) -> str:
    """Return the ratio with the interval that decides about a difference."""
    return numbers.ratio(pair.ratio, pair.ci_difference)


@register.filter
def ratio_alone(value: float | None) -> str:
    """Return a ratio without its interval."""
    return numbers.ratio(value)


@register.filter
def cost_of(pair: Pair | Everywhere) -> str:
    """Return the cost in per cent, with the digits of the ratio."""
    return unbroken(numbers.change(pair.cost, pair.ci_difference))


@register.filter
def equivalence_interval(pair: Pair | Everywhere) -> str:
    """Return the interval that decides about equivalence, without the ratio."""
    return numbers.ratio(pair.ratio, pair.ci_equivalence).partition(" ")[2]


@register.filter
def standard_error(pair: Pair | Everywhere) -> str:
    """Return the standard error of ln(ratio) with its degrees of freedom."""
    return numbers.standard_error(pair.log_se, pair.df)


@register.filter
def p_of_bounds(pair: Pair) -> str:
    """Return the p of the two one-sided tests; a line breaks between them and nowhere else."""
    text = numbers.p_of_bounds(pair.p_lower_bound, pair.p_upper_bound)
    return text.replace(" ", NO_BREAK).replace(f",{NO_BREAK}", ", ")


@register.filter
def estimate(ratio: Ratio | None) -> SafeString:
    """Return a ratio with its interval, or why it has none; no verdict rests on it."""
    if ratio is None:
        return SafeString(numbers.MISSING)
    if not ratio.is_determined:
        return format_html(
            'not determined<br><small class="muted">{}: more runs are needed</small>', ratio.text
        )
    if not ratio.flaw:
        return SafeString(ratio.text)
    return format_html('{}<br><small class="muted">no interval: {}</small>', ratio.text, ratio.flaw)


@register.filter
def component(fraction: float | None, interval: Interval | None) -> str:
    """Return a component of variance in per cent with its interval: "0.31 % [0.1, 0.8]"."""
    return unbroken(numbers.percent_between(fraction, interval))


@register.filter
def companion_ratio(companion: Companion) -> str:
    """Return the ratio with its interval; of a bootstrap only the interval."""
    if companion.interval is None:
        return numbers.ratio(companion.ratio)
    if companion.decimals is not None:
        low, high = (numbers.fixed(end, companion.decimals) for end in companion.interval)
        return f"[{low}, {high}]"
    ratio_text = numbers.ratio(companion.ratio or 1.0, companion.interval)
    return ratio_text if companion.ratio is not None else ratio_text.partition(" ")[2]


@register.filter
def size(value: int | None) -> str:
    """Return a number of bytes with its SI prefix; of less than a kilobyte all of them."""
    if value is not None and abs(value) < 1000:
        return f"{value} B"
    return numbers.quantity(None if value is None else float(value), "B", significant=3)


@register.filter
def baseline_spread(pair: Pair) -> SafeString:
    """Return the baseline's mean and standard deviation."""
    return _spread(pair.baseline_mean, pair.baseline_sd, pair.n_baseline, pair.unit)


@register.filter
def environment_spread(pair: Pair) -> SafeString:
    """Return the environment's mean and standard deviation."""
    return _spread(pair.environment_mean, pair.environment_sd, pair.n_environment, pair.unit)


@register.filter
def share(spread: Spread) -> SafeString:
    """Return accuracies, which are stored in points, in per cent."""
    return _spread(spread.mean, spread.sd, spread.n, "%")


@register.filter
def seconds(spread: Spread) -> SafeString:
    """Return a mean and standard deviation in seconds."""
    return _spread(spread.mean, spread.sd, spread.n, "s")


@register.filter
def difference(pair: PointsPair) -> str:
    """Return the difference in points with its 95 % interval."""
    if pair.difference is None:
        return numbers.MISSING
    value = numbers.signed(pair.difference)
    if pair.ci95 is None:
        return value
    low, high = map(numbers.signed, pair.ci95)
    return f"{value} [{low}, {high}]"


@register.filter
def points(margin: float | None) -> str:
    """Return a margin in points, rounded up so that the printed margin is proved."""
    return numbers.MISSING if margin is None else numbers.fixed(math.ceil(100 * margin) / 100, 2)


def _spread(mean: float | None, sd: float | None, n: int, unit: str) -> SafeString:
    """Return mean and standard deviation, with the kind of spread and n on a line below."""
    text = numbers.spread(mean, sd, n, "" if unit == "1" else unit)
    value, bracket, rest = unbroken(text).partition(" (")
    return format_html('{}<br><small class="muted">{}</small>', value, bracket[1:] + rest)


@register.filter
def took(row: Job | Run | Operation) -> str:
    """Return how long a job, a run or an operation took, by its own clock."""
    began = row.began_at if isinstance(row, Run) else row.started_at
    if began is None or row.ended_at is None:
        return numbers.MISSING
    return numbers.duration((row.ended_at - began).total_seconds())
