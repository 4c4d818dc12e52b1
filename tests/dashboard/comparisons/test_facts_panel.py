"""Facts that differ between both sides: what the page, the files and the paragraphs say of them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.comparisons.methods import describe_methods
from experiments.comparisons import compare_experiment, keep_comparison, read_comparison
from experiments.models import Experiment, Run, Snapshot
from experiments.statistics import Stamp, Verdict
from tests.dashboard.conftest import People, Site, measured

pytestmark = pytest.mark.django_db
SAME: dict[str, Any] = {
    "hostname": "node1",
    "gpus": [{"index": "0", "name": "H100", "uuid": "GPU-1", "power.limit": "400.00 W"}],
    "variables": {"PATH": "/usr/bin", "OMP_NUM_THREADS": "4"},
    "packages": {"numpy": "2.4.6"},
    "limits": {"stack": "8388608 bytes"},
}


@pytest.fixture
def experiment(site: Site, people: People) -> Experiment:
    return measured(site, people.owner, blocks=10, repeats=10)


def keep(experiment: Experiment, site: Site, there: dict[str, Any], **which: Any) -> None:
    """Give all runs the same snapshot, and the container's runs another one."""
    for runs, inside in (
        (experiment.runs.all(), SAME),
        (experiment.runs.filter(environment=site.container, **which), {**SAME, **there}),
    ):
        snapshot = Snapshot.objects.keep({"inside": inside, "outside": {}})
        runs.update(snapshot=snapshot)


LIMITED = {"gpus": [{**SAME["gpus"][0], "power.limit": "300.00 W"}]}


def read(client: Client, experiment: Experiment, name: str, query: str = "") -> str:
    answer: Any = client.get(reverse(name, args=[experiment.pk]) + query)
    assert answer.status_code == 200
    return str((b"".join(answer) if answer.streaming else answer.content).decode())


def open_panel(client: Client, experiment: Experiment) -> Tag:
    page = BeautifulSoup(read(client, experiment, "comparison", "?section=facts"), "html.parser")
    panel = page.select_one("#facts")
    assert panel
    return panel


def list_rows(panel: Tag, caption: str) -> dict[str, list[str]]:
    return {
        " ".join(row.th.text.split()): [" ".join(td.text.split()) for td in row.select("td")]
        for table in panel.select("table")
        if table.caption and table.caption.text.startswith(caption)
        for row in table.select("tbody tr")
        if row.th
    }


def test_a_lower_power_limit_in_some_blocks_is_not_attributable(
    experiment: Experiment, site: Site, as_owner: Client
) -> None:
    keep(experiment, site, LIMITED, repeat__lte=3)
    panel = open_panel(as_owner, experiment)
    differing = list_rows(panel, "What differs")
    assert list(differing) == ["GPU power limit"]
    assert differing["GPU power limit"][:4] == [
        "400.00 W", "300.00 W", "in 3 of 10 blocks", "blocking: not attributable",
    ]  # fmt: skip
    (link,) = panel.select("td a")
    assert link["href"] == reverse("document", args=["confounders"]) + "#gpu"
    assert "facts could be compared in every block" in panel.text
    same = list_rows(panel, "What is the same")
    assert same["variable OMP_NUM_THREADS"] == ["4"]
    page = read(as_owner, experiment, "comparison")
    assert "NOT ATTRIBUTABLE" in page
    assert "CONFOUNDED" in page
    document = as_owner.get(reverse("document", args=["confounders"])).content.decode()
    assert 'id="gpu"' in document


def test_the_files_and_the_paragraphs_say_it(
    experiment: Experiment, site: Site, as_owner: Client
) -> None:
    keep(experiment, site, {**LIMITED, "packages": {"numpy": "2.4.6", "six": "1"}})
    document = json.loads(read(as_owner, experiment, "comparison_json"))
    (pair,) = document["comparison"]
    assert pair["verdict"] == "NOT ATTRIBUTABLE"
    assert pair["facts_blocking"] == "GPU power limit"
    assert pair["facts_likely"] == "package six"
    assert 20 < pair["facts_compared"] < pair["facts_of"]
    assert [(row["fact"], row["grade"], row["blocks"]) for row in document["facts"]] == [
        ("GPU power limit", "blocking", 10),
        ("package six", "likely", 10),
    ]
    (row, *_) = csv.DictReader(io.StringIO(read(as_owner, experiment, "comparison_csv")))
    assert row["facts_blocking"] == "GPU power limit"
    assert "The numbers alone would say SLOWER" in row["sentence"]
    (told,) = [
        text for text in describe_methods(compare_experiment(experiment)) if "confounders" in text
    ]
    assert "between the runs of each block" in told
    assert "GPU power limit (so that the verdict is NOT ATTRIBUTABLE)" in told
    assert "package six (so that the verdict is stamped CONFOUNDED)" in told
    report = read(as_owner, experiment, "report")
    assert "NOT ATTRIBUTABLE" in report


