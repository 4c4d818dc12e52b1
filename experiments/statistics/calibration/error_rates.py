"""Calibration: shares of wrong verdicts in simulated experiments whose truth is known.

Each promise is a band in which the shares must lie. The controls are methods known to be wrong: a
calibration that does not catch them could not catch a mistake of Tare's either.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import bootstrap

from experiments.statistics import vectorised
from experiments.statistics.calibration import (
    against_itself,
    charts_over_time,
    done_again,
    extended_experiments,
    metrics_at_margin,
    runs_left_out,
    several_nodes,
    several_studies,
    start_ups,
    training_truths,
    truths,
)
from experiments.statistics.calibration.bands import (
    BATCH,
    Band,
    Effort,
    compute_share,
    compute_slack,
)
from experiments.statistics.calibration.verdict_shares import (
    MARGIN,
    NOT_SLOWER,
    compute_alarm_share,
    list_error_bands,
    list_verdict_bands,
    measure_errors,
    measure_wrong_verdicts,
)
from experiments.statistics.change_points import BLOCK, FEWEST_BLOCKS, Shape
from experiments.statistics.interim_analyses import get_level, schedule
from experiments.statistics.values import ALPHA, Verdict
from experiments.statistics.vectorised import Array

SEED = 20260822
REPEATS = (3, 4, 5, 6, 8, 10, 15, 20, 30)
DESIGNS = {"independent": vectorised.estimate_unpaired, "paired": vectorised.estimate_paired}
REPEATS_OF_ANALYSES = {2: 10, 3: 15, 4: 20, 5: 25}
"""Number of analyses -> the fewest repeats that allow so many."""
PEEKS = range(3, 31)
STEPS = 1000
OF_TRAININGS, OF_EXCLUSIONS, OF_AA_TESTS, OF_CHARTS = 164, 159, 166, 168
OF_SETS, OF_REPRODUCTIONS = 177, 179
"""These have random numbers of their own, so that other bands stay what they are."""
Note = Callable[[str, float], None]
"""Is told the name of each part when it has ended, and the seconds that it took."""


def calibrate(effort: Effort, seed: int = SEED, note: Note | None = None) -> list[Band]:
    """Return every band with its measured shares; the same seed gives the same numbers."""
    bands: list[Band] = []
    for name, measure in list_parts(effort, seed):
        began = time.monotonic()
        bands += measure()
        if note:
            note(name, time.monotonic() - began)
    return bands


def list_parts(effort: Effort, seed: int) -> list[tuple[str, Callable[[], Iterable[Band]]]]:
    """Return the parts of a calibration in their order; some share their random numbers."""
    rng, draw = np.random.default_rng(seed), np.random.default_rng
    return [
        ("like environments", lambda: _bands_of_like_environments(rng, effort)),
        ("unlike environments", lambda: _bands_of_unlike_environments(rng, effort)),
        ("disturbance", lambda: _bands_under_disturbance(rng, effort)),
        ("controls", lambda: _bands_of_controls(rng, effort)),
        ("start-ups", lambda: _bands_of_start_ups(rng, effort)),
        ("interim analyses", lambda: _bands_of_analyses(rng, effort)),
        ("nodes", lambda: _bands_of_nodes(rng, effort)),
        ("sets of nodes", lambda: _bands_of_sets_of_nodes(draw([seed, OF_SETS]), effort)),
        ("training", lambda: _bands_of_trainings(draw([seed, OF_TRAININGS]), effort)),
        ("several decisive metrics", lambda: _bands_of_several_metrics(rng, effort)),
        ("extensions", lambda: extended_experiments.list_bands(draw(seed), effort)),
        ("exclusions", lambda: runs_left_out.list_bands(draw([seed, OF_EXCLUSIONS]), effort)),
        ("A/A tests", lambda: against_itself.list_bands(draw([seed, OF_AA_TESTS]), effort)),
        ("studies", lambda: several_studies.list_bands(seed, effort)),
        ("charts over time", lambda: charts_over_time.list_bands(draw([seed, OF_CHARTS]), effort)),
        ("reproductions", lambda: done_again.list_bands(draw([seed, OF_REPRODUCTIONS]), effort)),
    ]


def _bands_of_like_environments(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands where both environments vary alike, with equally many runs."""
    errors, wrong = {}, {}
    for name, draw in truths.SHAPES.items():
        for design, estimate in DESIGNS.items():
            for n in REPEATS:
                baseline, environment = (draw(rng, (effort.data_sets, n)) for _ in range(2))
                estimates = estimate(baseline, environment)
                errors[f"{name}, {design}, n = {n}"] = measure_errors(estimates)
                wrong[f"{name}, {design}, n = {n}"] = measure_wrong_verdicts(estimates)
    yield from list_error_bands("like environments", errors, effort, alarms=0.055, coverage=0.945)
    yield from list_verdict_bands(wrong, effort)


