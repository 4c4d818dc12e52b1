"""The checklist of an artefact evaluation: what the data show, and nothing that nobody stated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.bundles.checklist_facts import ArtefactFacts, read_artefact_facts
from experiments.bundles.evaluation_checklist import (
    NISO,
    Badge,
    State,
    check_complete,
    check_consistent,
    check_images,
    check_machines,
    check_programs,
    check_reproduced,
    make_checklist,
    write_markdown,
)
from experiments.bundles.stated_reproductions import list_reproductions
from experiments.citations import Author, save_citation
from experiments.comparisons import keep_comparison
from experiments.execution import excluded_runs
from experiments.models import Citation, Experiment, Image, Role, Run
from experiments.reproductions.reproduction_drafts import make_draft
from tests.experiments.bundles.studies import end_runs, launch, make_bundle, unpack
from tests.experiments.reproductions.test_done_again import Study, add_blocks, freeze
from tests.factories import NOON, ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def ended() -> Experiment:
    experiment = launch(question="Is *a* <container> slower?")
    end_runs(experiment)
    return experiment


def reproduce(first: Experiment, **columns: Any) -> Experiment:
    """Return a launched experiment that does this one again."""
    again = launch()
    Experiment.objects.filter(pk=again.pk).update(reproduces=first, **columns)
    return again


def test_what_nobody_has_stated_is_not_stated(ended: Experiment) -> None:
    sections = make_checklist(read_artefact_facts(ended))
    assert [section.badge for section in sections] == list(Badge)
    states = {line.question: line.state for section in sections for line in section.lines}
    assert {q for q, state in states.items() if state is State.NOT_STATED} == {
        "Is the artefact in a public archive, with a DOI?",
        "Is a licence stated?",
        "Are the authors stated?",
        "Have others reproduced the results with this artefact?",
    }
    assert all(
        line.to_do for section in sections for line in section.lines if line.state != State.SHOWN
    )


def test_what_is_stated_is_shown(ended: Experiment) -> None:
    authors = [Author("Author", "A."), Author("Author", "B.")]
    save_citation(ended, ended.owner, title="", licence="CC-BY-4.0", authors=authors)
    Citation.objects.update(doi="10.5281/zenodo.1", doi_published_at=NOON)
    ended = Experiment.objects.get(pk=ended.pk)
    text = write_markdown(make_checklist(read_artefact_facts(ended)), {"question": "?"}).decode()
    for shown in (
        "- [x] **Is the artefact in a public archive, with a DOI?** Deposited: 10.5281/zenodo.1.",
        "- [x] **Is a licence stated?** Licence: CC-BY-4.0.",
        "- [x] **Are the authors stated?** Authors: A. Author and B. Author.",
    ):
        assert shown in text


def test_a_doi_that_is_only_reserved_is_no_deposit(ended: Experiment) -> None:
    save_citation(ended, ended.owner, title="", licence="", authors=[])
    Citation.objects.update(doi="10.5281/zenodo.1")
    assert read_artefact_facts(Experiment.objects.get(pk=ended.pk)).deposit_doi == ""


def test_reproductions_that_others_cannot_look_at_or_have_not_made_do_not_count(
    ended: Experiment,
) -> None:
    reproduce(ended, visibility="private")
    reproduce(ended, visibility="public", owner=ended.owner)
    ExperimentFactory(reproduces=ended, visibility="public")
    assert read_artefact_facts(ended, UserFactory()).reproductions == []


def test_reproductions_for_members_are_told_to_nobody_else(ended: Experiment) -> None:
    again = reproduce(ended, visibility="members")
    assert read_artefact_facts(ended).reproductions == []
    assert "Done again" not in unpack(make_bundle(ended))["data/artefact-evaluation.md"].decode()
    (told,) = read_artefact_facts(ended, UserFactory()).reproductions
    assert f"as experiment {again.pk}, launched {again.launched_at:%Y-%m-%d}" in told.sentence


def test_one_that_has_only_been_launched_has_reproduced_nothing(ended: Experiment) -> None:
    reproduce(ended, visibility="public")
    line = check_reproduced(read_artefact_facts(ended))
    assert (line.state, line.to_do != "") == (State.PARTLY, True)
    assert "no verdict yet" in line.known


def do_again(study: Study, cost: float) -> Experiment:
    """Return a public reproduction by somebody else whose container costs so much."""
    person = UserFactory(role=Role.SITE_ADMINISTRATOR, is_superuser=True)
    again = make_draft(study.propose(person=person), person)
    freeze(again)
    add_blocks(again, cost, phase=1)
    Experiment.objects.filter(pk=again.pk).update(visibility="public")
    assert keep_comparison(again.pk) == "kept"
    return again


def test_only_results_that_came_out_again_are_shown() -> None:
    study = Study()
    add_blocks(study.source, 1.05)
    assert keep_comparison(study.source.pk) == "kept"
    first = Experiment.objects.get(pk=study.source.pk)
    again = do_again(study, 1.05)
    line = check_reproduced(read_artefact_facts(first))
    assert (line.state, line.to_do) == (State.SHOWN, "")
    assert f"as experiment {again.pk}, launched 2026-11-20: REPRODUCED. " in line.known
    with CaptureQueriesContext(connection) as of_one:
        list_reproductions(first)
    do_again(study, 1.5)
    with CaptureQueriesContext(connection) as of_two:
        list_reproductions(first)
    assert len(of_two) == len(of_one)
    line = check_reproduced(read_artefact_facts(first))
    assert line.state is State.PARTLY
    assert ": NOT REPRODUCED. " in line.known


def test_lines_follow_the_data(ended: Experiment) -> None:
    facts = read_artefact_facts(ended)
    runs = ended.runs.count()
    assert check_complete(facts).state is State.SHOWN
    assert f"All {runs} runs" in check_complete(facts).known
    assert ended.plan_hash in check_consistent(facts).known
    assert check_machines(facts).state is State.SHOWN
    assert facts.images == 1
    excluded_runs.exclude(ended.runs.all()[0], UserFactory(), "the fan had stopped")
    Run.objects.filter(pk=ended.runs.all()[1].pk).update(snapshot=None)
    Image.objects.update(tree="")
    facts = read_artefact_facts(ended)
    assert "excluded 1 run" in check_consistent(facts).known
    assert "also the 1 that gave no number or are excluded" in check_complete(facts).known
    assert check_machines(facts).state is State.PARTLY
    assert check_images(facts).to_do.startswith("Have the images without that hash inspected")


def test_runs_that_live_are_waited_for(ended: Experiment) -> None:
    ended.runs.filter(repeat=1).update(state=Run.State.RUNNING)
    line = check_complete(read_artefact_facts(ended))
    assert (line.state, line.known) == (
        State.TO_DO,
        "2 runs have not ended: there is no bundle yet.",
    )


def test_own_programs_are_named(ended: Experiment) -> None:
    facts: ArtefactFacts = replace(read_artefact_facts(ended), own_programs=["mine"])
    line = check_programs(facts)
    assert (line.state, line.known.split(":")[0]) == (State.TO_DO, "mine")


def test_it_lies_in_the_bundle_and_no_text_of_a_person_is_markdown(ended: Experiment) -> None:
    text = unpack(make_bundle(ended))["data/artefact-evaluation.md"].decode()
    assert text.splitlines()[0] == r"# Artefact evaluation: Is \*a\* \<container\> slower?"
    for badge in Badge:
        assert f"## {badge} ({NISO[badge]})" in text
