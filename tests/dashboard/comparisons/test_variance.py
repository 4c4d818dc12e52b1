"""The panel Components of variance: what it shows of nodes, blocks, runs and steps, and advises."""

from __future__ import annotations

import json
import random
import re

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.comparisons import compare_experiment
from experiments.comparisons.variance import GroupVariance, split_groups
from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, read_report
from tests.factories import JobFactory, LaunchedFactory, RunFactory, block
from tests.starts import started

pytestmark = pytest.mark.django_db


def make_blocks(
    site: Site,
    people: People,
    *,
    nodes: int = 5,
    blocks: int = 3,
    between_nodes: float = 0.03,
    ratio_between_nodes: float = 0.0,
    **columns: object,
) -> Experiment:
    """Make an experiment whose nodes differ by 3 %, blocks by 1 % and runs by 0.5 %."""
    draw = random.Random(3)
    experiment: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[site.workload],
        environments=[site.bare, site.container],
        repeats=nodes * blocks,
        visibility="members",
        **columns,
    )
    for node in range(nodes):
        level, apart = draw.gauss(0, between_nodes), draw.gauss(0, ratio_between_nodes)
        for place in range(blocks):
            at = draw.gauss(level, 0.01)
            times = {
                environment: 0.02 * (1 + draw.gauss(at + extra, 0.005))
                for environment, extra in ((site.bare, 0.0), (site.container, 0.01 + apart))
            }
            job = block(experiment, node * blocks + place + 1, times)
            Run.objects.filter(job=job).update(node=f"gpu-{node:02}.site")
    return experiment


def split(experiment: Experiment) -> GroupVariance:
    (only,) = split_groups(compare_experiment(experiment))
    return only


def read_advice(experiment: Experiment) -> str:
    (ratio,) = split(experiment).ratios
    return ratio.advice


def test_each_level_has_its_part_and_pairing_cancels_nodes_and_blocks(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = make_blocks(site, people)
    found = split(experiment)
    for part, true in zip(found.components, (0.03, 0.01, 0.005), strict=True):
        low, high = part.sd_ci95 or (0, 0)
        assert low < true < high, part.name
    assert [part.groups for part in found.components] == [5, 15, 30]
    (ratio,) = found.ratios
    assert [part.name for part in ratio.components] == ["nodes", "blocks"]
    low, high = ratio.components[1].sd_ci95 or (0, 0)
    assert low < 0.005 * 2**0.5 < high, "What is left of a block are its two runs."
    page = read_report(as_owner, experiment)
    assert "<h2>Components of variance</h2>" in page
    assert ratio.advice in page
    assert found.pairing.startswith("Pairing cancels what nodes and blocks add to all")
    assert found.pairing in page
    (share, low, high) = map(int, re.findall(r"(\d+)(?: %|,|\])", found.pairing)[:3])
    assert low <= share <= high
    assert share > 90


def test_the_table_has_headings_for_screen_readers(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = make_blocks(site, people)
    address = reverse("comparison", args=[experiment.pk])
    page = BeautifulSoup(as_owner.get(address, {"section": "variance"}).content, "html.parser")
    (table,) = page.select("table[aria-label='blas small · 1x1 · time per step']")
    heads = [cell.get_text(" ", strip=True) for cell in table.select("tbody th")]
    assert heads[:4] == ["A run, in all environments", "nodes", "blocks", "runs"]
    assert all(cell["scope"] for cell in table.select("th"))


def test_what_one_node_or_one_block_a_node_cannot_show_is_said(
    site: Site, people: People, as_owner: Client
) -> None:
    one = make_blocks(site, people, nodes=1, blocks=8)
    assert "cannot be seen: all runs are of one node" in read_report(as_owner, one)
    assert read_advice(one).startswith("More blocks would narrow")
    assert read_advice(one).endswith("What other nodes would add cannot be seen.")
    each = make_blocks(site, people, nodes=8, blocks=1)
    assert [part.name for part in split(each).components] == ["nodes and blocks", "runs"]
    assert read_advice(each).startswith("More nodes would narrow")
    unknown = make_blocks(site, people)
    Run.objects.filter(experiment=unknown, repeat=1).update(node="")
    assert split(unknown).components[0].why_unseen == "the node of some runs is not known"


def test_where_the_ratio_differs_by_node_the_advice_is_more_nodes(
    site: Site, people: People
) -> None:
    experiment = make_blocks(site, people, ratio_between_nodes=0.03, estimand="partition")
    assert read_advice(experiment).startswith("More nodes would narrow")
    Experiment.objects.filter(pk=experiment.pk).update(estimand="nodes")
    about_these = Experiment.objects.get(pk=experiment.pk)
    assert read_advice(about_these).startswith("More blocks would narrow")
    assert "nodes" not in read_advice(about_these)


def test_independent_runs_are_told_what_pairs_would_cancel(site: Site, people: People) -> None:
    experiment = make_blocks(site, people, design="independent")
    found = split(experiment)
    assert found.ratios[0].components == []
    assert found.ratios[0].advice.startswith("More runs would narrow")
    assert found.pairing.startswith("Runs paired in one job would not have what nodes")


def test_the_steps_within_runs_have_their_part_without_being_read() -> None:
    made = started()
    comparison = compare_experiment(made.experiment)
    with CaptureQueriesContext(connection) as captured:
        (found,) = split_groups(comparison)
    assert len(captured) == 1
    assert found.steps
    assert found.steps.runs == 10
    assert found.steps_share
    assert 0 < found.steps_share <= 1
    sql = captured[0]["sql"]
    assert not re.findall(r'"values"(?! IS NULL|, 1\))', sql), "Their number alone is asked for."


def test_nothing_is_split_before_the_planned_analysis(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = make_blocks(site, people)
    job = JobFactory(experiment=experiment, repeat=16, state="planned")
    RunFactory(job=job, state="planned")
    assert split_groups(compare_experiment(experiment)) == []
    assert "Components of variance" not in read_report(as_owner, experiment)


def test_the_json_file_has_every_component(site: Site, people: People, as_owner: Client) -> None:
    experiment = make_blocks(site, people)
    document = json.loads(as_owner.get(reverse("comparison_json", args=[experiment.pk])).content)
    found = split(experiment)
    rows = [
        (row["of"], row["level"], row["sd"], row["share_ci95_high"]) for row in document["variance"]
    ]
    assert rows == [
        (of, part.levels[0], part.sd, (part.share_ci95 or (0, None))[1])
        for of, parts in (("run", found.components), ("ratio", found.ratios[0].components))
        for part in parts
    ]
    assert document["variance"][-1]["advice"] == found.ratios[0].advice
