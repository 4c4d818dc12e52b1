"""One block a node: each block is kept off the nodes of those before it, as Slurm's script says."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparisons.methods import describe_methods
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle, submitting
from experiments.execution.lifecycle import NotLaunchable
from experiments.execution.node_spreading import (
    choose_excluded_nodes,
    count_blocks_by_node,
    decide_excluded_nodes,
    exclude_waiting_for_node,
)
from experiments.execution.repairs import ANY_NODE
from experiments.execution.specs import make_job_spec
from experiments.models import Experiment, Job, Pause
from experiments.planning.freeze import freeze_definition
from runners.errors import NotNow
from runners.runner import Runner
from runners.schedulers.slurm import Slurm
from tests.conftest import finish
from tests.experiments.execution.test_attempts_by_rule import Make
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    ExperimentFactory,
    PartitionFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def spread() -> Experiment:
    """Four blocks each of two workloads, on a partition of three nodes."""
    cluster = ClusterFactory(scheduler="slurm")
    baseline = EnvironmentFactory(cluster=cluster)
    made: Experiment = ExperimentFactory(
        cluster=cluster,
        partition=PartitionFactory(cluster=cluster, nodes=3),
        baseline=baseline,
        environments=[baseline, ContainerFactory(cluster=cluster)],
        workloads=[WorkloadFactory(name="one"), WorkloadFactory(name="two")],
        repeats=4,
        spreads_nodes=True,
    )
    lifecycle.launch(made, made.owner)
    return made


def list_jobs(experiment: Experiment, workload: str = "one") -> list[Job]:
    return list(experiment.jobs.filter(workload__name=workload).order_by("block"))


def list_to_send() -> list[Job]:
    planned = Job.objects.filter(state=Job.State.PLANNED)
    return list(exclude_waiting_for_node(planned).order_by("block"))


def start(job: Job, node: str, state: str = "running") -> None:
    Job.objects.filter(pk=job.pk).update(state=state, scheduler_id=str(job.pk))
    job.runs.filter(position=0).update(node=node)


def test_the_next_block_of_a_configuration_waits_until_the_one_before_has_a_node(
    spread: Experiment,
) -> None:
    first, second, *_ = list_jobs(spread)
    (other, *_) = list_jobs(spread, "two")
    assert set(list_to_send()) == {first, other}, "configurations do not wait for each other"
    start(first, "", "queued")
    assert list_to_send() == [other]
    start(first, "n1")
    assert set(list_to_send()) == {second, other}


def test_of_ten_thousand_planned_jobs_the_first_of_each_configuration_are_found_at_once(
    spread: Experiment,
) -> None:
    """To ask of each whether another one stands before it took minutes with 36,000."""
    spread.jobs.all().delete()
    workloads = [WorkloadFactory(name=f"workload {number}") for number in range(36)]
    Job.objects.bulk_create(
        Job(
            uid=f"u{block}x{place}",
            experiment=spread,
            cluster=spread.cluster,
            workload=workload,
            scale="1x1",
            repeat=block + 1,
            block=36 * block + place,
        )
        for block in range(300)
        for place, workload in enumerate(workloads)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE experiments_job")
        cursor.execute("SET LOCAL statement_timeout = '3s'")
        assert [job.block for job in list_to_send()] == list(range(36))
        cursor.execute("SET LOCAL statement_timeout = 0")


@pytest.mark.parametrize("end", ["failed", "cancelled", "done"])
def test_a_block_that_ended_without_a_node_holds_nothing_back(spread: Experiment, end: str) -> None:
    first, second, *_ = list_jobs(spread)
    start(first, "", end)
    assert second in list_to_send()


def test_without_the_option_nothing_waits(spread: Experiment) -> None:
    Experiment.objects.update(spreads_nodes=False)
    assert len(list_to_send()) == 8
    job = Job.objects.select_related("experiment__partition").first()
    assert job
    start(job, "n1")
    *_, last = Job.objects.select_related("experiment__partition").order_by("pk")
    decide_excluded_nodes([last])
    assert last.excluded_nodes is None


def test_a_rest_that_has_to_run_on_a_node_does_not_wait(spread: Experiment) -> None:
    first, second, *_ = list_jobs(spread)
    start(first, "", "queued")
    Job.objects.filter(pk=second.pk).update(node="n1")
    assert second in list_to_send()
    second.refresh_from_db()
    decide_excluded_nodes([second])
    assert second.excluded_nodes is None


def test_the_script_names_the_nodes_of_the_blocks_before(spread: Experiment) -> None:
    first, second, third, fourth = list_jobs(spread)
    start(first, "n1", "done")
    start(second, "n2")
    start(list_jobs(spread, "two")[0], "n3")
    Job.objects.filter(pk=third.pk).update(avoided_nodes="bad")
    third.refresh_from_db()
    decide_excluded_nodes([third])
    assert third.excluded_nodes == ["n1", "n2"]
    header = Slurm().render_header(make_job_spec(third))
    assert "#SBATCH --exclude=bad,n1,n2" in header
    start(third, "n3")
    decide_excluded_nodes([fourth])
    assert fourth.excluded_nodes is None, "all nodes have one: any will do"


def test_runs_of_one_job_are_one_block_and_its_own_node_is_not_excluded(spread: Experiment) -> None:
    first, second, *_ = list_jobs(spread)
    first.runs.update(node="n1")
    assert count_blocks_by_node(second) == {"n1": 1}
    assert count_blocks_by_node(first) == {}


def test_a_further_attempt_decides_anew(spread: Experiment) -> None:
    first, second, *_ = list_jobs(spread)
    start(first, "n1")
    second.runs.update(state="failed", reason="lost")
    Job.objects.filter(pk=second.pk).update(state="failed", reason="lost", excluded_nodes=[])
    second.refresh_from_db()
    spread.cluster.users.add(spread.owner)
    lifecycle.retry(second, spread.owner)
    second.refresh_from_db()
    assert second.excluded_nodes is None
    decide_excluded_nodes([second])
    assert second.excluded_nodes == ["n1"]


counted = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5))


@given(counts=counted, nodes=st.integers(1, 10), needed=st.integers(1, 3))
def test_enough_nodes_are_left_and_those_with_the_fewest_blocks_are_among_them(
    counts: dict[str, int], nodes: int, needed: int
) -> None:
    excluded = choose_excluded_nodes(counts, nodes, needed)
    assert not excluded or nodes - len(excluded) >= needed
    if nodes - len(counts) >= needed:
        assert excluded == sorted(counts)
    elif counts:
        least = min(counts.values())
        assert all(counts[node] > least for node in excluded)


def test_the_plan_holds_the_choice_and_old_plans_are_as_they_were(spread: Experiment) -> None:
    plan = freeze_definition(spread, 1)
    assert plan["one_block_a_node"] is True
    old = freeze_definition(ExperimentFactory(), 1)
    assert not {"one_block_a_node", "estimand"} & set(old)


def test_a_launch_is_refused_where_no_node_can_be_excluded() -> None:
    made = ExperimentFactory(cluster=ClusterFactory(scheduler="grid_engine"), spreads_nodes=True)
    with pytest.raises(NotLaunchable) as refused:
        lifecycle.launch(made, made.owner)
    assert "Grid Engine cannot keep a job off nodes" in refused.value.messages["spreads_nodes"][0]


@pytest.mark.parametrize(
    "directive", ["--exclude=n7", "-x n7", "#SBATCH --exclude n7", "--nodelist=n[1-3]", "-w n1"]
)
def test_a_launch_is_refused_where_the_partition_has_a_list_of_nodes_of_its_own(
    directive: str,
) -> None:
    cluster = ClusterFactory(scheduler="slurm")
    partition = PartitionFactory(cluster=cluster, nodes=9, directives=["--exclusive", directive])
    made = ExperimentFactory(cluster=cluster, partition=partition, spreads_nodes=True)
    with pytest.raises(NotLaunchable) as refused:
        lifecycle.launch(made, made.owner)
    assert directive in refused.value.messages["spreads_nodes"][0]


def test_a_block_whose_other_nodes_are_gone_may_run_anywhere(
    experiment: Make, client: Client
) -> None:
    """It waits in the scheduler's queue for nodes that are drained: a person lets it go."""
    made = experiment(repeats=2)
    partition = PartitionFactory(cluster=made.cluster, nodes=9)
    Experiment.objects.update(spreads_nodes=True, partition=partition)
    first, second = made.jobs.order_by("block")
    Job.objects.filter(pk=second.pk).update(
        state="queued",
        scheduler_id="1-1",
        directory="/tmp/none",
        submitted_at=timezone.now(),
        excluded_nodes=["n1", "n2"],
    )
    client.force_login(made.owner)
    tab = client.get(f"/experiments/{made.pk}/?tab=jobs").content.decode()
    assert f'aria-label="Let block {second.number} run on any node"' in tab
    page = client.post(f"/jobs/{second.uid}/any-node/", follow=True).content.decode()
    assert f"Block {second.number} may run on any node." in page
    event = made.events.get(what=ANY_NODE)
    assert event.why == "those of other blocks too: n1, n2"
    finish(made)
    second.refresh_from_db()
    assert (second.state, second.attempt, second.excluded_nodes) == ("done", 2, [])
    first.refresh_from_db()
    assert (first.state, first.attempt) == ("done", 1)
    methods = " ".join(describe_methods(compare_experiment(Experiment.objects.get(pk=made.pk))))
    assert "1 block was allowed on any node" in methods


