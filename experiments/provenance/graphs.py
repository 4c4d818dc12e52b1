"""The provenance graphs that pages and files show, from the rows of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from django.db.models import Q

from experiments.comparisons import ExperimentComparison
from experiments.models import Experiment, Run
from experiments.provenance.hidden_nodes import hide_names
from experiments.provenance.make_graph import list_nodes
from experiments.provenance.origins import Result, Scope
from experiments.provenance.plan_keys import name_by_plan
from experiments.provenance.prov_graph import Node
from experiments.provenance.prov_json_ld import write_json_ld
from experiments.provenance.result_origins import (
    RunKeys,
    group_runs,
    list_results,
    read_run_keys,
)
from experiments.provenance.stored_origins import list_places, read_runs, read_study

Hide = Callable[[str], str]
HAVE_NUMBERS = (Run.State.SUCCEEDED, Run.State.EXCLUDED)
"""Of imported runs it may not be known when they began."""
MOST_EXCLUDED = 3
"""Excluded runs that a graph shows one by one."""


def trace_run(run: Run, metric: str = "", *, hide: Hide | None = None) -> list[Node]:
    """Return where the values of a run come from, or one of them."""
    metrics = [metric] if metric else []
    (origin,) = read_runs([run.pk], metrics=metrics, with_checkouts=hide is None)
    scope = Scope(
        places=(origin.place,),
        images=(origin.image,),
        runs=frozenset({origin.uid}),
        shown=frozenset({origin.uid}),
        jobs=frozenset({origin.job}),
    )
    nodes = list_nodes(read_study(run.experiment), scope, [origin])
    nodes = name_by_plan(nodes, run.experiment)
    return list(hide_names(nodes, hide) if hide else nodes)


def trace_result(
    experiment: Experiment, result: Result, *, opened: str = "", first: int = 1
) -> list[Node]:
    """Return where one result of a comparison comes from; its runs in groups.

    Of the environment with the key `opened` some runs are shown one by one, from the `first` on.
    """
    runs = read_run_keys(experiment, result.runs)
    excluded = read_run_keys(experiment, result.excluded) if result.excluded else []
    return _trace_grouped(experiment, [result], runs, excluded, opened=opened, first=first)


def trace_study(
    experiment: Experiment, comparison: ExperimentComparison, *, opened: str = "", first: int = 1
) -> list[Node]:
    """Return where all results of an experiment come from: the results as one, runs in groups."""
    results = list_results(comparison)
    excluded = read_run_keys(experiment, {uid for row in results for uid in row.excluded})
    runs = read_run_keys(experiment)
    return _trace_grouped(experiment, results, runs, excluded, opened=opened, first=first)


def _trace_grouped(
    experiment: Experiment,
    results: Sequence[Result],
    runs: Sequence[RunKeys],
    excluded: Sequence[RunKeys],
    *,
    opened: str,
    first: int,
) -> list[Node]:
    metrics = list(dict.fromkeys(row.metric for row in results))
    metric = metrics[0] if len(metrics) == 1 else ""
    groups, keys = group_runs(runs, metric=metric, opened=opened, first=first)
    if len(excluded) <= MOST_EXCLUDED:
        keys += [run.key for run in excluded]
    singles = list(read_runs(keys, metrics=metrics))
    every = [*runs, *excluded]
    scope = Scope(
        places=tuple(
            dict.fromkeys([*(row.place for row in groups), *(row.place for row in singles)])
        ),
        images=tuple(dict.fromkeys(run.image for run in every)),
        runs=frozenset(run.uid for run in every),
        shown=frozenset(run.uid for run in singles),
        jobs=frozenset(run.job for run in singles),
        folds=True,
    )
    # Of the runs in groups their values together are what results rest on.
    on_shown = [
        replace(row, runs=tuple(uid for uid in row.runs if uid in scope.shown)) for row in results
    ]
    nodes = list_nodes(read_study(experiment), scope, singles, groups, on_shown)
    return list(name_by_plan(nodes, experiment))


def write_graph(
    experiment: Experiment,
    comparison: ExperimentComparison,
    results: Sequence[Result] | None = None,
    *,
    hide: Hide | None = None,
) -> Iterator[bytes]:
    """Yield the whole graph as PROV-JSONLD, every run on its own, some of them read at a time.

    Of `results` alone, where they are given: with the runs on which these rest. Where names are
    hidden git checkouts are left out, whose commits tell who made them.
    """
    if results is None:
        results = list_results(comparison)
        rows = experiment.runs.filter(~Q(began_at=None) | Q(state__in=HAVE_NUMBERS))
    else:
        uids = {uid for row in results for uid in (*row.runs, *row.excluded)}
        rows = experiment.runs.filter(uid__in=uids)
    keys, uids_in_order, jobs = [], [], set[str]()
    in_order = rows.order_by("job__block", "position", "pk")
    for key, uid, job in in_order.values_list("pk", "uid", "job__uid"):
        keys.append(key)
        uids_in_order.append(uid)
        jobs.add(job)
    study = read_study(experiment)
    names = frozenset(uids_in_order)
    scope = Scope(
        places=list_places(experiment),
        images=tuple(study.images),
        runs=names,
        shown=names,
        jobs=frozenset(jobs),
    )
    runs = read_runs(keys, with_checkouts=hide is None)
    nodes = name_by_plan(list_nodes(study, scope, runs, results=results), experiment)
    yield from write_json_ld(hide_names(nodes, hide) if hide else nodes, study.hash)


def write_graph_of_run(nodes: Sequence[Node], experiment: Experiment) -> Iterator[bytes]:
    """Yield the graph of one run as PROV-JSONLD."""
    yield from write_json_ld(nodes, experiment.plan_hash or experiment.import_hash)
