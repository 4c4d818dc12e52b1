"""A study measured on a machine with four H200s, whose jobs `benchmarks/by_hand.py` had written.

The files of `by_hand/` are what those jobs left, without what is large and of no meaning here (the
scripts, and what the node's own tools printed), which their lists of check sums do not name either.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path
from statistics import fmean

import pytest
from django.core.management import CommandError, call_command

from experiments.comparisons import compare_experiment
from experiments.imports import ImportProblem
from experiments.imports.by_hand_studies import Imported, import_study
from experiments.models import Cluster, Experiment, Job, Run
from experiments.statistics.values import Stamp, Verdict
from tests.experiments.bundles.studies import make_bundle, verify
from tests.factories import AdminFactory

pytestmark = pytest.mark.django_db

FILES = Path(__file__).with_name("by_hand")


def load(name: str) -> tuple[bytes, bytes]:
    """Return the plan and the archive of a study."""
    plan, archive = FILES / f"{name}.plan.json", FILES / f"{name}.tar.xz"
    return plan.read_bytes(), archive.read_bytes()


def take(plan: bytes, archive: bytes) -> Imported:
    return import_study(
        plan,
        io.BytesIO(archive),
        AdminFactory(),
        machine="four H200s",
        question="What does Apptainer cost?",
        source="a test",
    )


def spoil(archive: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """Return the archive with another text in one of its files."""
    spoiled = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(lzma.decompress(archive))) as source,
        tarfile.open(fileobj=spoiled, mode="w") as target,
    ):
        for member in source:
            content = source.extractfile(member).read()  # type: ignore[union-attr]
            if member.name == name:
                assert old in content
                content = content.replace(old, new)
                member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    return spoiled.getvalue()


def test_the_study_of_four_gpus_has_its_verdicts() -> None:
    imported = take(*load("four_gpus"))
    experiment, brought = imported.experiment, imported.brought
    assert (len(brought.entered), brought.refused, brought.left) == (7, [], 0)
    assert experiment.runs.filter(state=Run.State.SUCCEEDED).count() == 14
    means, pairs = {}, {}
    for group in compare_experiment(experiment).groups:
        scale = group.configuration["scale"]
        (pairs[scale],) = group.pairs
        means[scale] = {
            name: round(fmean(each.value for each in group.samples if each.environment == name))
            for name in ("bare metal", "Apptainer")
        }
    assert means == {
        "1x1": {"bare metal": 6346, "Apptainer": 6346},
        "1x2": {"bare metal": 11225, "Apptainer": 11258},
        "1x4": {"bare metal": 22072, "Apptainer": 22028},
    }
    assert {scale: pair.verdict for scale, pair in pairs.items()} == {
        "1x1": Verdict.EQUIVALENT,
        "1x2": Verdict.INCONCLUSIVE,
        "1x4": Verdict.EQUIVALENT,
    }
    assert all(Stamp.PROVISIONAL in pair.stamps for pair in pairs.values())
    assert "ratio 1.000, 90 % CI 0.985 to 1.016, 2 blocks" in pairs["1x1"].sentence
    assert "ratio 0.998, 90 % CI 0.985 to 1.012, 3 blocks" in pairs["1x4"].sentence


def test_a_study_without_the_runtime_has_named_failures_and_no_verdict() -> None:
    imported = take(*load("no_apptainer"))
    experiment = imported.experiment
    assert len(imported.brought.entered) == 2
    ends = experiment.runs.exclude(state=Run.State.CANCELLED)
    assert set(ends.values_list("environment__name", "state", "reason")) == {
        ("bare metal", "succeeded", ""),
        ("Apptainer", "failed", "runtime missing"),
    }
    assert experiment.jobs.filter(state=Job.State.CANCELLED).count() == 14
    comparison = compare_experiment(experiment)
    assert {pair.verdict for group in comparison.groups for pair in group.pairs} == {
        Verdict.NO_INFERENCE
    }


def test_results_of_another_plan_are_refused_by_name() -> None:
    plan, archive = load("four_gpus")
    other = json.loads(plan)
    other["cells"][1]["parameters"]["batch_size"] = 128
    imported = take(json.dumps(other).encode(), archive)
    refused = {answer.name: answer.why for answer in imported.brought.refused}
    assert set(refused) == {"job 1-1", "job 1-2"}
    why = "is not that of the plan, which differs in batch_size"
    assert all(why in each for each in refused.values())
    assert len(imported.brought.entered) == 5
    assert imported.experiment.jobs.filter(state=Job.State.CANCELLED).count() == 2


def test_one_bad_job_stops_none_of_the_others() -> None:
    plan, archive = load("four_gpus")
    name = "jobs/0-1/runs/0-0-1-1/result.json"
    imported = take(plan, spoil(archive, name, b"21823", b"91823"))
    (refused,) = imported.brought.refused
    assert refused.name == "job 0-1"
    assert "runs/0-0-1-1/result.json does not match its check sum" in refused.why
    assert len(imported.brought.entered) == 6


@pytest.mark.parametrize(
    "plan",
    [b"", b"\xff\xfe", b"[]", b"{}", b'{"at": "relative"}', b" " * (2 << 20), b'{"at": NaN}'],
)
def test_what_is_no_plan_is_refused_and_nothing_is_stored(plan: bytes) -> None:
    with pytest.raises(ImportProblem, match="plan"):
        take(plan, load("four_gpus")[1])
    assert not Cluster.objects.exists()


@pytest.mark.parametrize("archive", [b"", b"nothing", lzma.compress(b"nothing")])
def test_an_archive_without_jobs_stores_nothing(archive: bytes) -> None:
    with pytest.raises(ImportProblem, match="No job entered"):
        take(load("four_gpus")[0], archive)
    assert not Experiment.objects.exists()
    assert not Cluster.objects.exists()


def test_the_command_tells_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    owner = AdminFactory()
    arguments = [str(FILES / "four_gpus.plan.json"), str(FILES / "four_gpus.tar.xz")]
    options = {"owner": owner.username, "machine": "four H200s"}
    call_command("import_by_hand_study", *arguments, **options)
    assert "7 jobs entered; 0 still to come." in capsys.readouterr().out
    with pytest.raises(CommandError, match="There is a cluster called four H200s already"):
        call_command("import_by_hand_study", *arguments, **options)


@pytest.mark.parametrize("name", ["four_gpus", "no_apptainer"])
def test_the_bundle_of_an_imported_study_verifies(name: str, tmp_path: Path) -> None:
    experiment = take(*load(name)).experiment
    code, said = verify(make_bundle(experiment), tmp_path)
    assert code == 0, said
    assert "All check sums and all" in said
