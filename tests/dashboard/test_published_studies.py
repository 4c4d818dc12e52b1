"""Each line of `docs/published-studies.md` has what repeats it, and that ends in its page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pytest
from bs4 import BeautifulSoup
from django.conf import settings
from django.test import Client
from django.urls import reverse

from dashboard.comparisons.panels import PANELS
from experiments.comparisons.step_summaries import add_step_summary
from experiments.models import Environment, Experiment, PublishedTable, Snapshot
from experiments.presets import COMMANDS, FULL, LAPTOP, PRESETS
from experiments.presets.known_tables import KNOWN_TABLES
from runners.workloads import WORKLOADS
from tests.dashboard.conftest import Site
from tests.dashboard.published_tables import said_on
from tests.factories import NOON, JobFactory, MeasurementFactory, RunFactory, SeriesFactory

pytestmark = pytest.mark.django_db
DOCUMENT = settings.BASE_DIR / "docs" / "published-studies.md"
REPEATS = 2
LINE = re.compile(
    r"\| (?P<place>[^|]+) \| [^|]+ \| (?P<kind>preset|table|program|document) `(?P<key>[^`]+)`"
    r"(?: by `(?P<metric>\w+)`)? \| (?:\*\*(?P<section>[^|*]+)\*\* )?\|"
)


@dataclass(frozen=True)
class Line:
    """A line of the document: what stands for a table or figure, and the section it ends in."""

    place: str
    kind: str
    key: str
    metric: str
    section: str


@cache
def read_lines() -> list[Line]:
    text = DOCUMENT.read_text()
    rows = text.partition("## Tables and figures")[2].partition("\n## ")[0].splitlines()
    rows = [row for row in rows if row.startswith("|")][2:]
    lines = []
    for row in rows:
        match = LINE.fullmatch(row)
        assert match, f"no line of the table: {row}"
        lines.append(Line(**{name: text or "" for name, text in match.groupdict().items()}))
    return lines


def list_lines(kind: str) -> list[Line]:
    return [line for line in read_lines() if line.kind == kind]


def name_line(line: Line) -> str:
    return f"{line.key}-{line.section}".replace(" ", "-")


def test_all_presets_of_papers_and_all_known_tables_are_in_the_list() -> None:
    assert {line.key for line in list_lines("preset")} == set(PRESETS)
    assert {line.key for line in list_lines("table")} == set(KNOWN_TABLES)


def draft(client: Client, site: Site, line: Line) -> Experiment:
    """Make the preset's draft by its form, with the metric that the line names."""
    sizes = PRESETS[line.key].sizes
    is_scaling = "scaling" in line.section and len(sizes[LAPTOP].scales) == 1
    size = FULL if is_scaling else LAPTOP
    sent = {
        "cluster": site.cluster.pk,
        "size": size,
        "environments": [site.bare.pk, site.container.pk],
        "baseline": site.bare.pk,
        "folder": "/data" if sizes[size].needs_data else "",
    }
    answer = client.post(reverse("preset", args=[line.key]), sent, follow=True)
    made = Experiment.objects.get()
    if line.metric:
        choice = answer.context["form"]["primary_metric"].field
        assert choice.valid_value(line.metric), f"the form does not offer {line.metric}"
        Experiment.objects.filter(pk=made.pk).update(primary_metric=line.metric)
    return made


def pretend_to_run(made: Experiment) -> None:
    """Give a draft runs that report all that their workloads declare, as if it was launched."""
    Experiment.objects.filter(pk=made.pk).update(
        launched_at=NOON, order_seed=1, plan_hash="0" * 64, repeats=REPEATS
    )
    environments = list(made.environments.order_by("pk"))
    block = 0
    for workload in made.workloads.all():
        for scale in made.scales:
            for repeat in range(1, REPEATS + 1):
                block += 1
                job = JobFactory(
                    experiment=made, workload=workload, scale=scale, repeat=repeat, block=block
                )
                for place, environment in enumerate(environments):
                    run = RunFactory(
                        job=job,
                        environment=environment,
                        snapshot=keep_snapshot(environment),
                        phases={"container start": 0.1, "import": 0.5, "steady state": 9.0},
                    )
                    kind = WORKLOADS[workload.kind]
                    for metric in kind.list_all_metrics(workload.parameters):
                        value = 1 + 0.01 * (3 * block + 5 * place) % 0.07
                        MeasurementFactory(
                            run=run, metric=metric.name, unit=metric.unit, value=value
                        )
                    loss = SeriesFactory.build(
                        run=run, metric="loss", unit="1", values=[2.3, 1.0, 0.5 + place]
                    )
                    add_step_summary(loss).save()


