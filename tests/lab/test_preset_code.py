"""The preset of tf_cnn_benchmarks by forms, with an archive and with a commit of the stand-in: put
on the lab as soon as the draft is made, launched, and measured up to a verdict.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.urls import reverse
from webtest import Upload

from experiments.models import Cluster, CodeCopy, Experiment, Operation
from tests.conftest import tick_until
from tests.lab.by_forms import Person, wait_for_runs
from tests.lab.test_code import bring_git, bring_repository, make_repository
from tests.lab.test_presets import BARE, CONTAINER, researcher
from tests.lab.test_without_python import VERDICTS
from tests.runners.code_archives import make_tf_cnn_tar

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]


def make_draft(person: Person, cluster: Cluster, **code: object) -> Experiment:
    """Make a draft of the preset with its code, and wait until that is on the cluster."""
    rows = cluster.environments.filter(name__in=(BARE, CONTAINER))
    bare = rows.get(name=BARE)
    page = person.get("preset", "tf-cnn-benchmarks")
    answer = person.send(
        page,
        reverse("preset", args=["tf-cnn-benchmarks"]),
        size="laptop",
        environments=[str(row.pk) for row in rows],
        baseline=str(bare.pk),
        **code,
    )
    assert "Its code is being put on" in answer.text
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not alive.exists(), seconds=200)
    assert {row.message for row in Operation.objects.all()} == {""}
    return Experiment.objects.latest("pk")


def launch(person: Person, draft: Experiment) -> None:
    person.send(person.get("experiment_edit", draft.pk), "", repeats="5")
    draft.refresh_from_db()
    assert draft.launched_at, "launched by its form"


def test_the_preset_with_an_archive_and_with_a_commit_ends_in_a_verdict(
    researcher: Person, registered: Cluster, tmp_path: Path
) -> None:
    repository, commit = make_repository(tmp_path)
    place = f"{registered.work_directory}-preset"
    bring_repository(registered, place, repository)
    bring_git(registered, place)
    archived = make_draft(
        researcher, registered, code_file=Upload("benchmarks.tar.gz", make_tf_cnn_tar())
    )
    fetched = make_draft(
        researcher,
        registered,
        code_repository=f"file://{place}/project.git",
        code_commit=commit,
        script_folder="benchmarks/scripts/tf_cnn_benchmarks",
    )
    assert set(CodeCopy.objects.values_list("state", flat=True)) == {"ready"}
    for draft in (archived, fetched):
        launch(researcher, draft)
    wait_for_runs(registered, seconds=600)
    for made in (archived, fetched):
        assert made.runs.exists()
        page = researcher.get("comparison", made.pk, section="all")
        verdicts = {each.get_text(strip=True) for each in page.html.select(".verdict")}
        assert verdicts, "five repeats are enough for one"
        assert verdicts <= VERDICTS, verdicts
