"""The extension on the comparison's page: its button with the price, and what is shown then."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.templatetags.numbers import gpu_hours
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.models import Experiment, Job, Run
from experiments.statistics.extension_levels import compute_extension_level
from tests.dashboard.conftest import People, Site, fetch, read_report
from tests.factories import ExperimentFactory, MeasurementFactory, link_to

pytestmark = pytest.mark.django_db

OPEN = (1.03, 0.98, 1.02, 0.985, 1.0)
WILD = (1.06, 0.94, 1.05, 0.95, 1.0)
SAME = (1.001, 0.999, 1.0, 1.002, 0.998)


def end(experiment: Experiment, ratios: tuple[float, ...], first: int = 1) -> None:
    for repeat, ratio in enumerate(ratios, start=first):
        for run in experiment.runs.filter(repeat=repeat):
            is_baseline = run.environment_id == experiment.baseline_id
            MeasurementFactory(run=run, value=1.0 if is_baseline else ratio)
            Run.objects.filter(pk=run.pk).update(state=Run.State.SUCCEEDED)
        jobs = experiment.jobs.filter(repeat=repeat)
        jobs.update(state=Job.State.DONE, scheduler_id="1", ended_at=experiment.launched_at)


def make_inconclusive(site: Site, people: People, scale: str = "1x1") -> Experiment:
    """Return an experiment that was launched, has ended, and decides nothing."""
    row: Experiment = ExperimentFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[site.workload],
        environments=[site.bare, site.container],
        repeats=5,
        margin=0.02,
        visibility="members",
        scales=[scale],
    )
    lifecycle.launch(row, people.owner)
    end(row, OPEN)
    return row


@pytest.fixture
def experiment(site: Site, people: People) -> Experiment:
    return make_inconclusive(site, people)


def read_page(client: Client, experiment: Experiment) -> str:
    page = fetch(client, reverse("comparison", args=[experiment.pk])).decode()
    return re.sub(r"\s+", " ", page)


def press(client: Client, experiment: Experiment, repeats: object) -> str:
    """Press the button; return the page that it leads to."""
    address = reverse("experiment_extend", args=[experiment.pk])
    answer = client.post(address, {"repeats": repeats}, follow=True)
    return re.sub(r"\s+", " ", answer.content.decode())


def test_the_button_stands_where_the_verdict_does_with_number_and_price(
    as_owner: Client, experiment: Experiment
) -> None:
    page = read_page(as_owner, experiment)
    (repeats,) = re.findall(r"<strong>Extend by (\d+) blocks</strong>", page)
    hours = experiment.workloads.get().time_limit_seconds * 2 / 3600
    in_all = f"at most {int(repeats) * hours:.1f} GPU-hours"
    (level,) = re.findall(r"judged at the level (\d\.\d+), and stamped", page)
    assert (
        f"<strong>Extend by {repeats} blocks</strong> for a second verdict at the stricter level "
        f"{level}, {in_all} </summary>"
    ) in page
    assert f"with a verdict at the stricter level {level} of the second verdict, if" in page
    price = f"{in_all}, {hours:.2f} a block"
    assert f"{repeats} blocks take {price}" in page
    assert f'value="{repeats}"' in page
    assert f"judged at the level {compute_extension_level(5, int(repeats))}" in page


def test_without_gpus_no_gpu_hours_are_named(site: Site, people: People, as_owner: Client) -> None:
    page = read_page(as_owner, make_inconclusive(site, people, scale="1x0"))
    assert re.search(r"stricter level \d\.\d+, no GPU-hours </summary>", page)
    assert re.search(r"\d+ blocks take no GPU-hours\.", page)
    assert "0.0 GPU" not in page.partition('id="extension"')[2].partition("</p>")[0]


@pytest.mark.parametrize(
    ("hours", "text"),
    [(0.0, "no GPU-hours"), (0.04, "at most 0.1 GPU-hours"), (12.34, "at most 12.3 GPU-hours")],
)
def test_gpu_hours_are_written_as_a_bound(hours: float, text: str) -> None:
    assert gpu_hours(hours) == text


def test_pressing_it_plans_the_blocks_and_the_page_says_who_did(
    as_owner: Client, experiment: Experiment
) -> None:
    page = press(as_owner, experiment, 5)
    assert "Extended: 5 jobs will be sent." in page
    assert "<strong>Extended by 5 blocks</strong> by owner" in page
    assert "It was extended by 5 repeats: the verdict at the level 0.0294 appears when" in page
    assert "Extend by" not in page
    assert experiment.jobs.filter(state=Job.State.PLANNED).count() == 5


def test_the_page_of_the_experiment_leads_there(
    people: People, as_owner: Client, experiment: Experiment
) -> None:
    link = f'<a href="{reverse("comparison", args=[experiment.pk])}#extension">'
    address = experiment.get_absolute_url()
    assert link in fetch(as_owner, address).decode()
    assert link not in fetch(people.client("other"), address).decode()
    press(as_owner, experiment, 5)
    assert link not in fetch(as_owner, address).decode()


def test_a_second_extension_is_refused_in_words(as_owner: Client, experiment: Experiment) -> None:
    press(as_owner, experiment, 5)
    end(Experiment.objects.get(pk=experiment.pk), WILD, first=6)
    page = read_page(as_owner, experiment)
    assert "It cannot be extended again. It was extended by 5 repeats already." in page
    assert "Not extended. It was extended by 5 repeats already." in press(as_owner, experiment, 5)
    assert experiment.jobs.count() == 10


@pytest.mark.parametrize("repeats", ["", "0", "many", "1e3", "-3", "99999999999999999999"])
def test_no_number_is_no_extension(as_owner: Client, experiment: Experiment, repeats: str) -> None:
    assert "1 to 995 repeats can be added" in press(as_owner, experiment, repeats)
    assert experiment.jobs.count() == 5


def test_others_see_neither_button_nor_reason(people: People, experiment: Experiment) -> None:
    page = read_page(people.client("other"), experiment)
    assert "Inconclusive" in page
    assert "xtend" not in page.replace("extends", "")
    answer = people.client("other").post(
        reverse("experiment_extend", args=[experiment.pk]), {"repeats": 5}
    )
    assert answer.status_code == 403
    assert "Extend by" in read_page(people.client("admin"), experiment)


def test_methods_files_and_the_printed_report_tell_of_it(
    as_owner: Client, experiment: Experiment
) -> None:
    press(as_owner, experiment, 5)
    end(Experiment.objects.get(pk=experiment.pk), SAME, first=6)
    report = re.sub(r"\s+", " ", read_report(as_owner, experiment))
    assert "The experiment was extended by 5 repeats (5 jobs in random order (seed " in report
    assert "UTC by owner, after its verdicts were known (1 INCONCLUSIVE)" in report
    assert "<summary>EXTENDED</summary>" in report
    printed = fetch(as_owner, reverse("report", args=[experiment.pk])).decode()
    assert "5 repeats, 5 added" in re.sub(r"\s+", " ", printed)
    for repeat, of in ((3, 5), (7, 10)):
        run = experiment.runs.filter(repeat=repeat).first()
        assert run
        page = fetch(as_owner, run.get_absolute_url()).decode()
        assert f"repeat {repeat} of {of}" in re.sub(r"\s+", " ", page)
    assert "97.06" in report
    content = json.loads(fetch(as_owner, reverse("comparison_json", args=[experiment.pk])))
    content = content["experiment"]
    facts = content["extension"]
    assert (facts["extended_by"], facts["plan"]["after_repeats"]) == ("owner", [5, 10])
    assert content["plan"]["repeats"] == 5
    tex = fetch(as_owner, reverse("comparison_tex", args=[experiment.pk])).decode()
    assert "EXTENDED: After 5 planned repeats the verdict was open" in tex
    table = fetch(as_owner, reverse("comparison_csv", args=[experiment.pk])).decode()
    columns = table.splitlines()[0].split(",")
    newer = [name for name in columns if name.startswith(("extension_", "facts_"))]
    assert columns[-len(newer) :] == newer
    place = newer.index("facts_compared")
    assert newer[place - 1] == "extension_error_goal"
    assert all(name.startswith("facts_") for name in newer[place:])
    listed = fetch(as_owner, f"{reverse('experiments')}?column=repeats&sort=-repeats").decode()
    assert 'data-label="Repeats">10</td>' in listed, "with what was added"
    file = fetch(as_owner, f"{reverse('experiments_file')}?column=repeats").decode()
    assert file.splitlines()[1].endswith(",10")
    events = fetch(as_owner, f"{experiment.get_absolute_url()}?tab=events").decode()
    assert "by 5 repeats, 5 jobs, after 1 INCONCLUSIVE" in events
    tab = fetch(as_owner, f"{experiment.get_absolute_url()}?tab=plan").decode()
    plan = re.sub(r"\s+", " ", tab)
    assert "extended by 5, after which a second one is at the level 0.0294" in plan
    assert "5 repeats, 5 added" in plan


def test_the_kept_comparison_is_the_computed_one(as_owner: Client, experiment: Experiment) -> None:
    press(as_owner, experiment, 5)
    end(Experiment.objects.get(pk=experiment.pk), SAME, first=6)
    first = read_page(as_owner, experiment)
    again = read_page(as_owner, experiment)
    (pair,) = compare_experiment(Experiment.objects.get(pk=experiment.pk)).pairs
    assert pair.extension
    for page in (first, again):
        assert pair.reasons[pair.stamps.index("EXTENDED")] in page.replace("&nbsp;", " ")


def test_a_link_that_hides_names_hides_who_extended(
    people: People, as_owner: Client, experiment: Experiment
) -> None:
    press(as_owner, experiment, 5)
    client = Client()
    client.get(link_to(experiment, hides_names=True))
    page = read_page(client, experiment)
    assert "Extended by 5 blocks" in page
    assert "by owner" not in page
