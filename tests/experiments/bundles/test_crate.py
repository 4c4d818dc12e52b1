"""The bag and the crate in a bundle: whole, the same each time, and by the profile's rules.

The community's own validator takes the network and thirty packages: `make crate-proof` runs it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments.bundles.bag import BagWriter
from experiments.bundles.bundle_writer import VERIFY
from experiments.execution import lifecycle
from experiments.models import DataCopy, Experiment, Image, Run, StagedImage
from tests.experiments.bundles.studies import (
    NAME,
    end_runs,
    launch,
    make_bundle,
    unpack,
    verify,
)
from tests.factories import DataCopyFactory, ExperimentFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def bundle() -> bytes:
    experiment = launch(containers=2, repeats=5)
    end_runs(experiment, steps=120)
    cancelled = experiment.jobs.order_by("block")[0].runs.all()
    cancelled.update(state=Run.State.CANCELLED, began_at=None, ended_at=None)
    failed = experiment.jobs.order_by("block")[1].runs.all()[:1]
    Run.objects.filter(pk=failed[0].pk).update(state=Run.State.FAILED, reason="crashed")
    return make_bundle(experiment)


def test_the_same_rows_give_the_same_bytes() -> None:
    experiment = launch()
    end_runs(experiment, steps=120)
    assert make_bundle(experiment) == make_bundle(experiment)


def test_the_zip_holds_one_folder_of_plain_files_without_dates(bundle: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle)) as file:
        entries = file.infolist()
        assert file.testzip() is None
    assert {entry.filename.partition("/")[0] for entry in entries} == {NAME}
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.external_attr >> 16 for entry in entries} == {0o100644}


def test_every_file_is_in_a_manifest(bundle: bytes) -> None:
    files = unpack(bundle)
    listed: dict[str, str] = {}
    for name in ("manifest-sha256.txt", "tagmanifest-sha256.txt"):
        for line in files[name].decode().splitlines():
            digest, _, file = line.partition("  ")
            listed[file] = digest
    assert listed == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in files.items()
        if name != "tagmanifest-sha256.txt"
    }
    payload = [content for name, content in files.items() if name.startswith("data/")]
    assert (
        f"Payload-Oxum: {sum(map(len, payload))}.{len(payload)}\n" in files["bag-info.txt"].decode()
    )


def read_crate(bundle: bytes) -> tuple[dict[str, bytes], dict[str, dict[str, Any]]]:
    """Return the files of the crate, and its entities by their ids, each of which is there once."""
    files = {
        name.removeprefix("data/"): content
        for name, content in unpack(bundle).items()
        if name.startswith("data/")
    }
    graph = json.loads(files.pop("ro-crate-metadata.json"))["@graph"]
    assert max(Counter(entity["@id"] for entity in graph).values()) == 1
    return files, {entity["@id"]: entity for entity in graph}


def test_it_needs_no_context_but_that_of_crates(bundle: bytes) -> None:
    crate = json.loads(unpack(bundle)["data/ro-crate-metadata.json"])
    address, terms = crate["@context"]
    assert (address, set(terms)) == ("https://w3id.org/ro/crate/1.1/context", {"sha256"})


def list_references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for part in value for name in list_references(part)]
    return [value["@id"]] if isinstance(value, dict) else []


def test_the_crate_lists_every_file_with_its_sum_and_refers_to_nothing_else(bundle: bytes) -> None:
    files, entities = read_crate(bundle)
    described = {name for name, row in entities.items() if "File" in row["@type"]}
    assert described == set(files)
    assert set(list_references(entities["./"]["hasPart"])) == set(files)
    for name, content in files.items():
        assert entities[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert entities[name]["contentSize"] == str(len(content))
    outside = {
        name
        for entity in entities.values()
        for key, value in entity.items()
        if key != "@id"
        for name in list_references(value)
        if name not in entities
    }
    assert all(name.startswith(("http://schema.org/", "https://")) for name in outside), outside


def test_runs_that_began_are_actions_of_the_steps_of_the_plan(bundle: bytes) -> None:
    files, entities = read_crate(bundle)
    by_type: dict[str, list[dict[str, Any]]] = {}
    for entity in entities.values():
        for kind in entity["@type"] if isinstance(entity["@type"], list) else [entity["@type"]]:
            by_type.setdefault(kind, []).append(entity)
    (workflow,) = by_type["ComputationalWorkflow"]
    assert entities["./"]["mainEntity"] == {"@id": workflow["@id"]} == {"@id": "plan.json"}
    assert {"File", "SoftwareSourceCode", "HowTo"} < set(workflow["@type"])
    steps = set(list_references(workflow["step"]))
    assert steps == {step["@id"] for step in by_type["HowToStep"]}
    assert len(steps) == 3
    runs = [json.loads(files[name]) for name in files if name.endswith("run.json")]
    began = {f"#run-{run['run']}" for run in runs if run["began_at"]}
    assert len(runs) == 15
    assert len(began) == 12
    (execution,) = (row for row in by_type["CreateAction"] if row["@id"] not in began)
    assert execution["instrument"] == {"@id": "plan.json"}
    (organisation,) = by_type["OrganizeAction"]
    assert organisation["result"] == {"@id": execution["@id"]}
    controls = set(list_references(organisation["object"]))
    assert controls == {control["@id"] for control in by_type["ControlAction"]}
    assert {control["object"]["@id"] for control in by_type["ControlAction"]} == began
    assert {control["instrument"]["@id"] for control in by_type["ControlAction"]} == steps
    tools = set(list_references(workflow["hasPart"]))
    assert {entities[name]["instrument"]["@id"] for name in began} == tools
    failed = [entities[name] for name in began if "error" in entities[name]]
    assert [row["error"] for row in failed] == ["crashed"]
    assert failed[0]["actionStatus"] == {"@id": "http://schema.org/FailedActionStatus"}


def test_a_data_set_of_the_plan_is_named_in_it(tmp_path: Path) -> None:
    copy = DataCopyFactory()
    workload = WorkloadFactory(
        kind="cnn",
        parameters={"data": "mnist", "data_directory": "{data}"},
        data_set=copy.data_set,
    )
    draft = ExperimentFactory(workloads=[workload], repeats=2)
    DataCopy.objects.update(cluster=draft.cluster)
    lifecycle.launch(draft, draft.owner)
    experiment = Experiment.objects.get(pk=draft.pk)
    end_runs(experiment)
    bundle = make_bundle(experiment)
    files, entities = read_crate(bundle)
    digest = copy.data_set.digest
    about = json.loads(files["experiment.json"])
    assert about["data_sets"][str(workload.pk)]["digest"] == digest
    (name,) = (name for name in entities if name.startswith("#data-"))
    assert (entities[name]["identifier"], entities[name]["license"]) == (digest, "CC-BY-SA-3.0")
    runs = [entity for entity in entities.values() if entity["@id"].startswith("#run-")]
    assert [run["object"] for run in runs] == [[{"@id": name}]] * len(runs)
    code, printed = verify(bundle, tmp_path)
    assert code == 0, printed


@pytest.mark.parametrize("visibility", ["private", "groups", "members"])
def test_of_an_image_that_not_all_may_view_it_has_the_digest_alone(visibility: str) -> None:
    experiment = launch()
    end_runs(experiment)
    image = Image.objects.get()
    stated = {"reference": "registry.example.org/secret-group/net:1", "tree": "sha256:" + "7" * 64}
    Image.objects.update(visibility=visibility, signature_note="by the secret key", **stated)
    StagedImage.objects.update(tree=stated["tree"])
    files = unpack(make_bundle(experiment))
    (row,) = json.loads(files["data/images.json"])
    assert row["digest"] == image.digest
    is_open = visibility == "members"
    assert (row["reference"] != "", row["tree"] != "", row["staged_tree"] != "") == (is_open,) * 3
    everything = b"".join(content for name, content in files.items() if "verify.py" not in name)
    for secret in (b"secret-group", b"secret key", b"7" * 64):
        assert (secret in everything) == is_open, secret


def test_a_name_is_written_once() -> None:
    bag = BagWriter("bag")
    list(bag.add("data/a.txt", [b"a"]))
    with pytest.raises(ValueError, match=r"data/a.txt is in the bag already"):
        list(bag.add("data/a.txt", [b"b"]))


def test_the_program_is_one_for_python_3_8() -> None:
    program = VERIFY.read_text()
    ast.parse(program, feature_version=(3, 8))
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported == {
        *(
            "__future__",
            "argparse",
            "base64",
            "datetime",
            "fnmatch",
            "functools",
            "hashlib",
            "json",
            "math",
        ),
        *("os", "posixpath", "re", "statistics", "struct", "sys", "typing", "zipfile"),
    }
