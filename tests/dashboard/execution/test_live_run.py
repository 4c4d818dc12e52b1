"""The page of a run while it runs: how far it is, its curves so far, and what it has printed."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard.execution.live_run import HEIGHT, WIDTH, describe_live_run, draw_curve
from experiments.models import Cluster, Job, LiveReading, Run
from runners.node_samples import describe_so_far
from runners.workloads.live_reports import LiveCurve, LiveReport
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, RunFactory, link_to

HTMX = {"HX-Request": "true"}


@pytest.fixture
def running(site: Site, people: People) -> Run:
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state=Job.State.RUNNING)
    spec = {"workload": {"parameters": {"steps": 100, "burn_in": 10}}}
    run: Run = RunFactory(
        job=job, state=Run.State.RUNNING, ended_at=None, exit_code=None, spec=spec
    )
    return run


def report(run: Run, *lines: object, output: str = "", **columns: object) -> LiveReading:
    """Store what was read of a run."""
    made = LiveReport()
    made.add_lines("".join(f"{json.dumps(line)}\n" for line in lines).encode())
    directory = f"{run.job.directory}/{run.folder}"
    columns = {
        "watched_at": timezone.now(),
        "read_at": timezone.now(),
        "directory": directory,
        **columns,
    }
    return LiveReading.objects.update_or_create(
        run=run, defaults={"report": made.build_document(), "output_tail": output, **columns}
    )[0]


@pytest.mark.django_db
def test_a_running_run_shows_its_steps_its_speed_and_its_output(
    running: Run, as_owner: Client
) -> None:
    times = [2.0, *[0.5] * 39]
    report(
        running,
        {"series": "step_time", "unit": "s", "from": 0, "values": times},
        {"series": "loss", "from": 0, "values": [1 / (step + 1) for step in range(40)]},
        {"phases": {"start": 0.25, "steady state": 20.0}},
        {"facts": {"burn_in": 10}},
        output="epoch <1>\nepoch 2\n",
    )
    page = as_owner.get(running.get_absolute_url(), headers=HTMX).content.decode()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "Phase after the warm-up" in text
    assert "40 of 100" in text
    assert "500.0 ms" in text
    assert "30 s" in text, "60 steps of half a second are left"
    assert "epoch &lt;1&gt; epoch 2" in text
    assert page.count('<figure class="curve"') == 2


@pytest.mark.django_db
def test_before_its_first_reading_the_page_says_so(running: Run, as_owner: Client) -> None:
    page = as_owner.get(running.get_absolute_url()).content.decode()
    assert "is being read on the cluster" in page
    assert Cluster.objects.get(pk=running.job.cluster_id).wanted_at is not None


@pytest.mark.django_db
def test_a_further_attempt_shows_nothing_of_the_one_before(running: Run, as_owner: Client) -> None:
    report(running, {"step": {"loss": 1}}, output="of attempt 1\n")
    Job.objects.filter(pk=running.job_id).update(directory="/tmp/tare/jobs/again-2")
    page = as_owner.get(running.get_absolute_url()).content.decode()
    assert "of attempt 1" not in page
    assert "is being read on the cluster" in page


@pytest.mark.django_db
def test_steps_are_those_of_the_step_times(running: Run) -> None:
    reading = report(
        running,
        {"series": "step_time", "from": 0, "values": [0.5] * 3},
        {"series": "micro_loss", "from": 0, "values": [1.0] * 120},
    )
    live = describe_live_run(running, reading)
    assert (live.steps, live.planned_steps) == (3, 100)


@pytest.mark.django_db
def test_why_it_could_not_be_read_is_said(running: Run, as_owner: Client) -> None:
    report(running, problem="the key may <not> do this")
    page = as_owner.get(running.get_absolute_url()).content.decode()
    assert "the key may &lt;not&gt; do this. The run goes on." in page


@pytest.mark.django_db
def test_nothing_is_asked_of_a_cluster_for_visitors_and_ended_runs(
    running: Run, as_owner: Client, client: Client
) -> None:
    address = link_to(running.experiment)
    assert client.get(address, follow=True).status_code == 200
    client.get(running.get_absolute_url())
    assert not LiveReading.objects.exists()
    Run.objects.update(state=Run.State.FAILED)
    page = as_owner.get(running.get_absolute_url()).content.decode()
    assert not LiveReading.objects.exists()
    assert "every few seconds while this page is" not in page


@pytest.mark.django_db
def test_a_part_that_shows_the_same_is_not_sent_again(running: Run, as_owner: Client) -> None:
    report(running, {"step": {"loss": 2}}, output="x\n")
    first = as_owner.get(running.get_absolute_url(), headers=HTMX)
    again = as_owner.get(
        running.get_absolute_url(), headers={**HTMX, "X-Shown": first.headers["X-Shown"]}
    )
    assert again.status_code == 204


@pytest.mark.django_db
def test_the_part_of_a_million_steps_is_small(running: Run, as_owner: Client) -> None:
    values = [0.01 + 0.001 * (step % 97) for step in range(100_000)]
    lines = [
        {"series": name, "from": part * 100_000, "values": values}
        for name in ("step_time", "loss")
        for part in range(10)
    ]
    report(running, *lines, output="line\n" * 1000)
    part = as_owner.get(running.get_absolute_url(), headers=HTMX).content
    assert len(part) < 20_000


# --- Curves


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](\d+) (\d+)", path)]


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=400),
    st.integers(0, 500),
    st.sampled_from(["step_time", "loss"]),
)
def test_every_curve_stays_in_its_box(values: list[float], warm_up: int, name: str) -> None:
    curve = LiveCurve("s")
    curve.add(values)
    drawn = draw_curve(name, curve, planned=None, warm_up=warm_up)
    drawn_places = places(drawn.line)
    assert len(drawn_places) == sum(1 for stretch in curve.stretches if stretch.count)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in drawn_places)
    assert [x for x, _ in drawn_places] == sorted(x for x, _ in drawn_places)
    assert 0 <= drawn.warm_up <= WIDTH


def test_the_box_is_as_wide_as_all_planned_steps() -> None:
    curve = LiveCurve("s")
    curve.add([1.0] * 10)
    drawn = draw_curve("step_time", curve, planned=100, warm_up=5)
    assert max(x for x, _ in places(drawn.line)) == 95
    assert (drawn.warm_up, drawn.last_step) == (50, "100")


def test_a_long_step_flattens_no_others_and_is_counted() -> None:
    curve = LiveCurve("s")
    curve.add([30.0, *[0.1] * 50, 9.0, *[0.1] * 50])
    drawn = draw_curve("step_time", curve, planned=None, warm_up=1)
    assert drawn.top == "375 ms"
    assert "2 points reach above the box, up to 30.0 s" in drawn.sentence


def test_values_that_are_no_numbers_leave_a_gap() -> None:
    curve = LiveCurve("1")
    curve.add([1, None, 3, 4])
    drawn = draw_curve("loss", curve, planned=None, warm_up=0)
    assert drawn.line.count("M") == 2
    assert len(places(drawn.line)) == 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("steps", "warm_up", "ended", "phase"),
    [
        (0, 10, False, "before the first step"),
        (4, 10, False, "warm-up"),
        (10, 10, False, "after the warm-up"),
        (10, 0, False, "running"),
        (100, 10, False, "after the last step"),
        (100, 10, True, "finished"),
    ],
)
def test_what_it_does_now_is_said_in_words(
    running: Run, steps: int, warm_up: int, ended: bool, phase: str
) -> None:
    reading = report(
        running,
        {"series": "step_time", "from": 0, "values": [0.5] * steps},
        {"facts": {"burn_in": warm_up}},
    )
    if ended:
        running.ended_at = timezone.now() - timedelta(seconds=1)
    assert describe_live_run(running, reading).phase == phase


@pytest.mark.django_db
@pytest.mark.parametrize("planned", [None, True, "many", 3, -1])
def test_planned_steps_that_cannot_be_true_are_not_shown(running: Run, planned: object) -> None:
    running.spec = {"workload": {"parameters": {"steps": planned}}}
    reading = report(running, {"series": "step_time", "from": 0, "values": [0.5] * 4})
    live = describe_live_run(running, reading)
    assert (live.planned_steps, live.seconds_left, live.share) == (None, None, None)
    assert live.steps_text == "4"


@pytest.mark.django_db
def test_a_running_run_shows_the_last_minutes_of_its_node(running: Run, as_owner: Client) -> None:
    lines = "".join(f"{time} {time} {4 * time} 1000 2000 0 0 1\n" for time in range(100, 400, 5))
    document = describe_so_far({"samples/node.txt": lines.encode()}, 200.0)
    report(running, output="x\n", samples=document)
    page = as_owner.get(running.get_absolute_url(), headers=HTMX).content.decode()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "40 samples of the node in the last 3 min 15 s" in text
    assert "CPU use mean 25 %, 25 % to 25 %." in text
    assert "As a table" not in text, "it would be folded again every three seconds"
