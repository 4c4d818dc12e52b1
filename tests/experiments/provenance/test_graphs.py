"""Where a number comes from: whole, without open ends, readable by others, and bounded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prov.model import (
    ProvActivity,
    ProvAgent,
    ProvAssociation,
    ProvDerivation,
    ProvDocument,
    ProvEntity,
    ProvGeneration,
    ProvUsage,
)

from experiments.comparisons import read_comparison
from experiments.design import compute_hash
from experiments.execution import excluded_runs
from experiments.models import Experiment, Image, ImageImport, Run, Snapshot
from experiments.provenance import graphs
from experiments.provenance.folded_nodes import fold_nodes
from experiments.provenance.prov_graph import Node, Relation
from experiments.provenance.result_origins import OPEN_AT_ONCE, make_result
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import ImageFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def ended() -> Experiment:
    experiment = launch(containers=2, owner=UserFactory(username="maxine"))
    end_runs(experiment, metrics=("step_time", "run_time"))
    experiment.jobs.update(payload_hash="ab" * 32)
    return Experiment.objects.get(pk=experiment.pk)


def index(nodes: Sequence[Node]) -> dict[str, Node]:
    """Return the nodes by name: each is there once, and what it depends on is there."""
    names = Counter(node.id for node in nodes)
    assert [name for name, count in names.items() if count > 1] == []
    targets = {link.target for node in nodes for link in node.links}
    plans = {link.plan for node in nodes for link in node.links if link.plan}
    assert (targets | plans) - names.keys() == set()
    return {node.id: node for node in nodes}


def reach(nodes: dict[str, Node], name: str) -> set[str]:
    """Return the types of all that a node depends on."""
    reached, waiting = set[str](), [name]
    while waiting:
        if (current := waiting.pop()) not in reached:
            reached.add(current)
            waiting += [link.target for link in nodes[current].links]
    return {nodes[each].type for each in reached}


def take_document(pieces: Any) -> ProvDocument:
    """Return what a reader that is not Tare's finds in the file."""
    text = b"".join(pieces).decode()
    json.loads(text)
    document: ProvDocument = ProvDocument.deserialize(content=text, format="jsonld")
    return document


def make_base(experiment: Experiment) -> tuple[Image, Image]:
    """Give the first container's image an image from which a recipe made it."""
    container = experiment.environments.exclude(staged_image=None).order_by("pk")[0]
    image = container.staged_image.image
    base = ImageFactory(reference="base:1", tree="sha256:" + "cd" * 32)
    owner = experiment.owner
    ImageImport.objects.create(kind="recipe", reference="r", owner=owner, base=base, image=image)
    return image, base


def test_a_value_comes_from_all_that_took_part_in_it(ended: Experiment) -> None:
    image, base = make_base(ended)
    program = {"files": [{"path": "/home/x/train.py", "sha256": "ef" * 32, "bytes": 12}]}
    snapshot = Snapshot.objects.keep({"inside": {"hostname": "node0", "program": program}})
    container = ended.environments.get(staged_image__image=image)
    run = ended.runs.filter(environment=container)[0]
    Run.objects.filter(pk=run.pk).update(snapshot=snapshot)
    nodes = index(graphs.trace_run(run, "step_time"))
    (value,) = (node for node in nodes.values() if node.type == "measured value")
    assert reach(nodes, value.id) == {
        *("measured value", "run", "job", "job script", "code", "plan", "launch", "person"),
        *("program", "cluster account", "cluster", "node", "environment", "image", "workload"),
        *("snapshot", "program file"),
    }
    assert nodes["plan"].details["sha256"] == ended.plan_hash
    (workload,) = (node for node in nodes.values() if node.type == "workload")
    (planned,) = ended.plan["workloads"].values()
    assert workload.details["sha256 of its parameters"] == compute_hash(planned["parameters"])
    digests = {node.details["digest"] for node in nodes.values() if node.type == "image"}
    assert digests == {image.digest, base.digest}
    assert nodes["person-maxine"].title == "maxine"
    (file,) = (node for node in nodes.values() if node.type == "program file")
    assert (file.title, file.details["sha256"]) == ("train.py", "ef" * 32)


