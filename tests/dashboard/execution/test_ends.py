"""How runs and jobs ended, in whole words: pages cut nothing and say nothing twice."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.urls import reverse

from experiments.comparisons.run_rows import list_run_rows
from experiments.models import Experiment, Job, Run, Workload
from experiments.presets import PRESETS
from runners.ends import ENDS
from tests.dashboard.conftest import Site
from tests.factories import OperationFactory

pytestmark = pytest.mark.django_db
BAR = "\r10/100 [=>...]\r100/100 [====]\n\x1b[31mTraceback\x1b[0m: no such file\n"


@pytest.fixture
def failed(results: Experiment) -> Run:
    run = results.runs.all()[0]
    message = "The program ended: " + "x" * 300 + " /scratch/deep/folder/weights.h5 is missing"
    Run.objects.filter(pk=run.pk).update(
        state="failed",
        reason="time limit reached",
        message=f"time limit reached: {message}",
        exit_code=137,
        output_tail=BAR,
        command="python train.py " + " ".join(f"--option-{n}=value" for n in range(200)),
    )
    run.refresh_from_db()
    return run


def test_a_runs_page_explains_its_end_and_shows_its_output_as_a_terminal_would(
    failed: Run, as_owner: Client
) -> None:
    page = as_owner.get(failed.get_absolute_url()).content.decode()
    assert "137 (SIGKILL: killed, often because memory ran out)" in page
    assert page.count("time limit reached") == 1
    assert "/scratch/deep/folder/weights.h5 is missing" in page
    assert failed.command in page
    assert 'data-copy="command"' in page
    assert "100/100 [====]\nTraceback: no such file" in page
    assert "10/100 [=&gt;" not in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", page)
    failed.refresh_from_db()
    assert failed.output_tail == BAR  # what was printed is kept as it was


def test_the_failed_list_shows_the_whole_message(failed: Run, as_owner: Client) -> None:
    page = as_owner.get(failed.experiment.get_absolute_url()).content.decode()
    assert "/scratch/deep/folder/weights.h5 is missing" in page


@pytest.mark.parametrize("reason", ["node failure", "program missing"])
def test_pages_and_exports_say_whose_cause_an_end_is_and_what_to_do(
    failed: Run, as_owner: Client, reason: str
) -> None:
    Run.objects.filter(pk=failed.pk).update(reason=reason)
    Job.objects.filter(pk=failed.job_id).update(state="failed", reason=reason)
    jobs = f"{failed.experiment.get_absolute_url()}?tab=jobs"
    for address, times in ((failed.get_absolute_url(), 1), (jobs, 2)):
        page = html.unescape(as_owner.get(address).content.decode())
        assert page.count(ENDS[reason].advice) == times
    (row,) = [row for row in list_run_rows(failed.experiment) if row["run"] == failed.uid]
    assert (row["reason"], row["cause"]) == (reason, ENDS[reason].cause)


def test_an_operation_shows_its_output_as_a_terminal_would(as_owner: Client, site: Site) -> None:
    operation = OperationFactory(
        staged_image__cluster=site.cluster,
        cluster=site.cluster,
        state="failed",
        output_tail=BAR,
        message="\x1b[31mno space left\x1b[0m",
        exit_code=139,
    )
    page = as_owner.get(reverse("operation", args=[operation.pk])).content.decode()
    assert "100/100 [====]\nTraceback" in page
    assert "no space left" in page
    assert "139 (SIGSEGV: segmentation fault)" in page
    assert "\x1b" not in page


@pytest.mark.parametrize("address", ["/catalogue/presets/", *PRESETS])
def test_presets_cite_papers_and_no_files(address: str, as_owner: Client, site: Site) -> None:
    known = PRESETS.get(address)
    page = as_owner.get(reverse("preset", args=[address]) if known else address).content.decode()
    for preset in [known] if known else PRESETS.values():
        assert preset.paper.authors[0] in page
        assert f"({preset.paper.year})" in page
        if preset.paper.doi:
            assert f'href="https://doi.org/{preset.paper.doi}"' in page
    assert not re.search(r"\b\d{3}_[0-9a-f]{8}", page)


def test_commands_are_shown_whole(as_owner: Client, site: Site) -> None:
    command = "python train.py " + " ".join(f"--option-{n}=value" for n in range(60))
    parameters = {"argv": command, "read": "recorder"}
    row = Workload.objects.create(
        name="mine",
        kind="command",
        parameters=parameters,
        time_limit_seconds=60,
        owner=site.workload.owner,
        visibility="members",
    )
    for address in ("/catalogue/?tab=workloads", reverse("workload", args=[row.pk])):
        assert command in as_owner.get(address).content.decode()
    page = as_owner.get(reverse("preset", args=["tf-cnn-benchmarks"])).content.decode()
    assert "…" not in page
