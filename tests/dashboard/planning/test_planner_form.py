"""What the form says, before launch, about what the planned repeats can show."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from django.test import Client

from experiments.models import Environment, Experiment, Run
from experiments.planning.past_spread import measure_past_spread
from tests.dashboard.conftest import People, Site, measured
from tests.dashboard.planning.test_form import HTMX, NEW, asked
from tests.factories import ContainerFactory, JobFactory, LaunchedFactory, RunFactory, block

pytestmark = pytest.mark.django_db


def said(client: Client, site: Site, **changes: Any) -> str:
    """Return what the live preview says, in one line."""
    page = client.post(NEW, asked(site, **changes), headers=HTMX).content.decode()
    return " ".join(page.split())


def past(site: Site, people: People, environments: list[Environment], **kwargs: Any) -> Experiment:
    experiment: Experiment = LaunchedFactory(
        owner=people.other,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[site.workload],
        environments=environments,
        **kwargs,
    )
    return experiment


def blocks(experiment: Experiment, logs: dict[Environment, list[float]]) -> None:
    for i, values in enumerate(zip(*logs.values(), strict=True)):
        block(experiment, i + 1, {e: math.exp(v) for e, v in zip(logs, values, strict=True)})


def test_without_history_the_usual_cv_is_named(as_owner: Client, site: Site) -> None:
    words = said(as_owner, site, design="independent", repeats="6")
    assert (
        "No runs of blas to go by here yet: with the usual CV of 1 %, 6 runs of each can prove "
        "1.9 %; 2 % needs 6." in words
    )
    assert "To find a true difference of 2 % takes 6." in words
    assert "Holm" not in words


def test_blocks_without_history_are_taken_to_share_nothing(as_owner: Client, site: Site) -> None:
    words = said(as_owner, site)
    assert "with the usual CV of 1 %, 5 blocks can prove 2.3 %; 2 % needs 6." in words
    assert "as if runs of one block shared nothing" in words


def test_a_long_history_is_believed(as_owner: Client, site: Site, people: People) -> None:
    draw = random.Random(1)
    bare = [draw.gauss(-4, 0.05) for _ in range(30)]
    ratios = [draw.gauss(0.1, 0.009) for _ in range(30)]
    experiment = past(site, people, [site.bare, site.container])
    blocks(
        experiment,
        {site.bare: bare, site.container: [b + r for b, r in zip(bare, ratios, strict=True)]},
    )
    found = measure_past_spread("blas", site.cluster, "step_time", people.owner).of_ratios
    assert found
    assert (found.runs, found.df) == (60, 29)
    words = said(as_owner, site)
    assert f"With CV {100 * found.sd:.2g} % (60 runs of blas on this cluster), 5 blocks" in words
    assert "that of the ratio, from block to block" in words


def test_few_runs_are_not_believed(as_owner: Client, site: Site, people: People) -> None:
    blocks(
        past(site, people, [site.bare, site.container]),
        {site.bare: [0.0, 0.0, 0.0], site.container: [0.01, 0.0, -0.01]},
    )
    words = said(as_owner, site)
    assert "With CV up to 2.1 % (6 runs of blas on this cluster), 5 blocks" in words
    assert "1 % was seen, but so few runs tend to underestimate it: 2.1 % is its 80 %" in words


def test_each_comparison_counts_for_holm(as_owner: Client, site: Site) -> None:
    words = said(as_owner, site, design="independent", scales="1x0, 1x1")
    assert "Equivalence that survives Holm among 2 comparisons takes 7." in words


def test_what_repeats_cannot_show_is_said(as_owner: Client, site: Site) -> None:
    assert "1 block can prove nothing; 2 % needs 6." in said(as_owner, site, repeats="1")
    assert "0.01 % needs more than 1,000." in said(as_owner, site, margin="0.01")


@pytest.mark.parametrize(
    "changes",
    [{"margin": "0"}, {"repeats": "none"}, {"environments": []}, {"scales": "all of them"}],
)
def test_nothing_is_said_about_a_plan_that_is_none(
    changes: dict[str, Any], as_owner: Client, site: Site
) -> None:
    assert "Statistical power" not in said(as_owner, site, **changes)


def test_it_is_there_without_javascript(as_owner: Client, site: Site) -> None:
    page = as_owner.post(NEW, asked(site) | {"action": "preview"}).content.decode()
    assert "<html" in page
    assert "5 blocks can prove" in page


def test_spread_is_that_within_cells(site: Site, people: People) -> None:
    """Environments that differ by half are no spread: variances 1 and 4 in 10,000, 2 df each."""
    experiment = past(site, people, [site.bare, site.container])
    blocks(experiment, {site.bare: [-0.01, 0, 0.01], site.container: [0.5, 0.52, 0.48]})
    found = measure_past_spread("blas", site.cluster, "step_time", people.owner)
    assert found.of_runs
    assert found.of_runs.sd == pytest.approx(math.sqrt(2.5e-4))
    assert (found.of_runs.df, found.of_runs.runs) == (4, 6)
    # Ratios 0.51, 0.52, 0.47: squares around 0.5 add up to 0.0014, with 2 df.
    assert found.of_ratios
    assert found.of_ratios.sd == pytest.approx(math.sqrt(0.0007))
    assert (found.of_ratios.df, found.of_ratios.runs) == (2, 6)


def test_a_third_environment_adds_to_what_is_known(site: Site, people: People) -> None:
    """The mean of the variances of all three log-ratios, without counting the baseline twice."""
    third = ContainerFactory(name="udocker", cluster=site.cluster)
    logs = {site.bare: [0.0, 0.01, -0.01], site.container: [0.02, 0, 0.01], third: [0, 0.01, 0.03]}
    blocks(past(site, people, list(logs)), logs)
    arms = [list(map(float, values)) for values in logs.values()]
    variances = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        ratios = [x - y for x, y in zip(arms[a], arms[b], strict=True)]
        centre = sum(ratios) / 3
        variances.append(sum((ratio - centre) ** 2 for ratio in ratios) / 2)
    found = measure_past_spread("blas", site.cluster, "step_time", people.owner).of_ratios
    assert found
    assert found.sd**2 == pytest.approx(sum(variances) / 3)
    assert (found.df, found.runs) == (4, 9)


def test_fewer_than_three_runs_in_a_cell_are_no_history(site: Site, people: People) -> None:
    measured(site, people.owner, blocks=2)
    found = measure_past_spread("blas", site.cluster, "step_time", people.owner)
    assert (found.of_runs, found.of_ratios) == (None, None)


def test_identical_values_are_no_history(site: Site, people: People) -> None:
    blocks(
        past(site, people, [site.bare, site.container]),
        {site.bare: [0.0] * 5, site.container: [0.1] * 5},
    )
    found = measure_past_spread("blas", site.cluster, "step_time", people.owner)
    assert (found.of_runs, found.of_ratios) == (None, None)


def test_independent_runs_know_nothing_of_blocks(site: Site, people: People) -> None:
    experiment = past(site, people, [site.bare, site.container], design="independent")
    for i in range(6):
        environment = (site.bare, site.container)[i % 2]
        job = JobFactory(experiment=experiment, repeat=i // 2 + 1, block=i + 1)
        RunFactory(job=job, environment=environment, values={"step_time": 1 + i / 100})
    found = measure_past_spread("blas", site.cluster, "step_time", people.owner)
    assert found.of_runs
    assert found.of_runs.runs == 6
    assert found.of_ratios is None


def test_only_runs_that_count_and_may_be_read_are_history(site: Site, people: People) -> None:
    experiment = measured(site, people.other, visibility="private")
    assert measure_past_spread("blas", site.cluster, "step_time", people.owner).of_runs is None
    assert measure_past_spread("blas", site.cluster, "step_time", people.other).of_runs
    assert measure_past_spread("cnn", site.cluster, "step_time", people.other).of_runs is None
    assert measure_past_spread("blas", site.cluster, "gflops", people.other).of_runs is None
    Run.objects.filter(experiment=experiment).update(state=Run.State.EXCLUDED)
    assert measure_past_spread("blas", site.cluster, "step_time", people.other).of_runs is None