@pytest.mark.parametrize("hidden", ["private", "groups"])
def test_of_images_that_not_all_members_may_view_the_digest_alone_is_told(
    ended: Experiment, hidden: str
) -> None:
    image, base = make_base(ended)
    staged = ended.environments.get(staged_image__image=image).staged_image
    assert staged
    type(staged).objects.filter(pk=staged.pk).update(tree="sha256:" + "9a" * 32)
    texts = ("ours:secret", "sha256:" + "ab" * 32, "base:1", base.tree, "sha256:" + "9a" * 32)
    Image.objects.filter(pk=image.pk).update(reference=texts[0], tree=texts[1])
    for visibility, is_told in (("members", True), (hidden, False)):
        Image.objects.filter(pk__in=[image.pk, base.pk]).update(visibility=visibility)
        document = b"".join(graphs.write_graph(ended, read_comparison(ended))).decode()
        assert [text in document for text in texts] == [is_told] * len(texts)
        assert image.digest in document
        assert base.digest in document
    run = ended.runs.filter(environment__staged_image__image=image)[0]
    pages = {node.page for node in graphs.trace_run(run, "step_time") if node.type == "image"}
    assert pages == {None}


def test_a_result_rests_on_the_runs_that_its_pair_was_computed_from(ended: Experiment) -> None:
    comparison = read_comparison(ended)
    pair = comparison.groups[0].pairs[0]
    result = make_result(comparison, 1, 1, 1)
    assert len(result.runs) == 2 * pair.n_blocks
    nodes = index(graphs.trace_result(ended, result))
    groups = [node for node in nodes.values() if node.type == "runs"]
    assert [(node.details["runs"], node.details["blocks"]) for node in groups] == [(5, 5)] * 2
    (verdict,) = (node for node in nodes.values() if node.type == "verdict")
    assert verdict.title == str(pair.verdict)
    assert {"ratio", "comparison", "method", "values", "runs", "plan", "person"} < reach(
        nodes, verdict.id
    )
    (ratio,) = (node for node in nodes.values() if node.type == "ratio")
    assert ratio.details["ratio"] == pair.ratio
    assert (ratio.details["interval from"], ratio.details["interval to"]) == pair.ci95


def test_a_block_that_lacks_a_side_is_no_part_of_it(ended: Experiment) -> None:
    environments = read_comparison(ended).environments
    first = ended.runs.filter(environment__name=environments[1], repeat=1)
    first.update(state=Run.State.FAILED)
    comparison = read_comparison(Experiment.objects.get(pk=ended.pk))
    result = make_result(comparison, 1, 1, 1)
    assert len(result.runs) == 2 * comparison.groups[0].pairs[0].n_blocks


def test_an_excluded_run_is_in_it_with_who_excluded_it(ended: Experiment) -> None:
    person = UserFactory(username="otto")
    run = ended.runs.filter(environment=ended.baseline_id)[0]
    assert excluded_runs.exclude(run, person, "the fan had stopped")
    comparison = read_comparison(Experiment.objects.get(pk=ended.pk))
    result = make_result(comparison, 1, 1, 1)
    assert result.excluded == (run.uid,)
    nodes = index(graphs.trace_result(ended, result))
    decisions = [node for node in nodes.values() if node.type == "decision"]
    assert "the fan had stopped" in {node.details["because"] for node in decisions}
    assert "person-otto" in nodes
    informants = [link.target for link in nodes["comparison"].links]
    assert {node.id for node in decisions} <= set(informants)
    assert f"run-{run.uid}" in nodes


def test_the_file_of_an_experiment_is_prov_and_has_every_run_and_value(ended: Experiment) -> None:
    comparison = read_comparison(ended)
    document = take_document(graphs.write_graph(ended, comparison))
    records = list(document.get_records())
    kinds = Counter(type(record) for record in records)
    names = {str(record.identifier) for record in records if record.identifier}
    runs = list(ended.runs.values_list("uid", flat=True))
    assert {f"study:run-{uid}" for uid in runs} <= names
    assert {f"study:value-{uid}-step_time" for uid in runs} <= names
    assert kinds[ProvAgent] == 3
    assert kinds[ProvActivity] == 1 + len(runs) + ended.jobs.count() + 1
    ratios = [name for name in names if name.startswith("study:ratio")]
    derived = Counter(
        str(record.args[0]) for record in records if isinstance(record, ProvDerivation)
    )
    assert {name: derived[name] for name in ratios} == dict.fromkeys(
        ratios, 2 * comparison.groups[0].pairs[0].n_blocks
    )
    used_names = {
        str(argument)
        for record in records
        if isinstance(record, ProvUsage | ProvGeneration | ProvDerivation | ProvAssociation)
        for argument in record.args
        if str(argument).startswith("study:")
    }
    elements = {
        str(record.identifier)
        for record in records
        if isinstance(record, ProvEntity | ProvActivity | ProvAgent)
    }
    assert used_names <= elements
    values = {
        str(record.identifier): record.get_attribute("tare:value")
        for record in records
        if str(record.identifier).startswith("study:value-")
    }
    stored = ended.runs.get(uid=runs[0]).measurements.get(metric="step_time").value
    (value,) = values[f"study:value-{runs[0]}-step_time"]
    assert float(value) == stored


