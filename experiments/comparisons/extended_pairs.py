"""Comparisons of an experiment that was extended after an inconclusive verdict."""

from __future__ import annotations

from dataclasses import replace

from experiments.models import Experiment
from experiments.planning.interim import Stage
from experiments.statistics import Pair, Stamp
from experiments.statistics.claims import choose_wording, name_goal
from experiments.statistics.extended import Extended
from experiments.statistics.extension_levels import compute_error_rates


def list_extended_places(experiment: Experiment) -> set[tuple[int, str]]:
    """Return the configurations, workload and scale, that got further blocks; one query at most."""
    if not experiment.extended_repeats:
        return set()
    added = experiment.runs.order_by().filter(repeat__gt=experiment.repeats)
    return set(added.values_list("workload", "scale").distinct())


def make_extended(stage: Stage) -> Extended | None:
    """Return what each pair of an extended configuration knows of it; None for any other one."""
    if not stage.extended_by:
        return None
    return Extended(
        planned=stage.after_repeats[0], added=stage.extended_by, level=stage.extension_level
    )


def stamp_extended(pair: Pair, first: Pair | None) -> Pair:
    """Return the pair, stamped if it was judged after an extension, with its true error rates.

    `first` is the same pair after the planned repeats; None where this is the first verdict.
    """
    if pair.extension is None or first is None:
        return pair
    known, added = first.count_to_infer, pair.count_to_infer - first.count_to_infer
    extension = pair.extension
    if added > 0:
        rates = compute_error_rates(known, added, extension.level, paired=pair.paired)
        extension = replace(extension, error_difference=rates.difference, error_goal=rates.goal)
    wording = choose_wording([pair])
    detected = f"{wording.more} or {wording.less}"
    reason = extension.describe_reservation(name_goal(pair.goal, wording), detected)
    return replace(
        pair,
        extension=extension,
        stamps=(*pair.stamps, Stamp.EXTENDED),
        reasons=(*pair.reasons, reason),
    )
