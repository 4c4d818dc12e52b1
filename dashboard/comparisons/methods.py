"""What was done, in words that a paper can print: the page and the LaTeX export say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from functools import singledispatch

from experiments.comparisons import Comparison, ExperimentComparison
from experiments.comparisons.published_tables import TableComparison
from experiments.models import Run
from experiments.planning.interim import Stage
from experiments.statistics import Stamp, numbers

OF_MEANS = (
    "Each value is a mean with its standard error (SE = SD/√n). The ratio is that of the means; by "
    "the delta method the variance of the logarithm of a mean is (SE/mean)², and the intervals are "
    "Student’s t intervals of the difference of logarithms with Satterthwaite’s degrees of freedom."
)
RATIOS_ONLY = (
    "Each ratio is that of the two values in the table. Without the spread over several runs there "
    "is no interval, no test and no verdict."
)
MARGIN_AFTERWARDS = "The margin was chosen when the data had been published."
ROUNDING = (
    "Every mean and every spread was moved to both ends of the range that its printed digits leave "
    "open; a verdict that does not survive this is stamped."
)
OFF_BY_ONE = (
    "Spreads that equal mean/√(n − 1), the mark of a sum over n − 1 values divided by n, were "
    "corrected together with their means: mean · n/(n − 1), and the variance accordingly."
)


NAMED = 20
"""More excluded runs than this are counted, not named; the file of runs has them all."""


@singledispatch
def methods(comparison: Comparison) -> list[str]:
    """Return paragraphs of plain text; whoever shows them escapes them."""
    raise NotImplementedError(f"{type(comparison).__name__} does not say what was done.")


@methods.register
def _(comparison: ExperimentComparison) -> list[str]:
    return [
        " ".join((_measured(comparison), _design(comparison), *_seeds(comparison))),
        *_software(comparison),
        *_warm_up(comparison),
        *_training(comparison),
        " ".join((_inference(comparison), _family(comparison))),
        " ".join((_completeness(comparison), *comparison.left_out)),
        *_repairs(comparison),
        *_exclusions(comparison),
    ]


@methods.register
def _(comparison: TableComparison) -> list[str]:
    left_out = " ".join(comparison.left_out)
    if all(pair.ci95 is None for pair in comparison.pairs):
        return [" ".join((_published(comparison), RATIOS_ONLY)), *filter(None, [left_out])]
    single = comparison.table.single_runs
    return [
        " ".join((_published(comparison), _of_runs(comparison) if single else OF_MEANS)),
        " ".join((_rule(comparison), MARGIN_AFTERWARDS, _family(comparison))),
        *filter(None, [" ".join((*_reservations(comparison), left_out)).strip()]),
    ]


def _published(comparison: TableComparison) -> str:
    source = comparison.row.source.rstrip(".")
    rows = numbers.count(len(comparison.sheet.rows), "row")
    return f"The numbers are those of a published table of {rows}{source and f': {source}'}."


def _of_runs(comparison: TableComparison) -> str:
    if comparison.paired:
        return (
            "Each value is one run, and runs of the same block are compared with each other. The "
            "ratio is the geometric mean, over blocks, of environment over baseline; its intervals "
            "are Student’s t intervals of the logarithms."
        )
    return (
        "Each value is one run. The ratio is that of geometric means; its intervals are Welch’s t "
        "intervals of the logarithms, with Satterthwaite’s degrees of freedom."
    )


def _reservations(comparison: TableComparison) -> Iterator[str]:
    """Yield what was looked for in the numbers, and what was done about it."""
    stamps = {stamp for pair in comparison.pairs for stamp in pair.stamps}
    if Stamp.ORDER_UNKNOWN in stamps:
        yield "The table does not say in which order the runs ran."
    if not comparison.table.single_runs:
        yield ROUNDING
    if Stamp.OFF_BY_ONE in stamps:
        yield OFF_BY_ONE
    if any(pair.ci95 is None for pair in comparison.pairs):
        yield "Where the spread or the number of runs is not given, there is a ratio and no more."


def _measured(comparison: ExperimentComparison) -> str:
    experiment = comparison.experiment
    where = str(experiment.cluster)
    if experiment.partition:
        where += f", partition {experiment.partition.name}"
    when = (
        f", launched {experiment.launched_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        if experiment.launched_at
        else ""
    )
    workloads: dict[str, dict[str, None]] = {}
    for group in comparison.groups:
        metric = f"{group.metric.label.lower()} ({group.metric.name})"
        workloads.setdefault(metric, {})[group.cell["workload"]] = None
    metrics = [f"{metric} of {'; '.join(names)}" for metric, names in workloads.items()]
    if experiment.imported_at:
        day = f"{experiment.imported_at.astimezone(UTC):%Y-%m-%d}"
        when = (
            f" by others; their logs were imported on {day} from {experiment.imported_from} "
            f"(sha256 {experiment.import_hash[:12]})"
        )
    return (
        f"Measured on {where}{when}. The run is the unit of all statistics; its value is the "
        f"{', the '.join(metrics)}."
    )


def _design(comparison: ExperimentComparison) -> str:
    seed = comparison.experiment.order_seed
    if comparison.experiment.is_paired:
        return (
            "Each block was one job that ran every environment once on the same node, in random "
            f"order; blocks were in random order too (seed {seed}). The ratio is the geometric "
            "mean, over blocks, of environment over baseline; its intervals are Student’s t "
            "intervals of the logarithms."
        )
    runs = f"Every run was a job of its own, in random order (seed {seed})."
    if comparison.experiment.imported_at:
        runs = (
            "The runs are compared as independent ones: they were not launched by Tare, in an "
            "order that nobody drew at random, and on nodes that the logs do not name."
        )
    return (
        f"{runs} The ratio is that of "
        "geometric means; its intervals are Welch’s t intervals of the logarithms, with "
        "Satterthwaite’s degrees of freedom."
    )


def _seeds(comparison: ExperimentComparison) -> Iterator[str]:
    if varied := comparison.experiment.varied_seeds:
        yield f"Each repeat had a seed of its own, in all environments ({'; '.join(varied)})."


def _software(comparison: ExperimentComparison) -> Iterator[str]:
    """What was known of the software before the launch, of each environment once."""
    said = {
        pair.environment: " ".join(
            (
                pair.software,
                *(pair.reasons[i] for i, s in enumerate(pair.stamps) if s == Stamp.WAIVED),
            )
        )
        for pair in comparison.pairs
        if pair.software
    }
    if len(set(said.values())) == 1 and len(said) > 1:
        yield f"All environments: {next(iter(said.values()))}"
    elif said:
        yield " ".join(f"{name}: {words}" for name, words in said.items())


def _warm_up(comparison: ExperimentComparison) -> Iterator[str]:
    groups = [group.warm_ups for group in comparison.groups if group.warm_ups]
    if not groups:
        return
    unsettled = sum(found.unsettled for found in groups)
    looked_at = sum(len(found.starts) for found in groups)
    yield " ".join(
        (
            *comparison.warm_up_rules,
            "Where each run settles was looked for without regard to its environment: change "
            "points (least squares, penalty 6 ln k for k blocks) in the medians of blocks of "
            "steps; the last level is steady if it holds for half of the run.",
            f"{_of(unsettled, looked_at, 'run')} never settle{'s' * (unsettled == 1)}; those that "
            "do not count like the others.",
        )
    )


def _training(comparison: ExperimentComparison) -> Iterator[str]:
    """How it was seen to that the environments did the same work."""
    found = [one for group in comparison.trained for one in group.compared_trainings]
    if not found:
        return
    counts = Counter(str(one.outcome) for one in found)
    said = ", ".join(f"{count} {words}" for words, count in counts.most_common())
    how = (
        "with the same seed were compared with the baseline’s. Where they differ to the bit, the "
        "root mean square of the differences of the last values was held against √2 times their "
        "standard deviation between the seeds of the baseline (F test), and their mean against "
        "that standard deviation (Student’s t)"
    )
    if not all(one.seeds_known for one in found):
        how = (
            "whose seeds are not known were compared with all of the baseline’s: the last values "
            "by their squared distances from the baseline’s mean (F test) and by their means "
            "(Student’s t), against the standard deviation between the baseline’s runs"
        )
    yield (
        f"Losses (and accuracies) of runs {how}, at 2 % for the whole study by Holm’s correction. "
        "Of "
        f"{numbers.count(len(found), 'comparison')}: {said}."
    )


def _inference(comparison: ExperimentComparison) -> str:
    plan = comparison.experiment.plan_hash[:12]
    fixed = (
        f"The margin was fixed before the data, with the plan {plan}. {_looks(comparison.stage)}"
    )
    if comparison.experiment.imported_at:
        fixed = "The margin was chosen at the import, when the data had been taken."
    return f"{_rule(comparison)} {fixed}"


def _rule(comparison: Comparison) -> str:
    wide, narrow = comparison.levels
    return (
        f"An environment is called equivalent when the {narrow} interval lies between 1/(1 + m) "
        f"and 1 + m with m = {numbers.margin(comparison.margin)}, which is two one-sided tests at "
        f"{numbers.level(comparison.alpha)}; otherwise slower or faster when the {wide} interval "
        "does not contain 1, and inconclusive when neither holds."
    )


def _looks(stage: Stage) -> str:
    """When the data were judged."""
    if len(stage.looks) == 1:
        said = "The plan was to judge the data once, after all planned runs had ended."
    else:
        *first, last = map(str, stage.looks)
        said = (
            f"The plan had {len(stage.looks)} looks at the data, after {', '.join(first)} and "
            f"{last} repeats of every cell, each at the two-sided level {stage.level:g} (Pocock "
            "1977), so that together they err no more often than one at 0.05; the first verdict "
            "of a comparison stands."
        )
    if stage.stopped_at:
        said += f" A person ended the experiment at look {stage.stopped_at}."
    if stage.stopped_early:
        said += (
            f" It was ended after {_of(stage.ended, stage.planned, stage.unit)}, outside the plan."
        )
    if stage.waits:
        ended = "has" if stage.ended == 1 else "have"
        said += f" So far {_of(stage.ended, stage.planned, stage.unit)} {ended} ended."
    return said


def _family(comparison: Comparison) -> str:
    count = len(comparison.pairs)
    if not count:
        return "No comparison has been made yet."
    made = "comparison was" if count == 1 else "comparisons were"
    said = f"{count} {made} made; p after Holm’s correction stands in brackets."
    if not comparison.everywhere:
        return said
    return (
        f"{said} “Equivalent in all configurations” is an intersection-union test: its p is the "
        "largest and needs no correction. The geometric mean of the ratios takes the "
        "configurations as independent; none is given where the ratios differ (Welch’s F test at "
        "5 %) by more than the margin."
    )


def _completeness(comparison: ExperimentComparison) -> str:
    ends = "".join(
        f", {comparison.stage.states[state]} {state}"
        for state in map(str, Run.FINAL)
        if comparison.stage.states[state]
    )
    planned = _count(comparison.planned, "run was", "runs were")
    ended = "has" if comparison.ended == 1 else "have"
    runs = f"{planned} planned, {comparison.ended} {ended} ended{ends}."
    if comparison.experiment.imported_at:
        runs = f"{planned} found in the logs{ends}."
    without = "Runs that failed, were cancelled or were excluded have no say"
    if comparison.experiment.is_paired:
        without += "; blocks in which one side is missing are left out of that pair"
    return f"{runs} {without}."


def _repairs(comparison: ExperimentComparison) -> Iterator[str]:
    """How many blocks a second job has completed."""
    blocks, on_any_node = comparison.repaired
    if not blocks:
        return
    count = _count(blocks, "block was", "blocks were")
    said = (
        f"{count} completed by a second job, because the first one ended before all of its runs "
        "had begun; their runs are further apart in time."
    )
    if on_any_node:
        said += f" For {on_any_node:,} of them any node was allowed."
    yield said


def _exclusions(comparison: ExperimentComparison) -> Iterator[str]:
    """Who excluded which runs and why, and what the verdicts were before that."""
    found = comparison.exclusions
    if not found:
        return
    late = sum(one.after_verdict for one in found)
    named = "; ".join(one.words for one in found[:NAMED])
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    count = _count(len(found), "run was", "runs were")
    said = [f"{count} excluded by a person: {named}{more}."]
    if late:
        when = _count(late, "of them was", "of them were")
        said.append(f"{when} excluded when a verdict could be read.")
    before = [
        f"{group.name}, {pair.environment}: {pair.verdict} now. {pair.before.sentence}"
        for group in comparison.groups
        for pair in group.pairs
        if pair.before
    ]
    yield " ".join((*said, *before))


def _of(count: int, total: int, noun: str) -> str:
    """Some of all: "1 of 5 runs"."""
    return f"{count:,} of {numbers.count(total, noun)}"


def _count(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"
