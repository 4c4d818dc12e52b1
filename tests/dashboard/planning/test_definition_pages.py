"""The pages and commands for files of experiments."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client

from experiments.definitions.definition_schema import ADDRESS, build_schema
from experiments.models import Experiment, Role, User, Workload
from tests.dashboard.planning.test_definition_drafts import Place, make_place

pytestmark = pytest.mark.django_db
IMPORT = "/experiments/import/file/"


@pytest.fixture
def place() -> Place:
    return make_place()


@pytest.fixture
def as_person(place: Place) -> Client:
    client = Client()
    client.force_login(place.user)
    return client


def read_page(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_a_file_becomes_a_draft_and_comes_back_from_its_page(
    place: Place, as_person: Client
) -> None:
    assert f'href="{IMPORT}"' in as_person.get("/experiments/").content.decode()
    text = place.write()
    # A browser sends the ends of lines of a text field as two characters.
    answer = as_person.post(IMPORT, {"text": text.replace("\n", "\r\n"), "action": "import"})
    draft = Experiment.objects.get()
    assert answer["Location"] == draft.get_absolute_url()
    address = f"/experiments/{draft.pk}/definition.yaml"
    assert address in as_person.get(draft.get_absolute_url()).content.decode()
    file = as_person.get(address)
    assert file.content.decode() == text
    assert file["Content-Type"] == "application/yaml; charset=utf-8"
    assert file["Content-Disposition"] == (
        f'attachment; filename="tare-{draft.pk}-what-does-apptainer-cost-experiment.yaml"'
    )
    document = json.loads(as_person.get(address.replace("yaml", "json")).content)
    assert document["question"] == draft.question


def test_an_uploaded_file_is_launched_and_its_plan_exported(
    place: Place, as_person: Client
) -> None:
    file = SimpleUploadedFile("study.yaml", place.write().encode())
    answer = as_person.post(IMPORT, {"file": file, "text": "old", "action": "launch"})
    launched = Experiment.objects.get()
    assert answer["Location"] == launched.get_absolute_url()
    assert launched.launched_at
    address = f"/experiments/{launched.pk}/definition.yaml"
    assert address in as_person.get(launched.get_absolute_url()).content.decode()
    assert as_person.get(address).content.decode() == place.write()


def test_problems_stand_beside_their_lines_and_nothing_is_stored(
    place: Place, as_person: Client
) -> None:
    text = place.write().replace("repeats", "repeat").replace("cluster:", "clutser:")
    for action in ("check", "import", "launch"):
        page = read_page(as_person.post(IMPORT, {"text": text, "action": action}))
        assert "Is cluster meant?" in page
        assert "Is repeats meant?" in page
        assert f"clutser: {place.cluster.name}</code>" in page
        assert "For the rebuttal." in page  # the text stays
    assert "Not launched" in page
    assert not Experiment.objects.exists()


def test_checking_says_what_it_would_cost_and_stores_nothing(
    place: Place, as_person: Client
) -> None:
    page = read_page(as_person.post(IMPORT, {"text": place.write(), "action": "check"}))
    assert "It can be imported. 10 runs in 5 jobs, at most 0.2 GPU-hours." in page
    assert not Experiment.objects.exists()


def test_checking_says_which_rows_stand_for_others_of_the_file(
    place: Place, as_person: Client
) -> None:
    text = place.write(bare="their metal")
    page = read_page(as_person.post(IMPORT, {"text": text, "action": "check"}))
    assert "It can be imported" in page
    assert f"“their metal” of the file is “{place.bare.name}” here" in page


def test_names_of_another_site_are_chosen_on_the_page(place: Place, as_person: Client) -> None:
    text = place.write(cluster="hpc1", partition="a100")
    page = read_page(as_person.post(IMPORT, {"text": text}))
    assert f"<option>{place.cluster.name}</option>" in page
    first = {"map_section": ["clusters"], "map_name": ["hpc1"], "map_here": [place.cluster.name]}
    page = read_page(as_person.post(IMPORT, {"text": text, **first}))
    assert f"hpc1 → {place.cluster.name}" in page
    assert f"<option>{place.partition.name}</option>" in page
    both = {
        "map_section": ["clusters", "partitions"],
        "map_name": ["hpc1", "a100"],
        "map_here": [place.cluster.name, place.partition.name],
    }
    as_person.post(IMPORT, {"text": text, "action": "import", **both})
    assert Experiment.objects.get().partition == place.partition


def test_workloads_are_made_when_the_box_is_ticked(place: Place, as_person: Client) -> None:
    text = place.write(workload="mine").replace(
        "kind: blas", "kind: blas\n    parameters: {seed: 9}"
    )
    assert "have it made of the file" in read_page(as_person.post(IMPORT, {"text": text}))
    as_person.post(IMPORT, {"text": text, "make_missing": "on", "action": "import"})
    assert Workload.objects.get(name="mine").parameters["seed"] == 9


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"\x00", b"{" * 5000, b"x" * 1_000_001, b"a: &a [*a]"]
)
def test_odd_files_are_refused_on_the_page(content: bytes, as_person: Client) -> None:
    file = SimpleUploadedFile("study.yaml", content + b" ")
    for action in ("check", "import", "launch"):
        file.seek(0)
        answer = as_person.post(IMPORT, {"file": file, "action": action})
        assert answer.status_code == 200
        assert "nothing was stored" in read_page(answer)


def test_a_page_of_many_problems_stays_small(as_person: Client) -> None:
    text = "tare: 1\n" + "".join(f"key{number}: {'x' * 400}\n" for number in range(2000))
    page = as_person.post(IMPORT, {"text": text}).content.decode()
    assert "And 1," in page
    assert len(page.replace(text, "")) < 1_200_000


def test_viewers_import_nothing(place: Place, as_person: Client) -> None:
    User.objects.filter(pk=place.user.pk).update(role=Role.VIEWER)
    assert as_person.get(IMPORT).status_code == 403
    assert as_person.post(IMPORT, {"text": place.write(), "action": "import"}).status_code == 403
    assert not Experiment.objects.exists()


def test_the_schema_is_served_to_everybody() -> None:
    answer = Client().get(ADDRESS)
    assert json.loads(answer.content) == build_schema()


def call(*arguments: Any) -> str:
    stream = StringIO()
    call_command(*map(str, arguments), stdout=stream)
    return stream.getvalue()


def test_commands_import_export_and_launch(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(place.write(cluster="hpc1"))
    names = tmp_path / "names.yaml"
    names.write_text(f"clusters: {{hpc1: {place.cluster.name}}}\n")
    owner = ("--owner", place.user.username)
    with pytest.raises(CommandError, match="line 4, column 1: cluster: No cluster “hpc1”"):
        call("import_experiment", file, *owner)
    assert "Launched: experiment" in call(
        "import_experiment", file, *owner, "--map", names, "--launch"
    )
    launched = Experiment.objects.get()
    assert launched.launched_at
    assert call("export_experiment", launched.pk) == place.write()
    assert json.loads(call("export_experiment", launched.pk, "--format", "json"))["tare"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import_experiment", "none.yaml", "--owner", "nobody"], "no user called nobody"),
        (["export_experiment", "123456"], "There is no experiment 123456"),
    ],
)
def test_commands_say_what_is_wrong(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call(*arguments)
