"""The comparison of an experiment's runs: computed each time it is shown, never stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from experiments import program_files, snapshots
from experiments.comparisons.comparison import Comparison, Group, is_decided
from experiments.comparisons.exclusions import (
    Exclusion,
    counted,
    exclusions,
    stamp_excluded,
)
from experiments.comparisons.logged import compared_arms, describe_left_out, is_compared
from experiments.comparisons.repaired import (
    SecondJob,
    repaired_blocks,
    runs_of_second_jobs,
    why_across_jobs,
)
from experiments.comparisons.trainings import Trainings, trainings
from experiments.comparisons.warm_ups import Place, WarmUps, warm_ups
from experiments.models import Experiment, Measurement, Run, Workload
from experiments.planning.interim import Judgement, Stage, stage_of
from experiments.software import parity_reports
from experiments.statistics import Measured, Pair, Sample, Stamp, compare, holm
from experiments.statistics.values import InterimAnalysis
from runners.workloads import KNOWN_WORKLOADS, Metric

TRIED_AGAIN = "tried again after a verdict"
"""The event of a failed job that is tried again although its verdict could be read."""
WHY_AGAIN = (
    "A failed job was tried again after a verdict could be read here: whether it was, may have "
    "depended on the verdict."
)

COLLECTED_AFTER = "collected after a verdict"
"""The event of files that arrive so late that a verdict could be read without them."""
WHY_LATE = (
    "Files of a run arrived after a verdict could be read here: it counts now, and did not then."
)


@dataclass(frozen=True)
class ExperimentComparison(Comparison):
    """The comparison of an experiment's runs so far."""

    runs_have_pages: ClassVar = True
    experiment: Experiment
    stage: Stage
    """The interim analyses: before the first one is due there are runs, but no pairs."""
    exclusions: list[Exclusion]
    """The runs that persons have excluded; no samples contain them."""
    repaired: tuple[int, int]
    """How many blocks a second job has completed, and how many of those on any node."""
    left_out: list[str]
    """Of imported logs: sentences on what only one environment of a pair ran."""

    @property
    def about(self) -> dict[str, Any]:
        plan_hash = self.experiment.plan_hash
        return {"experiment": self.experiment.pk, **super().about, "plan_hash": plan_hash}

    @property
    def has_numbers(self) -> bool:
        """Return whether any run counts: pairs without runs show only what the plan shows."""
        return any(group.samples for group in self.groups)

    @property
    def planned(self) -> int:
        return self.stage.states.total()

    @property
    def ended(self) -> int:
        return sum(self.stage.states[state] for state in Run.FINAL)

    @property
    def alpha(self) -> float:
        """Return the level of every verdict, which the plan fixes before there is a pair."""
        return self.stage.level

    @property
    def decided(self) -> int:
        """Return how many pairs have a verdict other than "inconclusive"."""
        return sum(is_decided(pair) for pair in self.pairs)

    @property
    def may_stop(self) -> bool:
        """Return whether a person may keep the latest interim verdict and cancel the rest."""
        return self.stage.waits and not self.stage.cancelled and self.decided > 0


