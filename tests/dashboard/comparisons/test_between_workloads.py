"""The section "Between workloads": workloads that differ in one parameter, in each environment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.comparisons import compare_experiment
from experiments.comparisons.workload_pairs import (
    compare_between_workloads,
    list_workload_pairs,
    may_compare_workloads,
)
from experiments.models import Experiment, Workload
from runners.workloads import WORKLOADS
from tests.dashboard.conftest import People, Site, read_report
from tests.factories import DataSetFactory, JobFactory, LaunchedFactory, RunFactory, WorkloadFactory

pytestmark = pytest.mark.django_db
HEADING = "<h2>Between workloads</h2>"


def make_workload(name: str, **parameters: Any) -> Workload:
    made: Workload = WorkloadFactory(
        name=name, kind="cnn", parameters=WORKLOADS["cnn"].clean(parameters)
    )
    return made


def measure(
    site: Site, people: People, workloads: list[Workload], *, repeats: int = 5
) -> Experiment:
    """Real data make steps half as long again, and 10 % more in the container."""
    made: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=workloads,
        environments=[site.bare, site.container],
        scales=["1x1"],
        repeats=repeats,
        visibility="members",
    )
    for repeat in range(1, repeats + 1):
        for place, workload in enumerate(workloads):
            job = JobFactory(
                experiment=made, workload=workload, repeat=repeat, block=10 * repeat + place
            )
            for environment in (site.bare, site.container):
                value = 0.02 * (1 + 0.001 * repeat)
                if workload.parameters["data"] != "synthetic":
                    value *= 1.5 * (1.1 if environment == site.container else 1)
                value *= 1 + 0.001 * ((repeat * 7 + place * 3 + environment.pk) % 5)
                RunFactory(job=job, environment=environment, values={"step_time": value})
    return made


@pytest.fixture
def real_and_synthetic(site: Site, people: People) -> Experiment:
    workloads = [
        make_workload("small, mnist", data="mnist", data_directory="/data"),
        make_workload("small, synthetic", data="synthetic"),
        make_workload("mnist network", data="synthetic", network="mnist", image_size=64),
    ]
    return measure(site, people, workloads)


def test_real_data_are_compared_with_synthetic_ones_in_each_environment(
    real_and_synthetic: Experiment, as_owner: Client
) -> None:
    (pair,) = compare_between_workloads(compare_experiment(real_and_synthetic))
    assert (pair.factor, pair.reference, pair.other) == (
        "data",
        "small, synthetic",
        "small, mnist",
    )
    bare, boxed = pair.rows
    for row, truth in ((bare.ratio, 1.5), (boxed.ratio, 1.65), (boxed.cost_change, 1.1)):
        assert row is not None
        assert row.ci95 is not None
        low, high = row.ci95
        assert low < truth < high
    page = read_report(as_owner, real_and_synthetic)
    assert HEADING in page
    assert "small, mnist against small, synthetic · 1x1" in page


def test_the_files_hold_every_ratio(real_and_synthetic: Experiment, as_owner: Client) -> None:
    address = reverse("comparison_json", args=[real_and_synthetic.pk])
    rows = json.loads(as_owner.get(address).content)["between_workloads"]
    assert [row["environment"] for row in rows] == ["bare metal", "Apptainer"]
    assert rows[0]["parameter"] == "data"
    assert rows[0]["between_ratio"] == pytest.approx(1.5, rel=0.01)
    assert rows[0]["cost_change_ratio"] is None
    assert rows[1]["cost_change_ratio"] == pytest.approx(1.1, rel=0.01)


def test_workloads_that_differ_in_more_than_one_parameter_are_no_pair(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measure(
        site,
        people,
        [
            make_workload("one", data="synthetic"),
            make_workload("other", data="mnist", data_directory="/data", batch_size=64),
        ],
    )
    assert may_compare_workloads(compare_experiment(made))
    assert compare_between_workloads(compare_experiment(made)) == []
    assert HEADING not in read_report(as_owner, made)


def test_nothing_is_estimated_before_the_planned_analysis(site: Site, people: People) -> None:
    made = measure(
        site,
        people,
        [
            make_workload("a", data="synthetic"),
            make_workload("b", data="cifar10", data_directory="/d"),
        ],
    )
    job = JobFactory(experiment=made, repeat=6, state="planned", block=99)
    RunFactory(job=job, state="planned")
    Experiment.objects.filter(pk=made.pk).update(repeats=6)
    comparison = compare_experiment(Experiment.objects.get(pk=made.pk))
    assert not may_compare_workloads(comparison)
    assert compare_between_workloads(comparison) == []


def test_values_are_paired_with_the_first_choice_or_the_least_number() -> None:
    rows = [
        make_workload(f"batch {size}, {data}", batch_size=size, data=data, data_directory="/d")
        for size in (128, 32, 64)
        for data in ("mnist", "synthetic")
    ]
    pairs = [(name, a.name, b.name) for name, a, b in list_workload_pairs(rows)]
    assert ("data", "batch 32, synthetic", "batch 32, mnist") in pairs
    assert ("batch_size", "batch 32, mnist", "batch 128, mnist") in pairs
    assert ("batch_size", "batch 32, synthetic", "batch 64, synthetic") in pairs
    assert len(pairs) == 3 + 2 * 2


def test_two_data_sets_of_the_catalogue_are_two_values() -> None:
    rows = [make_workload(f"w{k}", data="mnist", data_directory="/d") for k in range(2)]
    rows.append(make_workload("w2", data="synthetic"))
    for row, name in zip(rows, ("scratch", "nfs"), strict=False):
        row.data_set = DataSetFactory(name=name)
    assert [(name, a.name, b.name) for name, a, b in list_workload_pairs(rows)] == [
        ("data", "w2", "w0"),
        ("data set", "w1", "w0"),
    ]


def test_a_hundred_workloads_take_as_many_queries_as_two(site: Site, people: People) -> None:
    def count_queries(many: int) -> int:
        rows = [make_workload(f"{many}: batch {size}", batch_size=size) for size in range(1, many)]
        comparison = compare_experiment(measure(site, people, rows, repeats=2))
        with CaptureQueriesContext(connection) as captured:
            assert len(compare_between_workloads(comparison)) == many - 2
        return len(captured)

    assert count_queries(3) == count_queries(41)
