"""Measures of every run on pages, in lists and in files."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.planning.metric_choices import list_metric_choices
from experiments.models import Experiment, Measurement, MeasureNotes, Run
from tests.dashboard.conftest import People, Site, measured, read_report

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(site: Site, people: People) -> Experiment:
    return measured(site, people.owner, blocks=2)


@pytest.fixture
def run(made: Experiment) -> Run:
    first = made.runs.order_by("pk").first()
    assert first
    Measurement.objects.create(
        run=first, metric="gpu_energy", value=6543.0, unit="J", source="integrated samples"
    )
    MeasureNotes.objects.create(
        run=first,
        details={"gpu_energy": "12 samples 5 s apart"},
        missing={"host_energy": "nobody may read <RAPL>"},
    )
    return first


def read(client: Client, address: str) -> str:
    page = client.get(address).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_page_of_a_run_names_sources_limits_and_reasons(run: Run, as_owner: Client) -> None:
    text = read(as_owner, run.get_absolute_url())
    assert re.search(
        r"gpu_energy Energy of all GPUs of the run, idle power included "
        r"integrated samples, 12 samples 5 s apart 6\.543 kJ",
        text,
    )
    assert re.search(
        r"host_energy Energy of the node.+?, whoever used them nobody may read &lt;RAPL&gt; "
        r"not measured",
        text,
    )


def test_a_run_from_before_these_measures_reads_as_before(
    made: Experiment, as_owner: Client
) -> None:
    last = made.runs.order_by("pk").last()
    assert last
    text = read(as_owner, last.get_absolute_url())
    assert "step_time" in text
    assert "not measured" not in text


def test_lists_have_a_column_for_each(run: Run, as_owner: Client) -> None:
    text = read(
        as_owner, f"{reverse('runs')}?column=metric.gpu_energy&where=metric.gpu_energy>6+kJ"
    )
    assert f"GPU energy kJ {run.uid[:8]} 6.543 1–1 of 1" in text


def test_files_name_sources_and_reasons(run: Run, as_owner: Client) -> None:
    content = as_owner.get(reverse("runs_csv", args=[run.experiment_id])).getvalue().decode()
    rows = {row["run"]: row for row in csv.DictReader(io.StringIO(content))}
    row = rows.pop(run.uid)
    assert row["gpu_energy (J)"] == "6543.0"
    assert row["sources"] == "gpu_energy: integrated samples"
    assert row["not_measured"] == "host_energy: nobody may read <RAPL>"
    assert {other["sources"] for other in rows.values()} == {""}


def test_the_form_offers_them_in_a_group_of_their_own() -> None:
    heading, choices = list_metric_choices()[-1]
    assert heading == "Of every run"
    assert [name for name, _ in choices] == [
        *("run_time", "queue_time", "peak_host_memory"),
        *("peak_gpu_memory", "gpu_energy", "host_energy"),
    ]


def test_a_comparison_of_energy_names_its_source_and_more_or_less(
    made: Experiment, as_owner: Client
) -> None:
    Experiment.objects.filter(pk=made.pk).update(primary_metric="gpu_energy")
    for number, run in enumerate(made.runs.select_related("environment").order_by("pk")):
        more = 1.2 if run.environment_id != made.baseline_id else 1.0
        Measurement.objects.create(
            run=run,
            metric="gpu_energy",
            value=more * (5000 + number),
            unit="J",
            source="integrated samples",
        )
    text = read_report(as_owner, made)
    assert "idle power included (gpu_energy; integrated samples) of" in text
    assert "% more than bare metal" in text
    assert "  less      " in text  # on the axis of ratios
    assert "      more  " in text
    assert "speed-up" not in text.lower()


def test_two_runs_that_were_measured_in_two_ways_have_no_difference(
    made: Experiment, run: Run, as_owner: Client
) -> None:
    other = made.runs.order_by("pk").last()
    assert other
    row = Measurement.objects.create(
        run=other, metric="gpu_energy", value=6000.0, unit="J", source="energy counter"
    )
    address = reverse("two_runs", args=[run.uid, other.uid])
    assert "6.543 kJ 6.000 kJ measured in two ways" in read(as_owner, address)
    row.source = "integrated samples"
    row.save()
    assert "6.543 kJ 6.000 kJ −8.3 %" in read(as_owner, address)


def test_of_thousands_of_metrics_and_parameters_the_first_are_listed(
    run: Run, as_owner: Client
) -> None:
    odd = ("'", '"', "%s", "<b>", "\u2028", "NaN", "x" * 100)
    Measurement.objects.bulk_create(
        Measurement(run=run, metric=name, value=float("nan"), unit="%s")
        for name in (*odd, *(f"m{number}" for number in range(5000)))
    )
    parameters = {**dict.fromkeys(odd, "<i>"), "": "", **{f"p{n}": n for n in range(5000)}}
    parameters |= {f"unset{n}": None for n in range(300)}
    Run.objects.filter(pk=run.pk).update(spec={"workload": {"parameters": parameters}})
    page = as_owner.get(f"/runs/{run.uid}/").content.decode()
    assert len(page) < 150_000
    assert "<i>" not in page
    text = read(as_owner, f"/runs/{run.uid}/")
    assert "The first 200 of 5,0" in text
    assert "and 4,80" in text
    assert re.search(r"unset\d+ and 10\d more", text)
