"""The node of a run on its page: small charts of its samples, with the figures in a table."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.execution.node_samples import HEIGHT, WIDTH, describe_node_use
from experiments.models import NodeSamples, Run
from runners.node_samples import PAGED, Samples, describe_run
from tests.dashboard.conftest import People, Site, measured
from tests.factories import link_to

GPU = ("GPU use", "GPU memory", "GPU power", "GPU clock", "GPU temperature")


def sampled(gpus: int = 1, count: int = 20, **more: object) -> Samples:
    samples = Samples(times=[5.0 * number for number in range(count)], **more)  # type: ignore[arg-type]
    for gpu in range(gpus):
        for name, value in zip(GPU, (90.0, 8e9, 620.5, 1.98e9, 64.0), strict=True):
            samples.tracks[name, gpu] = [(time, value - gpu) for time in samples.times]
    for name, value in (("CPU use", 12.5), ("memory", 64e9), ("swap", 0.0), (PAGED, 7.0)):
        samples.tracks[name, None] = [(time, value) for time in samples.times]
    return samples


@pytest.fixture
def run(site: Site, people: People) -> Run:
    first = measured(site, people.owner, blocks=1).runs.first()
    assert first
    return first


def read(client: Client, run: Run) -> str:
    page = client.get(run.get_absolute_url()).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.mark.django_db
def test_the_page_of_an_ended_run_shows_its_node(run: Run, as_owner: Client) -> None:
    samples = sampled(reasons={0: [(5.0, 4.0), (10.0, 4.0)]})
    NodeSamples.objects.create(run=run, content=describe_run(samples, 0, 100))
    page = as_owner.get(run.get_absolute_url()).content.decode()
    text = read(as_owner, run)
    assert page.count(f'src="/runs/{run.uid}/node.svg?width=180&amp;theme=') == 2
    assert "20 samples of the node in 1 min 40 s" in text
    assert "GPU power mean 620 W, 620 W to 620 W." in text
    assert "GPU 0: power cap in 2 of 20 samples." in text
    assert "Pages from and to swap" in text


@pytest.mark.django_db
def test_the_page_says_what_is_not_known_of_a_part_of_a_gpu(run: Run, as_owner: Client) -> None:
    samples = sampled(divided={2, 1})
    NodeSamples.objects.create(run=run, content=describe_run(samples, 0, 100))
    text = read(as_owner, run)
    assert "The run had a part (MIG) of GPU 1, 2: clock, temperature and reasons" in text
    NodeSamples.objects.update(content=describe_run(sampled(), 0, 100))
    assert "MIG" not in read(as_owner, run)


@pytest.mark.django_db
def test_a_run_without_samples_has_no_such_panel(run: Run, as_owner: Client) -> None:
    assert "samples of the" not in read(as_owner, run)


@pytest.mark.django_db
def test_of_several_nodes_the_page_says_which_one_was_sampled(run: Run, as_owner: Client) -> None:
    Run.objects.filter(pk=run.pk).update(scale="4x1 srun")
    NodeSamples.objects.create(run=run, content=describe_run(sampled(), 0, 100))
    assert "samples of the first of 4 nodes" in read(as_owner, run)


@pytest.mark.django_db
def test_what_the_tool_said_is_escaped_and_shown(run: Run, as_owner: Client) -> None:
    samples = sampled(gpus=0, problem="<b>No devices</b>", odd_lines=1)
    NodeSamples.objects.create(run=run, content=describe_run(samples, 0, 100))
    page = as_owner.get(run.get_absolute_url()).content.decode()
    assert "No samples of GPUs: &lt;b&gt;No devices&lt;/b&gt;" in page
    assert "1 line of the samples could not be read" in read(as_owner, run)


@pytest.mark.django_db
def test_a_visitor_with_a_link_sees_it_too(run: Run) -> None:
    NodeSamples.objects.create(run=run, content=describe_run(sampled(), 0, 100))
    visitor = Client()
    visitor.get(link_to(run.experiment))
    assert "20 samples of the node" in read(visitor, run)


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=400), st.integers(1, 9), st.booleans())
def test_lines_stay_in_their_box(values: list[float], gpus: int, has_gaps: bool) -> None:
    samples = Samples()
    for gpu in range(gpus):
        samples.tracks["GPU power", gpu] = [
            (number * (3.0 if has_gaps and number % 2 else 1.0), value)
            for number, value in enumerate(values)
        ]
    (chart,) = describe_node_use(describe_run(samples, 0, 3.0 * len(values))).charts
    assert len(chart.lines) == gpus
    for line in chart.lines:
        for x, y in re.findall(r"[ML](\d+) (\d+)", line):
            assert 0 <= int(x) <= WIDTH
            assert 0 <= int(y) <= HEIGHT


def test_slowdowns_are_told_by_reason_and_the_usual_one_last() -> None:
    samples = sampled(gpus=3, count=10)
    for gpu in range(3):
        samples.reasons[gpu] = [(time, 0x4 if gpu else 0x44) for time in samples.times]
    samples.reasons[2] = samples.reasons[2][:4]
    assert describe_node_use(describe_run(samples, 0, 100)).slower == [
        "GPU 0: hardware thermal slowdown in 10 of 10 samples.",
        "GPUs 0, 1, 2: power cap in 4 to 10 of 10 samples.",
    ]


def test_a_page_of_eight_gpus_stays_small() -> None:
    use = describe_node_use(describe_run(sampled(gpus=8, count=5000), 0, 25_000))
    assert sum(len(line) for chart in use.charts for line in chart.lines) < 50_000
