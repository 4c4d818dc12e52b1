"""What an experiment's runs say: computed each time somebody looks, never stored."""

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
from experiments.statistics.values import Look
from runners.workloads import KNOWN_WORKLOADS, Metric

TRIED_AGAIN = "tried again after a verdict"
"""What the event says when a failed job is tried again although its verdict could be read."""
WHY_AGAIN = (
    "A failed job was tried again after a verdict could be read here: whether it was, may have "
    "depended on the verdict."
)

COLLECTED_AFTER = "collected after a verdict"
"""What the event says when files arrive so late that a verdict could be read without them."""
WHY_LATE = (
    "Files of a run arrived after a verdict could be read here: it counts now, and did not then."
)


@dataclass(frozen=True)
class ExperimentComparison(Comparison):
    """What an experiment's runs say so far."""

    runs_have_pages: ClassVar = True
    experiment: Experiment
    stage: Stage
    """How far it is: before the first planned look there are runs, but no pairs."""
    exclusions: list[Exclusion]
    """The runs that persons have excluded; they are among no samples."""
    repaired: tuple[int, int]
    """How many blocks a second job has completed, and how many of those on any node."""
    left_out: list[str]
    """Of imported logs: what one environment ran and the baseline did not, or the reverse."""

    @property
    def about(self) -> dict[str, Any]:
        plan_hash = self.experiment.plan_hash
        return {"experiment": self.experiment.pk, **super().about, "plan_hash": plan_hash}

    @property
    def has_numbers(self) -> bool:
        """A pair without any run says nothing that its experiment's page does not."""
        return any(group.samples for group in self.groups)

    @property
    def planned(self) -> int:
        return self.stage.states.total()

    @property
    def ended(self) -> int:
        return sum(self.stage.states[state] for state in Run.FINAL)

    @property
    def alpha(self) -> float:
        """Known before there is a pair."""
        return self.stage.level

    @property
    def decided(self) -> int:
        """How many pairs have a verdict that is more than "inconclusive"."""
        return sum(is_decided(pair) for pair in self.pairs)

    @property
    def may_stop(self) -> bool:
        """Whether a person may keep the verdict of the last look and end the rest."""
        return self.stage.waits and not self.stage.cancelled and self.decided > 0


def compare_experiment(experiment: Experiment) -> ExperimentComparison:
    """Compare every environment with the baseline: runs that succeeded, one value each.

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
    parity = parity_reports.kept(experiment)
    excluded = exclusions(experiment)
    arms = compared_arms(experiment, workloads, environments)
    second_jobs = runs_of_second_jobs(experiment)
    places = [
        place
        for place, names in arms.items()
        if not experiment.imported_at or is_compared(names, environments[0])
    ]

    def groups(also: Collection[int] = ()) -> list[Group]:
        """Compare the runs that succeeded, and `also` these."""
        starts = warm_ups(experiment, workloads, metrics, environments, also)
        samples = _samples(experiment, metrics, starts, also)
        facts = _facts(experiment, also)
        differences = {place: _against_baseline(experiment, arms) for place, arms in facts.items()}
        trained = trainings(experiment, environments, also)
        return _adjusted(
            [
                _group(
                    experiment,
                    stage,
                    {"workload": workload.name, "scale": scale},
                    Measured(**asdict(metrics[workload.pk])),
                    arms[workload, scale],
                    samples.get((workload.pk, scale), []),
                    differences.get((workload.pk, scale), {}),
                    _programs(workload, facts.get((workload.pk, scale), {}), environments),
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

    found = groups()
    if left_out := [one for one in excluded if one.after_verdict]:
        before = groups({one.pk for one in left_out})
        found = [
            _held_to_exclusions(
                group, then, [one for one in left_out if one.place == (workload.pk, scale)]
            )
            for (workload, scale), group, then in zip(places, found, before, strict=True)
        ]
    return ExperimentComparison(
        key=experiment.key,
        question=experiment.question,
        margin=experiment.margin,
        paired=experiment.is_paired,
        environments=environments,
        groups=found,
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
    return next(one for one in kind.metrics_of(workload.parameters) if one.name == name)


def run_rows(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield one row a run with its measurements: enough to recompute every comparison.

    `compared` is the value that the comparison takes, in the metric and after the warm-up of its
    plan.
    """
    workloads = list(experiment.workloads.all())
    metrics = {workload.pk: primary_metric(experiment, workload) for workload in workloads}
    starts = warm_ups(experiment, workloads, metrics, _baseline_first(experiment))
    samples = _samples(experiment, metrics, starts)
    compared = {sample.run: sample.value for group in samples.values() for sample in group}
    excluded = {one.run: one.columns for one in exclusions(experiment)}
    looked_at = {uid: start for group in starts.values() for uid, start in group.starts.items()}
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
            **(looked_at[run.uid].columns if run.uid in looked_at else {}),
        }


