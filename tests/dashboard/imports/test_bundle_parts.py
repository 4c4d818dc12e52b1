"""All that bundles may hold comes along: signatures, citations, data, inventories, nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.access import audit
from experiments.bundles.checklist_facts import read_artefact_facts
from experiments.citations import describe_citation, write_cff
from experiments.execution import excluded_runs, lifecycle
from experiments.imports import ImportProblem
from experiments.models import Citation, DataCopy, Experiment, Image, User
from experiments.provenance import graphs
from experiments.signing import make_signing_key
from tests.dashboard.conftest import fetch
from tests.dashboard.imports.bundles import bring, forget_all, write
from tests.dashboard.imports.test_imported_bundles import carry
from tests.dashboard.provenance.test_provenance_pages import list_box_links, read
from tests.experiments.bundles.studies import end_runs, launch, make_bundle, unpack
from tests.experiments.bundles.test_events import rescale
from tests.experiments.bundles.test_forgeries import Files, pack, sum_up
from tests.experiments.signing.test_signing import (
    change_the_data,
    flip_a_bit,
    sign_for_something_else,
    take_the_signature_away,
    write_no_signature,
)
from tests.factories import DataCopyFactory, ExperimentFactory, UserFactory, WorkloadFactory

pytestmark = pytest.mark.django_db
MARIE = {
    "family": "Curie",
    "given": "Marie",
    "orcid": "0000-0002-1825-0097",
    "affiliation": "Sorbonne; Paris",
}
STATED = {
    "title": "What a container costs",
    "licence": "CC-BY-4.0",
    "authors": [MARIE, {"family": "Black Sheep Ltd", "given": "", "orcid": "", "affiliation": ""}],
    "doi": "10.5281/zenodo.1234",
    "doi_published_at": datetime(2026, 11, 20, tzinfo=UTC),
}


@pytest.fixture
def ended() -> Experiment:
    experiment = launch(containers=2, repeats=5, owner=UserFactory(username="marie"))
    end_runs(experiment, spread=0.01)
    return Experiment.objects.get(pk=experiment.pk)


def state(experiment: Experiment) -> None:
    audit.keep(None, Citation, why="", defaults=STATED, experiment=experiment)


def log_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def test_a_signed_bundle_says_by_which_key(ended: Experiment, tmp_path: Path) -> None:
    key = make_signing_key()
    there = carry(ended, tmp_path)
    assert there.imported_bundle.signed_by == key.fingerprint
    page = fetch(log_in(there.owner), f"{there.get_absolute_url()}?tab=plan").decode()
    assert f"signed by the key <code>{key.fingerprint}</code>" in page
    came_from = json.loads(unpack(make_bundle(there))["data/experiment.json"])["came_from"]
    assert came_from["signed_by"] == key.fingerprint


def test_one_that_is_not_signed_says_that(ended: Experiment, tmp_path: Path) -> None:
    there = carry(ended, tmp_path)
    assert there.imported_bundle.signed_by == ""
    page = fetch(log_in(there.owner), f"{there.get_absolute_url()}?tab=plan").decode()
    assert "not signed" in page


@pytest.mark.parametrize(
    "forge",
    [
        change_the_data,
        take_the_signature_away,
        flip_a_bit,
        sign_for_something_else,
        write_no_signature,
    ],
)
def test_a_wrong_signature_is_refused(
    ended: Experiment, forge: Callable[[Files], Files], tmp_path: Path
) -> None:
    make_signing_key()
    files = forge(unpack(write(ended)))
    forget_all(ended)
    with pytest.raises(ImportProblem, match=r"does not verify\. tagmanifest-sha256\.txt\.sig"):
        bring(pack(files), tmp_path)
    assert not Experiment.objects.exists()


def test_the_statement_on_authors_comes_along_and_goes_on(
    ended: Experiment, tmp_path: Path, settings: Any
) -> None:
    settings.SITE_ADDRESS = "https://tare.example"
    state(ended)
    cited = describe_citation(ended)
    file = write_cff(cited)
    there = carry(ended, tmp_path)
    here = describe_citation(there)
    assert (here.title, here.authors, here.licence) == (cited.title, cited.authors, cited.licence)
    assert (here.doi, here.is_published, here.on) == (cited.doi, True, cited.on)
    assert here.address == cited.address == f"https://tare.example/experiments/{ended.pk}/"
    again = unpack(make_bundle(there))
    assert again["data/CITATION.cff"] == file
    crate = json.loads(again["data/ro-crate-metadata.json"])["@graph"]
    root = next(entity for entity in crate if entity["@id"] == "./")
    assert root["author"][0]["@id"].endswith(MARIE["orcid"])


def test_it_is_shown_and_not_changed_here(ended: Experiment, tmp_path: Path) -> None:
    state(ended)
    there = carry(ended, tmp_path)
    client, address = log_in(there.owner), reverse("publication", args=[there.pk])
    page = fetch(client, address).decode()
    assert "Marie Curie" in page
    assert "changed, and it is deposited, where it was measured" in page
    assert 'name="authors"' not in page
    client.post(address, {"authors": "Mallory", "licence": "MIT", "title": ""})
    assert describe_citation(Experiment.objects.get(pk=there.pk)).licence == "CC-BY-4.0"
    assert b"Curie" in fetch(client, reverse("citation_cff", args=[there.pk]))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"licence": "Mine"}, "SPDX has no licence"),
        ({"authors": [MARIE | {"orcid": "0000-0002-1825-0098"}]}, "its check digit"),
        ({"authors": [{"family": " "}]}, "An author has no name"),
        ({"authors": [MARIE] * 101}, "at most 100 authors"),
        ({"authors": [MARIE | {"family": "x" * 121}]}, "more than 120 characters"),
        ({"authors": "Curie"}, "authors"),
        ({"doi": "https://evil.example/"}, "is no DOI"),
        ({"doi_published_at": "soon"}, "no time"),
    ],
)
def test_a_statement_that_makes_no_sense_is_refused(
    ended: Experiment, change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    state(ended)
    files = unpack(write(ended))
    forget_all(ended)
    about = json.loads(files["data/experiment.json"])
    about["citation"] |= change
    files["data/experiment.json"] = json.dumps(about).encode()
    with pytest.raises(ImportProblem, match=why):
        bring(pack(sum_up(files)), tmp_path)
    assert not Experiment.objects.exists()


def test_a_plan_with_a_data_set_and_an_inventory_comes_along(tmp_path: Path) -> None:
    copy = DataCopyFactory()
    parameters = {"data": "mnist", "data_directory": "{data}"}
    workload = WorkloadFactory(kind="cnn", parameters=parameters, data_set=copy.data_set)
    draft = ExperimentFactory(workloads=[workload], repeats=5, margin=0.02)
    DataCopy.objects.update(cluster=draft.cluster)
    lifecycle.launch(draft, draft.owner)
    experiment = Experiment.objects.get(pk=draft.pk)
    end_runs(experiment)
    facts = {"system": {"architecture": "x86_64"}, "packages": {"python": {"numpy": "2.0"}}}
    Image.objects.update(facts=facts, visibility="members", signature_note="looked for")
    files = unpack(make_bundle(experiment))
    before = json.loads(files["data/experiment.json"])["data_sets"]
    images = json.loads(files["data/images.json"])
    assert images[0]["architecture"] == "amd64"
    assert [name for name in files if name.startswith("data/images/")]
    there = carry(experiment, tmp_path)
    again = unpack(make_bundle(there))
    assert json.loads(again["data/experiment.json"])["data_sets"] == before
    assert json.loads(again["data/images.json"]) == images
    assert read_artefact_facts(there).images == 1


@pytest.mark.parametrize("design", ["paired", "independent"])
def test_sets_of_nodes_have_the_same_stamps(design: str, tmp_path: Path) -> None:
    experiment = launch(repeats=6, estimand="partition", design=design)
    rescale(experiment, "2x1 srun")
    end_runs(experiment, nodes=6)
    for job in experiment.jobs.all():
        node = job.block % 6
        job.runs.update(node=f"node{node}")
        job.nodes = [f"node{node}", f"second{node // 2}"]
        job.save(update_fields=["nodes"])
    nodes = sorted(map(str, experiment.jobs.values_list("nodes", flat=True)))
    there = carry(experiment, tmp_path)
    assert sorted(map(str, there.jobs.values_list("nodes", flat=True))) == nodes


def list_names(experiment: Experiment) -> dict[str, str]:
    """Return what is said of each workload and environment in the graph of a run."""
    run = experiment.runs.order_by("uid")[0]
    nodes = graphs.trace_run(run)
    return {
        node.id: json.dumps([node.title, node.details], sort_keys=True, default=str)
        for node in nodes
        if node.type in ("workload", "environment")
    }


def test_its_provenance_has_the_plans_names_and_only_links_that_open(
    ended: Experiment, tmp_path: Path
) -> None:
    assert excluded_runs.exclude(ended.runs.order_by("pk")[1], ended.owner, "the fan was broken")
    before = list_names(ended)
    there = carry(ended, tmp_path)
    after = list_names(there)
    assert after.keys() == before.keys()
    assert all(json.loads(after[name])[0] == json.loads(before[name])[0] for name in after)
    (workload,) = (name for name in after if name.startswith("workload"))
    assert after[workload] == before[workload]  # with the sha256 of its frozen parameters
    run = there.runs.exclude(environment=there.baseline_id)[0]
    client = log_in(there.owner)
    for address in (
        reverse("run_provenance", args=[run.uid]),
        reverse("provenance", args=[there.pk]),
        reverse("result_provenance", args=[there.pk, 1, 2]),
    ):
        page = read(client, address)
        links = list_box_links(page)
        assert len(links) > 5
        for link in dict.fromkeys(links):
            if link.startswith("?"):
                read(client, address + link.replace("&amp;", "&"))
            elif not link.startswith("#"):
                read(client, link)
    assert "marie" in read(client, reverse("provenance", args=[there.pk]))
    file = b"".join(client.get(reverse("provenance_file", args=[there.pk])).streaming_content)
    assert there.imported_bundle.sha256 in file.decode()
    assert not re.search(r'"(workload|environment)-(?!\d)', file.decode())
    text = read(client, reverse("checklist", args=[there.pk]))
    assert there.plan_hash in text
    for section in ("full_results", "methods", "exclusions", "facts"):
        read(client, f"{reverse('comparison', args=[there.pk])}?section={section}")
