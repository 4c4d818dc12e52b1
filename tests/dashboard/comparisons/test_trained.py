"""Training equivalence Said on the comparison page, stamped on verdicts, and in the files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.comparisons import compare_experiment
from experiments.comparisons.step_summaries import add_step_summary
from experiments.comparisons.trainings import compare_all_trainings
from experiments.models import Experiment, Run
from experiments.statistics import Stamp
from runners.workloads import OTHER_SEEDS
from tests.dashboard.conftest import People, Site, read_report
from tests.factories import (
    JobFactory,
    LaunchedFactory,
    MeasurementFactory,
    RunFactory,
    SeriesFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

Ends = Callable[[str, int], float]
SEEDS = (0.50, 0.55, 0.47, 0.52, 0.49)


def trained(
    site: Site,
    people: People,
    ends: Ends,
    *,
    blocks: int = 5,
    seeds: bool = True,
    kind: str = "cnn",
) -> Experiment:
    """Runs whose loss falls from 2.3 to what `ends` says of an environment in a repeat."""
    made: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[WorkloadFactory(kind=kind)],
        environments=[site.bare, site.container],
        repeats=blocks,
        visibility="members",
    )
    for repeat in range(1, blocks + 1):
        job = JobFactory(experiment=made, repeat=repeat)
        for environment in (site.bare, site.container):
            known = {} if kind == "command" else {"seed": repeat if seeds else 1}
            slow = 1 + 0.001 * repeat + 1e-5 * repeat * (environment == site.container)
            run = RunFactory(
                job=job,
                environment=environment,
                values={"step_time": 0.02 * slow},
                spec={"workload": {"kind": kind, "parameters": known}},
            )
            end = ends(environment.name, repeat)
            kept = SeriesFactory(run=run, metric="loss", unit="1", values=[2.3, 1.0, end])
            add_step_summary(kept).save()
            MeasurementFactory(run=run, metric="accuracy", value=0.6 + repeat / 100, unit="1")
    return made


def by_seed(environment: str, repeat: int) -> float:
    return SEEDS[repeat - 1]


def worse(environment: str, repeat: int) -> float:
    return SEEDS[repeat - 1] * (1.3 if environment == "Apptainer" else 1)


def page_of(client: Client, experiment: Experiment) -> str:
    return read_report(client, experiment)


def test_equal_trainings_are_said_and_stamp_nothing(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, by_seed)
    (pair,) = compare_experiment(made).pairs
    assert Stamp.TRAINED_DIFFERENTLY not in pair.stamps
    page = page_of(as_owner, made)
    assert "<h2>Training equivalence</h2>" in page
    assert "bitwise equal to bare metal in all 5 runs." in page
    assert "The same accuracy as bare metal in all 5 runs." in page
    assert "one run of each of 5 seeds; the last loss varies by 6.2 %" in page


def test_a_training_beyond_the_noise_between_seeds_stamps_the_verdict_everywhere(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, worse)
    (pair,) = compare_experiment(made).pairs
    why = dict(zip(pair.stamps, pair.reasons, strict=True))[Stamp.TRAINED_DIFFERENTLY]
    assert "beyond the noise between seeds (SD 6.2 %, n = 5); on average it is 30 % higher" in why
    page = page_of(as_owner, made)
    assert page.count("<summary>TRAINED DIFFERENTLY</summary>") == 2, "beside both verdicts"
    assert "<strong>differs from bare metal in 5 of 5 runs" in page
    methods = "Of 2 comparisons: 1 beyond the noise between seeds, 1 bitwise equal."
    assert methods in page
    brief = as_owner.get(
        reverse("comparison", args=[made.pk]), headers={"HX-Request": "true"}
    ).content.decode()
    assert "trained differently" in brief
    address = reverse("comparison_json", args=[made.pk])
    (row,) = json.loads(as_owner.get(address).content)["comparison"]
    assert row["loss_trained"] == "beyond the noise between seeds"
    assert (row["loss_runs_compared"], row["loss_runs_equal"], row["loss_seeds"]) == (5, 0, 5)
    assert row["accuracy_trained"] == "equal to the bit"
    answer: Any = as_owner.get(reverse("comparison_csv", args=[made.pk]))
    (line,) = csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode()))
    assert "TRAINED DIFFERENTLY" in line["stamps"]
    assert float(line["loss_apart"]) == row["loss_apart"] > 1


def test_one_seed_is_worse_by_far_or_nobody_knows(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, lambda name, _: 1.4 if name == "Apptainer" else 0.5, seeds=False)
    page = page_of(as_owner, made)
    assert "bitwise reproducible (5 of 5 runs, same seed)." in page
    assert "Its loss fell 50 % less far than that of bare metal: worse by far." in page
    assert "TRAINED DIFFERENTLY" in page
    made = trained(site, people, lambda name, _: 0.501 if name == "Apptainer" else 0.5, seeds=False)
    page = page_of(as_owner, made)
    assert "The noise between seeds is unknown: one seed." in page
    assert "TRAINED DIFFERENTLY" not in page


def test_a_users_own_program_with_losses_is_held_against_its_own_runs(
    site: Site, people: People, as_owner: Client
) -> None:
    page = page_of(as_owner, trained(site, people, worse, kind="command"))
    assert "5 runs whose seeds are not known; the last loss varies by 6.2 % between them" in page
    assert "5 runs against 5 of bare metal with unknown seeds" in page
    assert "the last loss 30 % higher on average; beyond the noise between runs (SD 6.2 %" in page
    assert "TRAINED DIFFERENTLY" in page


def test_the_steps_say_where_the_losses_part_and_how_the_trainings_ended(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, worse)
    page = as_owner.get(reverse("comparison_steps", args=[made.pk])).content.decode()
    assert "Apptainer: differs from bare metal in all 5 runs, first at step 3;" in page
    assert "has one run of each of 5 seeds" in page
    assert "beyond the noise between seeds" in page


def test_what_trains_wrongly_is_seen_before_the_verdict(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, worse)
    RunFactory(job=JobFactory(experiment=made, repeat=6, state="planned"), state="planned")
    assert compare_experiment(made).pairs == []
    assert "beyond the noise between seeds" in page_of(as_owner, made)


def test_failed_runs_and_runs_without_a_loss_have_no_say(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, worse)
    Run.objects.filter(experiment=made, repeat__gt=1).update(state="excluded")
    ((_, found),) = compare_all_trainings(made, ["bare metal", "Apptainer"]).items()
    assert [one.runs for one in found.losses] == [0, 1]
    for run in made.runs.all():
        run.series.all().delete()
    assert "train alike" not in page_of(as_owner, made)


def test_plan_methods_and_run_say_which_seeds_were_used(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, by_seed)
    given = {"seed": 7, "seeds": OTHER_SEEDS}
    made.plan = {"workloads": {"1": {"name": "net", "parameters": given}}}
    made.save(update_fields=["plan"])
    plan = as_owner.get(f"{made.get_absolute_url()}?tab=plan").content.decode()
    assert "another in each repeat, the same in all environments: net: seeds 7 to 11" in plan
    said = "Each repeat had a seed of its own, in all environments (net: seeds 7 to 11)."
    assert said in page_of(as_owner, made)
    run = made.runs.get(repeat=3, environment=site.container)
    assert ">seed=3</code>" in as_owner.get(run.get_absolute_url()).content.decode()


def test_many_runs_take_as_many_queries_as_few(site: Site, people: People) -> None:
    def queries(experiment: Experiment) -> int:
        with CaptureQueriesContext(connection) as captured:
            compare_all_trainings(experiment, ["bare metal", "Apptainer"])
        return len(captured)

    few = queries(trained(site, people, by_seed, blocks=2))
    assert queries(trained(site, people, by_seed, blocks=5)) == few == 2


@pytest.mark.parametrize("made_up", [{"data": "synthetic"}, {"dataset": "imagenet (synthetic)"}])
def test_accuracies_on_made_up_labels_are_not_compared(
    made_up: dict[str, str], site: Site, people: People
) -> None:
    made = trained(site, people, by_seed)
    (group,) = compare_experiment(made).trained
    assert group.trained
    assert len(group.trained.accuracies) == 2
    for run in made.runs.all():
        run.spec["workload"]["parameters"] |= made_up
        run.save(update_fields=["spec"])
    (group,) = compare_experiment(made).trained
    assert group.trained
    assert (len(group.trained.losses), group.trained.accuracies) == (2, [])
    assert "accuracy" not in str(group.compared_trainings)
