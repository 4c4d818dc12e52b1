"""A page says what varied beside what is compared, where that left a verdict inconclusive."""

from __future__ import annotations

import json

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.comparisons import compare_experiment, keep_comparison, read_comparison
from experiments.comparisons.node_conditions import read_conditions
from experiments.models import Experiment, Measurement, NodeSamples
from runners.node_samples import Samples, describe_run
from tests.dashboard.conftest import People, Site, measured

pytestmark = pytest.mark.django_db
NOISE = (1.0, 1.9, 1.1, 1.6, 0.9, 1.3, 2.1, 1.2, 0.8, 1.7)
"""Of the runs of one environment; the other has them in another order."""


def make_noisy(site: Site, people: People, **columns: object) -> Experiment:
    made = measured(site, people.owner, blocks=10, repeats=10, **columns)
    for environment, shift in ((site.bare, 0), (site.container, 3)):
        for run in made.runs.filter(environment=environment):
            value = NOISE[(run.repeat - 1 + shift) % 10]
            Measurement.objects.filter(run=run).update(value=value)
    return made


def read_notes(client: Client, address: str) -> list[str]:
    page = BeautifulSoup(client.get(address).content, "html.parser")
    return [" ".join(note.text.split()) for note in page.select(".note.warning")]


@pytest.mark.parametrize("page", ["comparison", "report"])
def test_it_stands_beside_the_verdict(
    page: str, site: Site, people: People, as_owner: Client
) -> None:
    made = make_noisy(site, people)
    (note,) = read_notes(as_owner, reverse(page, args=[made.pk]))
    assert note.startswith("bare metal itself varied between 0.800 s and 2.10 s in 10 runs")
    assert "look there before planning more" in note


def sample_nodes(made: Experiment, *, of_value: bool) -> None:
    """Store what the nodes did: others kept CPUs busy in slow runs, or in runs by no order."""
    for run in made.runs.select_related("environment"):
        value = run.measurements.get(metric="step_time").value
        busy = 35 * value if of_value else 7.0 * (run.repeat * 7 % 10)
        times = [1e9 + 5 * place for place in range(6)]
        samples = Samples(
            tracks={
                ("CPU use", None): [(time, busy) for time in times],
                ("memory", None): [(time, 2.0**34) for time in times],
                ("swapped pages", None): [(time, 50.0) for time in times],
                ("GPU clock", 0): [(time, 1.4e9) for time in times],
                ("GPU clock", 1): [(time, 1.2e9) for time in times],
            },
            reasons={
                0: [(time, float(0x20 if place < 3 else 0)) for place, time in enumerate(times)]
            },
            times=times,
        )
        NodeSamples.objects.create(run=run, content=describe_run(samples, times[0], times[-1]))


def test_what_the_nodes_did_in_slow_runs_is_named(
    site: Site, people: People, as_owner: Client
) -> None:
    made = make_noisy(site, people)
    sample_nodes(made, of_value=True)
    known = read_conditions(made.runs.values_list("uid", flat=True))
    assert len(known) == 20
    first = made.runs.get(environment=site.bare, repeat=1)
    assert known[first.uid] == {
        "CPU use": 35.0,
        "memory": pytest.approx(2**34, rel=1e-3),
        "GPU clock": 1.3e9,
        "slowdown": 0.5,
        "swapped pages": 0.0,
    }
    (note,) = read_notes(as_owner, reverse("comparison", args=[made.pk]))
    assert (
        "In the slowest third of the blocks other means were sampled: CPU use of the node" in note
    )
    assert "it proves no cause" in note


def test_where_the_nodes_did_nothing_else_the_note_says_so(
    site: Site, people: People, as_owner: Client
) -> None:
    made = make_noisy(site, people)
    sample_nodes(made, of_value=False)
    (note,) = read_notes(as_owner, reverse("comparison", args=[made.pk]))
    assert "Nothing that was sampled on the node goes along with it clearly: CPU use" in note


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"tracks": "none", "reasons": "none"},
        {"tracks": [{"name": "CPU use"}, {"mean": 5}, {"name": 1, "mean": 2}, {"name": "memory"}]},
        {"tracks": [{"name": "CPU use", "mean": None}, {"name": "swapped pages", "high": "x"}]},
    ],
)
def test_odd_samples_are_no_samples(
    site: Site, people: People, as_owner: Client, content: dict[str, object]
) -> None:
    made = make_noisy(site, people)
    for run in made.runs.all():
        NodeSamples.objects.create(run=run, content=content)
    (note,) = read_notes(as_owner, reverse("comparison", args=[made.pk]))
    assert "sampled" not in note


def test_a_steady_machine_has_no_such_note(results: Experiment, as_owner: Client) -> None:
    assert read_notes(as_owner, reverse("comparison", args=[results.pk])) == []


def test_the_json_file_says_it_too(site: Site, people: People, as_owner: Client) -> None:
    made = make_noisy(site, people)
    answer = as_owner.get(reverse("comparison_json", args=[made.pk]))
    (row,) = json.loads(b"".join(answer))["unsteady"]
    assert row == {
        "workload": site.workload.name,
        "scale": "1x1",
        "sentence": compare_experiment(made).groups[0].unsteady,
    }


def test_a_kept_comparison_says_the_same(site: Site, people: People) -> None:
    made = make_noisy(site, people)
    computed = compare_experiment(made).groups[0].unsteady
    assert computed
    assert keep_comparison(made.pk) == "kept"
    assert read_comparison(made).groups[0].unsteady == computed


def test_runs_that_no_analysis_has_judged_are_not_told_of(site: Site, people: People) -> None:
    made = make_noisy(site, people, looks=2)
    Measurement.objects.filter(run__experiment=made, run__repeat__gt=5).update(value=77.0)
    last = made.runs.filter(repeat=10).order_by("pk").first()
    assert last
    made.runs.filter(pk=last.pk).update(state="running")
    (group,) = compare_experiment(made).groups
    assert "in 5 runs" in group.unsteady
    assert "77" not in group.unsteady