def _bands_of_unlike_environments(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands where one varies four times as much, or has ten times as many runs."""
    quiet, loud = truths.normal(0.005), truths.normal(0.02)
    cases = {f"SD 1:4, n = {n}": (quiet, n, loud, n) for n in REPEATS}
    for few, many in ((3, 30), (3, 10), (5, 15)):
        cases |= {
            f"n = {few} and {many}, SD 4:1": (loud, few, quiet, many),
            f"n = {few} and {many}, SD 1:4": (quiet, few, loud, many),
            f"n = {few} and {many}, same SD": (loud, few, loud, many),
        }
    measured = {}
    for name, (draw_b, n_b, draw_e, n_e) in cases.items():
        baseline = draw_b(rng, (effort.data_sets, n_b))
        environment = draw_e(rng, (effort.data_sets, n_e))
        measured[name] = measure_errors(vectorised.estimate_unpaired(baseline, environment))
    # The specification's bands are not kept here: Welch's test is too sure of itself. These two
    # limits say how much so, as measured.
    weak = "n = 3 and 30, same SD"
    yield from list_error_bands(
        "3 runs v 30 (known weakness)",
        {weak: measured.pop(weak)},
        effort,
        alarms=0.08,
        coverage=0.92,
    )
    yield from list_error_bands("unlike environments", measured, effort, alarms=0.07, coverage=0.93)


def _bands_under_disturbance(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield the band of the paired design on a machine that drifts."""
    shares = {}
    for name, draw in truths.SESSIONS.items():
        for blocks in REPEATS:
            session = draw(rng, (effort.data_sets, 2 * blocks))
            estimates = vectorised.estimate_paired(*truths.random_in_pairs(rng, session))
            shares[f"{name}, {blocks} blocks"] = compute_alarm_share(estimates)
    yield Band(
        "false alarms, random order within each block, under disturbance",
        shares,
        low=0.04,
        high=0.06,
        slack=compute_slack(0.05, effort),
    )


def _bands_of_analyses(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands for interim analyses at stricter levels; one after every run must break them.

    Errors are counted at any of them: whoever stops at the first verdict is wrong no more often.
    """
    alarms, equivalent, not_slower = {}, {}, {}
    for name, draw in truths.SHAPES.items():
        for design in DESIGNS:
            for analyses, repeats in REPEATS_OF_ANALYSES.items():
                arms = [draw(rng, (effort.data_sets, repeats)) for _ in range(2)]
                case = f"{name}, {design}, {analyses} analyses"
                wrong_shares = _wrong_at_any_analysis(
                    design, arms, schedule(repeats, analyses), get_level(analyses)
                )
                alarms[case], equivalent[case], not_slower[case] = wrong_shares
    for promise, shares in (
        ("false alarms at any of 2 to 5 interim analyses", alarms),
        ("equivalence proved at any of 2 to 5 interim analyses", equivalent),
        ("NOT SLOWER at the margin at any of 2 to 5 interim analyses", not_slower),
    ):
        yield Band(promise, shares, high=0.055, slack=compute_slack(0.055, effort))
    arms = [rng.normal(0, 0.01, (effort.data_sets, PEEKS[-1])) for _ in range(2)]
    for promise, share in zip(
        ("false alarms", "equivalence proved at the margin"),
        _wrong_at_any_analysis("independent", arms, PEEKS, ALPHA)[:2],
        strict=True,
    ):
        yield Band(
            f"{promise}, judged after every run at 5 %",
            {f"{PEEKS[0]} to {PEEKS[-1]} runs": share},
            high=0.15,
            control=True,
        )


def _wrong_at_any_analysis(
    design: str, arms: Sequence[Array], after: Sequence[int], alpha: float
) -> tuple[float, float, float]:
    """Return false alarms and false equivalence (at the worse margin) in any of the analyses.

    And false "not slower" at the margin.
    """
    alarm: Array = False
    not_slower: Array = False
    equivalent: list[Array] = [False, False]
    for repeats in after:
        estimates = DESIGNS[design](*(arm[:, :repeats] for arm in arms))
        alarm = alarm | (estimates.p_difference < alpha)
        for i, ratio in enumerate((1 + MARGIN, 1 / (1 + MARGIN))):
            proved = estimates.times(ratio).p_equivalence(MARGIN) < alpha
            equivalent[i] = equivalent[i] | proved
        not_slower = not_slower | (estimates.times(1 + MARGIN).p_equivalence(NOT_SLOWER) < alpha)
    return compute_share(alarm), max(map(compute_share, equivalent)), compute_share(not_slower)


def _bands_of_controls(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of methods that must fail, and of one value a run, which must not."""
    shape = (effort.heavy_data_sets, 3, STEPS)
    baseline, environment = (
        rng.normal(0, 0.02, shape) + rng.normal(0, 0.001, (*shape[:2], 1)) for _ in range(2)
    )
    runs = vectorised.estimate_unpaired(baseline.mean(axis=2), environment.mean(axis=2))
    yield Band(
        "false alarms, one value a run",
        {"3 runs of 1000 steps": compute_alarm_share(runs)},
        high=0.055,
        slack=compute_slack(0.055, effort, effort.heavy_data_sets),
    )
    steps = vectorised.estimate_unpaired(
        *(arm.reshape(len(arm), -1) for arm in (baseline, environment))
    )
    yield Band(
        "false alarms, steps taken as units",
        {"3 runs of 1000 steps": compute_alarm_share(steps)},
        high=0.2,
        control=True,
    )
    yield Band(
        "coverage of a BCa bootstrap's 95 % interval",
        {"normal 2 %, n = 3": compute_share(_bca_covers(rng, effort.heavy_data_sets, 3))},
        low=0.85,
        control=True,
    )
    session = truths.drifting(rng, (effort.data_sets, 10))
    estimates = vectorised.estimate_unpaired(*truths.one_after_the_other(session))
    yield Band(
        "false alarms, all of one and then all of the other",
        {"drift of 2 %, n = 5": compute_alarm_share(estimates)},
        high=0.25,
        control=True,
    )


def _bands_of_start_ups(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of single runs: the bias that the detected warm-up leaves, and their shapes."""
    measured = {
        name: start_ups.measure_biases(draw(rng, effort.runs), mean)
        for name, (draw, mean) in start_ups.START_UPS.items()
    }
    shortest = start_ups.level(rng, effort.runs, steps=BLOCK * FEWEST_BLOCKS)
    yield Band(
        "bias of a run's mean after the detected warm-up",
        {name: abs(bias.detected) for name, bias in measured.items()},
        high=0.005,
    )
    yield Band(
        f"bias of a run's mean after a fixed warm-up of {start_ups.FIXED} steps",
        {name: measured[name].fixed for name in ("+50 %, tau 40", "+10 %, tau 150")},
        high=0.01,
        control=True,
    )
    levels = {
        f"{len(shortest[0])} steps": start_ups.measure_biases(shortest),
        f"{start_ups.STEPS} steps": measured["level"],
        "1 % stragglers": measured["level, 1 % stragglers"],
    }
    yield Band(
        "level runs taken for something else",
        {name: 1 - bias.shapes.get(Shape.FLAT, 0) for name, bias in levels.items()},
        high=0.05,
        slack=compute_slack(0.05, effort, effort.runs),
    )
    never = start_ups.measure_biases(start_ups.NEVER(rng, effort.runs))
    yield Band(
        "runs that never settle, and are called so",
        {"+10 %, tau 600": never.shapes.get(Shape.NONE, 0)},
        low=0.7,
        slack=compute_slack(0.7, effort, effort.runs),
    )


def _bands_of_nodes(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of blocks that share nodes, where the ratio differs from node to node."""
    simulated = several_nodes.simulate(rng, effort.data_sets)
    for about, who in (
        (several_nodes.PARTITION, "the partition by means of nodes"),
        (several_nodes.THESE_NODES, "these nodes by their blocks"),
    ):
        errors = {case: measure_errors(estimates) for case, estimates in simulated[about].items()}
        if about == several_nodes.PARTITION:  # a single node says nothing, so no interval covers
            of_one = [case for case, known in simulated[about].items() if known.flawed.all()]
            errors = {case: known for case, known in errors.items() if case not in of_one}
        yield from list_error_bands(who, errors, effort, alarms=0.055, coverage=0.945)
    verdicts = {
        about: {
            case: max(
                compute_share(estimates.times(ratio).verdicts(MARGIN) == Verdict.EQUIVALENT)
                for ratio in (1 + MARGIN, 1 / (1 + MARGIN))
            )
            for case, estimates in simulated[about].items()
        }
        for about in (several_nodes.PARTITION, several_nodes.AS_INDEPENDENT)
    }
    yield Band(
        "EQUIVALENT although the partition's ratio is at the margin",
        verdicts[several_nodes.PARTITION],
        high=0.055,
        slack=compute_slack(0.055, effort),
    )
    for case in ("1 node x 10", "2 nodes x 5", "3 nodes x 4"):
        name = f"{case}, 0.5 % between nodes"
        yield Band(
            f"the same, blocks as independent, {case}",
            {name: verdicts[several_nodes.AS_INDEPENDENT][name]},
            high=0.1,
            control=True,
        )


def _bands_of_sets_of_nodes(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of jobs on several nodes that have some in common."""
    simulated = several_nodes.simulate_sets(rng, effort.data_sets)
    by_sets = simulated[several_nodes.PARTITION]
    errors = {case: measure_errors(estimates) for case, estimates in by_sets.items()}
    yield from list_error_bands(
        "the partition by sets of nodes", errors, effort, alarms=0.055, coverage=0.945
    )
    case = f"{several_nodes.JOBS_WITH_ONE} jobs that share a node, 0.5 % between nodes"
    alarms, _, _ = measure_errors(simulated[several_nodes.AS_INDEPENDENT][case])
    yield Band(
        "false alarms, jobs that share a node as independent",
        {case: alarms},
        high=0.1,
        control=True,
    )


def _bands_of_trainings(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of the verdicts on training, of whole loss curves, and of a test at each step."""
    ends = training_truths.count_wrong_ends(rng, effort.data_sets)
    for kind, promise in enumerate(
        (
            "training EQUIVALENT although it differs by the margin",
            "training DIFFERENT although there is no difference",
        )
    ):
        shares = {case: wrong[kind] for case, wrong in ends.items()}
        yield Band(promise, shares, high=0.055, slack=compute_slack(0.055, effort))
    yield Band(
        "loss curves called different although only chance differs",
        training_truths.count_curve_alarms(rng, effort.heavy_data_sets),
        high=0.055,
        slack=compute_slack(0.055, effort, effort.heavy_data_sets),
    )
    yield Band(
        "the same by Student's t at any step",
        {"AR(1) 0.99, 6 seeds": training_truths.count_alarms_at_any_step(rng, 500)},
        high=0.2,
        control=True,
    )


def _bands_of_several_metrics(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of plans with several decisive metrics, of which some are at their margin."""
    false = metrics_at_margin.simulate(rng, effort.data_sets, MARGIN)
    for promise, shares in (
        ("all metrics EQUIVALENT although one is at its margin", false.of_all),
        ("any metric at its margin EQUIVALENT, in a fixed order", false.in_order),
        ("the same, of several comparisons after the correction", false.among_many),
    ):
        yield Band(promise, shares, high=0.055, slack=compute_slack(0.055, effort))
    for promise, shares, high in (
        ("the same, each metric judged for itself", false.one_by_one, 0.1),
        ("the same, Holm for each metric on its own", false.among_many_by_metric, 0.06),
    ):
        yield Band(promise, shares, high=high, control=True)


def _bca_covers(rng: Any, data_sets: int, n: int) -> Array:
    """Return whether BCa intervals hold 0; in batches, because all resamples are in memory."""
    return np.concatenate(
        [
            (interval.low <= 0) & (interval.high >= 0)
            for _ in range(data_sets // BATCH)
            for interval in [
                bootstrap(
                    [rng.normal(0, 0.02, (BATCH, n)) for _ in range(2)],
                    lambda b, e, axis: e.mean(axis=axis) - b.mean(axis=axis),
                    axis=1,
                    n_resamples=1999,
                    method="BCa",
                    rng=rng,
                ).confidence_interval
            ]
        ]
    )
