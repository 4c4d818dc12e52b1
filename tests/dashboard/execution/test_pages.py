"""What the pages of experiments, runs and comparisons say, and when they stop asking."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from bs4 import BeautifulSoup
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone
from django.views.defaults import server_error

from dashboard.execution.matrix import build_matrix
from dashboard.execution.run_facts import list_phases, search_facts
from experiments.execution import lifecycle
from experiments.models import Cluster, Event, Experiment, Job, Measurement, Run, Snapshot
from tests.dashboard.conftest import People, Site, measured, read_report, show_all_sections
from tests.factories import (
    ExperimentFactory,
    ImageFactory,
    JobFactory,
    MeasurementFactory,
    RunFactory,
    StagedImageFactory,
)

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
POLLS = 'hx-trigger="every'


@pytest.fixture
def alive(site: Site, people: People) -> Experiment:
    """One block has ended, the next one is running."""
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state="running")
    RunFactory(job=job, state=Run.State.RUNNING)
    RunFactory(job=job, environment=site.container, state=Run.State.PLANNED)
    return experiment


def end(experiment: Experiment) -> None:
    experiment.runs.exclude(state__in=Run.FINAL).update(state=Run.State.FAILED)


def test_polling_stops_when_all_runs_are_final(alive: Experiment, as_owner: Client) -> None:
    address = alive.get_absolute_url()
    for headers in ({}, HTMX):
        assert POLLS in as_owner.get(address, headers=headers).content.decode()
    end(alive)
    for headers in ({}, HTMX):
        assert POLLS not in as_owner.get(address, headers=headers).content.decode()


def test_the_overview_polls_only_while_something_runs(alive: Experiment, as_owner: Client) -> None:
    assert POLLS in as_owner.get("/", headers=HTMX).content.decode()
    end(alive)
    assert POLLS not in as_owner.get("/", headers=HTMX).content.decode()


def test_the_overview_shows_itself_anew_when_all_has_ended(
    alive: Experiment, as_owner: Client
) -> None:
    assert "HX-Refresh" not in as_owner.get("/", headers=HTMX)
    end(alive)
    assert as_owner.get("/", headers=HTMX)["HX-Refresh"] == "true"


def test_what_is_being_set_up_is_told_with_how_far_it_is(site: Site, as_owner: Client) -> None:
    site.cluster.preparing, site.cluster.preparing_percent = "Building images: base", 40
    site.cluster.save(update_fields=["preparing", "preparing_percent"])
    cluster = reverse("cluster", args=[site.cluster.pk])
    for address in ("/", "/clusters/", "/catalogue/", cluster):
        page = as_owner.get(address).content.decode()
        assert "Building images: base" in page
        assert 'aria-valuenow="40"' in page
    assert POLLS in as_owner.get("/", headers=HTMX).content.decode()
    assert POLLS in as_owner.get(cluster, headers=HTMX).content.decode()


def test_the_overview_says_how_long_experiments_still_run(
    alive: Experiment, as_owner: Client
) -> None:
    def read_left() -> str:
        soup = BeautifulSoup(as_owner.get("/").content, "html.parser")
        (row,) = soup.select(".running")
        return row.select_one(".left").text.strip()  # type: ignore[union-attr]

    Run.objects.update(began_at=None, ended_at=None)
    assert read_left() == ""  # nobody knows how long a run takes
    began = timezone.now() - timedelta(hours=2)
    ended = alive.runs.filter(state=Run.State.SUCCEEDED)
    ended.update(began_at=began, ended_at=began + timedelta(hours=1))
    assert read_left().startswith("about 2 h")


def test_many_verdicts_are_counted_where_they_are_told_in_short(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner, scales=[f"1x{gpus}" for gpus in range(1, 8)], blocks=3)
    page = as_owner.get(made.get_absolute_url()).content.decode()
    assert "7 verdicts" in page
    assert "PROVISIONAL: 7" in page
    assert "in all 7 configurations" in page
    assert page.count("slower than bare metal") == 0
    soup = BeautifulSoup(as_owner.get(reverse("overview")).content, "html.parser")
    (result,) = soup.select(".result")
    text = " ".join(result.text.split())
    assert "slower than bare metal in all 7 configurations." in text
    assert "PROVISIONAL: 7" in text
    assert [item.text.split() for item in result.select(".counted li")] == [["7", "SLOWER"]]
    assert len(result.select("svg.ratios .ratio")) == 7
    address = reverse("comparison", args=[made.pk])
    assert "of 7 comparisons" in as_owner.get(address, headers=HTMX).content.decode()
    whole = as_owner.get(show_all_sections(address)).content.decode()
    assert whole.count("slower than bare metal</strong>") == 7


def test_a_number_that_nothing_can_be_computed_with_stops_no_page(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner)
    Measurement.objects.filter(run__experiment=made).update(value=1.7e308)
    other = measured(site, people.owner, question="And this one?")
    assert other.question in as_owner.get(reverse("overview")).content.decode()
    page = read_report(as_owner, made)
    assert "only positive, finite values up to 1e+100 can be compared" in page


def test_the_overview_waits_for_the_first_cluster(as_owner: Client) -> None:
    page = as_owner.get("/").content.decode()
    assert POLLS in page
    assert "No cluster has been set up yet" in page


def test_a_run_polls_until_it_is_final(alive: Experiment, as_owner: Client) -> None:
    run = alive.runs.get(state=Run.State.RUNNING)
    assert POLLS in as_owner.get(run.get_absolute_url()).content.decode()
    end(alive)
    assert POLLS not in as_owner.get(run.get_absolute_url(), headers=HTMX).content.decode()


def test_a_draft_does_not_poll(as_owner: Client, people: People) -> None:
    draft = ExperimentFactory(owner=people.owner)
    page = as_owner.get(draft.get_absolute_url()).content.decode()
    assert POLLS not in page
    assert "nothing has been sent" in page


@pytest.mark.parametrize("tab", ["runs", "jobs", "plan", "events"])
def test_page_and_fragment_are_one_template(
    tab: str, results: Experiment, as_owner: Client
) -> None:
    address = f"{results.get_absolute_url()}?tab={tab}"
    page = as_owner.get(address).content.decode()
    fragment = as_owner.get(address, headers=HTMX).content.decode()
    assert "<html" in page
    assert "<html" not in fragment
    bare = re.compile(
        r'csrfmiddlewaretoken" value="[^"]*"'
        # the menu stays as it is on the page, open or not
        r'|<details id="export".*?</details>',
        re.DOTALL,
    )
    assert bare.sub("", fragment).strip() in bare.sub("", page)


def test_runs_that_have_finished_inside_a_live_job_are_told_apart(
    alive: Experiment, as_owner: Client
) -> None:
    alive.runs.filter(state="running").update(ended_at=None)
    address, text = alive.get_absolute_url(), "1 of them finished, waiting for the rest of its job"
    assert text not in " ".join(as_owner.get(address).content.decode().split())
    alive.runs.filter(state="running").update(ended_at=timezone.now())
    assert text in " ".join(as_owner.get(address).content.decode().split())


def test_the_matrix_counts_every_cell(alive: Experiment, site: Site) -> None:
    found = build_matrix(alive)
    assert [(row.name, mark) for row, mark in found.environments] == [
        ("bare metal", 0),
        ("Apptainer", 1),
    ]
    (row,) = found.rows
    assert [(cell.tally.ended, cell.tally.total) for cell in row.cells] == [(1, 2), (1, 2)]
    assert (found.tally.ended, found.tally.total, found.tally.alive) == (2, 4, True)
    low, high = row.cells[0].points[0], row.cells[1].points[0]
    assert low < high


def test_excluded_and_failed_runs_are_no_points(results: Experiment) -> None:
    first, second = results.runs.filter(environment=results.baseline).order_by("pk")[:2]
    Run.objects.filter(pk=first.pk).update(state=Run.State.EXCLUDED)
    Run.objects.filter(pk=second.pk).update(state=Run.State.FAILED)
    cell = build_matrix(results).rows[0].cells[0]
    assert (len(cell.points), cell.tally.ended) == (3, 5)


def test_a_failed_run_is_shown_with_its_reason(results: Experiment, as_owner: Client) -> None:
    run = results.runs.all()[0]
    Run.objects.filter(pk=run.pk).update(
        state="failed", reason="crashed", message="Segmentation fault", output_tail="core dumped"
    )
    page = as_owner.get(results.get_absolute_url()).content.decode()
    assert "Failed runs" in page
    assert run.get_absolute_url() in page
    assert "Segmentation fault" in page
    page = as_owner.get(run.get_absolute_url()).content.decode()
    assert "crashed" in page
    assert "core dumped" in page


def test_the_owner_cancels(alive: Experiment, as_owner: Client, people: People) -> None:
    planned = JobFactory(experiment=alive, repeat=3, state=Job.State.PLANNED, scheduler_id="")
    RunFactory(job=planned, state=Run.State.PLANNED)
    address = reverse("experiment_cancel", args=[alive.pk])
    page = as_owner.post(address, follow=True).content.decode()
    assert "1 job will not be sent, 1 is ended at the next visit to lab." in page
    planned.refresh_from_db()
    assert planned.state == Job.State.CANCELLED
    assert Event.objects.filter(experiment=alive, actor=people.owner, what="cancelled").exists()


@pytest.mark.parametrize(
    ("cancelled", "text"),
    [
        ((9, 1), "9 jobs will not be sent, 1 is ended at the next visit to lab."),
        ((0, 2), "2 jobs are ended at the next visit to lab."),
        ((3, 0), "3 jobs will not be sent."),
        ((0, 0), "No job was left to cancel."),
    ],
)
def test_what_is_cancelled_is_told_apart(cancelled: tuple[int, int], text: str) -> None:
    assert lifecycle.Cancelled(*cancelled).describe("lab") == text


def test_a_pause_is_said_once_and_by_whom(
    alive: Experiment, as_owner: Client, people: People
) -> None:
    JobFactory(experiment=alive, repeat=3, state=Job.State.PLANNED, scheduler_id="")
    address = reverse("experiment_pause", args=[alive.pk])
    page = " ".join(people.client("admin").post(address, follow=True).content.decode().split())
    assert "<strong>Paused</strong> by admin since" in page
    assert page.count("nothing new of this experiment is sent") == 1
    assert "Paused:" not in page
    assert "this experiment is paused" not in page
    assert "1 job waits" in page
    cluster = as_owner.get(reverse("cluster", args=[alive.cluster_id])).content.decode()
    assert "1 waiting, 1 of them in experiments that a person has paused" in " ".join(
        cluster.split()
    )


def test_the_owner_pauses_and_continues(
    alive: Experiment, as_owner: Client, people: People
) -> None:
    planned = JobFactory(experiment=alive, repeat=3, state=Job.State.PLANNED, scheduler_id="")
    run = RunFactory(job=planned, state=Run.State.PLANNED)
    pause, go_on = (
        reverse(f"experiment_{verb}", args=[alive.pk]) for verb in ("pause", "continue")
    )
    assert pause in as_owner.get(alive.get_absolute_url()).content.decode()
    page = as_owner.post(pause, follow=True).content.decode()
    assert "nothing new of this" in page
    assert "1 job waits" in " ".join(page.split())
    assert "running, the rest paused" in page
    assert (pause in page, go_on in page) == (False, True)
    assert "this experiment is paused" in as_owner.get(run.get_absolute_url()).content.decode()
    for reader in ("other", "admin"):
        page = people.client(reader).get(alive.get_absolute_url()).content.decode()
        assert "What has been sent goes on" in page
        assert (go_on in page) == (reader == "admin")
    page = as_owner.post(go_on, follow=True).content.decode()
    assert (pause in page, go_on in page) == (True, False)
    assert "this experiment is paused" not in as_owner.get(run.get_absolute_url()).content.decode()
    page = as_owner.post(go_on, follow=True).content.decode()
    assert "it was not paused" in page


def test_who_cancels_is_told_where_nobody_ends_jobs(alive: Experiment, as_owner: Client) -> None:
    Cluster.objects.update(enabled=False)
    page = as_owner.post(reverse("experiment_cancel", args=[alive.pk]), follow=True)
    assert "is switched off: its jobs there end once it is enabled" in page.content.decode()


def test_a_failed_job_is_tried_again_unless_it_gave_a_number(
    results: Experiment, as_owner: Client
) -> None:
    job = JobFactory(experiment=results, repeat=9, state=Job.State.FAILED, reason="node failure")
    run = RunFactory(job=job, state=Run.State.FAILED)
    page = as_owner.get(results.get_absolute_url(), {"tab": "jobs"}).content.decode()
    address = reverse("job_retry", args=[job.uid])
    assert address in page
    assert "node failure" in page
    assert "is planned" in as_owner.post(address, follow=True).content.decode()
    Job.objects.filter(pk=job.pk).update(state=Job.State.FAILED)
    Run.objects.filter(pk=run.pk).update(state=Run.State.SUCCEEDED)
    page = as_owner.post(address, follow=True).content.decode()
    assert "cannot be tried again" in page
    assert address not in page


def test_the_owner_opens_a_launched_experiment_to_referees(
    results: Experiment, as_owner: Client, people: People
) -> None:
    referee = people.client("anonymous")
    assert referee.get(results.get_absolute_url()).status_code == 302
    readers = reverse("visibility", args=["experiment", results.pk])
    made = as_owner.post(readers, {"visibility": "public"}, follow=True).content.decode()
    assert referee.get(results.get_absolute_url()).status_code == 302
    (link,) = re.findall(r'value="http://testserver(/link/[\w-]+/)"', made)
    page = referee.get(link, follow=True).content.decode()
    assert results.question in page
    for word in ("Clone", "Cancel", "Edit", "/catalogue/", "/clusters/"):
        assert word not in page
    as_owner.post(
        reverse("visibility", args=["experiment", results.pk]), {"visibility": "everybody!"}
    )
    results.refresh_from_db()
    assert results.visibility == "public"


def test_a_run_page_shows_all_that_it_left(run: Run, as_owner: Client) -> None:
    content = {
        "outside": {"hostname": "node1", "driver": "550.54"},
        "inside": {"hostname": "node1", "packages": {"numpy": "2.4.6"}, "driver": "535.1"},
    }
    Run.objects.filter(pk=run.pk).update(
        snapshot=Snapshot.objects.keep(content),
        command="apptainer exec image.sif python",
        output_tail="step 1",
        phases={"steady state": 8.0, "import": 2.0},
    )
    Job.objects.filter(pk=run.job_id).update(script="#!/bin/bash\n#SBATCH --gres=gpu:1\n")
    MeasurementFactory(run=run, metric="gflops", value=31.25, unit="Gflop/s")
    page = as_owner.get(run.get_absolute_url()).content.decode()
    for words in (
        "20.02 ms",
        "31.25 Gflop/s",
        "(compared)",
        "apptainer exec image.sif python",
        "step 1",
        "--gres=gpu:1",
        run.job.directory,
        "packages.numpy",
        "2.4.6",
        'class="differs"',
    ):
        assert words in page
    assert page.index("import") < page.index("steady state")


def test_the_snapshot_is_searched(run: Run, as_owner: Client) -> None:
    content = {"outside": {"kernel": "6.1"}, "inside": {"packages": {"numpy": "2.4.6"}}}
    Run.objects.filter(pk=run.pk).update(snapshot=Snapshot.objects.keep(content))
    address = run.get_absolute_url()
    fragment = as_owner.get(address, {"facts": "NumPy 2.4"}, headers=HTMX).content.decode()
    assert "packages.numpy" in fragment
    assert "kernel" not in fragment
    assert "<html" not in fragment
    assert "No fact holds" in as_owner.get(address, {"facts": "zzz"}).content.decode()


def test_both_sides_of_the_wall_stand_side_by_side() -> None:
    found = search_facts({"outside": {"a": 1, "b": 2}, "inside": {"b": 3, "c": [1, 2]}, "d": "x"})
    told = [(fact.name, fact.outside, fact.inside, fact.differs) for fact in found]
    assert told == [
        ("a", "1", "", False),
        ("b", "2", "3", True),
        ("c", "", "1, 2", False),
        ("d", "x", "", False),
    ]


def test_a_search_shows_the_lines_of_a_long_text_that_it_is_about() -> None:
    content = {"outside": {"meminfo": "MemTotal: 8 kB\nMemFree: 4 kB", "cpu": "EPYC"}}
    assert [fact.outside for fact in search_facts(content, "memtotal")] == ["MemTotal: 8 kB"]
    assert [fact.outside for fact in search_facts(content, "meminfo kb")] == [
        "MemTotal: 8 kB\nMemFree: 4 kB"
    ]
    assert search_facts(content, "swap") == []


def test_phases_are_told_in_the_order_in_which_they_happen() -> None:
    found = list_phases(Run(phases={"end": 1.0, "start": 1.0, "burn-in": 0.0, "steady state": 2.0}))
    assert [(phase.name, phase.share) for phase in found] == [
        ("start", 25.0),
        ("steady state", 50.0),
        ("end", 25.0),
    ]


def test_the_phase_before_the_steady_state_is_called_warm_up() -> None:
    (phase,) = list_phases(Run(phases={"burn-in": 1.0}))
    assert (phase.name, phase.css) == ("warm-up", "phase-warm-up")


def test_a_run_is_excluded_with_a_cause_alone(run: Run, as_owner: Client) -> None:
    address = reverse("run_exclude", args=[run.uid])
    assert "Not excluded" in as_owner.post(address, {"why": " "}, follow=True).content.decode()
    page = as_owner.post(address, {"why": "fan failed"}, follow=True).content.decode()
    assert "Excluded from the comparison" in page
    assert "fan failed" in page
    run.refresh_from_db()
    assert run.state == Run.State.EXCLUDED


def test_the_comparison_gives_verdict_plots_and_every_number(
    results: Experiment, as_owner: Client
) -> None:
    page = read_report(as_owner, results)
    assert "SLOWER" in page
    assert "Apptainer is 10." in page
    figures = re.findall(r'<script id="([^"]+)" type="application/json">(.*?)</script>', page)
    assert [name for name, _ in figures] == [
        "forest",
        "strip-0",
        "slopes-0",
        "order-0",
        "equivalence-0",
        "bars",
    ]
    for _, text in figures:
        assert json.loads(text)["data"]
    assert page.count("data-chart=") == 6
    assert "20.060 ± 0.032 ms" in page
    assert "(SD, n = 5)" in page
    assert "seed 20261120" in page
    for name in ("comparison_csv", "comparison_json", "runs_csv", "runs_json"):
        assert reverse(name, args=[results.pk]) in page


def test_stamps_open_why(site: Site, people: People, as_owner: Client) -> None:
    experiment = measured(site, people.owner, blocks=3)
    page = read_report(as_owner, experiment)
    assert re.search(r"<summary>PROVISIONAL</summary>\s*<p>3 blocks are few", page)


def test_a_comparison_without_runs_says_what_it_waits_for(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = measured(site, people.owner, blocks=0)
    page = read_report(as_owner, experiment)
    assert "Nothing to compare yet" in page
    assert "data-chart" not in page


def test_each_row_of_the_comparisons_fetches_its_verdicts(
    results: Experiment, as_owner: Client
) -> None:
    address = reverse("comparison", args=[results.pk])
    assert f'hx-get="{address}"' in as_owner.get("/compare/").content.decode()
    fragment = as_owner.get(address, headers=HTMX).content.decode()
    assert "SLOWER" in fragment
    assert "<html" not in fragment


def test_plotly_is_loaded_on_pages_with_charts_alone(run: Run, as_owner: Client) -> None:
    for address in ("/", "/experiments/", "/runs/", run.experiment.get_absolute_url()):
        assert "plotly" not in as_owner.get(address).content.decode()
    assert "plotly.min.js" in as_owner.get(run.get_absolute_url()).content.decode()


def test_an_image_has_a_software_inventory(as_owner: Client, site: Site) -> None:
    image = ImageFactory(packages={"numpy": "2.4.6"}, recipe="FROM debian:12", size_bytes=1_500_000)
    StagedImageFactory(image=image, cluster=site.cluster, state="failed", message="disk full")
    page = as_owner.get(reverse("image", args=[image.pk])).content.decode()
    for words in (image.digest, "numpy", "2.4.6", "FROM debian:12", "1.50 MB", "disk full"):
        assert words in page


def test_an_unreachable_cluster_says_what_waits(as_owner: Client, alive: Experiment) -> None:
    cluster = alive.cluster
    cluster.last_error, cluster.last_error_kind = "lab:22 did not answer", "time-out"
    cluster.save(update_fields=["last_error", "last_error_kind"])
    page = as_owner.get(reverse("cluster", args=[cluster.pk])).content.decode()
    looked = "1 job there is shown as it was when Tare last looked"
    assert looked in " ".join(page.split())
    assert "Nothing is lost." in page
    assert "lab:22 did not answer" in page
    assert POLLS in page
    JobFactory(experiment=alive, repeat=3, state="planned")
    page = as_owner.get(reverse("cluster", args=[cluster.pk])).content.decode()
    assert "1 job waits to be sent." in page
    of_experiment = as_owner.get(alive.get_absolute_url()).content.decode()
    assert looked in " ".join(of_experiment.split())
    assert f"{cluster}: time-out" in of_experiment


def test_a_scheduler_that_is_away_is_not_called_busy(as_owner: Client, alive: Experiment) -> None:
    problem = "Slurm does not answer: Unable to contact slurm controller"
    Cluster.objects.filter(pk=alive.cluster_id).update(last_error=problem, last_error_kind="busy")
    addresses = (alive.get_absolute_url(), reverse("cluster", args=[alive.cluster_id]), "/")
    for page in (as_owner.get(address).content.decode() for address in addresses):
        assert "no usable answer" in page.lower()
        assert "busy" not in page.lower()


def test_an_ended_experiment_does_not_tell_of_its_cluster(
    as_owner: Client, alive: Experiment
) -> None:
    end(alive)
    alive.jobs.update(state="failed")
    Cluster.objects.filter(pk=alive.cluster_id).update(
        last_error="lab:22 did not answer", last_error_kind="time-out"
    )
    assert "time-out" not in as_owner.get(alive.get_absolute_url()).content.decode()


@pytest.mark.parametrize("address", ["/nothing/", "/experiments/99/", "/runs/nothing/"])
def test_what_is_not_there_is_said_in_our_look(address: str, as_owner: Client) -> None:
    answer = as_owner.get(address)
    assert answer.status_code == 404
    assert "Page not found" in answer.content.decode()
    assert "css/tare.css" in answer.content.decode()


def test_the_error_page_needs_no_context() -> None:
    page = server_error(RequestFactory().get("/")).content.decode()
    assert "Tare could not finish this page" in page


def test_a_form_without_its_key_is_refused_in_words(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/login/", {"username": "owner", "password": "x"})
    assert answer.status_code == 403
    assert "open for too long" in answer.content.decode()
