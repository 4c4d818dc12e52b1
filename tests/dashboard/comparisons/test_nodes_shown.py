"""Page, report, LaTeX and data files say on how many nodes a verdict rests, and what it is of."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.comparisons.latex import results_table
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.nodes_in_methods import describe_nodes
from dashboard.comparisons.rule_in_methods import describe_family
from dashboard.comparisons.verdict_matrix import make_verdict_matrix
from experiments.comparisons import Comparison, Group, compare_experiment
from experiments.fact_comparison import compare_runs
from experiments.models import Experiment, Run
from experiments.statistics import Estimand, Measured, Pair
from experiments.statistics.attribution import attribute
from tests.dashboard.access.test_links import body, visitor
from tests.dashboard.conftest import read_report
from tests.experiments.statistics.test_across_configurations import on_nodes
from tests.factories import link_to


@pytest.fixture
def on_two_nodes(results: Experiment) -> Experiment:
    """Five blocks, of which the first two ran on gpu-01.site and the others on gpu-02.site."""
    Run.objects.filter(experiment=results).update(node="gpu-02.site")
    Run.objects.filter(experiment=results, repeat__lte=2).update(node="gpu-01.site")
    return results


@pytest.mark.django_db
def test_wherever_a_verdict_stands_its_nodes_are_counted(
    on_two_nodes: Experiment, as_owner: Client
) -> None:
    comparison = compare_experiment(on_two_nodes)
    assert "5 blocks on 2 nodes, counted as independent)" in comparison.pairs[0].sentence
    methods = " ".join(describe_methods(comparison))
    assert "Each comparison rests on blocks from 2 nodes; blocks that share a node" in methods
    assert "kept off the nodes" not in methods
    on_two_nodes.spreads_nodes = True
    assert "kept off the nodes" in " ".join(describe_methods(compare_experiment(on_two_nodes)))
    assert make_verdict_matrix(comparison).size == "5 blocks on 2 nodes"
    assert any("& 5 blocks on 2 nodes &" in line for line in results_table(comparison))
    page = read_report(as_owner, on_two_nodes)
    assert "FEW NODES" in page
    assert '<small class="muted">2 nodes</small>' in page
    printed = as_owner.get(reverse("report", args=[on_two_nodes.pk])).content.decode()
    assert '<span class="muted">2 nodes</span>' in printed


@pytest.mark.django_db
def test_data_files_have_the_nodes_in_columns_of_their_own(
    on_two_nodes: Experiment, as_owner: Client
) -> None:
    answer = as_owner.get(reverse("comparison_csv", args=[on_two_nodes.pk]))
    (row,) = csv.DictReader(io.StringIO(body(answer).lstrip("\ufeff")))
    assert (row["n_nodes"], row["nodes"], row["estimand"], row["dropped_nodes"]) == (
        "2",
        "gpu-01.site; gpu-02.site",
        "",
        "",
    )
    answer = as_owner.get(reverse("comparison_json", args=[on_two_nodes.pk]))
    (pair,) = json.loads(body(answer))["comparison"]
    assert (pair["n_nodes"], pair["estimand"], pair["n_blocks"]) == (2, None, 5)


@pytest.mark.django_db
def test_whoever_reads_by_an_anonymous_link_sees_no_name_of_a_node(
    on_two_nodes: Experiment, as_owner: Client
) -> None:
    Run.objects.filter(experiment=on_two_nodes).update(node="gpu-02.site")
    assert "on node gpu-02.site" in read_report(as_owner, on_two_nodes)
    reader = visitor(link_to(on_two_nodes, hides_names=True))
    page = read_report(reader, on_two_nodes)
    assert "on node node-1" in page
    assert "gpu-02" not in page


def pair(**values: object) -> Pair:
    known = {"n_blocks": 8, "n_nodes": 8} | values
    return replace(
        Pair(
            baseline="bare", environment="box", unit="s", better="lower", margin=0.02, paired=True
        ),
        **known,  # type: ignore[arg-type]
    )


def test_methods_say_what_the_plan_has_the_verdicts_speak_of() -> None:
    partition, counted = describe_nodes([pair(estimand=Estimand.PARTITION)])
    assert partition.startswith("By the plan the verdicts speak of the partition:")
    assert counted == "Each comparison rests on blocks from 8 nodes."
    few = [pair(estimand=Estimand.PARTITION, n_nodes=3), pair(estimand=Estimand.PARTITION)]
    assert "3 to 8 nodes; fewer than 5 tell little" in " ".join(describe_nodes(few))
    these, shared = describe_nodes([pair(estimand=Estimand.NODES, n_nodes=2)])
    assert "and not of other nodes of the partition" in these
    assert "count as independent" in shared


def compare_on(*pairs: Pair) -> Comparison:
    metric = Measured("step_time", "s", "lower", "step time")
    groups = [
        Group({"scale": f"1x{number}"}, metric, [], [each]) for number, each in enumerate(pairs)
    ]
    return Comparison("1", "", 0.02, True, ["bare", "box"], groups)


def test_methods_say_where_configurations_are_not_independent() -> None:
    shared = describe_family(compare_on(on_nodes(1), on_nodes(2)))
    assert (
        " Not so of box, whose configurations ran on the same nodes: the standard error of its "
        "mean is the mean of theirs, the largest that it can be."
    ) in shared
    apart = describe_family(compare_on(on_nodes(1), on_nodes(2, first=6)))
    assert "takes the configurations as independent" in apart
    assert "same nodes" not in apart
    facts = compare_runs([{"CPU": "a"}], [{"CPU": "b"}])
    open_question = describe_family(compare_on(attribute(on_nodes(1), facts), on_nodes(2)))
    assert "Of box there is none, nor that p" in open_question
    assert "same nodes" not in open_question


def test_methods_say_nothing_of_nodes_that_nobody_knows() -> None:
    assert list(describe_nodes([pair(n_nodes=0)])) == []
    assert "of 1 the nodes are not known" in " ".join(describe_nodes([pair(n_nodes=0), pair()]))


def test_sets_of_nodes_are_called_so_in_the_methods() -> None:
    pair = replace(on_nodes(1), nodes=("a and b", "c and d"), n_nodes=2)  # type: ignore[no-untyped-call]
    text = " ".join(describe_nodes([pair]))
    assert " from 2 sets of nodes; jobs on several nodes with any of them in common count" in text
    alone = replace(pair, nodes=("a", "b"))
    assert "sets" not in " ".join(describe_nodes([alone]))
