"""The pages of a large site: their addresses, and rows for those that a large site lacks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.large_site import BEGIN

if TYPE_CHECKING:
    from experiments.models import User

CURVE_REPEATS, CURVE_STEPS = 10, 1000
CURVES = {
    "step_time": "s",
    "loss": "1",
    "images_per_second": "1/s",
    "gradient_norm": "1",
    "learning_rate": "1",
}
"""The series of each run of the experiment that is all about curves: 20 runs, 1,000 steps each."""
MANY_REPEATS, FEW_STEPS = 400, 20
"""Of the experiment of 20,000 runs."""
SHOWN = 60
"""So many of the newest experiments have a kept comparison, as a worker leaves it."""
SORTED = "/runs/?sort=-metric.step_time"
FIVE_OF_RUNS = (
    "column=metric.step_time&column=metric.import_time&column=parameter.steps"
    "&column=parameter.seed&column=fact.kernel"
)
LISTS = (
    "/runs/",
    SORTED,
    f"{SORTED}&column=state&column=metric.step_time&column=metric.import_time"
    "&column=parameter.steps&column=fact.kernel",
    "/runs/?sort=metric.step_time&where=metric.step_time>=0.19&where=state=succeeded",
    "/runs/?sort=-parameter.seed&column=parameter.seed",
    "/runs/?sort=-fact.kernel&column=fact.kernel",
    "/runs/?where=parameter.seed=7",
    "/runs/?where=fact.kernel=6.1.3",
    "/runs/?sort=node",
    "/runs/?sort=duration",
    "/runs/?sort=question",
    "/runs/?state=failed",
    "/runs/?page=20",
    "/runs/?q=0123",
    "/experiments/?state=ended",
    "/experiments/?state=alive",
    "/experiments/?sort=-changed",
    "/experiments/?column=workloads&column=environments&column=changed&column=verdicts",
    "/experiments/?sort=-metric.step_time&column=metric.step_time",
    "/experiments/?sort=-parameter.seed",
    "/experiments/?sort=fact.kernel",
    f"/experiments/?{FIVE_OF_RUNS}",
    "/experiments/?where=metric.step_time>0",
    "/experiments/?where=fact.kernel!=6.1.3",
    f"/experiments/?{FIVE_OF_RUNS}&sort=-parameter.seed"
    "&where=metric.step_time>0.1&where=fact.kernel~6&where=parameter.seed>=0",
    "/compare/?tab=tables",
    "/catalogue/?tab=environments",
    "/catalogue/?tab=workloads",
    "/search/?q=cost",
    "/search/results/?q=question%200123",
    "/search/results/?q=zzyzx",
)
TABS = ("jobs", "plan", "events")
SECTIONS = (
    "verdicts",
    "runs",
    "blocks",
    "run_order",
    "equivalence",
    "bars",
    "sides",
    "anatomy",
    "full_results",
    "warm_up",
    "robustness",
    "methods",
)
NO_PAGES = {"logout", "link"}


@dataclass(frozen=True)
class Address:
    """What is fetched, and as what it is judged."""

    path: str
    kind: str
    """One of the goals' names: "list", "page", "comparison", "curves", "live" or "file"."""
    headers: dict[str, str] = field(default_factory=dict)


def list_addresses(person: User) -> Iterator[Address]:
    """Yield every page that can be fetched, of a site that `fill_large_site` has filled.

    What the site lacks, such as images, tables and keys, is made.
    """
    from django.urls import reverse

    from tests.dashboard.access.test_roles import GET, RULES

    own = _make_rows(person)
    for name, (method, subject, _) in RULES.items():
        if method == GET and name not in NO_PAGES:
            path = reverse(name, args=own[subject])
            is_file = "." in path.rpartition("/")[2] or name in ("document_picture", "gate_script")
            yield Address(path, "file" if is_file and name != "report" else "page")
    for path in LISTS:
        yield Address(path, "list" if path.startswith(SORTED) else "page")
    experiment = reverse("experiment", args=own["results"])
    for tab in TABS:
        yield Address(f"{experiment}?tab={tab}", "page")
    (many,) = own["many runs"]
    comparison = reverse("comparison", args=[many])
    for query in ("", *(f"?section={section}" for section in SECTIONS)):
        yield Address(comparison + query, "comparison")
    yield Address(reverse("experiment", args=[many]), "page")
    curves = reverse("comparison_steps", args=own["curves"])
    yield Address(curves, "curves")
    yield Address(f"{curves}?chart=losses", "curves")
    yield Address(reverse("comparison", args=own["curves"]), "curves")
    yield from _list_live_parts(own)


