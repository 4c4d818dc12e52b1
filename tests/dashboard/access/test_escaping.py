"""Whatever a person types is shown as typed, and runs nowhere."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.arrow.safe_cells import make_safe_cell
from dashboard.comparisons.safe_files import make_file_name
from experiments.models import Environment, Experiment, Run, Snapshot, Workload
from tests.dashboard.conftest import People, Site, measured
from tests.factories import PublishedTableFactory, SeriesFactory

pytestmark = pytest.mark.django_db

EVIL = "<script>alert('x')</script>\"><img src=x onerror=alert(1)> $(rm -rf) ‮ü\u2028 =1+1"


@pytest.fixture
def evil(site: Site, people: People) -> Experiment:
    """An experiment that carries the same text wherever text can be."""
    Workload.objects.filter(pk=site.workload.pk).update(name=EVIL[:100])
    Environment.objects.filter(pk=site.container.pk).update(name=EVIL[:100])
    experiment = measured(site, people.owner, blocks=2, question=EVIL, visibility="public")
    run = experiment.runs.all()[0]
    SeriesFactory(run=run, metric="step_time")
    Run.objects.filter(experiment=experiment).update(
        node=EVIL,
        command=EVIL,
        output_tail=EVIL,
        snapshot=Snapshot.objects.keep({"inside": {EVIL: EVIL}}),
        spec={"workload": {"parameters": {EVIL: EVIL}}},
    )
    last = experiment.runs.order_by("-pk")[0]
    Run.objects.filter(pk=last.pk).update(state="failed", reason=EVIL[:40], message=EVIL)
    experiment.jobs.update(script=EVIL, message=EVIL, directory=EVIL)
    experiment.cluster.name = EVIL[:100]
    experiment.cluster.last_error = EVIL
    experiment.cluster.save(update_fields=["name", "last_error"])
    return experiment


def addresses(experiment: Experiment) -> list[str]:
    page = experiment.get_absolute_url()
    return [
        "/",
        "/experiments/",
        "/experiments/new/",
        "/runs/",
        "/compare/",
        "/catalogue/?tab=workloads",
        "/catalogue/?tab=environments",
        "/clusters/",
        reverse("cluster", args=[experiment.cluster_id]),
        "/search/?q=%3Cscript%3E",
        *(f"{page}?tab={tab}" for tab in ("runs", "jobs", "plan", "events")),
        reverse("comparison", args=[experiment.pk]),
        reverse("comparison_steps", args=[experiment.pk]),
        *(run.get_absolute_url() for run in experiment.runs.all()),
    ]


def test_nothing_that_was_typed_becomes_markup(evil: Experiment, as_owner: Client) -> None:
    for address in addresses(evil):
        page = as_owner.get(address).content.decode()
        assert "<script>alert" not in page, address
        assert "<img src=x" not in page, address


def test_figures_carry_names_without_ending_their_script(
    evil: Experiment, as_owner: Client
) -> None:
    page = as_owner.get(reverse("comparison", args=[evil.pk])).content.decode()
    figures = re.findall(r'type="application/json">(.*?)</script>', page)
    assert figures
    for text in figures:
        assert "<" not in text
        json.loads(text)


@pytest.mark.parametrize("name", ["comparison_csv", "runs_csv", "comparison_json", "runs_json"])
def test_a_download_has_a_plain_name(name: str, evil: Experiment, as_owner: Client) -> None:
    header = as_owner.get(reverse(name, args=[evil.pk]))["Content-Disposition"]
    assert re.fullmatch(r'attachment; filename="tare-[a-z0-9-]+\.(csv|json)"', header)


def test_a_spreadsheet_runs_no_cell(site: Site, people: People, as_owner: Client) -> None:
    Workload.objects.filter(pk=site.workload.pk).update(name="=cmd|' /C calc'!A0")
    experiment = measured(site, people.owner, blocks=2, question='@SUM(1+1)*cmd, "quoted"\nnext')
    for name in ("comparison_csv", "runs_csv"):
        text = b"".join(
            as_owner.get(reverse(name, args=[experiment.pk])).streaming_content  # type: ignore[attr-defined]
        ).decode()
        rows = list(csv.reader(io.StringIO(text)))
        assert len({len(row) for row in rows}) == 1
        for cell in (cell for row in rows for cell in row):
            assert not cell.startswith(("=", "+", "@"))
            assert not cell.startswith("-") or float(cell) < 0


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *(("=1", "'=1"), ("+x", "'+x"), ("-x", "'-x"), ("@x", "'@x"), ("\t=1", "'\t=1")),
        *(("\r=1", "'\r=1"), (" =1", "' =1"), ("\uff1d1", "'\uff1d1"), ("-1+cmd", "'-1+cmd")),
        *((-1.5, -1.5), ("a=1", "a=1"), ("-1.5e-3", "-1.5e-3"), ("+1", "+1"), ("-", "-")),
    ],
)
def test_only_what_a_spreadsheet_would_run_is_neutralised(value: object, cell: object) -> None:
    assert make_safe_cell(value) == cell


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a,b\n-1.5,=1+1\n", "a,b\n-1.5,'=1+1\n"),
        ("a;b\r\n@x;-0,5\r\n", "a;b\r\n'@x;-0,5\r\n"),
        ("a\tb\n\t\n+x\t-\n", "a\tb\n\t\n'+x\t-\n"),
        ('"=a,1","\t=b"\n', '"\'=a,1","\t\'=b"\n'),
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("no table at all\n", "no table at all\n"),
    ],
)
def test_a_table_is_given_back_without_formulas(given: str, kept: str, people: People) -> None:
    row = PublishedTableFactory(owner=people.owner, text=given)
    answer = people.client("owner").get(reverse("table_text", args=[row.pk]))
    assert answer.content.decode() == kept


@pytest.mark.parametrize(
    "question", ["???", "../../etc/passwd", 'a"; rm -rf /', "Größe?", "x" * 300]
)
def test_file_names_hold_letters_digits_and_dashes(question: str) -> None:
    name = make_file_name(Experiment(pk=7, question=question), "runs", ".csv")
    assert re.fullmatch(r"tare-7-[a-z0-9-]*runs\.csv", name)
    assert len(name) < 80
