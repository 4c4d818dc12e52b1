"""The job script beside the form of an experiment."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import HTMX, NEW, asked
from tests.factories import ClusterFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

SCRIPT = "/experiments/new/script/"


def text(answer: Any) -> str:
    assert answer.status_code == 200
    return " ".join(BeautifulSoup(answer.content, "html.parser").get_text(" ").split())


def test_the_script_of_any_block_stands_beside_the_form(as_owner: Client, site: Site) -> None:
    sent = asked(site, question="", repeats="6", cooldown_seconds="17")
    for block, at in (("1", "repeat 1"), ("6", "repeat 6"), ("99", "Block 6 of 6"), ("x", "of 6")):
        shown = text(as_owner.post(SCRIPT, sent | {"block": block}, headers=HTMX))
        assert at in shown
        assert "#SBATCH" in shown or "#!/bin/bash" in shown
        assert "cool_down 17" in shown


def test_the_script_says_what_it_waits_for(as_owner: Client, site: Site) -> None:
    assert "Waits for: Scales." in text(as_owner.post(SCRIPT, asked(site, scales="1x9")))
    shown = text(as_owner.post(SCRIPT, {}))
    assert "Waits for: Cluster" in shown
    odd = asked(site, repeats="1e9", workloads=["x"], environments=["\0"], design="?")
    assert "Waits for: Workloads, Environments, Repeats, Design" in text(as_owner.post(SCRIPT, odd))


def test_a_cluster_that_is_not_mine_gives_no_script(as_owner: Client, site: Site) -> None:
    closed = ClusterFactory(name="closed", transport="ssh", host="x", setup_lines="secret words")
    shown = text(as_owner.post(SCRIPT, asked(site, cluster=closed.pk)))
    assert "Waits for: Cluster" in shown
    assert "secret words" not in shown


def test_a_workload_that_is_not_mine_is_in_no_script(as_owner: Client, site: Site) -> None:
    hidden = WorkloadFactory(name="their secret", visibility="private")
    shown = text(as_owner.post(SCRIPT, asked(site, workloads=[hidden.pk])))
    assert "their secret" not in shown


def test_what_is_typed_is_escaped(as_owner: Client, site: Site) -> None:
    site.bare.variables = {"X": "</pre><script>alert(1)</script>"}
    site.bare.save()
    page = as_owner.post(SCRIPT, asked(site)).content.decode()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_without_javascript_the_script_comes_with_the_cost(as_owner: Client, site: Site) -> None:
    answer = as_owner.post(NEW, asked(site) | {"action": "preview", "block": "2"})
    assert "Block 2 of 5" in text(answer)


def test_no_more_is_asked_for_more_workloads(as_owner: Client, site: Site) -> None:
    def count(**changes: Any) -> int:
        with CaptureQueriesContext(connection) as asked_for:
            as_owner.post(SCRIPT, asked(site, **changes))
        return len(asked_for)

    few = count()
    many = [WorkloadFactory(owner=site.workload.owner).pk for _ in range(20)]
    assert count(workloads=many) == few
