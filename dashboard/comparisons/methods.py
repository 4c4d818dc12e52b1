"""Paragraphs on the methods of a comparison, for its page and for the LaTeX export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from functools import singledispatch

from dashboard.comparisons.aa_in_methods import describe_aa_test
from dashboard.comparisons.extension_in_methods import describe_extension
from dashboard.comparisons.facts_in_methods import describe_facts
from dashboard.comparisons.left_out_in_methods import (
    count_as_subject,
    count_part,
    describe_completeness,
    describe_exclusions,
    describe_rejections,
    describe_repairs,
)
from dashboard.comparisons.nodes_in_methods import describe_nodes
from dashboard.comparisons.rule_in_methods import describe_family, describe_rule
from dashboard.comparisons.together import describe_metrics_rule
from dashboard.comparisons.training_in_methods import describe_training_verdicts
from experiments.comparisons import Comparison, ExperimentComparison
from experiments.comparisons.kept_rows import read_column
from experiments.comparisons.published_tables import TableComparison
from experiments.planning.interim import Stage
from experiments.statistics import Stamp, numbers
from runners.workloads.page_cache import COLD, WARM, choose_policy
from runners.workloads.run_metrics import RUN_METRIC_NAMES

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


@singledispatch
def describe_methods(comparison: Comparison) -> list[str]:
    """Return the paragraphs on methods as plain text, which the caller has to escape."""
    raise NotImplementedError(f"{type(comparison).__name__} does not say what was done.")


@describe_methods.register
def _(comparison: ExperimentComparison) -> list[str]:
    return [
        " ".join(
            (
                _measured(comparison),
                _design(comparison),
                *_spreading(comparison),
                *describe_nodes(comparison.pairs),
                *_page_cache(comparison),
                *_seeds(comparison),
            )
        ),
        *describe_aa_test(comparison),
        *_software(comparison),
        *describe_facts(comparison.pairs),
        *_warm_up(comparison),
        *_training(comparison),
        *describe_training_verdicts(comparison),
        " ".join((_inference(comparison), describe_family(comparison))),
        *describe_metrics_rule(comparison),
        *describe_extension(comparison),
        " ".join((describe_completeness(comparison), *comparison.left_out)),
        *describe_repairs(comparison),
        *describe_rejections(comparison),
        *describe_exclusions(comparison),
    ]


@describe_methods.register
def _(comparison: TableComparison) -> list[str]:
    left_out = " ".join(comparison.left_out)
    if all(pair.ci95 is None for pair in comparison.pairs):
        return [" ".join((_published(comparison), RATIOS_ONLY)), *filter(None, [left_out])]
    single = comparison.table.single_runs
    return [
        " ".join(
            (
                _published(comparison),
                _of_runs(comparison) if single else OF_MEANS,
                *describe_nodes(comparison.pairs),
            )
        ),
        " ".join((describe_rule(comparison), MARGIN_AFTERWARDS, describe_family(comparison))),
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
    """Yield sentences on the doubts that were checked in the numbers, and on their treatment."""
    stamps = {stamp for pair in comparison.pairs for stamp in pair.stamps}
    if Stamp.ORDER_UNKNOWN in stamps:
        yield "The table does not say in which order the runs ran."
    if Stamp.ONE_PROCESS in stamps:
        yield comparison.table.one_process
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
    for group in [group for groups in comparison.by_metric for group in groups]:
        known = group.samples if group.metric.name in RUN_METRIC_NAMES else ()
        sources = sorted(set(read_column(known, "source")) - {""})
        metric = f"{group.metric.label.lower()} ({'; '.join([group.metric.name, *sources])})"
        workloads.setdefault(metric, {})[group.configuration["workload"]] = None
    metrics = [f"{metric} of {'; '.join(names)}" for metric, names in workloads.items()]
    if experiment.imported_at:
        day = f"{experiment.imported_at.astimezone(UTC):%Y-%m-%d}"
        when = (
            f" by others; their logs were imported on {day} from {experiment.imported_from} "
            f"(sha256 {experiment.import_hash[:12]})"
        )
    return (
        f"Measured on {where}{when}. The run is the unit of all statistics; its "
        f"{'values are' if comparison.further else 'value is'} the {', the '.join(metrics)}."
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


def _page_cache(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield of which workloads the files were in memory before each run, or were not."""
    workloads = (comparison.experiment.plan or {}).get("workloads", {}).values()
    for policy, what in ((COLD, "left memory"), (WARM, "were read into memory")):
        names = [row["name"] for row in workloads if choose_policy(row["parameters"]) == policy]
        if names:
            rest = "at most 10 %" if policy == COLD else "at least 90 %"
            yield (
                f"Before each run of {'; '.join(names)} the files of the image, or of the node's "
                f"Python, and those of its data {what}: {rest} of their bytes were in memory when "
                "the run began."
            )