def test_blocks_are_sent_one_after_the_other_and_a_refusal_lets_one_go_anywhere(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this machine, whose scheduler takes any node: what is sent, and in which order."""
    made = experiment(repeats=3)
    partition = PartitionFactory(cluster=made.cluster, nodes=9)
    Experiment.objects.update(spreads_nodes=True, partition=partition)
    submit, sent = Runner.submit_all, []

    def refuse_the_third(self: Runner, jobs: Any) -> Any:
        sent.append([job.resources.avoided_nodes for job in jobs])
        if len(sent) == 3:
            return [NotNow("no such nodes", kind="nodes", scope="request") for _ in jobs]
        return submit(self, jobs)

    monkeypatch.setattr(Runner, "submit_all", refuse_the_third)
    finish(made)
    first, second, third = made.jobs.order_by("block")
    node = first.runs.first().node
    assert node
    assert sent == [[""], [node], [node], [""]]
    assert (first.excluded_nodes, second.excluded_nodes, third.excluded_nodes) == (None, [node], [])
    assert third.events.get(what="submitting → planned").why == (
        f"no other nodes than {node}: no such nodes"
    )
    assert not Pause.objects.exists()


def test_a_name_that_the_scheduler_does_not_know_leaves_the_others_excluded(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that was taken out of service after a block ran there: the whole list is refused."""
    made = experiment(repeats=4)
    partition = PartitionFactory(cluster=made.cluster, nodes=9)
    Experiment.objects.update(spreads_nodes=True, partition=partition)
    submit, sent = Runner.submit_all, []

    def refuse_a_name(self: Runner, jobs: Any) -> Any:
        sent.append([job.resources.avoided_nodes for job in jobs])
        if "gone" in sent[-1][0].split(","):
            refusal = NotNow("Invalid node name specified", kind="nodes", scope="request")
            return [refusal for _ in jobs]
        return submit(self, jobs)

    def search(self: Runner, job: Any) -> list[str]:
        return [name for name in job.resources.avoided_nodes.split(",") if name == "gone"]

    monkeypatch.setattr(Runner, "submit_all", refuse_a_name)
    monkeypatch.setattr(Runner, "find_unknown_nodes", search)
    last = made.jobs.order_by("block").last()
    for number, job in enumerate(made.jobs.order_by("block")[:3]):
        Job.objects.filter(pk=job.pk).update(state="cancelled")
        job.runs.update(state="cancelled", node=("n1", "gone", "n3")[number])
    finish(made)
    last.refresh_from_db()
    assert sent == [["gone,n1,n3"], ["n1,n3"]]
    assert (last.state, last.excluded_nodes) == ("done", ["n1", "n3"])
    assert last.events.get(what="submitting → planned").why == (
        "unknown to the scheduler, and excluded no more: gone (Invalid node name specified); "
        "still excluded: n1, n3"
    )


def test_a_click_on_any_node_while_the_job_is_prepared_is_not_overwritten(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment(repeats=2)
    partition = PartitionFactory(cluster=made.cluster, nodes=9)
    Experiment.objects.update(spreads_nodes=True, partition=partition)
    submit, sent = Runner.submit_all, []
    last = made.jobs.order_by("block").last()

    def decide_and_be_overtaken(jobs: Any) -> None:
        decide_excluded_nodes(jobs)
        if any(job.pk == last.pk and job.excluded_nodes for job in jobs):
            Job.objects.filter(pk=last.pk).update(excluded_nodes=[])

    def note(self: Runner, jobs: Any) -> Any:
        sent.append([job.resources.avoided_nodes for job in jobs])
        return submit(self, jobs)

    monkeypatch.setattr(submitting, "decide_excluded_nodes", decide_and_be_overtaken)
    monkeypatch.setattr(Runner, "submit_all", note)
    finish(made)
    last.refresh_from_db()
    assert (last.state, last.excluded_nodes) == ("done", [])
    assert sent == [[""], [""]]
