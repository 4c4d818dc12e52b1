"""The panel on training: verdicts on ends, whole curves, and the last bit, on page and in files."""

from __future__ import annotations

import json
import random
from collections import deque
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.comparisons import export_limit
from experiments.comparisons import (
    compare_experiment,
    keep_comparison,
    read_comparison,
    whole_curves,
)
from experiments.comparisons.compared_pairs import COLLECTED_AFTER, TRIED_AGAIN
from experiments.comparisons.step_summaries import add_step_summary
from experiments.comparisons.whole_curves import compare_whole_curves
from experiments.execution.moves import record_event
from experiments.models import Experiment, Run
from experiments.statistics.training.end_pairs import ComparedBy, TrainingStamp
from tests.dashboard.conftest import People, Site
from tests.factories import (
    JobFactory,
    LaunchedFactory,
    MeasurementFactory,
    RunFactory,
    SeriesFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db
STEPS = 40


def make_losses(seed: int, *, extra: float = 0.0, noise: float = 0.0) -> list[float]:
    """Return a loss that falls from 2.3; `noise` is what an environment draws otherwise."""
    draw, other = random.Random(seed), random.Random(seed + 1000)
    return [
        2.3 * 0.95**step * (1 + 0.02 * draw.random() + extra + noise * other.gauss(0, 1))
        for step in range(STEPS)
    ]


def trained(
    site: Site,
    people: People,
    *,
    blocks: int = 8,
    extra: float = 0.0,
    noise: float = 0.001,
    worse: float = 0.0,
    seed: int | None = None,
    **columns: Any,
) -> Experiment:
    """Make trainings of a seed a block; the container's loss is higher by `extra`, its accuracy
    lower by `worse`.
    """
    made: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[WorkloadFactory(kind="cnn")],
        environments=[site.bare, site.container],
        repeats=blocks,
        visibility="members",
        **columns,
    )
    for repeat in range(1, blocks + 1):
        job = JobFactory(experiment=made, repeat=repeat)
        for environment in (site.bare, site.container):
            is_box = environment == site.container
            run = RunFactory(
                job=job,
                environment=environment,
                values={"step_time": 0.02 * (1 + 0.001 * repeat + 1e-5 * repeat * is_box)},
                spec={"workload": {"kind": "cnn", "parameters": {"seed": seed or repeat}}},
            )
            losses = make_losses(
                seed or repeat, extra=extra * is_box, noise=noise * is_box * (1 + repeat / 10)
            )
            add_step_summary(SeriesFactory(run=run, metric="loss", unit="1", values=losses)).save()
            wobble = 0.0004 * (-1) ** repeat * is_box
            accuracy = 0.6 + repeat / 100 + wobble - worse * is_box
            MeasurementFactory(run=run, metric="accuracy", value=accuracy, unit="1")
    return made


def open_panel(client: Client, experiment: Experiment, **asked: str) -> str:
    address = reverse("comparison", args=[experiment.pk])
    page = client.get(address, {"section": "training", **asked}).content
    soup = BeautifulSoup(page, "html.parser")
    for script in soup.select("script"):
        script.decompose()
    section = soup.select_one("#section")
    assert section is not None
    return " ".join(section.get_text(" ").replace("\N{NO-BREAK SPACE}", " ").split())


def read_files(client: Client, experiment: Experiment) -> dict[str, Any]:
    answer: Any = client.get(reverse("comparison_json", args=[experiment.pk]))
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    document: dict[str, Any] = json.loads(content)
    return document


def ends_of(experiment: Experiment) -> dict[str, Any]:
    (group,) = compare_experiment(experiment).groups
    assert group.trained
    return {pair.what: pair for pair in group.trained.ends}


def test_ends_have_verdicts_by_the_margins_of_the_plan(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, accuracy_margin=0.5, loss_margin=0.05)
    ends = ends_of(made)
    assert {what: str(pair.verdict) for what, pair in ends.items()} == {
        "loss": "EQUIVALENT",
        "accuracy": "EQUIVALENT",
    }
    assert (ends["accuracy"].by, ends["accuracy"].n) == (ComparedBy.SEED, 8)
    assert ends["accuracy"].stamps == ()
    page = open_panel(as_owner, made)
    assert "EQUIVALENT" in page
    assert "a difference of 0.5 points or more is ruled out" in page
    assert "p lower < 0.001, upper < 0.001" in page
    document = read_files(as_owner, made)
    (row,) = [row for row in document["training_ends"] if row["what"] == "accuracy"]
    assert (row["verdict"], row["margin"], row["n"]) == ("EQUIVALENT", 0.5, 8)
    assert row["margin_chosen_after_the_data"] is False
    assert row["p_equivalence_holm"] >= row["p_equivalence"]


