"""A figure that is kept is sent without reading anything; what has to be read takes a turn."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.comparisons import figure_views, printed_figures
from dashboard.drawings import drawing_process
from dashboard.drawings.drawing_process import TookTooLong
from dashboard.drawings.turns import Turns
from experiments.comparisons import keep_comparison, kept
from experiments.models import Experiment, KeptComparison, Run
from tests.dashboard.access.test_links import link_to, visitor
from tests.factories import EventFactory, SeriesFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def programs(settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the program is told; it writes a number instead of a figure."""
    memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": str(tmp_path)}
    settings.CACHES = {**settings.CACHES, "figures": memory}
    orders: list[str] = []

    def run(order: str) -> bytes:
        orders.append(order)
        return f"figure {len(orders)}".encode()

    monkeypatch.setattr(drawing_process, "_run_program", run)
    return orders


@pytest.fixture
def nothing_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing_process, "turns", Turns(at_once=0, for_visitors=0, waiting=0))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is read: a comparison, or the series of its runs."""
    seen: list[str] = []
    for module, name in ((figure_views, "read_latest"), (printed_figures, "read_series")):
        known = getattr(module, name)

        def read(*args: Any, name: str = name, known: Any = known) -> Any:
            seen.append(name)
            return known(*args)

        monkeypatch.setattr(module, name, read)
    return seen


def address_of(experiment: Experiment, name: str = "steps") -> str:
    return reverse("figure_svg", args=[experiment.pk, name])


@pytest.fixture
def with_steps(results: Experiment) -> Experiment:
    for run in results.runs.all():
        SeriesFactory(run=run)
    assert keep_comparison(results.pk) == "kept"
    return results


def test_nothing_is_read_before_there_is_a_turn(
    with_steps: Experiment, as_owner: Client, reads: list[str], nothing_is_free: None
) -> None:
    for name in ("steps", "forest", "runs"):
        answer = as_owner.get(address_of(with_steps, name))
        assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert reads == []


@pytest.mark.parametrize("name", ["steps", "forest", "runs"])
def test_a_kept_figure_is_sent_without_a_turn_and_without_reading(
    name: str,
    with_steps: Experiment,
    as_owner: Client,
    reads: list[str],
    request: pytest.FixtureRequest,
) -> None:
    first = as_owner.get(address_of(with_steps, name))
    assert (first.status_code, "read_latest" in reads) == (200, True)
    reads.clear()
    request.getfixturevalue("nothing_is_free")
    second = as_owner.get(address_of(with_steps, name))
    assert (second.content, second.headers) == (first.content, first.headers)
    assert reads == []
    EventFactory(experiment=with_steps, what="anything")
    assert as_owner.get(address_of(with_steps, name)).status_code == 503


@pytest.mark.parametrize(
    "query", ["?width=88", "?theme=dark", "?configuration=1&scaling=weak", "?page=1&x=1"]
)
def test_other_choices_are_other_requests(
    query: str, with_steps: Experiment, as_owner: Client, programs: list[str]
) -> None:
    for _ in range(2):
        assert as_owner.get(address_of(with_steps, "runs") + query).status_code == 200
    assert as_owner.get(address_of(with_steps, "bars") + query).status_code == 200
    assert len(programs) == 2


def test_a_visitor_from_whom_names_are_hidden_gets_no_one_else_s_figure(
    with_steps: Experiment, as_owner: Client, programs: list[str]
) -> None:
    container = with_steps.environments.get(name="Apptainer")
    container.name = "Apptainer of owner"
    container.save(update_fields=["name"])
    assert as_owner.get(address_of(with_steps, "runs")).content == b"figure 1"
    client = visitor(link_to(with_steps, hides_names=True))
    assert client.get(address_of(with_steps, "runs")).content == b"figure 2"
    assert client.get(address_of(with_steps, "runs")).content == b"figure 2"
    assert "of owner" in programs[0]
    assert "of owner" not in programs[1]


def test_a_figure_that_took_too_long_is_not_read_again_until_somebody_asks(
    with_steps: Experiment,
    as_owner: Client,
    reads: list[str],
    programs: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = drawing_process._run_program

    def run_too_long(order: str) -> bytes:
        draw(order)
        raise TookTooLong(30)

    monkeypatch.setattr(drawing_process, "_run_program", run_too_long)
    address = address_of(with_steps)
    for _ in range(3):
        answer = as_owner.get(address)
        assert answer.status_code == 503
        assert "Retry-After" not in answer
        assert "took more than 30 s" in answer.content.decode()
        assert "A figure of one configuration takes less time" in answer.content.decode()
    assert len(programs) == 1
    assert reads == ["read_latest", "read_series"]
    monkeypatch.setattr(drawing_process, "_run_program", draw)
    assert as_owner.get(f"{address}?again=1").status_code == 200
    assert as_owner.get(address).status_code == 200
    assert len(programs) == 2


@pytest.fixture
def slow(with_steps: Experiment, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment whose comparison takes long, and is one event behind."""
    KeptComparison.objects.update(seconds=2.0, kept_at="2026-11-26T06:44Z")
    Run.objects.filter(pk=with_steps.runs.latest("pk").pk).update(state=Run.State.RUNNING)
    EventFactory(experiment=with_steps, what="anything")

    def refuse(experiment: Experiment) -> Any:
        raise AssertionError("No figure computes this.")

    monkeypatch.setattr(kept, "compare_experiment", refuse)
    monkeypatch.setattr(kept, "enqueue_keep", lambda pk: None)
    return with_steps


def test_a_figure_is_of_the_comparison_that_the_page_shows(
    slow: Experiment, as_owner: Client
) -> None:
    answer = as_owner.get(address_of(slow, "runs"))
    assert answer.status_code == 200
    assert "-runs-180mm-of-20261126T0644Z.svg" in answer["Content-Disposition"]


def test_while_a_worker_computes_the_figure_waits(slow: Experiment, as_owner: Client) -> None:
    KeptComparison.objects.update(frame="of another plan")
    answer = as_owner.get(address_of(slow, "runs"))
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert "Its numbers are being computed" in answer.content.decode()