def test_the_file_of_one_run_is_prov_with_numbers_that_json_lacks(ended: Experiment) -> None:
    run = ended.runs.all()[0]
    run.measurements.filter(metric="step_time").update(value=float("nan"))
    document = take_document(graphs.write_graph_of_run(graphs.trace_run(run), ended))
    (value,) = document.get_record(f"study:value-{run.uid}-step_time")
    assert str(next(iter(value.get_attribute("tare:value")))) == "nan"


def test_many_runs_are_few_nodes_and_a_part_of_them_can_be_opened(ended: Experiment) -> None:
    result = make_result(read_comparison(ended), 1, 1, 1)
    few = graphs.trace_result(ended, result)
    experiment = launch(repeats=40)
    end_runs(experiment)
    experiment = Experiment.objects.get(pk=experiment.pk)
    comparison = read_comparison(experiment)
    result = make_result(comparison, 1, 1, 1)
    with CaptureQueriesContext(connection) as asked:
        many = graphs.trace_result(experiment, result)
    index(many)
    assert len(many) <= len(few)
    assert len(asked) <= 16
    baseline = str(experiment.baseline_id)
    opened = graphs.trace_result(experiment, result, opened=baseline, first=7)
    index(opened)
    runs = [node.title for node in opened if node.type == "run"]
    in_order = experiment.runs.filter(environment=experiment.baseline_id).order_by("job__block")
    shown = list(in_order.values_list("uid", flat=True))[6 : 6 + OPEN_AT_ONCE]
    assert sorted(runs) == sorted(f"Run {uid[:8]}" for uid in shown)
    rest = [node for node in opened if node.type == "runs"]
    assert sorted(node.details["runs"] for node in rest) == [34, 40]
    assert any(node.page and node.page.key == f"open={baseline}&from=13" for node in rest)


def test_of_many_workloads_groups_are_of_environments_alone() -> None:
    experiment = launch(workloads=8, repeats=2)
    end_runs(experiment)
    experiment = Experiment.objects.get(pk=experiment.pk)
    nodes = index(graphs.trace_study(experiment, read_comparison(experiment)))
    assert [node.details["runs"] for node in nodes.values() if node.type == "runs"] == [16, 16]
    assert [node.title for node in nodes.values() if node.type == "workloads"] == ["8 workloads"]
    assert [node.title for node in nodes.values() if node.type == "results"] == [
        "8 ratios and verdicts"
    ]


def test_what_a_node_says_of_its_program_is_not_believed_to_have_a_shape(
    ended: Experiment,
) -> None:
    odd: list[Any] = ["text", {"files": "x"}, {"files": [1, {"sha256": 3}], "checkouts": [2]}]
    run = ended.runs.all()[0]
    for program in odd:
        snapshot = Snapshot.objects.keep({"inside": {"program": program}})
        Run.objects.filter(pk=run.pk).update(snapshot=snapshot)
        nodes = graphs.trace_run(run)
        assert not [node for node in nodes if node.type == "program file"]


def test_many_nodes_of_a_kind_are_drawn_as_one(ended: Experiment) -> None:
    run = ended.runs.all()[0]
    for number in range(9):
        run.measurements.create(metric=f"m{number}", value=1.0, unit="s")
    nodes = graphs.trace_run(run)
    folded = index(fold_nodes(nodes))
    assert [n.title for n in folded.values() if n.type == "measured value"] == [
        "11 measured values"
    ]
    (values,) = (node for node in folded.values() if node.type == "measured value")
    assert [(link.relation, link.target) for link in values.links] == [
        (Relation.GENERATED_BY, f"run-{run.uid}")
    ]