def test_a_training_that_ends_elsewhere_is_different(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, accuracy_margin=0.5, worse=0.02)
    pair = ends_of(made)["accuracy"]
    assert (str(pair.verdict), pair.detail) == ("DIFFERENT", "beyond margin")
    assert "by −2.000 points" in open_panel(as_owner, made)


def test_without_a_margin_there_is_no_verdict_and_one_chosen_now_is_stamped(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people)
    assert {pair.verdict for pair in ends_of(made).values()} == {None}
    page = open_panel(as_owner, made)
    assert "the plan fixed none, so there is no verdict" in page
    assert "MARGIN CHOSEN AFTER THE DATA" not in page
    tried = open_panel(as_owner, made, margin_of_accuracy="0,5")
    assert "MARGIN CHOSEN AFTER THE DATA" in tried
    assert "EQUIVALENT" in tried
    assert tried.count("so there is no verdict") == 1, "nobody tried one of the loss"
    for odd in ("nan", "-1", "inf", "much", "1e400"):
        assert "MARGIN CHOSEN" not in open_panel(as_owner, made, margin_of_accuracy=odd)


def test_a_planned_margin_cannot_be_tried_out_of_the_way(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, accuracy_margin=0.001, loss_margin=0.05)
    page = open_panel(as_owner, made, margin_of_accuracy="50")
    assert "MARGIN CHOSEN AFTER THE DATA" not in page
    assert "0.001 points" in page
    assert "Judge by this margin" not in page


def test_there_is_no_verdict_before_all_planned_runs_have_ended(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, accuracy_margin=0.5)
    RunFactory(job=JobFactory(experiment=made, repeat=9, state="planned"), state="planned")
    assert ends_of(made) == {}
    page = open_panel(as_owner, made)
    assert "They are compared when all planned runs have ended." in page
    assert "EQUIVALENT" not in page
    assert "identical to the last bit in 0 of 8 pairs" in page, "that is a check, seen at once"
    assert read_files(as_owner, made)["training_curves"] == []


def test_whole_curves_are_compared_and_drawn(site: Site, people: People, as_owner: Client) -> None:
    made = trained(site, people, extra=0.05)
    page = open_panel(as_owner, made)
    assert "differs along the curve (p = 0.008, all 128 sign flips; 8 seeds)" in page
    assert "The mean difference of Apptainer from the baseline" in page
    (row,) = read_files(as_owner, made)["training_curves"]
    assert (row["p"], row["steps_compared"], row["n"]) == (1 / 128, STEPS, 8)
    same = trained(site, people, noise=0.01)
    assert "no difference found along the curve" in open_panel(as_owner, same)


def test_one_run_of_each_says_that_nothing_can_be_said(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, blocks=1, accuracy_margin=0.5)
    page = open_panel(as_owner, made)
    assert "NO INFERENCE" in page
    assert "nothing can be said of the whole curve" in page


def test_bits_are_a_finding_of_their_own(site: Site, people: People, as_owner: Client) -> None:
    made = trained(site, people, blocks=4, noise=0.0, seed=3)
    page = open_panel(as_owner, made)
    assert "with itself: identical to the last bit in 3 of 3 pairs." in page
    assert "With bare metal: identical to the last bit in 4 of 4 pairs." in page
    run = made.runs.filter(environment=site.container).latest("pk")
    series = run.series.get(metric="loss")
    series.values = [*series.values[:16], *(1.01 * value for value in series.values[16:])]
    add_step_summary(series).save()
    page = open_panel(as_owner, made)
    assert (
        "with itself: identical to the last bit in 2 of 3 pairs; differs from step 17 on." in page
    )
    assert (
        "With bare metal: identical to the last bit in 3 of 4 pairs; differs from step 17 on."
        in page
    )
    rows = {
        (row["environment"], row["compared_with"]): row
        for row in read_files(as_owner, made)["training_bitwise"]
    }
    between = rows["Apptainer", "bare metal"]
    assert (between["pairs_of_one_seed"], between["identical_pairs"]) == (4, 3)
    assert between["first_step_that_differs"] == 17


