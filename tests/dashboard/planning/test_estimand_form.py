"""The form: what verdicts are to speak of, and blocks on nodes of their own."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.planning.experiment_forms import ExperimentForm
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.models import Cluster, Experiment, Run
from experiments.presets.own_presets import describe_definition
from tests.dashboard.conftest import People, Site, measured
from tests.dashboard.planning.test_form import HTMX, NEW, asked, problems
from tests.factories import ExperimentFactory, block

pytestmark = pytest.mark.django_db

SPREAD = {"estimand": "partition", "spreads_nodes": "on"}


@pytest.fixture
def on_slurm(site: Site) -> Site:
    """The site's cluster with Slurm and a partition of eight nodes."""
    site.cluster.scheduler = "slurm"
    site.cluster.save()
    site.partition.nodes = 8
    site.partition.save()
    return site


def preview(client: Client, site: Site, **changes: Any) -> str:
    page = client.post(NEW, asked(site, **changes), headers=HTMX).content.decode()
    return " ".join(page.split())


@pytest.mark.parametrize(
    ("scheduler", "nodes", "estimand", "spreads"),
    [
        ("slurm", 5, "partition", True),
        ("slurm", 4, "nodes", False),
        ("grid_engine", 50, "nodes", False),
        ("direct", 1, "nodes", False),
    ],
)
def test_the_partition_is_proposed_where_blocks_can_be_spread_over_enough_nodes(
    site: Site, people: People, scheduler: str, nodes: int, estimand: str, spreads: bool
) -> None:
    site.cluster.scheduler = scheduler
    site.cluster.save()
    site.partition.nodes = nodes
    site.partition.save()
    form = ExperimentForm(user=people.owner)
    assert len(form["estimand"].subwidgets) == 2, "there is no button for none"
    assert (form["estimand"].value(), bool(form["spreads_nodes"].value())) == (estimand, spreads)


def test_the_choice_is_saved_copied_and_frozen(as_owner: Client, on_slurm: Site) -> None:
    as_owner.post(NEW, asked(on_slurm, **SPREAD) | {"action": "launch"})
    launched = Experiment.objects.get()
    assert launched.plan
    assert (launched.plan["estimand"], launched.plan["one_block_a_node"]) == ("partition", True)
    page = as_owner.get(launched.get_absolute_url() + "?tab=plan").content.decode()
    assert "one block a node" in page
    settings = describe_definition(launched)["settings"]
    assert (settings["estimand"], settings["spreads_nodes"]) == ("partition", True)
    as_owner.post(reverse("experiment_clone", args=[launched.pk]))
    copy = Experiment.objects.exclude(pk=launched.pk).get()
    assert (copy.estimand, copy.spreads_nodes) == ("partition", True)
    edited = as_owner.get(f"{copy.get_absolute_url()}edit/").content.decode()
    assert re.search(r'value="partition"[^>]* checked', edited)


def test_blocks_are_not_spread_over_one_node(as_owner: Client, on_slurm: Site) -> None:
    on_slurm.partition.nodes = 1
    on_slurm.partition.save()
    wrong = problems(as_owner, on_slurm, **SPREAD)
    assert "has one node: every block runs there" in wrong["spreads_nodes"][0]


def test_blocks_that_are_carried_by_hand_are_not_kept_off_the_nodes_of_others(
    as_owner: Client, on_slurm: Site, people: People
) -> None:
    """Each would wait for the results of the one before: a way to the machine for each block."""
    Cluster.objects.filter(pk=on_slurm.cluster.pk).update(transport="by_hand")
    form = ExperimentForm(user=people.owner)
    assert (form["estimand"].value(), form["spreads_nodes"].value()) == ("nodes", False)
    why = "somebody would have to go there once for each block"
    assert why in problems(as_owner, on_slurm, **SPREAD)["spreads_nodes"][0]
    draft = ExperimentFactory(
        cluster=Cluster.objects.get(pk=on_slurm.cluster.pk),
        partition=on_slurm.partition,
        owner=people.owner,
        estimand="partition",
        spreads_nodes=True,
    )
    with pytest.raises(lifecycle.NotLaunchable, match=why):
        lifecycle.launch(draft, people.owner)


def test_where_nothing_is_chosen_verdicts_speak_of_this_node(
    as_owner: Client, on_slurm: Site
) -> None:
    as_owner.post(NEW, asked(on_slurm) | {"action": "save"})
    assert Experiment.objects.get().estimand == "nodes"


