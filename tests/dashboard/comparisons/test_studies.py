"""Studies together: what differs, one forest plot, and a summary where it is honest."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from dashboard.comparisons import studies as studies_module
from dashboard.comparisons.environment_labels import label_name
from dashboard.comparisons.study_facts import find_differences
from experiments.comparisons import keep_comparison, kept
from experiments.models import Experiment, KeptComparison, PublishedTable
from tests.dashboard.conftest import People, Site, fetch, measured
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    EventFactory,
    ExperimentFactory,
    LaunchedFactory,
    MeasurementFactory,
    PartitionFactory,
    PublishedTableFactory,
    block,
)

pytestmark = pytest.mark.django_db


def make_study(
    people: People, site: Site, cost: float, *, name: str = "Apptainer", **columns: Any
) -> Experiment:
    """Return an experiment on a cluster of its own, whose container costs so much."""
    cluster = ClusterFactory(owner=people.admin)
    bare = EnvironmentFactory(name="bare metal", cluster=cluster)
    container = ContainerFactory(name=name, cluster=cluster)
    experiment: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=cluster,
        partition=PartitionFactory(cluster=cluster),
        baseline=bare,
        workloads=[site.workload],
        environments=[bare, container],
        **columns,
    )
    for scale in experiment.scales:
        for repeat in range(1, 7):
            noise = (0.001, -0.001, 0.0005, -0.0005, 0.002, -0.002)[repeat - 1]
            values = {bare: 0.02, container: 0.02 * (1 + cost) * (1 + noise)}
            metric = experiment.primary_metric or "step_time"
            block(experiment, repeat, values, scale=scale, metric=metric)
    assert keep_comparison(experiment.pk) == "kept"
    return experiment


@pytest.fixture
def five(people: People, site: Site) -> list[Experiment]:
    costs = (0.001, 0.004, 0.002, 0.006, 0.003)
    return [
        make_study(people, site, cost, question=f"What on machine {number}?")
        for number, cost in enumerate(costs, start=1)
    ]


def query_of(rows: Sequence[Experiment], more: str = "") -> str:
    return "?" + "&".join(f"e={row.pk}" for row in rows) + more


def show(client: Client, query: str) -> BeautifulSoup:
    answer = client.get(reverse("studies") + query)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def read_text(page: Any) -> str:
    return " ".join(page.get_text(" ").replace("\N{NO-BREAK SPACE}", " ").split())


def read_table(page: Any, caption: str) -> list[list[str]]:
    for table in page.select("table"):
        if table.caption and caption in table.caption.text:
            return [
                [read_text(cell) for cell in row.select("th, td")]
                for row in table.select("tbody tr")
            ]
    return []


def test_five_studies_have_a_row_each_and_a_summary(
    five: list[Experiment], as_owner: Client
) -> None:
    page = show(as_owner, query_of(five))
    rows = read_table(page, "relative to")
    assert [row[0].split(" · ")[1] for row in rows[:5]] == [row.question for row in five]
    assert all(row[-2] == "Equivalent" for row in rows[:5])
    assert rows[5][0] == "Pooled over all 5 experiments"
    summary = read_text(page.select_one("#summary"))
    assert "Over 5 experiments Apptainer has a mean ratio of 1.003 [" in summary
    assert "One more such experiment would lie between" in summary


def export(client: Client, name: str, row: Experiment) -> str:
    return fetch(client, reverse(name, args=[row.pk])).decode()


def add_exported(
    people: People, text: str, baseline: str = "native", **columns: Any
) -> PublishedTable:
    made: PublishedTable = PublishedTableFactory(
        owner=people.owner, text=text, baseline=baseline, **columns
    )
    return made


@pytest.mark.parametrize(
    "name", ["runs_csv", "measurements_csv", "comparison_csv", "comparison_tex"]
)
def test_an_experiment_and_its_own_exported_table_count_as_one_study(
    five: list[Experiment], people: People, as_owner: Client, name: str
) -> None:
    """Whatever of the file is left in the table: a run's uid or the plan's hash tells it."""
    Experiment.objects.filter(pk=five[0].pk).update(plan_hash="0123456789ab" + "c" * 52)
    assert keep_comparison(five[0].pk) == "kept"
    text = export(as_owner, name, five[0])
    names_runs = name in ("runs_csv", "measurements_csv")
    mark = five[0].runs.all()[0].uid if names_runs else "0123456789ab"
    assert mark in text
    table = add_exported(people, TABLE, source=f"from {mark}")
    query = query_of(five, f"&t={table.pk}")
    page = show(as_owner, query)
    assert "experiments 1 and 6 are of the same data" in read_text(page.select_one("#summary"))
    assert "It has data of experiment 1." in read_text(page)
    others = query_of(five[1:], f"&t={table.pk}")
    assert "are of the same data" not in read_text(show(as_owner, others))


def test_two_tables_of_the_same_runs_are_of_the_same_data(
    five: list[Experiment], people: People, as_owner: Client
) -> None:
    """Of an experiment that is not among the studies, and that nobody here may see."""
    uid = five[0].runs.all()[0].uid
    tables = [
        add_exported(people, text, source=f"{name} {uid}")
        for name, text in (("one", TABLE), ("another", TABLE.replace("native,", "native ,")))
    ]
    page = show(as_owner, "?" + "&".join(f"t={table.pk}" for table in tables))
    assert "experiments 1 and 2 are of the same data" in read_text(page.select_one("#summary"))
    plain = add_exported(people, TABLE.replace("native,", "native  ,"))
    page = show(as_owner, f"?t={tables[0].pk}&t={plain.pk}")
    assert "are of the same data" not in read_text(page.select_one("#summary"))


def test_the_form_says_that_a_table_is_an_export_to_those_who_may_see_the_experiment(
    five: list[Experiment], people: People, as_owner: Client
) -> None:
    Experiment.objects.filter(pk=five[0].pk).update(visibility="private")
    text = export(as_owner, "runs_csv", five[0])
    as_owner_says = as_owner.post(reverse("table_new"), {"text": text, "action": "preview"})
    assert "This was exported of the experiment" in as_owner_says.content.decode()
    assert five[0].question in as_owner_says.content.decode()
    other = people.client("other")
    as_other_says = other.post(reverse("table_new"), {"text": text, "action": "preview"})
    assert "This was exported of the experiment" not in as_other_says.content.decode()


def test_recognising_tables_takes_one_statement_at_most(
    five: list[Experiment], people: People, as_owner: Client
) -> None:
    plain = add_exported(people, TABLE)
    query = query_of(five, f"&t={plain.pk}")
    show(as_owner, query)
    with CaptureQueriesContext(connection) as without:
        show(as_owner, query)
    uids = " ".join(run.uid for row in five for run in row.runs.all())
    PublishedTable.objects.filter(pk=plain.pk).update(source=uids[:500])
    with CaptureQueriesContext(connection) as captured:
        show(as_owner, query)
    assert len(captured) == len(without) + 1


def test_what_differs_is_shown_with_the_studies_that_have_it(
    people: People, site: Site, as_owner: Client
) -> None:
    studies = [make_study(people, site, 0.001, margin=margin) for margin in (0.02, 0.05, 0.02)]
    page = show(as_owner, query_of(studies))
    facts = {row[0]: row[1] for row in read_table(page, "What differs")}
    assert facts["Margin"] == "2 % experiments 1 and 3 5 % experiment 2"
    assert "Repeats" not in facts
    assert "Scales" not in facts
    assert facts["Cluster"].count("experiment ") == 3


def test_each_study_keeps_its_own_margin(people: People, site: Site, as_owner: Client) -> None:
    studies = [make_study(people, site, 0.03, margin=margin) for margin in (0.02, 0.05)]
    verdicts = [row[-2] for row in read_table(show(as_owner, query_of(studies)), "relative to")]
    assert verdicts == ["Slower", "Equivalent"]
    svg = fetch(as_owner, reverse("studies_forest_svg") + query_of(studies)).decode()
    assert "Margin of each experiment" in svg
    assert "margin 5 %" in svg.replace("\N{NO-BREAK SPACE}", " ")


def test_margins_of_memory_name_no_speed(people: People, site: Site, as_owner: Client) -> None:
    margins: dict[str, Any] = {"margin_faster": 0.1, "primary_metric": "peak_host_memory"}
    studies = [make_study(people, site, 0.03, margin=m, **margins) for m in (0.02, 0.05)]
    query = query_of(studies)
    page = show(as_owner, query)
    cells = [cell for row in read_table(page, "relative to") for cell in row]
    headings = [cell for cell in cells if "margin" in cell]
    assert [each.partition("margin ")[2] for each in headings] == [
        "10 % less to 2 % more", "10 % less to 5 % more",
    ]  # fmt: skip
    assert "faster to" not in read_text(page)
    facts = {row[0]: row[1] for row in read_table(page, "What differs")}
    assert (
        facts["Margin"] == "10 % less to 2 % more experiment 1 10 % less to 5 % more experiment 2"
    )
    for name in ("studies_json", "studies_tex"):
        text = fetch(as_owner, reverse(name) + query).decode().replace(" ", " ")
        assert "10 % less to 5" in text.replace("\\%", "%").replace("\\,", " "), name
        assert "faster to" not in text, name


def test_environments_are_matched_by_the_kind_of_their_runtime(
    people: People, site: Site, as_owner: Client
) -> None:
    studies = [
        make_study(people, site, 0.001, name=name)
        for name in ("Apptainer", "my image", "Apptainer")
    ]
    table = PublishedTableFactory(owner=people.owner, text=TABLE, baseline="native")
    page = show(as_owner, f"{query_of(studies)}&t={table.pk}")
    proposed = [
        select.select_one("option").text for select in page.select('select[name^="environment-"]')
    ]
    assert proposed == [
        "Apptainer (proposed)",
        "my image (proposed)",
        "Apptainer (proposed)",
        "apptainer 1.3 (proposed)",
    ]
    assert "Apptainer (4 of 4)" in read_text(page.select_one("#label"))


TABLE = """environment,mean_s,standard_error_s,runs
native,100,0.1,8
apptainer 1.3,100.2,0.1,8
docker,104,0.1,8
"""


def test_the_reader_chooses_another_environment(
    people: People, site: Site, as_owner: Client
) -> None:
    table = PublishedTableFactory(owner=people.owner, text=TABLE, baseline="native")
    first = show(as_owner, f"?t={table.pk}&of=Docker")
    assert read_table(first, "relative to")[0][2].startswith("1.04")
    own = show(as_owner, f"?t={table.pk}&of=Docker&environment-t{table.pk}=apptainer+1.3")
    assert read_table(own, "relative to")[0][2].startswith("1.002")
    assert own.select_one(f'select[name="environment-t{table.pk}"] [selected]')


def test_a_table_that_says_only_mean_is_taken_for_the_time_of_the_others(
    five: list[Experiment], people: People, as_owner: Client
) -> None:
    table = PublishedTableFactory(owner=people.owner, text=TABLE, baseline="native")
    page = show(as_owner, f"{query_of(five)}&t={table.pk}")
    assert "Over 6 experiments" in read_text(page.select_one("#summary"))
    assert "“mean” of a published table is taken for time per step" in read_text(page)


def test_a_column_named_like_a_metric_is_that_metric(
    five: list[Experiment], people: People, as_owner: Client
) -> None:
    text = TABLE.replace("mean_s", "step_time_s")
    table = PublishedTableFactory(
        owner=people.owner,
        text=text,
        baseline="native",
        reading={"roles": {"step_time_s": "mean"}},
    )
    page = show(as_owner, f"{query_of(five)}&t={table.pk}")
    assert "Over 6 experiments" in read_text(page.select_one("#summary"))


def test_archived_studies_are_shown_and_not_offered(
    five: list[Experiment], as_owner: Client
) -> None:
    Experiment.objects.filter(pk__in=[row.pk for row in five[:2]]).update(
        archived_at=timezone.now()
    )
    page = show(as_owner, query_of(five[:1]))
    assert five[0].question in read_text(page.select_one("table.studies"))
    offered = {option["value"] for option in page.select("#add-e option")}
    assert str(five[1].pk) not in offered
    assert str(five[2].pk) in offered


def test_metrics_of_other_directions_are_not_summarised(
    five: list[Experiment], people: People, as_owner: Client
) -> None:
    text = TABLE.replace("mean_s,standard_error_s", "mean_images_per_second,standard_error")
    table = PublishedTableFactory(owner=people.owner, text=text, baseline="native")
    page = show(as_owner, f"{query_of(five)}&t={table.pk}")
    assert "no summary: of some lower is better and of others higher" in read_text(page)


def test_one_of_several_configurations_is_chosen(
    people: People, site: Site, as_owner: Client
) -> None:
    study = make_study(people, site, 0.001, scales=["1x1", "1x2"])
    query = query_of([study])
    both = read_table(show(as_owner, query), "relative to")
    assert [row[1] for row in both] == ["blas small, 1x1", "blas small, 1x2"]
    page = show(as_owner, f"{query}&only-e{study.pk}=blas+small,+1x2")
    assert [row[1] for row in read_table(page, "relative to")] == ["blas small, 1x2"]
    gone = show(as_owner, f"{query}&only-e{study.pk}=gone")
    assert "not compared in any of its chosen configurations" in read_text(gone)


def test_the_address_holds_the_whole_choice(five: list[Experiment], as_owner: Client) -> None:
    pk = five[0].pk
    query = query_of(
        five, f"&of=Apptainer&environment-e{pk}=Apptainer&only-e{pk}=blas+small%2C+1x1"
    )
    page = show(as_owner, query)
    exported = page.select_one('a[href*="studies.csv"]')["href"]
    assert exported == reverse("studies_csv") + query.replace("%2C+", "%2C+")
    left_out = page.select_one('a[aria-label="Leave out experiment 1"]')["href"]
    assert f"e{pk}" not in left_out
    assert f"e={pk}&" not in left_out
    assert f"e={five[1].pk}" in left_out


def test_studies_without_a_verdict_are_listed_with_the_reason(
    five: list[Experiment], people: People, site: Site, as_owner: Client
) -> None:
    draft = ExperimentFactory(owner=people.owner)
    nothing = LaunchedFactory(owner=people.owner)
    unkept = measured(site, people.owner)
    page = show(as_owner, query_of([*five, draft, nothing, unkept]))
    table = {row[0]: row[5] for row in read_table(page, "what is shown of each")}
    assert table["6"] == "It is a draft: nothing of it has run yet."
    assert table["7"] == "No run of it has succeeded yet."
    assert table["8"].startswith("Its comparison is being computed by a worker")
    assert "Over 5 experiments" in read_text(page.select_one("#summary"))


def test_what_may_not_be_seen_is_as_what_does_not_exist(
    five: list[Experiment], people: People, as_owner: Client
) -> None:
    Experiment.objects.filter(pk=five[0].pk).update(visibility="private", question="A secret?")
    other = people.client("other")
    Experiment.objects.filter(pk__in=[row.pk for row in five[1:]]).update(visibility="members")
    hidden = show(other, query_of(five))
    unknown = show(other, query_of(five[1:], "&e=999999"))
    note = "1 chosen experiment is not shown: there is none of that number that you may see."
    assert note in read_text(hidden)
    assert read_text(hidden) == read_text(unknown)
    for name in ("studies_csv", "studies_json", "studies_tex"):
        assert b"secret" not in fetch(other, reverse(name) + query_of(five))
    table = PublishedTableFactory(owner=people.owner, visibility="private")
    assert note in read_text(show(other, f"?t={table.pk}"))


def test_odd_addresses_have_their_sentences(five: list[Experiment], as_owner: Client) -> None:
    twice = read_text(show(as_owner, query_of([*five, five[2]])))
    assert "Chosen twice, and shown once: experiment 3." in twice
    many = read_text(show(as_owner, query_of(five) + "".join(f"&e={10**6 + n}" for n in range(60))))
    assert "shows 50 experiments at most: 15 more were chosen." in many
    odd = read_text(show(as_owner, "?e=x&e=&t=-1&of=nothing&e=" + "9" * 40))
    assert "3 chosen ones are not shown" in odd
    assert "No experiment chosen yet" in read_text(show(as_owner, ""))


def test_a_table_that_cannot_be_read_says_why(people: People, as_owner: Client) -> None:
    table = PublishedTableFactory(owner=people.owner)
    PublishedTable.objects.filter(pk=table.pk).update(text="environment\nbare\n")
    rows = read_table(show(as_owner, f"?t={table.pk}"), "what is shown of each")
    assert len(rows[0][5]) > 20


def test_an_older_kept_comparison_says_that_newer_runs_are_left_out(
    five: list[Experiment], as_owner: Client
) -> None:
    EventFactory(experiment=five[0])
    table = read_table(show(as_owner, query_of(five)), "what is shown of each")
    assert "newer runs are left out until it is computed" in table[0][5]
    assert "EQUIVALENT" in table[0][5]
    assert "newer runs" not in table[1][5]


def test_nothing_is_computed_for_the_page(
    five: list[Experiment], as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(experiment: Experiment) -> Any:
        raise AssertionError("This page computes nothing.")

    EventFactory(experiment=five[0])
    KeptComparison.objects.filter(pk=five[1].pk).delete()
    monkeypatch.setattr(kept, "compare_experiment", refuse)
    table = read_table(show(as_owner, query_of(five)), "what is shown of each")
    assert "being computed by a worker" in table[1][5]


def test_the_same_logs_are_one_study_whoever_imported_them(
    five: list[Experiment], as_owner: Client, people: People
) -> None:
    for row, owner in zip(five[:2], (people.owner, people.other), strict=True):
        Experiment.objects.filter(pk=row.pk).update(
            launched_at=None,
            plan_hash="",
            order_seed=None,
            owner=owner,
            imported_at=timezone.now(),
            design="independent",
            import_hash="a" * 64,
        )
        Experiment.objects.filter(pk=row.pk).update(visibility="members")
        keep_comparison(row.pk)
    text = read_text(show(as_owner, query_of(five)).select_one("#summary"))
    assert "There is no summary: experiments 1 and 2 are of the same data." in text


def test_tables_with_much_text_are_not_read_for_one_page(
    people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies_module, "MOST_BYTES", len(TABLE) + 10)
    tables = [
        PublishedTableFactory(owner=people.owner, text=TABLE, baseline="native") for _ in range(2)
    ]
    query = f"?t={tables[0].pk}&t={tables[1].pk}"
    rows = read_table(show(as_owner, query), "what is shown of each")
    assert "EQUIVALENT" in rows[0][5]
    assert "too much text" in rows[1][5]


def test_of_several_decisive_metrics_the_main_one_is_shown_and_all_are_named(
    results: Experiment, five: list[Experiment], as_owner: Client
) -> None:
    for run in results.runs.all():
        MeasurementFactory(run=run, metric="gflops", value=1 + run.repeat / 1000, unit="Gflop/s")
        if run.environment_id != results.baseline_id:
            run.measurements.filter(metric="gflops").update(value=0.5)
    further = [{"metric": "gflops", "margin": 0.05}]
    Experiment.objects.filter(pk=results.pk).update(further_metrics=further, margin=0.2)
    keep_comparison(results.pk)
    page = show(as_owner, query_of([*five, results]))
    shown = read_table(page, "what is shown of each")[5][5]
    assert "all decisive metrics together: NOT SHOWN" in shown
    assert "EQUIVALENT" in shown
    assert "the main one is shown of experiment 6" in read_text(page.select_one("#summary"))
    last = fetch(as_owner, reverse("studies_csv") + query_of([*five, results])).decode()
    lines = list(csv.DictReader(last.splitlines()))
    assert [line["overall_verdict"] for line in lines if line["study"] == "6"] == ["NOT SHOWN"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("native", "bare metal"),
        ("Apptainer 1.3 (SIF)", "Apptainer"),
        ("udocker-P1", "udocker"),
        ("Docker CE", "Docker"),
        ("Kata", "Kata"),
    ],
)
def test_names_of_tables_speak_of_runtimes(name: str, label: str) -> None:
    assert label_name(name) == label


def test_a_fact_that_nobody_could_know_is_no_difference() -> None:
    facts = find_differences(
        {
            1: {"": {"Margin": "2 %"}, "Container": {"Python": "3.11"}},
            2: {"": {"Margin": "2 %"}, "Container": {"Python": "3.12", "numpy": "2.4"}},
            3: {"": {"Margin": "2 %"}},
        }
    )
    assert [(fact.name, fact.values) for fact in facts.differing] == [
        ("Container: Python", [("3.11", [1]), ("3.12", [2])]),
        ("Container: numpy", [("–", [1]), ("2.4", [2])]),
    ]
    assert facts.same == 1


def test_files_have_what_the_page_shows(five: list[Experiment], as_owner: Client) -> None:
    query = query_of(five)
    lines = list(
        csv.DictReader(fetch(as_owner, reverse("studies_csv") + query).decode().splitlines())
    )
    assert [line["study"] for line in lines] == ["1", "2", "3", "4", "5", "summary"]
    assert float(lines[5]["summary_ratio"]) == pytest.approx(1.0032, abs=1e-4)
    content = json.loads(fetch(as_owner, reverse("studies_json") + query))
    assert content["address"].endswith(reverse("studies") + query)
    assert [row["question"] for row in content["studies"]] == [row.question for row in five]
    assert content["summary"]["summary_ratio"] == float(lines[5]["summary_ratio"])
    assert {fact["fact"] for fact in content["differences"]} >= {"Cluster"}
    assert len(content["comparison"]) == 5
    latex = fetch(as_owner, reverse("studies_tex") + query).decode()
    assert latex.count("EQUIVALENT") == 5
    assert "Over 5 experiments" in latex


def test_an_empty_choice_has_files_and_no_figure(as_owner: Client) -> None:
    assert fetch(as_owner, reverse("studies_csv"))
    assert json.loads(fetch(as_owner, reverse("studies_json")))["studies"] == []
    fetch(as_owner, reverse("studies_forest_svg"), status=404)


def count(client: Client, address: str) -> int:
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
    return len(captured)


def test_twenty_studies_take_at_most_15_statements(
    five: list[Experiment], people: People, site: Site, as_owner: Client
) -> None:
    few = count(as_owner, reverse("studies") + query_of(five[:2]))
    more = [make_study(people, site, 0.002) for _ in range(15)]
    many = count(as_owner, reverse("studies") + query_of([*five, *more]))
    assert many == few
    assert many <= 15


def test_the_list_of_comparisons_leads_there(five: list[Experiment], as_owner: Client) -> None:
    picked = "&".join(f"pick={row.pk}" for row in five)
    page = BeautifulSoup(as_owner.get(f"{reverse('compare')}?{picked}").content, "html.parser")
    link = next(link for link in page.select("a") if link.text == "See them together")
    assert link["href"] == reverse("studies") + query_of(five)


def test_studies_on_sets_of_nodes_with_one_in_common_share_it(people: People, site: Site) -> None:
    rows = [
        make_study(people, site, cost, question=f"On set {number}?", scales=["2x1 srun"])
        for number, cost in enumerate((0.001, 0.004), start=1)
    ]
    Experiment.objects.update(cluster=rows[0].cluster)
    for row, nodes in zip(rows, (["gn1", "gn2"], ["gn2", "gn3"]), strict=True):
        row.jobs.update(nodes=nodes)
        row.runs.update(node=nodes[0])
    KeptComparison.objects.all().delete()
    for row in rows:
        assert keep_comparison(row.pk) == "kept"
    text = read_text(show(people.client("owner"), query_of(rows)))
    assert f"Experiments 1 and 2 share gn2 of {rows[0].cluster}: they are less independent" in text
