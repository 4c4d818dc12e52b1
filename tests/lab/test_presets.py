"""Presets by forms alone, smaller still than for a laptop, each up to the page that it promises.

Every one takes minutes together: CI runs those of `IN_CI`, and `TARE_PRESETS=all` (or some of their
keys) the others. What CI leaves out shares its path with one that it runs.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest
from bs4 import BeautifulSoup
from django.urls import reverse
from django_webtest import DjangoTestApp

from experiments import notify
from experiments.models import Cluster, Experiment, Run
from tests.conftest import tick_until
from tests.lab.by_forms import Person, Workers

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

BARE, CONTAINER = "bare metal", "Apptainer SIF"
IN_CI = ("numpy-on-tuned-blas", "four-containers-on-four-gpus", "multi-gpu-short-runs")


@dataclass(frozen=True)
class Smoke:
    """What a person in a hurry changes in the forms, and what the page must show in the end."""

    ends_in: str
    """A heading of the comparison page."""
    says: tuple[str, ...] = ()
    typed: dict[str, str] = field(default_factory=dict)
    """Fields of every workload."""
    scales: str = ""
    only: int = 9
    """How many of the workloads are kept."""
    repeats: int = 1


QUICK = {"steps": "4", "burn_in": "1"}
SMALL = QUICK | {"network": "small", "image_size": "32"}
"""A ResNet50 for four stand-ins takes a minute to build: the path is the same with three layers."""
SMOKES = {
    "training-time-1-2-4-gpus": Smoke("Strong scaling", ("(x ",)),
    "five-networks-normalised": Smoke("Ratios as bars", typed=QUICK),
    "four-containers-on-four-gpus": Smoke(
        "Steadiness", ("1x4x4",), typed={"steps": "12", "burn_in": "2"}
    ),
    "multi-gpu-short-runs": Smoke("Weak scaling", ("(x ",), typed=SMALL, only=1),
    "long-training": Smoke("Weak scaling", typed={"steps": "40", "evaluate_every": "20"}),
    "several-nodes-without-horovod": Smoke("Weak scaling", ("2x1 srun", "(x "), typed=SMALL),
    "numpy-on-tuned-blas": Smoke(
        "Matrix product relative to", typed={"steps": "6", "burn_in": "1"}, repeats=2, only=2
    ),
    "anatomy-of-the-overhead": Smoke("Phases", typed={"steps": "2"}),
}
asked = os.environ.get("TARE_PRESETS", "")
CHOSEN = list(SMOKES) if asked == "all" else asked.split(",") if asked else list(IN_CI)


@pytest.fixture
def researcher(
    registered: Cluster, django_app: DjangoTestApp, monkeypatch: pytest.MonkeyPatch
) -> Person:
    workers = Workers()
    monkeypatch.setattr(notify, "enqueue", workers.take)
    return Person(django_app, workers, "demo")


def drafted(
    person: Person,
    cluster: Cluster,
    key: str,
    smoke: Smoke,
    names: Collection[str] = (BARE, CONTAINER),
) -> Experiment:
    """Choose the preset, make its workloads smaller, and its draft too; launch it.

    Its environments have these names; the baseline is the first.
    """
    rows = cluster.environments.filter(name__in=names)
    chosen = {row.name: str(row.pk) for row in sorted(rows, key=lambda row: row.pk)}
    page = person.get("preset", key)
    made = person.send(
        page,
        reverse("preset", args=[key]),
        size="laptop",
        environments=list(chosen.values()),
        baseline=next(iter(chosen.values())),
    )
    assert "Not launchable here" not in made.text
    draft = Experiment.objects.get()
    kept = list(draft.workloads.order_by("pk"))[: smoke.only]
    for workload in kept:
        page = person.get("workload_edit", workload.pk)
        names_of_fields = page.forms["parameters"].fields.keys()
        typed = {name: value for name, value in smoke.typed.items() if name in names_of_fields}
        person.send(page, reverse("workload_edit", args=[workload.pk]), **typed)
    page = person.get("experiment_edit", draft.pk)
    scales = {"scales": smoke.scales} if smoke.scales else {}
    person.send(
        page,
        "",
        repeats=str(smoke.repeats),
        workloads=[str(row.pk) for row in kept],
        **scales,
    )
    draft.refresh_from_db()
    assert draft.launched_at, "launched by its form"
    return draft


@pytest.mark.parametrize("key", CHOSEN)
def test_a_preset_is_launched_by_form_and_ends_in_its_page(
    key: str, researcher: Person, registered: Cluster
) -> None:
    smoke = SMOKES[key]
    made = drafted(researcher, registered, key, smoke)
    alive = Run.objects.exclude(state__in=Run.FINAL)
    tick_until(registered, lambda: not alive.exists(), seconds=1200)
    ended = {(run.state, run.reason, run.message) for run in Run.objects.all()}
    assert ended == {("succeeded", "", "")}
    page = BeautifulSoup(researcher.get("comparison", made.pk, section="all").text, "html.parser")
    headings = [one.get_text(" ", strip=True) for one in page.select("h2, summary")]
    assert any(one.startswith(smoke.ends_in) for one in headings), headings
    text = page.get_text(" ", strip=True)
    for words in (CONTAINER, *made.scales, *smoke.says):
        assert words in text, words
    assert "NO INFERENCE" in text or "PROVISIONAL" in text, "one repeat or two decide nothing"