def compare_experiment(experiment: Experiment) -> ExperimentComparison:
    """Compare every environment with the baseline: the runs that succeeded, one value each.

    The number of queries does not depend on how many workloads, scales or runs there are.
    """
    workloads = list(experiment.workloads.order_by("name"))
    metrics = {workload.pk: primary_metric(experiment, workload) for workload in workloads}
    stage = stage_of(experiment)
    again, late = (
        set(experiment.events.filter(what=what).values_list("job__workload_id", "job__scale"))
        for what in (TRIED_AGAIN, COLLECTED_AFTER)
    )
    environments = _baseline_first(experiment)
    parity = parity_reports.read_frozen(experiment)
    excluded = exclusions(experiment)
    arms = compared_arms(experiment, workloads, environments)
    second_jobs = runs_of_second_jobs(experiment)
    places = [
        place
        for place, names in arms.items()
        if not experiment.imported_at or is_compared(names, environments[0])
    ]

    def groups(also: Collection[int] = ()) -> list[Group]:
        """Compare the runs that succeeded, and those in `also` (primary keys)."""
        starts = warm_ups(experiment, workloads, metrics, environments, also)
        samples = _read_samples(experiment, metrics, starts, also)
        facts = _read_facts(experiment, also)
        differences = {
            place: _compare_facts_with_baseline(experiment, arms) for place, arms in facts.items()
        }
        trained = trainings(experiment, environments, also)
        return _apply_holm(
            [
                _compare_group(
                    experiment,
                    stage,
                    {"workload": workload.name, "scale": scale},
                    Measured(**asdict(metrics[workload.pk])),
                    arms[workload, scale],
                    samples.get((workload.pk, scale), []),
                    differences.get((workload.pk, scale), {}),
                    _describe_programs(workload, facts.get((workload.pk, scale), {}), environments),
                    starts.get((workload.pk, scale)),
                    parity,
                    trained.get((workload.pk, scale)),
                    tried_again=(workload.pk, scale) in again,
                    collected_late=(workload.pk, scale) in late,
                    second_jobs=second_jobs,
                )
                for workload, scale in places
            ]
        )

    compared_groups = groups()
    if left_out := [exclusion for exclusion in excluded if exclusion.after_verdict]:
        groups_before = groups({exclusion.pk for exclusion in left_out})
        compared_groups = [
            _stamp_late_exclusions(
                group,
                group_before,
                [exclusion for exclusion in left_out if exclusion.place == (workload.pk, scale)],
            )
            for (workload, scale), group, group_before in zip(
                places, compared_groups, groups_before, strict=True
            )
        ]
    return ExperimentComparison(
        key=experiment.key,
        question=experiment.question,
        margin=experiment.margin,
        paired=experiment.is_paired,
        environments=environments,
        groups=compared_groups,
        experiment=experiment,
        stage=stage,
        exclusions=excluded,
        repaired=repaired_blocks(experiment),
        left_out=describe_left_out(arms, environments),
    )


def primary_metric(experiment: Experiment, workload: Workload) -> Metric:
    """Return the metric that decides: the experiment's, else the workload's own."""
    kind = KNOWN_WORKLOADS[workload.kind]
    name = experiment.primary_metric or kind.primary_of(workload.parameters)
    return next(metric for metric in kind.metrics_of(workload.parameters) if metric.name == name)