def test_runs_that_diverged_are_a_finding_and_withhold_equivalent(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, accuracy_margin=0.5)
    run = made.runs.filter(environment=site.container).latest("pk")
    Run.objects.filter(pk=run.pk).update(
        state="failed", reason="exit code", message="loss is not finite at step 17"
    )
    pair = ends_of(made)["accuracy"]
    assert (str(pair.verdict), pair.detail) == ("INCONCLUSIVE", "runs diverged")
    assert TrainingStamp.DIVERGED in pair.stamps
    page = open_panel(as_owner, made)
    assert "1 run of Apptainer diverged: the loss was no number any more." in page
    assert "1 run of Apptainer diverged (the loss was no number any more) and left no curve" in page
    Run.objects.filter(pk=run.pk).update(message="loss 0.3\nthe time is not finite")
    assert str(ends_of(made)["accuracy"].verdict) == "EQUIVALENT", "it failed for another reason"


def test_a_failed_sanity_check_of_a_loss_counts_as_diverged(site: Site, people: People) -> None:
    made = trained(site, people, accuracy_margin=0.5)
    run = made.runs.filter(environment=site.bare).latest("pk")
    Run.objects.filter(pk=run.pk).update(
        state="failed", reason="not sane", message="loss at step 5 is not a finite number"
    )
    (group,) = compare_experiment(made).groups
    assert group.trained
    assert group.trained.diverged == {"bare metal": 1}


def test_runs_that_persons_excluded_are_stamped(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, accuracy_margin=0.5)
    run = made.runs.filter(environment=site.container).latest("pk")
    as_owner.post(reverse("run_exclude", args=[run.uid]), {"why": "it was odd"})
    pair = ends_of(made)["accuracy"]
    assert (pair.n, pair.stamps) == (7, (TrainingStamp.EXCLUDED,))
    assert "Persons excluded 1 run of either side" in pair.reasons[0]


def test_a_kept_comparison_has_the_same_verdicts(site: Site, people: People) -> None:
    made = trained(site, people, accuracy_margin=0.5)
    computed = compare_experiment(made)
    keep_comparison(made.pk)
    kept = read_comparison(Experiment.objects.get(pk=made.pk))
    assert kept.groups[0].trained == computed.groups[0].trained


