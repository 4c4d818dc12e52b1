"""A/A tests: an environment is compared with itself, by the path of every other experiment."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.comparisons.methods import describe_methods
from experiments.comparisons import keep_comparison, list_comparison_rows, read_comparison
from experiments.comparisons.aa_verdicts import (
    ALARM,
    AMONG_MANY,
    BY_CHANCE,
    EQUAL,
    NOT_SHOWN,
    SMALL,
    explain_aa_test,
    list_last_aa_verdicts,
)
from experiments.execution import lifecycle
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Job,
    KeptComparison,
    Partition,
    Run,
    Snapshot,
    User,
)
from experiments.models.environment_copies import make_copy
from experiments.presets.aa_drafts import CannotBeTested, choose_workload, make_aa_draft
from experiments.software.environments import why_not_delete
from experiments.software.inspections import compute_fingerprint, keep_inspection
from experiments.software.parity_reports import make_reports
from experiments.statistics import Stamp
from tests.conftest import finish
from tests.factories import (
    NOON,
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    LaunchedFactory,
    PartitionFactory,
    UserFactory,
    WorkloadFactory,
    block,
)

pytestmark = pytest.mark.django_db
QUICK = {"steps": 6, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}


def measured(
    environment: Environment, *, factor: float = 1.0, spread: float = 1e-4, **columns: object
) -> Experiment:
    """Return an A/A test whose runs have ended: the copy takes `factor` times as long."""
    copy = make_copy(environment)
    made: Experiment = LaunchedFactory(
        cluster=environment.cluster,
        baseline=environment,
        environments=[environment, copy],
        **{"partition": None, "margin": 0.02, "scales": ["1x0"], **columns},
    )
    for repeat in range(1, 6):
        noise = 1 + spread * (-1) ** repeat * repeat
        block(made, repeat, {environment: 0.02, copy: 0.02 * factor * noise}, scale="1x0")
    keep_comparison(made.pk)
    return made


def make_draft(
    environment: Environment, person: User, partition: Partition | None = None
) -> tuple[Experiment, bool]:
    """Return what a click of `person` makes, and whether it was made now."""
    workload = choose_workload(environment, partition, person)
    return make_aa_draft(environment, partition, person, workload=workload, repeats=5, margin=0.02)


class TestFromDraftToVerdict:
    """The same path as any experiment: freeze, blocks, random order, one node, comparison."""

    def test_an_environment_runs_against_itself(self, here: Cluster, bare: Environment) -> None:
        workload = WorkloadFactory(kind="blas", parameters=QUICK)
        person = UserFactory()
        draft, is_new = make_aa_draft(
            bare, None, person, workload=choose_workload(bare, None, person), repeats=2, margin=0.02
        )
        assert is_new
        assert draft.question == "Does bare metal equal itself on here?"
        assert [row.pk for row in draft.workloads.all()] == [workload.pk]
        lifecycle.launch(draft, person)
        assert draft.plan
        specs = list(draft.plan["environments"].values())
        assert {spec.pop("label") for spec in specs} == {"bare metal", "bare metal again"}
        assert specs[0] == specs[1]
        finish(draft)
        assert {run.state for run in draft.runs.all()} == {Run.State.SUCCEEDED}
        for job in draft.jobs.all():
            assert job.state == Job.State.DONE
            assert len({run.node for run in job.runs.all()}) == 1
        comparison = read_comparison(draft)
        (pair,) = comparison.pairs
        assert (pair.baseline, pair.environment) == ("bare metal", "bare metal again")
        assert pair.ratio is not None
        assert comparison.same_as_baseline == ["bare metal again"]
        meaning = explain_aa_test(comparison)
        assert meaning
        assert meaning.text.startswith("bare metal again is the same environment")
        assert "measured twice (A/A)" in " ".join(describe_methods(comparison))
        (row,) = list_comparison_rows(comparison)
        assert row["environment"] == "bare metal again"


class TestTheCopy:
    """It has the settings of its environment at any time, and is nothing of its own."""

    def test_a_change_reaches_a_draft_and_its_parity_stays(self, bare: Environment) -> None:
        person = UserFactory()
        draft, _ = make_draft(bare, person)
        stored = Environment.objects.get(pk=bare.pk)
        stored.name, stored.python, stored.variables = "other name", "/usr/bin/python3", {"A": "1"}
        stored.save()
        again = Environment.objects.get(copy_of=bare)
        assert again.name == "other name again"
        bare.mode = "P1"  # read before these changes, and saved after them
        bare.save(update_fields=["mode"])
        again.refresh_from_db()
        assert (again.name, again.mode) == ("other name again", "P1")
        assert (again.python, again.variables) == ("/usr/bin/python3", {"A": "1"})
        lifecycle.launch(draft, person)
        assert draft.plan
        first, second = (spec | {"label": ""} for spec in draft.plan["environments"].values())
        assert first == second
        assert first["python"] == "/usr/bin/python3"

    def test_parity_refuses_nothing_whatever_is_known(self, bare: Environment) -> None:
        draft, _ = make_draft(bare, UserFactory())
        (report,) = make_reports(draft)
        assert (report.is_same, report.unknown) == (True, [])
        keep_inspection(bare, {"packages": {"numpy": "2.1"}}, compute_fingerprint(bare))
        (report,) = make_reports(draft)
        assert (report.is_same, report.answer) == (True, "yes, the same environment")

    def test_nothing_deletes_an_environment_that_its_copy_stands_for(
        self, bare: Environment
    ) -> None:
        draft, _ = make_draft(bare, UserFactory())
        again = Environment.objects.get(copy_of=bare)
        other = EnvironmentFactory(cluster=bare.cluster)
        Experiment.objects.filter(pk=draft.pk).update(baseline=other)
        draft.environments.set([again, other])
        assert "an experiment names it" in why_not_delete(bare)
        assert "goes with it" in why_not_delete(again)
        assert lifecycle.discard(draft)
        assert why_not_delete(bare) == ""
        bare.delete()
        assert not Environment.objects.filter(pk=again.pk).exists()

    def test_names_of_any_length_are_free_and_fit(self, here: Cluster) -> None:
        longest = EnvironmentFactory(name="n" * 100, cluster=here)
        EnvironmentFactory(name="n" * 94 + " again", cluster=here)
        again = make_copy(longest)
        assert again.name == "n" * 90 + " again (2)"
        longest.save()
        again.refresh_from_db()
        assert again.name == "n" * 90 + " again (2)"
        partition = PartitionFactory(cluster=here, name="p" * 100, gpus_per_node=0)
        draft, _ = make_draft(longest, UserFactory(), partition)
        draft.full_clean(exclude=["sweeps"])

    def test_it_is_made_once(self, bare: Environment) -> None:
        assert make_copy(bare) == make_copy(bare)

    def test_who_does_not_see_an_environment_does_not_see_its_copy(self, here: Cluster) -> None:
        owner, other = UserFactory(), UserFactory()
        hidden = EnvironmentFactory(cluster=here, owner=owner, visibility="private")
        again = make_copy(hidden)
        Environment.objects.filter(pk=again.pk).update(visibility="members")
        assert again in Environment.objects.visible_to(owner)
        assert again not in Environment.objects.visible_to(other)
        assert again not in Environment.objects.originals()

    def test_a_container_has_a_copy_with_its_image(self, here: Cluster) -> None:
        container = ContainerFactory(cluster=here)
        again = make_copy(container)
        assert (again.runtime, again.staged_image) == (container.runtime, container.staged_image)


class TestTheDraft:
    """What a click makes, and what it does not."""

    def test_a_second_click_finds_the_first_draft(self, bare: Environment) -> None:
        person = UserFactory()
        first, is_new = make_draft(bare, person)
        assert is_new
        assert make_draft(bare, person) == (first, False)
        partition = PartitionFactory(cluster=bare.cluster, gpus_per_node=0)
        assert make_draft(bare, person, partition)[1]
        assert make_draft(bare, UserFactory())[1]
        lifecycle.launch(first, person)
        assert make_draft(bare, person)[1]

    def test_the_workload_is_the_shortest_that_it_can_run(self, bare: Environment) -> None:
        person = UserFactory()
        WorkloadFactory(kind="cnn", time_limit_seconds=20)
        WorkloadFactory(kind="command", time_limit_seconds=15)
        WorkloadFactory(kind="blas", time_limit_seconds=60)
        shortest = WorkloadFactory(kind="blas", time_limit_seconds=30)
        WorkloadFactory(kind="blas", time_limit_seconds=10, visibility="private")
        keep_inspection(bare, {"packages": {"numpy": "2.1"}}, compute_fingerprint(bare))
        assert choose_workload(bare, None, person) == shortest

    def test_a_preset_lends_one_where_the_catalogue_has_none(self, bare: Environment) -> None:
        draft, _ = make_draft(bare, UserFactory())
        (workload,) = draft.workloads.all()
        assert workload.kind in ("blas", "startup", "files")

    def test_it_is_as_private_as_the_environment(self, here: Cluster) -> None:
        person = UserFactory()
        hidden = EnvironmentFactory(cluster=here, owner=person, visibility="private")
        draft, _ = make_draft(hidden, person)
        assert draft.visibility == "private"

    def test_imported_environments_have_none(self, here: Cluster) -> None:
        recorded = EnvironmentFactory(cluster=here, recorded_tool="udocker")
        with pytest.raises(CannotBeTested, match="imported logs"):
            make_draft(recorded, UserFactory())


class TestWhatItSays:
    """A difference is an alarm about the machine; what a verdict means stands beside it."""

    @pytest.mark.parametrize(
        ("factor", "spread", "sentence"),
        [
            (1.1, 1e-4, f"{ALARM} {BY_CHANCE}"),
            (0.9, 1e-4, f"{ALARM} {BY_CHANCE}"),
            (1.0, 1e-4, EQUAL),
            (1.005, 1e-4, SMALL),
            (1.0, 0.1, NOT_SHOWN),
        ],
    )
    def test_each_verdict_has_its_sentence(
        self, bare: Environment, factor: float, spread: float, sentence: str
    ) -> None:
        meaning = explain_aa_test(read_comparison(measured(bare, factor=factor, spread=spread)))
        assert meaning
        assert meaning.text.endswith(sentence)
        assert meaning.is_alarm == sentence.startswith(ALARM)

    def test_one_difference_among_many_comparisons_is_no_alarm(self, bare: Environment) -> None:
        """Of ten comparisons of a thing with itself 40 of 100 tests have one that differs."""
        copy, scales = make_copy(bare), [f"1x{number}" for number in range(1, 11)]
        made = LaunchedFactory(
            cluster=bare.cluster,
            baseline=bare,
            environments=[bare, copy],
            partition=None,
            margin=0.02,
            scales=scales,
        )
        for scale in scales:
            for repeat in range(1, 7):
                noise = 0.005 * (-1) ** repeat * repeat + 0.03 * (scale == "1x3")
                block(made, repeat, {bare: 0.02, copy: 0.02 * (1 + noise)}, scale=scale)
        keep_comparison(made.pk)
        comparison = read_comparison(made)
        (differing,) = [pair for pair in comparison.pairs if pair.verdict == "SLOWER"]
        assert differing.p_difference
        assert differing.p_difference < 0.05
        meaning = explain_aa_test(comparison)
        assert meaning
        assert meaning.text.endswith(f"In 1 of 10 comparisons of it: {AMONG_MANY}")
        assert not meaning.is_alarm
        (verdict,) = list_last_aa_verdicts(bare.cluster, made.owner)[""]
        assert (verdict.verdict, verdict.is_alarm) == ("SLOWER", False)

    @pytest.mark.parametrize("hiding", ["lost by Holm", "not attributable"])
    @pytest.mark.parametrize(("factor", "verdict"), [(0.8, "FASTER"), (1.25, "SLOWER")])
    def test_nothing_hides_a_difference_that_survives(
        self, bare: Environment, hiding: str, factor: float, verdict: str
    ) -> None:
        copy, scales = make_copy(bare), [f"1x{number}" for number in range(1, 5)]
        made = LaunchedFactory(
            cluster=bare.cluster,
            baseline=bare,
            environments=[bare, copy],
            partition=None,
            margin=0.02,
            scales=scales,
        )
        lost = 0.025 * (hiding == "lost by Holm")
        factors = {"1x1": 1 + lost, "1x3": factor}
        for scale in scales:
            for repeat in range(1, 7):
                noise = 0.005 * (-1) ** repeat * repeat
                value = 0.02 * (factors.get(scale, 1.0) + noise)
                block(made, repeat, {bare: 0.02, copy: value}, scale=scale)
        if hiding == "not attributable":
            for environment, cpu in ((bare, "x"), (copy, "y")):
                snapshot = Snapshot.objects.keep({"inside": {"cpu": cpu}, "outside": {}})
                runs = made.runs.filter(scale="1x1", environment=environment)
                runs.update(snapshot=snapshot)
        keep_comparison(made.pk)
        comparison = read_comparison(made)
        by_scale = {group.configuration["scale"]: group.pairs[0] for group in comparison.groups}
        assert by_scale["1x3"].verdict == verdict
        if lost:
            assert by_scale["1x1"].verdict == "SLOWER"
            assert Stamp.NOT_AFTER_HOLM in by_scale["1x1"].stamps
        else:
            assert by_scale["1x1"].verdict == "NOT ATTRIBUTABLE"
        meaning = explain_aa_test(comparison)
        assert meaning
        assert meaning.is_alarm
        assert meaning.text.endswith(f"In 1 of 4 comparisons of it: {ALARM} {BY_CHANCE}")
        (badge,) = list_last_aa_verdicts(bare.cluster, made.owner)[""]
        assert (badge.verdict, badge.is_alarm) == (verdict, True)
        assert badge.configuration.endswith("1x3")

    def test_containers_beside_it_are_not_meant(self, bare: Environment) -> None:
        container, again = ContainerFactory(cluster=bare.cluster), make_copy(bare)
        made = LaunchedFactory(
            cluster=bare.cluster,
            baseline=bare,
            environments=[bare, again, container],
            partition=None,
            margin=0.02,
            scales=["1x0"],
        )
        for repeat in range(1, 6):
            values = {bare: 0.02, again: 0.02 + repeat * 1e-6, container: 0.03 + repeat * 1e-6}
            block(made, repeat, values, scale="1x0")
        comparison = read_comparison(made)
        assert comparison.same_as_baseline == [again.name]
        meaning = explain_aa_test(comparison)
        assert meaning
        assert not meaning.is_alarm
        made.environments.set([bare, container])
        keep_comparison(made.pk)
        assert explain_aa_test(read_comparison(made)) is None


class TestTheLastOnes:
    """A cluster's page reads them from what was kept, by one statement."""

    def test_they_are_five_of_each_partition(self, here: Cluster, bare: Environment) -> None:
        reader = UserFactory()
        small, large = (PartitionFactory(cluster=here, name=name) for name in ("small", "large"))
        for number in range(7):
            measured(bare, partition=small, launched_at=NOON + timedelta(days=number))
        alarm = measured(bare, partition=large, factor=1.1)
        measured(EnvironmentFactory(cluster=ClusterFactory()))
        with CaptureQueriesContext(connection) as captured:
            last = list_last_aa_verdicts(here, reader)
        assert len(captured) == 1
        assert list(last) == ["large", "small"]
        days = [verdict.launched_at for verdict in last["small"]]
        assert days == [NOON + timedelta(days=number) for number in (6, 5, 4, 3, 2)]
        (verdict,) = last["large"]
        assert (verdict.experiment, verdict.verdict) == (alarm.pk, "SLOWER")
        assert verdict.ratio == "1.0999 [1.0994, 1.1004]"
        assert verdict.level == "95 %"
        assert verdict.is_alarm

    def test_two_hundred_are_read_at_once(self, here: Cluster, bare: Environment) -> None:
        reader, first = UserFactory(), measured(bare)
        kept = KeptComparison.objects.get(pk=first.pk)
        made = Experiment.objects.bulk_create(
            Experiment(
                cluster=here,
                baseline=bare,
                owner=bare.owner,
                launched_at=NOON + timedelta(hours=number),
                order_seed=1,
                plan_hash="0" * 64,
            )
            for number in range(200)
        )
        KeptComparison.objects.bulk_create(
            KeptComparison(pk=row.pk, seconds=0, kept_at=NOON, aa_verdicts=kept.aa_verdicts)
            for row in made
        )
        with CaptureQueriesContext(connection) as captured:
            last = list_last_aa_verdicts(here, reader)
        assert len(captured) == 1
        assert last[""][0].launched_at == NOON + timedelta(hours=199)
        assert len(last[""]) == 5

    def test_nobody_sees_one_that_is_hidden_from_them(self, bare: Environment) -> None:
        owner, other = UserFactory(), UserFactory()
        hidden = measured(bare, owner=owner, visibility="private")
        assert list_last_aa_verdicts(bare.cluster, other) == {}
        (verdict,) = list_last_aa_verdicts(bare.cluster, owner)[""]
        assert verdict.experiment == hidden.pk
        Experiment.objects.filter(pk=hidden.pk).update(archived_at=NOON)
        assert list_last_aa_verdicts(bare.cluster, owner) == {}

    def test_one_whose_runs_live_has_none_yet(self, bare: Environment) -> None:
        made = measured(bare)
        Run.objects.filter(experiment=made, repeat=5).update(state=Run.State.PLANNED)
        keep_comparison(made.pk)
        KeptComparison.objects.filter(pk=made.pk).update(kept_at=NOON)
        keep_comparison(made.pk)
        assert list_last_aa_verdicts(bare.cluster, UserFactory()) == {}

    def test_other_experiments_have_none(self, bare: Environment) -> None:
        container = ContainerFactory(cluster=bare.cluster)
        made = LaunchedFactory(
            cluster=bare.cluster, baseline=bare, environments=[bare, container], scales=["1x0"]
        )
        for repeat in range(1, 6):
            block(made, repeat, {bare: 0.02, container: 0.03 + repeat * 1e-6}, scale="1x0")
        keep_comparison(made.pk)
        assert KeptComparison.objects.get(pk=made.pk).aa_verdicts is None
        assert list_last_aa_verdicts(bare.cluster, UserFactory()) == {}
