"""The parity report: what a launch asks of it, and how it follows the verdict."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from experiments.comparisons import compare_experiment, list_comparison_rows
from experiments.design import compute_hash
from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, Operation, Role, Waiver
from experiments.software import inspections, parity_reports
from experiments.statistics import Stamp
from tests.conftest import tick_until
from tests.factories import (
    ContainerFactory,
    EnvironmentFactory,
    ExperimentFactory,
    UserFactory,
    block,
)

pytestmark = pytest.mark.django_db

OLD: dict[str, Any] = {"python": {"version": "2.7.5"}, "packages": {"numpy": "1.16.6"}}
NEW: dict[str, Any] = {"python": {"version": "2.7.12"}, "packages": {"numpy": "1.16.6"}}


def seen(environment: Environment, facts: dict[str, Any]) -> None:
    inspections.keep_inspection(environment, facts, inspections.compute_fingerprint(environment))


@pytest.fixture
def draft() -> Experiment:
    made: Experiment = ExperimentFactory()
    return made


@pytest.fixture
def container(draft: Experiment) -> Environment:
    return draft.environments.exclude(pk=draft.baseline_id).get()


def report_of(draft: Experiment) -> parity_reports.ParityReport:
    (found,) = parity_reports.make_reports(draft)
    return found


def measured(launched: Experiment, container: Environment) -> None:
    """Five blocks, in place of those that are planned."""
    launched.runs.all().delete()
    launched.jobs.all().delete()
    for repeat in range(1, 6):
        block(launched, repeat, {launched.baseline: 1.0 + repeat / 1000, container: 1.0})


def test_an_environment_is_looked_into_by_its_own_interpreter(
    here: Cluster, bare: Environment
) -> None:
    bare.setup_lines = "export PYTHONPATH=/somewhere"
    bare.variables = {"OMP_NUM_THREADS": "1"}
    bare.save()
    operation = inspections.request_inspection(bare, bare.cluster.owner)
    assert inspections.request_inspection(bare, bare.cluster.owner) == operation, (
        "one look at a time"
    )
    tick_until(here, lambda: Operation.objects.get(pk=operation.pk).is_final)
    operation.refresh_from_db()
    assert (operation.state, operation.message) == ("done", "")
    software = inspections.find_known_software([bare])[bare.pk]
    assert software.is_known
    assert software.inspection
    facts = software.inspection.facts
    assert facts["python"]["version"].startswith("3.")
    assert facts["packages"]["numpy"]
    assert facts["blas"], "NumPy's own"
    assert facts["builds"]["numpy"]["compiler"]


def test_a_look_that_fails_says_why_and_leaves_nothing(here: Cluster, bare: Environment) -> None:
    Environment.objects.filter(pk=bare.pk).update(python="/no/such/python")
    operation = inspections.request_inspection(bare, bare.cluster.owner)
    tick_until(here, lambda: Operation.objects.get(pk=operation.pk).is_final)
    bare.refresh_from_db()
    software = inspections.find_known_software([bare])[bare.pk]
    assert (software.inspection, software.operation) == (None, operation)
    assert software.operation
    assert "/no/such/python" in software.operation.message


def test_who_may_not_use_the_cluster_may_not_look(bare: Environment) -> None:
    with pytest.raises(inspections.NotRequested, match="viewer"):
        inspections.request_inspection(bare, UserFactory(role=Role.VIEWER))


def test_where_nobody_has_looked_a_launch_is_allowed_and_the_verdict_says_so(
    draft: Experiment, container: Environment
) -> None:
    assert report_of(draft).answer == "not inspected yet"
    lifecycle.launch(draft, draft.owner)
    measured(draft, container)
    (pair,) = compare_experiment(draft).pairs
    assert pair.software == (
        f"Software not compared before the launch: {draft.baseline}: not inspected "
        f"yet; {container}: not inspected yet."
    )
    assert Stamp.WAIVED not in pair.stamps


def test_the_same_software_is_launched_and_said(draft: Experiment, container: Environment) -> None:
    seen(draft.baseline, OLD)
    seen(container, OLD)
    assert report_of(draft).is_same
    lifecycle.launch(draft, draft.owner)
    (kept,) = draft.plan["parity"].values()
    assert (kept["unknown"], kept["differences"]) == ([], [])
    assert draft.plan_hash == compute_hash(draft.plan)
    measured(draft, container)
    (pair,) = compare_experiment(draft).pairs
    assert "the same software" in pair.software


def test_a_difference_stops_the_launch_until_it_is_waived_with_a_reason(
    draft: Experiment, container: Environment
) -> None:
    seen(draft.baseline, OLD)
    seen(container, NEW)
    with pytest.raises(lifecycle.NotLaunchable, match=r"differs from .* in Python"):
        lifecycle.launch(draft, draft.owner)
    assert parity_reports.waive_differences(draft, container, ["Python"], "  ", draft.owner) == 0
    assert (
        parity_reports.waive_differences(draft, container, ["no such row"], "because", draft.owner)
        == 0
    )
    assert (
        parity_reports.waive_differences(draft, container, ["Python"], "as in 2017", draft.owner)
        == 1
    )
    lifecycle.launch(draft, draft.owner)
    (kept,) = draft.plan["parity"].values()
    (row,) = kept["differences"]
    assert (row["what"], row["here"], row["there"]) == ("Python", "2.7.5", "2.7.12")
    assert (row["reason"], row["by"]) == ("as in 2017", str(draft.owner))
    event = draft.events.get(what__startswith="waived")
    assert (event.actor, event.why) == (draft.owner, "as in 2017 (Python)")
    assert draft.plan_hash == compute_hash(draft.plan)


def test_what_was_waived_follows_the_verdict_into_every_row(
    draft: Experiment, container: Environment
) -> None:
    seen(draft.baseline, OLD)
    seen(container, NEW)
    parity_reports.waive_differences(draft, container, ["Python"], "as in 2017", draft.owner)
    lifecycle.launch(draft, draft.owner)
    measured(draft, container)
    Environment.objects.filter(pk=container.pk).update(name="renamed since")
    comparison = compare_experiment(draft)
    (pair,) = comparison.pairs
    why = pair.reasons[pair.stamps.index(Stamp.WAIVED)]
    assert why.startswith("Python (2.7.5 on the baseline, 2.7.12 here): waived by ")
    assert "“as in 2017”" in why
    (row,) = list_comparison_rows(comparison)
    assert "DIFFERENCES WAIVED" in row["stamps"]
    assert "as in 2017" in row["reasons"]
    assert row["software"].startswith("1 difference in software was known before the launch")


def test_a_waiver_is_about_the_difference_that_was_seen(
    draft: Experiment, container: Environment
) -> None:
    seen(draft.baseline, OLD)
    seen(container, NEW)
    parity_reports.waive_differences(draft, container, ["Python"], "as in 2017", draft.owner)
    seen(container, {**NEW, "python": {"version": "3.6.1"}})
    assert [row.what for row in report_of(draft).unwaived] == ["Python"]
    with pytest.raises(lifecycle.NotLaunchable):
        lifecycle.launch(draft, draft.owner)


def test_a_launched_experiment_is_not_waived_any_more(
    draft: Experiment, container: Environment
) -> None:
    seen(draft.baseline, OLD)
    seen(container, NEW)
    parity_reports.waive_differences(draft, container, ["Python"], "as in 2017", draft.owner)
    lifecycle.launch(draft, draft.owner)
    assert (
        parity_reports.waive_differences(
            draft, container, ["Python"], "another reason", draft.owner
        )
        == 0
    )
    assert parity_reports.withdraw_waivers(draft, container, draft.owner) == 0
    assert Waiver.objects.get().reason == "as in 2017"


def test_the_database_takes_no_waiver_without_a_reason(
    draft: Experiment, container: Environment
) -> None:
    with pytest.raises(IntegrityError, match="waived_with_a_reason"):
        Waiver.objects.create(
            experiment=draft, environment=container, what="Python", reason="", by=draft.owner
        )


def edited(environment: Environment) -> None:
    Environment.objects.filter(pk=environment.pk).update(python="/usr/bin/python3.9")


def set_up_anew(environment: Environment) -> None:
    Cluster.objects.filter(pk=environment.cluster_id).update(setup_lines="module load python")


def another_file(environment: Environment) -> None:
    assert environment.staged_image
    environment.staged_image.sha256 = "1" * 64
    environment.staged_image.save()


def staged_anew(environment: Environment) -> None:
    Operation.objects.create(
        kind=Operation.Kind.STAGE,
        cluster=environment.cluster,
        staged_image=environment.staged_image,
        owner=environment.owner,
        state=Operation.State.DONE,
        ended_at=timezone.now() + timedelta(seconds=1),
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edited, "edited since"),
        (set_up_anew, "edited since"),
        (another_file, "edited since"),
        (staged_anew, "staged anew since"),
    ],
)
def test_an_old_look_does_not_count(
    draft: Experiment, container: Environment, change: Callable[[Environment], None], why: str
) -> None:
    seen(draft.baseline, OLD)
    seen(container, OLD)
    assert report_of(draft).is_same
    change(container)
    found = report_of(draft)
    assert not found.is_known
    assert why in found.software.why_not
    lifecycle.launch(draft, draft.owner)
    (kept,) = draft.plan["parity"].values()
    assert any(why in told for told in kept["unknown"])


def test_a_new_name_alone_is_no_edit(draft: Experiment, container: Environment) -> None:
    seen(container, OLD)
    Environment.objects.filter(pk=container.pk).update(name="another name")
    assert report_of(draft).software.is_known


def test_the_number_of_queries_does_not_depend_on_the_number_of_environments(
    draft: Experiment, django_assert_num_queries: Any
) -> None:
    for _ in range(4):
        draft.environments.add(ContainerFactory(cluster=draft.cluster))
        draft.environments.add(EnvironmentFactory(cluster=draft.cluster))
    with django_assert_num_queries(5):
        assert len(parity_reports.make_reports(draft)) == 9
