"""The page that imports logs, and the pages of what was imported."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from dashboard import uploads
from experiments.comparisons import compare_experiment
from experiments.imports import Limits, list_files, read_logs
from experiments.imports.imported_runs import store
from experiments.models import Experiment, Run
from tests import tf_cnn_logs as logs
from tests.dashboard.conftest import People, read_report

pytestmark = pytest.mark.django_db
ADDRESS = "/experiments/import/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def experiment(people: People) -> Experiment:
    return store(
        read_logs(list_files(logs.as_zip(logs.runs()))),
        environment=0,
        baseline="udocker",
        question="What does Singularity cost?",
        margin=0.02,
        owner=people.owner,
        source="logs.zip",
        machine="K80 machine",
        visibility="members",
    )


def sent(client: Client, held: io.BytesIO | None = None, **values: Any) -> Any:
    held = held or logs.as_zip(logs.runs())
    form = {
        "archive": SimpleUploadedFile("logs.tar.gz", held.getvalue()),
        "question": "What does Singularity cost?",
        "machine": "",
        "margin": "2",
        "metric": "wall_images_per_second",
        "visibility": "private",
        **values,
    }
    return client.post(ADDRESS, {name: value for name, value in form.items() if value is not None})


def test_the_form_says_what_it_takes(as_owner: Client) -> None:
    page = as_owner.get(ADDRESS).content.decode()
    assert "At most 64 MB as it is sent and 256 MB unpacked" in page
    assert "Import 6 runs" not in page
    assert f'href="{ADDRESS}"' in as_owner.get("/experiments/").content.decode()


def test_a_preview_shows_what_was_found_and_keeps_nothing(as_owner: Client) -> None:
    page = sent(as_owner, question="").content.decode()
    assert "Import 6 runs" in page
    assert "Some configurations have 3 runs only: verdicts on fewer than 5 are provisional." in page
    assert "synthetic_resnet50, batch 64" in page
    assert "This field is required" not in page
    assert "images/s" not in page  # a margin is chosen before the numbers are seen
    assert not Experiment.objects.exists()


def test_a_preview_names_the_runs_that_failed(as_owner: Client) -> None:
    tree = logs.runs()
    del tree["results/udocker/synthetic_resnet50_1_gpu/2/metric.log"]
    tree |= logs.run("results/udocker/alexnet_1_gpu/1", model="alexnet")
    page = sent(as_owner, logs.as_zip(tree)).content.decode()
    assert "udocker/synthetic_resnet50_1_gpu/2/metric.log is missing" in page
    assert "1 configuration was run in one environment only" in page


def test_a_fragment_leaves_the_file_where_it_is(as_owner: Client) -> None:
    form = {
        "archive": SimpleUploadedFile("logs.zip", logs.as_zip(logs.runs()).getvalue()),
        "action": "import",
    }
    page = as_owner.post(ADDRESS, form, headers=HTMX).content.decode()
    assert 'id="found"' in page
    assert 'type="file"' not in page
    assert "A field above is not filled in" in page
    assert 'hx-swap-oob="true"' in page


def test_logs_are_imported(as_owner: Client, people: People) -> None:
    answer = sent(as_owner, action="import", baseline="udocker", environment="0", margin="5")
    experiment = Experiment.objects.get()
    assert answer["Location"] == experiment.get_absolute_url()
    assert experiment.baseline.name == "udocker"
    assert (experiment.owner, experiment.margin) == (people.owner, 0.05)
    assert experiment.cluster.name == "logs"
    assert experiment.imported_from == "logs.tar.gz"
    assert experiment.visibility == "private"


def test_the_browser_is_sent_on_after_an_import(as_owner: Client) -> None:
    form = {
        "archive": SimpleUploadedFile("logs.zip", logs.as_zip(logs.runs()).getvalue()),
        "question": "What?",
        "margin": "2",
        "metric": "step_time",
        "visibility": "members",
        "action": "import",
    }
    answer = as_owner.post(ADDRESS, form, headers=HTMX)
    assert answer["HX-Redirect"] == Experiment.objects.get().get_absolute_url()


def test_a_baseline_that_is_not_there_is_not_taken(as_owner: Client) -> None:
    sent(as_owner, action="import", baseline="<script>", environment="99")
    assert Experiment.objects.get().baseline.name == "singularity"


def test_the_same_logs_lead_to_the_first_import(
    experiment: Experiment, as_owner: Client, people: People
) -> None:
    page = sent(as_owner, logs.as_tar(logs.runs()), action="import").content.decode()
    assert f'imported before, as “<a href="{experiment.get_absolute_url()}">' in page
    assert Experiment.objects.count() == 1
    assert sent(people.client("other"), action="import").status_code == 302


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (io.BytesIO(b"hello"), "neither a zip, a tar nor a tar.gz"),
        (logs.as_zip({"../metric.log": "x"}), "leads out of the archive"),
        (logs.as_zip({"a.txt": "nothing"}), "No run of tf_cnn_benchmarks was found"),
        (logs.as_zip(logs.run("udocker/net/1")), "No part of the paths tells environments apart"),
        (
            logs.as_zip({**logs.runs(), "a/<b>/metric.log": "{}"}),
            "a/&lt;b&gt;/metric.log has no benchmark.log beside it",
        ),
    ],
    ids=["no archive", "outside", "no logs", "one run", "no benchmark.log"],
)
def test_what_cannot_be_imported_is_said(held: io.BytesIO, words: str, as_owner: Client) -> None:
    page = sent(as_owner, held, action="import").content.decode()
    assert words in page
    assert "Nothing was imported." in page
    assert not Experiment.objects.exists()


def test_a_missing_file_is_asked_for(as_owner: Client) -> None:
    assert "This field is required" in sent(as_owner, archive=None).content.decode()


def test_a_file_that_is_too_large_never_reaches_the_disk(
    as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LIMITS", Limits(archive_bytes=100_000))
    held = io.BytesIO(b"x" * 300_000)
    assert "The file is larger than 64 MB" in sent(as_owner, held).content.decode()


def test_only_members_import(people: People) -> None:
    answer = sent(people.client("anonymous"), action="import")
    assert answer["Location"].startswith("/login/")
    assert not Experiment.objects.exists()


def test_an_imported_experiment_says_so_and_offers_no_launch(
    experiment: Experiment, as_owner: Client
) -> None:
    page = as_owner.get(experiment.get_absolute_url()).content.decode()
    assert "logs.zip" in page
    for action in ("launch", "clone", "cancel", "edit"):
        assert reverse(f"experiment_{action}", args=[experiment.pk]) not in page
        assert as_owner.post(reverse(f"experiment_{action}", args=[experiment.pk])).status_code in (
            302,
            403,
        )
    assert "?tab=jobs" not in page
    assert as_owner.get(f"{experiment.get_absolute_url()}?tab=jobs").status_code == 200
    assert (
        experiment.import_hash
        in as_owner.get(f"{experiment.get_absolute_url()}?tab=plan").content.decode()
    )
    assert Experiment.objects.get() == experiment
    experiment.refresh_from_db()
    assert experiment.cancelled_at is None


def test_the_methods_say_that_the_runs_were_imported(
    experiment: Experiment, as_owner: Client
) -> None:
    paper = as_owner.get(reverse("comparison_tex", args=[experiment.pk])).content.decode()
    for answer in (read_report(as_owner, experiment), paper):
        text = " ".join(answer.split())
        assert "their logs were imported on" in text
        assert "they were not launched by Tare" in text
        assert "The margin was chosen at the import, when the data had been taken." in text
        assert "The plan was to judge" not in text
        assert "6 runs were found in the logs, 6 succeeded." in text
        assert "in random order" not in text.partition("Methods")[2]
        assert "of runs whose seeds are not known were compared with all of the baseline’s" in text


def test_the_exports_say_where_the_runs_come_from(experiment: Experiment, as_owner: Client) -> None:
    for name in ("comparison_json", "runs_json"):
        about = as_owner.get(reverse(name, args=[experiment.pk])).json()["experiment"]
        assert about["imported_from"] == "logs.zip"
        assert about["sha256_of_logs"] == experiment.import_hash
        assert about["launched_at"] is None


def test_a_run_s_page_shows_its_trace_and_its_log(experiment: Experiment, as_owner: Client) -> None:
    run = experiment.runs.order_by("job__block")[0]
    page = as_owner.get(run.get_absolute_url()).content.decode()
    assert "results/udocker/synthetic_resnet50_1_gpu/1" in page
    assert "up to step" in page
    assert "gpus_visible" in page
    assert "Job script" not in page
    assert "block 1, run order 1" not in page


def test_a_run_that_was_imported_can_be_excluded(experiment: Experiment, as_owner: Client) -> None:
    run = experiment.runs.all()[0]
    as_owner.post(reverse("run_exclude", args=[run.uid]), {"why": "thermal throttling"})
    run.refresh_from_db()
    assert run.state == Run.State.EXCLUDED


def test_an_import_is_deleted_by_its_owner_only(experiment: Experiment, people: People) -> None:
    address = reverse("experiment_delete", args=[experiment.pk])
    assert people.client("other").post(address).status_code == 403
    assert Experiment.objects.exists()
    assert people.client("owner").post(address)["Location"] == "/experiments/"
    assert not Experiment.objects.exists()


def test_the_machine_of_logs_is_a_record(experiment: Experiment, people: People) -> None:
    client = people.client("other")
    page = client.get("/clusters/").content.decode()
    assert "known from imported logs; nobody logs in" in page
    detail = client.get(reverse("cluster", args=[experiment.cluster_id])).content.decode()
    assert "Tare does not log in to it" in detail
    check = reverse("cluster_check", args=[experiment.cluster_id])
    assert (
        check
        not in people.client("admin").get(f"/clusters/{experiment.cluster_id}/").content.decode()
    )
    assert people.client("admin").post(check).status_code == 403
    assert experiment.question in detail
    its_page = reverse("cluster", args=[experiment.cluster_id])
    assert its_page not in client.get("/").content.decode()  # no dot: it never answers
    form = client.get("/experiments/new/").content.decode()
    assert "K80 machine" not in form
    assert "synthetic_resnet50" not in form
    assert "wall_images_per_second" not in form
    assert "tf_cnn_benchmarks" not in client.get("/catalogue/workloads/new/").content.decode()


def test_private_logs_show_nowhere_to_others(experiment: Experiment, people: People) -> None:
    Experiment.objects.filter(pk=experiment.pk).update(visibility="private")
    other, owner = people.client("other"), people.client("owner")
    pages = (
        "/clusters/",
        "/catalogue/?tab=environments",
        "/catalogue/?tab=workloads",
        "/experiments/",
        "/runs/?column=cluster",
        "/compare/",
    )
    for address in pages:
        page = other.get(address).content.decode()
        for name in ("K80 machine", "singularity", "synthetic_resnet50"):
            assert name not in page
        assert "K80 machine" in owner.get(address).content.decode() or "workloads" in address
    cluster = reverse("cluster", args=[experiment.cluster_id])
    assert other.get(cluster).status_code == 404
    assert owner.get(cluster).status_code == 200


def test_lists_sort_imports_among_the_launched(experiment: Experiment, results: Any) -> None:
    found = Experiment.objects.dated().order_by("-since_when")
    assert set(found) == {experiment, results}
    assert list(Experiment.objects.newest_first()) == list(found)


@pytest.mark.parametrize(("state", "shown"), [("draft", 0), ("ended", 0), ("imported", 1)])
def test_the_list_filters_imports(
    state: str, shown: int, experiment: Experiment, as_owner: Client
) -> None:
    page = as_owner.get(f"/experiments/?state={state}").content.decode()
    assert page.count(experiment.get_absolute_url()) == shown


def test_what_one_side_ran_alone_is_one_sentence(as_owner: Client, people: People) -> None:
    row = store(
        read_logs(list_files(logs.as_zip(logs.five_epochs()))),
        environment=0,
        baseline="lsdf_udocker_5epoch",
        question="What do containers cost?",
        margin=0.02,
        owner=people.owner,
        source="logs.zip",
        machine="K80",
    )
    sentence = (
        "fh2_udocker_5epoch and lsdf_udocker_5epoch are not compared where only one of them has "
        "logs: cifar10_alexnet, batch 64 (1x1, 1x2, 1x4); cifar10_alexnet, batch 512 (1x1, 1x2, "
        "1x4)."
    )
    page = read_report(as_owner, row)
    assert page.count(sentence) == 2  # below the verdicts, and in the methods
    assert "no run of" not in page
    document = as_owner.get(reverse("comparison_json", args=[row.pk])).json()
    assert document["left_out"] == [sentence]
    matrix = as_owner.get(row.get_absolute_url()).context["matrix"]
    assert len(matrix.rows) == 15
    assert all(any(cell.tally.total for cell in each.cells) for each in matrix.rows)


def test_logs_without_a_common_configuration_say_so(as_owner: Client, people: People) -> None:
    tree = {**logs.run("udocker/a/1"), **logs.run("singularity/b/1", model="alexnet")}
    sent(as_owner, logs.as_zip(tree), action="import", baseline="udocker", environment="0")
    row = Experiment.objects.get()
    page = read_report(as_owner, row)
    assert "singularity and udocker are not compared where only one of them has logs" in page
    assert "No run has succeeded" not in page
    assert as_owner.get(row.get_absolute_url()).status_code == 200
    for name in ("comparison_tex", "comparison_json", "comparison_csv", "runs_csv"):
        assert as_owner.get(reverse(name, args=[row.pk])).status_code == 200


def test_configurations_that_no_log_has_are_left_out(experiment: Experiment) -> None:
    """One workload on one GPU and another on four are two configurations, not four."""
    before = [group.configuration for group in compare_experiment(experiment).groups]
    experiment.scales = [*experiment.scales, "1x8"]
    experiment.save(update_fields=["scales"])
    assert [group.configuration for group in compare_experiment(experiment).groups] == before
    assert all(group.samples for group in compare_experiment(experiment).groups)
