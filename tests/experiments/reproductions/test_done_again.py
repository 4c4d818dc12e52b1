"""Experiments that are done again: their plan read back, its place elsewhere, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.execution.image_transfers import _add_to_catalogue
from experiments.images.signatures import Finding, SignatureState
from experiments.models import (
    Cluster,
    DataCopy,
    Environment,
    Experiment,
    Image,
    ImageImport,
    Partition,
    Role,
    StagedImage,
    User,
    Workload,
)
from experiments.planning.freeze import freeze_definition
from experiments.presets.own_presets import SETTINGS
from experiments.reproductions import places
from experiments.reproductions.frozen_plans import UnreadablePlan, read_plan
from experiments.reproductions.proposals import Proposal, propose
from experiments.reproductions.reproduction_drafts import NotMade, make_draft
from experiments.reproductions.reproduction_verdicts import (
    NO_FIRST,
    WAITS,
    ReproductionVerdict,
    judge_reproduction,
)
from experiments.statistics.reproductions import Outcome
from runners.errors import Refused
from runners.images.archives import ImageDescription
from runners.preflight.checks import Check
from tests.conftest import finish
from tests.factories import (
    CheckReportFactory,
    ClusterFactory,
    ContainerFactory,
    DataCopyFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    ImageImportFactory,
    PartitionFactory,
    RuntimeFactory,
    UserFactory,
    WorkloadFactory,
    block,
)

pytestmark = pytest.mark.django_db
NOT_OF_THE_DEFINITION = ("question", "sweeps")


class Study:
    """An experiment with a real frozen plan, on a cluster with a partition, and its repetition."""

    def __init__(self, **columns: Any) -> None:
        self.owner = UserFactory(role=Role.SITE_ADMINISTRATOR, is_superuser=True)
        self.cluster: Cluster = ClusterFactory(name="first", host="first.example.org")
        partition = PartitionFactory(cluster=self.cluster, name="gpu")
        self.bare = EnvironmentFactory(name="bare metal", cluster=self.cluster)
        self.box = ContainerFactory(
            name="Apptainer", cluster=self.cluster, variables={"OMP_NUM_THREADS": "1"}
        )
        self.workload = WorkloadFactory(name="cnn", kind="cnn", owner=self.owner)
        self.source: Experiment = ExperimentFactory(
            question="What does Apptainer cost?",
            cluster=self.cluster,
            partition=partition,
            baseline=self.bare,
            environments=[self.bare, self.box],
            workloads=[self.workload],
            owner=self.owner,
            **{"margin": 0.02, "repeats": 8, **columns},
        )
        freeze(self.source)

    @property
    def image(self) -> Any:
        return self.box.staged_image.image

    def second_cluster(self, *, runtime: str = "apptainer", gpus: int = 4) -> Cluster:
        cluster: Cluster = ClusterFactory(name="second", host="second.example.org")
        PartitionFactory(cluster=cluster, name="batch", gpus_per_node=gpus)
        if runtime:
            RuntimeFactory(cluster=cluster, kind=runtime, executable=runtime)
        return cluster

    def propose(
        self, cluster: Cluster | None = None, person: User | None = None, **choices: str
    ) -> Proposal:
        cluster = cluster or self.cluster
        partition: Partition | None = cluster.partitions.first()
        return propose(self.source, person or self.owner, cluster, partition, choices)


def freeze(experiment: Experiment) -> None:
    """Give an experiment the plan that a launch would, without its jobs."""
    plan = freeze_definition(experiment, 1)
    Experiment.objects.filter(pk=experiment.pk).update(
        plan=plan, plan_hash="1" * 64, order_seed=1, launched_at="2026-11-20T12:00Z"
    )
    experiment.refresh_from_db()


def add_blocks(experiment: Experiment, cost: float, *, count: int = 8, phase: int = 0) -> None:
    """End all blocks: the container takes `cost` times as long, with a spread of 0.1 %."""
    (box,) = experiment.environments.exclude(pk=experiment.baseline_id)
    for repeat in range(1, count + 1):
        noise = 1 + 1e-3 * math.sin(7 * repeat + phase)
        block(experiment, repeat, {experiment.baseline: 0.02, box: 0.02 * cost * noise})


def judge(first: Experiment, again: Experiment) -> ReproductionVerdict:
    rows = [Experiment.objects.get(pk=row.pk) for row in (first, again)]
    return judge_reproduction(compare_experiment(rows[0]), compare_experiment(rows[1]))


class TestPlans:
    """A frozen plan gives back the definition, and nothing that it does not say."""

    def test_the_definition_comes_back_whole(self) -> None:
        study = Study(
            scales=["1x1", "1x2"],
            margin=0.03,
            margin_faster=0.05,
            accuracy_margin=0.5,
            loss_margin=0.01,
            primary_metric="step_time",
            further_metrics=[{"metric": "run_time", "margin": 0.1}],
            metrics_rule="in order",
            estimand="nodes",
            spreads_nodes=True,
            warm_up="found",
            cooldown_seconds=7,
            reject_swap=True,
            reject_throttled=True,
            reject_below_mhz=900,
            reject_others=True,
            reject_others_cpus=3,
            rejected_again=2,
            output_mib=4,
        )
        settings = read_plan(study.source.plan).settings
        expected = {
            name: getattr(study.source, name)
            for name in SETTINGS
            if name not in NOT_OF_THE_DEFINITION
        }
        usual = Experiment()
        assert {name: settings.get(name, getattr(usual, name)) for name in expected} == expected

    def test_a_usual_definition_comes_back_with_its_defaults(self) -> None:
        plan = read_plan(Study(looks=1).source.plan)
        assert (plan.settings["repeats"], plan.settings["looks"]) == (8, 1)
        assert plan.cluster == "first"
        assert plan.partition == "gpu"
        assert [spec.label for spec in plan.environments] == ["bare metal", "Apptainer"]

    @pytest.mark.parametrize(
        ("path", "value", "reason"),
        [
            (("margin",), -1, "margin"),
            (("margin",), float("nan"), "margin"),
            (("scales",), "1x1", "scales"),
            (("repeats",), "many", "repeats"),
            (("baseline",), "999999", "baseline"),
            (("workloads",), ["cnn"], "cannot be read"),
            (("workloads", "*", "kind"), "bitcoin", "bitcoin"),
            (("workloads", "*", "name"), "a\0b", "NUL"),
            (("workloads", "*", "parameters"), {"steps": "x"}, "steps"),
            (("environments", "*", "runtime"), "sarusx", "sarusx"),
            (("environments", "*", "binds"), [1], "texts"),
            (("environments", "*", "variables"), [["a b", "1"]], "a b"),
            (("cluster",), None, "cannot be read"),
            (("of_tomorrow",), 1, "of_tomorrow"),
        ],
    )
    def test_a_plan_that_makes_no_sense_is_refused_in_words(
        self, path: tuple[str, ...], value: Any, reason: str
    ) -> None:
        plan: Any = dict(Study().source.plan or {})
        where = plan
        for step in path[:-1]:
            where = where[next(iter(where)) if step == "*" else step]
        where[path[-1]] = value
        with pytest.raises(UnreadablePlan, match=reason):
            read_plan(plan)

    @pytest.mark.parametrize("plan", [None, {}, [], "plan", 3])
    def test_without_a_plan_there_is_nothing_to_do_again(self, plan: Any) -> None:
        with pytest.raises(UnreadablePlan, match="never launched"):
            read_plan(plan)


class TestHere:
    """On the same cluster it is the same but for its order."""

    def test_nothing_differs_and_the_draft_has_the_same_definition(self) -> None:
        study = Study()
        proposal = study.propose()
        assert (proposal.differences, proposal.refusals) == ([], [])
        draft = make_draft(proposal, study.owner)
        assert draft.question == "What does Apptainer cost? (reproduced on first)"
        assert draft.reproduces == study.source
        assert set(draft.environments.all()) == {study.bare, study.box}
        assert set(draft.workloads.all()) == {study.workload}
        plans = [freeze_definition(row, 5) for row in (study.source, draft)]
        for plan in plans:
            del plan["question"]
        assert plans[0] == plans[1]

    def test_rows_that_have_changed_since_are_not_taken(self) -> None:
        study = Study()
        Workload.objects.filter(pk=study.workload.pk).update(parameters={"steps": 50})
        study.box.variables = {"OMP_NUM_THREADS": "2"}
        study.box.save()
        proposal = study.propose()
        draft = make_draft(proposal, study.owner)
        (workload,) = draft.workloads.all()
        assert workload != study.workload
        assert workload.name == "cnn (2)"
        assert workload.visibility == "private"
        (box,) = draft.environments.exclude(pk=draft.baseline_id)
        assert (box.name, box.variables) == ("Apptainer (2)", {"OMP_NUM_THREADS": "1"})
        assert box.staged_image == study.box.staged_image
        # Done once more, the same rows serve.
        again = make_draft(study.propose(), study.owner)
        assert set(again.environments.all()) == set(draft.environments.all())
        assert set(again.workloads.all()) == {workload}

    def test_a_record_of_another_sites_workload_is_not_launched(self) -> None:
        study = Study()
        Workload.objects.filter(pk=study.workload.pk).update(recorded=True)
        (workload,) = make_draft(study.propose(), study.owner).workloads.all()
        assert workload != study.workload
        assert not workload.recorded

    def test_an_extension_is_no_part_of_the_plan(self) -> None:
        study = Study()
        Experiment.objects.filter(pk=study.source.pk).update(
            extended_repeats=4, extension_level=0.03
        )
        study.source.refresh_from_db()
        (text,) = study.propose().differences
        assert "extended by 4 blocks" in text


class TestElsewhere:
    """On another cluster rows are matched by digest, or made; what cannot be is said."""

    def test_an_image_that_lies_in_another_form_is_taken_and_said(self) -> None:
        study = Study()
        cluster = study.second_cluster()
        sandbox = StagedImage.objects.create(
            image=study.image, cluster=cluster, format="sandbox", path="/images/x.sandbox"
        )
        proposal = study.propose(cluster)
        assert proposal.refusals == []
        assert "It runs on second, and not on first." in proposal.differences
        assert "It runs in batch, and not in gpu." in proposal.differences
        assert "Apptainer: the image is staged as sandbox, and was sif." in proposal.differences
        draft = make_draft(proposal, study.owner)
        (box,) = draft.environments.exclude(pk=draft.baseline_id)
        assert box.staged_image == sandbox
        assert box.cluster == cluster
        assert draft.baseline.is_bare_metal
        assert draft.baseline.cluster == cluster
        assert draft.reproduction
        assert draft.reproduction["differences"] == proposal.differences
        assert draft.reproduction["environments"] == {
            str(study.bare.pk): str(draft.baseline_id),
            str(study.box.pk): str(box.pk),
        }

    def test_bare_metal_that_is_there_is_offered_and_chosen(self) -> None:
        study = Study()
        cluster = study.second_cluster()
        own = EnvironmentFactory(name="system Python", cluster=cluster, python="/usr/bin/python3")
        key = str(study.bare.pk)
        place = study.propose(cluster).places[0]
        assert (place.candidates, place.chosen) == ([own], own)
        assert place.differences == [
            "bare metal runs in system Python, with another value of interpreter."
        ]
        new = study.propose(cluster, **{key: places.NEW}).places[0]
        assert new.is_new
        assert new.chosen
        assert new.chosen.python == "python3"

    def test_a_cluster_without_the_runtime_is_refused(self) -> None:
        study = Study()
        proposal = study.propose(study.second_cluster(runtime="udocker"))
        (text,) = proposal.refusals
        assert "which second does not have. Add the runtime" in text
        with pytest.raises(NotMade, match="does not have"):
            make_draft(proposal, study.owner)

    def test_a_scale_that_is_not_there_is_refused_with_how_to_go_on(self) -> None:
        study = Study(scales=["1x4"])
        cluster = study.second_cluster(gpus=2)
        StagedImage.objects.create(
            image=study.image, cluster=cluster, format="sif", path="/images/x.sif"
        )
        (text,) = study.propose(cluster).refusals
        assert "4 GPUs a node asked for; batch has 2." in text
        assert "Choose another partition or cluster" in text

    def test_an_image_of_a_registry_is_fetched_by_its_digest(self) -> None:
        study = Study()
        image = study.image
        image.reference = "registry.example.org/lab/tf:2.21"
        image.save()
        cluster = study.second_cluster()
        proposal = study.propose(cluster)
        assert not proposal.may_launch
        (place,) = proposal.to_prepare
        places.prepare(place, cluster, study.owner)
        row = ImageImport.objects.get()
        assert row.reference == f"registry.example.org/lab/tf@{image.digest}"
        later = study.propose(cluster)
        assert later.to_prepare == []
        assert later.waits == [f"Apptainer: {image} is being fetched."]

    @pytest.mark.parametrize(
        ("known", "asked"),
        [
            ({"architecture": "arm64"}, "arm64"),
            ({"facts": {"system": {"architecture": "aarch64"}}}, "arm64"),
            ({}, "amd64"),
        ],
    )
    def test_an_image_is_fetched_for_its_own_processors(
        self, known: dict[str, Any], asked: str
    ) -> None:
        study = Study()
        Image.objects.filter(pk=study.image.pk).update(
            **{"reference": "registry.example.org/lab/tf:2.21", "architecture": "", **known}
        )
        cluster = study.second_cluster()
        (place,) = study.propose(cluster).to_prepare
        places.prepare(place, cluster, study.owner)
        assert ImageImport.objects.get().architecture == asked

    def test_an_image_that_tare_has_is_staged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        study = Study()
        cluster = study.second_cluster()
        StagedImage.objects.create(
            image=study.image, cluster=study.cluster, format="archive", path="/images/a.archive"
        )
        proposal = study.propose(cluster)
        (place,) = proposal.to_prepare
        assert place.to_stage == ("sif", "")
        places.prepare(place, cluster, study.owner)
        staged = StagedImage.objects.get(cluster=cluster, format="sif")
        assert (staged.image, staged.state) == (study.image, "staging")
        later = study.propose(cluster)
        assert not later.may_launch
        assert [text for text in later.waits if "staging" in text]

    def test_an_image_that_nobody_knows_is_refused_with_its_digest(self) -> None:
        study = Study()
        digest = study.image.digest
        study.image.visibility = "private"
        study.image.save()
        stranger = UserFactory(role=Role.RESEARCHER)
        cluster = study.second_cluster()
        text = study.propose(cluster, stranger).places[1].problem
        assert f"@{digest}" in text
        assert "is in the catalogue" in text

    def test_one_that_tare_cannot_fetch_says_so(self) -> None:
        study = Study()
        study.image.kind = "rootfs"
        study.image.save()
        (text,) = study.propose(study.second_cluster()).refusals
        assert "Tare has no copy" in text
        assert "Add its file" in text

    def test_who_may_not_make_environments_is_told(self) -> None:
        study = Study()
        stranger = UserFactory(role=Role.VIEWER)
        proposal = study.propose(study.second_cluster(), stranger)
        assert any("you may not make one there" in text for text in proposal.refusals)


@pytest.mark.parametrize("obstacle", ["staged image", "image to be fetched", "data"])
def test_what_the_launch_refuses_is_refused_before_a_row_is_made(obstacle: str) -> None:
    study = Study()
    if obstacle == "data":
        copy = DataCopyFactory(cluster=study.cluster)
        command = {"argv": ["{python}", "-c", "1", "{data}"], "files": {}}
        workload = WorkloadFactory(
            name="reads", kind="command", parameters=command, data_set=copy.data_set
        )
        study.source.workloads.set([workload])
        freeze(study.source)
        DataCopy.objects.filter(pk=copy.pk).update(state="missing", message="Gone.")
        cluster, sentence = study.cluster, "is missing. Gone."
    else:
        reference = "registry.example.org/lab/tf:2.21"
        Image.objects.filter(pk=study.image.pk).update(architecture="arm64", reference=reference)
        cluster = study.second_cluster()
        sentence = "is for arm64; the nodes of batch on second are amd64."
        seen = Check("Partition batch", "Architecture", "ok", "", value="x86_64").as_json()
        CheckReportFactory(cluster=cluster, rows=[seen])
        if obstacle == "staged image":
            StagedImage.objects.create(
                image=study.image, cluster=cluster, format="sif", path="/images/x.sif"
            )
    proposal = study.propose(cluster)
    assert [text for text in proposal.refusals if sentence in text] == proposal.refusals
    assert len(proposal.refusals) == 1
    before = Environment.objects.count(), Workload.objects.count()
    with pytest.raises(NotMade, match=sentence):
        make_draft(proposal, study.owner)
    assert (Environment.objects.count(), Workload.objects.count()) == before


def test_files_of_a_workload_that_is_hidden_are_not_sent_again() -> None:
    study = Study()
    from experiments.models import SentFile

    row = SentFile.objects.keep(b"print(1)")
    workload = WorkloadFactory(
        name="mine",
        kind="command",
        owner=study.owner,
        visibility="private",
        parameters={"argv": ["{python}", "net.py"], "files": {"net.py": row.sha256}},
    )
    study.source.workloads.set([workload])
    freeze(study.source)
    assert study.propose().refusals == []
    stranger = UserFactory(role=Role.RESEARCHER)
    texts = study.propose(study.cluster, stranger).refusals
    assert any("belong to a workload that you may not view" in text for text in texts)
    workload.parameters["files"]["net.py"] = "0" * 64
    workload.save()
    SentFile.objects.all().delete()
    texts = study.propose().refusals
    assert any("files that this site does not have: net.py" in text for text in texts)


class TestVerdicts:
    """What came of it, line by line and over all."""

    def make(self, cost: float, cost_again: float, **columns: Any) -> ReproductionVerdict:
        study = Study(**columns)
        again = make_draft(study.propose(), study.owner)
        freeze(again)
        add_blocks(study.source, cost)
        add_blocks(again, cost_again, phase=2)
        return judge(study.source, again)

    def test_the_same_effect_is_reproduced(self) -> None:
        verdict = self.make(1.1, 1.1)
        assert verdict.overall
        assert verdict.overall.outcome is Outcome.REPRODUCED
        (line,) = verdict.lines
        assert (line.configuration, line.environment) == ("cnn, 1x1", "Apptainer")
        assert line.judged.ratio == pytest.approx(1, abs=2e-3)

    def test_another_effect_is_not(self) -> None:
        verdict = self.make(1.1, 1.2)
        assert verdict.overall
        assert verdict.overall.outcome is Outcome.NOT_REPRODUCED

    def test_the_margin_is_that_of_the_first_plan(self) -> None:
        verdict = self.make(1.1, 1.13, margin=0.1)
        assert verdict.overall
        assert verdict.overall.outcome is Outcome.REPRODUCED
        (line,) = verdict.lines
        assert line.judged.bounds == pytest.approx((1 / 1.1, 1.1))

    def test_before_the_end_it_waits(self) -> None:
        study = Study()
        again = make_draft(study.propose(), study.owner)
        freeze(again)
        assert judge(study.source, again).waits == WAITS
        add_blocks(again, 1.1)
        assert judge(study.source, again).waits == NO_FIRST

    def test_a_draft_that_was_changed_before_its_launch_is_no_reproduction(self) -> None:
        study = Study()
        again = make_draft(study.propose(), study.owner)
        again.margin, again.warm_up, again.repeats = 0.5, "found", 9
        again.save()
        again.workloads.set([WorkloadFactory(name="other", kind="cnn")])
        freeze(again)
        add_blocks(study.source, 1.1)
        add_blocks(again, 1.1, count=9)
        verdict = judge(study.source, again)
        assert verdict.overall
        assert verdict.overall.outcome is Outcome.INCONCLUSIVE
        for name in ("margin", "warm up", "workload cnn", "workload other"):
            assert name in verdict.overall.reason
        assert "repeats" not in verdict.overall.reason

    def test_renamed_rows_still_belong_together(self) -> None:
        study = Study()
        again = make_draft(study.propose(), study.owner)
        freeze(again)
        add_blocks(study.source, 1.1)
        add_blocks(again, 1.1, phase=2)
        Environment.objects.filter(pk=study.box.pk).update(name="Apptainer 1.4")
        Workload.objects.filter(pk=study.workload.pk).update(name="small cnn")
        verdict = judge(study.source, again)
        assert verdict.overall
        assert verdict.overall.outcome is Outcome.REPRODUCED

    def test_each_decisive_metric_has_a_line_with_its_margin(self) -> None:
        study = Study(
            primary_metric="step_time", further_metrics=[{"metric": "run_time", "margin": 0.3}]
        )
        again = make_draft(study.propose(), study.owner)
        freeze(again)
        verdicts = []
        for row, cost in ((study.source, 1.1), (again, 1.1)):
            (box,) = row.environments.exclude(pk=row.baseline_id)
            for repeat in range(1, 9):
                noise = 1 + 1e-3 * math.sin(7 * repeat + row.pk)
                made = block(row, repeat, {row.baseline: 0.02, box: 0.02 * cost * noise})
                for run in made.runs.all():
                    is_box = run.environment_id == box.pk
                    value = 10 * (1.2 * noise if is_box else 1)
                    run.measurements.create(metric="run_time", value=value, unit="s")
        verdict = judge(study.source, again)
        verdicts = [line.judged for line in verdict.lines]
        assert [judged.bounds and judged.bounds[1] for judged in verdicts] == pytest.approx(
            [1.02, 1.3]
        )


def test_fetched_files_that_are_not_those_of_a_bundles_image_are_refused(tmp_path: Path) -> None:
    """A row without facts came from elsewhere: its hash is a claim, which the file has to meet."""
    image = ImageFactory(tree="sha256:" + "1" * 64)
    row = ImageImportFactory(owner=image.owner)
    file = tmp_path / "archive"
    file.write_bytes(b"x")
    survey = {"tree": "sha256:" + "2" * 64}
    description = ImageDescription(kind="oci", digest=image.digest, size=1, survey=survey)
    signed = Finding(SignatureState.NONE, "not looked for")
    with pytest.raises(Refused, match="not those that"):
        _add_to_catalogue(row, file, description, "3" * 64, signed)
    assert file.exists()
    image.refresh_from_db()
    assert (image.tree, image.content_sha256) == ("sha256:" + "1" * 64, "")


def test_a_real_experiment_is_reproduced_on_this_machine(
    experiment: Callable[..., Experiment],
) -> None:
    """From the frozen plan through launch and runs to a verdict, with another order."""
    source = experiment(repeats=2)
    finish(source)
    owner = source.owner
    owner.is_superuser = True
    owner.save()
    proposal = propose(source, owner, source.cluster, None, {})
    assert proposal.refusals == []
    draft = make_draft(proposal, owner)
    lifecycle.launch(draft, owner)
    assert draft.plan
    assert source.plan
    assert draft.order_seed != source.order_seed
    own = {"question", "order_seed", "blocks", "parity"}
    assert {name: draft.plan[name] for name in draft.plan.keys() - own} == {
        name: source.plan[name] for name in source.plan.keys() - own
    }
    finish(draft)
    verdict = judge(source, draft)
    assert verdict.overall
    (line,) = verdict.lines
    assert line.judged.first
    assert line.judged.again
    assert line.judged.ratio or "Nothing can be inferred" in line.judged.reason