def run_rows(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield one row for each run with its measurements: enough to recompute every comparison.

    `compared` is the value that the comparison uses, in the metric and after the warm-up of its
    plan.
    """
    workloads = list(experiment.workloads.all())
    metrics = {workload.pk: primary_metric(experiment, workload) for workload in workloads}
    starts = warm_ups(experiment, workloads, metrics, _baseline_first(experiment))
    samples = _read_samples(experiment, metrics, starts)
    compared = {sample.run: sample.value for group in samples.values() for sample in group}
    excluded = {exclusion.run: exclusion.columns for exclusion in exclusions(experiment)}
    start_of_run = {uid: start for group in starts.values() for uid, start in group.starts.items()}
    runs = experiment.runs.select_related("job__repairs", "workload", "environment", "snapshot")
    for run in runs.prefetch_related("measurements").order_by("job__block", "position"):
        numbers = {
            f"{number.metric} ({number.unit})": number.value for number in run.measurements.all()
        }
        yield {
            "run": run.uid,
            "job": run.job.uid,
            "block": run.job.number,
            "position": run.position,
            "repeat": run.repeat,
            "workload": run.workload.name,
            "environment": run.environment.name,
            "scale": run.scale,
            "state": run.state,
            "reason": run.reason,
            "message": run.message,
            "exit_code": run.exit_code,
            "node": run.node,
            "began_at": run.began_at.isoformat() if run.began_at else None,
            "ended_at": run.ended_at.isoformat() if run.ended_at else None,
            "attempt": run.job.attempt,
            "repairs_job": run.job.repairs.uid if run.job.repairs else None,
            "scheduler_id": run.job.scheduler_id,
            "snapshot": run.snapshot.content_hash if run.snapshot else None,
            **numbers,
            "compared": compared.get(run.uid),
            **excluded.get(run.uid, {}),
            **(start_of_run[run.uid].columns if run.uid in start_of_run else {}),
        }


def _compare_group(
    experiment: Experiment,
    stage: Stage,
    configuration: Mapping[str, str],
    metric: Measured,
    environments: list[str],
    samples: list[Sample],
    differences: Mapping[str, list[str]],
    program_descriptions: Mapping[str, str],
    starts: WarmUps | None,
    parity: Mapping[str, Mapping[str, Any]],
    trained: Trainings | None,
    *,
    tried_again: bool,
    collected_late: bool,
    second_jobs: Mapping[str, SecondJob],
) -> Group:
    if experiment.imported_at and any(sample.started is None for sample in samples):
        differences = {
            name: [*differences.get(name, []), "the logs do not say when the runs ran"]
            for name in environments[1:]
        }

    def judge(judgement: Judgement, judged_environments: Sequence[str]) -> list[Pair]:
        planned = len(stage.after_repeats)
        analysis = InterimAnalysis(number=judgement.number, of=planned, alpha=stage.level)
        samples_until_then = [
            sample
            for sample in samples
            if judgement.repeats is None or sample.repeat <= judgement.repeats
        ]
        pairs = compare(
            samples_until_then,
            baseline=experiment.baseline.name,
            environments=judged_environments,
            margin=experiment.margin,
            better=metric.better,
            paired=experiment.is_paired,
            unit=metric.unit,
            differences=differences,
            interim_analysis=analysis if planned > 1 else None,
        )
        if not judgement.number:
            pairs = [_add_stamp(pair, Stamp.STOPPED_EARLY, stage.why_early) for pair in pairs]
        return pairs

    try:
        pairs = _keep_first_verdicts(list(stage.judgements), environments[1:], judge)
    except ValueError as error:  # the chosen metric may be zero or negative
        return Group(configuration, metric, samples, [], str(error), starts, trained)
    if tried_again:
        pairs = [_add_stamp(pair, Stamp.TRIED_AGAIN, WHY_AGAIN) for pair in pairs]
    if collected_late:
        pairs = [_add_stamp(pair, Stamp.COLLECTED_AFTER, WHY_LATE) for pair in pairs]
    if second_jobs and experiment.is_paired:
        pairs = [_stamp_across_jobs(pair, samples, second_jobs) for pair in pairs]
    pairs = [
        _add_software(
            pair, parity.get(pair.environment), program_descriptions.get(pair.environment, "")
        )
        for pair in pairs
    ]
    if trained:
        pairs = [_stamp_trained_differently(pair, trained) for pair in pairs]
    return Group(configuration, metric, samples, pairs, warm_ups=starts, trained=trained)


def _keep_first_verdicts(
    judgements: Sequence[Judgement],
    environments: Sequence[str],
    judge: Callable[[Judgement, Sequence[str]], list[Pair]],
) -> list[Pair]:
    """Return each environment's pair at the first judgement with a verdict, else at the last one.

    Runs that came after the analysis that decided add an estimate beside its verdict.
    """
    pairs: dict[str, Pair] = {}
    for judgement in judgements:
        for pair in judge(judgement, environments):
            earlier = pairs.get(pair.environment)
            if earlier and earlier.interim_analysis and is_decided(earlier):
                pairs[pair.environment] = _add_later_estimate(
                    earlier, earlier.interim_analysis, pair
                )
            elif judgement.decides:
                pairs[pair.environment] = pair
    return list(pairs.values())


def _add_later_estimate(pair: Pair, analysis: InterimAnalysis, now: Pair) -> Pair:
    if now.size == pair.size:
        return pair
    analysis = replace(analysis, later_ratio=now.ratio, later_ci95=now.ci95, later_size=now.size)
    return replace(pair, interim_analysis=analysis)


def _add_software(pair: Pair, parity: Mapping[str, Any] | None, program: str) -> Pair:
    """Return the pair with the parity report of its plan; a waived difference adds a stamp.

    `program` describes the user's own program as the runs found it; "" where they had none.
    """
    if parity is None:
        return replace(pair, software=program)
    known = parity_reports.describe_known_differences(parity, own_program=bool(program))
    pair = replace(pair, software=f"{known} {program}".strip())
    why = parity_reports.describe_waivers(parity)
    return _add_stamp(pair, Stamp.WAIVED, why) if why else pair


def _stamp_across_jobs(
    pair: Pair, samples: Sequence[Sample], second_jobs: Mapping[str, SecondJob]
) -> Pair:
    """Return the pair, stamped if runs of one block are of two jobs: they are further apart."""
    why = why_across_jobs(pair, samples, second_jobs)
    return _add_stamp(pair, Stamp.ACROSS_JOBS, why) if why else pair


def _stamp_trained_differently(pair: Pair, trained: Trainings) -> Pair:
    """Return the pair, stamped if its environment trained differently: wrong runs are not fast."""
    for why in trained.reasons_to_stamp(pair.environment)[:1]:
        pair = _add_stamp(pair, Stamp.TRAINED_DIFFERENTLY, why)
    return pair


def _stamp_late_exclusions(group: Group, before: Group, late: Sequence[Exclusion]) -> Group:
    """Return the group, its verdicts stamped where `late` exclusions took part in them.

    `before` is the same group with all late exclusions undone.
    """
    pairs_before = {pair.environment: pair for pair in before.pairs}
    pairs = [
        stamp_excluded(
            pair,
            pairs_before.get(pair.environment),
            [
                exclusion
                for exclusion in late
                if exclusion.environment in (pair.environment, pair.baseline)
            ],
            problem=before.problem,
        )
        for pair in group.pairs
    ]
    return replace(group, pairs=pairs)


def _add_stamp(pair: Pair, stamp: Stamp, reason: str) -> Pair:
    return replace(pair, stamps=(*pair.stamps, stamp), reasons=(*pair.reasons, reason))


def _baseline_first(experiment: Experiment) -> list[str]:
    rows = experiment.environments.order_by("name").values_list("pk", "name")
    return [name for pk, name in sorted(rows, key=lambda row: row[0] != experiment.baseline_id)]


def _read_samples(
    experiment: Experiment,
    metrics: Mapping[int, Metric],
    starts: Mapping[Place, WarmUps],
    also: Collection[int] = (),
) -> dict[Place, list[Sample]]:
    """Return the values of each group in the order of the plan, after the warm-up that decides.

    Failed, cancelled and excluded runs do not count, except those in `also`.
    """
    rows = Measurement.objects.filter(
        counted(also),
        run__experiment=experiment,
        metric__in={metric.name for metric in metrics.values()},
    ).order_by("run__job__block", "run__position")
    samples_by_group: dict[Place, list[Sample]] = {}
    for (
        workload,
        scale,
        metric,
        block,
        uid,
        environment,
        value,
        node,
        began,
        repeat,
    ) in rows.values_list(
        "run__workload_id",
        "run__scale",
        "metric",
        "run__job__block",
        "run__uid",
        "run__environment__name",
        "value",
        "run__node",
        "run__began_at",
        "run__repeat",
    ):
        if metric != metrics[workload].name:
            continue
        sample = Sample(
            run=uid,
            block=str(block + 1),
            environment=environment,
            value=value,
            node=node,
            started=began.timestamp() if began else None,
            repeat=repeat,
        )
        samples_by_group.setdefault((workload, scale), []).append(sample)
    return samples_by_group | {
        place: group.apply_to(samples_by_group[place])
        for place, group in starts.items()
        if place in samples_by_group
    }


def _read_facts(
    experiment: Experiment, also: Collection[int]
) -> dict[Place, dict[str, list[Mapping[str, str]]]]:
    """Return the facts of the runs' snapshots, by group and environment.

    The query drops duplicates: most runs of an environment have the same facts.
    """
    rows = (
        experiment.runs.filter(counted(also, prefix=""), snapshot__isnull=False)
        .order_by()
        .values_list("workload_id", "scale", "environment__name", "snapshot__facts")
        .distinct()
    )
    facts: dict[Place, dict[str, list[Mapping[str, str]]]] = {}
    for workload, scale, environment, known in rows:
        facts.setdefault((workload, scale), {}).setdefault(environment, []).append(known)
    return facts


def _describe_programs(
    workload: Workload, facts: Mapping[str, list[Mapping[str, str]]], environments: Sequence[str]
) -> dict[str, str]:
    """Return a description of the user's program, by environment; empty for known workloads."""
    if not KNOWN_WORKLOADS[workload.kind].is_the_users:
        return {}
    baseline_facts = facts.get(environments[0], [])
    return {
        name: program_files.describe_programs(baseline_facts, facts.get(name, []))
        for name in environments
    }


def _compare_facts_with_baseline(
    experiment: Experiment, facts: Mapping[str, list[Mapping[str, str]]]
) -> dict[str, list[str]]:
    baseline_facts = facts.get(experiment.baseline.name, [])
    return {
        name: snapshots.differences(baseline_facts, environment_facts)
        for name, environment_facts in facts.items()
    }


def _apply_holm(groups: list[Group]) -> list[Group]:
    """Correct for the number of questions asked: Holm over all pairs of the experiment."""
    adjusted = iter(holm([pair for group in groups for pair in group.pairs]))
    return [replace(group, pairs=[next(adjusted) for _ in group.pairs]) for group in groups]