def _group(
    experiment: Experiment,
    stage: Stage,
    cell: Mapping[str, str],
    metric: Measured,
    environments: list[str],
    samples: list[Sample],
    differences: Mapping[str, list[str]],
    programs_said: Mapping[str, str],
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

    def judge(judgement: Judgement, asked: Sequence[str]) -> list[Pair]:
        looks = len(stage.looks)
        look = Look(number=judgement.number, of=looks, alpha=stage.level) if looks > 1 else None
        within = [
            sample
            for sample in samples
            if judgement.repeats is None or sample.repeat <= judgement.repeats
        ]
        pairs = compare(
            within,
            baseline=experiment.baseline.name,
            environments=asked,
            margin=experiment.margin,
            better=metric.better,
            paired=experiment.is_paired,
            unit=metric.unit,
            differences=differences,
            look=look,
        )
        if not judgement.number:
            pairs = [_stamped(pair, Stamp.STOPPED_EARLY, stage.why_early) for pair in pairs]
        return pairs

    try:
        pairs = _first_decided(list(stage.judgements), environments[1:], judge)
    except ValueError as error:  # a metric chosen to decide may be zero or negative
        return Group(cell, metric, samples, [], str(error), starts, trained)
    if tried_again:
        pairs = [_stamped(pair, Stamp.TRIED_AGAIN, WHY_AGAIN) for pair in pairs]
    if collected_late:
        pairs = [_stamped(pair, Stamp.COLLECTED_AFTER, WHY_LATE) for pair in pairs]
    if second_jobs and experiment.is_paired:
        pairs = [_held_to_jobs(pair, samples, second_jobs) for pair in pairs]
    pairs = [
        _with_software(pair, parity.get(pair.environment), programs_said.get(pair.environment, ""))
        for pair in pairs
    ]
    if trained:
        pairs = [_held_to_training(pair, trained) for pair in pairs]
    return Group(cell, metric, samples, pairs, warm_ups=starts, trained=trained)


def _first_decided(
    judgements: Sequence[Judgement],
    environments: Sequence[str],
    judge: Callable[[Judgement, Sequence[str]], list[Pair]],
) -> list[Pair]:
    """Each environment's pair at the first judgement with a verdict, else at the last one.

    What has come since a look that decided stands beside its verdict, as an estimate.
    """
    found: dict[str, Pair] = {}
    for judgement in judgements:
        for pair in judge(judgement, environments):
            earlier = found.get(pair.environment)
            if earlier and earlier.look and is_decided(earlier):
                found[pair.environment] = _with_later(earlier, earlier.look, pair)
            elif judgement.decides:
                found[pair.environment] = pair
    return list(found.values())


def _with_later(pair: Pair, look: Look, now: Pair) -> Pair:
    if now.size == pair.size:
        return pair
    look = replace(look, later_ratio=now.ratio, later_ci95=now.ci95, later_size=now.size)
    return replace(pair, look=look)


def _with_software(pair: Pair, parity: Mapping[str, Any] | None, program: str) -> Pair:
    """With what the plan keeps of the passport: what was waived stays beside the verdict.

    `program` says what the runs found of a program of the user's own; "" where they had none.
    """
    if parity is None:
        return replace(pair, software=program)
    known = parity_reports.known_before(parity, own_program=bool(program))
    pair = replace(pair, software=f"{known} {program}".strip())
    why = parity_reports.why_waived(parity)
    return _stamped(pair, Stamp.WAIVED, why) if why else pair


def _held_to_jobs(
    pair: Pair, samples: Sequence[Sample], second_jobs: Mapping[str, SecondJob]
) -> Pair:
    """Runs of one block that are of two jobs are further apart: that stands beside any verdict."""
    why = why_across_jobs(pair, samples, second_jobs)
    return _stamped(pair, Stamp.ACROSS_JOBS, why) if why else pair


def _held_to_training(pair: Pair, trained: Trainings) -> Pair:
    """A run that trains wrongly is not a fast run: that stands beside any verdict."""
    for why in trained.amiss(pair.environment)[:1]:
        pair = _stamped(pair, Stamp.TRAINED_DIFFERENTLY, why)
    return pair


def _held_to_exclusions(group: Group, before: Group, late: Sequence[Exclusion]) -> Group:
    """The group, its verdicts stamped where `late` exclusions have a part in them."""
    then = {pair.environment: pair for pair in before.pairs}
    pairs = [
        stamp_excluded(
            pair,
            then.get(pair.environment),
            [one for one in late if one.environment in (pair.environment, pair.baseline)],
            problem=before.problem,
        )
        for pair in group.pairs
    ]
    return replace(group, pairs=pairs)


def _stamped(pair: Pair, stamp: Stamp, reason: str) -> Pair:
    return replace(pair, stamps=(*pair.stamps, stamp), reasons=(*pair.reasons, reason))


def _baseline_first(experiment: Experiment) -> list[str]:
    rows = experiment.environments.order_by("name").values_list("pk", "name")
    return [name for pk, name in sorted(rows, key=lambda row: row[0] != experiment.baseline_id)]


def _samples(
    experiment: Experiment,
    metrics: Mapping[int, Metric],
    starts: Mapping[Place, WarmUps],
    also: Collection[int] = (),
) -> dict[Place, list[Sample]]:
    """Return each group's values in the order of the plan, after the warm-up that decides.

    Failed, cancelled and excluded runs have no say, but for `also` these.
    """
    rows = Measurement.objects.filter(
        counted(also),
        run__experiment=experiment,
        metric__in={metric.name for metric in metrics.values()},
    ).order_by("run__job__block", "run__position")
    found: dict[Place, list[Sample]] = {}
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
        found.setdefault((workload, scale), []).append(sample)
    return found | {
        place: group.applied(found[place]) for place, group in starts.items() if place in found
    }


def _facts(
    experiment: Experiment, also: Collection[int]
) -> dict[Place, dict[str, list[Mapping[str, str]]]]:
    """Return what snapshots say of the runs, by group and environment.

    PostgreSQL leaves out facts that are repeated: most runs of an environment have the same.
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


def _programs(
    workload: Workload, facts: Mapping[str, list[Mapping[str, str]]], environments: Sequence[str]
) -> dict[str, str]:
    """Return in words what was inspected of the user's program, by environment."""
    if not KNOWN_WORKLOADS[workload.kind].is_the_users:
        return {}
    ours = facts.get(environments[0], [])
    return {
        name: program_files.describe_programs(ours, facts.get(name, [])) for name in environments
    }


def _against_baseline(
    experiment: Experiment, facts: Mapping[str, list[Mapping[str, str]]]
) -> dict[str, list[str]]:
    ours = facts.get(experiment.baseline.name, [])
    return {name: snapshots.differences(ours, theirs) for name, theirs in facts.items()}


def _adjusted(groups: list[Group]) -> list[Group]:
    """Correct for the number of questions asked: Holm over all pairs of the experiment."""
    adjusted = iter(holm([pair for group in groups for pair in group.pairs]))
    return [replace(group, pairs=[next(adjusted) for _ in group.pairs]) for group in groups]