def test_a_draft_from_before_the_choice_is_not_one_about_the_partition(
    on_slurm: Site, people: People
) -> None:
    draft = ExperimentFactory(
        cluster=on_slurm.cluster, partition=on_slurm.partition, owner=people.owner, estimand=""
    )
    assert ExperimentForm(user=people.owner, instance=draft)["estimand"].value() == "nodes"


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({"estimand": "partition"}, True),
        ({"estimand": "partition", "spreads_nodes": "on"}, True),
        ({"estimand": "nodes"}, False),
    ],
)
def test_several_analyses_on_the_same_nodes_are_refused_for_a_partition(
    as_owner: Client, on_slurm: Site, changes: dict[str, str], is_refused: bool
) -> None:
    def is_refused_on(nodes: int) -> bool:
        on_slurm.partition.nodes = nodes
        on_slurm.partition.save()
        form = asked(on_slurm, repeats="10", looks="2", **changes)
        page = as_owner.post(NEW, form | {"action": "save"}).content.decode()
        return "a node of its own for each of the 10 blocks" in page

    assert is_refused_on(9) == is_refused
    assert is_refused_on(10) == (is_refused and "spreads_nodes" not in changes)


def test_blocks_are_not_spread_where_that_cannot_be(as_owner: Client, on_slurm: Site) -> None:
    wrong = problems(as_owner, on_slurm, design="independent", **SPREAD)
    assert "Choose the paired design" in wrong["spreads_nodes"][0]
    on_slurm.cluster.scheduler = "grid_engine"
    on_slurm.cluster.save()
    wrong = problems(as_owner, on_slurm, **SPREAD)
    assert "Grid Engine cannot keep a job off nodes" in wrong["spreads_nodes"][0]


@pytest.mark.parametrize(
    ("changes", "nodes", "words"),
    [
        ({"spreads_nodes": ""}, 8, "its scheduler may send every block to one node"),
        ({}, 3, "will rest on 3 nodes at most and be stamped FEW NODES"),
        ({}, 1, "every block will be on one node"),
    ],
)
def test_what_stands_against_a_verdict_on_the_partition_is_a_warning(
    as_owner: Client, on_slurm: Site, changes: dict[str, str], nodes: int, words: str
) -> None:
    on_slurm.partition.nodes = nodes
    on_slurm.partition.save()
    assert words in preview(as_owner, on_slurm, **(SPREAD | changes))
    assert words not in preview(as_owner, on_slurm, **(SPREAD | changes | {"estimand": "nodes"}))


def test_without_a_warning_where_nodes_are_enough(as_owner: Client, on_slurm: Site) -> None:
    assert "<h2>Warnings</h2>" not in preview(as_owner, on_slurm, **SPREAD)


def test_the_planner_counts_nodes_for_the_partition(
    as_owner: Client, on_slurm: Site, people: People
) -> None:
    words = preview(as_owner, on_slurm, repeats="12", **SPREAD)
    assert "with the usual CV of 1 %, 8 nodes can prove" in words, "the partition has no more"
    assert "from node to node is not known here yet" in words
    past = measured(on_slurm, people.owner, blocks=0)
    for repeat in range(1, 31):
        apart = 0.03 * (repeat % 10) / 10
        values = {on_slurm.bare: 0.02, on_slurm.container: 0.02 * math.exp(apart)}
        block(past, repeat, values)
        Run.objects.filter(experiment=past, repeat=repeat).update(node=f"n{repeat % 10}")
    words = preview(as_owner, on_slurm, repeats="6", **SPREAD)
    assert "6 nodes can prove" in words
    assert "The CV is that of the ratio, from node to node." in words
    assert "from block to block" in preview(as_owner, on_slurm, repeats="6", estimand="nodes")


def test_a_launched_plan_decides_what_its_verdicts_speak_of(
    results: Experiment, as_owner: Client
) -> None:
    for repeat in range(1, 6):
        Run.objects.filter(experiment=results, repeat=repeat).update(node=f"n{repeat}")
    assert compare_experiment(results).pairs[0].scope == ""
    results.estimand = "partition"
    pair = compare_experiment(results).pairs[0]
    assert (pair.by_node, pair.n_nodes, pair.scope) == (True, 5, "on this partition")
