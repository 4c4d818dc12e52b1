"""The promises that every page and number of Tare rests on, each with a test of its name.

Promise 3 is kept by `test_execution.py` and `test_processes.py`, promise 6 also by the tests of
the transports and of the job script.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from experiments.access import audit
from experiments.comparisons import compare_experiment
from experiments.models import Environment, Experiment, Run, Snapshot
from experiments.statistics import Verdict
from tests.conftest import finish
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    ContainerFactory,
    CredentialFactory,
    EnvironmentFactory,
    LaunchedFactory,
    SeriesFactory,
    UserFactory,
    WorkloadFactory,
    block,
)

pytestmark = pytest.mark.django_db

BASELINE_SECONDS = (1.00, 1.01, 0.99, 1.02, 1.00, 1.01)
COST = 1.004

PAGES = (
    "experiment",
    "comparison",
    "comparison_csv",
    "comparison_json",
    "comparison_tex",
    "runs_csv",
    "runs_json",
)


@pytest.fixture
def measured() -> Experiment:
    """Six blocks; the container is 0.4 % slower than bare metal, in its blocks and on average."""
    cluster = ClusterFactory()
    bare = EnvironmentFactory(name="bare metal", cluster=cluster)
    container = ContainerFactory(name="container", cluster=cluster)
    made: Experiment = LaunchedFactory(
        cluster=cluster,
        baseline=bare,
        environments=[bare, container],
        workloads=[WorkloadFactory(name="blas")],
        margin=0.05,
        visibility=Experiment.Visibility.PUBLIC,
    )
    for repeat, value in enumerate(BASELINE_SECONDS, start=1):
        block(made, repeat, {bare: value, container: value * COST * (1 + repeat % 2 / 1000)})
    return made


@pytest.fixture
def client(db: None) -> Client:
    """Somebody who can log in, and owns nothing."""
    made = Client()
    made.force_login(UserFactory())
    return made


@pytest.fixture
def administrator(client: Client) -> Client:
    client.force_login(AdminFactory())
    return client


def read(client: Client, name: str, *args: Any) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200, name
    content = b"".join(answer) if answer.streaming else answer.content  # type: ignore[arg-type]
    return content.decode()


def test_promise_1_the_run_is_the_unit_of_statistics_never_the_step(
    measured: Experiment, client: Client
) -> None:
    for run in measured.runs.all():
        SeriesFactory(run=run, values=[1.0] * 1000)
    (pair,) = compare_experiment(measured).pairs
    assert (pair.n_baseline, pair.n_environment, pair.n_blocks) == (6, 6, 6)
    assert pair.verdict == Verdict.EQUIVALENT


def test_promise_1_no_significant_difference_is_never_said(
    measured: Experiment, client: Client
) -> None:
    for margin in (0.05, 0.001):  # equivalent, and undecided
        Experiment.objects.update(margin=margin)
        for name in PAGES:
            said = re.sub(r"\s+", " ", read(client, name, measured.pk)).lower()
            assert "significant difference" not in said


def test_promise_2_every_number_can_be_recomputed_from_the_export(
    measured: Experiment, client: Client
) -> None:
    rows = list(csv.DictReader(io.StringIO(read(client, "runs_csv", measured.pk))))
    values = {(row["block"], row["environment"]): float(row["step_time (s)"]) for row in rows}
    ratios = [
        math.log(values[number, "container"] / values[number, "bare metal"])
        for number in {row["block"] for row in rows}
    ]
    (shown,) = json.loads(read(client, "comparison_json", measured.pk))["comparison"]
    assert shown["ratio"] == pytest.approx(math.exp(sum(ratios) / len(ratios)), rel=1e-9)


def test_promise_2_every_number_leads_to_its_run_script_log_and_snapshot(
    experiment: Callable[..., Experiment], client: Client
) -> None:
    made = experiment(visibility=Experiment.Visibility.PUBLIC)
    finish(made)
    shown = read(client, "comparison", made.pk)
    for run in made.runs.all():
        assert run.uid in shown, "every point names its run"
        page = read(client, "run", run.uid)
        assert "#!/bin/bash -l" in page
        assert f'href="{made.get_absolute_url()}"' in page
        assert run.snapshot
        assert run.snapshot.content["inside"]["python"]["version"] in page
        assert run.snapshot.content["inside"]["packages"]["numpy"] in page


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({"python": {"version": "2.7.12"}}, "Python"),
        ({"packages": {"numpy": "1.26.0"}}, "numpy"),
        ({"hostname": "node2"}, "node"),
        ({"gpu_driver": "550.2"}, "GPU driver"),
        ({"cpus": [0]}, "CPUs"),
    ],
)
def test_promise_4_any_other_difference_stamps_the_verdict(
    measured: Experiment, there: dict[str, Any], told: str
) -> None:
    here = {
        "python": {"version": "2.7.5"},
        "packages": {"numpy": "2.4.6"},
        "hostname": "node1",
        "gpu_driver": "535.1",
        "cpus": [0, 1],
    }

    def keep(environment: Environment, inside: dict[str, Any]) -> None:
        snapshot = Snapshot.objects.keep({"inside": inside, "outside": {}})
        Run.objects.filter(environment=environment).update(snapshot=snapshot)

    container = measured.environments.get(name="container")
    keep(measured.baseline, here)
    keep(container, here)
    (pair,) = compare_experiment(measured).pairs
    assert "CONFOUNDED" not in pair.stamps
    keep(container, here | there)
    (pair,) = compare_experiment(measured).pairs
    assert "CONFOUNDED" in pair.stamps
    assert any(told in reason for reason in pair.reasons)


def test_promise_5_a_secret_is_on_no_page_in_no_export_and_in_no_dump(
    measured: Experiment, administrator: Client, caplog: pytest.LogCaptureFixture
) -> None:
    secret, phrase = "-----BEGIN OPENSSH PRIVATE KEY----- nobody sees this", "nor this phrase"
    credential = CredentialFactory(
        private_key=secret, passphrase=phrase, next_private_key=f"{secret} either"
    )
    measured.cluster.credential = credential
    measured.cluster.save()
    dump = io.StringIO()
    call_command("dumpdata", exclude=["django_rq"], stdout=dump)
    shown = [dump.getvalue(), caplog.text]
    shown += [read(administrator, name, measured.pk) for name in PAGES]
    shown += [read(administrator, "clusters"), read(administrator, "cluster", measured.cluster.pk)]
    for model in ("credential", "cluster"):
        pk = credential.pk if model == "credential" else measured.cluster.pk
        shown.append(read(administrator, f"admin:experiments_{model}_changelist"))
        shown.append(read(administrator, f"admin:experiments_{model}_change", pk))
    audit.saved(None, credential, {})
    for name, args in (("credentials", ()), ("credential", (credential.pk,)), ("audit", ())):
        shown.append(read(administrator, name, *args))
    for text in shown:
        assert "nobody sees this" not in text
        assert phrase not in text


def test_promise_6_what_is_typed_is_text_on_every_page(
    measured: Experiment, client: Client
) -> None:
    odd = "<script>alert(1)</script>\"'$(id)"
    Experiment.objects.update(question=odd)
    Environment.objects.filter(name="container").update(name=odd)
    for name in ("experiment", "comparison"):
        assert "<script>alert" not in read(client, name, measured.pk)


def test_promise_8_it_runs_with_no_cluster_and_no_root(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment()
    assert (made.cluster.transport, made.cluster.scheduler) == ("local", "direct")
    finish(made)
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}