def test_of_many_packages_stamp_and_report_name_a_few_and_panel_and_files_all(
    experiment: Experiment, site: Site, as_owner: Client
) -> None:
    names = [f"package{number:02}" for number in range(60)]
    for environment, version in ((site.bare, "1.3.0"), (site.container, "1.4.0")):
        content = {**SAME, "packages": dict.fromkeys(names, version)}
        snapshot = Snapshot.objects.keep({"inside": content, "outside": {}})
        experiment.runs.filter(environment=environment).update(snapshot=snapshot)
    (pair,) = compare_experiment(experiment).pairs
    reason = pair.reasons[pair.stamps.index(Stamp.CONFOUNDED)]
    assert reason == (
        "package package00: 1.3.0 on the baseline, 1.4.0 here; "
        "package package01: 1.3.0 on the baseline, 1.4.0 here; "
        "package package02: 1.3.0 on the baseline, 1.4.0 here; "
        "package package03: 1.3.0 on the baseline, 1.4.0 here; "
        "and 56 more facts, listed in “Facts compared”."
    )
    assert read(as_owner, experiment, "report").count("1.3.0 on the baseline") == 4
    panel = open_panel(as_owner, experiment)
    assert len(list_rows(panel, "What differs")) == 60
    assert len(panel.select("details")[0].select("tbody tr")) == 48
    assert len(json.loads(read(as_owner, experiment, "comparison_json"))["facts"]) == 60


def test_what_one_side_does_not_know_is_listed_and_changes_nothing(
    experiment: Experiment, site: Site, as_owner: Client
) -> None:
    keep(experiment, site, {"gpus": [], "limits": {"stack": "1 bytes"}, "swap_bytes": "0"})
    (pair,) = compare_experiment(experiment).pairs
    assert pair.verdict is Verdict.SLOWER, "what is not known does not block"
    panel = open_panel(as_owner, experiment)
    one_sided = list_rows(panel, "Known on one side only")
    assert one_sided["GPU power limit"][:2] == ["400.00 W", "not known"]
    assert one_sided["swap"][:2] == ["not known", "0"]
    assert list_rows(panel, "What differs") == {
        "limit of the stack": [
            "8388608 bytes", "1 bytes", "in every block", "cosmetic: shown only",
            "It is the size of threads' stacks, which are not filled.",
        ]
    }  # fmt: skip


@pytest.mark.parametrize("facts", [None, {}])
def test_runs_without_facts_are_not_stamped_and_the_page_says_so(
    experiment: Experiment, as_owner: Client, facts: dict[str, str] | None
) -> None:
    if facts is not None:
        snapshot = Snapshot.objects.keep({"outside": {}})
        Run.objects.filter(experiment=experiment).update(snapshot=snapshot)
    else:
        Run.objects.filter(experiment=experiment).update(snapshot=None)
    (pair,) = compare_experiment(experiment).pairs
    assert Stamp.CONFOUNDED not in pair.stamps
    panel = open_panel(as_owner, experiment)
    assert "could be compared: no snapshots of both sides" in panel.text
    assert "None of them differs" not in panel.text


def test_a_kept_comparison_has_the_same_facts_and_asks_for_none(
    experiment: Experiment, site: Site
) -> None:
    keep(experiment, site, LIMITED, repeat__lte=3)
    computed = compare_experiment(experiment)
    assert keep_comparison(experiment.pk) == "kept"
    with CaptureQueriesContext(
        connection,
    ) as queries:
        kept = read_comparison(experiment)
    assert [pair.facts for pair in kept.pairs] == [pair.facts for pair in computed.pairs]
    assert [pair.verdict for pair in kept.pairs] == [Verdict.NOT_ATTRIBUTABLE]
    assert not any("snapshot" in query["sql"] for query in queries)


def test_names_from_snapshots_are_escaped(
    experiment: Experiment, site: Site, as_owner: Client
) -> None:
    keep(experiment, site, {"packages": {"numpy": "<script>alert(1)</script>"}})
    panel = open_panel(as_owner, experiment)
    assert not panel.select("script")
    assert "<script>alert(1)</script>" in panel.text
