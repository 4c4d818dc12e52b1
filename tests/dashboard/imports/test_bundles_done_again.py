"""A bundle of another Tare, imported here, is done again on a cluster of this site."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.models import Cluster, Experiment, Role, SentFile, Workload
from experiments.reproductions.proposals import Proposal, propose
from experiments.reproductions.reproduction_drafts import make_draft
from experiments.reproductions.reproduction_verdicts import (
    ReproductionVerdict,
    judge_reproduction,
)
from experiments.statistics.reproductions import Outcome
from tests.dashboard.imports.bundles import bring, forget_all
from tests.experiments.bundles.studies import end_runs, launch, make_bundle
from tests.factories import ExperimentFactory, UserFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


class Carried:
    """A study that was measured elsewhere, imported by somebody of this site."""

    def __init__(self, folder: Path, workload: Workload | None = None) -> None:
        made = launch_with(workload) if workload else launch(repeats=8)
        self.cluster: Cluster = made.cluster
        end_runs(made, cost=1.1)
        bundle = make_bundle(made)
        names = [row.name for row in made.workloads.all()]
        forget_all(made)
        WorkloadFactory(name=names[0])  # another one of this site: the import gets a number
        self.owner = UserFactory(role=Role.SITE_ADMINISTRATOR, is_superuser=True)
        key = bring(bundle, folder, self.owner, visibility="members").experiment.pk
        self.source: Experiment = Experiment.objects.get(pk=key)

    def propose(self) -> Proposal:
        return propose(self.source, self.owner, self.cluster, self.cluster.partitions.first(), {})


def launch_with(workload: Workload) -> Experiment:
    draft = ExperimentFactory(workloads=[workload], margin=0.02, repeats=8)
    lifecycle.launch(draft, draft.owner)
    return Experiment.objects.get(pk=draft.pk)


def judge(first: Experiment, again: Experiment) -> ReproductionVerdict:
    rows = [Experiment.objects.get(pk=row.pk) for row in (first, again)]
    return judge_reproduction(compare_experiment(rows[0]), compare_experiment(rows[1]))


def reproduce(carried: Carried, cost: float = 1.1) -> Experiment:
    """Launch the plan of an imported study here, and end its runs."""
    draft = make_draft(carried.propose(), carried.owner)
    assert not draft.workloads.filter(recorded=True).exists()
    assert not draft.environments.exclude(cluster=carried.cluster).exists()
    lifecycle.launch(draft, carried.owner)
    again = Experiment.objects.get(pk=draft.pk)
    end_runs(again, cost=cost, seed=2)
    return again


def test_it_is_launched_here_and_its_verdict_is_held_against_the_bundle(tmp_path: Path) -> None:
    carried = Carried(tmp_path)
    assert carried.propose().refusals == []
    again = reproduce(carried)
    assert again.reproduces == carried.source
    verdict = judge(carried.source, again)
    assert verdict.overall
    assert verdict.overall.outcome is Outcome.REPRODUCED, verdict.overall.reason
    (line,) = verdict.lines
    assert line.judged.first
    assert line.judged.again


def test_another_effect_is_not_the_same(tmp_path: Path) -> None:
    carried = Carried(tmp_path)
    verdict = judge(carried.source, reproduce(carried, cost=1.3))
    assert verdict.overall
    assert verdict.overall.outcome is Outcome.NOT_REPRODUCED


def test_both_in_bundles_find_each_other_in_any_order(tmp_path: Path) -> None:
    """A reproduction of another site is linked with its first study, whichever comes first."""
    carried = Carried(tmp_path)
    again = reproduce(carried)
    first = Experiment.objects.get(pk=carried.source.pk)
    shown = judge(first, again).overall
    bundles = [make_bundle(row) for row in (first, again)]
    for order in (bundles, bundles[::-1]):
        forget_all(*Experiment.objects.all())
        keys = [bring(content, tmp_path, carried.owner).experiment.pk for content in order]
        rows = {row.pk: row for row in Experiment.objects.filter(pk__in=keys)}
        assert sum(row.reproduces_id in rows for row in rows.values()) == 1
        (second,) = (row for row in rows.values() if row.reproduces_id)
        verdict = judge(rows[second.reproduces_id], second)
        assert verdict.overall == shown
        assert verdict.differences


def test_files_that_are_not_here_are_refused_in_words(tmp_path: Path) -> None:
    file = SentFile.objects.keep(b"print('step_time=1')")
    argv = {"argv": ["{python}", "net.py"], "files": {"net.py": file.sha256}}
    workload = WorkloadFactory(kind="command", parameters=argv)
    carried = Carried(tmp_path, workload)
    Workload.objects.filter(pk=workload.pk).update(visibility="private", kind="blas")
    # The bytes are here, of somebody else: a check sum in a bundle opens nothing.
    texts = carried.propose().refusals
    assert any("the bundle has only the check sums" in text and "net.py" in text for text in texts)
    WorkloadFactory(kind="command", parameters=argv, owner=carried.owner)
    assert carried.propose().refusals == []
