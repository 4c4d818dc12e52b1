"""Files of studies on a site: all experiments are stored, or none, and written as they came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.planning.study_drafts import check_study_text, launch_study_text, save_study_text
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.study_reading import parse_study
from experiments.execution import labels
from experiments.models import AuditEntry, Experiment, Job, Study
from experiments.studies.described_studies import write_study_file
from experiments.studies.study_members import list_member_keys, take_out
from tests.dashboard.planning.test_definition_drafts import Place, make_place
from tests.factories import ClusterFactory, EnvironmentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    return make_place()


def write(place: Place, entries: str = "") -> str:
    """Return the file of a study on the place's cluster, and on one with bare metal alone."""
    text = place.write().replace("tare: 1\n", "tare: 1\nstudy: Three machines  # its name\n")
    text = text.replace(f"cluster: {place.cluster.name}\npartition: {place.partition.name}\n", "")
    entries = entries or (
        f"  - cluster: {place.cluster.name}  # ours\n    partition: {place.partition.name}\n"
        f"  - cluster: {place.cluster.name}\n    partition: {place.partition.name}\n"
        "    question: And with fewer repeats?\n    design: {repeats: 3}\n    tags: [short]\n"
    )
    return f"{text}visibility: private\nexperiments:\n{entries}"


def test_a_file_becomes_a_study_which_is_written_as_it_came(place: Place) -> None:
    text = write(place)
    study = save_study_text(text, place.user)
    first, second = [Experiment.objects.get(pk=key) for key in list_member_keys(study)]
    assert (study.name, study.question) == ("Three machines", "What does Apptainer cost?")
    assert (first.question, second.question) == (study.question, "And with fewer repeats?")
    assert (first.repeats, second.repeats, second.tags) == (5, 3, ["short"])
    assert {study.visibility, first.visibility, second.visibility} == {"private"}
    assert write_study_file(study, place.user) == text
    again = save_study_text(write_study_file(study, place.user, "json"), place.user)
    assert [row.question for row in again.experiments.order_by("pk")] == [
        first.question,
        second.question,
    ]
    assert AuditEntry.objects.filter(kind="study", what="added").count() == 2


def test_a_changed_study_keeps_the_comments_of_its_file(place: Place) -> None:
    study = save_study_text(write(place), place.user)
    key = list_member_keys(study)[0]
    row = Experiment.objects.get(pk=key)
    labels.relabel(row, place.user, question=row.question, tags=["night"], notes="a\nb")
    written = write_study_file(study, place.user)
    assert all(comment in written for comment in ("# its name", "# ours", "# SIF"))
    [first, _] = parse_study(written).experiments
    assert (first.values["tags"], first.values["notes"]) == (("night",), "a\nb")
    take_out(study, [key], place.user)
    [left] = parse_study(write_study_file(study, place.user)).experiments
    assert left.values["question"] == "And with fewer repeats?"


def test_all_problems_come_with_their_lines_and_entries(place: Place) -> None:
    bare = ClusterFactory(name="bare-cluster")
    EnvironmentFactory(cluster=bare, name=place.bare.name)
    text = write(
        place,
        f"  - cluster: {place.cluster.name}\n  - cluster: bare-cluster\n  - cluster: nowhere\n",
    )
    problems = check_study_text(text, place.user).problems
    lines = text.splitlines()
    about = {
        (row.field, lines[(row.line or 1) - 1].strip().split("#")[0].strip()) for row in problems
    }
    assert ("experiments[2].cluster", "- cluster: nowhere") in about
    assert any(field.startswith("experiments[1].environments[1]") for field, _ in about), about
    with pytest.raises(BadDefinition):
        save_study_text(text, place.user)
    assert not Study.objects.exists()
    assert not Experiment.objects.exists()


def test_a_study_is_launched_in_one_step_or_nothing_is_kept(place: Place) -> None:
    study = launch_study_text(write(place), place.user)
    assert study.experiments.exclude(launched_at=None).count() == 2
    assert Job.objects.count() == 5 + 3
    place.cluster.enabled = False
    place.cluster.save()
    with pytest.raises(BadDefinition) as refused:
        launch_study_text(write(place), place.user)
    assert {row.field.partition(".")[0] for row in refused.value.problems} == {
        "experiments[0]",
        "experiments[1]",
    }
    assert (Study.objects.count(), Experiment.objects.count()) == (1, 2)


def test_names_are_mapped_for_all_entries_at_once(place: Place) -> None:
    name = place.partition.name
    entries = f"  - cluster: theirs\n    partition: {name}\n"
    text = write(place, f"{entries}{entries}    question: twice\n")
    applied = check_study_text(text, place.user)
    assert [(row.section, row.name) for row in applied.missing] == [("clusters", "theirs")]
    names = {"clusters": {"theirs": place.cluster.name}}
    study = save_study_text(text, place.user, names)
    written = write_study_file(study, place.user)
    assert "theirs" not in written
    assert "# its name" in written


def test_the_page_and_the_command_take_the_file_of_a_study(place: Place, tmp_path: Path) -> None:
    client = Client()
    client.force_login(place.user)
    text = write(place)

    def post(action: str, text: str = text) -> Any:
        return client.post("/experiments/import/file/", {"text": text, "action": action})

    assert "as a study of 2 experiments" in post("check").content.decode()
    assert "16 runs in 8 jobs" in post("check").content.decode()
    study = Study.objects.get(pk=post("import").url.split("/")[2])
    assert study.experiments.filter(launched_at=None).count() == 2
    wrong = post("import", text.replace("repeats: 3", "repeats: none")).content.decode()
    assert "experiments[1].design.repeats" in wrong
    file = tmp_path / "study.yaml"
    file.write_text(text)
    call_command("import_experiment", file, owner=place.user.username, launch=True)
    assert Study.objects.count() == 2
    file.write_text(text.replace("margin: 2.3 %", "margin: none"))
    with pytest.raises(CommandError, match="margin"):
        call_command("import_experiment", file, owner=place.user.username)
