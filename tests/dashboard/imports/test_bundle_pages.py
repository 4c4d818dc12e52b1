"""The page that imports bundles, the pages of what was imported, and summaries over several."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.urls import reverse

from dashboard import uploads
from experiments.access.anonymity import build_anonymity
from experiments.comparisons import keep_comparison
from experiments.imports import Limits, uploaded_bundles
from experiments.models import (
    Citation,
    Cluster,
    Environment,
    Experiment,
    Image,
    Partition,
    Role,
    Snapshot,
    User,
    Workload,
)
from experiments.signing import make_signing_key
from tests.dashboard.access.test_links import addresses_of, body, link_to, visitor
from tests.dashboard.comparisons.test_studies import query_of, read_table, read_text, show
from tests.dashboard.conftest import People, read_report
from tests.dashboard.imports.bundles import bring, forget_all, write
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import UserFactory
from tests.source_tree import BASE

pytestmark = pytest.mark.django_db
ADDRESS = "/experiments/import/bundle/"


@pytest.fixture
def bundle() -> bytes:
    """Return the bundle of another site: its experiment is not on this one."""
    experiment = launch(question="What does Apptainer cost there?")
    end_runs(experiment)
    content = write(experiment)
    forget_all(experiment)
    return content


def send(client: Client, content: bytes, **values: Any) -> Any:
    form = {"bundle": SimpleUploadedFile("study.zip", content), "visibility": "private", **values}
    return client.post(ADDRESS, form)


def read_page(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_a_bundle_is_uploaded_and_its_page_says_where_it_came_from(
    bundle: bytes, as_owner: Client, people: People
) -> None:
    assert f'href="{ADDRESS}"' in as_owner.get("/experiments/").content.decode()
    answer = send(as_owner, bundle)
    experiment = Experiment.objects.get()
    assert answer["Location"] == experiment.get_absolute_url()
    assert (experiment.owner, experiment.visibility) == (people.owner, "private")
    page = read_page(as_owner.get(experiment.get_absolute_url()))
    assert "All check sums and numbers agree." in page
    assert f"from a bundle: experiment {experiment.imported_bundle.number} of another Tare" in page
    plan = read_page(as_owner.get(f"{experiment.get_absolute_url()}?tab=plan"))
    assert experiment.imported_bundle.sha256 in plan
    assert experiment.plan_hash in plan
    assert "EQUIVALENT" in read_report(as_owner, experiment).upper()
    for tab in ("runs", "jobs", "events"):
        address = f"{experiment.get_absolute_url()}?tab={tab}"
        assert as_owner.get(address).status_code == 200
    run = experiment.runs.first()
    assert run
    assert as_owner.get(run.get_absolute_url()).status_code == 200


def test_what_was_imported_is_not_launched_or_saved_as_a_preset(
    bundle: bytes, as_owner: Client
) -> None:
    send(as_owner, bundle)
    experiment = Experiment.objects.get()
    page = as_owner.get(experiment.get_absolute_url()).content.decode()
    for name in ("experiment_clone", "own_preset_new", "recurring_new"):
        assert reverse(name, args=[experiment.pk]) not in page
    for name in ("experiment_clone", "own_preset_new"):
        assert as_owner.post(reverse(name, args=[experiment.pk])).status_code == 403
    assert Experiment.objects.get() == experiment


def test_a_forged_bundle_is_refused_on_the_page(bundle: bytes, as_owner: Client) -> None:
    forged = bytearray(bundle)
    forged[len(forged) // 2] ^= 1
    page = read_page(send(as_owner, bytes(forged)))
    assert "Nothing was imported." in page
    assert not Experiment.objects.exists()


@pytest.mark.parametrize("content", [b"", b"no zip at all"])
def test_what_is_no_bundle_is_refused_on_the_page(content: bytes, as_owner: Client) -> None:
    answer = send(as_owner, content)
    assert answer.status_code == 200
    assert "Not imported" in read_page(answer)


def test_a_bundle_that_is_too_large_is_told_the_other_way(
    bundle: bytes, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LIMITS", Limits(archive_bytes=100))
    assert "manage.py import_bundle" in read_page(send(as_owner, bundle))


def test_the_second_time_the_first_import_is_named_to_those_who_may_view_it(
    bundle: bytes, people: People
) -> None:
    send(people.client("owner"), bundle)
    experiment = Experiment.objects.get()
    again = read_page(send(people.client("owner"), bundle))
    assert f'<a href="{experiment.get_absolute_url()}">' in again
    other = read_page(send(people.client("other"), bundle))
    assert "in an experiment that you may not view" in other
    assert experiment.get_absolute_url() not in other
    assert experiment.question not in other
    assert Experiment.objects.count() == 1


def test_of_two_at_once_one_is_told_to_try_again(bundle: bytes, as_owner: Client) -> None:
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_lock(hashtextextended(%s, 0))", [uploaded_bundles.LOCK]
            )
        assert "try again in a minute" in read_page(send(as_owner, bundle))
    finally:
        other.close()
    assert send(as_owner, bundle).status_code == 302


def test_viewers_import_nothing(bundle: bytes) -> None:
    client = Client()
    client.force_login(UserFactory(role=Role.VIEWER))
    assert client.get(ADDRESS).status_code == 403
    assert send(client, bundle).status_code == 403


def test_an_import_is_deleted_with_all_that_it_brought(
    bundle: bytes, as_owner: Client, people: People
) -> None:
    models = (Cluster, Partition, Environment, Workload, Snapshot)
    before = [model.objects.count() for model in models]
    send(as_owner, bundle)
    address = reverse("experiment_delete", args=[Experiment.objects.get().pk])
    assert people.client("other").post(address).status_code in (403, 404)
    assert as_owner.post(address)["Location"] == "/experiments/"
    assert [model.objects.count() for model in models] == before
    assert not Experiment.objects.exists()


def test_the_command_imports_and_says_what_it_refuses(bundle: bytes, tmp_path: Path) -> None:
    path, owner = tmp_path / "study.zip", UserFactory(username="ada")
    path.write_bytes(bundle)
    with pytest.raises(CommandError, match="no user called"):
        call_command("import_bundle", str(path), owner="nobody")
    call_command("import_bundle", str(path), owner="ada", visibility="members")
    experiment = Experiment.objects.get()
    assert (experiment.owner, experiment.visibility) == (owner, "members")
    with pytest.raises(CommandError, match="on this site already"):
        call_command("import_bundle", str(path), owner="ada")
    with pytest.raises(CommandError, match="Nothing was imported"):
        call_command("import_bundle", str(tmp_path / "missing.zip"), owner="ada")
    UserFactory(username="viewer", role=Role.VIEWER)
    with pytest.raises(CommandError, match="may make no experiments"):
        call_command("import_bundle", str(path), owner="viewer")


def make_own(owner: User, cost: float, question: str) -> Experiment:
    """Return a study that was measured here, with a kept comparison."""
    experiment = launch(owner=owner, question=question, repeats=6)
    end_runs(experiment, cost=cost, seed=round(1000 * cost))
    assert keep_comparison(experiment.pk) == "kept"
    return experiment


def bring_studies(owner: User, costs: Sequence[float], folder: Path) -> list[Experiment]:
    """Return studies of another site, imported into this one, with kept comparisons."""
    theirs = [make_own(UserFactory(), cost, f"There, {cost}?") for cost in costs]
    bundles = [write(row) for row in theirs]
    forget_all(*theirs)
    rows = [bring(content, folder, owner).experiment for content in bundles]
    assert [keep_comparison(row.pk) for row in rows] == ["kept"] * len(rows)
    return rows


def test_two_imported_studies_are_shown_together(
    people: People, as_owner: Client, tmp_path: Path
) -> None:
    rows = bring_studies(people.owner, (1.001, 1.004), tmp_path)
    page = show(as_owner, query_of(rows))
    shown = read_table(page, "relative to")
    assert [row[-2] for row in shown[:2]] == ["Equivalent", "Equivalent"]
    assert "2 experiments do not tell how much experiments differ; it takes 3" in read_text(page)
    for question in ("There, 1.001?", "There, 1.004?"):
        assert question in read_text(page)


def test_imported_studies_and_an_own_one_have_one_summary(
    people: People, as_owner: Client, tmp_path: Path
) -> None:
    imported = bring_studies(people.owner, (1.001, 1.004), tmp_path)
    own = make_own(people.owner, 1.002, "Here?")
    page = show(as_owner, query_of([own, *imported]))
    summary = read_text(page.select_one("#summary"))
    assert "Over 3 experiments Apptainer has a mean ratio of 1.00" in summary
    facts = {row[0]: row[1] for row in read_table(page, "What differs")}
    assert facts["Kind"] == "experiment experiment 1 experiment, from a bundle experiments 2 and 3"


def test_names_of_people_of_the_other_site_are_hidden_by_a_link_that_hides(
    bundle: bytes, as_owner: Client
) -> None:
    send(as_owner, bundle)
    experiment = Experiment.objects.get()
    name = experiment.imported_bundle.owner
    assert len(name) > 1
    hidden = build_anonymity([experiment])
    assert name not in hidden.hide(f"launched by {name}")


def test_what_the_page_exports_is_imported_with_all_that_a_bundle_may_have(
    as_owner: Client, people: People
) -> None:
    """A signed one, with a citation, the provenance and the software of an image."""
    make_signing_key()
    experiment = launch(question="What does it cost there?", owner=people.owner)
    end_runs(experiment)
    Image.objects.update(visibility="members", facts={"packages": {"python": {"numpy": "2.4.6"}}})
    author = {"family": "Curie", "given": "Marie", "orcid": "", "affiliation": ""}
    Citation.objects.create(experiment=experiment, licence="CC-BY-4.0", authors=[author])
    answer: Any = as_owner.get(reverse("bundle_zip", args=[experiment.pk]))
    content = b"".join(answer.streaming_content)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        names = " ".join(file.namelist())
    for part in ("allowed_signers", ".sig", ".cff", ".jsonld", ".md", ".spdx.json", ".cdx.json"):
        assert part in names
    forget_all(experiment)
    send(as_owner, content)
    assert Experiment.objects.get().question == "What does it cost there?"


def test_a_page_reads_fewer_runs_than_the_command(as_owner: Client, tmp_path: Path) -> None:
    path = tmp_path / "study.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for number in range(17):
            bundle.writestr(f"bag/data/runs/{number:032x}/run.json", bytes(1 << 20))
    page = read_page(send(as_owner, path.read_bytes()))
    assert "It has 17 MiB of descriptions of runs, and a page reads 16 MiB." in page
    assert "manage.py import_bundle" in page
    with pytest.raises(CommandError, match=r"bagit\.txt is missing"):
        call_command("import_bundle", str(path), owner="owner")


def test_a_link_that_hides_names_hides_which_bundle_it_was(tmp_path: Path) -> None:
    published = BASE / "docs" / "bundles" / "resnet50-on-one-and-two-h200.zip"
    experiment = bring(published.read_bytes(), tmp_path).experiment
    kept = experiment.imported_bundle
    kept.site, kept.number, kept.file_name = "https://tare.alice.org", "4711", "alices-set.zip"
    kept.save()
    experiment.events.filter(why__contains=kept.sha256).update(why=f"{kept.origin}, from {kept}")
    secrets = ("tare.alice.org", "alices-set", kept.sha256, "experiment 4711")
    everything = visitor(link_to(experiment))
    page = "".join(body(everything.get(address)) for address in addresses_of(experiment))
    assert [text for text in secrets if text not in page] == []
    hidden = visitor(link_to(experiment, hides_names=True))
    for address in addresses_of(experiment):
        page = body(hidden.get(address))
        assert [text for text in secrets if text in page] == [], address
    assert "from a bundle: an experiment of another site" in body(
        hidden.get(experiment.get_absolute_url())
    )