def _list_live_parts(own: dict[str, list[Any]]) -> Iterator[Address]:
    from django.urls import reverse

    live = {"hx-request": "true"}
    (alive,) = own["alive"]
    for path in (
        reverse("overview"),
        reverse("experiment", args=[alive]),
        reverse("comparison", args=[alive]) + "?part=live&shown=1",
        reverse("comparison", args=own["many runs"]) + "?part=live&shown=1",
        reverse("run", args=own["live run"]),
        reverse("operation", args=own["operation"]),
        reverse("catalogue"),
        reverse("credential", args=own["credential"]),
        reverse("image", args=own["image"]),
        reverse("operations"),
    ):
        yield Address(path, "live", live)
    yield Address(reverse("operations"), "page", live | {"hx-target": "operations-details"})


def _make_rows(person: User) -> dict[str, list[Any]]:
    """Return the arguments of addresses by what they name: rows of the large site, or made now."""
    from django.utils import timezone

    from experiments.comparisons import keep_comparison
    from experiments.execution.stored_values import store_changed_values
    from experiments.models import Cluster, Experiment, Run
    from experiments.planning.freeze import freeze_definition
    from tests.dashboard.access.test_roles import make_own_rows
    from tests.dashboard.conftest import Site
    from tests.factories import ContainerFactory, EnvironmentFactory, PartitionFactory
    from tests.factories import WorkloadFactory as Workloads

    cluster = Cluster.objects.order_by("pk")[0]
    Cluster.objects.filter(pk=cluster.pk).update(last_tick_at=timezone.now())
    partition = PartitionFactory(cluster=cluster, name="gpu", gpus_per_node=2)
    bare = EnvironmentFactory(cluster=cluster, name="bare", owner=person)
    container = ContainerFactory(cluster=cluster, name="container", owner=person)
    site = Site(cluster, partition, bare, container, Workloads(owner=person))
    own = make_own_rows(site, person)
    visible = Experiment.objects.filter(visibility="members", question__contains="Question")
    newest = list(visible.order_by("-launched_at")[:SHOWN])
    alive, results, other = newest[:3]
    Experiment.objects.filter(pk=results.pk).update(plan=freeze_definition(results, 1))
    curves, many = make_experiment_of_curves(person), _make_experiment_of_many_runs(person)
    runs = list(results.runs.order_by("pk")[:2])
    for pk in (*(row.pk for row in newest), *own["results"], curves, many):
        keep_comparison(pk)
    while store_changed_values():  # as a worker does, too
        pass
    job = alive.jobs.order_by("-pk")[0]
    type(job).objects.filter(pk=job.pk).update(state="running", ended_at=None)
    Run.objects.filter(job=job).update(state=Run.State.RUNNING, ended_at=None)
    return own | {
        "results": [results.pk],
        "two experiments": [results.pk, other.pk],
        "two runs": [run.uid for run in runs],
        "run": [runs[0].uid],
        "visibility": ["experiment", own["results"][0]],
        "cluster": own["cluster"],
        "environment": [results.baseline_id],
        "curves": [curves],
        "many runs": [many],
        "alive": [alive.pk],
        "live run": [job.runs.order_by("pk")[0].uid],
    }


def _make_experiment_of_many_runs(person: User) -> int:
    from benchmarks.comparison_page import make_experiment
    from experiments.models import Experiment

    pk = make_experiment(MANY_REPEATS, steps=FEW_STEPS)
    # Older than the others: the overview shows usual ones.
    Experiment.objects.filter(pk=pk).update(owner=person, launched_at=BEGIN)
    return pk


def make_experiment_of_curves(person: User) -> int:
    """Make an experiment of 20 runs, each with five series of 1,000 steps; return its key."""
    from experiments.comparisons.step_summaries import add_step_summary
    from experiments.models import Experiment, Series
    from tests.dashboard.conftest import Site, measured
    from tests.factories import (
        ClusterFactory,
        ContainerFactory,
        EnvironmentFactory,
        PartitionFactory,
        WorkloadFactory,
    )

    draw = random.Random(3)
    cluster = ClusterFactory(name="of curves", owner=person)
    site = Site(
        cluster,
        PartitionFactory(cluster=cluster),
        EnvironmentFactory(cluster=cluster, name="bare metal of curves"),
        ContainerFactory(cluster=cluster, name="container of curves"),
        WorkloadFactory(kind="cnn"),
    )
    experiment = measured(site, person, blocks=CURVE_REPEATS, visibility="public")
    Experiment.objects.filter(pk=experiment.pk).update(launched_at=BEGIN)
    Series.objects.bulk_create(
        add_step_summary(Series(run=run, metric=metric, unit=unit, values=values))
        for run in experiment.runs.all()
        for metric, unit in CURVES.items()
        for values in [[draw.lognormvariate(0, 0.1) for _ in range(CURVE_STEPS)]]
    )
    return int(experiment.pk)