def _spreading(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield how the plan spread blocks over nodes, and for how many that was not done."""
    if not comparison.experiment.spreads_nodes:
        return
    text = (
        "By the plan each block of a configuration was kept off the nodes that earlier ones had "
        "run on, as long as there were others."
    )
    not_kept_off = comparison.experiment.jobs.filter(excluded_nodes=[]).order_by()
    if count := not_kept_off.values("block").distinct().count():
        text += (
            f" {count_as_subject(count, 'block was', 'blocks were')} allowed on any node, because "
            "the scheduler refused the list of nodes or those that were left were not to be had."
        )
    yield text


def _seeds(comparison: ExperimentComparison) -> Iterator[str]:
    if varied := comparison.experiment.varied_seeds:
        yield f"Each repeat had a seed of its own, in all environments ({'; '.join(varied)})."


def _software(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield what was known of each environment's software before the launch."""
    software_by_environment = {
        pair.environment: " ".join(
            (
                pair.software,
                *(pair.reasons[i] for i, s in enumerate(pair.stamps) if s == Stamp.WAIVED),
            )
        )
        for pair in comparison.pairs
        if pair.software
    }
    if len(set(software_by_environment.values())) == 1 and len(software_by_environment) > 1:
        yield f"All environments: {next(iter(software_by_environment.values()))}"
    elif software_by_environment:
        yield " ".join(f"{name}: {software}" for name, software in software_by_environment.items())


def _warm_up(comparison: ExperimentComparison) -> Iterator[str]:
    warm_ups = [group.warm_ups for group in comparison.groups if group.warm_ups]
    if not warm_ups:
        return
    unsettled = sum(warm_up.unsettled for warm_up in warm_ups)
    analysed = sum(len(warm_up.starts) for warm_up in warm_ups)
    yield " ".join(
        (
            *comparison.warm_up_rules,
            "Where each run settles was looked for without regard to its environment: change "
            "points (least squares, penalty 6 ln k for k blocks) in the medians of blocks of "
            "steps; the last level is steady if it holds for half of the run.",
            f"{count_part(unsettled, analysed, 'run')} never settle{'s' * (unsettled == 1)}; those "
            "that do not count like the others.",
        )
    )


def _training(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield how it was checked that all environments did the same work."""
    trainings = [training for group in comparison.trained for training in group.compared_trainings]
    if not trainings:
        return
    counts = Counter(training.outcome.text for training in trainings)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    how = (
        "with the same seed were compared with the baseline’s. Where they are not bitwise equal, "
        "the root mean square of the differences of the last values was held against √2 times "
        "their standard deviation between the seeds of the baseline (F test), and their mean "
        "against that standard deviation (Student’s t)"
    )
    if not all(training.seeds_known for training in trainings):
        how = (
            "whose seeds are not known were compared with all of the baseline’s: the last values "
            "by their squared distances from the baseline’s mean (F test) and by their means "
            "(Student’s t), against the standard deviation between the baseline’s runs"
        )
    yield (
        f"Losses (and accuracies) of runs {how}, at 2 % for the whole experiment by "
        "Holm’s correction. Of "
        f"{numbers.count(len(trainings), 'comparison')}: {outcomes}."
    )


def _inference(comparison: ExperimentComparison) -> str:
    plan = comparison.experiment.plan_hash[:12]
    fixed = (
        f"The margin was fixed before the data, with the plan {plan}. "
        f"{_describe_analyses(comparison.stage)}"
    )
    if comparison.experiment.imported_at:
        fixed = "The margin was chosen at the import, when the data had been taken."
    return f"{describe_rule(comparison)} {fixed}"


def _describe_analyses(stage: Stage) -> str:
    """Return sentences on the analyses: when the data were judged, and how often."""
    if len(stage.after_repeats) == 1 or stage.extended_by:
        text = "The plan was to judge the data once, after all planned runs had ended."
    else:
        *first, last = map(str, stage.after_repeats)
        text = (
            f"The plan had {len(stage.after_repeats)} interim analyses of the data, after "
            f"{', '.join(first)} and {last} repeats of every configuration, each at the two-sided "
            f"level {stage.level:g} (Pocock "
            "1977), so that together they err no more often than one at 0.05; the first verdict "
            "of a comparison stands."
        )
    if stage.stopped_at:
        text += f" A person ended the experiment at interim analysis {stage.stopped_at}."
    if stage.stopped_early:
        ended_part = count_part(stage.ended, stage.planned, stage.unit)
        text += f" It was ended after {ended_part}, outside the plan."
    if stage.waits:
        ended = "has" if stage.ended == 1 else "have"
        text += f" So far {count_part(stage.ended, stage.planned, stage.unit)} {ended} ended."
    return text