def keep_snapshot(environment: Environment) -> Snapshot:
    facts = {"cpu": "Xeon E5-2630 v3", "python": {"version": f"3.1{environment.pk % 3}"}}
    return Snapshot.objects.keep({"inside": facts, "outside": {}})


@pytest.mark.parametrize("line", list_lines("preset"), ids=name_line)
def test_a_preset_ends_in_the_section_that_the_list_names(
    line: Line, as_owner: Client, site: Site
) -> None:
    made = draft(as_owner, site, line)
    pretend_to_run(made)
    assert_section(as_owner, reverse("comparison", args=[made.pk]), line)


def assert_section(client: Client, address: str, line: Line, **query: str) -> None:
    """Expect that the section of the line is there, and opens under its heading."""
    sections = {panel.heading: panel.name for panel in PANELS}
    answer = client.get(address, {"section": sections.get(line.section, "scaling"), **query})
    page = BeautifulSoup(answer.content, "html.parser")
    headings = [heading.get_text(" ", strip=True) for heading in page.select("h2, h3, summary")]
    assert any(line.section in heading for heading in headings), headings


@pytest.mark.parametrize("line", list_lines("table"), ids=name_line)
def test_a_known_table_is_filled_in_kept_and_ends_in_its_section(
    line: Line, as_owner: Client
) -> None:
    known = KNOWN_TABLES[line.key]
    address = f"{reverse('table_new')}?known={line.key}"
    page = as_owner.get(address)
    form = page.context["form"]
    assert not form.preview.problem
    sent = {name: form[name].value() or "" for name in ("question", "source", "unit", "better")}
    sent |= {"text": form.table_text, "margin": "2", "visibility": "members", "action": "save"}
    answer = as_owner.post(reverse("table_new"), sent | said_on(page))
    assert answer.status_code == 302, answer.context["form"].errors
    row = PublishedTable.objects.get()
    assert row.baseline == known.baseline
    assert known.paper.title in row.source
    query = {"scaling": known.scaling} if known.scaling else {}
    assert_section(as_owner, row.get_absolute_url(), line, **query)


def test_the_printed_figures_are_found_again(as_owner: Client) -> None:
    """Speed-ups as the slides print them: 12.0, 8.25 and 20.65 times one GPU."""
    page = as_owner.get(f"{reverse('table_new')}?known=horovod-rates")
    assert page.context["form"].preview.baseline == "1 node x 1 GPU, TensorFlow 1.10"
    sent = {"text": page.context["form"].table_text, "margin": "2", "visibility": "members"}
    as_owner.post(reverse("table_new"), sent | {"action": "save"} | said_on(page))
    row = PublishedTable.objects.get()
    rows = as_owner.get(reverse("table_json", args=[row.pk])).json()["comparison"]
    ratios = {line["environment"]: line["ratio"] for line in rows}
    assert ratios["12 nodes x 1 GPU, Horovod on 1.10"] == pytest.approx(12.0, abs=0.05)
    assert ratios["2 nodes x 4 GPUs, Horovod on 1.12"] == pytest.approx(8.25, abs=0.005)
    assert ratios["6 nodes x 4 GPUs, Horovod on 1.12"] == pytest.approx(20.65, abs=0.005)


def test_an_unknown_table_is_not_found(as_owner: Client) -> None:
    assert as_owner.get(f"{reverse('table_new')}?known=no-such").status_code == 404


@pytest.mark.parametrize("line", list_lines("program"), ids=name_line)
def test_a_known_program_opens_in_the_form_of_a_workload(line: Line, as_owner: Client) -> None:
    answer = as_owner.get(reverse("workload_new"), {"ready": line.key})
    assert answer.status_code == 200
    assert COMMANDS[line.key].piece.name in answer.content.decode()


@pytest.mark.parametrize("line", list_lines("document"), ids=name_line)
def test_a_document_is_a_page(line: Line, as_owner: Client) -> None:
    assert as_owner.get(reverse("document", args=[line.key])).status_code == 200