def test_methods_say_what_was_done(site: Site, people: People, as_owner: Client) -> None:
    made = trained(site, people, accuracy_margin=0.5)
    address = reverse("comparison", args=[made.pk])
    page = as_owner.get(address, {"section": "methods"}).content.decode()
    text = " ".join(page.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "difference within 0.5 points of accuracy, fixed by the plan before the data" in text
    assert "one permutation test for the whole curve" in text
    assert "Whether losses are bitwise the same was looked at separately." in text


def test_reading_curves_takes_as_many_queries_for_more_runs(site: Site, people: People) -> None:
    def count(blocks: int) -> int:
        comparison = compare_experiment(trained(site, people, blocks=blocks))
        (group,) = comparison.groups
        with CaptureQueriesContext(connection) as captured:
            compare_whole_curves(comparison, group)
        return len(captured)

    assert count(6) == count(12) == 2


def test_too_many_losses_are_not_read(
    site: Site, people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trained(site, people)
    monkeypatch.setattr(whole_curves, "MOST_LOSSES", 100)
    page = open_panel(as_owner, made)
    assert "640 losses are too many to be read for a page" in page
    assert "identical to the last bit in 0 of 8 pairs." in page


def test_files_say_whose_curves_were_too_long_to_be_compared(
    site: Site, people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trained(site, people)
    assert read_files(as_owner, made)["training_curves_not_compared"] == []
    monkeypatch.setattr(whole_curves, "MOST_LOSSES", 100)
    content = read_files(as_owner, made)
    assert content["training_curves"] == []
    (row,) = content["training_curves_not_compared"]
    assert row["losses"] == 640
    assert row["scale"] == "1x1"
    assert "640 losses are too many to be read" in row["sentence"]


def test_configurations_share_the_losses_that_one_request_reads(
    site: Site, people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare_experiment(trained(site, people))
    (group,) = comparison.groups
    monkeypatch.setattr(whole_curves, "MOST_LOSSES", 1300)
    read = whole_curves.compare_curves_of_groups(comparison, [group] * 3)
    assert [curves.is_too_long for curves in read] == [False, False, True]
    assert [bool(curves.pairs) for curves in read] == [True, True, False]


def test_the_file_with_all_losses_is_among_the_files_that_are_sent_at_once(
    site: Site, people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trained(site, people)
    monkeypatch.setattr(export_limit, "_free", deque())
    address = reverse("comparison_json", args=[made.pk])
    assert as_owner.get(address).status_code == 503


def test_an_extension_leaves_the_planned_runs_ends_and_curves(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people)
    before = ends_of(made)
    Experiment.objects.filter(pk=made.pk).update(extended_repeats=2, extension_level=0.0294)
    made.refresh_from_db()
    for repeat in (9, 10):
        job = JobFactory(experiment=made, repeat=repeat)
        for environment in (site.bare, site.container):
            RunFactory(job=job, environment=environment, state=Run.State.PLANNED)
    assert before
    assert ends_of(made) == before
    comparison = compare_experiment(made)
    assert comparison.stage.waits
    (group,) = comparison.groups
    assert compare_whole_curves(comparison, group).pairs
    assert "when all planned runs have ended" not in open_panel(as_owner, made)


def test_an_independent_design_with_shared_seeds_is_compared_by_seed(
    site: Site, people: People
) -> None:
    made = trained(site, people, design="independent", accuracy_margin=0.5)
    assert ends_of(made)["accuracy"].by is ComparedBy.SEED
    one_seed = trained(site, people, design="independent", accuracy_margin=0.5, seed=3)
    assert ends_of(one_seed)["accuracy"].by is ComparedBy.RUN
    assert TrainingStamp.ONE_SEED in ends_of(one_seed)["accuracy"].stamps


def test_an_interim_verdict_takes_the_runs_and_the_level_of_its_analysis(
    site: Site, people: People
) -> None:
    made = trained(site, people, blocks=10, looks=2, accuracy_margin=0.5)
    pair = ends_of(made)["accuracy"]
    assert (pair.n, pair.alpha) == (10, pytest.approx(0.0294))
    made.runs.filter(repeat=10).update(state="planned")
    assert ends_of(made) == {}, "another analysis is to come"
    Experiment.objects.filter(pk=made.pk).update(stopped_at_look=1, cancelled_at=made.launched_at)
    stopped = Experiment.objects.get(pk=made.pk)
    made.runs.filter(state="planned").update(state="cancelled")
    assert ends_of(stopped)["accuracy"].n == 5


@pytest.mark.parametrize("kept", [False, True])
def test_what_is_said_of_training_stands_beside_the_verdicts_on_speed(
    kept: bool, site: Site, people: People, as_owner: Client
) -> None:
    """Else a container that trains worse than the margin allows looked like an equivalent one."""
    made = trained(site, people, worse=0.02, accuracy_margin=0.5)
    if kept:
        assert keep_comparison(made.pk) == "kept"
    assert compare_experiment(made).training_verdicts == {"DIFFERENT": 1}
    pages = [
        as_owner.get(reverse("comparison", args=[made.pk])),
        as_owner.get(made.get_absolute_url()),
        as_owner.get(reverse("report", args=[made.pk])),
    ]
    for page in pages:
        text = BeautifulSoup(page.content, "html.parser").get_text(" ")
        line = " ".join(text.partition("Training")[2].split())[:80]
        assert "1" in line
        assert "DIFFERENT" in line


def test_without_a_margin_nothing_is_said_of_training_there(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people)
    assert compare_experiment(made).training_verdicts == {}


@pytest.mark.parametrize(
    ("what", "stamp"),
    [
        (TRIED_AGAIN, TrainingStamp.TRIED_AGAIN),
        (COLLECTED_AFTER, TrainingStamp.COLLECTED_AFTER),
    ],
)
def test_what_happened_after_a_verdict_stamps_those_on_training_too(
    what: str, stamp: TrainingStamp, site: Site, people: People
) -> None:
    """A diverged run that is tried again leaves the count of those that diverged."""
    made = trained(site, people, accuracy_margin=0.5)
    record_event(made, what, job=made.jobs.first())
    group = compare_experiment(made).groups[0]
    assert group.trained
    stamped = {end.what: stamp in end.stamps for end in group.trained.ends}
    assert stamped == {"accuracy": True, "loss": False}, "the loss has no margin and no verdict"
